"""Outputs in files: every form reads back to the same arrays, and what cannot be read is named."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs, read_outputs, write_outputs


@pytest.fixture
def said() -> Outputs:
    rng = np.random.default_rng(0)
    return Outputs.of(
        rng.dirichlet(np.ones(3), size=7),
        features=rng.normal(size=(7, 4)),
        labels=rng.integers(3, size=7),
        second=rng.dirichlet(np.ones(3), size=7),
        ids=[f"image {row}" for row in range(7)],
        classes=("cat", "dog", "cow"),
    )


def same(one: Outputs, other: Outputs) -> None:
    for name in ("probabilities", "features", "labels", "second"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-12)
    assert (one.ids, one.classes) == (other.ids, other.classes)


def test_energy_is_kept(tmp_path: Path) -> None:
    said = Outputs.of(logits=[[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(read_outputs(write_outputs(said, tmp_path / "a.npz")).energy, said.energy)


def test_npz_reads_back(said: Outputs, tmp_path: Path) -> None:
    same(read_outputs(write_outputs(said, tmp_path / "deep" / "said.npz")), said)


def test_hdf5_reads_back(said: Outputs, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "said.h5", "w") as file:
        for name in ("probabilities", "features", "labels", "second"):
            file[name] = getattr(said, name)
        file["ids"], file["classes"] = list(said.ids), list(said.classes)
    same(read_outputs(tmp_path / "said.h5"), said)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_read_back(said: Outputs, tmp_path: Path, ending: str) -> None:
    assert said.features is not None
    assert said.labels is not None
    assert said.second is not None
    frame = pd.DataFrame({"id": said.ids, "label": [said.classes[label] for label in said.labels]})
    for prefix, table in (("p_", said.probabilities), ("q_", said.second)):
        frame = frame.join(pd.DataFrame(table, columns=[prefix + name for name in said.classes]))
    frame = frame.join(pd.DataFrame(said.features.astype(float), columns=[f"f_{column}" for column in range(4)]))
    path = tmp_path / f"said.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    same(read_outputs(path), said)


def test_a_single_column_is_the_second_class(tmp_path: Path) -> None:
    pd.DataFrame({"p_yes": [0.25, 0.75], "label": [0, 1]}).to_csv(tmp_path / "a.csv", index=False)
    said = read_outputs(tmp_path / "a.csv")
    assert (said.class_count, said.accuracy) == (2, 1.0)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("p_1,p_2,p_3,label\n.2,.3,.5,1.0\n.2,.3,.5,2.0\n", [0, 1]),  # numbers as names, by a spreadsheet
        ("p_001,p_002,label\n.2,.8,001\n.2,.8,002\n", [0, 1]),
        ("p_NA,p_US,label\n.2,.8,NA\n.2,.8,US\n", [0, 1]),
        ("p_cat, p_dog, label\n.2,.8, dog\n.2,.8,cat\n", [1, 0]),
        ("p_cat,p_dog,label,\n.2,.8,1,\n.2,.8,0,\n", [1, 0]),  # a comma too many
        ("p_yes,label\n.2,True\n.8,False\n", [1, 0]),
    ],
)
def test_labels_in_csv_are_names_first(tmp_path: Path, text: str, labels: list[int]) -> None:
    (tmp_path / "a.csv").write_text(text)
    found = read_outputs(tmp_path / "a.csv").labels
    assert found is not None
    assert found.tolist() == labels


def test_numbers_as_names_in_parquet(tmp_path: Path) -> None:
    pd.DataFrame({"p_1": [0.25], "p_2": [0.75], "label": [1.0]}).to_parquet(tmp_path / "a.parquet")
    found = read_outputs(tmp_path / "a.parquet").labels
    assert found is not None
    assert found.tolist() == [0]


def test_ids_in_csv_are_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,p_a,p_b\nNA,.2,.8\nnull,.5,.5\n007,.5,.5\n")
    assert read_outputs(tmp_path / "a.csv").ids == ("NA", "null", "007")


def test_byte_strings_are_text(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", probabilities=[0.5], ids=np.array(["é".encode()]))
    assert read_outputs(tmp_path / "a.npz").ids == ("é",)


def test_an_empty_label_column_is_no_labels(tmp_path: Path) -> None:
    pd.DataFrame({"p_a": [0.25, 0.75], "p_b": [0.75, 0.25], "label": [None, None]}).to_csv(tmp_path / "a.csv")
    assert read_outputs(tmp_path / "a.csv").labels is None


def test_logits_are_taken(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", logits=np.zeros((2, 4)))
    np.testing.assert_array_equal(read_outputs(tmp_path / "a.npz").probabilities, 0.25)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"no archive")
    (tmp_path / "broken.h5").write_bytes(b"no archive")
    np.savez(tmp_path / "objects.npz", probabilities=np.array([{}], dtype=object))
    np.savez(tmp_path / "other.npz", scores=np.zeros((2, 2)))
    np.savez(tmp_path / "nan.npz", probabilities=np.full((2, 2), np.nan))
    pd.DataFrame({"p_a": [0.5], "p_b": [0.5], "label": ["c"]}).to_csv(tmp_path / "word.csv", index=False)
    pd.DataFrame({"p_a": [0.5, 0.5], "p_b": [0.5, 0.5], "label": ["a", None]}).to_csv(tmp_path / "gap.csv")
    np.save(tmp_path / "array.npy", np.zeros(2))
    (tmp_path / "array.npy").rename(tmp_path / "array.npz")
    (tmp_path / "typo.csv").write_text("p_1,p_2,label\n.5,.5,1\n.5,.5,0\n")
    (tmp_path / "text.csv").write_text("p_1,p_2\n.5,x\n")
    (tmp_path / "longer.csv").write_text("p_1;p_2\n0,5;0,5\n")
    (tmp_path / "secret").write_bytes(bytes(4))
    with h5py.File(tmp_path / "claims.h5", "w") as file:
        file.create_dataset("probabilities", shape=(10**13, 3), chunks=(1000, 3), dtype="f8")
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file.create_dataset("probabilities", shape=(4,), dtype="u1", external=[(tmp_path / "secret", 0, 4)])
    with h5py.File(tmp_path / "bytes.h5", "w") as file:
        file["probabilities"], file["ids"] = [0.5], np.array([b"\xff"])
    for name, message in (
        ("array.npz", "no archive of arrays"),
        ("longer.csv", "longer.csv: cannot be read as .csv"),
        ("typo.csv", "typo.csv: Unknown class '0'"),
        ("text.csv", "columns p_... hold what is no number"),
        ("claims.h5", "cannot be read as .h5"),
        ("elsewhere.h5", "lie in another file"),
        ("bytes.h5", "its ids cannot be read"),
        ("none.npz", "no such file"),
        ("said.txt", "a file that ends in"),
        ("broken.npz", "cannot be read"),
        ("broken.h5", "cannot be read"),
        ("objects.npz", "without running code"),
        ("other.npz", "holds 'scores'; expected arrays"),
        ("nan.npz", "nan.npz: probabilities: rows 0, 1"),
        ("word.csv", "unknown class 'c'|Unknown class 'c'"),
        ("gap.csv", "1 of 2 labels are empty"),
    ):
        with pytest.raises(InputError, match=message):
            read_outputs(tmp_path / name)
    with pytest.raises(InputError, match="written as .npz"):
        write_outputs(Outputs.of([0.5]), tmp_path / "said.csv")
