"""Sweeps: many jobs, done once each whatever happens, on one machine or many."""

from roadworthy.sweep.executors import ProcessExecutor, RayExecutor, SerialExecutor
from roadworthy.sweep.job import Job
from roadworthy.sweep.record import Record
from roadworthy.sweep.schedule import Outcome, run_jobs
from roadworthy.sweep.store import Failure, Store, StoreError
from roadworthy.sweep.timeleft import TimeLeft

__all__ = [
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
    "run_jobs",
]
