"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary file to write, in the same folder; it takes the place of ``path`` if no error came.

    Folders on the way are made. The temporary file keeps the ending of ``path``, which some writers go by.

    Args:
        path: the file to write or to replace.

    Yields:
        The file to write.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "deep" / "note.txt"
        >>> with replacing(path) as beside:
        ...     _ = beside.write_text("whole")
        >>> path.read_text(), [entry.name for entry in path.parent.iterdir()]
        ('whole', ['note.txt'])
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # not tempfile: its files stay closed to other users, and a cache may be shared
    temporary = path.with_name(f".{path.stem}.{os.getpid()}-{os.urandom(4).hex()}{path.suffix}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_together(
    folder: Path, files: Mapping[str, Callable[[Path], Any]], *, head: str, optional: tuple[str, ...] = ()
) -> None:
    """Write several files beside their places, then move all: what lay there lasts until all of this is written.

    Args:
        folder: an existing folder.
        files: names to functions that write the file they are given, the head among them.
        head: without it the folder is not read; gone first and back last, so old and new are never taken together.
        optional: names that are removed where they are not among ``files``.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> files = {"a.txt": lambda file: file.write_text("a"), "head.txt": lambda file: file.write_text("h")}
        >>> write_together(place, files, head="head.txt")
        >>> sorted(entry.name for entry in place.iterdir())
        ['a.txt', 'head.txt']
    """
    beside = {name: folder / f".{Path(name).stem}.{os.getpid()}{Path(name).suffix}" for name in files}
    try:
        for name, write in files.items():
            write(beside[name])
        (folder / head).unlink(missing_ok=True)
        for name in optional:
            if name not in files:
                (folder / name).unlink(missing_ok=True)
        for name in sorted(files, key=lambda name: name == head):
            os.replace(beside[name], folder / name)
    finally:
        for written in beside.values():
            written.unlink(missing_ok=True)
