"""How far a ranking may be read: labels, an accuracy above chance, where scores end, judges and fills that agree."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from roadworthy import statistics

if TYPE_CHECKING:
    from roadworthy.evaluation.result import Result

CONTROLS = ("random", "sobel", "center", "constant")


def is_control(name: str) -> bool:
    """Return whether a method is a control, which a real method should beat.

    Example:
        >>> is_control("sobel"), is_control("inverse:ig"), is_control("ig")
        (True, True, False)
    """
    return name in CONTROLS or name.startswith("inverse:")


def class_count(result: Result) -> int:
    """Number of classes of the model; where not recorded, as many as names, labels and answers show, at least 2."""
    recorded = result.settings.get("classes")
    if isinstance(recorded, int) and recorded > 1:
        return recorded
    scores = result.scores
    seen = [int(np.max(values)) for values in (scores.labels, scores.targets, scores.predicted) if len(values)]
    return max(2, len(result.classes), *(top + 1 for top in seen))


def chance(result: Result) -> float:
    """Accuracy of guessing: 1 / number of classes."""
    return 1 / class_count(result)


def above_chance(result: Result) -> bool:
    """Whether the intact accuracy is clearly above chance (5 %); without labels there is none to judge: True."""
    correct = round(result.intact_accuracy * result.n)
    return not labelled(result) or statistics.above_chance(correct, result.n, class_count(result))


def labelled(result: Result) -> bool:
    """Whether hits are counted against labels that were given, not against the model's own intact answers."""
    if "labels" in result.settings:
        return bool(result.settings["labels"] == "given")
    return not any(warning.startswith("no labels were given") for warning in result.warnings)


def within_range(frame: pd.DataFrame, readout: str, lowest: float = 0.0) -> pd.DataFrame:
    """Cut the columns low and high off where values end, at ``lowest`` and 1; a logit has no ends.

    A t-interval over few trainings reaches beyond. What is cut off is impossible, so the rest covers as often.
    """
    if readout == "logit":
        return frame
    return frame.assign(**{column: frame[column].clip(lowest, 1) for column in ("low", "high")})


def shown_ranking(ranking: pd.DataFrame, readout: str) -> pd.DataFrame:
    """Cut the intervals of a ranking off where its score ends: a gain is in [-1, 1], an area in [0, 1]."""
    return within_range(ranking, readout, -1.0 if {"morf_area", "lerf_area"} <= set(ranking.columns) else 0.0)


def contradicted(result: Result, readout: str | None = None) -> set[str]:
    """Return the methods that two judges or fills rank against each other, both times told apart.

    Such methods have no rank; that two controls change places matters to nobody.

    Args:
        result: what an evaluation found.
        readout: what is ranked by; the result's own by default.
    """
    chosen = readout or result.readout
    known = result._once(f"contradicted {chosen!r} {result._seed}", lambda: _contradicted(result, chosen))
    return set(known["method"])


def _contradicted(result: Result, readout: str) -> pd.DataFrame:
    if len(result.views) < 2:
        return pd.DataFrame({"method": []})
    rankings = [result.view(index).ranking(readout) for index in range(len(result.views))]
    better = [_better(ranking) for ranking in rankings]
    found = {pair for one, other in combinations(better, 2) for pair in one if pair[::-1] in other}
    return pd.DataFrame(
        {"method": sorted({name for pair in found if not all(map(is_control, pair)) for name in pair})}
    )


def _better(ranking: pd.DataFrame) -> set[tuple[str, str]]:
    """Return the pairs of methods told apart, the better one first."""
    names, different = ranking["method"].tolist(), ranking.attrs["different"]
    return {(names[i], names[j]) for i, j in combinations(range(len(names)), 2) if different[i][j]}
