from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import DataError, InputError
from roadworthy.sweep import Record
from roadworthy.sweep import record as module
from roadworthy.sweep.record import decode, encode, is_whole

DTYPES = ["f4", "f8", "f2", ">i4", "i8", "u1", "?", "c8", "<U3", "S2"]
arrays = st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0)))


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True), arrays, max_size=3), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_what_goes_in_comes_out(parts: dict[str, np.ndarray], number: float) -> None:
    data = encode(Record({"number": number, "text": "é\n"}, parts))
    back = decode(data)
    assert back.head == {"number": number, "text": "é\n"}
    assert back.arrays.keys() == parts.keys()
    for name, array in parts.items():
        assert back.arrays[name].dtype == array.dtype
        assert back.arrays[name].shape == array.shape
        assert back.arrays[name].tobytes() == array.tobytes()
        assert back.arrays[name].flags.writeable
    assert encode(back) == data


def example() -> bytes:
    return encode(Record({"top1": 0.5}, {"hits": np.array([True, False]), "map": np.arange(6.0).reshape(2, 3).T}))


def test_every_flipped_bit_and_every_cut_is_noticed() -> None:
    data = example()
    assert is_whole(data)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << (place % 8)
        assert not is_whole(bytes(flipped)), place
        assert not is_whole(data[:place]), place
    assert not is_whole(data + b"\0")
    with pytest.raises(DataError, match="checksum"):
        decode(data[:-1])


def test_numpy_reads_it_too(tmp_path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(example())
    with np.load(path, allow_pickle=False) as there:
        assert there["map"].tolist() == [[0, 3], [1, 4], [2, 5]]


def signed(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """Make a file whose checksum holds, whatever is in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        archive.comment = b"0" * 64
        for name, data in members.items():
            archive.writestr(name, data)
    body = stream.getvalue()[:-64]
    return body + module._checksum(body)


def npy(header: str) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "data",
    [
        signed(
            {"head.json": b"{}", "a.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }")}
        ),
        signed({"head.json": b"{}", "a.npy": npy("{'descr': '|O', 'fortran_order': False, 'shape': (0,), }")}),
        signed({"head.json": b"{}", "a.npy": b"nothing"}),
        signed({"head.json": b"{}" + b" " * 10_000}, zipfile.ZIP_DEFLATED),
        signed({"head.json": b"{"}),
        signed({}),
    ],
    ids=["huge", "objects", "no array", "compressed", "no json", "no head"],
)
def test_well_signed_nonsense_is_refused(data: bytes) -> None:
    assert is_whole(data)
    with pytest.raises(DataError, match="no record"):
        decode(data)


@pytest.mark.parametrize(
    ("record", "match"),
    [
        (Record({"a": float("nan")}), "finite"),
        (Record({"a": {1}}), "JSON"),
        (Record({}, {"a": np.array([None])}), "dtype object"),
        (Record({}, {"../a": np.zeros(1)}), "array '../a'"),
        (Record({}, {f"a{number}": np.zeros(0) for number in range(1001)}), "1000 arrays"),
    ],
)
def test_what_cannot_be_kept_is_refused(record: Record, match: str) -> None:
    with pytest.raises(InputError, match=match):
        encode(record)


def test_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", (1 << 20) + 100)
    encode(Record({}, {"a": np.zeros(90, np.uint8)}))
    with pytest.raises(InputError, match="a record of 122 bytes"):
        encode(Record({}, {"a": np.zeros(120, np.uint8)}))
