"""Settings from a file: changed by dotted keys, and their faults told in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from roadworthy.errors import InputError, did_you_mean
from roadworthy.yaml_files import parse_yaml, shown

_SHOWN = 3  # faults told at a time
_EXPECTED = {
    "model_type": "keys and values",
    "dict_type": "keys and values",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
}


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` texts; values are YAML.

    Raises:
        InputError: no ``=``, no key, or a value that is no YAML.

    Example:
        >>> parse_assignments(["data.size=32", "methods=[ig, random]"])
        {'data.size': 32, 'methods': ['ig', 'random']}
    """
    found: dict[str, Any] = {}
    for text in assignments:
        key, is_given, value = text.partition("=")
        if not is_given or not key.strip():
            raise InputError(f"got {text!r}, expected key=value, for instance data.size=32")
        found[key.strip()] = parse_yaml(value, f"the value of {key.strip()!r}")
    return found


def override(content: Mapping[str, Any], changes: Mapping[str, Any], shorthands: Mapping[str, str]) -> dict[str, Any]:
    """Return ``content`` with values at dotted keys replaced; the original is left as it is.

    Args:
        content: nested mappings.
        changes: dotted keys to values.
        shorthands: dotted keys whose mapping may be written as a single text, and the key that the text is for.

    Raises:
        InputError: a key below something that has no keys.

    Example:
        >>> override({"data": "digits"}, {"data.size": 16}, {"data": "source"})
        {'data': {'source': 'digits', 'size': 16}}
    """
    changed = dict(content)
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        place, path = changed, ""
        for parent in parents:
            path = f"{path}.{parent}" if path else parent
            inner = place.get(parent)
            if isinstance(inner, str) and path in shorthands:
                inner = {shorthands[path]: inner}
            if inner is not None and not isinstance(inner, Mapping):
                raise InputError(f"{dotted}: {path} is {shown(inner)}, which has no keys of its own")
            place[parent] = dict(inner or {})
            place = place[parent]
        place[last] = value
    return changed


def told(error: ValidationError, model: type[BaseModel]) -> str:
    """Say what is wrong in one line: the path of each key, the value, and what was expected.

    Args:
        error: what pydantic raised.
        model: the model that was validated, for the names it knows.
    """
    lines: list[str] = []
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"] if not str(part).startswith("~"))  # ~: tags of a union
        if fault["type"] == "extra_forbidden":
            name, known = str(fault["loc"][-1]), _known(model, fault["loc"][:-1])
            lines.append(f"{path}: unknown key.{did_you_mean(name, known)} Known: {', '.join(known)}")
        elif fault["type"] == "missing":
            lines.append(f"{path}: missing; it has no default")
        elif not path:  # of the whole, and worded so
            lines.append(_expected(fault))
        else:
            lines.append(f"{path}: got {shown(fault['input'])}, {_expected(fault)}")
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _expected(fault: Any) -> str:
    if fault["type"] in _EXPECTED:
        return f"expected {_EXPECTED[fault['type']]}"
    return fault["msg"].removeprefix("Value error, ").replace("Input should be", "expected", 1)


def _known(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """Return the keys that the model at a place has; names of a mapping and tags of a union lie on the way."""
    for part in loc:
        if str(part) in model.model_fields:
            model = next(_models(model.model_fields[str(part)].annotation), model)
    return list(model.model_fields)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
