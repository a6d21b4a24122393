"""The fine-tuned judge: one copy of the model that has seen images with units removed, blind to every explanation.

The given model never saw a degraded image, so what it loses on one mixes evidence with surprise. A network trained
per explanation can read the class off the mask. One copy fine-tuned on *random* masks does neither: degraded images
are in its domain, and no explanation had a part in it (F-Fidelity, Zheng et al. 2025, arXiv 2410.02970; Brocki and
Chung 2023; IDSDS, Hesse et al. 2024, for single patches).
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import scipy.ndimage
import scipy.special
import torch

from roadworthy.errors import InputError, ModelError, SolverError
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.epochs import JUDGE, epochs_for
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import DegradedSplit
from roadworthy.forward import Classifier, device_of, untouched
from roadworthy.imputation import Imputer, resolve_imputer
from roadworthy.model import Recipe, fit, load_recipe
from roadworthy.provenance import ids_hash
from roadworthy.records import Batch, Split
from roadworthy.removal import ranks_without_ties, removed_at
from roadworthy.rng import derive, normal_fields, resolve_seed
from roadworthy.types import Normalize, Output, Progress, Seed, Unit

Masks: TypeAlias = Literal["uniform", "patch"] | float
GRAINS = (0.0, 1.0, 2.0, 4.0)
_KEPT = 0.9  # of the model's accuracy on intact samples, which a copy must keep
_SLACK = 0.02  # accuracy on masked samples that a copy may be short of the model
RATES = (1.0, 0.2, 0.04, 0.008)  # of the recipe's learning rate, tried in turn
_CHECKED = 512  # training samples on which a copy is held against the model


def judge_recipe(count: int, effort: tuple[int, int] = JUDGE) -> Recipe:
    """Return how a copy is fine-tuned on a number of training samples.

    Args:
        count: training samples.
        effort: see :func:`roadworthy.evaluation.epochs.epochs_for`.
    """
    return Recipe(
        epochs=epochs_for(count, effort),
        learning_rate=0.05,
        batch_size=64,
        weight_decay=0.0,
        schedule="one-cycle",
        warmup_epochs=0.5,
    )


@dataclass(frozen=True)
class RandomMasks:
    """Draws masks that no explanation had a part in, a new one for each image and epoch.

    Attributes:
        masks: ``"uniform"``: the share removed is drawn from U(0, 1); a rate: this share is removed from every image;
            ``"patch"``: one cell of a ``grid`` x ``grid`` is removed from half of the images.
        seed: the draws follow from it, the epoch and the sample's id.
        unit: ``"pixel"`` or ``"channel"``.
        grains: widths of the blobs that masks are made of, in pixels (the sd of a Gaussian), one drawn per image; 0
            removes each unit on its own. Methods differ in grain, so a judge must know all of them.
        grid: cells along a side, for patches.
    """

    masks: Masks = "uniform"
    seed: int = 0
    unit: Unit = "pixel"
    grains: tuple[float, ...] = GRAINS
    grid: int = 4

    def __post_init__(self) -> None:
        if self.masks in ("uniform", "patch"):
            return
        if isinstance(self.masks, (bool, str)) or not 0 < self.masks <= 1:
            raise InputError(f"masks: got {self.masks!r}, expected 'uniform', 'patch' or a share in (0, 1]")

    def draw(self, ids: Sequence[str], shape: tuple[int, ...], epoch: int) -> np.ndarray:
        """Return bool masks of the units, True = removed.

        Args:
            ids: sample ids.
            shape: of one sample, (C, H, W), (C, T) or (F,).
            epoch: which epoch; each draws anew.

        Returns:
            (N, H, W), (N, T) or (N, F); of the whole shape for unit ``"channel"``.
        """
        units = shape[1:] if self.unit == "pixel" and len(shape) > 1 else shape
        flat = int(np.prod(units))
        drawn = normal_fields(self.seed, f"judge-masks/{epoch}", ids, (flat + 2,))
        share, choice = scipy.special.ndtr(drawn[:, flat:].astype(np.float64)).T
        fields = drawn[:, :flat].reshape(len(ids), *units)
        if self.masks == "patch":
            return self._patches(units, share, choice)
        spatial = tuple(range(1 - len(shape), 0)) if len(shape) > 1 else ()
        known = np.asarray(self.grains if spatial else (0.0,))
        grains = known[(choice * len(known)).astype(int)]
        for grain in np.unique(grains[grains > 0]):
            rows = grains == grain
            fields[rows] = scipy.ndimage.gaussian_filter(fields[rows], grain, axes=spatial, mode="nearest")
        ranks, _ = ranks_without_ties(fields, "lerf")
        shares = share if self.masks == "uniform" else [self.masks] * len(ids)
        return np.stack([removed_at(row[None], float(each))[0] for row, each in zip(ranks, shares, strict=True)])

    def _patches(self, units: tuple[int, ...], share: np.ndarray, choice: np.ndarray) -> np.ndarray:
        cells = cells_of(units, self.grid)
        chosen = (choice * (cells.max() + 1)).astype(int)
        return (cells == chosen.reshape(-1, *[1] * cells.ndim)) & (share < 0.5).reshape(-1, *[1] * cells.ndim)


def cells_of(units: tuple[int, ...], grid: int) -> np.ndarray:
    """Number the cells of a grid over the last two axes, row by row; sides that do not divide differ by one unit.

    Args:
        units: shape of the units, ending in (H, W).
        grid: cells along a side.

    Returns:
        int64 of that shape.

    Raises:
        InputError: no image, or more cells than pixels along a side.

    Example:
        >>> cells_of((2, 4), 2).tolist()
        [[0, 0, 1, 1], [2, 2, 3, 3]]
    """
    if len(units) < 2:
        raise InputError(f"patches: units of shape {units} have no rows and columns to lay a grid over")
    height, width = units[-2:]
    if not 1 <= grid <= min(height, width):
        raise InputError(
            f"grid: got {grid}, expected 1 to {min(height, width)} cells along a side of {height} x {width}"
        )
    row, column = (np.arange(side) * grid // side for side in (height, width))
    return np.broadcast_to(row[:, None] * grid + column, units).copy()


def fine_tuned(
    model: torch.nn.Module,
    train: Split,
    *,
    masks: Masks = "uniform",
    imputers: Sequence[str | Imputer] = ("mean",),
    mean: Sequence[float] | torch.Tensor | None = None,
    recipe: Recipe | None = None,
    grains: tuple[float, ...] = GRAINS,
    grid: int = 4,
    unit: Unit = "pixel",
    seed: Seed = 0,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    progress: Progress | None = None,
) -> torch.nn.Module:
    """Return a copy of the model, trained a little more on training images with random units removed.

    Args:
        model: the trained network; it is not changed.
        train: training samples with labels.
        masks: see :class:`RandomMasks`.
        imputers: what fills removed units; each image draws one, so that none is new to the judge.
        mean: training mean per channel, for the mean fill; by default that of ``train``.
        recipe: how long and how fast; by default :func:`judge_recipe`: two epochs, or more where samples are few.
            Where the copy gets worse than the model, it is made again at a fifth of the learning rate, three times at
            most: what suits a network with normalisation layers can ruin one without.
        grains: see :class:`RandomMasks`.
        grid: see :class:`RandomMasks`.
        unit: see :class:`RandomMasks`.
        seed: of masks, fills and the order of the samples.
        normalize: ``(mean, std)`` for a network that does not normalise by itself.
        output: how to pick the class scores from what the network returns.
        device: where to train; None leaves the copy where the model is.
        progress: called with the number of samples just trained on.

    Returns:
        The copy, in evaluation mode.

    Raises:
        ModelError: something other than a module, or a copy that forgot its task at every rate.
        InputError: masks or imputers that do not fit the samples.

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("planted:n=64,test=4")
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
        >>> before = net[1].weight.clone()
        >>> judge = fine_tuned(net, data.train)
        >>> torch.equal(before, net[1].weight), torch.equal(before, judge[1].weight)
        (True, False)
    """
    if not isinstance(model, torch.nn.Module):
        raise ModelError(
            f"finetune: got {type(model).__name__}, expected a torch.nn.Module; only those can be trained"
        )
    if not any(True for _ in model.parameters()):
        raise ModelError("finetune: the model has no parameters to train; pass judge=, or ask the model as it is")
    seed = resolve_seed(seed)
    draw = RandomMasks(masks, seed, unit, tuple(grains), grid)
    values = torch.as_tensor(train.statistics()[0] if mean is None else mean)
    place = device_of(model, device)
    fillers = [Filler(resolve_imputer(imputer), values, seed, place) for imputer in imputers]
    if not fillers:
        raise InputError("imputers: got none, expected at least one fill for what is removed")
    for filler in fillers:
        filler.imputer.check((1, *train.shape), unit)
    masked = _epoch(train, draw, fillers, 0)
    masked.for_epoch = functools.partial(_epoch, train, draw, fillers)  # type: ignore[attr-defined]
    chosen = judge_recipe(len(train)) if recipe is None else recipe
    shared: dict[str, Any] = {"normalize": normalize, "output": output, "device": device}
    check = _Check(train.take(_CHECKED, seed), masked.take(_CHECKED, seed), shared)
    before = check(model)
    for rate in RATES:
        judge = copy.deepcopy(model)
        for parameter in judge.parameters():
            parameter.requires_grad_(True)
        slower = replace(chosen, learning_rate=rate * chosen.learning_rate)
        with contextlib.suppress(SolverError):  # a loss that is no longer finite: the next rate is lower
            fit(judge, masked, recipe=slower, seed=derive(seed, "judge") % 2**63, progress=progress, **shared)
            after = check(judge.eval())
            if after.intact >= _KEPT * before.intact and after.masked >= before.masked - _SLACK:
                return judge
    raise ModelError(
        f"finetune: the copy forgot its task at every learning rate from {chosen.learning_rate:g} down to "
        f"{RATES[-1] * chosen.learning_rate:g} (before, it was right for {before.intact:.0%} of intact training "
        "samples); pass recipe= with a rate that suits the network, or judge= with a copy of your own"
    )


class _Hits(NamedTuple):
    """Accuracy on intact and on masked samples."""

    intact: float
    masked: float


@dataclass(frozen=True)
class _Check:
    """Asks a network about some of the training samples, as they are and with random units removed."""

    intact: Split
    masked: Split
    shared: dict[str, Any]

    def __call__(self, model: torch.nn.Module) -> _Hits:
        return _Hits(self._accuracy(model, self.intact), self._accuracy(model, self.masked))

    def _accuracy(self, model: torch.nn.Module, split: Split) -> float:
        classifier = Classifier(model, normalize=self.shared["normalize"], output=self.shared["output"])
        right = total = 0
        with untouched(model):
            for batch in split.batches(256):
                right += int((classifier.logits(batch.images).argmax(dim=1) == batch.labels).sum())
                total += len(batch.ids)
        return right / max(1, total)


def tuned_for(
    strategy: Strategy,
    classifier: Classifier,
    train: Split,
    *,
    recipe: str | Recipe | None = None,
    seed: int = 0,
    mean: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> torch.nn.Module:
    """Return the judge that a strategy asks: fine-tuned on its own fills, and on as much removed as it removes.

    Args:
        strategy: its imputers, unit and, where it removes a random part only, ``beta``.
        classifier: the given model.
        train: training samples with labels.
        recipe: see :func:`fine_tuned`, or the name of one.
        seed: of all draws.
        mean: training mean per channel; by default that of ``train``.
        progress: called with the number of samples just trained on.

    Raises:
        InputError: images with their channels last, which training does not take.
    """
    if classifier.layout != "NCHW":
        raise InputError(f"layout: got {classifier.layout!r}; a strategy that fine-tunes takes 'NCHW' only")
    return fine_tuned(
        classifier.model,  # type: ignore[arg-type]  # refused there
        train,
        masks="uniform" if strategy.removes_all else strategy.beta,
        grains=GRAINS if strategy.removes_all else (0.0,),  # as published: every unit on its own
        imputers=[resolve_imputer(imputer, noise=strategy.noise) for imputer in strategy.imputers],
        mean=mean,
        recipe=None if recipe is None else load_recipe(recipe),
        unit=strategy.unit,
        seed=seed,
        normalize=classifier.normalize,
        output=classifier.output,
        progress=progress,
    )


def _epoch(train: Split, draw: RandomMasks, fillers: list[Filler], epoch: int) -> Split:
    return DegradedSplit(train, functools.partial(_masked, draw=draw, fillers=fillers, epoch=epoch))


def _masked(batch: Batch, draw: RandomMasks, fillers: list[Filler], epoch: int = 0) -> Batch:
    """Remove and fill; which fill an image gets goes round with its place and the epoch."""
    removed = draw.draw(batch.ids, tuple(batch.images.shape[1:]), epoch)
    images = batch.images.clone()
    for turn, filler in enumerate(fillers):
        rows = [row for row in range(len(images)) if (row + epoch) % len(fillers) == turn]
        if not rows:
            continue
        ids = [batch.ids[row] for row in rows]
        noise = filler.noise(ids, tuple(images.shape[1:]), epoch)
        part = images[rows].to(filler.place)
        filled = filler.fill(part, removed[rows], noise, key=("judge", epoch), block=ids_hash(ids))[1]
        images[rows] = filled.to(images.device)
    return batch._replace(images=images)
