"""The ``roadworthy`` command: parse, call the library, print."""

from __future__ import annotations

from roadworthy.cli.app import main

__all__ = ["main"]
