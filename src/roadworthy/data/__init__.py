"""Data sets: from a specification such as ``"folder:PATH"`` to a training and a test split."""

from __future__ import annotations

from roadworthy.data.convert import Converted, convert
from roadworthy.data.load import load_data
from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.data.unlabelled import load_unlabelled

__all__ = ["Converted", "Options", "convert", "load_data", "load_unlabelled", "sources"]
