"""A table of implementations under their public names; one file registers one family."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from roadworthy.errors import unknown_name

T = TypeVar("T")


class Registry(Generic[T]):
    """Names to implementations, with a line of description each and "did you mean" on a wrong name.

    Args:
        kind: what the entries are, in the singular, as error messages say it.
        elsewhere: names that other software uses, in small letters and digits alone, to those used here.

    Example:
        >>> shapes: Registry[str] = Registry("shape")
        >>> shapes.add("disc", "round", "a filled circle")
        'round'
        >>> shapes["disc"], shapes.describe("disc")
        ('round', 'a filled circle')
    """

    def __init__(self, kind: str, elsewhere: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._elsewhere = elsewhere or {}
        self._entries: dict[str, tuple[T, str]] = {}

    def add(self, name: str, entry: T, description: str) -> T:
        """Register ``entry`` under ``name``; a name is taken once."""
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered already")
        self._entries[name] = (entry, description)
        return entry

    def register(self, name: str, description: str) -> Callable[[T], T]:
        """Return a decorator that registers what it decorates under ``name``."""
        return lambda entry: self.add(name, entry, description)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            plain = re.sub(r"[^a-z0-9]", "", str(name).lower())
            raise unknown_name(self.kind, name, self._entries, self._elsewhere.get(plain))
        return self._entries[name][0]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def describe(self, name: str) -> str:
        """Return the one-line description of ``name``."""
        self[name]
        return self._entries[name][1]
