from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.sweep import Job, Record, Store, StoreError
from roadworthy.sweep import store as module

JOB = Job("toy", {"number": 1}, label="the first")
KEY = JOB.key
RECORD = Record({"top1": 0.5}, {"hits": np.arange(10)})


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_store_of_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "not" / "there")
    assert (store.finished(), store.failures(), store.has(KEY), store.check(KEY)) == (set(), {}, False, False)
    with pytest.raises(DataError, match=f"no record {KEY}"):
        store.read(KEY)
    store.tidy()
    assert not store.folder.parent.exists()


def test_the_first_record_stands(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.write(KEY, RECORD)
    assert not store.write(KEY, Record({"top1": 0.9}))
    assert store.read(KEY).head == {"top1": 0.5}
    np.testing.assert_array_equal(store.read(KEY).arrays["hits"], np.arange(10))
    assert (store.finished(), store.has(KEY), store.check(KEY)) == ({KEY}, True, True)
    assert files(tmp_path) == [f"trials/{KEY}.npz"]


def test_only_records_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(KEY, RECORD)
    for name in (f"{KEY}0.npz", f".{KEY}.npz", f"{KEY}.tmp", "0123.npz", "ABCDEF0123456789.npz"):
        (tmp_path / "trials" / name).touch()
    assert store.finished() == {KEY}


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file"):
        Store(tmp_path / "file")


@pytest.mark.parametrize("key", ["../../etc/passwd", "", "0123", "x" * 16])
def test_keys_are_keys(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match="is no key"):
        Store(tmp_path).read(key)
    with pytest.raises(InputError, match="is no key"):
        Store(tmp_path).scratch(key)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 4]) + data[61:]


def empty(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("harm", [cut, flip, empty])
def test_a_damaged_record_is_set_aside_and_may_be_made_anew(tmp_path: Path, harm) -> None:
    store = Store(tmp_path)
    store.write(KEY, RECORD)
    path = tmp_path / "trials" / f"{KEY}.npz"
    damaged = harm(path.read_bytes())
    path.write_bytes(damaged)
    with pytest.warns(RoadworthyWarning, match="set aside as damaged/"), pytest.raises(DataError, match="is damaged"):
        store.read(KEY)
    assert store.finished() == set()
    (aside,) = (tmp_path / "damaged").iterdir()
    assert aside.read_bytes() == damaged
    assert store.write(KEY, RECORD)
    assert store.check(KEY)


def test_check_and_write_find_damage_too(tmp_path: Path) -> None:
    store = Store(tmp_path)
    path = tmp_path / "trials" / f"{KEY}.npz"
    for call in (lambda: not store.check(KEY), lambda: store.write(KEY, RECORD)):
        store.write(KEY, RECORD)
        path.write_bytes(cut(path.read_bytes()))
        with pytest.warns(RoadworthyWarning, match="set aside"):
            assert call()
    assert store.read(KEY).head == RECORD.head


def test_what_was_made_anew_meanwhile_is_not_set_aside(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.write(KEY, RECORD)
    store._set_aside(KEY)  # as if another process had done both since we looked
    assert store.check(KEY)


def test_many_writers_of_one_key(tmp_path: Path) -> None:
    wrote = []

    def write(number: int) -> None:
        if Store(tmp_path).write(KEY, Record({"writer": number})):
            wrote.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrote) == 1
    assert Store(tmp_path).read(KEY).head == {"writer": wrote[0]}
    assert files(tmp_path) == [f"trials/{KEY}.npz"]


def test_without_hard_links_the_first_record_stands_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    test_many_writers_of_one_key(tmp_path)


FULL = """
import sys
from roadworthy.sweep import Record, Store, StoreError
import numpy as np
store = Store(sys.argv[1])
store.write("a" * 16, Record({}, {"small": np.zeros(1000)}))
try:
    store.write("b" * 16, Record({}, {"large": np.zeros(100_000)}))
except StoreError as error:
    print(error)
print(sorted(store.finished()) == ["a" * 16], store.check("a" * 16), list((store.folder / "writing").iterdir()))
(store.folder / "ballast").unlink()
print(store.write("b" * 16, Record({}, {"large": np.zeros(100_000)})), store.check("b" * 16))
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """On a tiny file system, mounted where only the test sees it; the record fits once the ballast is gone."""
    script = 'mount -t tmpfs -o size=1m tmpfs "$1" && head -c 600000 /dev/zero > "$1/ballast" && "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL]
    try:
        subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets nobody mount a file system of one's own")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert "the disk is full" in lines[0]
    assert "Make room and run again" in lines[0]
    assert lines[1:] == ["True True []", "True True"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_no_room_left_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, call, refuse)
        with pytest.raises(StoreError, match="the disk is full"):
            store.write(KEY, RECORD)
        with pytest.raises(StoreError, match="the disk is full"):
            store.fail(KEY, JOB, "text")
    assert files(tmp_path) == []
    assert store.write(KEY, RECORD)


def test_a_disk_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write(KEY, RECORD)
    path = tmp_path / "trials" / f"{KEY}.npz"
    damaged = cut(path.read_bytes())
    path.write_bytes(damaged)

    def refuse(path: object, *arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError, match="mount it for writing"), store.claim(KEY):
        pass
    with pytest.raises(StoreError, match="mount it for writing"):
        store.write("a" * 16, RECORD)
    with (
        pytest.warns(RoadworthyWarning, match="could not be set aside"),
        pytest.raises(DataError, match="is damaged"),
    ):
        store.read(KEY)
    assert path.read_bytes() == damaged


def test_failures(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = Job("maps", {}, label="the other")
    store.fail(KEY, JOB, "Traceback\n  line\nValueError: odd\n")
    store.fail(other.key, other, "x" * 100_000 + "\nOSError: " + "y" * 5000)
    failure = store.failures()[KEY]
    assert (failure.kind, failure.label, failure.error) == ("toy", "the first", "ValueError: odd")
    assert failure.traceback == "Traceback\n  line\nValueError: odd"
    assert len(store.failures()[other.key].traceback) < 21_000
    assert len(store.failures()[other.key].error) == 1000
    store.fail(KEY, JOB, "TypeError: odder")
    assert store.failures()[KEY].error == "TypeError: odder"
    store.forget_failures([KEY, "a" * 16])
    assert store.failures().keys() == {other.key}
    store.forget_failures()
    assert store.failures() == {}


def test_a_record_ends_a_failure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.fail(KEY, JOB, "ValueError: odd")
    store.write(KEY, RECORD)
    assert store.failures() == {}
    assert not (tmp_path / "failed" / f"{KEY}.json").exists()


def test_a_broken_note_still_says_that_it_failed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.fail(KEY, JOB, "ValueError: odd")
    (tmp_path / "failed" / f"{KEY}.json").write_text("{")
    assert "cannot be read" in store.failures()[KEY].error


def test_scratch_comes_and_goes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (store.scratch(KEY) / "checkpoint").touch()
    assert (store.scratch(KEY) / "checkpoint").exists()
    store.clear_scratch(KEY)
    store.clear_scratch(KEY)
    assert not (tmp_path / "scratch" / KEY).exists()


def test_tidy_leaves_what_the_living_need(tmp_path: Path) -> None:
    store, other = Store(tmp_path), "b" * 16
    store.write(KEY, RECORD)
    for key in (KEY, other):
        (store.scratch(key) / "checkpoint").touch()
    (tmp_path / "writing" / "123-dead").write_bytes(b"half")
    with store._written(b"of a living writer") as living:
        store.tidy()
        assert living.exists()
    assert files(tmp_path) == [f"scratch/{other}/checkpoint", f"trials/{KEY}.npz"]


def test_a_file_taken_for_a_dead_writers_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, calls = os.link, []

    def vanishing(source: Path, target: Path) -> None:
        calls.append(source)
        if len(calls) == 1:
            os.unlink(source)
        link(source, target)

    monkeypatch.setattr(os, "link", vanishing)
    assert Store(tmp_path).write(KEY, RECORD)
    assert len(calls) == 2
    assert Store(tmp_path).check(KEY)


def test_claims(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.claim(KEY) as mine, store.claim(KEY, wait=False) as second, store.claim("a" * 16, wait=False) as other:
        assert (mine, second, other) == (True, False, True)
    assert files(tmp_path) == []


def test_an_error_under_a_claim_is_not_the_stores(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), Store(tmp_path).claim(KEY):
        raise FileNotFoundError("of the work")


def test_the_identity_stays(tmp_path: Path) -> None:
    assert Store(tmp_path).identity() == Store(tmp_path).identity() != Store(tmp_path / "other").identity()
    (tmp_path / "store.json").write_text('{"format": "roadworthy-sweep", "version": 2, "id": "a"}')
    with pytest.raises(DataError, match="version 2, expected 'roadworthy-sweep' version 1"):
        Store(tmp_path).identity()
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(DataError, match="delete that file"):
        Store(tmp_path).identity()


def test_records_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.write(KEY, RECORD)
    monkeypatch.setattr(module, "MAX_BYTES", 100)
    with pytest.warns(RoadworthyWarning, match="set aside"), pytest.raises(DataError, match="more than 100 bytes"):
        store.read(KEY)
