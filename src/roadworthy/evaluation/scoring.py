"""How the methods of a result are scored, ranked and drawn.

The unit is the sample where one model is asked (paired bootstrap), and the training where a network was trained anew
for every point (Student's t, paired over repeats that share their seeds). With one training there is no spread
between trainings to be had, so the samples stand in for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadworthy.statistics import (
    area,
    area_over_curve,
    curve_bands,
    over_repeats,
    rank_methods,
    rank_methods_over_repeats,
    symmetric_gain,
)

if TYPE_CHECKING:
    from roadworthy.evaluation.result import Result

_ORDERS = {"morf": "MoRF", "lerf": "LeRF"}


def score(
    curves: np.ndarray, orders: list[str], fractions: list[float], average: str = "area"
) -> tuple[np.ndarray, str, bool]:
    """Score the methods from their curves.

    Args:
        curves: [method, order, fraction, unit], the unit a sample or a training.
        orders: the orders of the second axis.
        fractions: the shares of the third, 0 first.
        average: ``"area"``: under the curve, on its true shares; ``"shares"``: the mean over the shares removed.

    Returns:
        The score of each method for each unit, its name, and whether higher is better.
    """
    if average == "shares":
        rising = np.asarray(curves[:, :, 1:].mean(axis=2))
        if set(orders) == {"morf", "lerf"}:
            return rising[:, orders.index("lerf")] - rising[:, orders.index("morf")], "symmetric gain", True
        return rising[:, 0], f"mean over the shares of the {_ORDERS[orders[0]]} curve", orders[0] == "lerf"
    if set(orders) == {"morf", "lerf"}:
        morf, lerf = curves[:, orders.index("morf")], curves[:, orders.index("lerf")]
        return symmetric_gain(fractions, morf, lerf, axis=1), "symmetric gain", True
    return area(fractions, curves[:, 0], axis=1), f"area under the {_ORDERS[orders[0]]} curve", orders[0] == "lerf"


def over_samples(result: Result, readout: str) -> np.ndarray:
    """Return [method, order, fraction, sample]: the mean over the repeats of the views that count."""
    return np.asarray(_counted(result, readout).mean(axis=3, dtype=np.float64))


def per_repeat(result: Result, readout: str) -> np.ndarray:
    """Return [method, order, fraction, repeat]: the mean over samples, for the repeats of the views that count."""
    return np.asarray(_counted(result, readout).mean(axis=-1, dtype=np.float64))


def _counted(result: Result, readout: str) -> np.ndarray:
    """Return the scores of the views that count; those of one view lie next to each other."""
    values, views = result.scores[readout], len(result.views)
    counted = result.counted_views(readout)
    if len(counted) == views:
        return values
    cells = np.arange(result.repeats).reshape(views, -1)[counted]
    return values[:, :, :, cells.ravel()]


def ranking(result: Result, readout: str, level: float, draws: int, seed: int) -> pd.DataFrame:
    """Rank the methods by their score; see :meth:`Result.ranking`."""
    trainings = result.unit == "trainings"
    curves = per_repeat(result, readout) if trainings else over_samples(result, readout)
    scores, name, higher = score(curves, result.orders, result.fractions, result.average)
    if trainings:
        frame = rank_methods_over_repeats(scores, result.methods, higher_is_better=higher, level=level)
    else:
        options: dict[str, Any] = {"level": level, "draws": draws, "seed": seed}
        frame = rank_methods(scores, result.methods, higher_is_better=higher, **options)
    means = curves.mean(axis=-1)

    def column(values: np.ndarray) -> pd.Series:
        return frame["method"].map(dict(zip(result.methods, values, strict=True)))

    for o, order in enumerate(result.orders):
        frame[f"{order}_area"] = column(area(result.fractions, means[:, o]))
    if result.retrained:
        order = "morf" if "morf" in result.orders else "lerf"
        frame["aoc"] = column(area_over_curve(result.fractions, means[:, result.orders.index(order)]))
        frame.attrs |= {"aoc": f"{_ORDERS[order]}, {'higher' if order == 'morf' else 'lower'} is better"}
    elif result.repeats > len(result.views):
        frame["repeat_sd"] = column(_sd_over_repeats(result, readout))
    counted = result.counted_views(readout)
    left_out = [f"{v['judge']} with {v['imputer']} fill" for i, v in enumerate(result.views) if i not in counted]
    frame.attrs |= {"score": name, "readout": readout, "unit": result.unit, "samples": result.n, "left_out": left_out}
    return frame


def curves(result: Result, readout: str, level: float, draws: int, seed: int) -> pd.DataFrame:
    """Return the mean curves with their bands; see :meth:`Result.curves`."""
    if result.unit == "trainings":
        found = over_repeats(per_repeat(result, readout), level=level)
        mean, low, high = found.mean, found.low, found.high
    else:
        values = over_samples(result, readout)
        mean = values.mean(axis=-1)
        low, high = curve_bands(values.reshape(-1, *values.shape[2:]), level=level, draws=draws, seed=seed)
    return _points(result, value=mean, low=low, high=high)


def summary(result: Result, readout: str, level: float) -> pd.DataFrame:
    """Return mean and spread of every point over repeats; see :meth:`Result.over_repeats`."""
    found = over_repeats(per_repeat(result, readout), level=level)
    return _points(
        result, mean=found.mean, sd=found.sd, n=np.full(found.mean.shape, found.n), low=found.low, high=found.high
    )


def _points(result: Result, **columns: np.ndarray) -> pd.DataFrame:
    """Lay out a row per method, order and fraction."""
    axes: list[list[Any]] = [result.methods, result.orders, result.fractions]
    index = pd.MultiIndex.from_product(axes, names=["method", "order", "fraction"])
    return index.to_frame(index=False).assign(**{name: values.ravel() for name, values in columns.items()})


def _sd_over_repeats(result: Result, readout: str) -> np.ndarray:
    values = per_repeat(result, readout)  # views lie one after the other: repeat r is the mean of theirs
    values = values.reshape(*values.shape[:3], -1, result.repeats // len(result.views)).mean(axis=3)
    scores, _, _ = score(values, result.orders, result.fractions, result.average)
    return np.asarray(scores.std(axis=-1, ddof=1))
