"""Indices: made once, kept beside the file or in the cache, made anew when the file or the index changes."""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.errors import DataError
from roadworthy.tfrecord import Shards, encode, find_shards, index, open_index, record_writer
from roadworthy.tfrecord.extra import crc32c


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ROADWORTHY_CACHE", str(folder))
    return folder


def put(path: Path, labels: list[int], *, compress: bool = False) -> Path:
    with record_writer(path, compress=compress) as write:
        for label in labels:
            write(encode({"label": label, "name": f"n{label % 3}".encode(), "pad": bytes(label * 10)}))
    return path


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that were read through."""
    made: list[Path] = []
    real = index._build
    monkeypatch.setattr(index, "_build", lambda path, wanted: made.append(path) or real(path, wanted))
    return made


@pytest.mark.parametrize("compress", [False, True])
def test_an_index_is_made_once_and_again_when_the_file_changes(tmp_path: Path, builds, compress: bool) -> None:
    path = put(tmp_path / "shard", [4, 0, 9], compress=compress)
    for _ in range(3):
        found = open_index(path, {"label": "int", "name": "bytes", "absent": "int"})
        assert found.columns["label"].values.tolist() == [4, 0, 9]
        assert found.columns["name"].table == (b"n1", b"n0")
        assert found.columns["name"].values.tolist() == [0, 1, 1]
        assert not found.columns["absent"].present.any()
        assert len(found) == 3
        assert found.offsets[0] == 0
    assert len(open_index(path)) == 3
    assert len(builds) == 1
    more = open_index(path, {"pad": "bytes"})
    assert set(more.columns) == {"label", "name", "absent", "pad"}, "what was asked for before is kept"
    assert len(builds) == 2
    put(path, [1, 1, 1, 1], compress=compress)
    assert open_index(path, {"label": "int"}).columns["label"].values.tolist() == [1, 1, 1, 1]
    os.utime(path, ns=(1, 1))
    open_index(path)
    assert len(builds) == 4
    assert [entry.name for entry in tmp_path.iterdir() if entry != path] == [".shard.rwindex"]


def test_a_damaged_index_is_made_anew(tmp_path: Path, builds) -> None:
    path = put(tmp_path / "shard", [4, 0, 9])
    open_index(path, {"label": "int"})
    kept = tmp_path / ".shard.rwindex"
    sound = kept.read_bytes()
    for place in range(len(sound)):
        kept.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        assert open_index(path, {"label": "int"}).columns["label"].values.tolist() == [4, 0, 9]
    assert len(builds) == 1 + len(sound)
    kept.write_bytes(b"")
    assert len(open_index(path)) == 3
    assert kept.read_bytes() != b""


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ({"n": 10**15}, b""),
        ({"n": 10**30}, b""),
        ({"n": 0}, b""),
        ({"n": -1}, b""),
        ({"n": -2}, bytes(8)),
        ({"n": 3}, np.array([0, 5, 5, 9]).tobytes()),
        ({"n": 3}, np.array([4, 5, 6, 9]).tobytes()),
        ({"n": "3"}, bytes(80)),
        ({"n": 1, "columns": {"label": ["a"]}}, np.array([0, 9, 7]).tobytes() + b"\1"),
        ({"n": 1, "columns": {"label": [3]}}, np.array([0, 9, 0]).tobytes() + b"\1"),
        ({"n": 1, "columns": []}, np.array([0, 9]).tobytes()),
        ({"columns": {}}, bytes(80)),
        ([], b""),
        (b"{", b""),
        (b"\xff", b""),
        (b"[" * 100_000, b""),
        (None, b""),
    ],
)
def test_a_sound_checksum_of_something_else_is_made_anew(tmp_path: Path, builds, head: Any, body: bytes) -> None:
    path = put(tmp_path / "shard", [4, 0, 9])
    status = path.stat()
    if isinstance(head, dict):
        head = {"stamp": [status.st_size, status.st_mtime_ns], "columns": {}, **head}
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    content = b"" if head is None else struct.pack("<Q", len(text)) + text + body
    kept = tmp_path / ".shard.rwindex"
    kept.write_bytes(b"rwindex1" + struct.pack("<I", crc32c()(content)) + content)
    for _ in range(2):
        assert np.diff(open_index(path).offsets).tolist() == [
            len(record) + 16 for record in Shards(tmp_path, ["shard"])
        ]
    assert len(builds) == 1
    assert open_index(path, {"label": "int"}).columns["label"].values.tolist() == [4, 0, 9]


def test_a_folder_that_cannot_be_written_gets_its_index_in_the_cache(tmp_path: Path, cache: Path, builds) -> None:
    folder = tmp_path / "fixed"
    path = put(folder / "shard", [4, 0])
    folder.chmod(0o555)
    try:
        for _ in range(2):
            assert open_index(path, {"label": "int"}).columns["label"].values.tolist() == [4, 0]
        assert [entry.name for entry in folder.iterdir()] == ["shard"]
        assert len(list((cache / "tfrecord").iterdir())) == 1
        assert len(builds) == 1
    finally:
        folder.chmod(0o755)


def test_no_place_for_an_index_is_no_error(tmp_path: Path, builds, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: Path) -> None:
        raise PermissionError(13, "no", str(place))

    monkeypatch.setattr(index, "replacing", refuse)
    path = put(tmp_path / "shard", [4, 0])
    assert len(open_index(path)) == len(open_index(path)) == 2
    assert len(builds) == 2


def test_processes_that_index_one_file_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = put(tmp_path / "shard", list(range(60)) * 5)
    code = (
        "import sys; from roadworthy.tfrecord import open_index;"
        "print(open_index(sys.argv[1], {'label': 'int'}).columns['label'].values.sum())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert {process.communicate()[0].strip() for process in running} == {str(sum(range(60)) * 5)}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".shard.rwindex", "shard"]


def test_damage_met_while_indexing_is_named(tmp_path: Path) -> None:
    path = put(tmp_path / "shard", [1, 2, 3])
    content = path.read_bytes()
    path.write_bytes(content[:-3])
    with pytest.raises(DataError, match=r"shard: the record at byte \d+ is cut off"):
        open_index(path)
    with record_writer(path) as write:
        write(b"no message")
    with pytest.raises(DataError, match="shard: the record at byte 0: is no tf.train.Example"):
        open_index(path, {"label": "int"})
    with pytest.raises(DataError, match="absent: cannot be read"):
        open_index(tmp_path / "absent")
    assert not (tmp_path / ".shard.rwindex").exists()


@pytest.mark.parametrize("compress", [False, True])
def test_shards_are_one_sequence_in_any_order_and_process(tmp_path: Path, compress: bool) -> None:
    sizes = (5, 0, 7, 1)
    for number, size in enumerate(sizes):
        put(tmp_path / f"train-{number:05d}-of-00004", [number * 10 + row for row in range(size)], compress=compress)
    root, names = find_shards(tmp_path)
    shards = Shards(root, names, {"label": "int", "name": "bytes"})
    labels = [number * 10 + row for number, size in enumerate(sizes) for row in range(size)]
    column = shards.columns["name"]
    assert shards.columns["label"].values.tolist() == labels
    assert [column.table[code] for code in column.values] == [f"n{label % 3}".encode() for label in labels]  # type: ignore[index]
    copy = pickle.loads(pickle.dumps(shards))
    wanted = [encode({"label": n, "name": f"n{n % 3}".encode(), "pad": bytes(n * 10)}) for n in labels]
    for row in np.random.default_rng(0).permutation(13).tolist() * 2:
        assert shards[row] == copy[row] == wanted[row]
    assert list(shards) == wanted
    assert shards[-1] == wanted[-1]
    assert shards[3:9:2] == wanted[3:9:2]
    assert [shards.id_of(row) for row in (0, 5, 12)] == [f"{names[0]}:0", f"{names[2]}:0", f"{names[3]}:0"]
    for row in (13, -14):
        with pytest.raises(IndexError, match="of 13"):
            shards[row]
    shards.close()
    assert shards[0] == wanted[0]


def test_a_file_that_changed_behind_its_index_is_noticed(tmp_path: Path) -> None:
    path = put(tmp_path / "shard", [3, 4])
    shards = Shards(tmp_path, ["shard"])
    content = path.read_bytes()
    path.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(DataError, match="shard: the record at byte 0 is damaged"):
        shards[0]
    assert shards[1] == encode({"label": 4, "name": b"n1", "pad": bytes(40)})
    path.write_bytes(content[:-5])
    with pytest.raises(DataError, match="is cut off"):
        shards[1]


def test_finding_shards(tmp_path: Path) -> None:
    for name in (
        "a/train-00000-of-00002",
        "a/train-00001-of-00002",
        "a/x.tfrecord",
        "a/notes.txt",
        "b/val.tfrecords.gz",
    ):
        put(tmp_path / name, [1])
    open_index(tmp_path / "a" / "x.tfrecord")
    assert find_shards(tmp_path / "a") == (
        tmp_path / "a",
        ["train-00000-of-00002", "train-00001-of-00002", "x.tfrecord"],
    )
    assert find_shards(f"{tmp_path}/a/train-*")[1] == ["train-00000-of-00002", "train-00001-of-00002"]
    assert find_shards(f"{tmp_path}/*/*rec*") == (tmp_path, ["a/x.tfrecord", "b/val.tfrecords.gz"])
    assert find_shards(f"{tmp_path}/**/train-0000[01]-*")[1][0] == "a/train-00000-of-00002"
    assert find_shards(tmp_path / "a" / "notes.txt") == (tmp_path / "a", ["notes.txt"])
    with pytest.raises(DataError, match=r"none-\*: no record files there"):
        find_shards(tmp_path / "none-*")
