"""The record of a result: tables against plain NumPy, and a folder that gives back what was put in."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import roadworthy as rw
import roadworthy.evaluation.scoring as scoring_module
from roadworthy.errors import DataError, InputError


@pytest.fixture
def result(q4, q4_data, q4_maps):
    images, labels = q4_data(n=24)
    names = ["a", "b", "<c>", "d"]
    return rw.evaluate(q4, images, labels, q4_maps(images), strategy="road", classes=names, repeats=2)


def test_the_table_is_the_mean_of_the_samples(result) -> None:
    keys = ["method", "order", "fraction", "repeat"]
    means = (
        result.per_sample.groupby(keys, observed=True, sort=False)[["top1", "probability", "logit"]]
        .mean()
        .reset_index()
    )
    table = result.table
    assert len(table) == 3 * 2 * 6 * 2
    assert (table[keys].astype(str).to_numpy() == means[keys].astype(str).to_numpy()).all()
    for readout in ("top1", "probability", "logit"):
        np.testing.assert_allclose(table[readout], means[readout], rtol=1e-5)
    assert table.removed.unique().tolist() == [0, 25, 76, 128, 179, 230]
    assert len(result.per_sample) == len(table) * 24


def test_the_score_is_the_area_between_the_two_curves(result) -> None:
    mean = result.table.groupby(["method", "order", "fraction"]).top1.mean()
    for row in result.ranking().itertuples():
        areas = {}
        for order in ("morf", "lerf"):
            curve = mean[row.method, order]
            areas[order] = np.trapezoid(curve.to_numpy(), curve.index.to_numpy()) / 0.9
        assert row.score == pytest.approx(areas["lerf"] - areas["morf"], abs=1e-12)
        assert (row.morf_area, row.lerf_area) == pytest.approx((areas["morf"], areas["lerf"]), abs=1e-12)
        assert row.low <= row.score <= row.high


@pytest.fixture
def counted(monkeypatch):
    """Count the calls of what costs seconds on large results."""
    calls = {}
    for name in ("rank_methods", "curve_bands"):
        real = getattr(scoring_module, name)

        def spy(*args, name=name, real=real, **options):
            calls[name] = calls.get(name, 0) + 1
            return real(*args, **options)

        monkeypatch.setattr(scoring_module, name, spy)
    return calls


def test_rankings_and_curves_are_worked_out_once(result, counted) -> None:
    first, curves = result.ranking(), result.curves()
    pd.testing.assert_frame_equal(result.ranking("top1", draws=10_000), first)
    assert result.ranking().attrs == first.attrs
    assert len(result.pairwise()) == 3
    pd.testing.assert_frame_equal(result.curves("top1"), curves)
    assert counted == {"rank_methods": 1, "curve_bands": 1}
    assert not result.ranking("logit").equals(first)
    assert result.ranking(level=0.9).attrs["level"] == 0.9
    assert result.ranking(draws=12_000).attrs["draws"] == 12_000
    assert not result.curves(draws=50).equals(curves)
    assert counted == {"rank_methods": 4, "curve_bands": 2}


def test_a_changed_copy_changes_no_other(result) -> None:
    for ask in (result.ranking, result.curves):
        kept = copy.deepcopy(ask())
        harmed = ask()
        harmed.iloc[:, -1] = harmed.iloc[0, -1]
        harmed["method"] = "x"
        for table in harmed.attrs.values():
            if isinstance(table, list) and table and isinstance(table[0], list):
                table[0][1] = "harm"
            elif isinstance(table, list):
                table.append("harm")
        pd.testing.assert_frame_equal(ask(), kept)
        assert ask().attrs == kept.attrs


def test_what_is_remembered_is_no_part_of_the_result(result, tmp_path) -> None:
    result.ranking()
    assert "_known" not in repr(result)
    assert replace(result, repeats=2)._known == {}
    assert "_known" not in json.loads((result.save(tmp_path) / "result.json").read_text())
    with pytest.raises(InputError, match="top3"):
        result.ranking("top3")


def test_a_folder_gives_back_what_was_put_in(result, tmp_path) -> None:
    result.save(tmp_path / "run")
    back = rw.load_result(tmp_path / "run")
    pd.testing.assert_frame_equal(back.table, result.table)
    pd.testing.assert_frame_equal(back.per_sample, result.per_sample)
    pd.testing.assert_frame_equal(back.ranking(), result.ranking())
    pd.testing.assert_frame_equal(back.method_info, result.method_info)
    assert (back.settings, back.provenance, back.warnings, back.ids, back.classes) == (
        json.loads(json.dumps(result.settings)), result.provenance, result.warnings, result.ids, result.classes,
    )  # fmt: skip
    for name in ("images", "maps", "copies", "answers", "labels"):
        assert (getattr(back.sheet, name) == getattr(result.sheet, name)).all()
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run" / "results.parquet"), result.table)
    assert pd.read_csv(tmp_path / "run" / "ranking.csv").method.tolist() == result.ranking().method.tolist()


def test_the_ranking_file_says_what_its_numbers_are(result, tmp_path) -> None:
    ranking = result.ranking()
    written = pd.read_csv(result.save(tmp_path) / "ranking.csv")
    assert written.columns.tolist() == [*ranking.columns, "score_name", "direction", "readout", "level", "n", "unit"]
    said = [("symmetric gain", "higher is better", "top1", 0.95, 24, "samples")]
    assert list(dict.fromkeys(written.iloc[:, -6:].itertuples(index=False, name=None))) == said


@pytest.mark.parametrize("writer", ["_write_per_sample", "_head", "handed_on"])
def test_a_save_that_fails_leaves_the_older_result(result, tmp_path, monkeypatch, writer) -> None:
    result.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(f"roadworthy.evaluation.result_files.{writer}", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        replace(result, methods=["a", "b", "c"], sheet=None).save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert rw.load_result(tmp_path).methods == result.methods


def test_old_and_new_files_are_never_read_together(result, tmp_path, monkeypatch) -> None:
    result.save(tmp_path)
    real, moved = os.replace, []

    def stopped(source, target) -> None:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(target)
        real(source, target)

    monkeypatch.setattr("roadworthy.files.os.replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        result.save(tmp_path)
    with pytest.raises(DataError, match=r"result\.json is missing"):
        rw.load_result(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_result_without_pictures_replaces_one_with_them(result, tmp_path) -> None:
    result.save(tmp_path)
    replace(result, sheet=None).save(tmp_path)
    assert rw.load_result(tmp_path).sheet is None
    assert not (tmp_path / "sheet.npz").exists()


def test_broken_and_missing_files_are_named(result, tmp_path) -> None:
    with pytest.raises(DataError, match="no result lies here"):
        rw.load_result(tmp_path)
    result.save(tmp_path)
    (tmp_path / "per_sample.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(DataError, match=r"per_sample\.parquet: cannot be read"):
        rw.load_result(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, expected a folder"):
        result.save(tmp_path / "file")


def test_provenance_states_what_a_reader_needs(result) -> None:
    assert result.provenance["n"] == 24
    assert len(result.provenance["ids_hash"]) == 16
    assert {"torch", "numpy", "roadworthy", "python"} <= set(result.provenance["versions"])
    assert result.settings["imputer"] == "noisy-linear"
    assert result.settings["noise"] == 0.01
    assert result.settings["classes"] == 4
    assert result.settings["mean_source"] == "the images evaluated"


def test_the_sheet_shows_what_the_model_saw(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data(n=6)
    result = rw.evaluate(q4, images, labels, q4_maps(images), strategy="road", imputer="zero", sheet=2)
    sheet = result.sheet
    assert sheet.ids == ["0", "5"]
    assert sheet.copies.shape == (2, 3, 2, 6, 3, 16, 16)
    assert (sheet.copies[:, :, :, 0] == sheet.images[:, None, None]).all()
    removed = (sheet.copies[0, 0, 0] == 0).all(axis=1).sum(axis=(1, 2))
    assert removed.tolist() == result.removed
    hits = sheet.answers == sheet.labels[:, None, None, None]
    assert (hits == np.moveaxis(result.scores.top1[:, :, :, 0, [0, 5]], -1, 0).astype(bool)).all()


def test_one_order_ranks_by_its_own_area(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data(n=24)
    morf = rw.evaluate(q4, images, labels, q4_maps(images), strategy="road", order="morf").ranking("logit")
    lerf = rw.evaluate(q4, images, labels, q4_maps(images), strategy="road", order="lerf").ranking("logit")
    assert morf.score.is_monotonic_increasing
    assert lerf.score.is_monotonic_decreasing
    assert morf.method.tolist()[0] == lerf.method.tolist()[0] == "oracle"
    assert morf.attrs["direction"] != lerf.attrs["direction"]
