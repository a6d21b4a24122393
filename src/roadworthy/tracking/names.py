"""Names that every tracker takes: letters, digits, ``_``, ``-`` and ``.``, and no two alike."""

from __future__ import annotations

import re
from collections.abc import Iterable

from roadworthy.errors import InputError

_LENGTH = 100
_ILLEGAL = re.compile(r"[^\w.\-]")


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Map names to legal ones, each to one of its own; two that differ only in case count as alike.

    Args:
        names: distinct names.

    Returns:
        Each name, in the order given, with what stands for it.

    Example:
        >>> legal_names(["ig", "ig (50 steps)", "ig/50 steps/", "IG"])
        {'ig': 'ig', 'ig (50 steps)': 'ig__50_steps_', 'ig/50 steps/': 'ig_50_steps_', 'IG': 'IG-2'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        base = _ILLEGAL.sub("_", name).strip(".")[:_LENGTH] or "_"
        legal, count = base, 1
        while legal.lower() in taken:
            count += 1
            legal = f"{base}-{count}"
        taken.add(legal.lower())
        found[name] = legal
    return found


def check_prefix(what: str, prefix: str) -> str:
    """Return what stands before every name, with its slash.

    Args:
        what: the argument's name, for the message.
        prefix: legal names with ``/`` between them, or nothing.

    Raises:
        InputError: anything else.
    """
    parts = prefix.split("/") if prefix else []
    if any(not part or part.startswith(".") or _ILLEGAL.search(part) for part in parts):
        raise InputError(f"{what}: got {prefix!r}, expected letters, digits, _, - and ., with / between parts")
    return "".join(f"{part}/" for part in parts)
