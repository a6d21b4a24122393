"""The records of a sweep in a folder: append-only, one immutable file per finished job.

Layout: ``trials/KEY.npz`` records, ``failed/KEY.json`` notes of failures, ``scratch/KEY/`` what an unfinished job
keeps to resume from, ``claims/KEY.lock`` jobs that a process is at (see :mod:`roadworthy.sweep.locks` for what that
needs of a network file system), ``writing/`` files not yet whole, ``damaged/`` records set aside, ``store.json`` what
tells this store from another.

A record is written beside, brought to the disk and then linked under its name, which fails if the name is taken:
whatever happens, and however many write, the first whole record stands and is never replaced.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from roadworthy.errors import DataError, InputError, RoadworthyError, RoadworthyWarning
from roadworthy.sweep.job import Job
from roadworthy.sweep.locks import held, is_still, take
from roadworthy.sweep.record import MAX_BYTES, Record, decode, encode, is_whole

FORMAT = "roadworthy-sweep"
_KEY = re.compile(r"[0-9a-f]{16}")
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV}
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TEXT = 20_000  # characters of a traceback that are kept
_NOTE_BYTES = 1 << 20


class StoreError(RoadworthyError, OSError):
    """The folder of a sweep cannot be written; the message says why and what to do."""


@dataclass(frozen=True)
class Failure:
    """Why a job has no record.

    Attributes:
        kind: of the job.
        label: of the job.
        error: the last line of the traceback.
        traceback: all of it; of a long one, beginning and end.
    """

    kind: str
    label: str
    error: str
    traceback: str


class Store:
    """The folder of a sweep. Any number of processes, on any machines that see the folder, may use it at a time.

    Args:
        folder: need not be there; nothing is written before there is something to keep.

    Example:
        >>> import tempfile
        >>> store, job = Store(tempfile.mkdtemp()), Job("train", {"share": 0.1})
        >>> store.write(job.key, Record({"top1": 0.5})), store.write(job.key, Record({"top1": 0.9}))
        (True, False)
        >>> store.read(job.key).head, store.finished() == {job.key}
        ({'top1': 0.5}, True)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"{self.folder} is a file, expected the folder of a sweep")

    def identity(self) -> str:
        """Return what tells this store from any other; made and kept at the first call."""
        path = self.folder / "store.json"
        if not path.exists():
            note = json.dumps({"format": FORMAT, "version": 1, "id": secrets.token_hex(8)})
            self._keep(path, note.encode())
        try:
            note = json.loads(_bounded(path, _NOTE_BYTES))
            known = note["format"] == FORMAT and note["version"] == 1
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} cannot be read ({error}); delete that file to have it made anew") from error
        if not known:
            raise DataError(f"{path}: {note['format']!r} version {note['version']!r}, expected {FORMAT!r} version 1")
        return str(note["id"])

    def finished(self) -> set[str]:
        """Return the keys that have a record, from one listing of a folder; contents are checked when read."""
        return _keys(self.folder / "trials", ".npz")

    def has(self, key: str) -> bool:
        """Tell whether ``key`` has a record."""
        return self._record(key).exists()

    def read(self, key: str) -> Record:
        """Read a record.

        Raises:
            DataError: there is none, or it was damaged: then it is set aside, and the job counts as not finished.
        """
        try:
            return decode(_bounded(self._record(key), MAX_BYTES))
        except FileNotFoundError:
            raise DataError(f"{self.folder} has no record {key}; run the sweep to make it") from None
        except DataError as error:
            self._set_aside(key)
            raise DataError(f"record {key} of {self.folder} is damaged: {error}; run the sweep again") from error

    def check(self, key: str) -> bool:
        """Tell whether ``key`` has a whole record, by its checksum; a damaged one is set aside with a warning."""
        whole = _whole(self._record(key))
        if whole is False:
            self._set_aside(key)
        return whole is True

    def withdraw(self, key: str) -> None:
        """Let a finished job count as not finished: its record is moved to ``damaged/``.

        For records that stand for something beside them that is gone.
        """
        path = self._record(key)
        with self._reported(path.name), contextlib.suppress(FileNotFoundError):
            (self.folder / "damaged").mkdir(exist_ok=True)
            os.rename(path, self.folder / "damaged" / f"{path.name}.{secrets.token_hex(4)}")

    def write(self, key: str, record: Record) -> bool:
        """Keep a record; the first one of a key stands.

        Args:
            key: of the job.
            record: its result.

        Returns:
            False if there was one already.

        Raises:
            InputError: the record cannot be kept (see :func:`roadworthy.sweep.record.encode`).
            StoreError: the disk is full or cannot be written; nothing that was there is touched.
        """
        data, path = encode(record), self._record(key)
        while not self._keep(path, data):
            if self.check(key):
                return False
            if path.exists():  # damaged and not to be moved
                raise StoreError(f"{path} is damaged and cannot be set aside; move it away and run again")
        with contextlib.suppress(OSError):
            self._note(key).unlink()
        return True

    def fail(self, key: str, job: Job, text: str) -> None:
        """Note that a job failed.

        Args:
            key: of the job.
            job: the job.
            text: the traceback; its last line is the error.

        Raises:
            StoreError: the note cannot be written.
        """
        self._keep(self._note(key), json.dumps(asdict(failure_of(job, text))).encode(), put=_replaced)

    def failures(self) -> dict[str, Failure]:
        """Return the failures of jobs that have no record, by key."""
        keys = _keys(self.folder / "failed", ".json") - self.finished()
        found = {key: self.failure(key) for key in sorted(keys)}
        return {key: failure for key, failure in found.items() if failure is not None}

    def failure(self, key: str) -> Failure | None:
        """Return why ``key`` failed, or None if no failure is noted."""
        try:
            note = json.loads(_bounded(self._note(key), _NOTE_BYTES))
            return Failure(*(str(note[name]) for name in ("kind", "label", "error", "traceback")))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            return Failure("", "", f"it failed; the note of it cannot be read: {error}", "")

    def forget_failures(self, keys: Iterable[str] | None = None) -> None:
        """Delete the notes of failures, so that the jobs are done again.

        Args:
            keys: of the jobs; all by default.
        """
        for key in self.failures() if keys is None else keys:
            with self._reported(f"the note that {key} failed"):
                self._note(key).unlink(missing_ok=True)

    @contextlib.contextmanager
    def claim(self, key: str, *, wait: bool = True) -> Iterator[bool]:
        """Claim a job for as long as the block lasts; the claim goes with the process, however it ends.

        Args:
            key: of the job.
            wait: wait for another process that is at it.

        Yields:
            True; without ``wait``, False if another process is at the job.
        """
        path = self._place("claims", f"{key}.lock")
        with contextlib.ExitStack() as stack:
            with self._reported(f"the claim of {key}"):
                path.parent.mkdir(parents=True, exist_ok=True)
                mine = stack.enter_context(held(path, wait=wait))
            yield mine

    def scratch(self, key: str) -> Path:
        """Return the folder for what a job resumes from; made when missing, gone once the job is done."""
        path = self._place("scratch", key)
        with self._reported(f"the scratch folder of {key}"):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def clear_scratch(self, key: str) -> None:
        """Delete the scratch folder of a job."""
        shutil.rmtree(self._place("scratch", key), ignore_errors=True)

    def tidy(self) -> None:
        """Delete what killed processes left: files half written, and scratch folders of finished jobs."""
        for name in _names(self.folder / "writing"):
            with contextlib.suppress(OSError):
                self._drop_if_dead(self.folder / "writing" / name)
        for key in self.finished().intersection(_names(self.folder / "scratch")):
            self.clear_scratch(key)

    def _drop_if_dead(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR)
        try:
            if take(descriptor, wait=False) is True:  # a living writer holds its file
                path.unlink()
        finally:
            os.close(descriptor)

    def _place(self, part: str, name: str) -> Path:
        if not _KEY.fullmatch(name.split(".")[0]):
            raise InputError(f"{name!r} is no key of a job: 16 hexadecimal digits were expected")
        return self.folder / part / name

    def _record(self, key: str) -> Path:
        return self._place("trials", f"{key}.npz")

    def _note(self, key: str) -> Path:
        return self._place("failed", f"{key}.json")

    def _keep(self, path: Path, data: bytes, *, put: Callable[[Path, Path], bool] | None = None) -> bool:
        """Bring ``data`` under the name ``path``, whole or not at all; by default only if that name is free."""
        with self._reported(path.name):
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._written(data) as beside:
                try:
                    kept = (put or _linked)(beside, path)
                except FileNotFoundError:  # taken for a dead writer's before it was locked
                    return self._keep(path, data, put=put)
            _to_disk(path.parent)
        return kept

    @contextlib.contextmanager
    def _written(self, data: bytes) -> Iterator[Path]:
        """Give a file with ``data`` that is on the disk, locked as a sign that its writer lives."""
        folder = self.folder / "writing"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            take(descriptor, wait=False)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
            yield path
        finally:
            with contextlib.suppress(OSError):
                if is_still(path, descriptor):
                    path.unlink()
            os.close(descriptor)

    def _set_aside(self, key: str) -> None:
        """Move a damaged record away, unless another has done so and a whole one has come in its place."""
        path = self._record(key)
        try:
            with self.claim("0" * 16):  # no writer replaces a name: under this lock the damaged file stays what it is
                if _whole(path) is not False:
                    return
                (self.folder / "damaged").mkdir(exist_ok=True)
                aside = self.folder / "damaged" / f"{path.name}.{secrets.token_hex(4)}"
                os.rename(path, aside)
            what = f"it was set aside as {aside.relative_to(self.folder)} and counts as not finished"
        except OSError as error:
            what = f"it counts as not finished, and could not be set aside: {error}"
        warnings.warn(f"record {key} of {self.folder} is damaged: {what}", RoadworthyWarning, stacklevel=3)

    @contextlib.contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """Turn errors of the file system into one that says what to do."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            if error.errno in _NO_ROOM:
                advice = "the disk is full, or a quota is used up; what is finished is safe. Make room and run again"
            elif error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                advice = "the folder cannot be written; see to its rights, or mount it for writing, and run again"
            else:
                advice = "what is finished is safe; run again once the disk is well"
            raise StoreError(f"{what} could not be written to {self.folder} ({error.strerror}): {advice}") from error


def failure_of(job: Job, text: str) -> Failure:
    """Return the failure that a traceback tells of, shortened to what a note may hold.

    Example:
        >>> failure_of(Job("train", {}), "Traceback ...\\nValueError: odd").error
        'ValueError: odd'
    """
    text = text.strip()
    if len(text) > _TEXT:
        text = f"{text[: _TEXT // 2]}\n... ({len(text) - _TEXT:,} characters left out) ...\n{text[-_TEXT // 2 :]}"
    return Failure(job.kind, job.label, (text.splitlines() or [""])[-1][:1000], text)


def _keys(folder: Path, ending: str) -> set[str]:
    names = {name.removesuffix(ending) for name in _names(folder) if name.endswith(ending)}
    return {name for name in names if _KEY.fullmatch(name)}


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _bounded(path: Path, most: int) -> bytes:
    """Read a file of at most ``most`` bytes."""
    with open(path, "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise DataError(f"{path} has more than {most:,} bytes, which nothing of a sweep has; move it away")
    return data


def _whole(path: Path) -> bool | None:
    """Tell whether a record's checksum holds; None if there is no record."""
    try:
        return is_whole(_bounded(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except DataError:
        return False


def _replaced(beside: Path, path: Path) -> bool:
    os.replace(beside, path)
    return True


def _linked(beside: Path, path: Path) -> bool:
    """Give a finished file its name unless that is taken."""
    try:
        os.link(beside, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with held(path.with_name(f".{path.name}.lock")):  # a file system without hard links
            if path.exists():
                return False
            os.rename(beside, path)
    return True


def _to_disk(folder: Path) -> None:
    """Bring a folder's list of names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
