"""Which samples people should label to learn how accurate a classifier is, and with what chance each was drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError
from roadworthy.labelfree.calibration import apply_temperature, fit_temperature
from roadworthy.labelfree.labelling.draws import allocation, drawn_rows, strata_of
from roadworthy.labelfree.labelling.planner import half_width_of, labels_needed
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.rng import resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Samples drawn for labelling. Made by :func:`audit_plan`, or read by :func:`load_plan`.

    Attributes:
        ids: n names of the samples to label, in random order: the first ones are a fair draw as well.
        stratum: int64 (n,), 0 is the least confident.
        probability: float64 (n,), chance of each to be drawn; all above 0.
        sizes: int64 (H,), samples of the population in each stratum.
        labels: n labels as they were written into the file, None where empty; empty where none was read.
        extra: rows of the file that the plan did not draw, (id, label). They are kept, and used for nothing.
        half_width: half width of the interval to expect in the worst case; NaN of a plan that was read.
        seed: of the draw; None of a plan that was read.
        notes: what the user should know.
    """

    ids: tuple[str, ...]
    stratum: np.ndarray
    probability: np.ndarray
    sizes: np.ndarray
    labels: tuple[str | None, ...] = ()
    extra: tuple[tuple[str, str | None], ...] = ()
    half_width: float = float("nan")
    seed: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of samples to label."""
        return len(self.ids)

    @property
    def population(self) -> int:
        """Number of samples they were drawn from."""
        return int(self.sizes.sum())

    @property
    def strata(self) -> tuple[dict[str, float], ...]:
        """For each stratum its number, samples, how many of them were drawn, and the chance of each."""
        drawn = np.bincount(self.stratum, minlength=len(self.sizes)).tolist()
        return tuple(
            {"stratum": h, "samples": size, "drawn": n, "probability": n / size}
            for h, (size, n) in enumerate(zip(self.sizes.tolist(), drawn, strict=True))
        )

    @property
    def labelled(self) -> int:
        """How many of them have a label."""
        return sum(label is not None for label in self.labels)

    def rows(self, target: Outputs) -> np.ndarray:
        """Return where the drawn samples lie in the target, int64 (n,).

        Raises:
            InputError: some are not there, or the target is not the population that was drawn from.
        """
        from roadworthy.labelfree.labelling.matching import rows_of

        if len(target) != self.population:
            raise InputError(
                f"target: has {len(target)} samples, the plan was drawn from {self.population}; pass the outputs it "
                "was made for"
            )
        return rows_of(self.ids, target)

    def save(self, path: str | Path) -> Path:
        """Write the plan as CSV; see :func:`roadworthy.labelfree.labelling.files.save_plan`."""
        from roadworthy.labelfree.labelling.files import save_plan

        return save_plan(self, path)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        counts = {"n": self.n, "population": self.population, "labelled": self.labelled}
        return plain(self) | counts | {"strata": plain(self.strata)}


def audit_plan(
    target: Outputs,
    *,
    half_width: float | None = None,
    budget: int | None = None,
    level: float = 0.9,
    expected: float | tuple[float, float] | None = None,
    strata: int = 5,
    scores: ArrayLike | None = None,
    seed: Seed = 0,
) -> AuditPlan:
    """Draw the samples that people should label.

    Samples are cut into strata of alike confidence, and each stratum gives its part of the draw (proportional
    allocation, at least two each), so that every sample has a known chance to be drawn. Strata gain little where
    confidence says little; they never cost much.

    Args:
        target: what the classifier says of the samples; labels, where there are any, are not read.
        half_width: wanted distance from the middle of the interval to its ends; .05 where no budget is given.
        budget: number of labels instead.
        level: of the interval.
        expected: accuracy to expect, or its interval; see :func:`labels_needed`. Fewer labels are planned where it
            is far from one half, too few where it is wrong.
        strata: how many, at most; fewer where the draw is small or confidences are equal; 1 draws at random.
        scores: (N,) what to cut by, such as :func:`chance_correct`; the confidence by default.
        seed: seed or generator of the draw.

    Returns:
        The plan. The same samples are drawn whatever the order of rows.

    Raises:
        InputError: no samples, both or impossible sizes, or scores that do not fit.

    Example:
        >>> target = Outputs.of(np.linspace(0.01, 0.99, 1000))
        >>> plan = audit_plan(target, budget=50)
        >>> plan.n, plan.sizes.tolist(), plan.probability[0]
        (50, [200, 200, 200, 200, 200], np.float64(0.05))
    """
    if half_width is not None and budget is not None:
        raise InputError("budget: got half_width too; give one, the other follows from it")
    if strata < 1:
        raise InputError(f"strata: got {strata}, expected at least 1")
    values, population, number = _scores(scores, target), len(target), resolve_seed(seed)
    if budget is None:
        wanted = 0.05 if half_width is None else half_width
        budget = labels_needed(wanted, level=level, expected=expected, population=population)
    if not 1 <= budget <= population:
        raise InputError(f"budget: got {budget}, expected 1 to {population}, the number of samples")
    stratum = strata_of(values, max(1, min(strata, budget // 2)))
    sizes = np.bincount(stratum)
    drawn = allocation(sizes, budget)
    rows = drawn_rows(target.ids, stratum, drawn, number)
    return AuditPlan(
        ids=tuple(target.ids[row] for row in rows),
        stratum=stratum[rows],
        probability=(drawn / sizes)[stratum[rows]],
        sizes=sizes,
        half_width=half_width_of(0.5, budget, level=level, population=population),
        seed=number,
        notes=_notes(len(sizes), strata, budget),
    )


def chance_correct(target: Outputs, source: Outputs | None = None) -> np.ndarray:
    """Chance of each prediction to be correct, (N,): the confidence, after temperature scaling on a labelled source.

    Args:
        target: samples to be judged.
        source: labelled samples of the classifier's own domain; None takes the confidence as it is.

    Returns:
        float64 (N,). Under shift it may be far off; the audit does not rely on it.

    Raises:
        InputError: the source has no labels.

    Example:
        >>> chance_correct(Outputs.of([0.9, 0.2])).tolist()
        [0.9, 0.8]
    """
    if source is None:
        return target.confidence
    labels = source.known_labels("calibration")
    table = apply_temperature(target.probabilities, fit_temperature(source.probabilities, labels))
    return np.asarray(table[np.arange(len(target)), target.predicted])


def _scores(scores: ArrayLike | None, target: Outputs) -> np.ndarray:
    if len(target) == 0:
        raise InputError("target: got no samples, there is nothing to draw from")
    values = target.confidence if scores is None else np.asarray(scores, dtype=np.float64)
    if values.shape != (len(target),) or not np.isfinite(values).all():
        raise InputError(f"scores: got shape {values.shape}, expected ({len(target)},) finite numbers")
    return values


def _notes(found: int, wanted: int, budget: int) -> tuple[str, ...]:
    if found == min(wanted, max(1, budget // 2)) == wanted:
        return ()
    why = "confidences are equal" if found < max(1, min(wanted, budget // 2)) else f"{budget} labels are few"
    return (f"{found} strata instead of {wanted}: {why}",)
