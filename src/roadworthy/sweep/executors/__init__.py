"""Where jobs are done: in this process, in worker processes, or on a Ray cluster."""

from roadworthy.sweep.executors.base import Done, Executor
from roadworthy.sweep.executors.processes import ProcessExecutor
from roadworthy.sweep.executors.ray import RayExecutor
from roadworthy.sweep.executors.serial import SerialExecutor

__all__ = ["Done", "Executor", "ProcessExecutor", "RayExecutor", "SerialExecutor"]
