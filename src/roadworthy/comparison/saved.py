"""A run read from its folder, whichever kind it is of."""

from __future__ import annotations

from pathlib import Path

from roadworthy.evaluation.result import Result, load_result
from roadworthy.labelfree.result import HEAD, LabelFree, load_labelfree


def saved_run(folder: Path) -> Result | LabelFree | None:
    """Return the result that lies in a folder, or None where there is none.

    Args:
        folder: where ``save`` of an evaluation or of a label-free result wrote.

    Raises:
        DataError: it is damaged.

    Example:
        >>> saved_run(Path("no such folder")) is None
        True
    """
    if (folder / "result.json").is_file():
        return load_result(folder)
    return load_labelfree(folder) if (folder / HEAD).is_file() else None
