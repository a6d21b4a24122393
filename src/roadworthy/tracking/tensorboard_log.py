"""A result as scalars and text of a TensorBoard log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roadworthy.errors import InputError, MissingExtraError
from roadworthy.evaluation.result import Result
from roadworthy.labelfree.result import LabelFree
from roadworthy.tracking.entries import entries_of, opened
from roadworthy.tracking.names import check_prefix


def to_tensorboard(
    result: Result | LabelFree | str | Path, writer_or_folder: Any, *, tag: str = "roadworthy", step: int = 0
) -> None:
    """Write a result into a TensorBoard log: scores with intervals, curves, settings and warnings.

    TensorBoard keeps numbers as float32. Numbers that the gate withholds, or that are not known, are left out.

    Args:
        result: what ``evaluate`` or ``labelfree`` returned, or the folder it was saved in.
        writer_or_folder: a ``SummaryWriter``, which stays open, or the folder of the log.
        tag: what stands before every name.
        step: when the result was made, such as the epoch of a training. A curve's own steps are the share removed,
            in thousandths (``curve_steps`` among the settings says so); of a step other than 0, its name has that.

    Raises:
        MissingExtraError: a folder is given and TensorBoard is not installed.
        InputError: neither a writer nor a folder.

    Example:
        >>> rw.to_tensorboard(result, "runs/explainers")  # doctest: +SKIP
    """
    before = check_prefix("tag", tag)
    entries = entries_of(opened(result))
    place = before if step == 0 else f"{before}step_{step}/"
    with _writer(writer_or_folder) as writer:
        for key, value in entries.metrics.items():
            writer.add_scalar(before + key, value, step)
        for key, curve in entries.curves.items():
            for share, value in curve.items():
                writer.add_scalar(place + key, value, share)
        writer.add_text(f"{before}settings", _table(entries.params), step)
        writer.add_text(f"{before}notes", _table(entries.tags), step)
        writer.flush()


def _table(texts: Mapping[str, str]) -> str:
    """Return a table in Markdown, as TensorBoard shows text."""
    rows = (f"| {_cell(name)} | {_cell(text)} |" for name, text in texts.items())
    return "\n".join(["| name | value |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")


@contextmanager
def _writer(writer_or_folder: Any) -> Iterator[Any]:
    """Yield a writer; one that is made here is closed here."""
    if hasattr(writer_or_folder, "add_scalar"):
        yield writer_or_folder
        return
    if not isinstance(writer_or_folder, (str, Path)):
        raise InputError(
            f"to_tensorboard: got {type(writer_or_folder).__name__}, expected a SummaryWriter or a folder"
        )
    folder = Path(writer_or_folder).expanduser()
    if folder.is_file():
        raise InputError(f"to_tensorboard: {folder} is a file, expected a folder")
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingExtraError('to_tensorboard needs TensorBoard: pip install "roadworthy[tensorboard]"') from error
    writer: Any = SummaryWriter(log_dir=str(folder))
    try:
        yield writer
    finally:
        writer.close()
