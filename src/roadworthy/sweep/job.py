"""A unit of work of a sweep, keyed by everything that its result follows from."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from roadworthy.errors import InputError

_DEPTH = 64  # levels in a spec; deeper ones are a mistake, or refer to themselves
_EXACT = 2**53  # whole floats below it are the same number as an int


@dataclass(frozen=True)
class Job:
    """One unit of work. Two jobs with equal kind and spec are the same work and have the same key.

    Args:
        kind: what is done, such as ``"train"``.
        spec: all that the result follows from, of JSON types only; copied.
        needs: keys of the jobs whose records this one reads.
        label: what people call it.
        cost: work relative to other jobs, for the time left; 0 or more.

    Raises:
        InputError: a spec that JSON cannot say exactly, naming the place; a cost that is no number of 0 or more.

    Example:
        >>> Job("train", {"share": 0.1, "repeat": 0}).key == Job("train", {"repeat": 0.0, "share": 0.1}).key
        True
        >>> Job("train", {"share": 0.1}).key
        'ab1f22751974ebe7'
    """

    kind: str
    spec: dict[str, Any]
    needs: tuple[str, ...] = ()
    label: str = ""
    cost: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not self.kind:
            raise InputError(f"kind of a job: {self.kind!r}, expected a word such as 'train'")
        if not isinstance(self.spec, dict):
            raise InputError(f"spec of a job: a {type(self.spec).__name__}, expected a dict of JSON types")
        if isinstance(self.needs, str):
            raise InputError(f"needs of a job: the text {self.needs!r}, expected a tuple of keys")
        if not (isinstance(self.cost, (int, float)) and math.isfinite(self.cost) and self.cost >= 0):
            raise InputError(f"cost of a job: {self.cost!r}, expected a number of 0 or more")
        object.__setattr__(self, "spec", _plain(self.spec, "spec"))
        object.__setattr__(self, "needs", tuple(self.needs))

    @cached_property
    def key(self) -> str:
        """16 hexadecimal digits: a hash of kind and spec as canonical JSON."""
        return hashlib.blake2b(canonical({"kind": self.kind, "spec": self.spec}).encode(), digest_size=8).hexdigest()

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.label or f"{self.kind} {self.key}"


def canonical(value: Any) -> str:
    """Write a value as JSON in the one way that equal values share.

    Keys are sorted, no blanks, ASCII only; a float is the shortest text that reads back the same, and a whole one is
    written as an int (0.0 and -0.0 as 0), so that ``1`` and ``1.0`` in a file of settings mean the same work.

    Args:
        value: dict with text keys, list, str, bool, int, finite float or None, and these within one another.

    Raises:
        InputError: anything else; names the place.

    Example:
        >>> canonical({"b": [0.1, 1e-7, 2.0], "a": None})
        '{"a":null,"b":[0.1,1e-07,2]}'
    """
    return json.dumps(_plain(value, "value"), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: Any, place: str, depth: int = 0) -> Any:
    """Copy a value, or refuse it."""
    if depth > _DEPTH:
        raise InputError(f"{place[:80]}...: more than {_DEPTH} levels deep")
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str)]
        if wrong:
            raise InputError(f"{place}: key {wrong[0]!r} is a {type(wrong[0]).__name__}, JSON has text keys only")
        return {str(key): _plain(entry, f"{place}.{key}", depth + 1) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry, f"{place}[{index}]", depth + 1) for index, entry in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < _EXACT else float(value)
    what = repr(value) if isinstance(value, float) else f"a {type(value).__module__}.{type(value).__qualname__}"
    raise InputError(f"{place}: {what}, expected JSON types: dict, list, str, bool, int, finite float, None")
