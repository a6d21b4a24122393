"""A settings file in YAML: read safely, changed by dotted keys, and its faults told in one line each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from roadworthy.errors import InputError, did_you_mean

MAX_BYTES = 1 << 20
_SHOWN = 3  # faults told at a time
_LENGTH = 60  # characters of a value in a message
_EXPECTED = {
    "model_type": "keys and values",
    "dict_type": "keys and values",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "text that is not empty",
}
_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(?:0|[1-9][0-9_]*)$"),
    "tag:yaml.org,2002:float": re.compile(
        r"[-+]?(?:[0-9][0-9_]*)?\.[0-9]+(?:[eE][-+]?[0-9]+)?$"
        r"|[-+]?[0-9][0-9_]*(?:\.(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)$"
        r"|[-+]?\.(?:inf|Inf|nan|NaN)$"
    ),
}


class _Loader(yaml.SafeLoader):
    """The safe loader, stricter.

    No aliases (a few lines of them stand for gigabytes) and no repeated keys. Numbers are what people take for
    numbers: YAML 1.1 reads 1e-3 as text, 010 as eight, 1:30 as ninety and 2024-01-01 as a date.
    """

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(
                problem="aliases are not read here; write it out", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in seen:
                fault = f"the key {key!r} is there twice" if isinstance(key, str) else f"the key {key!r} is no text"
                raise yaml.MarkedYAMLError(problem=fault, problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which puts text in quotes where the loader above would read a number."""


_Loader.yaml_implicit_resolvers = {
    first: [entry for entry in known if entry[0] in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern in _NUMBERS.items():
    _Loader.add_implicit_resolver(_tag, _pattern, list("-+.0123456789"))
    _Dumper.add_implicit_resolver(_tag, _pattern, list("-+.0123456789"))


def parse_yaml(text: str, where: str) -> Any:
    """Read YAML text; nothing in it is executed.

    Args:
        text: the text.
        where: its origin, for messages.

    Raises:
        InputError: no YAML, with line and column; a key that is there twice; an alias; nesting too deep to read.

    Example:
        >>> parse_yaml("rate: 1e-3", "text")
        {'rate': 0.001}
    """
    try:
        return yaml.load(text, Loader=_Loader)  # a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise InputError(f"{where}{place}: {error.problem or error.context}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: this is no YAML ({' '.join(str(error).split())})") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply to be a settings file") from error


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file that holds a YAML mapping of at most :data:`MAX_BYTES`.

    Raises:
        InputError: no such file, one that is too large, no UTF-8, no YAML, or no mapping.
    """
    if not path.is_file():
        raise InputError(f"{path}: there is no such file" if not path.exists() else f"{path}: this is no file")
    with path.open("rb") as handle:
        raw = handle.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes, which no settings file is")
    try:
        content = parse_yaml(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: this is no UTF-8 text ({error.reason} at byte {error.start})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: got {_kind(content)}, expected keys and values such as 'data: digits'")
    return content


def to_yaml(content: Mapping[str, Any]) -> str:
    """Write plain values as YAML, keys in their order, short lists in one line."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


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
                raise InputError(f"{dotted}: {path} is {_shown(inner)}, which has no keys of its own")
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
            lines.append(f"{path}: got {_shown(fault['input'])}, {_expected(fault)}")
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


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"only {_shown(value)}"
