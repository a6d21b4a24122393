"""Examples: every kind of list comes back, packed or not, as another implementation of the format writes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import DataError, InputError
from roadworthy.tfrecord import decode, encode

NAMES = st.text(max_size=8)
FLOATS = st.lists(st.floats(width=32), max_size=20).map(lambda values: np.array(values, np.float32))
INTEGERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20).map(lambda values: np.array(values, np.int64))
BYTES = st.lists(st.binary(max_size=20), max_size=5)


def alike(found: object, wanted: object) -> bool:
    if isinstance(wanted, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == wanted.dtype and found.tobytes() == wanted.tobytes()
    return found == wanted


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(NAMES, st.one_of(FLOATS, INTEGERS, BYTES), max_size=5))
def test_features_come_back(features: dict[str, object]) -> None:
    record = encode(features)
    found = decode(record)
    assert set(found) == set(features)
    assert all(alike(found[name], value) for name, value in features.items())
    assert encode(dict(reversed(features.items()))) == record, "the order of features does not matter"


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), st.one_of(FLOATS, INTEGERS, BYTES), max_size=4))
def test_an_independent_reader_and_writer_agree(features: dict[str, object]) -> None:
    example_pb2 = pytest.importorskip("tfrecord.example_pb2")
    theirs = example_pb2.Example.FromString(encode(features)).features.feature
    assert set(theirs) == set(features)
    message = example_pb2.Example()
    for name, value in features.items():
        kind = "bytes_list" if isinstance(value, list) else "float_list" if value.dtype.kind == "f" else "int64_list"
        assert theirs[name].WhichOneof("kind") == kind
        assert alike(list(theirs[name].bytes_list.value), value) or alike(
            np.array(list(getattr(theirs[name], kind).value), getattr(value, "dtype", object)), value
        )
        target = getattr(message.features.feature[name], kind)
        target.SetInParent()
        target.value.extend(value if isinstance(value, list) else value.tolist())
    found = decode(message.SerializeToString())
    assert all(alike(found[name], value) for name, value in features.items())


def field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field as protobuf writes it."""
    length, size = b"", len(content)
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def record_with(name: bytes, kind: int, content: bytes) -> bytes:
    entry = field(1, name) + field(2, field(kind, content))
    return field(1, field(1, entry))


@pytest.mark.parametrize("n", [1, 3, 40])
def test_unpacked_and_split_lists_are_read(n: int) -> None:
    floats = np.linspace(-1, 1, n).astype("<f4")
    each = b"".join(b"\x0d" + value.tobytes() for value in floats)
    integers = b"".join(b"\x08" + bytes([value]) for value in range(n))
    halves = field(1, floats[: n // 2].tobytes()) + field(1, floats[n // 2 :].tobytes())
    mixed = field(1, floats[:1].tobytes()) + each
    for content, wanted in ((each, floats), (halves, floats), (mixed, np.concatenate([floats[:1], floats]))):
        assert alike(decode(record_with(b"f", 2, content))["f"], wanted.astype(np.float32))
    assert alike(decode(record_with(b"i", 3, integers))["i"], np.arange(n))


def test_what_is_no_example_is_named() -> None:
    for record in (b"\xff\xff", b"no message", record_with(b"\xff", 1, b"")):
        with pytest.raises(DataError, match=r"here: is no tf.train.Example"):
            decode(record, where="here")
    with pytest.raises(DataError, match="the float list 'f' has 3 bytes|no tf.train.Example"):
        decode(record_with(b"f", 2, field(1, b"abc")))


def test_values_are_taken_in_their_usual_forms() -> None:
    found = decode(
        encode(
            {"a": 1, "b": True, "c": 0.5, "d": b"x", "e": np.arange(6).reshape(2, 3), "f": [], "g": np.float64(0.1)}
        )
    )
    assert {name: list(value) for name, value in found.items()} == {
        "a": [1],
        "b": [1],
        "c": [0.5],
        "d": [b"x"],
        "e": [0, 1, 2, 3, 4, 5],
        "f": [],
        "g": [np.float32(0.1)],
    }
    assert list(decode(encode({"a": 1, "b": 2}), ["b", "absent"])) == ["b"]
    for value, message in (
        ("text", "'x' is a str .*encode text first"),
        (np.uint64(2**63), "does not fit into 64 bits"),
        ({}, "'x' is a dict"),
    ):
        with pytest.raises(InputError, match=message):
            encode({"x": value})
    with pytest.raises(InputError, match="name 3 is a int"):
        encode({3: 1})  # type: ignore[dict-item]
