"""The mask-only classifier: codes it must read, noise it must not, and its closed form against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.stats import beta
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import balanced_accuracy_score

from roadworthy.errors import InputError
from roadworthy.evaluation.audit.mask_only import (
    DEPENDENCE,
    MaskOnly,
    _alike,
    _answers,
    _folds,
    _patterns,
    _traits,
    mask_only,
)
from roadworthy.statistics import information_bounds


def top(values: np.ndarray, share: float) -> np.ndarray:
    """Remove the share of units with the highest values."""
    flat = values.reshape(len(values), -1)
    ranks = np.argsort(np.argsort(-flat, axis=1), axis=1)
    return (ranks < int(share * flat.shape[1])).reshape(values.shape)


def quadrants(classes: np.ndarray, side: int = 12, seed: int = 0) -> np.ndarray:
    """Maps that are high in the quadrant with the class's number."""
    values = np.random.default_rng(seed).random((len(classes), side, side))
    half = side // 2
    for row, (y, x) in enumerate(zip(*divmod(classes % 4, 2), strict=True)):
        values[row, y * half : (y + 1) * half, x * half : (x + 1) * half] += 2
    return values


CLASSES = np.arange(240) % 4


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_a_class_coded_by_place_is_read(share: float) -> None:
    assert mask_only(top(quadrants(CLASSES), share), CLASSES, seed=0).accuracy == 1.0


def test_a_class_coded_by_a_gap_among_few_kept_units_is_read_mostly() -> None:
    assert mask_only(top(quadrants(CLASSES), 0.9), CLASSES, seed=0).accuracy > 0.7


@pytest.mark.parametrize("side", [24, 96])
def test_a_class_coded_by_texture_is_read_wherever_it_lies(side: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((240, side, side))
    y, x = np.mgrid[:side, :side]
    stripes = np.stack([y % 2, x % 2, (x + y) % 2, (y // 2 + x // 2) % 2])
    for row, label in enumerate(CLASSES):
        top_, left = rng.integers(0, side - side // 2, 2)
        place = (slice(top_, top_ + side // 2), slice(left, left + side // 2))
        values[(row, *place)] += stripes[(label, *place)]
    assert mask_only(top(values, 0.12), CLASSES, seed=0).accuracy > 0.9


@pytest.mark.parametrize("kind", ["random", "blobs"])
def test_masks_without_information_are_guessed(kind: str) -> None:
    hits = []
    for seed in range(20):
        values = np.random.default_rng(seed).random((240, 12, 12))
        if kind == "blobs":
            values = gaussian_filter(values, (0, 2, 2))
        hits.append(mask_only(top(values, 0.3), CLASSES, seed=seed, folds=2 + seed % 4).right.mean())
    # the mean over 20 x 240 answers has a standard error of .00625
    assert abs(np.mean(hits) - 0.25) < 0.025
    assert max(hits) < 0.36


def test_it_does_not_answer_from_the_sample_itself() -> None:
    # every mask is unlike any other and could be learned by heart; classes are drawn
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 2, 300)
    assert mask_only(rng.random((300, 10, 10)) < 0.5, classes, seed=0, folds=5).accuracy < 0.62


def test_the_closed_form_is_kernel_ridge_regression() -> None:
    masks = top(quadrants(CLASSES, seed=3) + 2 * np.random.default_rng(5).random((240, 12, 12)), 0.2)
    rng = np.random.default_rng(2)
    noisy = np.where(rng.random(240) < 0.4, rng.integers(0, 4, 240), CLASSES)
    order, sizes = _folds(noisy, 3, seed=0)
    alike = _alike(_traits(masks[order], neighbours=True))
    found = _answers(alike, noisy[order], sizes)
    kernel, wanted, start = alike.double().numpy(), np.eye(4)[noisy[order]], 0
    for size in sizes:
        own = np.arange(start, start + size)
        rest = np.setdiff1d(np.arange(240), own)
        model = KernelRidge(alpha=0.1, kernel="precomputed")
        model.fit(kernel[np.ix_(rest, rest)], wanted[rest] - wanted[rest].mean(0))
        scores = model.predict(kernel[np.ix_(own, rest)]) + wanted[rest].mean(0)
        assert (found[own] == scores.argmax(1)).mean() > 0.99  # float32 against float64
        start += size


def test_folds_hold_every_sample_once_and_each_class_alike() -> None:
    classes = np.array([0] * 31 + [1] * 10 + [2] * 3)
    order, sizes = _folds(classes, 2, seed=0)
    assert sorted(order.tolist()) == list(range(44))
    first = np.bincount(classes[order[: sizes[0]]], minlength=3)
    assert (abs(2 * first - np.bincount(classes)) <= 2).all()


def test_patterns_are_counted_as_by_hand() -> None:
    masks = np.random.default_rng(0).random((3, 2, 5, 6)) < 0.4
    counts = np.zeros((3, 512))
    for n in range(3):
        for c in range(2):
            for y in range(3):
                for x in range(4):
                    window = masks[n, c, y : y + 3, x : x + 3].ravel()
                    counts[n, int((window << np.arange(9)).sum())] += 1
    assert _patterns(masks, 1).numpy() == pytest.approx(np.sqrt(counts / 24))
    series = np.random.default_rng(0).random((3, 12)) < 0.4
    counts = np.zeros((3, 128))
    for n in range(3):
        for t in range(6):
            counts[n, int((series[n, t : t + 7] << np.arange(7)).sum())] += 1
    assert _patterns(series, 1).numpy() == pytest.approx(np.sqrt(counts / 6))


def test_likeness_is_one_for_the_same_and_falls_with_distance() -> None:
    masks = np.zeros((4, 5, 5), dtype=bool)
    masks[1:, 0, 0] = True
    masks[2, 4, 4] = masks[3, 1:, 1:] = True
    alike = _alike(_traits(masks, neighbours=True))
    assert torch.allclose(alike, alike.T)
    assert torch.allclose(alike.diagonal(), torch.ones(4))
    assert alike[0, 1] > alike[0, 2] > alike[0, 3] > 0


@pytest.mark.parametrize("neighbours", [True, False])
def test_series_and_tables(neighbours: bool) -> None:
    values = np.random.default_rng(0).random((240, 16))
    values[np.arange(240), CLASSES * 4] += 2
    assert mask_only(top(values, 0.07), CLASSES, seed=0, neighbours=neighbours).accuracy == 1.0
    long = np.repeat(values, 200, axis=1)
    assert mask_only(top(long, 0.06), CLASSES, seed=0, neighbours=neighbours).accuracy > 0.95


def test_channels_of_their_own() -> None:
    values = np.random.default_rng(0).random((240, 4, 6, 6))
    values[np.arange(240), CLASSES] += 0.7
    assert mask_only(top(values, 0.2), CLASSES, seed=0).accuracy == 1.0


@pytest.mark.parametrize("mask", [np.ones, np.zeros])
def test_one_and_the_same_mask_gives_the_commonest_class(mask: type) -> None:
    classes = np.array([0] * 20 + [1] * 30)
    found = mask_only(mask((50, 4, 4)).astype(bool), classes, seed=0)
    assert found.accuracy == 0.6
    assert found.balanced_accuracy == 0.5


def clopper_pearson(right: int, n: int) -> tuple[float, float]:
    part, whole = right / DEPENDENCE, n / DEPENDENCE
    low = beta.ppf(0.025, part, whole - part + 1) if right else 0.0
    return low, beta.ppf(0.975, part + 1, whole - part) if right < n else 1.0


@pytest.mark.parametrize(("width", "folds"), [(0, 2), (3, 2), (3, 5)])
def test_accuracies_without_information_vary_no_more_than_is_allowed_for(width: int, folds: int) -> None:
    values = gaussian_filter(np.random.default_rng(0).random((120, 10, 10)), (0, width, width))
    removed = top(values, 0.2)
    found = []
    for seed in range(100):
        classes = np.random.default_rng(seed).permutation(np.arange(120) % 4)
        found.append(mask_only(removed, classes, seed=seed, folds=folds).accuracy)
    # the spread of a standard deviation from 100 values is 7 %
    assert 0.8 < np.std(found) / np.sqrt(0.25 * 0.75 / 120) < 1.15 * np.sqrt(DEPENDENCE)


def test_figures_against_scipy_and_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    classes, predicted = rng.integers(0, 3, 70), rng.integers(0, 3, 70)
    found = MaskOnly(predicted, classes)
    low, high = clopper_pearson(int((classes == predicted).sum()), 70)
    assert found.interval == pytest.approx((low, high))
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(classes, predicted))
    counts = np.bincount(classes)
    expected = (information_bounds(low, counts)[0], information_bounds(high, counts)[1])
    assert found.bits == pytest.approx(expected)


@pytest.mark.parametrize(("right", "end"), [(0, 0), (10, 1)])
def test_intervals_at_the_ends(right: int, end: int) -> None:
    found = MaskOnly(np.array([1] * right + [0] * (10 - right)), np.ones(10, dtype=int))
    assert found.interval == pytest.approx(clopper_pearson(right, 10))
    assert found.interval[end] == end


def test_the_same_seed_gives_the_same_answers() -> None:
    masks = np.random.default_rng(0).random((100, 8, 8)) < 0.3
    first = mask_only(masks, CLASSES[:100], seed=0).predicted
    assert (mask_only(masks, CLASSES[:100], seed=0).predicted == first).all()
    assert (mask_only(masks, CLASSES[:100], seed=1).predicted != first).any()


@pytest.mark.parametrize(
    ("removed", "classes", "folds", "match"),
    [
        (np.zeros((4, 3, 3)), np.zeros(4, int), 2, "got float64"),
        (np.zeros((4, 3, 3), bool), np.zeros(5, int), 2, r"classes of shape \(5,\)"),
        (np.zeros((4, 3, 3), bool), np.zeros(4, int), 5, "folds: got 5 for 4 samples"),
        (np.zeros((4, 3, 3), bool), np.zeros(4, int), 1, "folds: got 1"),
    ],
)
def test_what_does_not_fit_is_refused(removed: np.ndarray, classes: np.ndarray, folds: int, match: str) -> None:
    with pytest.raises(InputError, match=match):
        mask_only(removed, classes, seed=0, folds=folds)
