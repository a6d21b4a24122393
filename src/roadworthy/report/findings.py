"""What a result says about its methods, worked out once for the verdict, the tables and the figures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd

from roadworthy import statistics
from roadworthy.errors import InputError
from roadworthy.evaluation.audit.gate_rule import GateRow
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import is_control, shown_ranking
from roadworthy.evaluation.words import READOUTS, ReadoutWords
from roadworthy.report.facts import orders_of, words_of
from roadworthy.report.gate import UNSURE, WITHHELD, judged_so

Standing = Literal["above", "open", "below", "unknown"]


@dataclass(frozen=True)
class Findings:
    """The ranking of one readout and what follows from it.

    Attributes:
        result: what it is about.
        readout: the readout ranked by.
        ranking: what :meth:`Result.ranking` returns, best first.
        agreement: of the two orders; None with a single order.
        views: the same for each judge with each imputer, where there are several; the ranking is over their mean.
    """

    result: Result
    readout: str
    ranking: pd.DataFrame
    agreement: statistics.RankAgreement | None
    views: tuple[View, ...] = ()

    @classmethod
    def of(cls, result: Result, readout: str | None = None, *, level: float = 0.95) -> Findings:
        """Rank the methods of ``result`` by one readout; by the result's own by default.

        Raises:
            InputError: an unknown readout, or a result without methods or samples.
        """
        readout = readout or result.readout
        if readout not in READOUTS:
            raise InputError(f"readout: got {readout!r}, expected one of {', '.join(READOUTS)}")
        if not result.methods or not result.n:
            raise InputError(
                f"report: the result has {len(result.methods)} methods and {result.n} samples, expected some"
            )
        agreement = result.agreement(readout) if len(result.orders) == 2 else None
        ranking = result.ranking(readout, level=level)
        return cls(result, readout, ranking, agreement, _views(result, readout, level))

    @cached_property
    def shown(self) -> pd.DataFrame:
        """The ranking as it is shown: no interval reaches beyond what a score can be."""
        return shown_ranking(self.ranking, self.readout)

    @property
    def methods(self) -> list[str]:
        """Names, best first."""
        return self.ranking["method"].tolist()

    @property
    def level(self) -> float:
        """Confidence level of intervals and of the family of differences."""
        return float(self.ranking.attrs["level"])

    @property
    def score_name(self) -> str:
        """What the score is, in words."""
        return str(self.ranking.attrs["score"])

    @property
    def words(self) -> ReadoutWords:
        """How the readout is spoken of."""
        return words_of(self.result, self.readout)

    @property
    def by_trainings(self) -> bool:
        """Whether intervals and differences are over trainings, not over samples."""
        return self.ranking.attrs["unit"] == "trainings"

    @property
    def both_orders(self) -> bool:
        """Whether the score is the symmetric gain, in which a random map has 0."""
        return self.agreement is not None

    def row(self, method: str) -> pd.Series:
        """The method's row of the ranking as it is shown."""
        return self.shown.iloc[self._place[method]]

    def apart(self, method: str, other: str) -> bool:
        """Whether the two methods are told apart: Holm's p over all pairs is at most 1 - level."""
        return bool(self.ranking.attrs["different"][self._place[method]][self._place[other]])

    def pair(self, method: str, other: str) -> tuple[float, float, float, float]:
        """Difference (first minus second), its interval, and Holm's p."""
        i, j = self._place[method], self._place[other]
        names = ("difference", "difference_low", "difference_high", "p_holm")
        return tuple(float(self.ranking.attrs[name][i][j]) for name in names)  # type: ignore[return-value]

    @cached_property
    def dead(self) -> bool:
        """Whether every method has the same score everywhere, so that nothing is ranked; never with one method."""
        return self.result.says_nothing(self.readout)

    @property
    def views_word(self) -> str:
        """What views are: "judges and fills", or "fills" where one judge was asked, "judges" where one fill."""
        judges, fills = ({getattr(view, what) for view in self.views} for what in ("judge", "imputer"))
        return "fills" if len(judges) == 1 else "judges" if len(fills) == 1 else "judges and fills"

    @property
    def live_views(self) -> list[View]:
        """The views that rank the methods, and that the scores are the mean over; none where all are dead."""
        return [view for view in self.views if not view.found.dead]

    @property
    def mean_of(self) -> str:
        """Say what scores are the mean over, as in "2 of 3 judges and fills"; empty with one view."""
        live, every = len(self.live_views), len(self.views)
        if not every:
            return ""
        counted = f"{live} of {every}" if 0 < live < every else f"{every}"
        return f"{counted} {self.views_word}"

    @cached_property
    def view_agreement(self) -> np.ndarray:
        """Spearman's correlation of the methods' scores between every two views (V, V); NaN where undefined."""
        scores = np.array([[view.found.row(method)["score"] for method in self.methods] for view in self.views])
        return np.asarray(statistics.spearman(scores[:, None], scores[None], axis=-1), dtype=float)

    @property
    def least_view_agreement(self) -> float:
        """The lowest correlation between two views; NaN where all are undefined."""
        between = self.view_agreement[np.triu_indices(len(self.views), 1)]
        return float(np.nanmin(between)) if not np.isnan(between).all() else math.nan

    @property
    def pairs(self) -> tuple[int, int]:
        """Number of pairs told apart, and of all pairs, among the methods that count."""
        places = [self._place[method] for method in self.counted]
        different = np.asarray(self.ranking.attrs["different"])[np.ix_(places, places)]
        return int(different.sum()) // 2, len(places) * (len(places) - 1) // 2

    @property
    def counted(self) -> list[str]:
        """Methods whose score counts, best first: all but those that the gate withholds."""
        return [method for method in self.methods if method not in self.gated]

    def leading(self) -> list[str]:
        """The best method that counts, and those not told apart from it; empty where the gate withholds all."""
        if not self.counted:
            return []
        best, *others = self.counted
        return [best, *(other for other in others if not self.apart(best, other))]

    def other_groups(self) -> list[list[str]]:
        """Groups of two methods or more that are not told apart, best first, none with a method named before."""
        letters = dict(self.ranking[["method", "group"]].itertuples(index=False, name=None))
        names = dict.fromkeys(letter for method in self.counted for letter in letters[method])
        groups, named = [], set(self.leading())
        for letter in names:
            group = [method for method in self.counted if letter in letters[method]]
            if len(group) > 1 and not named & set(group):
                groups.append(group)
                named |= set(group)
        return groups

    @cached_property
    def gated(self) -> dict[str, GateRow]:
        """Methods whose KAR side is withheld, with the widest gap: their masks tell more than what they keep."""
        return judged_so(self.result, WITHHELD)

    @cached_property
    def gate_open(self) -> dict[str, GateRow]:
        """Methods of which the gate cannot tell, with the gap whose interval reaches farthest."""
        return judged_so(self.result, UNSURE)

    @cached_property
    def disputes(self) -> list[Dispute]:
        """Pairs of methods that two views rank against each other, both times told apart; each pair once."""
        return _disputes([(view.label, view.found) for view in self.views])

    @cached_property
    def order_disputes(self) -> list[Dispute]:
        """Pairs of methods that the two orders rank against each other, both times told apart."""
        if not self._orders_cross:
            return []
        words = orders_of(self.result)
        return _disputes([(words[order].short, self._alone(order)) for order in words])

    @cached_property
    def withheld(self) -> dict[str, str]:
        """Methods whose rank is not printed, with the reason: the gate, or judges and fills that disagree."""
        reasons = dict.fromkeys(self.gated, "gate")
        for dispute in self.disputes:
            for method in (dispute.above, dispute.below):
                reasons.setdefault(method, "views")
        return reasons

    def rank(self, method: str) -> str:
        """The rank among the methods that count, as it is printed: a dash where it is withheld or there is none."""
        if method in self.withheld or (self.gated and len(self.counted) < 2):
            return "–"
        own = self.row(method)["rank"]
        return str(1 + sum(self.row(other)["rank"] < own for other in self.counted))

    def led_by(self, view: View) -> list[str]:
        """Methods that a view tells apart above the first of this ranking."""
        best = self.counted[0]
        return [method for method in self.counted[1:] if view.found.above(method, best)]

    def above(self, method: str, other: str) -> bool:
        """Whether a method is better than another and told apart from it."""
        return self._place[method] < self._place[other] and self.apart(method, other)

    @property
    def _orders_cross(self) -> bool:
        """Whether two methods lie one way round in one order and the other way in the other, told apart or not."""
        if not self.both_orders:
            return False
        morf, lerf = (self.ranking[f"{order}_area"].to_numpy(dtype=float) for order in ("morf", "lerf"))
        return bool(((morf[:, None] < morf) & (lerf[:, None] < lerf)).any())

    def _alone(self, order: str) -> Findings:
        """The findings of one of the orders."""
        place = self.result.orders.index(order)
        cut = {name: self.result.scores[name][:, place : place + 1] for name in READOUTS}
        one = replace(self.result, orders=[order], scores=replace(self.result.scores, **cut))
        return Findings(one, self.readout, one.ranking(self.readout, level=self.level), None)

    def against_random(self, method: str) -> Standing:
        """Where a method stands against random maps.

        With the control ``random`` among the methods: told apart from it or not. Without it, in both orders: whether
        the interval of the gain holds 0, a random map's expectation. Else unknown.
        """
        if method == "random" or method in self.gated:
            return "unknown"
        if "random" in self._place:
            if not self.apart(method, "random"):
                return "open"
            return "above" if self._place[method] < self._place["random"] else "below"
        row = self.row(method)
        if not self.both_orders or math.isnan(row["low"]):
            return "unknown"
        return "above" if row["low"] > 0 else "below" if row["high"] < 0 else "open"

    def below_control(self) -> list[str]:
        """Real methods that are told apart from a control other than ``random`` and worse than it, best first."""
        controls = [name for name in self.methods if is_control(name) and name != "random"]
        return [method for method in self.real_methods if any(self.above(name, method) for name in controls)]

    def above_random(self) -> list[str]:
        """Methods, controls included, that are better than random maps, best first."""
        return [method for method in self.methods if self.against_random(method) == "above"]

    @property
    def real_methods(self) -> list[str]:
        """Methods that are no controls, best first."""
        return [method for method in self.methods if not is_control(method)]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {method: place for place, method in enumerate(self.methods)}


@dataclass(frozen=True)
class View:
    """One judge with one imputer: its own ranking, beside the one over all views.

    Attributes:
        judge: ``"untouched"`` or ``"fine-tuned"``.
        imputer: its name.
        found: what the result says under this judge and fill.
    """

    judge: str
    imputer: str
    found: Findings

    @property
    def label(self) -> str:
        """How the view is spoken of."""
        return f"the {self.judge} judge with {self.imputer} fill"


@dataclass(frozen=True)
class Dispute:
    """Two methods that are told apart one way here and the other way there."""

    above: str
    below: str
    here: str
    there: str


def _views(result: Result, readout: str, level: float) -> tuple[View, ...]:
    if len(result.views) < 2:
        return ()
    parts = ((view, result.view(place)) for place, view in enumerate(result.views))
    return tuple(
        View(view["judge"], view["imputer"], Findings.of(part, readout, level=level)) for view, part in parts
    )


def _disputes(rankings: list[tuple[str, Findings]]) -> list[Dispute]:
    found: dict[frozenset[str], Dispute] = {}
    for (here, one), (there, other) in combinations(rankings, 2):
        for above, below in combinations(one.methods, 2):
            if is_control(above) and is_control(below):  # which of two controls is the better matters to nobody
                continue
            if one.apart(above, below) and other.above(below, above):
                found.setdefault(frozenset((above, below)), Dispute(above, below, here, there))
    return list(found.values())
