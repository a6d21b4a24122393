"""The mask-only classifier: how often is the class told from which units are removed, and nothing else?

Whatever it reaches above guessing is information that the mask carries, I(C; M), and that a network trained on
degraded images can take for evidence (Rong et al., ICML 2022, section 4; theirs is a ResNet-18 trained on masks).

This one is a Gaussian-kernel classifier fitted in closed form. Two masks are alike if few units differ (where things
are removed) and if the small patterns in them are as frequent (how it looks, wherever it is): 3 x 3 units in images,
7 in series. There are no epochs to choose and no first weights to draw. Like any classifier it gives a lower bound:
what it does not find may still be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.nn import functional

from roadworthy.errors import InputError
from roadworthy.rng import numpy_generator
from roadworthy.statistics import information_bounds

_RIDGE = 0.1  # against noise in the labels, as a share of a mask's likeness to itself
_INPUTS = 1600  # places of a mask that are told apart; larger masks are averaged in tiles
_LEVEL = 0.95  # of the intervals
# If two samples of a class happen to have like masks, both answers profit: the variance of a cross-fitted accuracy is
# above that of independent answers, at most twice. This factor is allowed for; the tests hold masks without
# information to it.
DEPENDENCE = 1.8


@dataclass(frozen=True)
class MaskOnly:
    """What a classifier that sees only masks answers.

    Attributes:
        predicted: int (N,), each by a classifier that did not see the sample.
        classes: int (N,), the right answers.
    """

    predicted: np.ndarray
    classes: np.ndarray

    @property
    def right(self) -> np.ndarray:
        """Which answers are right, bool (N,)."""
        return self.predicted == self.classes

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return float(self.right.mean())

    @cached_property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the accuracy: Clopper and Pearson (1934) for as many answers as are independent."""
        from scipy.special import betaincinv

        n, right, tail = len(self.classes) / DEPENDENCE, self.right.sum() / DEPENDENCE, (1 - _LEVEL) / 2
        low = 0.0 if right == 0 else float(betaincinv(right, n - right + 1, tail))
        return low, 1.0 if right == n else float(betaincinv(right + 1, n - right, 1 - tail))

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the classes that occur of the share answered right."""
        counts = np.bincount(self.classes)
        recalls = np.bincount(self.classes, weights=self.right)[counts > 0] / counts[counts > 0]
        return float(recalls.mean())

    @property
    def bits(self) -> tuple[float, float]:
        """Bounds on I(C; M) in bits, at the lower and at the upper end of the accuracy's interval."""
        counts = np.bincount(self.classes)
        low, high = self.interval
        return information_bounds(low, counts)[0], information_bounds(high, counts)[1]


def mask_only(
    removed: np.ndarray, classes: np.ndarray, *, seed: int, folds: int = 2, neighbours: bool = True
) -> MaskOnly:
    """Tell the class of each sample from its mask, by classifiers fitted on the other samples.

    Args:
        removed: bool (N, H, W), (N, C, H, W), (N, T) or (N, F): True = removed.
        classes: int (N,), at least 0.
        seed: of the folds, which hold the same share of each class.
        folds: parts; each is answered by a classifier fitted on the others.
        neighbours: whether units that lie next to each other belong together, as in images and series but not in
            tables.

    Returns:
        The answers, with their accuracy and its interval.

    Raises:
        InputError: masks and classes that do not fit, or fewer samples than folds.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022), section 5.

    Example:
        >>> classes = np.arange(40) % 2
        >>> removed = np.zeros((40, 4, 4), dtype=bool)
        >>> removed[classes == 1, :2] = removed[classes == 0, 2:] = True
        >>> mask_only(removed, classes, seed=0).accuracy
        1.0
    """
    masks, answers = np.asarray(removed), np.asarray(classes)
    if masks.dtype != bool or masks.ndim not in (2, 3, 4) or answers.shape != (len(masks),):
        raise InputError(
            f"removed: got {masks.dtype} of shape {masks.shape} with classes of shape {answers.shape}, expected bool "
            "(N, *units) and int (N,)"
        )
    if not 2 <= folds <= len(masks):
        raise InputError(f"folds: got {folds} for {len(masks)} samples, expected 2 to the number of samples")
    order, sizes = _folds(answers, folds, seed)
    with torch.no_grad():
        alike = _alike(_traits(masks[order], neighbours=neighbours))
        predicted = np.empty(len(masks), dtype=np.int64)
        predicted[order] = _answers(alike, answers[order], sizes)
    return MaskOnly(predicted, answers.astype(np.int64))


def _folds(classes: np.ndarray, folds: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """Return the samples fold after fold, and the sizes of the folds."""
    drawn = numpy_generator(seed, "mask-only-folds").permutation(len(classes))
    dealt = drawn[np.argsort(classes[drawn], kind="stable")]  # class after class: dealing round gives each its share
    return np.concatenate([dealt[fold::folds] for fold in range(folds)]), [
        len(dealt[fold::folds]) for fold in range(folds)
    ]


def _traits(masks: np.ndarray, *, neighbours: bool) -> torch.Tensor:
    """Return what masks are compared by, float32 (N, traits): each group in units of its own mean distance."""
    units = masks.shape[1:]
    tile = max(1, int(np.ceil((np.prod(units[-2:]) / _INPUTS) ** (1 / min(2, len(units))))))
    groups = [_scaled(_tiles(masks, tile) if neighbours else torch.from_numpy(masks).float().flatten(1))]
    if neighbours and min(units[-2:]) >= (7 if len(units) == 1 else 3):
        groups.append(_scaled(_patterns(masks, tile)))
    return torch.cat(groups, 1)


def _tiles(masks: np.ndarray, tile: int) -> torch.Tensor:
    values = torch.from_numpy(masks).float()
    if tile == 1:
        return values.flatten(1)
    if values.ndim == 2:
        return functional.avg_pool1d(values[:, None], tile, ceil_mode=True).flatten(1)
    return functional.avg_pool2d(values, tile, ceil_mode=True).flatten(1)


def _patterns(masks: np.ndarray, step: int) -> torch.Tensor:
    """Return the root of the frequency of each small pattern: 512 of 3 x 3 units, or 128 of 7 in a row."""
    bits = masks.astype(np.uint8)
    if masks.ndim == 2:
        codes, kinds = np.zeros((len(bits), bits.shape[1] - 6), dtype=np.uint8), 128
        for place in range(7):
            codes |= bits[:, place : bits.shape[1] - 6 + place] << place
        codes = codes[:, ::step]
    else:
        rows = bits[..., :-2] | bits[..., 1:-1] << 1 | bits[..., 2:] << 2
        codes = rows[..., :-2, :] | rows[..., 1:-1, :] << 3 | rows[..., 2:, :].astype(np.uint16) << 6
        codes, kinds = codes[..., ::step, ::step], 512
    flat = codes.reshape(len(masks), -1)
    counts = np.bincount((flat + kinds * np.arange(len(masks))[:, None]).ravel(), minlength=kinds * len(masks))
    return torch.from_numpy(np.sqrt(counts.reshape(len(masks), kinds) / flat.shape[1], dtype=np.float32))


def _scaled(traits: torch.Tensor) -> torch.Tensor:
    """Centre, and scale so that the mean squared distance of two samples is 1; traits without any stay 0."""
    centred = traits - traits.mean(0)
    spread = float(2 * centred.square().sum() / len(centred))
    return centred / spread**0.5 if spread > 1e-9 else torch.zeros_like(centred)


def _alike(traits: torch.Tensor) -> torch.Tensor:
    """Return the Gaussian kernel of all pairs, (N, N); three quarters of it are computed, it is symmetric."""
    size, half = traits.square().sum(1), len(traits) // 2
    alike = torch.empty(len(traits), len(traits))
    first, second = slice(half), slice(half, None)
    for rows, columns in ((first, first), (first, second), (second, second)):
        closeness = 2 * traits[rows] @ traits[columns].T
        closeness.sub_(size[rows, None]).sub_(size[None, columns]).clamp_(max=0)
        torch.exp(closeness, out=alike[rows, columns])
    alike[second, first] = alike[first, second].T
    return alike


def _answers(alike: torch.Tensor, classes: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Answer each fold, samples being in the order of the folds, by ridge regression on the others."""
    wanted = functional.one_hot(torch.from_numpy(classes.astype(np.int64))).float()
    answers, start = [], 0
    for size in sizes:
        own = torch.arange(start, start + size)
        rest = torch.cat([torch.arange(start), torch.arange(start + size, len(classes))])
        prior = wanted[rest].mean(0)
        matrix = alike[rest][:, rest]
        matrix.diagonal().add_(_RIDGE)
        weights = torch.cholesky_solve(wanted[rest] - prior, torch.linalg.cholesky(matrix))
        answers.append((alike[own][:, rest] @ weights + prior).argmax(1))
        start += size
    return torch.cat(answers).numpy()
