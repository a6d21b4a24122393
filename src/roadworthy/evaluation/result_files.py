"""The folder a result is kept in; plain files, each written in one step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.errors import DataError, InputError
from roadworthy.evaluation.result import FORMAT, READOUTS, Result, Scores, Sheet

_SHEET_ARRAYS = ("labels", "images", "maps", "copies", "answers")


def write_result(result: Result, path: str | Path) -> Path:
    """Write ``result`` into the folder ``path``; see :meth:`Result.save`."""
    folder = Path(path).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"save: {folder} is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").unlink(missing_ok=True)  # written last: without it a half-written folder is not read
    in_one_step(folder / "results.parquet", lambda file: result.table.to_parquet(file, index=False))
    in_one_step(folder / "per_sample.parquet", lambda file: _write_per_sample(result, file))
    in_one_step(folder / "ranking.csv", lambda file: result.ranking().to_csv(file, index=False))
    sheet = result.sheet
    if sheet is not None:
        arrays = {"ids": np.array(sheet.ids), **{name: getattr(sheet, name) for name in _SHEET_ARRAYS}}
        in_one_step(folder / "sheet.npz", lambda file: np.savez_compressed(file, **arrays))
    else:
        (folder / "sheet.npz").unlink(missing_ok=True)
    text = json.dumps(_head(result), indent=1)
    in_one_step(folder / "result.json", lambda file: file.write_text(text, encoding="utf8"))
    return folder


def read_result(path: str | Path) -> Result:
    """Read the folder that :func:`write_result` wrote; see :func:`roadworthy.evaluation.load_result`."""
    folder = Path(path).expanduser()
    head_file = folder / "result.json"
    if not head_file.is_file():
        raise DataError(f"{folder}: no result lies here (result.json is missing); give the folder a run wrote")
    head = _guarded(head_file, lambda file: json.loads(file.read_text(encoding="utf8")))
    if head.get("format") != FORMAT:
        raise DataError(f"{head_file}: format {head.get('format')!r}, expected {FORMAT}; run the evaluation again")
    scores = _guarded(folder / "per_sample.parquet", lambda file: _read_scores(file, head))
    sheet_file = folder / "sheet.npz"
    sheet = _guarded(sheet_file, _read_sheet) if sheet_file.exists() else None
    return Result(
        **{key: head[key] for key in ("methods", "orders", "fractions", "removed", "repeats", "ids", "classes")},
        scores=scores,
        method_info=pd.DataFrame(head["method_info"]),
        settings=head["settings"],
        provenance=head["provenance"],
        warnings=head["warnings"],
        sheet=sheet,
    )


def in_one_step(path: Path, write: Callable[[Path], Any]) -> None:
    """Let ``write`` fill a file beside ``path`` and move it into place, so that a half-written one is never read."""
    beside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _head(result: Result) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "methods": result.methods,
        "orders": result.orders,
        "fractions": result.fractions,
        "removed": result.removed,
        "repeats": result.repeats,
        "ids": result.ids,
        "classes": result.classes,
        "predicted": result.scores.predicted.tolist(),
        "method_info": result.method_info.to_dict(orient="list"),
        "settings": result.settings,
        "provenance": result.provenance,
        "warnings": result.warnings,
    }


def _write_per_sample(result: Result, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    try:
        for m in range(len(result.methods)):  # one method at a time: the whole would be the largest thing in memory
            part = pa.Table.from_pandas(result._per_sample_of(m), preserve_index=False)
            writer = writer or pq.ParquetWriter(file, part.schema)
            writer.write_table(part)
    finally:
        if writer is not None:
            writer.close()


def _read_scores(file: Path, head: dict[str, Any]) -> Scores:
    frame = pd.read_parquet(file, columns=[*READOUTS, "label", "target"])
    n = len(head["ids"])
    shape = (len(head["methods"]), len(head["orders"]), len(head["fractions"]), head["repeats"], n)
    if len(frame) != int(np.prod(shape)):
        raise DataError(f"{len(frame)} rows, expected {int(np.prod(shape))}")
    return Scores(
        **{readout: frame[readout].to_numpy().reshape(shape) for readout in READOUTS},
        labels=frame["label"].to_numpy()[:n].copy(),
        targets=frame["target"].to_numpy()[:n].copy(),
        predicted=np.asarray(head["predicted"], dtype=np.int64),
    )


def _read_sheet(file: Path) -> Sheet:
    with np.load(file, allow_pickle=False) as arrays:
        return Sheet(ids=arrays["ids"].tolist(), **{name: arrays[name] for name in _SHEET_ARRAYS})


def _guarded(file: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(file)
    except Exception as error:
        raise DataError(f"{file}: cannot be read ({error}); run the evaluation again or restore the file") from error
