"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


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
