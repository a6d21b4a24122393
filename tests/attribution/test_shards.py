"""The ROAR benchmark's record files: names both ways, shapes, TensorFlow's own file, going on after a stop."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_networks import forms
from PIL import Image

import roadworthy as rw
from roadworthy.attribution import (
    Settings,
    attribute,
    attribute_to_shards,
    methods,
    open_maps,
    open_shards,
    shards,
    write_shards,
)
from roadworthy.data import load_data
from roadworthy.errors import DataError, InputError
from roadworthy.records import Split
from roadworthy.tfrecord import decode, encode, read_records, record_writer

FAST = Settings(ig_steps=3, samples=2)
SIZES = {"train-00000-of-00003": 5, "train-00001-of-00003": 0, "train-00002-of-00003": 4, "test-00000-of-00001": 3}


@pytest.fixture
def data(tmp_path: Path) -> rw.records.Data:  # type: ignore[name-defined]
    generator = np.random.default_rng(0)
    for name, size in SIZES.items():
        with record_writer(tmp_path / "data" / name) as write:
            for row in range(size):
                file = io.BytesIO()
                Image.fromarray(generator.integers(0, 256, (8, 6, 3), dtype=np.uint8)).save(file, "PNG")
                write(encode({"image/encoded": file.getvalue(), "image/class/label": row % 3}))
    return load_data(f"tfrecord:{tmp_path}/data/*")


def test_the_names_are_those_of_the_benchmark() -> None:
    assert {names.field: names.folder for names in shards.ROAR_NAMES.values()} == {
        "gradient_image": "SH",
        "gradient_smooth": "SH_SG",
        "gradient_smooth_2": "SH_SG_2",
        "gradient_vargrad": "SH_V",
        "ig_image": "IG",
        "ig_smooth": "IG_SG",
        "ig_smooth_2": "IG_SG_2",
        "IG_vargrad": "IG_V",
        "gb_image": "GB",
        "gb_smooth": "GB_SG",
        "gb_smooth_2": "GB_SG_2",
        "GB_vargrad": "GB_V",
        "sobel": "SOBEL",
    }
    assert set(shards.ROAR_NAMES) <= set(methods)
    for ours, names in shards.ROAR_NAMES.items():
        kind = {"smooth": "mean over", "smooth_2": "mean of squares", "vargrad": "variance"}
        suffix = names.field.partition("_")[2]
        assert kind.get(suffix, "") in methods.describe(ours)
        assert shards._OURS[names.field] == ours


def test_tensorflows_saliency_shard(shared: Path, tmp_path: Path) -> None:
    path = tmp_path / "validation-00000-of-00001"
    shutil.copyfile(shared / "data" / "tfrecord" / "validation-saliency-00000-of-00001", path)
    expected = json.loads((shared / "data" / "tfrecord" / "expected.json").read_text())["saliency"]
    for spec in (path, str(path), f"tfrecord:{path}", f"tfrecord:{tmp_path}/val*", Path(f"tfrecord:{tmp_path}/val*")):
        with open_maps(spec) as maps:
            assert list(maps) == ["ig-sg"]
            assert maps["ig-sg"].shape == (2, 3, 224, 224)
            assert maps.ids == [f"{path.name}:0", f"{path.name}:1"]
            assert maps.targets is None
            for row, wanted in enumerate(expected):
                values = maps["ig-sg"][row].transpose(1, 2, 0).ravel()  # H, W, C as in the record
                assert values[:5].tolist() == wanted["first"]
                assert int(values.argmax()) == wanted["argmax"]
                assert values.astype(np.float64).sum() == pytest.approx(wanted["sum"], abs=1e-6)


def one(path: Path, *features: dict[str, object]) -> Path:
    with record_writer(path) as write:
        for each in features:
            write(encode(each))
    return path


def png(height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (width, height)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize(
    ("features", "shape"),
    [
        ({"m": np.arange(24.0), "height": 3, "width": 2}, (4, 3, 2)),
        ({"m": np.arange(12.0), "height": -1, "width": -1}, (3, 2, 2)),
        ({"m": np.arange(12.0), "raw_image": png(6, 2)}, (3, 2, 2)),  # the square comes first
        ({"m": np.arange(18.0), "raw_image": png(3, 2)}, (3, 3, 2)),
        ({"m": np.arange(6.0), "raw_image": png(3, 2)}, (1, 3, 2)),
        ({"m": np.arange(12.0), "height": 5, "width": 2}, (3, 2, 2)),
    ],
)
def test_the_rule_for_shapes(tmp_path: Path, features: dict[str, object], shape: tuple[int, ...]) -> None:
    maps = open_shards(one(tmp_path / "x", features))
    assert maps["m"].shape == (1, *shape)
    channels, height, width = shape
    wanted = np.asarray(features["m"], np.float32).reshape(height, width, channels)
    np.testing.assert_array_equal(maps["m"][0], wanted.transpose(2, 0, 1))


def test_what_is_no_shard_of_maps_is_named(tmp_path: Path) -> None:
    for features, message in (
        ([{"m": np.arange(7.0), "raw_image": png(3, 2)}], r"'m' has 7 values, and its shape cannot be told.*3 x 2"),
        ([{"m": np.arange(7.0)}], "no square of three channels, and no image"),
        ([{"label": 1}], r"holds no float list, so no map; it has \['label'\]"),
        ([], "there are no records"),
    ):
        with pytest.raises(DataError, match=message):
            open_shards(one(tmp_path / "x", *features))
    maps = open_shards(one(tmp_path / "x", {"m": np.arange(12.0)}, {"m": np.arange(27.0)}, {"n": 1.0}))
    with pytest.raises(DataError, match=r"x:1: 'm' has shape \(3, 3, 3\), the first record's \(3, 2, 2\)"):
        maps["m"][1]
    with pytest.raises(DataError, match="x:2: has no float list 'm'"):
        maps["m"][2]
    with pytest.raises(DataError, match="does not exist"):
        open_maps(tmp_path / "absent")
    (tmp_path / "note.txt").write_text("text that is long enough to be a header")
    with pytest.raises(DataError, match="unknown ending"):
        open_maps(tmp_path / "note.txt")


def test_maps_written_and_read_are_the_same(data, tmp_path: Path) -> None:
    maps = attribute(forms(), data.train, ["ig", "ig-sq", "random"], settings=FAST)
    written = write_shards(maps, data.train, tmp_path / "out")
    names = [f"{folder}/{shard}" for shard in list(SIZES)[:3] for folder in ("IG", "IG_SG_2", "random")]
    assert sorted(str(path.relative_to(tmp_path / "out")) for path in written) == sorted(names)
    for name, folder in (("ig", "IG"), ("ig-sq", "IG_SG_2"), ("random", "random")):
        with open_maps(f"tfrecord:{tmp_path}/out/{folder}/train-*") as found:
            assert found.ids == data.train.ids
            assert found.targets is not None
            assert found.targets.tolist() == maps.targets.tolist()
            wanted = maps[name] if maps[name].ndim == 4 else np.repeat(maps[name][:, None], 3, axis=1)
            np.testing.assert_array_equal(found[name][:], wanted)
            np.testing.assert_array_equal(found[name][2:7, 1], wanted[2:7, 1])
            np.testing.assert_array_equal(found[name][[8, 0], ..., 2], wanted[[8, 0], ..., 2])
            np.testing.assert_array_equal(found[name][-1], wanted[-1])
    record = decode(next(read_records(tmp_path / "out" / "IG_SG_2" / "train-00002-of-00003")))
    source = data.train.source
    assert record["raw_image"] == [source.encoded(5)], "untouched"
    assert record["label"].tolist() == [int(source.labels[5])]
    assert len(record["ig_smooth_2"]) == 8 * 6 * 3
    assert set(record) == {"raw_image", "label", "ig_smooth_2", "height", "width", "prediction_class", "image/id"}
    with pytest.raises(InputError, match=r"ig: maps of shape \(2, 3, 8, 6\) for 9 samples"):
        write_shards({"ig": np.zeros((2, 3, 8, 6))}, data.train, tmp_path / "other")
    planted = load_data("planted:n=8,test=4").train
    with pytest.raises(InputError, match="no files that could be copied.*data convert"):
        write_shards({"ig": np.zeros((8, 1, 24, 24))}, planted, tmp_path / "other")


class Stopped(Exception):
    pass


def test_an_interrupted_run_goes_on_bit_for_bit(data, tmp_path: Path) -> None:
    options = {"methods": ["grad", "ig", "ig-sg", "random"], "settings": FAST, "block": 2}
    whole = attribute_to_shards(forms(), data.train, folder=tmp_path / "whole", **options)
    assert len(whole) == 12
    wanted = {path.relative_to(tmp_path / "whole"): path.read_bytes() for path in whole}
    total = 9 * 4
    for limit in (3, 9, 14, 22, 30):
        made: list[int] = []

        def stop(done: int, made: list[int] = made, limit: int = limit) -> None:
            made.append(done)
            if sum(made) >= limit:
                raise Stopped

        folder = tmp_path / f"out{limit}"
        with pytest.raises(Stopped):
            attribute_to_shards(forms(), data.train, folder=folder, progress=stop, **options)
        ticks: list[int] = []
        found = attribute_to_shards(forms(), data.train, folder=folder, progress=ticks.append, **options)
        assert {path.relative_to(folder): path.read_bytes() for path in found} == wanted
        assert sum(ticks) == total
        assert not list(folder.rglob("*.partial"))
    before = {path: path.stat().st_mtime_ns for path in whole}
    attribute_to_shards(forms(), data.train, folder=tmp_path / "whole", **options)
    assert {path: path.stat().st_mtime_ns for path in whole} == before, "finished files are not written again"
    more = attribute_to_shards(forms(), data.test, folder=tmp_path / "whole", **options)
    assert [path.name for path in more] == ["test-00000-of-00001"] * 4
    reference = attribute(forms(), data.train, ["ig"], settings=FAST)
    with open_maps(f"tfrecord:{tmp_path}/whole/IG/train-*") as maps:
        np.testing.assert_allclose(maps["ig"][:], reference["ig"], atol=1e-6)
        assert maps.targets is not None
        assert maps.targets.tolist() == reference.targets.tolist()


def test_other_settings_and_changed_files_are_refused(data, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    attribute_to_shards(forms(), data.test, ["grad"], folder, settings=FAST)
    for options, message in (
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"target": "label"}, "target is 'predicted' there and 'label' here"),
        ({"block": 7}, "block is 32 there and 7 here"),
    ):
        with pytest.raises(DataError, match=f"made in another way: .*{message}"):
            attribute_to_shards(forms(), data.test, ["grad"], folder, **{"settings": FAST, **options})
    other = forms()
    with torch.no_grad():
        other.fc.bias += 1
    with pytest.raises(DataError, match=r"settings\.model"):
        attribute_to_shards(other, data.test, ["grad"], folder, settings=FAST)
    with pytest.raises(DataError, match="method 'grad'"):
        attribute_to_shards(forms(), data.test, {"grad": "ixg"}, folder, settings=FAST)
    os.utime(tmp_path / "data" / "test-00000-of-00001", ns=(1, 1))
    with pytest.raises(DataError, match="test-00000-of-00001 has changed since its maps were begun"):
        attribute_to_shards(forms(), data.test, ["grad"], folder, settings=FAST)
    (folder / ".roadworthy-shards.json").unlink()
    with pytest.raises(DataError, match="is there, but was not written by this"):
        attribute_to_shards(forms(), data.test, ["grad"], folder, settings=FAST)
    with pytest.raises(InputError, match="target: got 'best'"):
        attribute_to_shards(forms(), data.test, ["grad"], folder, target="best")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="block: got 0"):
        attribute_to_shards(forms(), data.test, ["grad"], folder, block=0)


def test_shards_are_told_by_ids_where_the_source_has_no_files() -> None:
    class Remembered:
        labels = np.array([0, 1, 0])
        ids = ("b:0", "a:0", "b:1")

        def read(self, index: int) -> torch.Tensor:
            return torch.zeros(3, 4, 4)

        def where(self, index: int) -> str:
            return self.ids[index]

        def encoded(self, index: int) -> bytes:
            return b"image"

    found = shards.input_shards(Split(Remembered()))
    assert [(shard.name, shard.indices.tolist()) for shard in found] == [("b", [0, 2]), ("a", [1])]
    Remembered.ids = ("b:0", "a", "b:1")
    with pytest.raises(InputError, match="the id 'a' names no shard.*data convert SOURCE tfrecord:PATH, and name"):
        shards.input_shards(Split(Remembered()))


def test_a_plain_folder_of_shards_is_read_as_its_records(data, tmp_path: Path) -> None:
    attribute_to_shards(forms(), data.train, ["grad"], tmp_path / "out", settings=FAST)
    folder = tmp_path / "out" / "SH"
    with open_maps(folder) as plain, open_maps(f"tfrecord:{folder}/*-of-*") as maps:
        assert plain.ids == maps.ids
        np.testing.assert_array_equal(plain["grad"][:], maps["grad"][:])
    empty = tmp_path / "nothing"
    empty.mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        open_maps(empty)


def test_saved_maps_are_evaluated_like_any_others(data, tmp_path: Path) -> None:
    model = forms()
    attribute_to_shards(model, data.train, ["grad"], tmp_path / "out", settings=FAST)
    options = {"fractions": (0.5,), "intact_check": "warn", "settings": FAST}
    with open_maps(f"tfrecord:{tmp_path}/out/SH/train-*") as maps:
        ours = rw.evaluate(model, data.train, None, {"grad": maps["grad"]}, **options)
        wanted = rw.evaluate(model, data.train, None, ["grad"], **options)
    np.testing.assert_allclose(
        ours.per_sample["probability"].to_numpy(), wanted.per_sample["probability"].to_numpy(), atol=1e-5
    )
