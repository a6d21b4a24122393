from __future__ import annotations

import html
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.text import chart_text, json_block, p_value, signed


@given(st.text())
def test_escaped_text_holds_no_markup_and_reads_the_same(text: str) -> None:
    shown = escape(text)
    assert not set("<>\"'") & set(shown)
    assert html.unescape(shown) == clean(text)


@given(st.text())
def test_clean_text_can_be_written_and_hides_nothing(text: str) -> None:
    shown = clean(text)
    shown.encode("utf8")
    assert not any(ord(c) < 32 and c not in "\t\n\r" for c in shown)


def test_lone_surrogates_and_reordering_marks_are_replaced() -> None:
    assert clean("a\udc80b\u202ec\u2066\x1b[31m") == "a\ufffdb\ufffdc\ufffd\ufffd[31m"


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.floats(), st.integers(), st.lists(st.text()))))
def test_json_cannot_end_its_script_element_and_reads_back(data: dict) -> None:
    text = json_block(data)
    assert not set("<>&\u2028\u2029") & set(text)
    back = json.loads(text)
    for key, value in data.items():
        kept = None if isinstance(value, float) and not math.isfinite(value) else value
        assert back[clean(key)] == kept or len({clean(k) for k in data}) < len(data)


@pytest.mark.parametrize("text", ["<b>x</b>", "%{y}", "$x$", '<a href="javascript:1">'])
def test_chart_text_leaves_plotly_nothing_to_interpret(text: str) -> None:
    shown = chart_text(text)
    assert "<" not in shown
    assert "%{" not in shown
    assert "$" not in shown
    assert html.unescape(shown) == text


def test_numbers_at_their_edges() -> None:
    assert number(1234567) == "1\u202f234\u202f567"
    assert number(None) == number(float("nan")) == percent(float("nan")) == p_value(float("nan")) == "–"
    assert number(-1e-9) == "0.000"
    assert signed(1e-9) == "0.000"
    assert percent(0.9999) == "100\u00a0%"
    assert p_value(0.00099) == "p < 0.001"
