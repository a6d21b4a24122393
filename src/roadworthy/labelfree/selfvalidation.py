"""Self-validation: every estimator is tried where the truth is known, and quoted with the error it made there.

The labelled source is cut in two halves. Estimators learn from one and judge pseudo-targets made of the other, and
the other way round. A live target is then judged by the estimator with the least error on pseudo-targets of similar
shift, with an interval that adds what such choices were off by to the error of sampling.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.estimators import Estimate, Estimator, estimators
from roadworthy.labelfree.intervals import Experience, sampling_half_width
from roadworthy.labelfree.live import LiveEstimate
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.labelfree.shift import SHIFT_NAMES, measure_shift
from roadworthy.labelfree.targets import PseudoTarget
from roadworthy.labelfree.trials import MEDIAN_OF, halves, judge, names, run
from roadworthy.statistics import spearman

NEVER_CHOSEN = frozenset({"nuclear-norm"})  # it ranks data sets; its scale is borrowed
_ALARM_DOMAIN, _ALARM_SPREAD = 0.8, 0.1
WIDEST = 0.3
"""Half width of an interval beyond which it says nothing, and no number is given."""


@dataclass(frozen=True, eq=False)
class SelfValidation:
    """Estimates and truths of T pseudo-targets by E estimators. Made by :func:`self_validate`.

    Attributes:
        source: the labelled samples.
        names: E estimators.
        targets: T names; ``kinds``, ``severities``, ``sizes`` of them likewise.
        truth: (T,) accuracies.
        estimates: (T, E).
        shifts: (T, 5), see ``SHIFT_NAMES``.
        fitted: the estimators, fitted on the whole source.
        seed: of every draw.
        left_away: estimators that could not be run, and why.
    """

    source: Outputs
    names: tuple[str, ...]
    targets: tuple[str, ...]
    kinds: tuple[str, ...]
    severities: tuple[float, ...]
    sizes: tuple[int, ...]
    truth: np.ndarray
    estimates: np.ndarray
    shifts: np.ndarray
    fitted: tuple[Estimator, ...] = field(repr=False)
    seed: int = 0
    left_away: tuple[str, ...] = ()

    @cached_property
    def _experience(self) -> Experience:
        return Experience(self.shifts, self.estimates - self.truth[:, None], np.array(self.kinds))

    @cached_property
    def _eligible(self) -> np.ndarray:
        return np.array([name not in NEVER_CHOSEN for name in self.names]) & np.isfinite(self.estimates).all(axis=0)

    @property
    def chosen(self) -> str:
        """The estimator with the least mean absolute error over all pseudo-targets, kinds counting alike."""
        return self.names[self._best(self._experience.mean_errors())]

    def _best(self, errors: np.ndarray, finite: np.ndarray | None = None) -> int:
        usable = self._eligible if finite is None else self._eligible & finite
        return int(np.where(usable & np.isfinite(errors), errors, np.inf).argmin())

    @cached_property
    def _left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors (T,) of the choice at each pseudo-target with its kind left out, and the errors expected there."""
        expected, errors = self._experience.left_out, self._experience.errors
        picks = [self._best(row) for row in expected]
        rows = np.arange(len(picks))
        return errors[rows, picks], expected[rows, picks]

    @property
    def left_out_error(self) -> float:
        """Mean absolute error of the choice on kinds of shift that had no part in it: the honest figure."""
        return float(self.choice_summary()["mae"])

    def without(self, kinds: Iterable[str]) -> SelfValidation:
        """Return the same with pseudo-targets of these kinds taken out; nothing is run again.

        Raises:
            InputError: nothing would be left.
        """
        gone = set(kinds)
        kept = [row for row, kind in enumerate(self.kinds) if kind not in gone]
        if not kept:
            raise InputError(f"kinds: got {sorted(gone)}; no pseudo-target would be left")
        pick = lambda values: tuple(values[row] for row in kept)  # noqa: E731
        return SelfValidation(
            self.source,
            self.names,
            pick(self.targets),
            pick(self.kinds),
            pick(self.severities),
            pick(self.sizes),
            self.truth[kept],
            self.estimates[kept],
            self.shifts[kept],
            self.fitted,
            self.seed,
            self.left_away,
        )

    def table(self) -> list[dict[str, Any]]:
        """Return a row for every pseudo-target and estimator: estimate, truth and error."""
        return [
            {
                "target": target,
                "kind": self.kinds[t],
                "severity": self.severities[t],
                "n": self.sizes[t],
                "estimator": name,
                "estimate": float(self.estimates[t, e]),
                "truth": float(self.truth[t]),
                "error": float(self.estimates[t, e] - self.truth[t]),
            }
            for t, target in enumerate(self.targets)
            for e, name in enumerate(self.names)
        ]

    def summary(self) -> list[dict[str, Any]]:
        """Return a row for every estimator, the least mean absolute error first.

        ``mae`` and ``bias`` count kinds alike; ``worst`` is the error of largest size, with its sign;
        ``rank_correlation`` is the mean over kinds of Spearman's, of estimates and truths; ``by_kind`` the mean
        absolute error of each kind.
        """
        rows = []
        for e, name in enumerate(self.names):
            figures = self._figures(self._experience.errors[:, e])
            figures["rank_correlation"] = self._rank_correlation(self.estimates[:, e])
            rows.append({"estimator": name, **figures, "can_be_chosen": bool(self._eligible[e])})
        return sorted(rows, key=lambda row: (np.isnan(row["mae"]), row["mae"]))

    def choice_summary(self) -> dict[str, Any]:
        """Return the figures of :meth:`summary` for the choice, each kind judged by what the others would choose."""
        return self._figures(self._left_out[0])

    def _figures(self, errors: np.ndarray) -> dict[str, Any]:
        balance, kinds = self._experience.balance / len(self.kinds), np.array(self.kinds)
        known = np.isfinite(errors)
        return {
            "mae": float(balance @ np.abs(errors)),
            "bias": float(balance @ errors),
            "worst": float(errors[np.nanargmax(np.abs(errors))]) if known.any() else float("nan"),
            "by_kind": {kind: float(np.abs(errors[kinds == kind]).mean()) for kind in dict.fromkeys(self.kinds)},
        }

    def _rank_correlation(self, estimates: np.ndarray) -> float:
        kinds = np.array(self.kinds)
        found = [float(spearman(estimates[kinds == kind], self.truth[kinds == kind])) for kind in np.unique(kinds)]
        known = [value for value in found if np.isfinite(value)]
        return float(np.mean(known)) if known else float("nan")

    def estimate(self, target: Outputs, *, level: float = 0.9) -> LiveEstimate:
        """Judge unlabelled samples.

        Args:
            target: the samples; their labels are not read.
            level: of the interval, in (0, 1).

        Returns:
            The estimate of the estimator that did best on pseudo-targets of similar shift, its interval, and what
            all the others say. No number, and the reason, where the shift is beyond those seen.

        Raises:
            InputError: other classes or features than the source's, fewer than two samples, or a wrong level.
        """
        live = measure_shift(self.source, target, seed=self.seed)
        found = run(self.fitted, target)
        values = np.array([estimate.accuracy for estimate in found])
        expected = self._experience.expected_errors(live)
        best = self._best(expected, np.isfinite(values))
        low, high, reason = self._interval(live, values[best], expected[best], self._left_out, len(target), level)
        usual = [value for name, value in zip(self.names, values, strict=True) if name in MEDIAN_OF]
        nearest = np.argsort(self._experience.distances(live), kind="stable")[:5]
        return LiveEstimate(
            chosen=self.names[best],
            accuracy=float("nan") if reason else float(values[best]),
            low=low,
            high=high,
            level=level,
            reason=reason,
            expected_error=float(expected[best]),
            worst_over=float(max(0.0, np.nanmax(self._left_out[0]))),
            estimates=found,
            lowest=float(np.min(usual)) if usual else float("nan"),
            highest=float(np.max(usual)) if usual else float("nan"),
            shift=dict(zip(SHIFT_NAMES, live.tolist(), strict=True)),
            similar=tuple(self.targets[row] for row in nearest),
            n=len(target),
            notes=self._notes(live, usual, self.names[best]),
        )

    def interval(
        self, target: Outputs, estimate: Estimate, level: float = 0.9
    ) -> tuple[tuple[float, float] | None, str]:
        """Return the interval of one estimator's estimate, from that estimator's own errors.

        Args:
            target: the samples that were judged.
            estimate: of one of ``names``.
            level: of the interval.

        Returns:
            (low, high) and "", or None and the reason.

        Raises:
            InputError: an estimator that was not validated.
        """
        if estimate.name not in self.names:
            raise InputError(f"estimate: {estimate.name!r} was not validated; known: {', '.join(self.names)}")
        e = self.names.index(estimate.name)
        live = measure_shift(self.source, target, seed=self.seed)
        seen = self._experience.errors[:, e], self._experience.left_out[:, e]
        here = float(self._experience.expected_errors(live)[e])
        low, high, reason = self._interval(live, estimate.accuracy, here, seen, len(target), level)
        return (None, reason) if reason else ((low, high), "")

    def _interval(
        self,
        live: np.ndarray,
        value: float,
        here: float,
        seen: tuple[np.ndarray, np.ndarray],
        n: int,
        level: float,
    ) -> tuple[float, float, str]:
        if not 0 < level < 1:
            raise InputError(f"level: got {level}, expected a number between 0 and 1")
        nothing = float("nan"), float("nan")
        beyond = self._experience.outside(live)
        if beyond:
            return *nothing, (
                f"cannot tell: the shift is beyond what self-validation has seen: {'; '.join(beyond)}; add "
                "pseudo-targets that are shifted as far, or label some of these samples"
            )
        method = self._experience.half_width(live, *seen, here, level)
        if not np.isfinite(method) or not np.isfinite(value):
            return *nothing, (
                f"cannot tell: an interval of level {level:g} needs more than the {len(self.targets)} pseudo-targets "
                "there are; add some"
            )
        half = float(np.hypot(method, sampling_half_width(value, n, level)))
        if half > WIDEST:
            return *nothing, (
                f"cannot tell: on shifts like this one estimates are off by so much that the interval would be "
                f"{half:.2f} on either side; label some of these samples"
            )
        return max(0.0, value - half), min(1.0, value + half), ""

    def _notes(self, live: np.ndarray, usual: Sequence[float], chosen: str) -> tuple[str, ...]:
        notes = []
        bias = next(row["bias"] for row in self.summary() if row["estimator"] == chosen)
        spread = max(usual) - min(usual) if usual else 0.0
        told_apart = live[SHIFT_NAMES.index("domain")] >= _ALARM_DOMAIN
        if told_apart and spread >= _ALARM_SPREAD and bias > 0:
            notes.append(
                f"over-estimation is likely: these samples are easily told from the source and the estimators are "
                f"{spread:.2f} apart"
            )
        if len(set(self.kinds)) < 3:
            notes.append(
                f"self-validation saw {len(set(self.kinds))} kind(s) of shift; the interval is a guess at others"
            )
        return tuple(notes)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return {
            "chosen": self.chosen,
            "left_out_error": plain(self.left_out_error),
            "choice": plain(self.choice_summary()),
            "summary": plain(self.summary()),
            "table": plain(self.table()),
            "left_away": list(self.left_away),
            "n": len(self.source),
            "seed": self.seed,
        }


def self_validate(
    source: Outputs,
    pseudo_targets: Sequence[PseudoTarget],
    *,
    use: Sequence[str | Estimator] | None = None,
    seed: int = 0,
) -> SelfValidation:
    """Try every estimator on pseudo-targets.

    Args:
        source: labelled samples of the user's own domain that the classifier was not trained on.
        pseudo_targets: see :mod:`roadworthy.labelfree.targets`. Samples that are the source's own (by id) are judged
            by estimators that have not learnt from them.
        use: names of estimators, or estimators; all that can be run by default. The median of AC, DoC, ATC, CBPE and
            COT is added where these five are there.
        seed: for the halves and every draw.

    Returns:
        The errors, the choice, and a way to judge live targets.

    Raises:
        InputError: no labels, no pseudo-targets, a source of fewer than four samples, or no estimator to run.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=400)
        >>> source = Outputs.of(p, labels=(rng.uniform(size=400) < p).astype(int))  # perfectly calibrated
        >>> from roadworthy.labelfree.targets import cluster_targets, label_targets
        >>> seen = self_validate(source, cluster_targets(source) + label_targets(source), use=["source", "ac"])
        >>> seen.names, bool(seen.left_out_error < 0.2)
        (('source', 'ac'), True)
    """
    source.known_labels("self-validation")
    if not pseudo_targets:
        raise InputError("pseudo_targets: got none; make some with roadworthy.labelfree.targets")
    if len(source) < 4:
        raise InputError(f"source: got {len(source)} samples, self-validation needs at least 4, better some hundred")
    chosen, left_away = _usable(source, pseudo_targets, use)
    fold = dict(zip(source.ids, halves(source, seed), strict=True))
    parts = [source.take([fold[name] == half for name in source.ids]) for half in (0, 1)]
    learnt = [tuple(estimator.fit(part, seed=seed) for estimator in chosen) for part in parts]
    rows = [judge(target, fold, parts, learnt, seed) for target in pseudo_targets]
    kept = [(target, row) for target, row in zip(pseudo_targets, rows, strict=True) if row is not None]
    if not kept:
        raise InputError("pseudo_targets: each has fewer than two samples in either half; make larger ones")
    fitted = tuple(estimator.fit(source, seed=seed) for estimator in chosen)
    return SelfValidation(
        source=source,
        names=tuple(names(chosen)),
        targets=tuple(target.name for target, _ in kept),
        kinds=tuple(target.kind for target, _ in kept),
        severities=tuple(target.severity for target, _ in kept),
        sizes=tuple(len(target.outputs) for target, _ in kept),
        truth=np.array([row[0] for _, row in kept]),
        estimates=np.array([row[1] for _, row in kept]),
        shifts=np.array([row[2] for _, row in kept]),
        fitted=fitted,
        seed=seed,
        left_away=left_away,
    )


def _usable(
    source: Outputs, pseudo_targets: Sequence[PseudoTarget], use: Sequence[str | Estimator] | None
) -> tuple[list[Estimator], tuple[str, ...]]:
    wanted = list(estimators) if use is None else list(use)
    found = [estimators[entry] if isinstance(entry, str) else entry for entry in wanted]
    everywhere = [source, *(target.outputs for target in pseudo_targets)]
    usable, left_away = [], []
    for estimator in found:
        missing = sorted(need for need in estimator.needs if any(getattr(o, need) is None for o in everywhere))
        if missing:
            left_away.append(f"{estimator.name}: there is no {' and no '.join(missing)}")
        else:
            usable.append(estimator)
    if all(estimator.name in NEVER_CHOSEN for estimator in usable):
        named = [*left_away, *(f"{estimator.name}: it only ranks" for estimator in usable)]
        raise InputError(f"use: no estimator can be chosen ({'; '.join(named) or 'none was named'})")
    return usable, tuple(left_away)
