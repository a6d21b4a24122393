"""Files of features: whatever wrote them is read, and what does not fit is named."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from roadworthy.errors import DataError, InputError
from roadworthy.probe import Features, read_features


def written(path: Path, **datasets) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file[name] = values
    return path


def test_a_file_of_another_program_is_read(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(9000, 3))
    with h5py.File(tmp_path / "a.hdf5", "w") as file:  # as feature extractors commonly lay it out
        file.create_dataset("features", data=values.astype(np.float64), chunks=(7, 3), compression="gzip")
        file.create_dataset("labels", data=(np.arange(9000) % 2).astype(np.int32))
        file.create_dataset("label_names", data=np.array([b"cat", b"dog"]))
    found = read_features(tmp_path / "a.hdf5")
    assert (len(found), found.dimension, found.label_names) == (9000, 3, ("cat", "dog"))
    assert found.ids[:2] == ("0", "1")
    rows = np.array([0, 4095, 4096, 8999])
    np.testing.assert_array_equal(found.take(rows), values[rows].astype(np.float32))
    np.testing.assert_array_equal(np.concatenate([block for _, block in found.blocks()]), values.astype(np.float32))


def test_names_default_to_numbers_and_a_column_of_labels_is_taken(tmp_path: Path) -> None:
    found = read_features(written(tmp_path / "a.h5", features=np.ones((3, 2)), labels=[[2], [0], [0]]))
    assert found.label_names == ("0", "1", "2")
    assert found.labels.tolist() == [2, 0, 0]


@pytest.mark.parametrize(
    ("datasets", "message"),
    [
        ({"labels": [0]}, "no dataset 'features'; it holds 'labels'"),
        ({"features": np.ones((2, 2))}, "no dataset 'labels'"),
        ({"features": np.ones((2, 2, 2)), "labels": [0, 1]}, r"shape \(2, 2, 2\), expected numbers \(N, D\)"),
        ({"features": np.ones((0, 2)), "labels": np.empty(0, int)}, "at least one row"),
        ({"features": np.ones((2, 2)), "labels": [0, 1, 1]}, r"expected integers \(2,\)"),
        ({"features": np.ones((2, 2)), "labels": [0.0, 1.0]}, "holds float64"),
        (
            {"features": np.ones((2, 2)), "labels": [0, 2], "label_names": [b"a", b"b"]},
            "from 0 to 2, expected 0 to 1",
        ),
        ({"features": np.ones((2, 2)), "labels": [-1, 0]}, "from -1 to 0"),
        ({"features": np.ones((2, 2)), "labels": [0, 1], "label_names": [b"a", b"a"]}, "repeat: 'a'"),
        ({"features": np.ones((2, 2)), "labels": [0, 1], "label_names": 3.5}, "expected a list of texts"),
        ({"features": np.ones((2, 2)), "labels": [0, 1], "ids": [b"a"]}, "1 ids for 2 rows"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, datasets: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_features(written(tmp_path / "a.h5", **datasets))


def test_hostile_files_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "claims.h5", "w") as file:
        file.create_dataset("features", (10**13, 4), "f4", chunks=(10, 4))
        file.create_dataset("labels", (10**13,), "i8", chunks=(10,))
    with pytest.raises(DataError, match="claims more than memory holds"):
        read_features(tmp_path / "claims.h5")
    (tmp_path / "secret").write_bytes(bytes(4))
    with h5py.File(tmp_path / "elsewhere.h5", "w") as file:
        file.create_dataset("features", (2, 2), "u1", external=[(tmp_path / "secret", 0, 4)])
        file["labels"] = [0, 1]
    with pytest.raises(DataError, match="lie in another file"):
        read_features(tmp_path / "elsewhere.h5")


def test_no_file_and_no_hdf5(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read_features(tmp_path / "a.h5")
    (tmp_path / "b.h5").write_text("text")
    with pytest.raises(DataError, match="not an HDF5 file"):
        read_features(tmp_path / "b.h5")


def test_values_that_are_not_finite_name_their_rows(tmp_path: Path) -> None:
    values = np.ones((5000, 2))
    values[4500, 1] = np.nan
    found = read_features(written(tmp_path / "a.h5", features=values, labels=np.zeros(5000, int)))
    with pytest.raises(InputError, match="1 rows from 4096 on hold NaN or infinity: 4500"):
        found.take(np.array([0]))


def test_arrays_in_memory() -> None:
    assert Features.of(np.ones((2, 2)), [1, 0]).label_names == ("0", "1")
    with pytest.raises(InputError, match=r"shape \(2,\)"):
        Features.of([1.0, 2.0], [0, 1])
    with pytest.raises(InputError, match="from 0 to 1, expected 0 to 0 for 1 class names"):
        Features.of(np.ones((2, 2)), [1, 0], ["only"])
