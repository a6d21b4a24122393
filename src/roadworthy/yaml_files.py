"""Settings files in YAML: read safely and strictly, and written so that they come back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from roadworthy.errors import InputError, did_you_mean

MAX_BYTES = 1 << 20
_LENGTH = 60  # characters of a value in a message
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
        problem = str(error.problem or error.context)
        raise InputError(f"{where}{place}: {problem}{_way_out(problem)}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{where}: this is no YAML ({' '.join(str(error).split())})") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply to be a settings file") from error


def _way_out(problem: str) -> str:
    if "'\\t'" in problem:
        return "; indent with spaces, YAML takes no tabs"
    return "; a space belongs behind the colon of every key" if "expected ':'" in problem else ""


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a file that holds a YAML mapping of at most :data:`MAX_BYTES`.

    Raises:
        InputError: no such file, one that is too large, no UTF-8, no YAML, or no mapping.
    """
    if not path.is_file():
        beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        absent = f"there is no such file.{did_you_mean(path.name, beside)}".removesuffix(".")
        raise InputError(f"{path}: this is no file" if path.exists() else f"{path}: {absent}")
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise InputError(f"{path}: larger than {MAX_BYTES} bytes, which no settings file is")
    try:
        content = parse_yaml(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: this is no UTF-8 text ({error.reason} at byte {error.start})") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InputError(f"{path}: got {_kind(content)}, expected keys and values such as 'key: value'")
    return content


def to_yaml(content: Mapping[str, Any]) -> str:
    """Write plain values as YAML, keys in their order, short lists in one line."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def shown(value: Any) -> str:
    """Return a value as messages show it: in one line, and cut when it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else f"only {shown(value)}"
