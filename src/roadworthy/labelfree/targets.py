"""Pseudo-targets: shifted parts and versions of labelled source samples, on which an estimate can be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError
from roadworthy.labelfree.domain import description, drawn_rows
from roadworthy.labelfree.outputs import Outputs
from roadworthy.rng import numpy_generator

LEAST = 30  # samples of a pseudo-target: its own accuracy is uncertain by .09 there
STRENGTHS = (0.3, 0.6, 0.9)
TILTS = (0.5, 1.0, 2.0)
_ROUNDING = 1e-9  # what varies by less, of its size, is constant
SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True, eq=False)
class PseudoTarget:
    """Labelled samples that stand for a target.

    Attributes:
        name: what it is, for a table.
        kind: the sort of shift; self-validation balances kinds and leaves out one at a time.
        severity: how strong, in the kind's own unit; 0 where there is no scale.
        outputs: what the classifier says of them, with labels. Samples that are the source's own keep their ids.
    """

    name: str
    kind: str
    severity: float
    outputs: Outputs


def source_targets(
    source: Outputs, *, groups: ArrayLike | None = None, times: ArrayLike | None = None, seed: int = 0
) -> list[PseudoTarget]:
    """Make all pseudo-targets that need nothing but the source: clusters, class shares, tilts, and what is known.

    Args:
        source: labelled samples.
        groups: (N,), see :func:`subgroup_targets`.
        times: (N,), see :func:`time_targets`.
        seed: of all draws.

    Returns:
        The pseudo-targets; none where samples are few.

    Raises:
        InputError: no labels, or lengths that do not fit.

    Example:
        >>> source = Outputs.of([0.2] * 90, labels=[0, 1] * 45, features=np.linspace(-1, 1, 90)[:, None])
        >>> sorted({found.kind for found in source_targets(source)})
        ['cluster', 'labels', 'tilt']
    """
    found = [
        *cluster_targets(source, seed=seed),
        *label_targets(source, seed=seed),
        *tilt_targets(source, seed=seed),
    ]
    if groups is not None:
        found += subgroup_targets(source, groups)
    if times is not None:
        found += time_targets(source, times)
    return found


def subgroup_targets(
    source: Outputs, groups: ArrayLike, *, name: str = "subgroup", kind: str = "subgroup", least: int = LEAST
) -> list[PseudoTarget]:
    """Make one pseudo-target of every group.

    Args:
        source: labelled samples.
        groups: (N,) the group of each sample; None and NaN belong to no group.
        name: what the groups are ("age").
        kind: see :class:`PseudoTarget`.
        least: groups of fewer samples are left out.

    Returns:
        The pseudo-targets, in the order of group names. Groups that hold all samples are left out.

    Raises:
        InputError: a length that does not fit, or no labels.

    Example:
        >>> source = Outputs.of([0.2] * 60, labels=[0] * 60)
        >>> [found.name for found in subgroup_targets(source, ["a"] * 30 + ["b"] * 30, name="site")]
        ['site a', 'site b']
    """
    source.known_labels("a pseudo-target")
    given = np.asarray(groups, dtype=object)
    if given.shape != (len(source),):
        raise InputError(f"groups: got shape {given.shape}, expected ({len(source)},): a group for each sample")
    names = np.array(["" if value is None or value != value else str(value) for value in given])
    found = []
    for value in sorted(set(names) - {""}):
        rows = np.flatnonzero(names == value)
        if least <= len(rows) < len(source):
            found.append(PseudoTarget(f"{name} {value}", kind, 0.0, source.take(rows)))
    return found


def time_targets(source: Outputs, times: ArrayLike, *, blocks: int = 4, least: int = LEAST) -> list[PseudoTarget]:
    """Cut the samples into blocks of time, equally many samples each.

    Args:
        source: labelled samples.
        times: (N,) numbers or dates; samples of one time stay together.
        blocks: how many.
        least: blocks of fewer samples are left out.

    Returns:
        The blocks, the earliest first; severity counts them from 0.

    Raises:
        InputError: a length that does not fit, or no labels.

    Example:
        >>> source = Outputs.of([0.2] * 60, labels=[0] * 60)
        >>> [len(found.outputs) for found in time_targets(source, range(60), blocks=2)]
        [30, 30]
    """
    source.known_labels("a pseudo-target")
    given = np.asarray(times)
    if given.shape != (len(source),):
        raise InputError(f"times: got shape {given.shape}, expected ({len(source)},): a time for each sample")
    try:
        moments, position, counts = np.unique(given, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise InputError(
            f"times: got values that have no order ({error}); pass numbers, dates or text alone"
        ) from error
    middle = np.cumsum(counts) - counts / 2
    block = np.minimum((middle * blocks / max(len(source), 1)).astype(np.int64), blocks - 1)[position]
    parts = [np.flatnonzero(block == number) for number in range(blocks)]
    return [
        PseudoTarget(
            f"{moments[position[rows].min()]} to {moments[position[rows].max()]}",
            "time",
            float(number),
            source.take(rows),
        )
        for number, rows in enumerate(parts)
        if least <= len(rows) < len(source)
    ]


def cluster_targets(source: Outputs, *, clusters: int = 6, seed: int = 0, least: int = LEAST) -> list[PseudoTarget]:
    """Cluster the samples by k-means on their features (log probabilities where there are none).

    Args:
        source: labelled samples.
        clusters: how many.
        seed: for the starting points.
        least: clusters of fewer samples are left out.

    Returns:
        The clusters, the largest first.

    Raises:
        InputError: no labels.

    Example:
        >>> source = Outputs.of([0.2] * 60, labels=[0] * 60, features=[[0.0]] * 30 + [[9.0]] * 30)
        >>> [len(found.outputs) for found in cluster_targets(source, clusters=2)]
        [30, 30]
    """
    from sklearn.cluster import MiniBatchKMeans

    source.known_labels("a pseudo-target")
    if len(source) < 2 * least:
        return []
    order = drawn_rows(source, len(source), seed=seed, purpose="clusters")
    values = description(source)[order]
    spread = values.std(axis=0)
    values = values / np.where(spread > 0, spread, 1)
    count = min(clusters, len(source) // least, len(np.unique(values, axis=0)))
    state = int(numpy_generator(seed, "clusters").integers(2**31))
    part = MiniBatchKMeans(count, random_state=state, n_init=3).fit_predict(values)
    parts = [order[part == number] for number in range(count)]
    parts = sorted((rows for rows in parts if least <= len(rows) < len(source)), key=lambda rows: -len(rows))
    return [PseudoTarget(f"cluster {k}", "cluster", 0.0, source.take(rows)) for k, rows in enumerate(parts)]


def tilt_targets(
    source: Outputs,
    *,
    strengths: Sequence[float] = TILTS,
    directions: int = 3,
    seed: int = 0,
    least: int = LEAST,
) -> list[PseudoTarget]:
    """Keep the samples that lie on one side, more surely the farther: a graded shift of the inputs alone.

    Directions are random ones of the features (log probabilities where there are none), each brought to unit
    variance. A sample is kept with a chance that grows exponentially along the direction.

    Args:
        source: labelled samples.
        strengths: growth of the chance over one standard deviation; both signs are made of each.
        directions: how many.
        seed: of directions and draws.
        least: pseudo-targets of fewer samples are left out.

    Returns:
        Two pseudo-targets for each direction and strength, each of half as many samples as the source.

    Raises:
        InputError: no labels.

    Example:
        >>> source = Outputs.of([0.2] * 90, labels=[0] * 90, features=np.linspace(-1, 1, 90)[:, None])
        >>> found = tilt_targets(source, strengths=[2.0], directions=1)
        >>> [len(part.outputs) for part in found]
        [45, 45]
    """
    source.known_labels("a pseudo-target")
    size = len(source) // 2
    if size < max(least, 1):
        return []
    order = drawn_rows(source, len(source), seed=seed, purpose="tilts")
    values = description(source)[order]
    spread = values.std(axis=0)
    varied = spread > _ROUNDING * np.abs(values).max(axis=0)
    values = ((values - values.mean(axis=0)) / np.where(varied, spread, 1))[:, varied]
    if not values.shape[1]:
        return []
    found = []
    for number in range(directions):
        generator = numpy_generator(seed, "tilt", number)
        along = values @ generator.normal(size=values.shape[1])
        along = along / along.std()
        for strength in strengths:
            for sign, word in ((1, "up"), (-1, "down")):
                # the largest of such sums are a draw without replacement by these weights (Gumbel)
                rows = np.argsort(-(sign * strength * along + generator.gumbel(size=len(along))))[:size]
                name = f"tilt {number + 1} {word} by {strength:g}"
                found.append(PseudoTarget(name, "tilt", float(strength), source.take(order[rows])))
    return found


def label_targets(
    source: Outputs, *, strengths: Sequence[float] = STRENGTHS, seed: int = 0, least: int = LEAST
) -> list[PseudoTarget]:
    """Change the class shares: samples of some classes are left out, those of the others kept as they are.

    Args:
        source: labelled samples.
        strengths: how far the shares move from those of the source (0) to a few classes alone (1).
        seed: which classes, and which samples.
        least: pseudo-targets of fewer samples are left out.

    Returns:
        For each strength one that favours a class (each of two), one a randomly drawn set of classes otherwise.

    Raises:
        InputError: no labels, or a strength outside [0, 1].

    Example:
        >>> source = Outputs.of([0.2] * 90, labels=[0, 1] * 45)
        >>> [round(float(found.outputs.labels.mean()), 2) for found in label_targets(source, strengths=[0.9])]
        [0.04, 0.96]
    """
    labels = source.known_labels("a pseudo-target")
    bad = [strength for strength in strengths if not 0 <= strength <= 1]
    if bad:
        raise InputError(f"strengths: got {bad[0]}, expected numbers in [0, 1]")
    counts = np.bincount(labels, minlength=source.class_count)
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return []
    order = drawn_rows(source, len(source), seed=seed, purpose="class shares")
    found = []
    for strength in strengths:
        for turn, favoured in enumerate(_favoured(present, strength, seed)):
            wanted = (1 - strength) * counts / counts.sum()
            wanted[favoured] += strength / len(favoured)
            rows = _with_shares(order, labels, wanted, numpy_generator(seed, "class shares", str(strength), turn))
            if len(rows) >= least:
                name = f"classes {', '.join(source.classes[c] for c in favoured[:3])} favoured by {strength:g}"
                found.append(PseudoTarget(name, "labels", float(strength), source.take(rows)))
    return found


def _favoured(present: np.ndarray, strength: float, seed: int) -> list[np.ndarray]:
    if len(present) == 2:
        return [present[:1], present[1:]]
    generator = numpy_generator(seed, "favoured classes", str(strength))
    mixed = generator.permutation(present)
    size = max(1, len(present) // 3)
    return [np.sort(mixed[:size]), np.sort(mixed[size : 2 * size])]


def _with_shares(
    order: np.ndarray, labels: np.ndarray, wanted: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return the most rows, none twice, whose classes have the wanted shares."""
    mixed = generator.permutation(order)
    rows = [mixed[labels[mixed] == c] for c in range(len(wanted))]
    total = min(len(rows[c]) / wanted[c] for c in range(len(wanted)) if wanted[c] > 0 and len(rows[c]))
    return np.concatenate([rows[c][: round(total * wanted[c])] for c in range(len(wanted))])


def corruption_targets(
    outputs_of: Callable[[str, int], Outputs],
    corruptions: Iterable[str],
    *,
    severities: Sequence[int] = SEVERITIES,
) -> list[PseudoTarget]:
    """Ask the classifier about corrupted copies of the source samples.

    Args:
        outputs_of: takes the name of a corruption and a severity, and returns what the classifier says of the source
            samples so corrupted, with their labels and ids.
        corruptions: names; each is a kind of its own (see ``roadworthy.labelfree.corruptions``).
        severities: 1 to 5.

    Returns:
        A pseudo-target for every corruption and severity.

    Raises:
        InputError: outputs without labels.

    Example:
        >>> said = lambda name, severity: Outputs.of([0.5 + 0.1 * severity] * 40, labels=[1] * 40)
        >>> [found.name for found in corruption_targets(said, ["noise"], severities=[1, 3])]
        ['noise 1', 'noise 3']
    """
    found = []
    for name in corruptions:
        for severity in severities:
            outputs: Any = outputs_of(name, severity)
            outputs.known_labels("a pseudo-target")
            found.append(PseudoTarget(f"{name} {severity}", name, float(severity), outputs))
    return found
