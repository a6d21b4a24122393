"""Names, folders and files of a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted_runs import planted

import roadworthy as rw
from roadworthy.comparison.record import HEAD, TABLES
from roadworthy.errors import DataError, InputError

HOSTILE = "=1+1,\n<b>\x07"


def result(shift: float = 0.0, **options: object):
    values = np.random.default_rng(1).uniform(0.2, 0.6, 60)
    return planted({"ig": values + shift, "random": values}, **options)


def test_folders_are_read_and_called_by_their_names(tmp_path: Path) -> None:
    folders = [result(shift).save(tmp_path / name) for name, shift in (("old", 0.0), ("new", 0.1))]
    found = rw.compare(folders)
    direct = rw.compare({"old": result(), "new": result(0.1)})
    assert found.runs == ("old", "new")
    pd.testing.assert_frame_equal(found.differences, direct.differences)
    assert found.verdict[0] == "new is better than old with ig by 0.100 (0.100 to 0.100)."


def test_two_folders_of_one_name_are_called_by_their_paths(tmp_path: Path) -> None:
    folders = [str(result().save(tmp_path / name / "run")) for name in ("a", "b")]
    assert rw.compare(folders).runs == tuple(folders)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], "0 came, expected two or more"),
        ([1, 2], "run 1: got int, expected a result"),
        ("runs/a", "one run came"),
        (None, "got NoneType, expected runs"),
        (["a", "a"], "'a' came twice"),
        ({1: None, "1": None}, "two names are the same"),
    ],
)
def test_what_is_no_run_is_named(runs: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rw.compare(runs)


def test_a_folder_without_a_run_names_those_below_it(tmp_path: Path) -> None:
    result().save(tmp_path / "runs" / "a")
    with pytest.raises(DataError, match=r"no run lies here .*; below it are .*runs/a"):
        rw.compare({"x": tmp_path / "runs", "y": result()})
    with pytest.raises(DataError, match="there is no such folder"):
        rw.compare({"x": tmp_path / "none", "y": result()})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 95}, "level: got 95"),
        ({"level": "95"}, "level: got '95'"),
        ({"readout": "top-1"}, "Did you mean 'top1'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rw.compare([result(), result()], **options)


def test_the_level_is_that_of_all_intervals() -> None:
    runs = [result(), planted({"ig": np.random.default_rng(5).uniform(0.2, 0.7, 60)})]
    widths = [rw.compare(runs, level=level).differences.eval("high - low").iloc[0] for level in (0.5, 0.99)]
    assert 3 < widths[1] / widths[0] < 4.5  # 2.66 / 0.68 standard errors


def test_what_differs_in_settings_is_listed() -> None:
    found = rw.compare({"a": result(seed=1, noise=0.1), "b": result(seed=2, noise=0.1)}).settings
    assert found.values.tolist() == [["seed", "1", "2"]]


def test_everything_is_saved_and_read_back(tmp_path: Path) -> None:
    found = rw.compare({HOSTILE: result(), "b": result(0.1)})
    folder = found.save(tmp_path / "out")
    head = json.loads((folder / HEAD).read_text())
    assert head["runs"] == [HOSTILE, "b"]
    assert head["verdict"] == found.verdict
    assert head["differences"][0]["difference"] == pytest.approx(0.1, abs=1e-6)
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [HEAD, *(f"{name}.csv" for name in TABLES if len(getattr(found, name).columns))]
    )
    back = pd.read_csv(folder / "differences.csv", keep_default_na=False)
    assert back["against"].tolist() == [HOSTILE, HOSTILE]
    np.testing.assert_allclose(back["difference"], found.differences["difference"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        found.save(tmp_path / "file")


def test_which_model_was_asked_is_among_what_differs() -> None:
    import torch

    images, labels = torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 2
    runs = {}
    for name, scale in (("a", 1.0), ("again", 1.0), ("b", 2.0)):
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
        with torch.no_grad():
            for part in model.parameters():
                part.copy_(torch.linspace(-scale, scale, part.numel()).view_as(part))
        options = {"fractions": (0.5,), "mean": [0.5], "seed": 0, "intact_check": "warn", "sheet": 0, "audit": "off"}
        runs[name] = rw.evaluate(model, images, labels, ["grad"], **options)
    (row,) = rw.compare(runs).settings.itertuples(index=False, name=None)
    assert row[0] == "model"
    assert row[1] == row[2] != row[3]
    assert row[1].startswith("Sequential:")
