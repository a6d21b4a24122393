"""Sweeps: many trainings, done once each whatever happens, on one machine or many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roadworthy.sweep.executors import ProcessExecutor, RayExecutor, SerialExecutor
from roadworthy.sweep.job import Job
from roadworthy.sweep.record import Record
from roadworthy.sweep.schedule import Outcome, run_jobs
from roadworthy.sweep.store import Failure, Store, StoreError
from roadworthy.sweep.timeleft import TimeLeft

if TYPE_CHECKING:
    from roadworthy.sweep.experiment import Experiment as Experiment
    from roadworthy.sweep.experiment import load_experiment as load_experiment
    from roadworthy.sweep.run import run_experiment as run_experiment
    from roadworthy.sweep.run import save_results as save_results

_LATER = {
    "Experiment": "roadworthy.sweep.experiment",
    "load_experiment": "roadworthy.sweep.experiment",
    "run_experiment": "roadworthy.sweep.run",
    "save_results": "roadworthy.sweep.run",
}

__all__ = [
    "Experiment",
    "Failure",
    "Job",
    "Outcome",
    "ProcessExecutor",
    "RayExecutor",
    "Record",
    "SerialExecutor",
    "Store",
    "StoreError",
    "TimeLeft",
    "load_experiment",
    "run_experiment",
    "run_jobs",
    "save_results",
]


def __getattr__(name: str) -> Any:
    # the store and its executors need neither pydantic nor pandas
    if name in _LATER:
        import importlib

        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'roadworthy.sweep' has no attribute {name!r}")
