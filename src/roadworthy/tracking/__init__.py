"""Results in experiment trackers, in one line each: MLflow and TensorBoard (extras)."""

from __future__ import annotations

from roadworthy.tracking.mlflow_run import to_mlflow
from roadworthy.tracking.tensorboard_log import to_tensorboard

__all__ = ["to_mlflow", "to_tensorboard"]
