"""ROAD on the same maps, beside a retrained result: its scores, and how far it ranks the methods alike."""

from __future__ import annotations

from dataclasses import dataclass

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.report.findings import Findings


@dataclass(frozen=True)
class Road:
    """ROAD beside a result: the score of each method, what it is called, and its direction."""

    score: dict[str, float]
    name: str
    higher_is_better: bool
    same_orders: bool

    @property
    def direction(self) -> str:
        """The direction in words."""
        return f"{'higher' if self.higher_is_better else 'lower'} is better"


def road_beside(result: Result) -> Road | None:
    """ROAD where it was run beside, for comparison; without a direction it is the symmetric gain of older results."""
    road = (result.settings.get("beside") or {}).get("road") or {}
    if not road.get("score"):
        return None
    if "higher_is_better" not in road:
        return Road(dict(road["score"]), "symmetric gain", True, len(result.orders) == 2)
    same = road.get("orders") in (result.orders, result.orders[::-1])
    return Road(dict(road["score"]), str(road.get("score_name", "score")), bool(road["higher_is_better"]), same)


def road_agreement(found: Findings) -> tuple[float, float, int] | None:
    """Spearman and Kendall between this ranking and ROAD's on the same maps, and over how many methods that count.

    Each score counts in its own direction, so that 1 is the same ranking. None where ROAD does not stand beside the
    result; NaN where a ranking is undefined.
    """
    road = road_beside(found.result)
    shared = [method for method in found.counted if road and method in road.score]
    if road is None or not shared:
        return None
    sign = 1 if road.higher_is_better == bool(found.ranking.attrs["higher_is_better"]) else -1
    own = [float(found.row(method)["score"]) for method in shared]
    other = [sign * float(road.score[method]) for method in shared]
    return float(statistics.spearman(own, other)), float(statistics.kendall(own, other)), len(shared)
