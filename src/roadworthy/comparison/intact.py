"""The accuracy with nothing removed of each run, and what it differs by from the first run's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadworthy.comparison.paired import over_samples
from roadworthy.comparison.units import shared_trainings
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import labelled
from roadworthy.statistics import holm, over_repeats, paired_repeats, unpaired_difference

if TYPE_CHECKING:
    from roadworthy.comparison.evaluations import Pair

_DRAWS = 10_000
_NONE = {
    "against": "", "difference": np.nan, "difference_low": np.nan, "difference_high": np.nan, "p": np.nan,
    "p_holm": np.nan, "different": False, "paired": False, "only_run": np.nan, "only_against": np.nan,
}  # fmt: skip


def intact_table(runs: Mapping[str, Result], pairs: list[Pair], *, level: float, seed: int) -> pd.DataFrame:
    """Return a row per run; see :class:`~roadworthy.comparison.Comparison`.

    The interval of an accuracy is Wilson's over samples, Student's over trainings. Its difference is compared by the
    paired bootstrap over the same samples, whose sign flips are McNemar's exact test; by Newcombe's interval and
    Fisher's exact test over others; and over trainings as scores are. Without labels there is no accuracy: NaN.

    Args:
        runs: results by name.
        pairs: each run but the first with the first.
        level: of intervals, and of all differences together.
        seed: of the bootstrap.
    """
    rows = {name: {"run": name, **_own(result, level), **_NONE} for name, result in runs.items()}
    for pair in pairs:
        if all(labelled(result) for result in pair.results):
            rows[pair.run] |= {"against": pair.against, **_difference(pair, level=level, seed=seed)}
    table = pd.DataFrame(list(rows.values()))
    known = table["p"].notna()
    table.loc[known, "p_holm"] = holm(table.loc[known, "p"].to_numpy(dtype=float))
    table["different"] = table["p_holm"] <= 1 - level
    return table


def _hits(result: Result) -> np.ndarray:
    """Return the hits (trainings, samples) with nothing removed, of the first judge; all repeats of it are one."""
    hits = result.scores.top1[0, 0, 0, : result.repeats // len(result.views)]
    return np.asarray(hits if result.retrained else hits[:1], dtype=np.float64)


def _own(result: Result, level: float) -> dict[str, Any]:
    from scipy.special import ndtri

    from roadworthy.labelfree.labelling.intervals import wilson

    hits = _hits(result)
    count = {"n": len(hits), "unit": "trainings"} if len(hits) > 1 else {"n": result.n, "unit": "samples"}
    if not labelled(result):
        return {"accuracy": np.nan, "low": np.nan, "high": np.nan, **count}
    if len(hits) > 1:
        found = over_repeats(hits.mean(axis=1), level=level)
        return {"accuracy": float(found.mean), "low": float(found.low), "high": float(found.high), **count}
    low, high = wilson(float(hits.mean()), result.n, float(ndtri((1 + level) / 2)))
    return {"accuracy": float(hits.mean()), "low": low, "high": high, **count}


def _difference(pair: Pair, *, level: float, seed: int) -> dict[str, Any]:
    one, other = (_hits(result) for result in pair.results)
    if len(one) > 1 and len(other) > 1:
        return _of_trainings(pair, one, other, level)
    if pair.shared.rows is None:
        return _of_others(one.mean(axis=0), other.mean(axis=0), level)
    one, other = one.mean(axis=0), other.mean(axis=0)
    found = over_samples(one[None], other[None], level=level, draws=_DRAWS, seed=seed)
    return {
        "difference": found["difference"][0], "difference_low": found["low"][0],
        "difference_high": found["high"][0], "p": found["p"][0], "paired": True,
        "only_run": int((one > other).sum()), "only_against": int((other > one).sum()),
    }  # fmt: skip


def _of_trainings(pair: Pair, one: np.ndarray, other: np.ndarray, level: float) -> dict[str, Any]:
    places = shared_trainings(*pair.results)
    rows = one.mean(axis=1), other.mean(axis=1)
    if places is None:
        apart = unpaired_difference([rows[0]], [rows[1]], level=level)
        ends = apart.difference[0], apart.low[0], apart.high[0], apart.p[0]
    else:
        found = paired_repeats([rows[0][places[0]], rows[1][places[1]]], level=level)
        ends = found.difference[0, 1], found.difference_low[0, 1], found.difference_high[0, 1], found.p[0, 1]
        same = pair.shared.rows is not None and np.array_equal(one[places[0]], other[places[1]])
        if same:  # the very same answers, not merely as many hits
            ends = 0.0, 0.0, 0.0, 1.0
    names = ("difference", "difference_low", "difference_high", "p")
    return {**dict(zip(names, map(float, ends), strict=True)), "paired": places is not None}


def _of_others(one: np.ndarray, other: np.ndarray, level: float) -> dict[str, Any]:
    from scipy.stats import fisher_exact

    low, high = newcombe((float(one.mean()), len(one)), (float(other.mean()), len(other)), level)
    right = [round(float(hits.sum())) for hits in (one, other)]
    table = [[count, len(hits) - count] for count, hits in zip(right, (one, other), strict=True)]
    return {
        "difference": float(one.mean() - other.mean()), "difference_low": low, "difference_high": high,
        "p": float(fisher_exact(table).pvalue), "paired": False,
    }  # fmt: skip


def newcombe(one: tuple[float, int], other: tuple[float, int], level: float) -> tuple[float, float]:
    """Interval for the difference of two shares that were counted on other samples (Newcombe 1998, his method 10).

    Args:
        one: the share and of how many.
        other: likewise; it is taken from the first.
        level: of the interval.

    Returns:
        Lower and upper end.

    Example:
        >>> low, high = newcombe((56 / 70, 70), (48 / 80, 80), 0.95)  # an example of the paper
        >>> round(low, 4), round(high, 4)
        (0.0524, 0.3339)
    """
    from scipy.special import ndtri

    from roadworthy.labelfree.labelling.intervals import wilson

    quantile = float(ndtri((1 + level) / 2))
    (a, b), (c, d) = wilson(*one, quantile), wilson(*other, quantile)
    difference = one[0] - other[0]
    return (
        difference - float(np.hypot(one[0] - a, d - other[0])),
        difference + float(np.hypot(b - one[0], other[0] - c)),
    )
