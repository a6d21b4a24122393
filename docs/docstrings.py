"""Docstrings as the reference shows them: examples as code, and names without the marks of another system."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":[a-z]+:`~?(?:[\w.]*\.)?(\w+)`")


class Docstrings(griffe.Extension):
    """Reads ``Example:`` as a section of examples, and ``:func:`a.b.c``` as ``c`` in code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is None:
            return
        text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
        obj.docstring.value = _ROLE.sub(r"`\1`", text)
