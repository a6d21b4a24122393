"""The imputation predictor: how well can a small network tell, unit by unit, what was removed from what was kept?

An imputer that hides its work leaves it nothing but the base rate: error min(p, 1 - p). A fixed fill gives itself
away: error near 0. The idea is that of Rong et al. (ICML 2022, section 5.1); what differs from the released
experiment: one network serves all shares (it is told the share), it reads each unit with its neighbours, and it is
handed the three traces that fills leave (distance from the neighbours' weighted mean, from the commonest value of the
image and from that of all images), so that it has little to learn. The error of any network
is an upper bound of what can be seen: a low error shows that a fill reveals, a high one only that this network
was blind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from roadworthy.errors import InputError
from roadworthy.evaluation.degrade import Filler
from roadworthy.imputation import Imputer
from roadworthy.removal import removed_at, units_removed
from roadworthy.rng import permutations, torch_generator
from roadworthy.types import Unit

Effort: TypeAlias = Literal["quick", "thorough"]

LEAST = 8  # samples below which nothing can be learned and judged
_NEAR = 0.01  # differences below this share of a channel's spread count as none
_Z = 1.959964  # of a two-sided 95 % interval


_MOST = 2000  # samples to train on, however small they are
_TRAINED = 0.7  # the share of samples that is trained on; the others are judged


@dataclass(frozen=True)
class _Plan:
    """What an effort spends: copies of each training sample, units in all of them, the network, epochs."""

    copies: int
    units: int
    width: int
    reach: int
    epochs: int


_PLANS = {
    "quick": _Plan(copies=2, units=240_000, width=24, reach=1, epochs=3),
    "thorough": _Plan(copies=2, units=1_300_000, width=32, reach=3, epochs=8),
}


class _Filled(NamedTuple):
    """Filled samples (N, C, ...), what was removed of them, bool (N, units, ...), and the share of each (N,)."""

    images: torch.Tensor
    removed: torch.Tensor
    share: torch.Tensor


def imputation_error(
    images: torch.Tensor,
    imputer: Imputer,
    *,
    fraction: float,
    mean: torch.Tensor | None,
    seed: int,
    ids: Sequence[str],
    effort: Effort = "quick",
    removed: np.ndarray | torch.Tensor | None = None,
) -> dict[str, Any]:
    """Train a small network to tell removed units from kept ones, and return its error on samples it never saw.

    Args:
        images: (N, C, H, W), (N, C, T) or (N, F), floating, in pixel units; or integer token ids (N, T). On token
            ids a table of how often each id stands for something removed takes the network's place.
        imputer: what fills; its noise is added as in an evaluation.
        fraction: share removed, in [0, 1].
        mean: training mean per channel (C,), in pixel units, for the imputers that need it.
        seed: of masks, fills, network and order of training.
        ids: N sample ids; draws are tied to them.
        effort: ``"quick"``, or ``"thorough"``: more samples, more epochs and a wider view.
        removed: bool, (N, *positions) or of the images' shape: the masks; None draws random ones of the exact count.

    Returns:
        ``fraction``; ``error``: share of units told wrong, at most ``base``; ``low``, ``high``: its 95 % interval
        over samples; ``base``: min(p, 1 - p) at the share really removed, the guess of one that sees nothing;
        ``n``: samples judged. With fewer than eight samples the three figures are None.

    Raises:
        InputError: shapes that do not fit, an unknown effort, or an imputer without a meaning for this input.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022), section 5.

    Example:
        >>> from roadworthy.imputation import Zero
        >>> images = 0.2 + 0.8 * torch.rand(60, 1, 12, 12, generator=torch.Generator().manual_seed(0))
        >>> found = imputation_error(
        ...     images, Zero(), fraction=0.3, mean=None, seed=0, ids=[str(i) for i in range(60)]
        ... )
        >>> found["error"] < 0.02, round(found["base"], 2)
        (True, 0.3)
    """
    found = imputation_errors(
        images, imputer, fractions=(fraction,), mean=mean, seed=seed, ids=ids, effort=effort, removed=removed
    )
    return found[0]


def imputation_errors(
    images: torch.Tensor,
    imputer: Imputer,
    *,
    fractions: Sequence[float],
    mean: torch.Tensor | None,
    seed: int,
    ids: Sequence[str],
    effort: Effort = "quick",
    unit: Unit = "pixel",
    removed: np.ndarray | torch.Tensor | None = None,
) -> list[dict[str, Any]]:
    """Do as :func:`imputation_error` for several shares with one network, which is told the share.

    Args:
        images: as there.
        imputer: as there.
        fractions: shares removed, in [0, 1].
        mean: as there.
        seed: as there.
        ids: as there.
        effort: as there.
        unit: of the random masks: ``"pixel"`` (all channels of a position together) or ``"channel"``.
        removed: as there; with one share only.

    Returns:
        One mapping a share.

    Raises:
        InputError: as there.

    Example:
        >>> from roadworthy.imputation import Zero
        >>> few = imputation_errors(torch.rand(4, 1, 6, 6), Zero(), fractions=(0.5, 1), mean=None, seed=0, ids="abcd")
        >>> [(one["error"], one["base"]) for one in few]
        [(None, 0.5), (0.0, 0.0)]
    """
    masks = _checked_masks(images, fractions, ids, effort, unit, removed, seed)
    imputer.check(tuple(images.shape), "channel" if masks.shape == images.shape[1:] else "pixel")
    plan = _PLANS[effort]
    train, judged = _parts(len(images), math.prod(masks.shape), plan, seed)
    open_shares = [share for share in fractions if 0 < masks.count(share) < math.prod(masks.shape)]
    bench = _Bench(images, list(ids), Filler(imputer, mean, seed, images.device), masks)
    predict = None
    if open_shares and len(train):
        with torch.inference_mode(False), torch.enable_grad():
            predict = _trained(bench, train, open_shares, plan, seed)
    with torch.no_grad():
        return [_judged(bench, judged, share, share in open_shares, predict) for share in fractions]


class _Masks:
    """Masks by share and sample: random ones of the exact count, or those given."""

    def __init__(self, shape: tuple[int, ...], seed: int, given: torch.Tensor | None) -> None:
        self.shape, self._seed, self._given = shape, seed, given

    def count(self, fraction: float) -> float:
        """Return how many units of a sample are removed, over those given the mean."""
        if self._given is None:
            return units_removed(math.prod(self.shape), fraction)
        return float(self._given.double().mean()) * math.prod(self.shape)

    def draw(self, rows: Sequence[int], ids: Sequence[str], fractions: Sequence[float], copy: int) -> np.ndarray:
        """Return bool (n, *shape) for these samples, each at its share."""
        if self._given is not None:
            return self._given[list(rows)].cpu().numpy()
        ranks = permutations(self._seed, f"audit-masks/{copy}", ids, math.prod(self.shape))
        masks = [removed_at(row[None], share) for row, share in zip(ranks, fractions, strict=True)]
        return np.concatenate(masks).reshape(-1, *self.shape)


class _Bench(NamedTuple):
    """Samples, what fills them, and the masks."""

    images: torch.Tensor
    ids: list[str]
    filler: Filler
    masks: _Masks

    def filled(self, rows: Sequence[int], fractions: Sequence[float], copy: int) -> _Filled:
        """Fill these samples, each at its share."""
        ids = [self.ids[row] for row in rows]
        images = self.images[list(rows)].clone().to(self.filler.place)
        masks = self.masks.draw(rows, ids, fractions, copy)
        noise = self.filler.noise(ids, tuple(images.shape[1:]), copy)
        _, filled = self.filler.fill(images, masks, noise, key=("audit", copy, *ids[:1]))
        removed = torch.from_numpy(masks).to(self.images.device)
        if masks.ndim == images.ndim - 1:
            removed = removed.unsqueeze(1)
        return _Filled(filled.to(self.images.device), removed, removed.flatten(1).double().mean(1).float())


def _checked_masks(
    images: torch.Tensor,
    fractions: Sequence[float],
    ids: Sequence[str],
    effort: str,
    unit: Unit,
    removed: np.ndarray | torch.Tensor | None,
    seed: int,
) -> _Masks:
    if effort not in _PLANS:
        raise InputError(f"effort: got {effort!r}, expected 'quick' or 'thorough'")
    if images.ndim not in (2, 3, 4) or len(ids) != len(images):
        raise InputError(
            f"images: got shape {tuple(images.shape)} with {len(ids)} ids, expected (N, C, H, W), (N, C, T) or "
            "(N, F) and one id a sample"
        )
    shape = tuple(images.shape[1:])
    positions = shape if len(shape) == 1 or unit == "channel" else shape[1:]
    if removed is None:
        return _Masks(positions, seed, None)
    given = torch.as_tensor(removed)
    if given.dtype != torch.bool or tuple(given.shape) not in ((len(images), *shape), (len(images), *shape[1:])):
        raise InputError(
            f"removed: got {given.dtype} of shape {tuple(given.shape)}, expected bool {(len(images), *shape[1:])} or "
            f"{(len(images), *shape)}, True = removed"
        )
    if len(fractions) != 1:
        raise InputError(f"removed: masks came for {len(fractions)} shares, expected one share")
    return _Masks(tuple(given.shape[1:]), seed, given)


def _parts(n: int, units: int, plan: _Plan, seed: int) -> tuple[list[int], list[int]]:
    """Draw the samples to train on and those to judge; none to train on where there are too few."""
    order = torch.randperm(n, generator=torch_generator(seed, "audit-parts")).tolist()
    most = min(_MOST, max(2 * LEAST, plan.units // max(1, units * plan.copies)))
    train = min(most, math.ceil(n * _TRAINED))
    judged = order[train : train + math.ceil(most * (1 / _TRAINED - 1))]
    return (order[:train] if n >= LEAST else []), judged


def _judged(
    bench: _Bench, rows: list[int], fraction: float, is_open: bool, predict: Callable[[_Filled], torch.Tensor] | None
) -> dict[str, Any]:
    """Return the error at one share; where nothing or everything is removed there is nothing to tell."""
    units = math.prod(bench.masks.shape)
    share = bench.masks.count(fraction) / max(1, units)
    found: dict[str, Any] = {"fraction": float(fraction), "base": min(share, 1 - share), "n": len(rows)}
    if not is_open:
        return {**found, "error": 0.0, "low": 0.0, "high": 0.0}
    if predict is None:
        return {**found, "error": None, "low": None, "high": None}
    filled = bench.filled(rows, [fraction] * len(rows), copy=99)
    errors = (predict(filled) != filled.removed).flatten(1).double().mean(1)
    middle, half = float(errors.mean()), _Z * float(errors.std()) / math.sqrt(len(rows))
    # a network worse than the base rate saw nothing: the better guess is always at hand, and its error is known
    error, low, high = (min(max(0.0, value), found["base"]) for value in (middle, middle - half, middle + half))
    return {**found, "error": error, "low": low, "high": high}


def _trained(
    bench: _Bench, rows: list[int], fractions: Sequence[float], plan: _Plan, seed: int
) -> Callable[[_Filled], torch.Tensor]:
    """Train on these samples and return what says of each unit whether it was removed."""
    parts = [
        bench.filled(rows, [fractions[(i + 3 * copy) % len(fractions)] for i in range(len(rows))], copy)
        for copy in range(plan.copies)
    ]
    filled = _Filled(*(torch.cat(field) for field in zip(*parts, strict=True)))
    if not filled.images.is_floating_point():
        return _table(filled)
    view = _View.of(filled)
    network = _Network(view(filled).shape, filled.removed.shape, plan, torch_generator(seed, "audit-predictor"))
    network.fit(view(filled), filled, plan.epochs, torch_generator(seed, "audit-order"))
    return lambda other: network.logits(view(other), other.share) > 0


def _table(filled: _Filled) -> Callable[[_Filled], torch.Tensor]:
    """Tell token ids by a table: an id that stands more often for something removed than for something kept."""
    ids, place = filled.images.unique(return_inverse=True)
    gone = torch.bincount(place[filled.removed], minlength=len(ids))
    revealing = ids[2 * gone > torch.bincount(place.flatten(), minlength=len(ids))]
    return lambda other: torch.isin(other.images, revealing)


class _View(NamedTuple):
    """What the network is shown: values and the traces that fills leave, in units of each channel's spread."""

    centre: torch.Tensor
    spread: torch.Tensor
    common: torch.Tensor
    apart: bool  # whether the channels of a position are told apart

    @staticmethod
    def of(filled: _Filled) -> _View:
        """Measure centre, spread and commonest value of each channel, or of each feature of a table."""
        rows = filled.images.transpose(0, 1).flatten(1)
        shape = (1, -1, *[1] * (filled.images.ndim - 2))
        spread = rows.std(1).nan_to_num(1.0)
        spread = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        apart = filled.removed.shape == filled.images.shape
        return _View(rows.mean(1).view(shape), spread.view(shape), rows.mode(1).values.view(shape), apart)

    def __call__(self, filled: _Filled) -> torch.Tensor:
        images = filled.images
        parts = [(images - self.centre) / self.spread, self._far(images - self.common)]
        if images.ndim > 2:
            own = images.flatten(2).mode(2).values
            off = images - _neighbours(images)
            parts += [self._far(images - own.view(*own.shape, *[1] * (images.ndim - 2)))]
            parts += [4 * off / self.spread, self._far(off)]
        return torch.cat(parts, 1)

    def _far(self, difference: torch.Tensor) -> torch.Tensor:
        size = (difference / self.spread).abs()
        return 1 + torch.log((size if self.apart else size.amax(1, keepdim=True)) + _NEAR)


def _neighbours(images: torch.Tensor) -> torch.Tensor:
    """Return the weighted mean of each unit's neighbours, 1/6 for direct and 1/12 for diagonal ones."""
    flat = images.unsqueeze(2) if images.ndim == 3 else images
    padded = functional.pad(flat, (1, 1, 1, 1), mode="replicate")
    rows = padded[:, :, :-2] + padded[:, :, 2:] + 2 * padded[:, :, 1:-1]
    return ((rows[..., :-2] + rows[..., 2:] + 2 * rows[..., 1:-1] - 4 * flat) / 12).reshape(images.shape)


class _Network:
    """Three layers: 3 wide, then ``reach`` wide, then one logit a unit; dense for tables.

    Args:
        seen: shape of what it reads, (N, features, *positions).
        told: shape of what it tells, (N, units, *positions).
        plan: width and reach.
        generator: of the first weights.
    """

    def __init__(self, seen: torch.Size, told: torch.Size, plan: _Plan, generator: torch.Generator) -> None:
        spatial = len(seen) - 2
        width = plan.width if spatial else 64
        sizes = [(seen[1] + 1, width, 3), (width, width, plan.reach), (width, told[1], 1)]
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        for inputs, outputs, side in sizes:
            kernel = [1, side][-spatial:] if spatial == 1 else [side] * spatial
            scale = math.sqrt(2 / (inputs * math.prod(kernel)))
            weight = scale * torch.randn(outputs, inputs, *kernel, generator=generator)
            self.layers.append((weight, torch.zeros(outputs)))
        self._apply = (functional.linear, functional.conv1d, functional.conv2d)[spatial]

    def logits(self, seen: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Return a logit a unit: above 0 is removed."""
        odds = torch.logit(share, eps=1e-4).view(-1, *[1] * (seen.ndim - 1))
        hidden = torch.cat([seen, (odds / 2).expand(-1, 1, *seen.shape[2:])], 1)
        for number, (weight, bias) in enumerate(self.layers):
            around = {} if seen.ndim == 2 else {"padding": weight.shape[-1] // 2}
            hidden = self._apply(hidden, weight, bias, **around)
            if number < 2:
                hidden = hidden.relu()
        return hidden + odds

    def fit(self, seen: torch.Tensor, filled: _Filled, epochs: int, generator: torch.Generator) -> None:
        """Train by Adam in batches of about 4,000 units, with a rate that rises and falls."""
        parameters = [value.to(seen.device).requires_grad_() for layer in self.layers for value in layer]
        self.layers = list(zip(parameters[::2], parameters[1::2], strict=True))
        units = max(1, filled.removed[0].numel())
        batch = min(64, max(1, 4096 // units))
        steps = max(epochs * math.ceil(len(seen) / batch), 150)
        optimizer = torch.optim.Adam(parameters, lr=0.01, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=steps, pct_start=0.2)
        wanted, order = filled.removed.float(), torch.empty(0, dtype=torch.int64)
        for _ in range(steps):
            if not len(order):
                order = torch.randperm(len(seen), generator=generator)
            rows, order = order[:batch].to(seen.device), order[batch:]
            logits = self.logits(seen[rows], filled.share[rows])
            loss = functional.binary_cross_entropy_with_logits(logits, wanted[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
