"""Runs side by side: scores, differences with intervals, agreement of rankings, and what else differs."""

from roadworthy.comparison.front import compare
from roadworthy.comparison.record import Comparison

__all__ = ["Comparison", "compare"]
