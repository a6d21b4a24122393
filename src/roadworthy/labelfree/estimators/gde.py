"""Generalised disagreement equality (Jiang et al. 2022): two models of one recipe err as often as they disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.estimators.base import Estimate, estimators, labelled, of_confusion
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class Disagreement:
    """Share of samples on which a second model, trained alike from another seed, says the same class.

    The second model's classes stand for the truth; recall and F1 follow. Under shift both may err together.

    Example:
        >>> target = Outputs.of([0.1, 0.9, 0.8], second=[0.2, 0.7, 0.4])
        >>> round(Disagreement().estimate(target).accuracy, 3)
        0.667
    """

    name: str = "gde"
    needs: frozenset[str] = frozenset({"second"})

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Learn nothing: the method needs no source."""
        labelled(self.name, source)
        return self

    def estimate(self, target: Outputs) -> Estimate:
        """Count where the two agree.

        Raises:
            InputError: no probabilities of a second model.
        """
        if target.second is None:
            raise InputError("second: the estimator 'gde' needs a second model's probabilities; pass second=")
        table = np.zeros((target.class_count, target.class_count))
        np.add.at(table, (target.second.argmax(axis=1), target.predicted), 1)
        return of_confusion(self.name, table)


estimators.add("gde", Disagreement(), "agreement with a second model of the same recipe")
