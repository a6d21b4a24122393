"""Pseudo-label discrepancy: is an interval of the classifier's scores contaminated by another class?

The method that Kiyasseh, Cohen, Jiang & Altieri (Nature Communications 15:1808, 2024) published under the name SUDO;
written from its description. (A practitioner's guide gives the same name to perturbation consistency, see
:mod:`roadworthy.labelfree.consistency`: two different things.)

Samples of one interval of scores are all called negative, a probe is fitted that tells them from positive source
samples, and it is tried on held-out source samples; then the same with the labels turned. Where the interval is
negative indeed, the first probe serves the source better. Discrepancy is the first one's metric minus the second's:
above 0 the interval looks negative, below 0 positive; near 0 it is mixed, or the features say nothing.

It rests on features in which the classes of source and target lie alike. Where the classes have moved past each other
its sign is wrong, and nothing in it tells. It is always shown beside the trivial baseline: the interval's midpoint,
which is what the classifier says itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, unknown_name
from roadworthy.labelfree.discrepancy_parts import (
    GroupGap,
    LearnedMap,
    TailCurve,
    edges_of,
    group_gap,
    interval_of,
    learn_map,
    over_draws,
    pearson,
    tail_curve,
)
from roadworthy.labelfree.discrepancy_probes import Bench, metrics, probes
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.rng import resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed

_KINDS = ("equal-width", "quantile")
_METHODS = ("t", "bootstrap")


@dataclass(frozen=True)
class ScoreInterval:
    """One interval of the probability of a class.

    Attributes:
        low: lower end, open (that of the first interval is closed).
        high: upper end, closed.
        midpoint: the trivial baseline.
        n: target samples in it.
        discrepancy: mean over draws, in [-1, 1]; above 0 the interval looks as if it were not of the class. NaN where
            fewer than ``points`` samples are in it.
        discrepancy_low: lower end of its interval over draws: how far the draw matters, nothing of the shift.
        discrepancy_high: upper end.
        share: share of the class by the learned map; NaN without one.
        note: why a number is missing, or "".
    """

    low: float
    high: float
    midpoint: float
    n: int
    discrepancy: float
    discrepancy_low: float
    discrepancy_high: float
    share: float
    note: str = ""


@dataclass(frozen=True, eq=False)
class ClassDiscrepancy:
    """Discrepancies of one class against the rest.

    Attributes:
        name: the class.
        number: its column.
        intervals: K of them, rising.
        draws: float64 (K, R), discrepancy of each draw.
        learned: the map to the share of the class, or None.
        baseline_correlation: Pearson of discrepancy and midpoint: near -1 it says what the classifier says by itself.
        curve: reliability of growing tails and its area.
        gaps: of every two groups.
        notes: what is missing, and why.
    """

    name: str
    number: int
    intervals: tuple[ScoreInterval, ...]
    draws: np.ndarray
    learned: LearnedMap | None
    baseline_correlation: float
    curve: TailCurve
    gaps: tuple[GroupGap, ...] = ()
    notes: tuple[str, ...] = ()

    def column(self, name: str) -> np.ndarray:
        """Return one number of every interval, (K,)."""
        return np.array([getattr(interval, name) for interval in self.intervals])

    def against(self, probabilities: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
        """Compare with the truth, where it is known: Pearson with the share of the class in each interval.

        Args:
            probabilities: (N, C) of the target.
            labels: (N,) true classes.

        Returns:
            Correlation of the discrepancy (near -1 is best), and of the midpoint (near 1 is best).
        """
        scores = np.asarray(probabilities, dtype=np.float64)[:, self.number]
        edges = np.append(self.column("low"), self.intervals[-1].high)
        share = _shares(interval_of(scores, edges), np.asarray(labels) == self.number, len(self.intervals))
        share[~np.isfinite(self.column("discrepancy"))] = np.nan  # both are judged on the same intervals
        return pearson(self.column("discrepancy"), share), pearson(self.column("midpoint"), share)


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """What :func:`pseudo_label_discrepancy` found.

    Attributes:
        classes: one of two classes, all of more.
        probe: kind of probe.
        metric: what the probes were tried by.
        intervals: kind of intervals.
        points: samples of each side that a probe was fitted on.
        repeats: draws.
        level: of the intervals over draws.
        seed: of the draws.
        notes: what the user should know.
    """

    classes: tuple[ClassDiscrepancy, ...]
    probe: str
    metric: str
    intervals: str
    points: int
    repeats: int
    level: float
    seed: int
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return {entry.name: plain(getattr(self, entry.name)) for entry in fields(self)}


def pseudo_label_discrepancy(
    train: Outputs,
    test: Outputs,
    target: Outputs,
    *,
    classes: Sequence[str] | None = None,
    intervals: str = "equal-width",
    count: int = 10,
    within: tuple[float, float] = (0.0, 1.0),
    probe: str = "logistic",
    metric: str = "auc",
    points: int = 10,
    repeats: int = 5,
    method: str = "t",
    groups: ArrayLike | None = None,
    level: float = 0.9,
    seed: Seed = 0,
) -> Discrepancy:
    """Measure the pseudo-label discrepancy of each interval of scores, one class against the rest.

    Features are standardised by those of ``train``, which the published code leaves out.

    Args:
        train: labelled source samples with features, which probes are fitted on.
        test: other labelled source samples with features, which probes are tried on and the map is learned on.
        target: samples with probabilities and features; labels, where there are any, are not read.
        classes: names of those to look at; by default the second of two, or all of more.
        intervals: ``"equal-width"``, or ``"quantile"`` of the target's scores (equal ones stay together).
        count: number of intervals.
        within: the range of probabilities that equal widths cut.
        probe: ``"logistic"``, ``"random-forest"``, ``"linear-svc"`` or ``"mlp"``.
        metric: ``"auc"``, ``"accuracy"``, ``"precision"`` or ``"recall"``.
        points: target and source samples that each probe is fitted on; an interval with fewer has no number.
        repeats: draws.
        method: interval over draws: ``"t"`` or ``"bootstrap"``.
        groups: (N,) of the target; the gap of every two groups is measured.
        level: of the intervals.
        seed: seed or generator.

    Returns:
        Discrepancies with the map, the curve, the gaps and the baseline.

    Raises:
        InputError: features or labels are missing or do not fit, a name is not known, or a number out of range.

    Source:
        Kiyasseh et al., Nature Communications 15:1808 (2024); one-against-rest, the t interval, the area over a fixed
        range and the equal treatment of both tails are additions.

    Example:
        >>> from roadworthy.labelfree.simulation import simulate
        >>> train, test, target = simulate("base", seed=1)
        >>> found = pseudo_label_discrepancy(train, test, target, repeats=2).classes[0]
        >>> found.column("discrepancy")[0] > 0.8, found.column("discrepancy")[-1] < -0.8
        (np.True_, np.True_)
    """
    _check_words(intervals=intervals, method=method, probe=probe, metric=metric)
    _check_numbers(count, points, repeats, level, within)
    number, order = resolve_seed(seed), _by_id(target)
    parts = [train.take(_by_id(train)), test.take(_by_id(test)), target.take(order)]
    chosen = _classes(classes, target)
    values = _standardised(*parts)
    labels = [part.known_labels("pseudo-label discrepancy") for part in parts[:2]]
    members = {} if groups is None else _members(groups, order)
    found = []
    for column in chosen:
        sides = [part == column for part in labels]
        bench = Bench(values[0], sides[0], values[1], sides[1], probe, metric, points, repeats, number)
        scores = [part.probabilities[:, column] for part in parts[1:]]
        edges = edges_of(scores[1], count, intervals, within)
        over = {"level": level, "method": method, "seed": number}
        found.append(_one_class(target.classes[column], column, bench, edges, scores, values[2], members, over))
    return Discrepancy(tuple(found), probe, metric, intervals, points, repeats, level, number)


def _one_class(
    name: str,
    column: int,
    bench: Bench,
    edges: np.ndarray,
    scores: list[np.ndarray],
    wild: np.ndarray,
    members: dict[str, np.ndarray],
    over: dict[str, Any],
) -> ClassDiscrepancy:
    """Measure all intervals of one class; scores are of the held-out source and of the target."""
    place = interval_of(scores[1], edges)
    size = len(edges) - 1
    counts = np.bincount(place[place >= 0], minlength=size)
    draws = _draws(bench, wild, place, size, name)
    mean, low, high = over_draws(draws, **over)
    middle = (edges[1:] + edges[:-1]) / 2
    learned = _learned(bench, interval_of(scores[0], edges), middle, name)
    share = np.full(size, np.nan) if learned is None else learned.share(mean)
    reasons = _reasons(bench, counts, mean)
    table = zip(edges[:-1], edges[1:], middle, counts, mean, low, high, share, reasons, strict=True)
    intervals = tuple(ScoreInterval(*(_number(value) for value in row)) for row in table)
    gaps = _gaps(bench, wild, place, size, name, members, over)
    notes = _notes(name, bench, learned, int((place < 0).sum()))
    curve = tail_curve(mean, counts)
    return ClassDiscrepancy(name, column, intervals, draws, learned, pearson(mean, middle), curve, gaps, notes)


def _draws(bench: Bench, wild: np.ndarray, place: np.ndarray, size: int, name: str) -> np.ndarray:
    """Return discrepancies (K, R) of target samples."""
    parts = [bench.discrepancies(wild[place == k], f"{name} {k}") for k in range(size)]
    return np.stack(parts)


def _learned(bench: Bench, place: np.ndarray, middle: np.ndarray, name: str) -> LearnedMap | None:
    """Treat held-out source samples as wild ones, whose share of the class is known."""
    rows = [np.flatnonzero(place == k) for k in range(len(middle))]
    draws = np.stack([bench.discrepancies(bench.test[part], f"{name} {k}", part) for k, part in enumerate(rows)])
    mean = over_draws(draws, 0.9, "t", bench.seed)[0]
    return learn_map(mean, middle, _shares(place, bench.test_positive, len(middle)))


def _gaps(
    bench: Bench,
    wild: np.ndarray,
    place: np.ndarray,
    size: int,
    name: str,
    members: dict[str, np.ndarray],
    over: dict[str, Any],
) -> tuple[GroupGap, ...]:
    draws = {group: _draws(bench, wild[inside], place[inside], size, name) for group, inside in members.items()}
    counts = {group: np.bincount(place[inside & (place >= 0)], minlength=size) for group, inside in members.items()}
    return tuple(
        group_gap((a, b), np.stack([counts[a], counts[b]]), np.stack([draws[a], draws[b]]), **over)
        for a, b in combinations(members, 2)
    )


def _shares(place: np.ndarray, positive: np.ndarray, size: int) -> np.ndarray:
    """Share of the class in each interval (K,); NaN of an empty one."""
    inside = place >= 0
    counts = np.bincount(place[inside], minlength=size)
    hits = np.bincount(place[inside], weights=positive[inside].astype(np.float64), minlength=size)
    return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)


def _reasons(bench: Bench, counts: np.ndarray, mean: np.ndarray) -> list[str]:
    few = f"fewer than {bench.points} samples"
    return [
        few if n < bench.points else "" if np.isfinite(value) else "the probe cannot be scored"
        for n, value in zip(counts, mean, strict=True)
    ]


def _notes(name: str, bench: Bench, learned: LearnedMap | None, outside: int) -> tuple[str, ...]:
    notes = []
    sides = [int((bench.train_positive == side).sum()) for side in (True, False)]
    if min(sides) < bench.points:
        notes.append(
            f"train has {sides[0]} samples of class {name!r} and {sides[1]} others, fewer than {bench.points} points"
        )
    if bench.test_positive.all() or not bench.test_positive.any():
        notes.append(f"test holds {'only' if bench.test_positive.any() else 'no'} samples of class {name!r}")
    if learned is None:
        notes.append("no map to shares: fewer than three intervals of test could be measured")
    if outside:
        notes.append(f"{outside} target samples lie outside of all intervals")
    return tuple(notes)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _check_words(**given: str) -> None:
    known = {"intervals": _KINDS, "method": _METHODS, "probe": tuple(probes), "metric": tuple(metrics)}
    for kind, word in given.items():
        if word not in known[kind]:
            raise unknown_name(kind, word, known[kind])


def _check_numbers(count: int, points: int, repeats: int, level: float, within: tuple[float, float]) -> None:
    for name, value in (("count", count), ("points", points), ("repeats", repeats)):
        if value < 1:
            raise InputError(f"{name}: got {value}, expected at least 1")
    if not 0 < level < 1:
        raise InputError(f"level: got {level}, expected a share between 0 and 1, such as 0.9")
    if not 0 <= within[0] < within[1] <= 1:
        raise InputError(f"within: got {within}, expected (low, high) with 0 <= low < high <= 1")


def _by_id(outputs: Outputs) -> np.ndarray:
    """Return the rows in the order of their ids, so that the caller's order changes nothing."""
    return np.argsort(np.array(outputs.ids, dtype=str), kind="stable")


def _classes(wanted: Sequence[str] | None, target: Outputs) -> list[int]:
    if wanted is None:
        return [1] if target.class_count == 2 else list(range(target.class_count))
    for name in wanted:
        if name not in target.classes:
            raise unknown_name("class", name, target.classes)
    return [target.classes.index(name) for name in wanted]


def _members(groups: ArrayLike, order: np.ndarray) -> dict[str, np.ndarray]:
    words = np.asarray(groups).astype(str)
    if words.shape != order.shape:
        raise InputError(f"groups: got shape {words.shape}, expected ({len(order)},), a group for each target sample")
    return {str(word): words[order] == word for word in np.unique(words)}


def _standardised(*parts: Outputs) -> list[np.ndarray]:
    """Return features of train, test and target in the units of train; columns that are constant there go."""
    features = [part.known_features("pseudo-label discrepancy").astype(np.float64) for part in parts]
    names = ("train", "test", "target")
    for name, part, values in zip(names, parts, features, strict=True):
        if len(part) == 0:
            raise InputError(f"{name}: got no samples")
        if part.class_count != parts[2].class_count or values.shape[1] != features[2].shape[1]:
            raise InputError(
                f"{name}: has {part.class_count} classes and {values.shape[1]} features, the target "
                f"{parts[2].class_count} and {features[2].shape[1]}; all must come from one model"
            )
    centre, spread = features[0].mean(axis=0), features[0].std(axis=0)
    kept = spread > 0
    if not kept.any():
        raise InputError("train: all features are constant, so nothing can be told apart by them")
    return [(values[:, kept] - centre[kept]) / spread[kept] for values in features]
