"""What a self-test found: strategies against traps, as a table in text, CSV or Markdown, and whom to believe."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.evaluation.selftest.record import Trial
from roadworthy.files import replacing

MEANING = {
    "M1": "built maps in the order of their known quality (Spearman)",
    "M1 pairs": "pairs of clearly different quality in the right order (share)",
    "M2": "a network with set weights, against exact Shapley values",
    "M3a": "permuted ladder in its order (Spearman)",
    "M3b": "swapped ladder in its order (Spearman)",
    "M4": "the inverse of the truth is last",
    "M5": "what blurring adds to the truth (share of the range)",
    "M6": "what smoothness adds to maps without information (share of the range)",
    "M7": "panels of maps without information that are not ranked (share)",
    "M8": "what a visible, unused pattern is ahead of random (share of the range)",
    "M9": "masks that tell the class are found (accuracy from the leak's masks)",
    "M10": "the gate stops maps that write the class down",
    "M11": "distance of maps that say nothing from random (share of the range)",
    "M12": "redundant evidence: the orders disagree, and it is said",
    "M13": "nothing but ranks counts",
    "M14": "the map of another class (0 is random, 1 the right map)",
    "M15": "images needed for the permuted ladder, and no ranking from fewer",
    "M16": "four of sixteen columns of a table are informative (links of the order that hold)",
}
NO_VERDICT = "no verdict"
"""How the expectation of a trial begins that is only measured."""


@dataclass
class SelfTest:
    """The outcome of :func:`roadworthy.evaluation.selftest.self_test`.

    Attributes:
        trials: what each meta-test found for each strategy.
        tested: the strategies under test; others in ``trials`` have tests of their own kind, and are not compared.
        effort: ``"quick"`` or ``"full"``.
        seeds: seeds of the benches.
        subject: what was tested on: ``"planted"``, or the names of the data and the model.
        notes: what a reader should know, such as a ladder that was left out.
        seconds: time taken.
    """

    trials: list[Trial]
    tested: list[str]
    effort: str
    seeds: tuple[int, ...]
    subject: str
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ids(self) -> list[str]:
        """The meta-tests held, by number."""
        return sorted(dict.fromkeys(trial.id for trial in self.trials), key=_number_of)

    @property
    def strategies(self) -> list[str]:
        """The strategies in the order of the table: those under test as they stand, then the others."""
        others = dict.fromkeys(one.strategy for one in self.trials if one.strategy not in self.tested)
        return [name for name, _, _ in self.standing()] + list(others)

    def trial(self, mark: str, strategy: str) -> Trial | None:
        """Return what one meta-test found for one strategy; None where it was not held."""
        return next((one for one in self.trials if (one.id, one.strategy) == (mark, strategy)), None)

    def failed(self, strategy: str) -> list[str]:
        """Return the meta-tests that a strategy failed."""
        return [one.id for one in self.trials if one.strategy == strategy and one.passed is False]

    def standing(self) -> list[tuple[str, int, float]]:
        """Return the strategies under test, best first, with how many tests failed and the mean rank correlation.

        Fewest failures first; among equals the highest mean correlation over M1 and the ladders (an undefined one
        counts as 0), then the order given.
        """
        rows = []
        for name in self.tested:
            rho = [
                0.0 if one.measured != one.measured else one.measured
                for one in self.trials
                if one.strategy == name and (one.id == "M1" or one.id.split()[0] in ("M3a", "M3b"))
            ]
            rows.append((name, len(self.failed(name)), float(np.mean(rho)) if rho else float("nan")))
        return sorted(rows, key=lambda row: (row[1], -row[2] if row[2] == row[2] else 0.0))

    @property
    def believed(self) -> str:
        """The strategy that this table supports most: the first of :meth:`standing`."""
        return self.standing()[0][0]

    def verdict(self) -> str:
        """Return one sentence: whom to believe here, and which of its tests it failed."""
        name, failures, rho = self.standing()[0]
        held = sum(one.strategy == name and one.passed is not None for one in self.trials)
        if rho != rho and not held:
            return "No meta-test could be held: nothing can be said about any strategy here."
        lost = f", failing {', '.join(self.failed(name))}" if failures else ""
        known = "" if rho != rho else f"; mean rank correlation with the known orders {rho:.3f}"
        return f"Believe {name!r} here: it passes {held - failures} of {held} tests{lost}{known}."

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per trial as plain values."""
        return [one.described() for one in self.trials]

    def to_csv(self) -> str:
        """Return a row per trial."""
        text = io.StringIO()
        fields = ["id", "strategy", "measured", "expected", "passed", "note", "n", "seeds"]
        writer = csv.DictWriter(text, fields, lineterminator="\n")
        writer.writeheader()
        for row in self.rows():
            writer.writerow({**row, "seeds": " ".join(map(str, row["seeds"]))})
        return text.getvalue()

    def to_json(self) -> str:
        """Return everything as JSON."""
        about = {"subject": self.subject, "effort": self.effort, "seeds": list(self.seeds), "seconds": self.seconds}
        return json.dumps({**about, "verdict": self.verdict(), "notes": self.notes, "trials": self.rows()}, indent=1)

    def to_markdown(self) -> str:
        """Return a table of strategies against meta-tests; a failed cell is set in bold with a cross."""
        ids = self.ids
        lines = ["| strategy | " + " | ".join(ids) + " | failed |", "|---" * (len(ids) + 2) + "|"]
        for name in self.strategies:
            cells = [self._cell(mark, name, "**{} ✗**") for mark in ids]
            shown = name.replace("|", "\\|")
            lines.append(f"| {shown} | " + " | ".join(cells) + f" | {len(self.failed(name))} |")
        return "\n".join([*lines, "", *(f"- {line}" for line in self._legend())]) + "\n"

    def to_text(self) -> str:
        """Return the same table for a terminal; a failed cell has an exclamation mark."""
        ids = self.ids
        table = [["strategy", *ids, "failed"]]
        for name in self.strategies:
            table.append([name, *(self._cell(mark, name, "{}!") for mark in ids), str(len(self.failed(name)))])
        widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
        lines = [
            "  ".join(
                cell.ljust(width) if not column else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        return "\n".join([*lines, "", *self._legend(), "", self.verdict()]) + "\n"

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write ``selftest.csv``, ``selftest.json``, ``selftest.md`` and ``selftest.txt`` into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        made = {"csv": self.to_csv(), "json": self.to_json(), "md": self.to_markdown(), "txt": self.to_text()}
        paths = {}
        for ending, text in made.items():
            paths[ending] = place / f"selftest.{ending}"
            with replacing(paths[ending]) as beside:
                beside.write_text(text)
        return paths

    def _cell(self, mark: str, strategy: str, failed: str) -> str:
        found = self.trial(mark, strategy)
        if found is None:
            return "–"
        value = "undefined" if found.measured != found.measured else _number(mark, found.measured)
        if found.passed is None and not found.expected.startswith(NO_VERDICT):
            return f"{value}?"
        return failed.format(value) if found.passed is False else value

    def _legend(self) -> list[str]:
        lines = ["a failure is marked; with a question mark the interval is too wide to tell"]
        for mark in self.ids:
            expected = next(one.expected for one in self.trials if one.id == mark)
            lines.append(f"{mark}: {MEANING.get(mark, MEANING.get(mark.split()[0], mark))}; {expected}")
        return lines + self.notes


def _number_of(mark: str) -> tuple[str, int, str]:
    """Return what meta-tests are sorted by: ``M3a ig`` comes after all of ``M2``, and before ``M3b ig``."""
    head, _, base = mark.partition(" ")
    digits = re.sub(r"\D", "", head)
    return base if base != "pairs" else "", int(digits or 0), mark


def _number(mark: str, value: float) -> str:
    return (
        f"{value:.0f}" if mark.split()[0] in ("M4", "M13", "M15", "M16") and value == round(value) else f"{value:.3f}"
    )
