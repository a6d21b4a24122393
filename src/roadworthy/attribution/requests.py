"""What was asked for, parsed: names, callables, renamed methods and inverses of either."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from roadworthy.attribution.base import methods
from roadworthy.errors import InputError

INVERSE = "inverse:"

Source: TypeAlias = str | Callable[..., Any]
Methods: TypeAlias = str | Callable[..., Any] | Sequence[Source] | Mapping[str, Source]


@dataclass(frozen=True)
class Request:
    """One map asked for.

    Attributes:
        name: under which it is returned.
        source: a registered name, or a callable ``(model, images, targets)``.
        sign: -1 for an inverse.
    """

    name: str
    source: Source
    sign: int = 1


def parse(wanted: Methods) -> list[Request]:
    """Resolve what a user passes as ``methods``.

    Args:
        wanted: a name, a callable, a list of either, or a mapping from a name of one's own to either.
            ``inverse:NAME`` is minus the map of NAME, a registered method or another one asked for.

    Raises:
        InputError: an unknown or repeated name, or something that is neither a name nor a callable.

    Example:
        >>> [(request.name, request.source, request.sign) for request in parse(["ig", "inverse:ig"])]
        [('ig', 'ig', 1), ('inverse:ig', 'ig', -1)]
    """
    named = _named(wanted)
    return [_resolve(name, source, named, seen=()) for name, source in named.items()]


def _named(wanted: Methods) -> dict[str, Source]:
    if isinstance(wanted, Mapping):
        named = {str(name): source for name, source in wanted.items()}
    else:
        listed = [wanted] if isinstance(wanted, str) or callable(wanted) else list(wanted)
        named = {}
        for source in listed:
            name = source if isinstance(source, str) else getattr(source, "__name__", type(source).__name__)
            if name in named:
                raise InputError(f"methods: {name!r} is there twice; pass a mapping to give each its own name")
            named[name] = source
    if not named:
        raise InputError("methods: got none; name at least one, for instance ['ig', 'random']")
    return named


def _resolve(name: str, source: Any, named: Mapping[str, Source], seen: tuple[str, ...]) -> Request:
    if callable(source):
        return Request(name, source)
    if not isinstance(source, str):
        raise InputError(
            f"methods: {name!r} is a {type(source).__name__}, expected a method name or a callable "
            "(model, images, targets) -> array"
        )
    if source.startswith(INVERSE):
        inner = source.removeprefix(INVERSE)
        if inner in seen:
            raise InputError(f"methods: {source!r} is defined by itself")
        renamed = inner in named and named[inner] != inner
        found = _resolve(name, named[inner] if renamed else inner, named, (*seen, inner))
        return Request(name, found.source, -found.sign)
    methods[source]  # says what is wrong with the name
    return Request(name, source)
