"""How far strategies agree on the ranking of methods: the full matrix, with its uncertainty.

A *source* is one way to score methods: an order, with or without retraining, an imputer, a seed, a model. Two sources
agree as the ROAD paper has it: rank the methods at each share, correlate the ranks, and average over the shares.
Beside it stands the agreement overall, on the areas under the whole curves.

**Sign.** Methods are ranked by how good they are: after MoRF a low score is good, after LeRF a high one. The paper's
code correlates the raw scores, so that its cells of MoRF against LeRF come out negative and have to be negated to be
those of the paper's tables; here nothing is left to negate, and 1 is always the same ranking.

**Pairing.** ``"removed"`` compares MoRF and LeRF at the same share removed. The paper's code counts for LeRF the
share *kept*: it compares MoRF with the share p removed with LeRF with the share p kept, that is 1 - p removed. That
is ``"kept"``: LeRF stands at 1 - p, which changes nothing between two sources of LeRF but the axis. The choice
matters: in the repetition of the paper's experiment in ``examples/road-paper`` the two say opposite things.

**Uncertainty.** All sources are resampled together, the same samples (or trainings) for all. Noise in the scores
lowers a rank correlation, and a resample has the noise twice, so that the percentiles of resamples lie too low. So
the interval reaches as far to both sides as the farther end of the expanded percentile interval, cut off at -1 and 1.
How often it then holds the agreement of the noiseless curves (hits of MoRF and LeRF at five shares, 125 panels each,
standard error 3 to 4 %; ``benchmarks/results/error_rates.txt``):

=====================================  ========  ===========
methods                                interval  bias of rho
=====================================  ========  ===========
M = 8, n = 200, far apart              89 %      -.03
M = 8, n = 1,000, far apart            83 %      -.01
M = 8, n = 200, close to each other    70 %      -.30
M = 8, n = 1,000, close to each other  89 %      -.09
M = 8, n = 1,000, orders that differ   86 %      .00
M = 5, n = 300, far apart              91 %      -.03
=====================================  ========  ===========

Where samples are few for methods that close, the agreement shown is itself too low by the bias, which the interval
does not mend wholly. Over trainings it holds the agreement in 96 % of panels at 5 trainings, 91 % at 10, 74 % at 3,
and 61 % at 2: with 2 or 3 do not rely on it. A standard error is the standard deviation over resamples; between two
sources of several trainings each it is that of the agreement within single repeats over ``sqrt(R)``, as published,
and tells nothing of the bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from roadworthy.errors import InputError
from roadworthy.rng import resolve_seed
from roadworthy.statistics._checks import check_draws, check_level, listed
from roadworthy.statistics._layout import Checked, Layout
from roadworthy.statistics.rank_matrices import concordance_p, kendall_matrix, kendalls_w, spearman_matrix
from roadworthy.statistics.ranks import midranks
from roadworthy.statistics.resampling import canonical, expanded_interval, resampled_means

if TYPE_CHECKING:
    from roadworthy.types import Seed

Pairing = Literal["removed", "kept"]
_CELLS = 1 << 21  # correlations or ranks held at a time
_STATISTICS = ("spearman", "kendall", "spearman_area", "kendall_area")


@dataclass(frozen=True)
class Source:
    """One way to score methods.

    Attributes:
        name: how it is called.
        scores: (M, P, U) finite score of each method at each share for each unit.
        shares: (P,) rising shares removed, in [0, 1], whatever the pairing. Share 0, where nothing is removed, counts
            for the areas and ranks nothing.
        order: ``"morf"``, ``"lerf"``, or ``""`` for a score of both, such as the symmetric gain.
        higher_is_better: whether a high score is good; by default it is not after MoRF, and is otherwise.
        unit: what the last axis counts: ``"samples"``, the same in every source; or ``"trainings"`` (or seeds, or
            runs), where those of the same place share their seeds.
    """

    name: str
    scores: Any
    shares: Any
    order: str = ""
    higher_is_better: bool | None = None
    unit: str = "samples"


@dataclass(frozen=True)
class Matrix:
    """One statistic of every pair of sources, each array (S, S) and symmetric; NaN where undefined.

    Attributes:
        value: the agreement of the mean scores.
        se: its standard error.
        low: lower end of its interval.
        high: upper end.
    """

    value: np.ndarray
    se: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Concordance:
    """What :func:`concordance` finds for S sources, M methods and P shares.

    Attributes:
        sources: names of the sources.
        methods: names of the methods.
        pairing: ``"removed"`` or ``"kept"``.
        shares: (P,) the shares at which sources are compared; 1 - p for LeRF where the share kept is paired.
        spearman: Spearman's rho of the methods' ranks, the mean over the shares where it is defined.
        kendall: Kendall's tau-b likewise.
        spearman_area: Spearman's rho of the areas under the whole curves.
        kendall_area: Kendall's tau-b of the areas.
        spearman_shares: (S, S, P) Spearman's rho at each share.
        kendall_shares: (S, S, P) Kendall's tau-b at each share.
        used: (S, S) number of shares with a value, over which the mean is.
        trainings: (S, S) number of trainings that the standard error is over, where both sources have several; 0
            where it is over resamples.
        single: (S, S) mean Spearman (over shares) within single trainings; NaN where ``trainings`` is 0. It lies
            below that of the mean scores where trainings are noisy.
        ranks: (S, M) rank of each method by the area, 1 the best; equal areas share the mean of their ranks.
        unranked: sources that rank the methods at no share, for every method has the same score there. They agree
            with none, and W is over the others.
        twins: groups of sources with the same order, shares and scores of every unit: one thing under several names,
            so that its agreement says nothing. They count in W.
        w: Kendall's W of the areas over all sources that rank the methods, corrected for ties.
        w_low: lower end of its interval.
        w_high: upper end.
        w_p: p-value of W: how often unrelated rankings reach it.
        w_shares: (P,) W at each share over the same sources; NaN where one of them lacks the share.
        level: confidence level of each interval on its own.
        draws: number of resamples, and of permutations.
        n: number of samples; 0 where every source is over trainings.
        seed: the seed used.
    """

    sources: tuple[str, ...]
    methods: tuple[str, ...]
    pairing: Pairing
    shares: np.ndarray
    spearman: Matrix
    kendall: Matrix
    spearman_area: Matrix
    kendall_area: Matrix
    spearman_shares: np.ndarray
    kendall_shares: np.ndarray
    used: np.ndarray
    trainings: np.ndarray
    single: np.ndarray
    ranks: np.ndarray
    unranked: tuple[str, ...]
    twins: tuple[tuple[str, ...], ...]
    w: float
    w_low: float
    w_high: float
    w_p: float
    w_shares: np.ndarray
    level: float
    draws: int
    n: int
    seed: int

    def pairs(self) -> pd.DataFrame:
        """Return a row per pair of sources.

        Returns:
            Columns ``source``, ``other``, ``shares`` (used), ``methods``, ``trainings``, ``single``, and for each of
            spearman, kendall, spearman_area and kendall_area the value, ``_se``, ``_low`` and ``_high``.
        """
        first, second = np.triu_indices(len(self.sources), 1)
        columns: dict[str, Any] = {
            "source": [self.sources[i] for i in first],
            "other": [self.sources[j] for j in second],
            "shares": self.used[first, second],
            "methods": len(self.methods),
            "trainings": self.trainings[first, second],
            "single": self.single[first, second],
        }
        for name in _STATISTICS:
            found: Matrix = getattr(self, name)
            columns[name] = found.value[first, second]
            columns |= {f"{name}_{part}": getattr(found, part)[first, second] for part in ("se", "low", "high")}
        return pd.DataFrame(columns)


def concordance(
    sources: Sequence[Source],
    methods: Sequence[str] | None = None,
    *,
    pairing: Pairing = "removed",
    level: float = 0.95,
    draws: int = 2000,
    seed: Seed = 0,
) -> Concordance:
    """Compare how sources rank the same methods: every pair, and all together.

    Two sources are compared at the shares that both have. A resample in which an agreement is undefined is left out;
    where more than ``1 - level`` of them are, there is no interval. With one unit there is none either.

    Args:
        sources: two or more, of the same M methods in the same order.
        methods: names of the methods.
        pairing: how MoRF and LeRF are paired, see above.
        level: confidence level of each interval on its own, in (0, 1).
        draws: resamples, and permutations for the p-value of W.
        seed: seed or generator.

    Returns:
        The matrices and Kendall's W. What is undefined is NaN, neither 0 nor 1: a single method, a source that
        scores all methods alike (left out of W and named), no share in common.

    Raises:
        InputError: fewer than two sources, names that repeat, scores that do not fit each other or are not finite.

    Example:
        >>> morf = Source("MoRF", [[[0.2], [0.1]], [[0.4], [0.3]], [[0.6], [0.5]]], [0.5, 0.7], "morf")
        >>> lerf = Source("LeRF", [[[0.9], [0.8]], [[0.8], [0.7]], [[0.6], [0.9]]], [0.5, 0.7], "lerf")
        >>> found = concordance([morf, lerf])
        >>> found.spearman_shares[0, 1].tolist(), float(found.spearman.value[0, 1])
        ([1.0, -0.5], 0.25)
    """
    check_draws(draws), check_level(level)
    if pairing not in ("removed", "kept"):
        raise InputError(f"pairing: {pairing!r} came, expected 'removed' or 'kept'")
    checked = [Checked(source, pairing) for source in sources]
    names = _check(checked, methods)
    number = resolve_seed(seed)
    layout = Layout(checked)
    means = [source.scores.mean(axis=-1)[None] for source in checked]
    rho, tau, areas = layout.correlations(means)
    overall = areas[0]
    used = (~np.isnan(rho[0])).sum(axis=0)
    ranking = used.diagonal() > 0
    moved, w_moved = _resample(layout, draws, number, ranking)
    trainings, singles = _over_trainings(layout)
    units = _units(layout)
    values = _statistics(rho, tau, areas)
    found = {
        name: _matrix(values[name][0], moved[name], singles[name], trainings, units, level) for name in _STATISTICS
    }
    counted = [source for source, ranks in zip(checked, ranking, strict=True) if ranks]
    w = kendalls_w(overall[ranking])
    w_low, w_high = _interval(w[None], w_moved[:, None], _fewest(counted), level)
    return Concordance(
        sources=tuple(source.name for source in checked),
        methods=names,
        pairing=pairing,
        shares=layout.shares,
        **found,
        spearman_shares=np.moveaxis(rho[0], 0, -1),
        kendall_shares=np.moveaxis(tau[0], 0, -1),
        used=used,
        trainings=trainings,
        single=np.where(trainings > 0, _mean(singles["spearman"], axis=0), np.nan),
        ranks=midranks(-overall),
        unranked=tuple(source.name for source, ranks in zip(checked, ranking, strict=True) if not ranks),
        twins=_twins(counted),
        w=float(w),
        w_low=float(w_low[0].clip(0)),
        w_high=float(w_high[0]),
        w_p=concordance_p(overall[ranking], draws=draws, seed=number),
        w_shares=kendalls_w(layout.ranked(means)[0][:, ranking]),
        level=level,
        draws=draws,
        n=max((source.count for source in checked if source.unit == "samples"), default=0),
        seed=number,
    )


def _check(sources: list[Checked], methods: Sequence[str] | None) -> tuple[str, ...]:
    names = [source.name for source in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    if len(names) < 2 or twice:
        what = f"{listed(twice)} more than once" if twice else f"{len(names)} source"
        raise InputError(f"sources: {what} came, expected two or more, each with a name of its own")
    counts = {source.name: len(source.scores) for source in sources}
    if len(set(counts.values())) > 1:
        raise InputError(f"sources: they score {counts} methods, expected the same methods in each")
    samples = {source.name: source.count for source in sources if source.unit == "samples"}
    if len(set(samples.values())) > 1:
        raise InputError(f"sources: they have {samples} samples, expected the same samples in each")
    count = counts[names[0]]
    labels = tuple(map(str, range(count) if methods is None else methods))
    if len(labels) != count:
        raise InputError(f"methods: {len(labels)} names came for {count} methods")
    return labels


def _twins(sources: list[Checked]) -> tuple[tuple[str, ...], ...]:
    """Return the names of sources that are the same but for their name, a group each."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for source in sources:
        scores = source.scores + 0.0  # no negative zero
        key = (source.unit, scores.shape, source.at.tobytes(), source.removed.tobytes(), scores.tobytes())
        groups.setdefault(key, []).append(source.name)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _statistics(rho: np.ndarray, tau: np.ndarray, areas: np.ndarray) -> dict[str, np.ndarray]:
    """Return each statistic of every pair, (D, S, S)."""
    values = (_mean(rho, axis=1), _mean(tau, axis=1), spearman_matrix(areas), kendall_matrix(areas))
    return dict(zip(_STATISTICS, values, strict=True))


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean of what is defined; NaN where nothing is."""
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(defined, values, 0.0).sum(axis=axis) / defined.sum(axis=axis))


def _resample(layout: Layout, draws: int, seed: int, ranking: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return each statistic (draws, S, S) and W (draws,) of resampled units, W over the sources of ``ranking``."""
    curves: list[np.ndarray] = [np.empty(0)] * len(layout.sources)
    for kind in sorted({(source.unit, source.count) for source in layout.sources}):
        members = [s for s, source in enumerate(layout.sources) if (source.unit, source.count) == kind]
        stacked = np.concatenate([layout.sources[s].scores.reshape(-1, kind[1]) for s in members])
        rows, back = canonical(stacked)
        means = resampled_means(rows, draws, seed, f"concordance {kind[0]} {kind[1]}")[:, back]
        ends = np.cumsum([layout.sources[s].scores[..., 0].size for s in members])[:-1]
        for s, part in zip(members, np.split(means, ends, axis=1), strict=True):
            curves[s] = part.reshape(draws, *layout.sources[s].scores.shape[:2])
    size = len(layout.sources)
    step = max(1, _CELLS // (max(1, len(layout.shares)) * size * max(size, layout.methods)))
    parts, w = [], []
    for start in range(0, draws, step):
        rho, tau, areas = layout.correlations([curve[start : start + step] for curve in curves])
        parts.append(_statistics(rho, tau, areas))
        w.append(kendalls_w(areas[:, ranking]))
    return {name: np.concatenate([part[name] for part in parts]) for name in _STATISTICS}, np.concatenate(w)


def _over_trainings(layout: Layout) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return for each pair the number of trainings, 0 if there are not several, and the statistics within each.

    Where one has more trainings than the other, the first are taken, for they share their seeds.
    """
    counts = np.array([source.count if source.unit == "trainings" else 1 for source in layout.sources])
    trainings = np.minimum(counts[:, None], counts)
    curves = [_padded(source, int(counts.max())) for source in layout.sources]
    return np.where(trainings > 1, trainings, 0), _statistics(*layout.correlations(curves))


def _padded(source: Checked, most: int) -> np.ndarray:
    """Return (most, M, P), a training each, NaN where there is none."""
    scores = source.scores if source.unit == "trainings" else source.scores.mean(axis=-1, keepdims=True)
    methods, shares, count = scores.shape
    return np.concatenate([np.moveaxis(scores, -1, 0), np.full((most - count, methods, shares), np.nan)])


def _units(layout: Layout) -> np.ndarray:
    """Return the number of units that each pair's interval is over."""
    pairs = [[_fewest([one, other]) for other in layout.sources] for one in layout.sources]
    return np.array(pairs)


def _fewest(sources: list[Checked]) -> int:
    """Return the least number of units of a source; a single training has no spread to count."""
    return min((source.count for source in sources if source.count > 1), default=1)


def _matrix(
    value: np.ndarray, moved: np.ndarray, single: np.ndarray, trainings: np.ndarray, units: np.ndarray, level: float
) -> Matrix:
    se = np.where(units > 1, np.sqrt(_variance(moved)), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        se = np.where(trainings > 0, np.sqrt(_variance(single) / trainings), se)
    low, high = np.empty_like(value), np.empty_like(value)
    for n in np.unique(units):
        low[units == n], high[units == n] = _interval(value[units == n], moved[:, units == n], int(n), level)
    return Matrix(value, se, low, high)


def _variance(values: np.ndarray) -> np.ndarray:
    """Return the variance (ddof 1) over the first axis of what is defined."""
    count = (~np.isnan(values)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(
            np.nansum((values - _mean(values, axis=0)) ** 2, axis=0) / np.where(count > 1, count - 1, np.nan)
        )


def _interval(value: np.ndarray, moved: np.ndarray, n: int, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the interval of each column of resampled values, without the resamples in which it is undefined."""
    undefined = np.isnan(moved)
    low, high = expanded_interval(np.where(undefined, 0.0, moved), level, n)
    for column in np.flatnonzero(undefined.any(axis=0)):
        defined = moved[~undefined[:, column], column]
        enough = len(defined) >= level * len(moved)
        low[column], high[column] = expanded_interval(defined, level, n) if enough else (np.nan, np.nan)
    half = np.maximum(value - low, high - value)
    return (value - half).clip(-1, 1), (value + half).clip(-1, 1)
