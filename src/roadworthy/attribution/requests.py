"""What was asked for, parsed: names, callables, objects of other libraries, renamed methods and inverses of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from roadworthy.attribution import captum_objects, quantus_functions, zennit_attributors
from roadworthy.attribution.base import methods
from roadworthy.attribution.outside import Outside
from roadworthy.errors import InputError

INVERSE = "inverse:"

# an object of another library is no callable, and no type of ours
Source: TypeAlias = str | Callable[..., Any] | Any
Methods: TypeAlias = str | Callable[..., Any] | Sequence[Source] | Mapping[str, Source] | Any


@dataclass(frozen=True)
class Request:
    """One map asked for.

    Attributes:
        name: under which it is returned.
        source: a registered name, a callable ``(model, images, targets)``, or a method of another library.
        sign: -1 for an inverse.
    """

    name: str
    source: str | Outside | Callable[..., Any]
    sign: int = 1


def parse(wanted: Methods) -> list[Request]:
    """Resolve what a user passes as ``methods``.

    Args:
        wanted: a name, a callable, an object of captum or Zennit, a list of these, or a mapping from a name of
            one's own to either.
            ``inverse:NAME`` is minus the map of NAME, a registered method or another one asked for.

    Raises:
        InputError: an unknown or repeated name, or something that is no method.

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
        listed = [wanted] if isinstance(wanted, str) or is_method(wanted) else _list_of(wanted)
        named = {}
        for source in listed:
            name = name_of(source)
            if name in named:
                raise InputError(f"methods: {name!r} is there twice; pass a mapping to give each its own name")
            named[name] = source
    if not named:
        raise InputError("methods: got none; name at least one, for instance ['ig', 'random']")
    return named


def is_method(source: Any) -> bool:
    """Tell whether something makes maps: a callable, or an object of captum or Zennit.

    Example:
        >>> is_method(lambda model, images, targets: images), is_method([1.0, 2.0])
        (True, False)
    """
    return callable(source) or adapted(source, name_of(source)) is not None


def name_of(source: Any) -> str:
    """Return what a method is called where the user gives it no name.

    Example:
        >>> name_of("ig"), name_of(len)
        ('ig', 'len')
    """
    if isinstance(source, str):
        return source
    if hasattr(source, "__name__"):
        return str(source.__name__)
    found = adapted(source, type(source).__name__)
    return type(source).__name__ if found is None else found.name


def adapted(source: Any, name: str) -> Outside | None:
    """Return the method of another library that an object or function stands for, or None.

    This is the one place where such objects are recognised.

    Args:
        source: anything.
        name: what the user calls it, for messages.

    Raises:
        InputError: an object that is not complete, or a class in place of one.
    """
    for library in (captum_objects, zennit_attributors, quantus_functions):
        found = library.recognise(source, name)
        if found is not None:
            return found
    return None


def _list_of(wanted: Any) -> list[Any]:
    try:
        return list(wanted)
    except TypeError:
        raise _no_method(type(wanted).__name__, wanted) from None


def _no_method(name: str, source: Any) -> InputError:
    return InputError(
        f"methods: {name!r} is a {type(source).__name__}, expected a method name, a callable (model, images, "
        "targets) -> array, or an object of captum.attr or Zennit"
    )


def _resolve(name: str, source: Any, named: Mapping[str, Source], seen: tuple[str, ...]) -> Request:
    if not isinstance(source, str):
        found = adapted(source, name) or source
        if not isinstance(found, Outside) and not callable(found):
            raise _no_method(name, source)
        return Request(name, found)
    if source.startswith(INVERSE):
        inner = source.removeprefix(INVERSE)
        if inner in seen:
            raise InputError(f"methods: {source!r} is defined by itself")
        renamed = inner in named and named[inner] != inner
        found = _resolve(name, named[inner] if renamed else inner, named, (*seen, inner))
        return Request(name, found.source, -found.sign)
    methods[source]  # says what is wrong with the name
    return Request(name, source)
