"""What a comparison of runs found: tidy tables, and their files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from roadworthy.errors import InputError
from roadworthy.files import write_together

FORMAT = 1
HEAD = "comparison.json"
TABLES = ("table", "differences", "intact", "agreement", "gates", "settings")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Two or more runs side by side. Made by :func:`roadworthy.compare`.

    Attributes:
        kind: ``"evaluations"`` or ``"label-free"``.
        runs: names of the runs; the first is the one that the others are held against.
        table: of evaluations a row per run and method: run, method, score, low, high, rank, group, n, unit,
            score_name, withheld (why there is no score, or ""). Of label-free runs a row per run: run, accuracy, low,
            high, level, estimator, expected_error, reason (why there is no number, or ""), n, source_accuracy, truth,
            reliability, coverage, coverage_low, coverage_high.
        differences: a row per run but the first and method: method, run, against, difference (run less against),
            low, high, p, p_holm (corrected for all rows), different (p_holm at most 1 - level), paired, unit, n,
            n_against, withheld. Of label-free runs: run, against, difference, low, high, level, paired, n, n_against,
            disagree (share of the samples on which the predictions differ), reason.
        intact: of evaluations a row per run, the accuracy with nothing removed: run, accuracy, low, high, n, unit,
            and against the first run difference, difference_low, difference_high, p, p_holm, different, paired,
            only_run and only_against (samples that one alone gets right). Empty for label-free runs.
        agreement: of evaluations a row per pair of runs: run, against, spearman, low, high, kendall, methods, n, how
            alike the methods are ranked. Empty for label-free runs.
        gates: of label-free runs a row per gate: name, and the status in each run. Empty for evaluations.
        settings: a row per setting or fact of origin that differs: name, and a column per run.
        refused: runs whose score cannot be held against that of the first, with the reason.
        warnings: what to know when reading the rest.
        readout: what scores are of; "" for label-free runs.
        score_name: what the score of the first run is called.
        higher_is_better: whether a high score is good.
        level: of intervals, and of all differences together.
        seed: of the draws.
    """

    kind: Literal["evaluations", "label-free"]
    runs: tuple[str, ...]
    table: pd.DataFrame
    differences: pd.DataFrame
    settings: pd.DataFrame
    intact: pd.DataFrame = field(default_factory=pd.DataFrame)
    agreement: pd.DataFrame = field(default_factory=pd.DataFrame)
    gates: pd.DataFrame = field(default_factory=pd.DataFrame)
    refused: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    readout: str = ""
    score_name: str = "accuracy"
    higher_is_better: bool = True
    level: float = 0.95
    seed: int = 0

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.runs)})"

    @property
    def verdict(self) -> list[str]:
        """The findings in sentences, what differs first."""
        from roadworthy.comparison.words import sentences

        return [sentence.text for sentence in sentences(self)]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON: tables as lists of rows, what is undefined as None."""
        plain = ("kind", "readout", "score_name", "higher_is_better", "level", "seed", "refused")
        return {
            "verdict": self.verdict,
            "runs": list(self.runs),
            **{name: getattr(self, name) for name in plain},
            "warnings": list(self.warnings),
            **{name: rows(getattr(self, name)) for name in TABLES},
        }

    def save(self, folder: str | Path) -> Path:
        """Write ``comparison.json`` with everything, and a CSV file of each table.

        Args:
            folder: made when missing; an earlier comparison there is replaced once all files are written.

        Returns:
            The folder.

        Raises:
            InputError: the folder is a file.
        """
        place = Path(folder).expanduser()
        if place.exists() and not place.is_dir():
            raise InputError(f"save: {place} is a file, expected a folder")
        place.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"format": FORMAT, **self.as_dict()}, indent=1)
        files: dict[str, Callable[[Path], Any]] = {HEAD: lambda file: file.write_text(head, encoding="utf8")}
        for name in TABLES:
            if len(getattr(self, name).columns):
                files[f"{name}.csv"] = _csv(getattr(self, name))
        write_together(place, files, head=HEAD, optional=tuple(f"{name}.csv" for name in TABLES))
        return place


def _csv(frame: pd.DataFrame) -> Callable[[Path], Any]:
    # names of samples and files may hold bytes that are no text: these must not keep the rest from being written
    return lambda file: file.write_bytes(frame.to_csv(index=False).encode("utf8", "replace"))


def rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as plain values; what is undefined is None.

    Example:
        >>> rows(pd.DataFrame({"run": ["a"], "low": [float("nan")]}))
        [{'run': 'a', 'low': None}]
    """
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict(orient="records")]


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA:
        return None
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value
