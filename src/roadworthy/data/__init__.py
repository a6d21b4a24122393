"""Data sets: from a specification such as ``"folder:PATH"`` to a training and a test split."""

from __future__ import annotations

from roadworthy.data.load import load_data
from roadworthy.data.options import Options
from roadworthy.data.registry import sources

__all__ = ["Options", "load_data", "sources"]
