"""Maps from files of any maker: read slice by slice, never unpickled, never larger than maps are."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from attribution_networks import forms, some_images

from roadworthy.attribution import attribute_to_store, open_maps
from roadworthy.errors import DataError


def test_files_are_read_slice_by_slice(tmp_path: Path) -> None:
    import h5py
    import zarr

    values = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
    names = np.array(["a", "b", "c", "d", "e"])
    np.save(tmp_path / "mine.npy", values)
    np.savez(tmp_path / "maps.npz", mine=values, ids=names, note=np.array(3))
    np.savez_compressed(tmp_path / "small.npz", mine=values)
    with h5py.File(tmp_path / "maps.h5", "w") as file:
        file["group/mine"], file["ids"] = values, names.astype(h5py.string_dtype())
    zarr.save_array(str(tmp_path / "mine.zarr"), values)
    group = zarr.open_group(str(tmp_path / "group.zarr"), mode="w")
    group.create_array("mine", data=values)
    for file_name, key in {
        "mine.npy": "mine",
        "maps.npz": "mine",
        "small.npz": "mine",
        "maps.h5": "group/mine",
        "mine.zarr": "mine",
        "group.zarr": "mine",
    }.items():
        with open_maps(tmp_path / file_name) as maps:
            assert list(maps) == [key], file_name
            assert maps[key].shape == (5, 2, 3)
            assert maps[key].ndim == 3
            assert len(maps[key]) == 5
            assert np.array_equal(maps[key][1:3], values[1:3]), file_name
            assert np.array_equal(np.asarray(maps[key]), values), file_name
            assert maps.ids == (names.tolist() if file_name.startswith("maps") else None)
            with pytest.raises(KeyError, match=f"'ig'; the file holds '{key}'"):
                maps["ig"]


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return (os.mkdir, (str(tmp_path / "sprung"),))

    trap = np.array([[Trap()], [Trap()]], dtype=object)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    np.savez(tmp_path / "a.npz", ig=trap)
    folder = tmp_path / "a.zarr"
    folder.mkdir()
    (folder / ".zarray").write_text(
        '{"zarr_format": 2, "shape": [2, 1], "chunks": [2, 1], "dtype": "|O", "fill_value": null, "order": "C", '
        '"compressor": null, "filters": [{"id": "pickle", "protocol": 5}]}'
    )
    for name, message in {
        "a.npy": "cannot be read",
        "a.npz": "Python objects",
        "a.zarr": "pickled data|cannot be read",
    }.items():
        with pytest.raises(DataError, match=message):
            open_maps(tmp_path / name)["ig"][:]
    assert not (tmp_path / "sprung").exists()


def small_header(shape: tuple[int, ...]) -> bytes:
    """Return a .npy file that declares a shape and holds 64 bytes of it."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3, 2**14, 2**14), r"'ig' declares shape \(2, 3, 16384, 16384\) of float32.* 8.1e\+08 values a sample"),
        ((2**30, 3, 32, 32), r"1.3e\+13 bytes"),
        ((8, 3, 224, 224), r"declares shape \(8, 3, 224, 224\) of float32, but holds \d+ bytes"),
    ],
)
def test_sizes_that_no_maps_have_are_refused_before_memory_is_taken(
    tmp_path: Path, shape: tuple[int, ...], message: str
) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ig.npy", small_header(shape))
    with pytest.raises(DataError, match=message):
        open_maps(tmp_path / "a.npz")


def test_huge_declared_zarr_and_hdf5_arrays_are_refused(tmp_path: Path) -> None:
    import h5py
    import zarr

    group = zarr.open_group(str(tmp_path / "sample.zarr"), mode="w")
    group.create_array("ig", shape=(2, 3, 2**14, 2**14), chunks=(1, 1, 64, 64), dtype="f4")
    zarr.create_array(str(tmp_path / "total.zarr"), shape=(2**34, 3, 32), chunks=(1, 3, 32), dtype="f4")
    zarr.create_array(str(tmp_path / "chunk.zarr"), shape=(2**12, 2**20), chunks=(2**12, 2**20), dtype="f4")
    with h5py.File(tmp_path / "sample.h5", "w") as file:
        file.create_dataset("ig", shape=(2, 3, 2**14, 2**14), chunks=(1, 1, 64, 64), dtype="f4")
    for name, message in {
        "sample.zarr": "8.1e\\+08 values a sample",
        "total.zarr": "6.6e\\+12 bytes",
        "chunk.zarr": r"stored in chunks \(4096, 1048576\).*smaller chunks",
        "sample.h5": "values a sample",
    }.items():
        with pytest.raises(DataError, match=message):
            open_maps(tmp_path / name)
    attribute_to_store(forms(), some_images(2), ["grad"], tmp_path / "own.zarr")
    own = zarr.open_group(str(tmp_path / "own.zarr"))
    own.create_array("per_sample/grad/gap", shape=(2**45,), chunks=(8,), dtype="f8")
    with pytest.raises(DataError, match="'per_sample/grad/gap' declares shape"):
        open_maps(tmp_path / "own.zarr")


def test_files_that_hold_no_maps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        open_maps(tmp_path / "none.npz")
    (tmp_path / "maps.csv").write_text("1,2")
    with pytest.raises(DataError, match=r"unknown ending; expected .npy, .npz, .h5"):
        open_maps(tmp_path / "maps.csv")
    (tmp_path / "broken.npz").write_bytes(b"PK nonsense")
    with pytest.raises(DataError, match=r"broken.npz cannot be read"):
        open_maps(tmp_path / "broken.npz")
    (tmp_path / "broken.h5").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"broken.h5 cannot be read"):
        open_maps(tmp_path / "broken.h5")
    np.savez(tmp_path / "scalars.npz", note=np.array(3))
    with pytest.raises(DataError, match="holds no maps"):
        open_maps(tmp_path / "scalars.npz")
