"""Imputers held side by side before one is used: what each gives away, how far it is off, and what it costs.

A good fill hides which units were removed (Rong et al., ICML 2022: minimally revealing imputation), stays near what
stood there, and leaves the model's answers alone where nothing that matters was removed. No fill is best at all of
them: the audit shows the figures, and gives one line for each imputer that follows from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.ndimage
import scipy.stats
import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.audit.predictor import LEAST, Effort, imputation_error, imputation_errors
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.inputs import block_size
from roadworthy.forward import Classifier, untouched
from roadworthy.imputation import NOISE, Imputer, resolve_imputer
from roadworthy.labels import as_labels
from roadworthy.removal import ranks_without_ties, removed_at
from roadworthy.rng import normal_fields, permutations, resolve_seed
from roadworthy.statistics import curve_bands
from roadworthy.types import Normalize, Output, Progress, Seed

if TYPE_CHECKING:
    import pandas as pd

Masks: TypeAlias = Literal["random", "blobs"]
FRACTIONS = (0.3, 0.5, 0.7)
HIDES, REVEALS = 2 / 3, 1 / 3  # share of the base rate that the predictor's error must surely be above, or below
_BLOB = 1 / 12  # standard deviation of the noise that makes blobs, as a share of the longest side
_DRAWS = 2000


def audit_imputers(
    images: torch.Tensor,
    imputers: Sequence[Any] | Mapping[str, Any],
    *,
    fractions: Sequence[float] = FRACTIONS,
    mean: Sequence[float] | torch.Tensor | None = None,
    masks: Masks = "random",
    noise: float = NOISE,
    model: Callable[..., Any] | None = None,
    labels: Sequence[int] | np.ndarray | torch.Tensor | None = None,
    normalize: Normalize | None = None,
    output: Output = None,
    ids: Sequence[str] | None = None,
    seed: Seed = 0,
    effort: Effort = "quick",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Judge imputers by what their fills give away and by how far they are from the truth.

    Args:
        images: (N, C, H, W) or (N, C, T), floating, in pixel units; images that no imputer was trained on.
        imputers: names (``"gain:FILE"`` for a trained one), callables or imputer objects; or a mapping of names for
            the table to such.
        fractions: shares removed, in (0, 1).
        mean: training-set mean per channel, in pixel units, for the imputers that need it.
        masks: ``"random"``: every unit as likely as any other; ``"blobs"``: connected regions, as smooth maps leave
            them, about a twelfth of the longest side wide. Masks of growing shares are nested, and the same for all.
        noise: standard deviation of noisy-linear's noise, in pixel units.
        model: a classifier that is asked about intact and filled images; None asks none.
        labels: int (N,), for the accuracy on filled images.
        normalize: ``(mean, std)`` applied before the model.
        output: where the model's scores are, see :func:`roadworthy.evaluate`.
        ids: N sample ids; positions by default. Masks and noise are tied to them.
        seed: of masks, noise and the predictor.
        effort: of the predictor, ``"quick"`` or ``"thorough"``.
        device: where fills are computed; the model's, or the CPU.
        max_batch: images in one pass through the model.
        progress: called with 1 for each imputer and share that is done.

    Returns:
        A DataFrame, a row per imputer and share: ``imputer``, ``fraction``, ``n``; ``predictor_error`` with
        ``predictor_low``, ``predictor_high`` (see :func:`roadworthy.evaluation.audit.predictor.imputation_error`) and
        ``base`` (what is left to guessing); ``rmse`` of removed units against what stood there, in pixel units, noise
        included, with ``rmse_low``, ``rmse_high`` (bootstrap over images, 95 %); ``peeks``: whether the fill changes
        with what was removed, as that of ``blur`` does: its content shows through; ``ms``: milliseconds a fill takes
        an image, in blocks as an evaluation makes them. With a model: ``agreement``, the share of images whose answer
        is that on the intact image, and with labels ``accuracy``, each with ``_low`` and ``_high`` (Wilson, 95 %).
        ``.attrs["verdicts"]`` maps each imputer to its line; ``.attrs`` also holds n, masks, seed, effort and, with a
        model, ``intact_accuracy``.

    Raises:
        InputError: images, shares or names that cannot be used, or an imputer without a meaning for these images.
        MissingExtraError: an imputer needs a package that is not installed.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022), section 5.

    Example:
        >>> ramp = torch.linspace(0.2, 0.8, 10).expand(20, 1, 10, 10).contiguous()
        >>> table = audit_imputers(ramp, ["noisy-linear", "zero"], fractions=[0.3])
        >>> table.imputer.tolist(), (table.rmse < 0.1).tolist(), table.attrs["verdicts"]["zero"][:37]
        (['noisy-linear', 'zero'], [True, False], 'zero: reveals what was removed (error')
    """
    import pandas as pd

    number = resolve_seed(seed)
    names = [str(i) for i in range(len(images))] if ids is None else [str(name) for name in ids]
    shares = _checked(images, names, fractions)
    chosen = _resolved(imputers, noise, tuple(images.shape))
    asked = _Asked.of(model, images, labels, normalize=normalize, output=output, max_batch=max_batch)
    place = asked.classifier.device if asked is not None else torch.device("cpu")
    place = torch.device(device) if device is not None else place
    means = None if mean is None else torch.as_tensor(mean, dtype=images.dtype)
    removed = {share: draw_masks(masks, tuple(images.shape), names, share, number) for share in shares}
    rows = []
    for name, imputer in chosen.items():
        filler = Filler(imputer, means, number, place)
        errors = _revealed(filler, images, removed, names, masks, effort)
        for share, found in zip(shares, errors, strict=True):
            filled, ms = _filled(filler, images, removed[share], names, share)
            row = {"imputer": name, "fraction": share, "n": len(images), **found}
            row |= _distortion(images, filled, removed[share], number)
            row |= {"peeks": _peeks(filler, images, removed[share]), "ms": ms}
            rows.append(row if asked is None else row | asked.about(filled))
            if progress is not None:
                progress(1)
    table = pd.DataFrame(rows)
    table.attrs = {"n": len(images), "masks": masks, "seed": number, "effort": effort}
    if asked is not None:
        table.attrs["intact_accuracy"] = asked.intact_accuracy
    table.attrs["verdicts"] = verdicts(table)
    return table


def draw_masks(masks: Masks, shape: tuple[int, ...], ids: Sequence[str], fraction: float, seed: int) -> np.ndarray:
    """Draw masks of the exact share, nested over shares, each from the sample's own stream.

    Args:
        masks: ``"random"`` or ``"blobs"``.
        shape: of the images, (N, C, H, W) or (N, C, T).
        ids: sample ids.
        fraction: share removed.
        seed: of the draws.

    Returns:
        bool (N, H, W) or (N, T), True = removed.

    Raises:
        InputError: another word.

    Example:
        >>> draw_masks("random", (2, 3, 4, 5), ["a", "b"], 0.25, seed=0).sum(axis=(1, 2)).tolist()
        [5, 5]
    """
    units, count = shape[2:], int(np.prod(shape[2:]))
    if masks == "random":
        ranks = permutations(seed, "imputer-audit", ids, count)
    elif masks == "blobs":
        grain = max(1.0, max(units) * _BLOB)
        fields = normal_fields(seed, "imputer-audit", ids, units)
        smooth = scipy.ndimage.gaussian_filter(fields, grain, axes=tuple(range(1, fields.ndim)), mode="nearest")
        ranks, _ = ranks_without_ties(smooth, "lerf")
    else:
        raise InputError(f"masks: got {masks!r}, expected 'random' or 'blobs'")
    return removed_at(ranks.reshape(len(ids), *units), fraction)


def verdicts(table: pd.DataFrame) -> dict[str, str]:
    """Write one line for each imputer of a table; every number in it stands in the table.

    Args:
        table: what :func:`audit_imputers` returns.

    Returns:
        Imputer to line. An imputer ``hides`` what was removed where the predictor's error, over all shares, is surely
        (95 %) above 2/3 of guessing, ``reveals`` it where it is surely below 1/3, else ``partly reveals`` it;
        with too few images for the predictor, or where a share removes nothing, ``cannot tell``, and why.
    """
    blind = table[~table.groupby("imputer")["peeks"].transform("any")]
    best = blind.groupby("imputer")["rmse"].mean().idxmin() if blind.imputer.nunique() > 1 else None
    lines = {}
    for name, rows in table.groupby("imputer", sort=False):
        text = f"{name}: {_says(rows)} (error of a predictor {_series(rows.predictor_error)} where guessing has "
        text += f"{_series(rows.base)}, at shares {_series(rows.fraction, 'g')}); off by {_series(rows.rmse)}"
        text += ", the nearest to the true pixels of those that do not see them" if name == best else ""
        text += "; made from what was removed, so that content shows through" if rows.peeks.any() else ""
        if "agreement" in rows:
            text += f"; the model answers as before on {_series(rows.agreement)} of the images"
        lines[str(name)] = f"{text}; {float(rows.ms.mean()):.2g} ms an image"
    return lines


def _says(rows: pd.DataFrame) -> str:
    base = float(rows.base.sum())
    open_ = "cannot tell whether it reveals what was removed"
    if rows.predictor_error.isna().any():
        return f"{open_}: a predictor needs {LEAST} images or more to learn from and be judged on, got {rows.n.min()}"
    if base == 0:
        return f"{open_}: nothing is left to guess at these shares"
    low, high = float(rows.predictor_low.sum()) / base, float(rows.predictor_high.sum()) / base
    if low > HIDES:
        return "hides what was removed"
    return "reveals what was removed" if high < REVEALS else "partly reveals what was removed"


def _series(values: Any, form: str = ".3f") -> str:
    return " / ".join("unknown" if np.isnan(value) else format(value, form) for value in values)


def _checked(images: torch.Tensor, ids: Sequence[str], fractions: Sequence[float]) -> list[float]:
    if not isinstance(images, torch.Tensor) or images.ndim not in (3, 4) or not images.is_floating_point():
        got = f"{images.dtype} {tuple(images.shape)}" if isinstance(images, torch.Tensor) else type(images).__name__
        raise InputError(f"images: got {got}, expected a floating tensor (N, C, H, W) or (N, C, T) in pixel units")
    if len(images) == 0 or len(ids) != len(images):
        raise InputError(f"images: got {len(images)} with {len(ids)} ids, expected at least one and an id each")
    return check_shares(fractions, int(np.prod(images.shape[2:])))


def check_shares(fractions: Sequence[float], units: int) -> list[float]:
    """Return the shares in growing order, refusing those that remove no unit or all of them.

    Raises:
        InputError: such a share, or none at all.

    Example:
        >>> check_shares([0.5, 0.3], units=64)
        [0.3, 0.5]
    """
    shares = sorted({float(share) for share in fractions})
    if not shares or not all(1 / units <= share < 1 for share in shares):
        raise InputError(
            f"fractions: got {list(fractions)}, expected shares removed between {1 / units:.2g} (one unit) and 1"
        )
    return shares


def _resolved(
    imputers: Sequence[Any] | Mapping[str, Any], noise: float, shape: tuple[int, ...]
) -> dict[str, Imputer]:
    pairs = imputers.items() if isinstance(imputers, Mapping) else [(None, given) for given in imputers]
    found: dict[str, Imputer] = {}
    for name, given in pairs:
        imputer = resolve_imputer(given, noise=noise)
        label = str(name or (given if isinstance(given, str) else imputer.name))
        if label in found:
            raise InputError(f"imputers: {label!r} comes twice; pass a mapping of names to imputers")
        imputer.check(shape, "pixel")
        found[label] = imputer
    if not found:
        raise InputError("imputers: got none, expected at least one name, callable or imputer")
    return found


def _revealed(
    filler: Filler,
    images: torch.Tensor,
    removed: Mapping[float, np.ndarray],
    ids: Sequence[str],
    masks: Masks,
    effort: Effort,
) -> list[dict[str, Any]]:
    """Ask the predictor: one network for random masks of all shares, one each for given masks."""
    shared: dict[str, Any] = {"mean": filler.mean, "seed": filler.seed, "ids": ids, "effort": effort}
    images = images.to(filler.place)
    if masks == "random":
        found = imputation_errors(images, filler.imputer, fractions=list(removed), **shared)
    else:
        found = [
            imputation_error(images, filler.imputer, fraction=share, removed=mask, **shared)
            for share, mask in removed.items()
        ]
    return [
        {
            "predictor_error": np.nan if row["error"] is None else row["error"],
            "predictor_low": np.nan if row["low"] is None else row["low"],
            "predictor_high": np.nan if row["high"] is None else row["high"],
            "base": row["base"],
        }
        for row in found
    ]


def _blocks(images: torch.Tensor) -> Iterator[slice]:
    size = block_size(images.shape[1:])
    for start in range(0, len(images), size):
        yield slice(start, start + size)


def _filled(
    filler: Filler, images: torch.Tensor, removed: np.ndarray, ids: Sequence[str], share: float
) -> tuple[torch.Tensor, float]:
    """Fill all images in blocks; return them with the milliseconds each took."""
    parts, seconds = [], 0.0
    first = slice(0, 1)
    filler.fill(images[first].to(filler.place), removed[first], None, key=("imputer-audit", "warm-up"))
    for rows in _blocks(images):
        block = images[rows].to(filler.place)
        noise = filler.noise(ids[rows], tuple(images.shape[1:]), 0)
        started = _now(filler.place)
        _, filled = filler.fill(block, removed[rows], noise, key=("imputer-audit", str(share), rows.start))
        seconds += _now(filler.place) - started
        parts.append(filled.to(images.device))
    return torch.cat(parts), 1000 * seconds / len(images)


def _peeks(filler: Filler, images: torch.Tensor, removed: np.ndarray) -> bool:
    """Say whether other values in the place of what is removed change the fill of some images."""
    rows = next(_blocks(images))
    given, mask = images[rows].to(filler.place), removed[rows]
    gone = torch.from_numpy(mask).to(filler.place).unsqueeze(1).expand_as(given)
    other = torch.where(gone, given.amin() + given.amax() - given, given)
    one, two = (filler.fill(part, mask, None, key=("imputer-audit", "peeks"))[0] for part in (given, other))
    return not torch.equal(one[gone], two[gone])


def _now(place: torch.device) -> float:
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    return time.perf_counter()


def _distortion(images: torch.Tensor, filled: torch.Tensor, removed: np.ndarray, seed: int) -> dict[str, float]:
    """Return the root mean squared error of removed units, with its interval over images."""
    mask = torch.from_numpy(removed).unsqueeze(1).to(images.device)
    squares = torch.where(mask, (filled.double() - images.double()).square(), 0.0).flatten(1).sum(1)
    means = (squares / (mask.flatten(1).sum(1) * images.shape[1])).cpu().numpy()
    low, high = curve_bands(means[None, None], draws=_DRAWS, seed=seed)
    ends = np.sqrt(np.maximum([means.mean(), low[0, 0], high[0, 0]], 0))
    return dict(zip(("rmse", "rmse_low", "rmse_high"), ends.tolist(), strict=True))


@dataclass(frozen=True)
class _Asked:
    """A classifier with its answers on the intact images."""

    classifier: Classifier
    answers: torch.Tensor
    labels: torch.Tensor | None

    @staticmethod
    def of(
        model: Callable[..., Any] | None, images: torch.Tensor, labels: Any, *, max_batch: int, **choices: Any
    ) -> _Asked | None:
        if model is None:
            return None
        classifier = Classifier(model, max_batch=max_batch, **choices)
        with untouched(model):
            answers = classifier.logits(images).argmax(1)
        known = None if labels is None else as_labels(labels)
        if known is not None and len(known) != len(images):
            raise InputError(f"labels: got {len(known)} for {len(images)} images")
        return _Asked(classifier, answers, known)

    @property
    def intact_accuracy(self) -> float | None:
        """Accuracy on the intact images, in [0, 1]."""
        return None if self.labels is None else float((self.answers == self.labels).double().mean())

    def about(self, filled: torch.Tensor) -> dict[str, float]:
        """Return agreement with the intact answers, and accuracy where labels are known."""
        with untouched(self.classifier.model):
            answers = self.classifier.logits(filled).argmax(1)
        found = _proportion("agreement", answers == self.answers)
        return found if self.labels is None else found | _proportion("accuracy", answers == self.labels)


def _proportion(name: str, hits: torch.Tensor) -> dict[str, float]:
    interval = scipy.stats.binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    return {name: float(hits.double().mean()), f"{name}_low": interval.low, f"{name}_high": interval.high}
