"""Framing: what TensorFlow wrote is read exactly; damaged, cut and absurd records are named by file and byte."""

from __future__ import annotations

import gzip
import json
import struct
import sys
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import DataError, InputError, MissingExtraError
from roadworthy.tfrecord import Appender, decode, extra, files, framing, is_tfrecord, read_records, record_writer


def put(path: Path, records: list[bytes], *, compress: bool = False) -> Path:
    with record_writer(path, compress=compress) as write:
        for record in records:
            write(record)
    return path


def mask(checksum: int) -> int:
    """Return a masked checksum by the format's own words, in plain arithmetic."""
    return ((checksum // 2**15 + checksum % 2**15 * 2**17) + 0xA282EAD8) % 2**32


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", mask(google_crc32c.value(packed)))


def test_tensorflows_files_are_read_exactly(shared: Path) -> None:
    folder = shared / "data" / "tfrecord"
    expected = json.loads((folder / "expected.json").read_text())
    found = []
    for path in sorted(folder.glob("train-*")):
        for record in read_records(path):
            features = decode(record)
            image = features["image/encoded"][0]
            found.append(
                {
                    "shard": path.name,
                    "label_1based": int(features["image/class/label"][0]),
                    "bytes": len(image),
                }
            )
            assert image[:2] == b"\xff\xd8"
    assert found == expected["items"]
    for record, wanted in zip(
        read_records(folder / "validation-saliency-00000-of-00001"), expected["saliency"], strict=True
    ):
        features = decode(record)
        values = features[wanted["field"]]
        assert isinstance(values, np.ndarray)
        assert values.dtype == np.float32
        assert len(values) == wanted["n"]
        assert values[:5].tolist() == wanted["first"]
        assert values.astype(np.float64).sum() == pytest.approx(wanted["sum"], abs=1e-6)
        assert int(values.argmax()) == wanted["argmax"]
        assert int(features["label"][0]) == wanted["label"]
    images = [
        [decode(record)["image/encoded"] for record in read_records(folder / name)]
        for name in ("train-00000-of-00003", "gzip-00000-of-00001.gz")
    ]
    assert len(images[1]) == 3
    assert images[1] == images[0][:3]
    assert list(read_records(folder / "empty-00000-of-00001")) == []


def test_tensorflows_damaged_files_are_named_by_byte(shared: Path) -> None:
    folder = shared / "data" / "tfrecord"
    for name, whole, message in (
        ("flipped-payload", 4, r"flipped-payload: the record at byte 4420 is damaged: the checksum of its data"),
        ("truncated", 8, r"truncated: the record at byte 8863 is cut off: 967 of 987 bytes are there"),
    ):
        found: list[bytes] = []
        with pytest.raises(DataError, match=message):
            found.extend(read_records(folder / name))
        assert found == list(read_records(folder / "train-00000-of-00003"))[:whole], "the sound ones come first"


@settings(max_examples=40, deadline=None)
@given(
    records=st.lists(st.one_of(st.binary(max_size=40), st.integers(1, 700_000).map(bytes)), max_size=12),
    compress=st.booleans(),
)
def test_what_was_written_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[bytes], compress) -> None:
    path = put(tmp_path_factory.mktemp("round") / "shard", records, compress=compress)
    assert list(read_records(path)) == records
    if not compress:  # against the format as it is written down
        whole = b"".join(header(len(r)) + r + struct.pack("<I", mask(google_crc32c.value(r))) for r in records)
        assert path.read_bytes() == whole


@pytest.mark.parametrize("compress", [False, True])
def test_any_changed_byte_is_noticed(tmp_path: Path, compress: bool) -> None:
    path = put(tmp_path / "shard", [b"first record", b"", b"third"], compress=compress)
    sound = path.read_bytes()
    for place in range(len(sound)):
        if compress and 3 <= place < 10:  # flags, time and system of the gzip header say nothing about the data
            continue
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 0x10]) + sound[place + 1 :])
        with pytest.raises(DataError, match=str(path)):
            list(read_records(path))


@pytest.mark.parametrize("compress", [False, True])
def test_any_cut_is_noticed_unless_it_falls_between_records(tmp_path: Path, compress: bool) -> None:
    records = [b"first record", b"", b"third"]
    path = put(tmp_path / "shard", records, compress=compress)
    sound = path.read_bytes()
    borders = {0} if compress else {0, 28, 44}
    for place in range(len(sound)):
        path.write_bytes(sound[:place])
        if place in borders:
            assert list(read_records(path)) == records[: sorted(borders).index(place)]
        else:
            with pytest.raises(DataError, match="cut off|no TFRecord file"):
                list(read_records(path))


def test_huge_declared_lengths_are_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    for length, message in (
        (2**63, "declares 9223372036854775808 bytes, more than the file can hold"),
        (10**6, "declares 1000000 bytes, more than the file can hold"),
    ):
        path.write_bytes(header(length) + bytes(100))
        with pytest.raises(DataError, match=f"the record at byte 0 {message}"):
            list(read_records(path))
        path.write_bytes(gzip.compress(header(length) + bytes(100)))
        with pytest.raises(DataError, match=r"record at byte 0 (declares|is cut off)"):
            list(read_records(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "MAX_RECORD", 50)
        path.write_bytes(header(60) + bytes(100))
        with pytest.raises(DataError, match=r"declares 60 bytes, more than a record may have \(50\)"):
            list(read_records(path))
    wrong = bytearray(header(4) + b"data" + bytes(4))
    wrong[0] ^= 1
    path.write_bytes(wrong)
    with pytest.raises(DataError, match=r"is no TFRecord file, or its first record is damaged.*length at byte 0"):
        list(read_records(path))


def test_gzip_is_told_by_content_and_members_follow_one_another(tmp_path: Path) -> None:
    one, two = put(tmp_path / "one.gz", [b"a" * 10]), put(tmp_path / "two", [b"b", b"c"], compress=True)
    assert list(read_records(one)) == [b"a" * 10]
    assert list(read_records(two)) == [b"b", b"c"]
    both = tmp_path / "both"
    both.write_bytes(two.read_bytes() + gzip.compress(b"") + two.read_bytes() + bytes(512))
    assert list(read_records(both)) == [b"b", b"c"] * 2
    assert is_tfrecord(one)
    assert is_tfrecord(both)
    (tmp_path / "note").write_text("a few words that are no record")
    assert not is_tfrecord(tmp_path / "note")
    assert not is_tfrecord(tmp_path / "absent")


def test_a_record_whose_length_looks_like_gzip_is_none(tmp_path: Path) -> None:
    path = put(tmp_path / "shard", [bytes(0x088B1F)])
    assert path.read_bytes()[:3] == b"\x1f\x8b\x08"
    assert [len(record) for record in read_records(path)] == [0x088B1F]


def test_a_compressed_file_is_read_at_any_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_STATES", 4)
    content = np.random.default_rng(0).integers(0, 4, 6 << 20, dtype=np.uint8).tobytes()
    path = tmp_path / "file"
    half = len(content) // 2
    path.write_bytes(gzip.compress(content[:half], 1) + gzip.compress(content[half:], 1))
    file = files.open_file(path)
    assert isinstance(file, files.GzipFile)
    generator = np.random.default_rng(1)
    for _ in range(60):
        offset, size = int(generator.integers(0, len(content) + 100)), int(generator.integers(0, 400_000))
        assert file.read_at(offset, size) == content[offset : offset + size]
    assert len(file._states) <= 4
    file.close()


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def interrupted() -> None:
        with record_writer(tmp_path / "deep" / "shard") as write:
            write(b"one")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert list((tmp_path / "deep").iterdir()) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roadworthy.tfrecord.writing.MAX_RECORD", 3)
        with (
            pytest.raises(InputError, match="a record of 4 bytes; at most 3"),
            record_writer(tmp_path / "x") as write,
        ):
            write(b"four")
    again = [put(tmp_path / name, [b"same"], compress=True).read_bytes() for name in "ab"]
    assert again[0] == again[1]


def test_an_interrupted_file_goes_on_behind_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    for cut in range(1, 60):
        with Appender(path) as file:
            for record in (b"one", b"two!", b"three"):
                file.append(record)
        whole = file.partial.read_bytes()
        file.partial.write_bytes(whole[:cut])
        with Appender(path) as file:
            assert file.count == sum(cut >= end for end in (19, 39, 60))
            for record in (b"one", b"two!", b"three")[file.count :]:
                file.append(record)
            file.finish()
        assert path.read_bytes() == whole
        assert not file.partial.exists()
        path.unlink()
    with Appender(path) as file:
        for number in range(5):
            file.append(bytes([number]))
    with Appender(path, keep=lambda count: count - count % 2) as file:
        assert file.count == 4


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = put(tmp_path / "shard", [b"x"])
    for package, call in (
        ("google_crc32c", lambda: list(read_records(path))),
        ("google.protobuf", lambda: decode(b"")),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            extra.crc32c.cache_clear()
            extra.protobuf.cache_clear()
            from roadworthy.tfrecord import example

            example._example.cache_clear()
            with pytest.raises(MissingExtraError, match=r"pip install 'roadworthy\[tfrecord\]'"):
                call()
    with pytest.raises(DataError, match="absent: cannot be read: No such file"):
        list(read_records(tmp_path / "absent"))
