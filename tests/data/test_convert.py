"""Conversion: ids, labels, classes, splits and bytes survive every way; a killed run goes on and leaves no half."""

from __future__ import annotations

import io
import itertools
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from roadworthy.data import convert, load_data, pixels
from roadworthy.data.classes import folder_name
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.records import Data

CLASSES = ("10", "9", "T-shirt/top", "a, b", "..", "empty")
FORMATS = ("folder", "parquet", "tfrecord", "hdf5")


def jpeg(seed: int, size: tuple[int, int] = (8, 6)) -> bytes:
    file = io.BytesIO()
    values = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(values).save(file, "JPEG")
    return file.getvalue()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A folder with awkward class names in an order of their own, one of them empty."""
    import json

    root = tmp_path / "origin"
    for split, n in (("train", 4), ("test", 2)):
        for label, name in enumerate(CLASSES[:-1]):
            folder = root / split / folder_name(name)
            folder.mkdir(parents=True)
            for row in range(n):
                folder.joinpath(f"x {row}%.jpg").write_bytes(jpeg(label * 100 + row + 10 * (split == "test")))
        (root / split / "empty").mkdir()
    (root / "classes.json").write_text(json.dumps({"classes": CLASSES}))
    return root


def opened(spec: str) -> Data:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have no training image.*", RoadworthyWarning)
        return load_data(spec)


def path_of(kind: str, folder: Path) -> Path:
    return folder / ("data.h5" if kind == "hdf5" else kind)


def converted(source: str, kind: str, folder: Path, **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have no training image.*", RoadworthyWarning)
        return convert(source, f"{kind}:{path_of(kind, folder)}", **options).spec


def by_id(data: Data) -> dict[str, tuple[str, int, bytes]]:
    return {
        sample: (split.name, label, image.numpy().tobytes())
        for split in (data.train, data.test)
        for sample, label, image in zip(split.ids, split.labels.tolist(), split.images, strict=True)
    }


@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMATS, FORMATS)))
def test_everything_survives_every_way(origin: Path, tmp_path: Path, first: str, second: str) -> None:
    before = opened(f"folder:{origin}")
    middle = converted(f"folder:{origin}", first, tmp_path / "one", per_part=7)
    last = converted(middle, second, tmp_path / "two", per_part=3)
    for spec in (middle, last):
        after = opened(spec)
        assert after.classes == CLASSES
        ids = by_id(after), by_id(before)
        if "hdf5" in (first, second):  # pixels become PNG files under the same name
            assert set(ids[0]) == set(ids[1])
        assert ids[0] == ids[1]
    if "hdf5" not in (first, second):
        files = {row: opened(last).train.source.encoded(row) for row in range(20)}  # type: ignore[attr-defined]
        wanted = {before.train.source.encoded(row) for row in range(20)}  # type: ignore[attr-defined]
        assert set(files.values()) == wanted, "the bytes of the files are copied as they are"


def test_a_chain_through_all_formats_ends_with_the_same_folder(origin: Path, tmp_path: Path) -> None:
    spec = f"folder:{origin}"
    for step, kind in enumerate(("tfrecord", "parquet", "folder")):
        spec = converted(spec, kind, tmp_path / str(step), label_offset=int(kind == "tfrecord"))
    files = {
        str(path.relative_to(root)): path.read_bytes() for root in [origin] for path in sorted(root.rglob("*.jpg"))
    }
    last = tmp_path / "2" / "folder"
    assert {str(path.relative_to(last)): path.read_bytes() for path in sorted(last.rglob("*.jpg"))} == files


def test_label_offset_is_written_and_stated(origin: Path, tmp_path: Path) -> None:
    from roadworthy.tfrecord import decode, read_records

    spec = converted(f"folder:{origin}", "tfrecord", tmp_path / "one", label_offset=1)
    folder = tmp_path / "one" / "tfrecord"
    names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    assert names == ["classes.json", "test-00000-of-00001", "train-00000-of-00001"]
    features = decode(next(read_records(folder / "train-00000-of-00001")))
    assert int(features["image/class/label"][0]) == 1
    assert features["image/class/text"] == [b"10"]
    assert features["image/format"] == [b"JPEG"]
    assert (int(features["image/height"][0]), int(features["image/width"][0])) == (8, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert by_id(load_data(spec)).keys() == by_id(opened(f"folder:{origin}")).keys()


def test_values_that_no_png_holds(tmp_path: Path) -> None:
    source = "planted-colour:n=8,test=4"
    with pytest.warns(RoadworthyWarning, match="12 images have values that a PNG file does not hold exactly"):
        spec = convert(source, f"tfrecord:{tmp_path / 't'}").spec
    difference = load_data(spec).train.images - load_data(source).train.images
    assert 0 < difference.abs().max() <= 0.5 / 255 + 1e-6
    exact = convert(source, f"hdf5:{tmp_path / 'h.h5'}").spec
    assert torch.equal(load_data(exact).train.images, load_data(source).train.images)
    assert load_data(exact).train.ids == load_data(source).train.ids


def test_grey_16_bit_images_are_kept() -> None:
    deep = torch.from_numpy((np.arange(0, 65536, 7)[: 90 * 100].reshape(1, 90, 100) / 65535).astype(np.float32))
    file, exact = pixels.to_png(deep)
    assert exact
    from roadworthy.data.decode import decode

    assert torch.equal(decode(file, "here"), deep)
    for channels in (1, 3, 4):
        image = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (channels, 5, 4)).astype(np.float32) / 255)
        file, exact = pixels.to_png(image)
        assert exact
        assert torch.equal(decode(file, "here", channels=channels), image)


def test_size_and_channels_are_taken(origin: Path, tmp_path: Path) -> None:
    spec = converted(f"folder:{origin}", "parquet", tmp_path, size=4, channels=1)
    assert opened(spec).train.shape == (1, 4, 4)


def test_images_of_several_shapes_need_a_size_for_hdf5(origin: Path, tmp_path: Path) -> None:
    (origin / "train" / "9" / "other.jpg").write_bytes(jpeg(7, (5, 5)))
    with pytest.raises(DataError, match=r"images differ in shape.*size=\(H, W\)"):
        converted(f"folder:{origin}", "hdf5", tmp_path)
    # differing between parts only
    with pytest.raises(DataError, match="images differ in shape|differs in per_part"):
        converted(f"folder:{origin}", "hdf5", tmp_path / "b", per_part=1)
    assert opened(converted(f"folder:{origin}", "hdf5", tmp_path / "c", size=6)).train.shape == (3, 6, 6)


def test_what_cannot_be_read_is_left_out_and_told(origin: Path, tmp_path: Path) -> None:
    (origin / "train" / "9" / "broken.jpg").write_bytes(b"no image")
    with pytest.warns(RoadworthyWarning, match=r"1 samples could not be read and are left out; the first: .*broken"):
        done = convert(f"folder:{origin}", f"hdf5:{tmp_path / 'h.h5'}")
    assert done.counts == {"train": 20, "test": 10}
    assert len(done.left_out) == 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*have no training image.*", RoadworthyWarning)
        spec = convert(f"folder:{origin}", f"tfrecord:{tmp_path / 't'}").spec
    with pytest.warns(RoadworthyWarning, match="1 of 21 samples could not be read"):
        assert len(load_data(spec).train.images) == 20


class Stopped(Exception):
    pass


@pytest.mark.parametrize("kind", FORMATS)
def test_an_interrupted_run_goes_on(origin: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def stop(n: int) -> None:
        done.append(n)
        if sum(done) == 11:
            raise Stopped

    target = path_of(kind, tmp_path)
    with pytest.raises(Stopped):
        converted(f"folder:{origin}", kind, tmp_path, per_part=4, progress=stop)
    assert not target.exists(), "half a data set is not there at all"
    with pytest.raises(DataError, match=r"an unfinished conversion that differs in per_part lies there"):
        converted(f"folder:{origin}", kind, tmp_path, per_part=5)
    ticks: list[int] = []
    with pytest.warns(RoadworthyWarning, match="no training image"):
        result = convert(f"folder:{origin}", f"{kind}:{target}", per_part=4, progress=ticks.append)
    assert (result.kept, result.written) == (2, 6)
    assert sum(ticks) == 30
    assert by_id(opened(result.spec)) == by_id(opened(f"folder:{origin}"))
    assert not list(tmp_path.glob(".*.partial"))
    with pytest.warns(RoadworthyWarning, match="no training image"):
        again = convert(f"folder:{origin}", f"{kind}:{target}", per_part=4)
    assert (again.written, again.kept, again.counts) == (0, 8, {"train": 20, "test": 10})
    with pytest.raises(DataError, match="holds something else already"):
        converted(f"folder:{origin}", kind, tmp_path, per_part=5)


@pytest.mark.parametrize("first", FORMATS)
def test_a_source_that_was_overwritten_since_is_noticed(origin: Path, tmp_path: Path, first: str) -> None:
    source = converted(f"folder:{origin}", first, tmp_path / "one")
    place = path_of(first, tmp_path / "one")
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.suffix == ".jpg"] or [
        path for path in place.iterdir() if path.name.startswith("train")
    ]  # fmt: skip

    done: list[int] = []

    def stop(n: int) -> None:
        done.append(n)
        if len(done) == 6:
            raise Stopped

    with pytest.raises(Stopped):
        converted(source, "parquet", tmp_path / "three", per_part=4, progress=stop)
    assert converted(source, "parquet", tmp_path / "two") == converted(source, "parquet", tmp_path / "two")
    info = files[0].stat()
    os.utime(files[0], ns=(info.st_atime_ns, info.st_mtime_ns + 1))
    with pytest.raises(DataError, match="parquet: was made from this source, which has changed since; delete it or"):
        converted(source, "parquet", tmp_path / "two")
    with pytest.raises(DataError, match=r"\.parquet\.partial: an unfinished conversion of this source, which has ch"):
        converted(source, "parquet", tmp_path / "three", per_part=4)


@pytest.mark.parametrize("kind", ["parquet", "hdf5"])
def test_sigkill_at_any_moment(origin: Path, tmp_path: Path, kind: str) -> None:
    target = path_of(kind, tmp_path)
    code = (
        "import sys, time; from roadworthy.data import convert\n"
        "convert(sys.argv[1], sys.argv[2], per_part=1, progress=lambda n: (print('.', flush=True), time.sleep(.02)))"
    )
    arguments = [sys.executable, "-c", code, f"folder:{origin}", f"{kind}:{target}"]
    for wait in (5,):
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        for _ in range(wait):
            process.stdout.readline()
        time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert not target.exists()
    with pytest.warns(RoadworthyWarning, match="no training image"):
        result = convert(f"folder:{origin}", f"{kind}:{target}", per_part=1)
    assert result.kept >= 4
    assert by_id(opened(result.spec)) == by_id(opened(f"folder:{origin}"))


def test_an_id_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    from roadworthy.tfrecord import encode, record_writer

    for split in ("train", "test"):
        with record_writer(tmp_path / f"{split}-0") as write:
            for label, sample in (
                (0, f"{split}/0/../../../../out.jpg"),
                (1, "/etc/x.jpg"),
                (0, ".."),
                (1, f"{split}/1/a/b"),
            ):
                write(encode({"image/encoded": jpeg(3), "image/class/label": label, "image/id": sample.encode()}))
    convert(f"tfrecord:{tmp_path}/t*", f"folder:{tmp_path / 'deep' / 'out'}")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.jpg")}
    assert found == {
        f"deep/out/{split}/{name}"
        for split in ("train", "test")
        for name in (f"0/{split}%2F0%2F..%2F..%2F..%2F..%2Fout.jpg", "1/%2Fetc%2Fx.jpg", "0/%2E..jpg", "1/a/b.jpg")
    }


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("digits", "zip:x"), {}, "Unknown format to convert to 'zip'.*Known: folder, hdf5, parquet, tfrecord"),
        (("digits", "folder"), {}, "'folder' needs a path behind the colon"),
        (("digits", "folder:x"), {"per_part": 0}, "per_part: got 0"),
        (("digits", "folder:x"), {"label_offset": 1}, "labels of folder count from 0"),
        (("digits", "tfrecord:x"), {"label_offset": 2}, "label_offset: got 2"),
        (("digit", "folder:x"), {}, "Unknown data source 'digit'"),
    ],
)
def test_arguments_are_checked(arguments: tuple[str, str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        convert(*arguments, **options)


def test_a_destination_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(DataError, match="holds something else already"):
        convert("digits", f"folder:{tmp_path}")
    with pytest.raises(DataError, match="holds something else already"):
        convert("digits", f"hdf5:{tmp_path / 'note.txt'}")
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]


def test_ids_that_would_be_one_file_are_refused(tmp_path: Path) -> None:
    from roadworthy.tfrecord import encode, record_writer

    for split, ids in (("train", ("a", "a.jpg", "b", "c")), ("test", ("d", "e"))):
        with record_writer(tmp_path / f"{split}-0") as write:
            for row, sample in enumerate(ids):
                write(encode({"image/encoded": jpeg(3), "image/class/label": row % 2, "image/id": sample.encode()}))
    with pytest.raises(DataError, match=r"the ids 'a' and 'a.jpg' would be one file"):
        convert(f"tfrecord:{tmp_path}/t*", f"folder:{tmp_path / 'out'}")
