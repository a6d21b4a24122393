"""How far a classifier's predictions can be believed where there are no labels.

The package is callable: ``roadworthy.labelfree(model, data, source=...)`` judges; see
:func:`roadworthy.labelfree.flow.labelfree`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from roadworthy.labelfree.outputs import Outputs

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency as Consistency
    from roadworthy.labelfree.consistency import perturbation_consistency as perturbation_consistency
    from roadworthy.labelfree.flow import labelfree as labelfree
    from roadworthy.labelfree.predict import predict_outputs as predict_outputs
    from roadworthy.labelfree.result import LabelFree as LabelFree
    from roadworthy.labelfree.result import audited as audited
    from roadworthy.labelfree.result import load_labelfree as load_labelfree
    from roadworthy.labelfree.saved import read_outputs as read_outputs
    from roadworthy.labelfree.saved import write_outputs as write_outputs

# each loads its part on first use, so that arrays can be judged without loading a network's library
_PARTS = {
    "Consistency": "consistency",
    "Ensemble": "perturbation",
    "LabelFree": "result",
    "agreement_curve": "curve",
    "as_described_curve": "as_described",
    "audit_estimate": "labelling",
    "audit_plan": "labelling",
    "audited": "result",
    "cluster_purity": "clustering",
    "compare_models": "comparison",
    "corrupt": "corruptions",
    "coverage_at": "thresholds",
    "diagnose": "diagnosis",
    "labelfree": "flow",
    "load_labelfree": "result",
    "load_plan": "labelling",
    "middle_band": "labelling",
    "perturbation_consistency": "consistency",
    "perturbed_examples": "examples",
    "predict_outputs": "predict",
    "pseudo_label_discrepancy": "discrepancy",
    "read_outputs": "saved",
    "reliability_curve": "curve",
    "run_gates": "gates",
    "self_validate": "selfvalidation",
    "write_outputs": "saved",
}
__all__ = ["Outputs", *_PARTS]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return getattr(importlib.import_module(f"{__name__}.{_PARTS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class CallablePackage(ModuleType):
    """This package as a function: :func:`roadworthy.labelfree.flow.labelfree`."""

    if TYPE_CHECKING:
        __call__ = staticmethod(labelfree)
    else:

        def __call__(self, *arguments: Any, **keywords: Any) -> LabelFree:
            """Judge a classifier on samples without labels; see :func:`roadworthy.labelfree.flow.labelfree`."""
            from roadworthy.labelfree.flow import labelfree

            return labelfree(*arguments, **keywords)


sys.modules[__name__].__class__ = CallablePackage
