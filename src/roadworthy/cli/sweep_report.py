"""From a sweep's folder to its results, reports and what the command prints, at any time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.cli.console import out, print_frame, say

if TYPE_CHECKING:
    from roadworthy.sweep.store import Failure

SUMMARY = "summary.json"
_SHOWN = 5  # failures told one by one


def refresh(folder: str | Path) -> dict[str, Path]:
    """Put together what a sweep's folder holds now, and write results and a report for each imputer.

    Args:
        folder: the sweep's folder; the sweep may be running, stopped or finished.

    Returns:
        The report of each imputer of which some method's whole curve is there.

    Raises:
        DataError: no sweep lies there.
    """
    return {record["imputer"]: Path(record["files"]["report.html"]) for record in _made(Path(folder))["results"]}


def refreshed(folder: Path) -> list[dict[str, Any]]:
    """Return what is to be printed of each imputer's result; made anew only if something has been finished since."""
    try:
        kept = json.loads((folder / SUMMARY).read_text(encoding="utf8"))
    except (OSError, ValueError):
        kept = {}
    records = kept.get("results", [])
    if kept.get("of") == _state(folder) and all((folder / r["files"]["report.html"]).is_file() for r in records):
        found = _located(kept, folder)
    else:
        found = _made(folder)
    for line in found["missing"]:
        say(f"missing: {line}")
    return found["results"]


def _made(folder: Path) -> dict[str, Any]:
    from roadworthy.cli.road import as_record
    from roadworthy.files import replacing
    from roadworthy.report import write_pictures
    from roadworthy.sweep.run import save_results

    state = _state(folder)
    collected, places = save_results(folder)
    records = []
    for imputer, result in collected.results.items():
        written = write_pictures(result, places[imputer])
        inside = {name: path.relative_to(folder.expanduser()) for name, path in written.items()}
        records.append({"imputer": imputer, **as_record(result, inside)})
    found = {"of": state, "missing": collected.missing, "results": records}
    with replacing(folder / SUMMARY) as beside:
        beside.write_text(json.dumps(found, default=str), encoding="utf8")
    return _located(json.loads((folder / SUMMARY).read_text(encoding="utf8")), folder)


def _located(found: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a summary with the paths of files from here; it holds those inside the folder, which may be moved."""
    for record in found["results"]:
        record["files"] = {name: str(folder / path) for name, path in record["files"].items()}
    return found


def _state(folder: Path) -> str:
    """Hash which trainings are there, of which plan, and by which version they were put together."""
    import roadworthy
    from roadworthy.sweep.collate import read_plan
    from roadworthy.sweep.store import Store

    plan = read_plan(folder)
    store = Store(folder)
    there = store.finished() & {job.key for job in plan.jobs}
    about = [
        roadworthy.__version__,
        plan.to_json(),
        *sorted(there),
        *sorted(store.failures()),
    ]
    return hashlib.blake2b("\n".join(about).encode(), digest_size=8).hexdigest()


def show_records(records: list[dict[str, Any]]) -> None:
    """Print the verdict, the ranking and where the report lies, for each imputer."""
    import pandas as pd

    from roadworthy.cli.road import fitting, printed

    for record in records:
        filled = f", fill: {record['imputer']}" if len(records) > 1 else ""
        title = f"{record['score']} ({record['readout']}), n = {record['counted']}{filled}"
        for sentence in record.get("short", record["verdict"]):
            out.print(sentence, style="bold", markup=False, highlight=False, soft_wrap=True)
        print_frame(fitting(printed(pd.DataFrame(record["ranking"]), record["readout"])), title)
        advice = [f"- {sentence}" for sentence in record.get("advice", ())]
        for line in (*advice, f"report: {record['files']['report.html']}"):
            out.print(line, markup=False, highlight=False, soft_wrap=True)
    if not records:
        out.print("No method's curve is complete yet, so there is nothing to rank.")


def tell_failures(folder: Path, failed: Mapping[str, Failure], blocked: int) -> None:
    """Say which jobs failed, and keep their tracebacks in a file that people can read."""
    path = folder / "failures.txt"
    blocks = (f"{failure.label} ({key})\n{failure.traceback or failure.error}\n" for key, failure in failed.items())
    kept = _keep(path, "\n".join(blocks))
    if not failed:
        return
    for failure in list(failed.values())[:_SHOWN]:
        say(f"failed: {failure.label}: {failure.error.removeprefix('roadworthy.errors.')}")
    if len(failed) > _SHOWN:
        say(f"... and {len(failed) - _SHOWN} more failed")
    if blocked:
        say(f"{blocked} jobs that need one of these were not begun")
    if kept:
        say(f"The tracebacks are in {path}; the same command with --retry-failed does these jobs again.")
    else:
        say(f"{path} cannot be written; see to the disk, and give the same command again.")


def _keep(path: Path, text: str) -> bool:
    """Have a file hold a text, or be gone if that is empty; False where it cannot be written."""
    try:
        there = path.read_bytes() if path.exists() else b""
        if text and text.encode() != there:
            path.write_bytes(text.encode())
        elif not text and path.exists():
            path.unlink()
    except OSError:
        return False
    return True
