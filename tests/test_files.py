"""A file is there whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from roadworthy.files import replacing


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def fail() -> None:
        with replacing(path) as beside:
            beside.write_text("ne")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "note.npz"
    with replacing(path) as first, replacing(str(path)) as second:
        assert first != second
        assert {first.suffix, second.suffix} == {".npz"}
        assert first.parent == path.parent
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first", "the outer one ends last"
    assert list(path.parent.iterdir()) == [path]
