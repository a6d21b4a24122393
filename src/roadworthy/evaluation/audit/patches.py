"""IDSDS beside an evaluation: a copy of its model that knows single patches removed scores the audited maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from roadworthy.evaluation.audit.collect import Part
from roadworthy.evaluation.audit.idsds import idsds
from roadworthy.evaluation.finetune import fine_tuned
from roadworthy.fingerprints import pixels_hash
from roadworthy.forward import Classifier
from roadworthy.records import Split
from roadworthy.types import Reduction

GRID = 4


@dataclass(frozen=True)
class Patches:
    """What the second view needs.

    Attributes:
        classifier: the given model, a module.
        train: training samples, for the copy.
        mean: training mean per channel, in pixel units, which stands for a removed patch.
        seed: of the run.
    """

    classifier: Classifier
    train: Split
    mean: Sequence[float]
    seed: int

    def key(self) -> str:
        """Return what the copy follows from beside the model."""
        return pixels_hash(self.train)

    def scores(self, part: Part, reduction: Reduction) -> dict[str, Any]:
        """Return what :func:`~roadworthy.evaluation.audit.idsds.idsds` does; empty where patches have no meaning."""
        if part.images.ndim != 4 or min(part.images.shape[2:]) < GRID:
            return {}
        asked = self.classifier
        shared: dict[str, Any] = {"mean": self.mean, "normalize": asked.normalize, "output": asked.output}
        judge = fine_tuned(asked.model, self.train, masks="patch", grid=GRID, seed=self.seed, **shared)  # type: ignore[arg-type]
        found = idsds(
            judge,
            part.images,
            part.classes,
            part.values,
            grid=GRID,
            max_batch=asked.max_batch,
            reduction=reduction,
            seed=self.seed,
            **shared,
        )
        return {"idsds": found}
