"""The folder a result is kept in: plain files, moved into place when all are written, and checked when read."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.errors import DataError, InputError
from roadworthy.evaluation.result import COST, FORMAT, READOUTS, Result, Scores, Sheet, no_cost
from roadworthy.evaluation.result_checks import check_sweep, checked_head, checked_scores, checked_sheet
from roadworthy.evaluation.withheld import withheld_by_gate, without_withheld
from roadworthy.files import write_together

_SHEET_ARRAYS = ("labels", "images", "maps", "copies", "answers")
_SHEET_BYTES = 2**30  # many times what an evaluation keeps; a file that claims more is not one
_MEANING = ("direction", "readout", "level", "n", "unit")


def write_result(result: Result, path: str | Path) -> Path:
    """Write ``result`` into the folder ``path``; see :meth:`Result.save`."""
    folder = Path(path).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InputError(f"save: {folder} is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Callable[[Path], Any]] = {
        "results.parquet": lambda file: result.table.to_parquet(file, index=False),
        "per_sample.parquet": lambda file: _write_per_sample(result, file),
        "ranking.csv": lambda file: handed_on(result, result.ranking()).to_csv(file, index=False),
    }
    sheet = result.sheet
    if sheet is not None:
        arrays = {"ids": np.array(sheet.ids), **{name: getattr(sheet, name) for name in _SHEET_ARRAYS}}
        files["sheet.npz"] = lambda file: np.savez_compressed(file, **arrays)
    head = _head(result)
    try:
        check_sweep(head)
    except DataError as error:  # what is put together by hand shall not be found to be unreadable years later
        raise InputError(f"save: {error}") from error
    text = json.dumps(head, indent=1)
    files["result.json"] = lambda file: file.write_text(text, encoding="utf8")
    write_together(folder, files, head="result.json", optional=("sheet.npz",))
    return folder


def handed_on(result: Result, ranking: pd.DataFrame) -> pd.DataFrame:
    """Return a ranking as a CSV file has it: what its attrs say as columns, and nothing that the gate withholds.

    Args:
        result: what it is of.
        ranking: what :meth:`Result.ranking` returns.
    """
    attrs = ranking.attrs
    ranking = without_withheld(ranking, withheld_by_gate(result))
    return ranking.assign(score_name=attrs["score"], **{name: attrs[name] for name in _MEANING})


def read_result(path: str | Path) -> Result:
    """Read the folder that :func:`write_result` wrote; see :func:`roadworthy.evaluation.load_result`."""
    if not isinstance(path, str | Path):
        raise InputError(f"load_result: got {type(path).__name__}, expected the folder a run wrote")
    folder = Path(path).expanduser()
    head_file = folder / "result.json"
    if folder.is_file():
        raise DataError(f"{folder}: is a file, expected the folder it lies in; give {str(folder.parent)!r}")
    if not head_file.is_file():
        raise DataError(f"{folder}: no result lies here (result.json is missing); give the folder a run wrote")
    head = _guarded(head_file, lambda file: checked_head(json.loads(file.read_text(encoding="utf8"))))
    scores = _guarded(folder / "per_sample.parquet", lambda file: _read_scores(file, head))
    sheet_file = folder / "sheet.npz"
    sheet = _guarded(sheet_file, lambda file: _read_sheet(file, head)) if sheet_file.exists() else None
    return Result(
        **{key: head[key] for key in ("methods", "orders", "fractions", "removed", "repeats", "ids", "classes")},
        scores=scores,
        method_info=pd.DataFrame(head["method_info"]),
        settings=head["settings"],
        provenance=head["provenance"],
        warnings=head["warnings"],
        sheet=sheet,
        cost=_cost(head.get("cost")),
        missing=head.get("missing", []),
        audit=head.get("audit", {}),
    )


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
        "cost": _plain(result.cost),
        "missing": result.missing,
        "audit": result.audit,
    }


def _plain(cost: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the costs by column; what a row has none of is None, which JSON can hold."""
    missing = [name for name in COST if name not in cost]
    if missing:
        raise InputError(f"save: the costs lack the columns {', '.join(missing)}")
    whole = ("repeat", "images")  # pandas makes floats of whole numbers where one of them is missing

    def plain(name: str, value: Any) -> Any:
        return None if pd.isna(value) else int(value) if name in whole else value

    return {name: [plain(name, value) for value in cost[name].tolist()] for name in COST}


def _cost(columns: dict[str, list[Any]] | None) -> pd.DataFrame:
    if not columns or not columns["work"]:
        return no_cost()
    return pd.DataFrame({name: columns[name] for name in COST}).astype({"fraction": float, "seconds": float})


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
    import pyarrow.parquet as pq

    axes = {
        "method": head["methods"],
        "order": head["orders"],
        "fraction": head["fractions"],
        "repeat": list(range(head["repeats"])),
        "id": head["ids"],
    }
    shape = tuple(len(names) for names in axes.values())
    with pq.ParquetFile(file) as stored:
        missing = {*axes, *READOUTS, "label", "target"} - set(stored.schema_arrow.names)
        if missing:
            raise DataError(f"columns {', '.join(sorted(missing))} missing")
        if stored.metadata.num_rows != math.prod(shape):
            raise DataError(
                f"{stored.metadata.num_rows} rows, expected {math.prod(shape)} ({' x '.join(axes)}: {shape})"
            )

        def column(name: str) -> pd.Series:
            return stored.read(columns=[name]).to_pandas()[name]

        for axis, (name, names) in enumerate(axes.items()):
            _check_axis(column(name), name, names, shape, axis)
        readouts = {readout: column(readout).to_numpy().reshape(shape) for readout in READOUTS}
        classes = {f"{name}s": _per_sample(column(name), name, shape[-1]) for name in ("label", "target")}
    predicted = np.asarray(head["predicted"], dtype=np.int64)
    return checked_scores(Scores(**readouts, **classes, predicted=predicted))


def _check_axis(found: pd.Series, name: str, names: list[Any], shape: tuple[int, ...], axis: int) -> None:
    """Refuse rows in another order than saved: they would be taken for those of other samples or methods."""
    known = pd.Index(names)
    if isinstance(found.dtype, pd.CategoricalDtype):  # -1 stands for a missing value, here and in the codes
        codes = np.append(known.get_indexer(found.cat.categories), -1)[found.cat.codes]
    else:
        codes = known.get_indexer(pd.Index(found))
    expected = np.arange(len(names)).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    if (codes.reshape(shape) != expected).any():
        raise DataError(f"column {name!r} does not run through the {name}s of result.json in their order")


def _per_sample(found: pd.Series, name: str, n: int) -> np.ndarray:
    rows = found.to_numpy().reshape(-1, n)
    if (rows != rows[0]).any():
        raise DataError(f"column {name!r} differs between rows of the same sample")
    return rows[0].copy()


def _read_sheet(file: Path, head: dict[str, Any]) -> Sheet:
    with zipfile.ZipFile(file) as packed:
        size = sum(entry.file_size for entry in packed.infolist())
    if size > _SHEET_BYTES:
        raise DataError(f"unpacks to {size / 1e9:.1f} GB, expected at most {_SHEET_BYTES / 1e9:.1f} GB of pictures")
    with np.load(file, allow_pickle=False) as arrays:
        missing = {"ids", *_SHEET_ARRAYS} - set(arrays.files)
        if missing:
            raise DataError(f"arrays {', '.join(sorted(missing))} missing")
        sheet = Sheet(ids=arrays["ids"].tolist(), **{name: arrays[name] for name in _SHEET_ARRAYS})
    return checked_sheet(sheet, head)


def _guarded(file: Path, read: Callable[[Path], Any]) -> Any:
    way_out = "run the evaluation again or restore the file"
    try:
        return read(file)
    except DataError as error:
        raise DataError(f"{file}: {error}; {way_out}") from error
    except Exception as error:
        raise DataError(f"{file}: cannot be read ({error}); {way_out}") from error
