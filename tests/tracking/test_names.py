"""Names that trackers take."""

from __future__ import annotations

import posixpath
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.tracking.names import check_prefix, legal_names


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=130), unique=True, max_size=12))
def test_names_are_legal_and_no_two_alike(names: list[str]) -> None:
    found = legal_names(names)
    assert list(found) == names
    assert len({legal.lower() for legal in found.values()}) == len(names)
    for legal in found.values():
        assert re.fullmatch(r"[\w.\-]{1,110}", legal)
        assert posixpath.normpath(f"a/{legal}") == f"a/{legal}"


def test_legal_names_stay() -> None:
    assert legal_names(["ig-sg", "a.b_c", "größe"]) == {"ig-sg": "ig-sg", "a.b_c": "a.b_c", "größe": "größe"}


def test_a_numbered_name_is_not_given_twice() -> None:
    assert list(legal_names(["a b", "a_b-2", "a?b"]).values()) == ["a_b", "a_b-2", "a_b-3"]


def test_prefixes() -> None:
    assert check_prefix("tag", "") == ""
    assert check_prefix("tag", "a/b-1.0") == "a/b-1.0/"
    for wrong in ("/a", "a/", "a//b", "a b", "../x", "."):
        with pytest.raises(InputError, match=re.escape(f"tag: got {wrong!r}, expected letters, digits")):
            check_prefix("tag", wrong)
