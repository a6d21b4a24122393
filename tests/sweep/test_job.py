from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.sweep import Job
from roadworthy.sweep.job import canonical

scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
specs = st.dictionaries(st.text(), values, max_size=4)


def test_the_key_is_known() -> None:
    """Keys are names of files: they must stay what they are in every version."""
    spec = {"share": 0.1, "name": "é", "deep": [1, None, True, {"b": 1e-7}]}
    assert canonical(spec) == '{"deep":[1,null,true,{"b":1e-07}],"name":"\\u00e9","share":0.1}'
    assert Job("train", spec).key == "6541c684598f3c52"  # b2sum -l 64 of kind and spec


@given(specs)
@settings(max_examples=60, deadline=None)
def test_the_key_survives_json_and_order(spec: dict[str, object]) -> None:
    job = Job("train", spec)
    backwards = dict(reversed(list(spec.items())))
    assert Job("train", json.loads(json.dumps(backwards))).key == job.key
    assert Job(**json.loads(json.dumps(asdict(job)))) == job


def test_the_key_is_the_same_in_another_process() -> None:
    job = Job("train", {"share": 0.1, "methods": ["ig", "grad"]})
    code = f"from roadworthy.sweep import Job; print(Job('train', {job.spec!r}).key)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == job.key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0}, {"a": -0.0}),
        ({"a": 0.1}, {"a": np.float64(0.1)}),
        ({"a": 0.1}, {"a": 0.1 + 1e-18}),
    ],
)
def test_equal_numbers_are_the_same_work(first: dict[str, object], second: dict[str, object]) -> None:
    assert Job("train", first).key == Job("train", second).key


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"a": 1}, {"a": True}),
        ({"a": 0.1}, {"a": 0.1 + 2e-17}),
        ({"a": "1"}, {"a": 1}),
        ({"a": None}, {}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
    ],
)
def test_other_values_are_other_work(first: dict[str, object], second: dict[str, object]) -> None:
    assert Job("train", first).key != Job("train", second).key


def test_kind_counts_but_label_cost_and_needs_do_not() -> None:
    job = Job("train", {})
    assert Job("maps", {}).key != job.key
    assert Job("train", {}, needs=("a" * 16,), label="first", cost=3).key == job.key


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), r"spec\.a: nan"),
        (float("inf"), r"spec\.a: inf"),
        ((1, 2), r"spec\.a: a builtins\.tuple"),
        ({1: 2}, r"spec\.a: key 1 is a int"),
        ([np.float32(1)], r"spec\.a\[0\]: a numpy\.float32"),
        ([np.int64(1)], r"spec\.a\[0\]: a numpy\.int64"),
        ({"b": {1}}, r"spec\.a\.b: a builtins\.set"),
        (b"x", r"spec\.a: a builtins\.bytes"),
    ],
)
def test_what_json_cannot_say_is_refused(value: object, place: str) -> None:
    with pytest.raises(InputError, match=place):
        Job("train", {"a": value})


def test_a_spec_within_itself_is_refused() -> None:
    spec: dict[str, object] = {}
    spec["a"] = spec
    with pytest.raises(InputError, match="64 levels"):
        Job("train", spec)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kind": ""}, "kind"),
        ({"spec": [1]}, "spec of a job: a list"),
        ({"needs": "a" * 16}, "expected a tuple"),
        ({"cost": -1}, "cost"),
        ({"cost": float("nan")}, "cost"),
    ],
)
def test_odd_jobs_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Job(**{"kind": "train", "spec": {}, **options})


def test_the_spec_is_a_copy() -> None:
    spec = {"list": [1]}
    job = Job("train", spec)
    spec["list"].append(2)
    assert job.spec == {"list": [1]}


def test_jobs_can_be_in_sets() -> None:
    assert len({Job("train", {"a": 1}), Job("train", {"a": 1.0}), Job("train", {"a": 2})}) == 2
