"""Saved scores: both forms read back, and what holds none is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from roadworthy.errors import DataError, InputError
from roadworthy.probe import Scores, rank_k, read_scores, write_scores

SAID = Scores.of(
    [[0.1, 2.0, -np.inf], [3.0, 0.5, 0.25]], [1, 0], label_names=["cat", "dog", "cow"], ids=["image 1", "image 2"]
)


def test_npz_reads_back(tmp_path: Path) -> None:
    found = read_scores(write_scores(SAID, tmp_path / "deep" / "a.npz"))
    assert found.scores.tobytes() == SAID.scores.tobytes()
    assert (found.labels.tolist(), found.label_names, found.ids) == ([1, 0], SAID.label_names, SAID.ids)


@pytest.mark.parametrize("name", ["scores", "logits", "probabilities"])
def test_arrays_of_other_programs(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / "a.npz", **{name: np.eye(3, dtype=np.float16), "labels": np.arange(3.0), "more": np.ones(1)})
    found = read_scores(tmp_path / "a.npz")
    assert (found.label_names, found.ids) == (("0", "1", "2"), ("0", "1", "2"))
    assert rank_k(found.scores, found.labels).accuracy.tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "names", "labels"),
    [
        ("id,label,s_cat,s_dog\nx,dog,1,2\ny,cat,3,4\n", ("cat", "dog"), [1, 0]),
        ("label,p_cat,p_dog,f_0\n1,.1,.9,7\n0,.5,.5,7\n", ("cat", "dog"), [1, 0]),
        ("0,1,2,label\n1,2,3,2\n1,2,3,0\n", ("0", "1", "2"), [2, 0]),
        ("10,20,label\n1,2,20\n1,2,10\n", ("10", "20"), [1, 0]),
    ],
)
def test_tables(tmp_path: Path, text: str, names: tuple[str, ...], labels: list[int]) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = read_scores(tmp_path / "a.csv")
    assert (found.label_names, found.labels.tolist()) == (names, labels)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("a,b\n1,2\n", DataError, "expected 'label' and a column a class"),
        ("label\n1\n", DataError, "expected 'label' and a column a class"),
        ("label,a,b\nx,1,2\n", InputError, "Unknown class 'x'"),
        ("label,a,b\na,1,text\n", DataError, "columns 'b' hold no numbers"),
        ("label,a,b\na,1,2\n,1,2\n", DataError, "1 of 2 labels are empty: rows 1"),
        ("", DataError, "cannot be read as .csv"),
        ("label,a,b\n", DataError, "has no rows"),
    ],
)
def test_tables_that_hold_no_scores(tmp_path: Path, text: str, error: type, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(error, match=message):
        read_scores(tmp_path / "a.csv")


def test_nan_in_a_table_is_refused_where_ranks_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,a,b\na,1,\nb,1,2\n")
    found = read_scores(tmp_path / "a.csv")
    with pytest.raises(InputError, match="1 of 2 rows hold NaN"):
        rank_k(found.scores, found.labels, k=1)


def test_archives_that_hold_no_scores(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", labels=np.arange(3))
    with pytest.raises(DataError, match="holds 'labels', expected 'scores'"):
        read_scores(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", scores=np.array([{}, {}], dtype=object), labels=np.arange(2))
    with pytest.raises(DataError, match="cannot be read without running code"):
        read_scores(tmp_path / "b.npz")
    (tmp_path / "c.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(DataError, match="cannot be read"):
        read_scores(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", scores=np.eye(3), labels=np.arange(2))
    with pytest.raises(InputError, match=r"d\.npz: labels: got shape"):
        read_scores(tmp_path / "d.npz")
    with pytest.raises(InputError, match=r"ends in \.npz or \.csv"):
        read_scores(tmp_path / "a.pkl")
    with pytest.raises(DataError, match="no such file"):
        read_scores(tmp_path / "none.npz")
    with pytest.raises(InputError, match=r"written as \.npz"):
        write_scores(SAID, tmp_path / "a.csv")
