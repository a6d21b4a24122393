"""Is this explanation, and is this model, fit for the road?

The names below are the whole front door; each loads its part of the package on first use, so that
``import roadworthy`` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_FRONT_DOOR = {
    "load_data": "roadworthy.data",
    "load_model": "roadworthy.model",
    "attribute": "roadworthy.attribution",
    "compare": "roadworthy.comparison",
    "evaluate": "roadworthy.evaluation",
    "extract_features": "roadworthy.probe",
    "load_result": "roadworthy.evaluation",
    "probe_features": "roadworthy.probe",
    "rank_k": "roadworthy.probe",
    "to_mlflow": "roadworthy.tracking",
    "to_tensorboard": "roadworthy.tracking",
    "topk_accuracy": "roadworthy.statistics",
}
# report is a package and, called, the function that writes the page
_STAGES = (
    "attribution",
    "comparison",
    "data",
    "errors",
    "evaluation",
    "imputation",
    "labelfree",
    "model",
    "probe",
    "removal",
    "report",
    "statistics",
    "sweep",
    "tracking",
)

__all__ = ["__version__", *_FRONT_DOOR, *_STAGES]

if TYPE_CHECKING:
    from roadworthy import attribution as attribution
    from roadworthy import comparison as comparison
    from roadworthy import data as data
    from roadworthy import errors as errors
    from roadworthy import evaluation as evaluation
    from roadworthy import imputation as imputation
    from roadworthy import model as model
    from roadworthy import probe as probe
    from roadworthy import removal as removal
    from roadworthy import statistics as statistics
    from roadworthy import sweep as sweep
    from roadworthy import tracking as tracking
    from roadworthy.attribution import attribute as attribute
    from roadworthy.comparison import compare as compare
    from roadworthy.data import load_data as load_data
    from roadworthy.evaluation import evaluate as evaluate
    from roadworthy.evaluation import load_result as load_result
    from roadworthy.labelfree import CallablePackage as _LabelFree
    from roadworthy.model import load_model as load_model
    from roadworthy.probe import extract_features as extract_features
    from roadworthy.probe import probe_features as probe_features
    from roadworthy.probe import rank_k as rank_k
    from roadworthy.report import CallablePackage as _Report
    from roadworthy.statistics import topk_accuracy as topk_accuracy
    from roadworthy.tracking import to_mlflow as to_mlflow
    from roadworthy.tracking import to_tensorboard as to_tensorboard

    labelfree: _LabelFree
    report: _Report
else:

    def __getattr__(name: str) -> Any:
        if name in _STAGES:
            return importlib.import_module(f"roadworthy.{name}")
        if name in _FRONT_DOOR:
            return getattr(importlib.import_module(_FRONT_DOOR[name]), name)
        from roadworthy.errors import did_you_mean

        raise AttributeError(f"module 'roadworthy' has no attribute {name!r}.{did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return sorted(__all__)
