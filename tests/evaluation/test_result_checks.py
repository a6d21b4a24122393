"""Damaged and hand-edited files of a saved result: each is refused by name, with what is wrong in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roadworthy.errors import DataError
from roadworthy.evaluation import Result, Scores, Sheet, load_result
from roadworthy.evaluation.result_checks import KEYS

N = 5


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small sound result."""
    rng = np.random.default_rng(3)
    shape = (2, 2, 3, 2, N)
    hits = rng.integers(0, 2, (2, *shape), dtype=np.uint8)
    values = rng.random((2, *shape), dtype=np.float32)
    sheet = Sheet(
        ids=["s0", "s3"],
        labels=np.array([0, 1]),
        images=rng.integers(0, 256, (2, 3, 4, 6), dtype=np.uint8),
        maps=rng.random((2, 2, 4, 6), dtype=np.float32),
        copies=rng.integers(0, 256, (2, 2, 2, 3, 3, 4, 6), dtype=np.uint8),
        answers=rng.integers(0, 3, (2, 2, 2, 3)),
    )
    result = Result(
        methods=["ig", "random"],
        orders=["morf", "lerf"],
        fractions=[0.0, 0.3, 0.9],
        removed=[0, 7, 21],
        repeats=2,
        ids=[f"s{i}" for i in range(N)],
        scores=Scores(*hits, *values, *rng.integers(0, 3, (3, N))),
        classes=["a", "b", "c"],
        method_info=pd.DataFrame({"method": ["ig", "random"], "tied_share": [0.0, 0.5]}),
        settings={"strategy": "road", "imputer": "noisy-linear", "readout": "top1", "fill": {"noise": 0.01}},
        provenance={"seed": 4, "versions": {"python": "3"}},
        warnings=["x"],
        sheet=sheet,
    )
    folder = result.save(tmp_path_factory.mktemp("saved"))
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def folder(saved: dict[str, bytes], tmp_path: Path) -> Path:
    for name, content in saved.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refused(folder: Path, file: str) -> str:
    """Load, and return what is said to be wrong with ``file``."""
    with pytest.raises(DataError) as caught:
        load_result(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder / file}: ")
    assert message.endswith("; run the evaluation again or restore the file")
    return message.removeprefix(f"{folder / file}: ").rpartition("; ")[0]


def edited(folder: Path, edit: Callable[[dict[str, Any]], Any]) -> str:
    file = folder / "result.json"
    head = json.loads(file.read_text())
    edit(head)
    file.write_text(json.dumps(head))
    return refused(folder, "result.json")


def test_a_sound_result_is_read(folder: Path) -> None:
    result = load_result(folder)
    assert (result.n, result.fractions, result.removed) == (N, [0.0, 0.3, 0.9], [0, 7, 21])
    assert result.sheet is not None


@pytest.mark.parametrize("key", KEYS)
def test_a_missing_entry_is_named(folder: Path, key: str) -> None:
    assert edited(folder, lambda head: head.pop(key)) == f"{key!r} missing"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", [None, 0, -1, True, "text", 0.5, [None], [[]], {"a": 1}, [{"a": []}]], ids=repr)
def test_a_value_of_another_kind_is_refused_or_harmless(folder: Path, key: str, value: Any) -> None:
    file = folder / "result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {key: value}))
    if isinstance(value, dict) and key in ("settings", "provenance"):
        assert getattr(load_result(folder), key) == value
    else:
        assert f"'{key}" in refused(folder, "result.json")


WRONG = {
    "format": (2, "format 2, expected 1"),
    "methods": (["ig", "ig"], "'methods' holds entries twice, expected distinct ones"),
    "ids": ([], "'ids' holds nothing, expected distinct ones"),
    "orders": (["morf", "roar"], "'orders' are ['morf', 'roar'], expected 'morf', 'lerf' or both"),
    "fractions": ([0.0, 0.9, 0.3], "'fractions' are [0.0, 0.9, 0.3], expected 0 and then rising shares"),
    "removed": ([0, 7], "'removed' has 2 entries for 3 in 'fractions', expected one for each"),
    "repeats": (0, "'repeats' is 0, expected a whole number of at least 1"),
    "predicted": ([0, 1, 2, 0], "'predicted' has 4 entries for 5 in 'ids', expected one for each"),
    "method_info": (
        {"method": ["ig"]},
        "'method_info.method' has 1 entries for 2 in 'methods', expected one for each",
    ),
    "settings": (
        {"readout": "top3"},
        "'settings.readout' is 'top3', expected one of top1, top5, probability, logit",
    ),
    "provenance": ({"seed": "4"}, "'provenance.seed' is '4', expected a whole number"),
    "warnings": (["x", 3], "'warnings' has 3 at position 1, expected a text"),
    "classes": ("abc", "'classes' is a str, expected a list"),
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_quoted(folder: Path, key: str) -> None:
    value, message = WRONG[key]
    assert edited(folder, lambda head: head.update({key: value})) == message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("fractions", [0.1, 0.3, 0.9], "expected 0 and then rising shares"),
        ("fractions", [0.0, 0.3, 0.3], "expected 0 and then rising shares"),
        ("fractions", [0.0], "expected 0 and then rising shares"),
        ("fractions", [0.0, 30, 90], "'fractions' has 30 at position 1, expected a share between 0 and 1"),
        ("fractions", [0.0, float("nan"), 0.9], "'fractions' has nan at position 1"),
        ("fractions", [0.0, 10**400, 0.9], "expected a share between 0 and 1"),
        ("removed", [0, 21, 7], "expected numbers that do not fall as the fractions rise"),
        ("removed", [0, 7, 21.0], "'removed' has 21.0 at position 2, expected a number of units"),
        ("predicted", [0, 1, 2, 0, 10**30], "expected a class, 0 or above"),
        ("method_info", {"method": ["random", "ig"]}, "'method_info.method' names other methods than 'methods'"),
        ("settings", {"imputer": ["mean"]}, "'settings.imputer' is ['mean'], expected a text"),
        ("settings", json.loads('{"a":' * 40 + "1" + "}" * 40), "'settings' is nested deeper than 20 levels"),
    ],
)
def test_values_at_the_edges(folder: Path, key: str, value: Any, message: str) -> None:
    assert message in edited(folder, lambda head: head.update({key: value}))


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '"x"', "[" * 100_000], ids=lambda text: repr(text[:5]))
def test_other_text_than_a_result(folder: Path, text: str) -> None:
    (folder / "result.json").write_text(text)
    refused(folder, "result.json")


def test_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "result.json").write_bytes(b"\xff\xfe\x00")
    assert refused(folder, "result.json").startswith("cannot be read ('utf-8' codec")


def rewritten(folder: Path, edit: Callable[[pd.DataFrame], pd.DataFrame]) -> str:
    file = folder / "per_sample.parquet"
    edit(pd.read_parquet(file)).to_parquet(file, index=False)
    return refused(folder, "per_sample.parquet")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda f: f.drop(columns=["logit", "id"]), "columns id, logit missing"),
        (lambda f: f.iloc[:-1], "119 rows, expected 120 (method x order x fraction x repeat x id: (2, 2, 3, 2, 5))"),
        (lambda f: f.iloc[::-1], "column 'method' does not run through the methods of result.json"),
        (lambda f: f.sort_values("order", kind="stable", key=lambda o: o.astype(str)), "column 'method' does not"),
        (lambda f: f.assign(id=f["id"].astype(str).replace("s2", "s9")), "column 'id' does not run through the ids"),
        (lambda f: f.assign(id=f["id"].where(f.index > 0)), "column 'id' does not run through the ids"),
        (lambda f: f.assign(fraction=f.fraction + 0.01), "column 'fraction' does not run through the fractions"),
        (lambda f: f.assign(repeat=1 - f["repeat"]), "column 'repeat' does not run through the repeats"),
        (lambda f: f.assign(top1=f.top1 * 2), "column 'top1' holds other values than 0 and 1"),
        (lambda f: f.assign(top5=f.top5.astype(str)), "column 'top5' holds other values than 0 and 1"),
        (lambda f: f.assign(logit=np.inf), "column 'logit' holds other values than finite numbers"),
        (lambda f: f.assign(label=-1), "column 'label' holds other values than classes, 0 or above"),
        (lambda f: f.assign(target=np.arange(len(f))), "column 'target' differs between rows of the same sample"),
    ],
    ids=range(13),
)
def test_scores_that_were_edited(folder: Path, edit: Callable[[pd.DataFrame], pd.DataFrame], message: str) -> None:
    assert message in rewritten(folder, edit)


def test_plain_columns_are_as_good_as_categories(folder: Path) -> None:
    before = load_result(folder)
    file = folder / "per_sample.parquet"
    frame = pd.read_parquet(file)
    frame.astype(dict.fromkeys(("method", "order", "id"), str)).to_parquet(file, index=False)
    pd.testing.assert_frame_equal(load_result(folder).table, before.table)


def test_scores_of_another_run_are_refused(folder: Path) -> None:
    message = edited(folder, lambda head: head["ids"].append("s5"))
    assert message == "'predicted' has 5 entries for 6 in 'ids', expected one for each"
    head = json.loads((folder / "result.json").read_text())
    head["predicted"].append(0)
    (folder / "result.json").write_text(json.dumps(head))
    assert refused(folder, "per_sample.parquet").startswith("120 rows, expected 144")


@pytest.mark.parametrize("name", ["results.parquet", "per_sample.parquet", "result.json", "sheet.npz"])
@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_file_that_was_cut_short(folder: Path, name: str, kept: float) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: int(kept * len(content)) if isinstance(kept, float) else kept])
    if name == "results.parquet":
        load_result(folder)  # for readers of tables: nothing is taken from it
    else:
        assert refused(folder, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "arrays labels missing"),
        ({"images": np.zeros((2, 4, 6), np.uint8)}, "'images' has shape (2, 4, 6), expected (samples, channels, "),
        ({"images": np.zeros((2, 3, 4, 6), np.float32)}, "'images' is float32 of shape (2, 3, 4, 6), expected"),
        ({"labels": np.zeros(3, int)}, "'labels' is int64 of shape (3,), expected shape (2,) and integers"),
        (
            {"maps": np.zeros((2, 3, 4, 6), np.float32)},
            "'maps' is float32 of shape (2, 3, 4, 6), expected shape (2, 2",
        ),
        ({"copies": np.zeros((2, 2, 2, 3, 1, 4, 6), np.uint8)}, "'copies' is uint8 of shape"),
        ({"answers": np.zeros((2, 2, 2, 3))}, "'answers' is float64 of shape (2, 2, 2, 3)"),
        ({"ids": np.array(["s0"])}, "'ids' are 1 for 2 images, expected a text for each"),
        ({"ids": np.array([0, 3])}, "'ids' are 2 for 2 images, expected a text for each"),
        ({"ids": np.array(["s0", None], dtype=object)}, "cannot be read (Object arrays cannot be loaded"),
    ],
    ids=range(10),
)
def test_pictures_that_were_edited(folder: Path, change: dict[str, Any], message: str) -> None:
    with np.load(folder / "sheet.npz") as arrays:
        changed = {name: array for name, array in ({**arrays} | change).items() if array is not None}
    np.savez(folder / "sheet.npz", **changed)
    assert message in refused(folder, "sheet.npz")


def test_an_archive_that_unpacks_to_more_than_pictures_take(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.evaluation.result_files._SHEET_BYTES", 100)
    assert refused(folder, "sheet.npz").endswith("expected at most 0.0 GB of pictures")
