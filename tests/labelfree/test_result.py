"""A label-free result is kept and read again; labels of its plan confirm or refute it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import roadworthy as rw
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.labelfree import Outputs, audited, load_labelfree
from roadworthy.labelfree.diagnosis import DISAGREEMENT, NOTHING
from roadworthy.labelfree.labelling import audit_plan, load_plan
from roadworthy.labelfree.result import LabelFree, Pictures


def said(n: int, seed: int) -> Outputs:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, size=n)
    return Outputs.of(p, labels=(rng.random(n) < p).astype(int), classes=("no", "yes"))


@pytest.fixture(scope="module")
def found() -> LabelFree:
    result = rw.labelfree(data=said(800, 1), source=said(600, 0), half_width=0.04)
    shown = Pictures(("0", "1"), ("high", "low"), np.ones((2, 1, 4, 4), np.uint8), np.ones((2, 3, 1, 4, 4), np.uint8))
    return replace(result, pictures=shown)


def filled(folder: Path, truth: np.ndarray) -> None:
    frame = pd.read_csv(folder / "plan.csv", dtype={"id": str})
    frame["label"] = truth[frame["id"].astype(int)]
    frame.to_csv(folder / "plan.csv", index=False)


def test_it_is_read_as_it_was_kept(found: LabelFree, tmp_path: Path) -> None:
    again = load_labelfree(found.save(tmp_path / "deep" / "run"))
    assert again.record == found.record
    assert again.verdict == found.verdict
    pd.testing.assert_frame_equal(again.per_sample, found.per_sample)
    np.testing.assert_allclose(again.target.probabilities, found.target.probabilities)
    assert again.target.labels is None
    assert again.plan is not None
    assert found.plan is not None
    assert again.plan.ids == found.plan.ids
    assert again.pictures is not None
    assert again.pictures.ids == ("0", "1")


def test_labels_confirm_what_is_right(found: LabelFree, tmp_path: Path) -> None:
    found.save(tmp_path)
    labels = said(800, 1).labels
    assert labels is not None
    filled(tmp_path, labels)
    result = audited(load_labelfree(tmp_path), load_plan(tmp_path / "plan.csv"))
    audit = result.record["audit"]
    truth = said(800, 1).accuracy
    assert audit["verdict"] in ("confirmed", "cannot tell")
    assert audit["estimate"]["combined"]["low"] <= truth <= audit["estimate"]["combined"]["high"]
    assert "labels say" in " ".join(result.verdict)
    result.save(tmp_path)  # the labels that were filled in stay
    assert load_plan(tmp_path / "plan.csv").labelled == found.plan.n  # type: ignore[union-attr]
    assert load_labelfree(tmp_path).record["audit"] == audit


def test_labels_refute_a_change_of_concept(found: LabelFree, tmp_path: Path) -> None:
    found.save(tmp_path)
    labels = said(800, 1).labels
    assert labels is not None
    filled(tmp_path, 1 - labels)
    kept = load_labelfree(tmp_path)
    numbers = {"agreement": 0.9, "top_reliability": 0.9, "lasting_coverage": 1.0, "score_spread": 0.4}
    kept.record["diagnosis"] = {"findings": [], "numbers": numbers, "symptom": NOTHING}
    result = audited(kept, load_plan(tmp_path / "plan.csv"))
    assert result.record["audit"]["verdict"] == "refuted"
    assert result.record["diagnosis"]["symptom"] == DISAGREEMENT
    assert f"Symptom: {DISAGREEMENT}" in " ".join(result.verdict)
    assert "believe the labels" in " ".join(result.verdict)


def test_labels_of_another_plan_are_told(found: LabelFree, tmp_path: Path) -> None:
    found.save(tmp_path)
    other = audit_plan(found.target, budget=30, seed=7).save(tmp_path / "other.csv")
    frame = pd.read_csv(other, dtype={"id": str})
    frame.assign(label="yes").to_csv(other, index=False)
    with pytest.warns(RoadworthyWarning, match="not the one that this result drew"):
        audited(load_labelfree(tmp_path), load_plan(other))


def test_an_empty_plan_says_what_to_do(found: LabelFree, tmp_path: Path) -> None:
    found.save(tmp_path)
    with pytest.raises(InputError, match="fill in its column 'label'"):
        audited(load_labelfree(tmp_path), load_plan(tmp_path / "plan.csv"))


def test_what_cannot_be_read_is_named(found: LabelFree, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"labelfree.json is missing"):
        load_labelfree(tmp_path)
    found.save(tmp_path)
    head = tmp_path / "labelfree.json"
    text = head.read_text()
    head.write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        load_labelfree(tmp_path)
    head.write_text(json.dumps({"format": 99}))
    with pytest.raises(DataError, match="format 99, expected 1"):
        load_labelfree(tmp_path)
    for damaged, message in (("[" * 100_000, "cannot be read"), ('{"format": 1, "n": 3}', "holds no 'classes'")):
        head.write_text(damaged)
        with pytest.raises(DataError, match=message):
            load_labelfree(tmp_path)
    head.write_text(text)
    pd.DataFrame({"name": ["0"]}).to_parquet(tmp_path / "samples.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        load_labelfree(tmp_path)
    (tmp_path / "samples.parquet").write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read"):
        load_labelfree(tmp_path)
    found.save(tmp_path)
    rw.labelfree.write_outputs(said(800, 5).take(range(10)), tmp_path / "target.npz")
    with pytest.raises(DataError, match="different samples"):
        load_labelfree(tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="is a file"):
        found.save(file)


def test_it_shows_its_verdict_in_a_notebook(found: LabelFree) -> None:
    html = found._repr_html_()
    text = "".join(ET.fromstring(html).itertext())
    assert all(sentence in text for sentence in found.verdict)
    first, second = ET.fromstring(html).findall(".//tbody")
    assert [row[0].text for row in first] == found.estimates["estimator"].tolist()
    assert [row[1].text for row in second] == found.gates["status"].tolist()
    shown = [row[1].text for row in first]
    assert shown == [f"{value:.3f}" for value in found.estimates["accuracy"]]
    assert len(html) < 60_000


def test_without_a_source_the_notebook_says_so_and_escapes_names() -> None:
    evil = Outputs.of(said(60, 2).probabilities, classes=("<script>", "&"))
    html = rw.labelfree(data=evil)._repr_html_()
    assert "cannot be estimated" in "".join(ET.fromstring(html).itertext())
    assert "<script" not in html
