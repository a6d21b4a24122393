"""Meta-tests: the tool tests its own strategies on cases whose right answer is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.selftest.table import SelfTest

if TYPE_CHECKING:
    from roadworthy.evaluation.selftest.run import self_test as self_test

__all__ = ["SelfTest", "Trial", "self_test"]


def __getattr__(name: str) -> Any:
    # tables of a finished test are read without torch
    if name == "self_test":
        from roadworthy.evaluation.selftest.run import self_test

        return self_test
    raise AttributeError(f"module 'roadworthy.evaluation.selftest' has no attribute {name!r}")
