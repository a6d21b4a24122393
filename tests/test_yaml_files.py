"""Settings files in YAML: what is read, what is refused and with which words, and that what is written comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.yaml_files import MAX_BYTES, parse_yaml, read_yaml, to_yaml


def write(folder: Path, content: bytes, name: str = "settings.yaml") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: 1\nseed: 2\n", "line 2, column 1: the key 'seed' is there twice"),
        ("data: {size: 1, size: 2}", "the key 'size' is there twice"),
        ("a: &x [1]\nb: *x\n", "aliases are not read here"),
        ("a: &x {b: 1}\n<<: *x\n", "aliases are not read here"),
        ("1: 2", "the key 1 is no text"),
        ("? [a]\n: b", r"the key \['a'\] is no text"),
        ("data: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("a: [", "line 1, column"),
        ("- a\n- b\n", "got a list, expected keys and values"),
        ("just text", "got only 'just text'"),
        ("a: " + "[" * 5000, "nested too deeply"),
        ("a: \x00", "this is no YAML"),
    ],
)
def test_text_that_is_no_settings_file(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_yaml(write(tmp_path, text.encode()))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "no.yaml", "there is no such file"),
        (tmp_path, "this is no file"),
        (write(tmp_path, b"#" * (MAX_BYTES + 1), "large.yaml"), "larger than"),
        (write(tmp_path, "data: é".encode("latin1"), "latin.yaml"), "no UTF-8 text"),
    ):
        with pytest.raises(InputError, match=words):
            read_yaml(path)


def test_what_is_read(tmp_path: Path) -> None:
    assert read_yaml(write(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: [x, {c: null}]\r\n")) == {
        "a": 1,
        "b": ["x", {"c": None}],
    }
    assert read_yaml(write(tmp_path, b"# nothing\n")) == {}


def test_numbers_are_what_people_take_for_numbers() -> None:
    assert parse_yaml("[1e-3, 1., .5, -2, 1_000, 010, 1:30, 2024-01-01, 0x10]", "x") == [
        0.001, 1.0, 0.5, -2, 1000, "010", "1:30", "2024-01-01", "0x10",
    ]  # fmt: skip


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


@settings(max_examples=80, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | names, st.lists))
def test_plain_values_survive_yaml(value: Any) -> None:
    assert parse_yaml(to_yaml({"key": value}), "text") == {"key": value}
