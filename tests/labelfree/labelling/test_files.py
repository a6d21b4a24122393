"""Plans as CSV: what people and spreadsheets do to them, and what is never lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.labelfree.labelling import AuditPlan, audit_estimate, audit_plan, load_plan, middle_band
from roadworthy.labelfree.outputs import Outputs

IDS = ["007", "a b ", 'say "x", y', "é;1", "=1+1", *(f"s{k}" for k in range(35))]


def target() -> Outputs:
    return Outputs.of(np.linspace(0.02, 0.98, 40), ids=IDS, classes=("cat", "dog"))


def plan(seed: int = 0) -> AuditPlan:
    return audit_plan(target(), budget=20, strata=3, seed=seed)


def filled(path: Path, change) -> pd.DataFrame:
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame = change(frame)
    frame.to_csv(path, index=False)
    return frame


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    made = plan()
    back = load_plan(made.save(tmp_path / "deep" / "plan.csv"))
    assert back.ids == made.ids
    assert back.stratum.tolist() == made.stratum.tolist()
    assert back.probability.tolist() == made.probability.tolist()
    assert back.sizes.tolist() == made.sizes.tolist()
    assert (back.labels, back.extra, back.labelled) == ((None,) * 20, (), 0)
    assert list(pd.read_csv(tmp_path / "deep" / "plan.csv").columns) == [
        "id",
        "stratum",
        "stratum_size",
        "probability",
        "label",
    ]
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["plan.csv"]


def test_labels_that_were_filled_in_are_read(tmp_path: Path) -> None:
    path = plan().save(tmp_path / "plan.csv")
    filled(path, lambda frame: frame.assign(label=[" dog "] * 12 + ["cat"] * 8))
    read = load_plan(path)
    assert (read.labelled, read.labels[0], read.labels[-1]) == (20, "dog", "cat")
    by_hand = audit_estimate(plan(), [1] * 12 + [0] * 8, target())
    assert audit_estimate(read, None, target()).as_dict() == by_hand.as_dict()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame.assign(label=["dog"] + [""] * 19),
        lambda frame: frame.assign(remark="blurred"),
        lambda frame: pd.concat([frame, pd.DataFrame({"id": ["mine"], "label": ["dog"]})]).fillna(""),
    ],
)
def test_what_was_filled_in_is_never_written_over(tmp_path: Path, change) -> None:
    path = plan().save(tmp_path / "plan.csv")
    filled(path, change)
    before = path.read_bytes()
    plan().save(path)
    assert path.read_bytes() == before
    with pytest.warns(RoadworthyWarning, match="holds another plan with"):
        plan(seed=1).save(path)
    assert path.read_bytes() == before


def test_a_plan_without_labels_is_replaced(tmp_path: Path) -> None:
    path = plan().save(tmp_path / "plan.csv")
    assert load_plan(plan(seed=1).save(path)).ids == plan(seed=1).ids


def test_another_file_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "plan.csv"
    path.write_text("name,age\nEve,3\n")
    with pytest.raises(DataError, match="is no audit plan, columns 'id', 'stratum'"):
        plan().save(path)
    assert path.read_text() == "name,age\nEve,3\n"
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(DataError, match="cannot be read as CSV"):
        plan().save(tmp_path / "empty.csv")
    with pytest.raises(DataError, match="not a file"):
        plan().save(tmp_path)


def test_rows_that_were_added_are_kept_and_count_for_nothing(tmp_path: Path) -> None:
    path = plan().save(tmp_path / "plan.csv")
    added = pd.DataFrame({"id": ["mine", "yours"], "label": ["dog", ""]})
    filled(path, lambda frame: pd.concat([frame.assign(label="dog"), added]).fillna(""))
    read = load_plan(path)
    assert (read.n, read.extra) == (20, (("mine", "dog"), ("yours", None)))
    again = load_plan(read.save(tmp_path / "copy.csv"))
    assert (again.ids, again.labels, again.extra) == (read.ids, read.labels, read.extra)
    assert audit_estimate(read, None, target()).n == 20


def test_a_spreadsheet_with_semicolons_and_commas_for_points(tmp_path: Path) -> None:
    path = plan().save(tmp_path / "plan.csv")
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    frame["probability"] = frame["probability"].str.replace(".", ",")
    frame["stratum"] += ".0"
    frame.assign(label="1.0").to_csv(path, index=False, sep=";", encoding="utf-8-sig")
    read = load_plan(path)
    assert read.ids == plan().ids
    assert read.probability.tolist() == plan().probability.tolist()
    assert audit_estimate(read, None, target()).as_dict() == audit_estimate(plan(), [1] * 20, target()).as_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: pd.concat([frame, frame[:1]]), "come more than once; keep one row of each"),
        (lambda frame: frame[1:], "the strata do not fit together"),
        (lambda frame: frame.assign(stratum_size=["5", *frame["stratum_size"][1:]]), "do not fit together"),
        (
            lambda frame: frame.assign(stratum=["x", *frame["stratum"][1:]]),
            "column stratum holds no whole number for",
        ),
        (lambda frame: frame.assign(stratum=["999999999999999", *frame["stratum"][1:]]), "do not fit together"),
        (lambda frame: frame.assign(probability=["0", *frame["probability"][1:]]), "must lie above 0 and up to 1"),
        (lambda frame: frame.assign(probability=["?", *frame["probability"][1:]]), "probability holds what is no"),
        (lambda frame: frame.assign(id=["", *frame["id"][1:]]), "1 rows have no id"),
        (lambda frame: frame.drop(columns="probability"), "columns 'probability' are missing"),
        (lambda frame: frame[:0], "holds no row that a plan has drawn"),
    ],
)
def test_plans_that_were_damaged_are_refused(tmp_path: Path, change, message: str) -> None:
    path = plan().save(tmp_path / "plan.csv")
    filled(path, change)
    with pytest.raises(DataError, match=message):
        load_plan(path)


def test_rows_of_commas_are_nothing(tmp_path: Path) -> None:
    path = plan().save(tmp_path / "plan.csv")
    path.write_text(path.read_text() + "\n,,,,\n,,,,\n")
    assert load_plan(path).ids == plan().ids


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load_plan(tmp_path / "plan.csv")


def test_ids_that_a_spreadsheet_has_changed_are_named(tmp_path: Path) -> None:
    everything = audit_plan(target(), budget=40)
    path = everything.save(tmp_path / "plan.csv")
    filled(path, lambda frame: frame.assign(id=frame["id"].replace("007", "7"), label="dog"))
    with pytest.raises(InputError, match="'7' of the plan are not in the target"):
        audit_estimate(load_plan(path), None, target())


def test_a_selection_is_no_plan(tmp_path: Path) -> None:
    chosen = middle_band(target().confidence, 5, ids=target().ids)
    path = chosen.save(tmp_path / "train.csv")
    with pytest.raises(DataError, match="holds a selection, not a plan"):
        load_plan(path)
    with pytest.raises(InputError, match="lies there already and is not replaced"):
        chosen.save(path)
    assert pd.read_csv(path, dtype=str)["id"].tolist() == list(chosen.ids)
