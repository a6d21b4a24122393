"""The main flow: a strategy degrades images by removal, asks the model, and returns a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roadworthy.evaluation.result import Result, Scores, Sheet, load_result

if TYPE_CHECKING:
    from roadworthy.evaluation.finetune import fine_tuned as fine_tuned
    from roadworthy.evaluation.flow import evaluate as evaluate
    from roadworthy.evaluation.intact import preflight as preflight
    from roadworthy.evaluation.strategy import Strategy as Strategy
    from roadworthy.evaluation.strategy import default_strategy as default_strategy
    from roadworthy.evaluation.strategy import presets as presets

__all__ = [
    "Result",
    "Scores",
    "Sheet",
    "Strategy",
    "default_strategy",
    "evaluate",
    "fine_tuned",
    "load_result",
    "preflight",
    "presets",
]


def __getattr__(name: str) -> Any:
    # reading a result must not load torch, which the evaluation itself needs
    if name == "evaluate":
        from roadworthy.evaluation.flow import evaluate

        return evaluate
    if name == "fine_tuned":
        from roadworthy.evaluation.finetune import fine_tuned

        return fine_tuned
    if name == "preflight":
        from roadworthy.evaluation.intact import preflight

        return preflight
    if name in ("Strategy", "default_strategy", "presets"):
        from roadworthy.evaluation import strategy

        return getattr(strategy, name)
    raise AttributeError(f"module 'roadworthy.evaluation' has no attribute {name!r}")
