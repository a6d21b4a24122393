"""What an evaluation found: scores per sample, the tidy tables made of them, and where they came from.

Reads and writes a folder of plain files (Parquet, JSON, NumPy without pickle) and never needs torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.errors import InputError
from roadworthy.evaluation import scoring
from roadworthy.statistics import RankAgreement, pairwise_table, rank_agreement

READOUTS = ("top1", "top5", "probability", "logit")
FORMAT = 1
_FAILED = re.compile(r"\d+ of \d+ [^:]* failed(:|$)")
WORK = ("retrain", "maps", "road", "judge", "audit")
_EQUAL = 1e-9  # scores that differ by less differ by the order of a sum
COST = ("work", "method", "order", "fraction", "repeat", "seconds", "images")


@dataclass(frozen=True)
class Scores:
    """Scores of every degraded copy, indexed [method, order, fraction, repeat, sample].

    Where networks were trained anew (``settings["training"] == "retrain"``), each cell of method, order, fraction and
    repeat is a network of its own. At fraction 0 it is the repeat's network of unmodified images, with the same
    numbers for all methods and orders.

    Attributes:
        top1: uint8, 1 where the label is the model's first answer.
        top5: uint8, 1 where the label is among the first five.
        probability: float32, softmax probability of the target class.
        logit: float32, logit of the target class.
        labels: int64 (n,).
        targets: int64 (n,), the class whose probability and logit are recorded.
        predicted: int64 (n,), the model's answer on the intact image; after retraining that of the first
            unmodified training.
    """

    top1: np.ndarray
    top5: np.ndarray
    probability: np.ndarray
    logit: np.ndarray
    labels: np.ndarray
    targets: np.ndarray
    predicted: np.ndarray

    def __getitem__(self, readout: str) -> np.ndarray:
        if readout not in READOUTS:
            raise InputError(f"readout: got {readout!r}, expected one of {', '.join(READOUTS)}")
        return getattr(self, readout)


@dataclass(frozen=True)
class Sheet:
    """A few samples kept for pictures; indices are [sample, method, order, fraction].

    Attributes:
        ids: S sample ids.
        labels: int64 (S,).
        images: uint8 (S, C, H, W).
        maps: float32 (S, M, H, W), the attribution per unit after channel reduction.
        copies: uint8 (S, M, O, P, C, H, W), the degraded copies the model saw.
        answers: int64 (S, M, O, P), the model's answer for each copy.
    """

    ids: list[str]
    labels: np.ndarray
    images: np.ndarray
    maps: np.ndarray
    copies: np.ndarray
    answers: np.ndarray


def no_cost() -> pd.DataFrame:
    """Return the empty table of costs."""
    return pd.DataFrame(columns=list(COST))


@dataclass
class Result:
    """The outcome of :func:`roadworthy.evaluate`; not to be changed: rankings and curves are worked out once.

    Attributes:
        methods: names of the methods, in the order given.
        orders: ``"morf"`` and/or ``"lerf"``.
        fractions: shares removed, starting with 0.
        removed: number of units removed at each share.
        repeats: length of the repeat axis. Repeats are of draws of ties and noise, or of independent trainings where
            ``retrained``, which share their seeds over methods, orders and fractions. Where there are several
            ``views``, the axis holds the repeats of the first view, then those of the second, and so on; scores and
            curves are the mean over all of them that say something, see :meth:`counted_views`.
        ids: sample ids.
        scores: see :class:`Scores`.
        classes: class names; empty when unknown.
        method_info: a row per method: share of tied units, number of constant maps, completeness gap, ...
        settings: the strategy and every option, as used. ``settings["beside"]["road"]``, where present, is ROAD on
            the same maps, samples, shares and orders: ``{"score": {method: value}, "score_name": text,
            "higher_is_better": bool, "orders": [...], "seconds": s, "images": n}``. Where the direction is not told,
            the score is the symmetric gain of both orders.
        provenance: n, hash of the ids, seed, device, versions.
        warnings: what the user should know.
        sheet: samples for pictures, or None.
        cost: a row per piece of work: work (``"retrain"``, ``"maps"``, ``"road"``, ``"judge"``, ``"audit"``), method,
            order, fraction, repeat (empty or NaN where it serves several), seconds of wall time, images (trained: the
            epochs multiply them; explained; or scored).
        audit: what the audits found, JSON-serialisable; see :mod:`roadworthy.evaluation.audit`. Empty where none ran.
        missing: lines that name what was asked for and is not there, what failed and what is not done yet; the scores
            hold none of it.
    """

    methods: list[str]
    orders: list[str]
    fractions: list[float]
    removed: list[int]
    repeats: int
    ids: list[str]
    scores: Scores
    classes: list[str] = field(default_factory=list)
    method_info: pd.DataFrame = field(default_factory=pd.DataFrame)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    sheet: Sheet | None = None
    cost: pd.DataFrame = field(default_factory=no_cost)
    missing: list[str] = field(default_factory=list)
    audit: dict[str, Any] = field(default_factory=dict)
    # rankings and curves cost seconds on large results, and a report asks for each several times
    _known: dict[str, pd.DataFrame] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        from roadworthy.evaluation.notebook import line_of

        return line_of(self)

    def _repr_html_(self) -> str:
        from roadworthy.evaluation.notebook import card_of

        return card_of(self)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.ids)

    @property
    def views(self) -> list[dict[str, str]]:
        """Who was asked, with what fill: ``{"judge": "untouched" | "fine-tuned" | "retrained", "imputer": name}``."""
        judge = "retrained" if self.retrained else "untouched"
        return self.settings.get("views") or [{"judge": judge, "imputer": str(self.settings.get("imputer", ""))}]

    def view(self, index: int) -> Result:
        """Return the result of one of the ``views`` alone; samples kept for pictures stay with the first.

        Raises:
            InputError: there is no such view.
        """
        views = self.views
        if not 0 <= index < len(views):
            raise InputError(f"view: got {index}, this result has {len(views)}, counted from 0")
        if len(views) == 1:
            return self
        each = self.repeats // len(views)
        cells = slice(index * each, (index + 1) * each)
        scores = replace(self.scores, **{name: self.scores[name][:, :, :, cells] for name in READOUTS})
        settings = self.settings | {"views": [views[index]], "imputer": views[index]["imputer"]}
        sheet = self.sheet if index == 0 else None
        return replace(self, repeats=each, scores=scores, settings=settings, sheet=sheet)

    def says_nothing(self, readout: str | None = None) -> bool:
        """Whether every method has the same score everywhere, so that nothing is ranked; never with one method.

        Args:
            readout: of which score; the strategy's own by default.
        """
        means = self.scores[readout or self.readout].mean(axis=(3, 4), dtype=float)
        return len(means) > 1 and bool(np.ptp(means, axis=0).max() < _EQUAL)

    def counted_views(self, readout: str | None = None) -> list[int]:
        """Which of the ``views`` scores, curves and rankings are the mean over.

        A view that says nothing, such as a judge at chance under its fill, would only pull the others' scores
        together; where all say nothing, all count.

        Args:
            readout: of which score; the strategy's own by default.
        """
        every = list(range(len(self.views)))
        return [index for index in every if not self.view(index).says_nothing(readout)] or every

    @property
    def retrained(self) -> bool:
        """Whether a network was trained anew for every point."""
        return bool(self.settings.get("training") == "retrain")

    @property
    def unit(self) -> str:
        """What intervals are over: ``"trainings"`` where there are two or more of each point, else ``"samples"``."""
        return "trainings" if self.retrained and self.repeats > 1 else "samples"

    @property
    def failed(self) -> list[str]:
        """The lines of ``missing`` that tell of failures: these do not come unless they are asked for again."""
        return [line for line in self.missing if _FAILED.match(line)]

    @property
    def readout(self) -> str:
        """The readout that headlines this result: the strategy's own."""
        return str(self.settings.get("readout", "top1"))

    @property
    def average(self) -> str:
        """How the shares of a curve make a score: ``"area"`` or ``"shares"``, see :class:`Strategy`."""
        return str(self.settings.get("average", "area"))

    @property
    def table(self) -> pd.DataFrame:
        """A row per method x order x fraction x repeat: removed units, n, and the mean of each readout."""
        index = pd.MultiIndex.from_product(
            [self.methods, self.orders, self.fractions, range(self.repeats)],
            names=["method", "order", "fraction", "repeat"],
        )
        frame = index.to_frame(index=False)
        frame["removed"] = np.tile(np.repeat(self.removed, self.repeats), len(self.methods) * len(self.orders))
        for name in ("judge", "imputer"):
            each = np.repeat([view[name] for view in self.views], self.repeats // len(self.views))
            frame[name] = np.tile(each, len(frame) // self.repeats)
        frame["n"] = self.n
        for readout in READOUTS:
            frame[readout] = self.scores[readout].mean(axis=-1, dtype=np.float64).ravel()
        return frame

    @property
    def per_sample(self) -> pd.DataFrame:
        """A row per method x order x fraction x repeat x sample, with the sample's id, label and target."""
        return pd.concat([self._per_sample_of(m) for m in range(len(self.methods))], ignore_index=True)

    @property
    def intact_accuracy(self) -> float:
        """Top-1 accuracy of the first judge with nothing removed; after retraining the mean over trainings."""
        return float(self.scores.top1[0, 0, 0, : self.repeats // len(self.views)].mean())

    def curves(self, readout: str | None = None, *, level: float = 0.95, draws: int = 2000) -> pd.DataFrame:
        """Mean curve of each method and order with a pointwise band: a bootstrap over samples, or a t-interval.

        Args:
            readout: ``"top1"``, ``"top5"``, ``"probability"`` or ``"logit"``; the strategy's own by default.
            level: coverage of the band.
            draws: bootstrap draws; of no effect where the unit is the training, whose band is a t-interval over
                trainings.

        Returns:
            Columns method, order, fraction, value, low, high; low and high as those of :meth:`over_repeats` where the
            unit is the training.
        """
        chosen = readout or self.readout
        return self._once(
            f"curves {chosen!r} {level!r} {draws!r} {self._seed}",
            lambda: scoring.curves(self, chosen, level, draws, self._seed),
        )

    def ranking(self, readout: str | None = None, *, level: float = 0.95, draws: int | None = None) -> pd.DataFrame:
        """Rank the methods.

        With both orders the score is the symmetric gain, the area between the LeRF and the MoRF curve (same
        share removed in both, per unit of share) or, as the strategy says, their mean difference over the shares: a
        random map has 0, more is better. With one order it is the
        area under that curve: lower is better for MoRF, higher for LeRF.

        Args:
            readout: what the curves are made of; the strategy's own by default.
            level: coverage of the intervals: paired bootstrap over samples; after retraining with two repeats or
                more, Student's t over trainings.
            draws: bootstrap draws; by default 10,000, or more where many pairs of methods need smaller p-values.

        Returns:
            Columns method, score, low, high, rank, group and the area of each order; methods that share a
            letter in ``group`` cannot be told apart (all pairs, Holm). After retraining also ``aoc``, the area over
            the curve (of ROAR, or of KAR where it was run alone; see
            :func:`roadworthy.statistics.area_over_curve`), and over trainings ``sd`` and ``n`` of the score.
            ``attrs`` states score, direction, level, readout, ``unit`` (``"samples"`` or ``"trainings"``) and ``n``
            of them, and in ``left_out`` the views that do not count: texts "judge with imputer fill".
        """
        if draws is None:  # p goes down to 2 / draws, and Holm multiplies it by the number of pairs
            draws = max(10_000, 30 * len(self.methods) * (len(self.methods) - 1))
        chosen, most = readout or self.readout, draws
        return self._once(
            f"ranking {chosen!r} {level!r} {most!r} {self._seed}",
            lambda: scoring.ranking(self, chosen, level, most, self._seed),
        )

    def over_repeats(self, readout: str | None = None, *, level: float = 0.95) -> pd.DataFrame:
        """Mean and spread of every point over its repeats.

        Args:
            readout: what is averaged over the samples of a repeat; the strategy's own by default.
            level: coverage of each t-interval on its own.

        Returns:
            Columns method, order, fraction, mean, sd (ddof 1), n (repeats), low and high; with one repeat sd, low and
            high are NaN, and low and high also where a few repeats have no spread (see
            :func:`roadworthy.statistics.over_repeats`). An interval is not cut off where an accuracy ends; the report
            shows the part of it that is possible.
        """
        return scoring.summary(self, readout or self.readout, level)

    def pairwise(self, readout: str | None = None, *, level: float = 0.95, draws: int | None = None) -> pd.DataFrame:
        """Difference of every pair of methods, with interval and Holm-corrected p-value."""
        return pairwise_table(self.ranking(readout, level=level, draws=draws))

    def agreement(self, readout: str | None = None) -> RankAgreement:
        """How far MoRF and LeRF rank the methods alike: Spearman and Kendall, NaN where undefined.

        Raises:
            InputError: only one order was run.
        """
        if set(self.orders) != {"morf", "lerf"}:
            raise InputError(f"agreement: needs both orders, this result has {', '.join(self.orders)} only")
        values = scoring.per_repeat(self, readout or self.readout).mean(axis=-1)
        morf, lerf = (values[:, self.orders.index(order)] for order in ("morf", "lerf"))
        return rank_agreement(self.fractions, morf, lerf)

    def method_scores(self, readout: str | None = None) -> tuple[np.ndarray, str, bool]:
        """Return the score of each method for each sample (M, n), its name, and whether higher is better."""
        return scoring.score(
            scoring.over_samples(self, readout or self.readout), self.orders, self.fractions, self.average
        )

    def save(self, path: str | Path) -> Path:
        """Write the result to a folder: results.parquet, per_sample.parquet, ranking.csv, result.json, sheet.npz.

        Args:
            path: the folder; made when missing. An earlier result there is replaced once all files are written.

        Returns:
            The folder.

        Raises:
            InputError: the path is a file.
        """
        from roadworthy.evaluation.result_files import write_result

        return write_result(self, path)

    def _once(self, key: str, make: Callable[[], pd.DataFrame]) -> pd.DataFrame:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key].copy()  # its attrs are copied deeply too: what a caller changes is the caller's

    @property
    def _seed(self) -> int:
        return int(self.provenance.get("seed", 0))

    def _per_sample_of(self, m: int) -> pd.DataFrame:
        shape = (len(self.orders), len(self.fractions), self.repeats, self.n)
        o, p, r, i = (axis.ravel() for axis in np.indices(shape, dtype=np.int32))
        frame = pd.DataFrame(
            {
                "method": _categories(np.full(o.shape, m), self.methods),
                "order": _categories(o, self.orders),
                "fraction": np.asarray(self.fractions)[p],
                "repeat": r,
                "id": _categories(i, self.ids),
                "label": self.scores.labels[i],
                "target": self.scores.targets[i],
            }
        )
        for readout in READOUTS:
            frame[readout] = self.scores[readout][m].ravel()
        return frame


def _categories(codes: np.ndarray, names: list[str]) -> pd.Categorical:
    return pd.Categorical.from_codes(codes, pd.Index(names, dtype=object))


def load_result(path: str | Path) -> Result:
    """Read a result that :meth:`Result.save` wrote; nothing in the files is executed.

    Args:
        path: the folder.

    Returns:
        The result, equal to the one that was saved.

    Raises:
        DataError: no result lies there, or one of its files is damaged or does not fit the others; the message names
            the file and what is wrong.
    """
    from roadworthy.evaluation.result_files import read_result

    return read_result(path)
