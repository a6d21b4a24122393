"""The reliability-completeness curve: how stable are predictions, on how much of the data?

Samples are kept by falling rank. Reliability of the kept part is how far its perturbed predictions agree with the
clean class, beyond chance: Cohen's kappa of the part (Cohen 1960), whose chance term pairs the perturbed predictions
with the clean classes of the whole set. A model that says one class of everything gets 0 at every coverage, a model
that no perturbation moves gets 1.

Two choices, and why. *Soft agreement* (mean probability of the clean class over passes) rather than the share of
passes with the clean class: weak noise hardly moves an untrained smooth network, whose passes agree although it knows
nothing. *Ranked by the clean confidence* rather than by the agreement itself: a curve that ranks by what it measures
starts high by selection alone. Small networks on digits, 899 test images, Gaussian noise of sd 0.1, three seeds
(``benchmarks/results/reliability_areas.txt``):

=================================  ======================  ================  ======================
area                               soft, clean confidence  soft, itself      hard, clean confidence
=================================  ======================  ================  ======================
untrained                          .005 to .010            .005 to .010      .839 to .919
trained, accuracy .94 to .95       .989 to .990            .989 to .991      .997 to .998
the same, passes of other samples  -.017 to -.013          .230 to .234      -.017 to -.012
one class for everything           .000                    .000              .000
=================================  ======================  ================  ======================

At equal clean outputs, more weight on the clean class never lowers a point that is not below chance. Reliability is
no accuracy: a stable model can be wrong, and a model that is right but unsure has low soft agreement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, unknown_name
from roadworthy.labelfree.plain import plain
from roadworthy.labelfree.selective import Ranked, bands, ranked
from roadworthy.rng import resolve_seed
from roadworthy.statistics.resampling import expanded_interval

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency
    from roadworthy.types import Seed

CLEAN_CONFIDENCE = "clean-confidence"
STATISTICS = ("soft-agreement", "agreement")
_POINTS = 200  # points of a curve that are kept; the area is of all of them


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Reliability of the kept part at each coverage.

    Attributes:
        form: ``"ranked"``, or ``"as-described"`` (kept for comparison, see :func:`as_described_curve`).
        coverage: (M,) share of samples kept; rising to 1 when ranked.
        reliability: (M,) reliability of that part; NaN where nothing is kept.
        low: (M,) lower end of its interval, each point on its own at a fixed threshold; None where not computed.
        high: (M,) upper end.
        thresholds: (M,) samples with at least this score are kept.
        area: mean reliability over coverage in (0, 1]; as-described: the area under the points.
        area_low: lower end of the area's interval; NaN where not computed.
        area_high: upper end.
        estimator: what is measured, and what samples are ranked by.
        level: confidence level of the intervals.
        n: number of samples.
        notes: what to know when reading it.
    """

    form: Literal["ranked", "as-described"]
    coverage: np.ndarray
    reliability: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    thresholds: np.ndarray
    area: float
    area_low: float
    area_high: float
    estimator: str
    level: float
    n: int
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN is None."""
        return plain(self)


def reliability_curve(
    consistency: Consistency,
    *,
    statistic: str = "soft-agreement",
    rank: str = CLEAN_CONFIDENCE,
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
) -> ReliabilityCurve:
    """Draw the ranked curve of a model's consistency under perturbation.

    Args:
        consistency: what :func:`perturbation_consistency` returned.
        statistic: ``"soft-agreement"``, the mean probability of the clean class over passes, or ``"agreement"``, the
            share of passes with the clean class.
        rank: what samples are kept by: ``"clean-confidence"``, or a statistic that ``consistency.scores`` knows.
        level: confidence level of the intervals.
        draws: bootstrap draws over samples; 0 for no intervals.
        seed: seed or generator.

    Returns:
        The curve.

    Raises:
        InputError: an unknown statistic or rank.

    Example:
        >>> reliability_curve(consistency).area  # doctest: +SKIP
        0.87
    """
    return curve_of(
        ranked_consistency(consistency, statistic=statistic, rank=rank),
        estimator=f"{statistic}, ranked by {rank}",
        level=level,
        draws=draws,
        seed=seed,
        notes=(*consistency.notes, *_circular(statistic, rank)),
    )


def ranked_consistency(
    consistency: Consistency, *, statistic: str = "soft-agreement", rank: str = CLEAN_CONFIDENCE
) -> Ranked:
    """Rank the samples of a consistency record, see :func:`reliability_curve`.

    Args:
        consistency: the record.
        statistic: what is measured.
        rank: what samples are kept by.

    Returns:
        The ranked samples.

    Raises:
        InputError: an unknown statistic or rank.

    Example:
        >>> ranked_consistency(consistency).area  # doctest: +SKIP
        0.87
    """
    if statistic not in STATISTICS:
        raise unknown_name("statistic of the curve", statistic, STATISTICS)
    clean = consistency.clean
    shares = consistency.mean_probabilities
    if statistic == "agreement":
        shares = pass_shares(consistency.agreement_count, consistency.passes, clean.predicted, shares)
    score = clean.confidence if rank == CLEAN_CONFIDENCE else consistency.scores(rank)
    values = shares[np.arange(len(clean)), clean.predicted]
    return ranked(score, values, predicted=clean.predicted, shares=shares)


def agreement_curve(
    shares: ArrayLike,
    predicted: ArrayLike,
    scores: ArrayLike,
    *,
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
) -> ReliabilityCurve:
    """Draw the ranked curve from arrays.

    Args:
        shares: (N, C) how likely each class is on each sample when perturbed: mean probabilities over passes, or
            shares of passes (:func:`pass_shares` makes them of counts). All C classes of the model, seen or not.
        predicted: (N,) clean class of each sample.
        scores: (N,) what samples are kept by, high first.
        level: confidence level of the intervals.
        draws: bootstrap draws over samples; 0 for no intervals.
        seed: seed or generator.

    Returns:
        The curve.

    Raises:
        InputError: shapes that do not fit, or values that are not finite.

    Example:
        >>> stable = agreement_curve([[1, 0], [0, 1]], [0, 1], [0.9, 0.8], draws=0)
        >>> collapsed = agreement_curve([[1, 0], [1, 0]], [0, 0], [0.9, 0.8], draws=0)
        >>> stable.area, collapsed.area
        (1.0, 0.0)
    """
    table, classes = np.asarray(shares, dtype=np.float64), np.asarray(predicted)
    if table.ndim != 2 or classes.shape != table.shape[:1]:
        raise InputError(f"shares have shape {table.shape} and predicted {classes.shape}, expected (N, C) and (N,)")
    if not np.isfinite(table).all():
        raise InputError("shares: some values are not finite; leave these samples out")
    if classes.dtype.kind not in "iu" or (classes.size and not 0 <= classes.min() <= classes.max() < table.shape[1]):
        raise InputError(f"predicted: expected whole numbers from 0 to {table.shape[1] - 1}, one a sample")
    values = table[np.arange(len(table)), classes]
    sorted_ = ranked(np.asarray(scores), values, predicted=classes, shares=table)
    return curve_of(sorted_, estimator="agreement with the clean class", level=level, draws=draws, seed=seed)


def selective_curve(
    values: ArrayLike,
    scores: ArrayLike,
    *,
    estimator: str = "mean of values",
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
) -> ReliabilityCurve:
    """Draw the ranked curve of a value that needs no correction for chance: P(correct), or correctness itself.

    Args:
        values: (N,) in [0, 1].
        scores: (N,) what samples are kept by, high first.
        estimator: name of what is measured.
        level: confidence level of the intervals.
        draws: bootstrap draws over samples; 0 for no intervals.
        seed: seed or generator.

    Returns:
        The curve: mean of the values of the kept part.

    Raises:
        InputError: shapes that do not fit, or values that are not finite.

    Example:
        >>> curve = selective_curve([1, 0, 1, 1], [0.9, 0.9, 0.7, 0.7], draws=0)  # ties are one step
        >>> curve.coverage.tolist(), curve.reliability.tolist(), curve.area
        ([0.5, 1.0], [0.5, 0.75], 0.625)
    """
    sorted_ = ranked(np.asarray(scores), np.asarray(values))
    return curve_of(sorted_, estimator=estimator, level=level, draws=draws, seed=seed)


def pass_shares(
    agreement_count: ArrayLike,
    passes: int,
    predicted: ArrayLike,
    likely: ArrayLike | int,
) -> np.ndarray:
    """Share of passes of each class, from how many agreed with the clean class.

    Which class the other passes had is not in the counts: they are spread over the other classes as ``likely`` has
    them. That touches the chance term alone.

    Args:
        agreement_count: int (N,) passes with the clean class.
        passes: number of passes.
        predicted: int (N,) clean class.
        likely: (N, C) mean probabilities, or the number of classes (spread evenly).

    Returns:
        float64 (N, C); rows add up to 1.

    Raises:
        InputError: counts outside 0 .. passes.

    Example:
        >>> pass_shares([3, 1], 4, [0, 1], 3).tolist()
        [[0.75, 0.125, 0.125], [0.375, 0.25, 0.375]]
    """
    count, classes = np.asarray(agreement_count), np.asarray(predicted)
    if passes < 1 or (count.size and not 0 <= count.min() <= count.max() <= passes):
        raise InputError(f"agreement_count: expected 0 to {passes} passes that agree, of at least one pass")
    rows = np.arange(len(count))
    table = np.ones((len(count), likely)) if isinstance(likely, int) else np.array(likely, dtype=np.float64)
    table[rows, classes] = 0
    rest = table.sum(axis=1, keepdims=True)
    table = np.where(rest > 0, table, 1.0)  # the clean class is certain, yet some pass disagreed: spread evenly
    table[rows, classes] = 0
    table *= ((passes - count) / passes / table.sum(axis=1))[:, None]
    table[rows, classes] = count / passes
    return table


def curve_of(
    samples: Ranked,
    *,
    estimator: str,
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
    notes: tuple[str, ...] = (),
) -> ReliabilityCurve:
    """Turn ranked samples into a curve with its bootstrap band.

    Args:
        samples: the ranked samples.
        estimator: name of what is measured.
        level: confidence level of the intervals.
        draws: bootstrap draws over samples; 0 for no intervals.
        seed: seed or generator.
        notes: what to know when reading it.

    Returns:
        The curve; of more than 200 steps, 200 spread evenly over coverage are kept. The area is that of all.

    Raises:
        InputError: a level outside (0, 1).

    Example:
        >>> curve_of(ranked(np.array([0.5]), np.array([1.0])), estimator="x", draws=0).area
        1.0
    """
    if not 0 < level < 1:
        raise InputError(f"level: {level} came, expected a share between 0 and 1, such as 0.9")
    steps = samples.thinned(_POINTS)
    coverage, reliability, n = samples.coverage[steps], samples.reliability[steps], len(samples.order)
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    area_low = area_high = math.nan
    if draws:
        drawn = list(samples.resampled(steps, draws, resolve_seed(seed)))
        at, values = (np.concatenate([part[which] for part in drawn]) for which in (0, 1))
        low, high = bands(values, level, samples.last[steps] + 1)
        area_low, area_high = area_interval(samples, steps, at, values, level)
    return ReliabilityCurve(
        form="ranked",
        coverage=coverage,
        reliability=reliability,
        low=low,
        high=high,
        thresholds=samples.thresholds[steps],
        area=samples.area,
        area_low=area_low,
        area_high=area_high,
        estimator=estimator,
        level=level,
        n=n,
        notes=(*notes, *_small(samples)),
    )


def resampled_areas(samples: Ranked, steps: np.ndarray, coverage: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the area of each draw, (draws,), from coverage and reliability (draws, K) at ``steps``.

    Few steps stand for all of them: the draws are moved by what that changes in the area of the samples themselves.
    """
    widths = np.diff(coverage, axis=1, prepend=0.0)
    areas = np.nansum(widths * values, axis=1)
    coarse = (samples.reliability[steps] * np.diff(samples.coverage[steps], prepend=0.0)).sum()
    return np.asarray(areas + (samples.area - coarse))


def area_interval(
    samples: Ranked, steps: np.ndarray, coverage: np.ndarray, values: np.ndarray, level: float
) -> tuple[float, float]:
    """Return the expanded percentile interval of the area; NaN of one sample."""
    low, high = expanded_interval(resampled_areas(samples, steps, coverage, values), level, len(samples.order))
    return float(low), float(high)


def _circular(statistic: str, rank: str) -> tuple[str, ...]:
    if rank == CLEAN_CONFIDENCE:
        return ()
    return (
        f"Samples are ranked by {rank}, which comes from the same passes as {statistic}: part of a high start is "
        "selection. Rank by clean-confidence for a curve that is free of it.",
    )


def _small(samples: Ranked) -> tuple[str, ...]:
    if samples.predicted is None or len(np.unique(samples.predicted)) > 1:
        return ()
    return (
        "The model gives one class to every sample. Agreement is what chance gives, so reliability is 0: a set of "
        "one class and a model that says one class of everything look the same without labels.",
    )
