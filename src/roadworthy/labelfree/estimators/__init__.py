"""Estimators of accuracy without labels, one file each, in one table."""

from roadworthy.labelfree.estimators import (  # noqa: F401  (each registers its own)
    ac,
    atc,
    cbpe,
    cot,
    doc,
    gde,
    importance_weighted,
    nuclear_norm,
    source_accuracy,
)
from roadworthy.labelfree.estimators.base import Estimate, Estimator, estimators

__all__ = ["Estimate", "Estimator", "estimators"]
