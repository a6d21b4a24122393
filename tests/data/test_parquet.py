"""Parquet: layouts, metadata, row groups read once, memory bounded, broken rows and files named."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from roadworthy.data import load_data, parquet
from roadworthy.data.parquet import Blocks, ParquetSource
from roadworthy.errors import DataError, InputError, RoadworthyWarning


def png(value: int | tuple[int, ...], mode: str = "L", size: tuple[int, int] = (6, 4)) -> bytes:
    """Return an encoded image of one value; ``size`` is (height, width)."""
    file = io.BytesIO()
    Image.new(mode, size[::-1], value).save(file, "PNG")
    return file.getvalue()


def put(
    path: Path,
    images: Iterable[bytes | None],
    labels: Sequence[int | None],
    *,
    metadata: Mapping[str, str] | None = None,
    rows: int = 3,
    names: tuple[str, str] = ("image", "label"),
    bare: bool = False,
) -> Path:
    """Write a Parquet file with row groups of ``rows`` rows."""
    kind = pa.binary() if bare else pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    values = [image if bare else {"bytes": image, "path": f"p/{row}.png"} for row, image in enumerate(images)]
    table = pa.table({names[0]: pa.array(values, kind), names[1]: pa.array(labels, pa.int64())})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=rows)
    return path


def numbered(n: int) -> tuple[list[bytes], list[int]]:
    """Return images of the values 0 to n - 1 and labels that go round 0, 1, 2."""
    return [png(row) for row in range(n)], [row % 3 for row in range(n)]


def values(images: torch.Tensor) -> list[int]:
    return (images[:, 0, 0, 0] * 255).round().int().tolist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "train.parquet", *numbered(20), metadata={"classes": "a, b,c"})
    put(tmp_path / "test.parquet", *numbered(7))
    return tmp_path


@pytest.mark.parametrize("size", [1, 4, 64])
def test_rows_come_in_order_over_row_groups(folder: Path, size: int) -> None:
    data = load_data(f"parquet:{folder}")
    assert (data.classes, data.train.shape, len(data.train), len(data.test)) == (("a", "b", "c"), (1, 6, 4), 20, 7)
    batches = list(data.train.batches(size))
    assert [value for batch in batches for value in values(batch.images)] == list(range(20))
    assert [i for batch in batches for i in batch.ids] == [f"train.parquet:{row}" for row in range(20)]
    assert torch.cat([batch.labels for batch in batches]).tolist() == [row % 3 for row in range(20)]
    assert data.test.ids[-1] == "test.parquet:6"
    assert values(data.train.subset([19, 0, 7, 8]).images) == [19, 0, 7, 8]


def test_shards_and_nested_layouts(tmp_path: Path) -> None:
    for shard in range(3):
        put(tmp_path / "data" / f"train-0000{shard}-of-00003.parquet", *numbered(4), rows=10)
    put(tmp_path / "data" / "validation-00000-of-00001.parquet", *numbered(5))
    put(tmp_path / ".cache" / "train.parquet", *numbered(5))
    data = load_data(f"parquet:{tmp_path}")
    assert data.train.ids[3:6] == [f"data/train-0000{f}-of-00003.parquet:{r}" for f, r in ((0, 3), (1, 0), (1, 1))]
    assert values(data.train.images) == [0, 1, 2, 3] * 3
    assert len(data.test) == 5
    assert data.classes == ("0", "1", "2")
    put(tmp_path / "default" / "test" / "0000.parquet", *numbered(6))
    assert len(load_data(f"parquet:{tmp_path}").test) == 6
    put(tmp_path / "extra.parquet", *numbered(6))
    with pytest.warns(RoadworthyWarning, match="1 .parquet files of no split are left out; the first: extra.parquet"):
        assert len(load_data(f"parquet:{tmp_path}").train) == 12


@pytest.mark.parametrize("name", ["images.parquet", "train.parquet"])
@pytest.mark.parametrize("whole", [False, True])
def test_one_file_is_split_by_a_hash(tmp_path: Path, name: str, whole: bool) -> None:
    path = put(tmp_path / name, *numbered(60))
    data = load_data(f"parquet:{tmp_path if whole else path}")
    assert sorted(values(data.train.images) + values(data.test.images)) == list(range(60))
    assert 3 <= len(data.test) < 25
    assert data.test.ids == [f"{name}:{value}" for value in values(data.test.images)]


def features(names: Any) -> dict[str, str]:
    label = {"names": names, "_type": "ClassLabel"}
    return {"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}, "label": label}}})}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (features(["cat", "dog, wild", "<b>"]), ("cat", "dog, wild", "<b>")),
        ({"classes": "x,y,z"}, ("x", "y", "z")),
        (None, ("0", "1", "2")),
        (features(None), ("0", "1", "2")),
        ({"huggingface": "{not json"}, ("0", "1", "2")),
        ({"huggingface": "[]"}, ("0", "1", "2")),
        ({"huggingface": '{"info": null}'}, ("0", "1", "2")),
        ({"classes": ""}, ("0", "1", "2")),
    ],
)
def test_class_names(tmp_path: Path, metadata: dict[str, str] | None, expected: tuple[str, ...]) -> None:
    put(tmp_path / "train.parquet", *numbered(6), metadata=metadata)
    put(tmp_path / "test.parquet", *numbered(3))
    assert load_data(f"parquet:{tmp_path}").classes == expected


@pytest.mark.parametrize("names", [("image", "label"), ("img", "labels")])
@pytest.mark.parametrize("bare", [False, True])
def test_column_names_and_bare_bytes(tmp_path: Path, names: tuple[str, str], bare: bool) -> None:
    put(tmp_path / "train.parquet", *numbered(6), names=names, bare=bare)
    put(tmp_path / "test.parquet", *numbered(6), names=names, bare=bare)
    assert values(load_data(f"parquet:{tmp_path}").test.images) == list(range(6))


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32()])
def test_labels_of_any_integer_type(tmp_path: Path, kind: pa.DataType) -> None:
    table = pa.table({"image": [png(0)] * 4, "label": pa.array([0, 1, 1, 0], kind)})
    for name in ("train", "test"):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    labels = load_data(f"parquet:{tmp_path}").train.labels
    assert (labels.dtype, labels.tolist()) == (torch.int64, [0, 1, 1, 0])


def test_grey_and_colour_mixed(tmp_path: Path) -> None:
    images = [png(9), png((1, 2, 3), "RGB"), png(7)]
    put(tmp_path / "train.parquet", images, [0, 1, 0])
    put(tmp_path / "test.parquet", [png(9), png(8)], [0, 1])
    data = load_data(f"parquet:{tmp_path}")
    assert data.train.images.shape == (3, 3, 6, 4)
    assert data.test.images.shape == (2, 3, 6, 4)
    assert load_data(f"parquet:{tmp_path}", channels=1).train.shape == (1, 6, 4)
    assert load_data(f"parquet:{tmp_path}", size=(8, 5)).train.shape == (3, 8, 5)


def test_broken_rows_are_named_and_counted(tmp_path: Path) -> None:
    images: list[bytes | None] = [png(0), b"", png(2), None, b"text", png(5)]
    put(tmp_path / "train.parquet", images, [0, 1, 2, 1, 0, 1])
    put(tmp_path / "test.parquet", *numbered(3))
    data = load_data(f"parquet:{tmp_path}")
    with pytest.warns(RoadworthyWarning, match=rf"3 of 6 samples .* {tmp_path}/train\.parquet:1: is empty"):
        assert values(data.train.images) == [0, 2, 5]
    assert list(data.train.broken) == ["train.parquet:1", "train.parquet:3", "train.parquet:4"]
    assert "has no bytes, only the path 'p/3.png'" in data.train.broken["train.parquet:3"]
    assert "not an image" in data.train.broken["train.parquet:4"]


def test_a_damaged_row_group_costs_its_rows_alone(folder: Path) -> None:
    path = folder / "train.parquet"
    group = pq.read_metadata(path).row_group(2)
    chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "image.bytes")
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    raw = bytearray(path.read_bytes())
    raw[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(raw)
    data = load_data(f"parquet:{folder}")
    with pytest.warns(RoadworthyWarning, match=rf"3 of 20 .* {path}: row group 2 cannot be read"):
        assert values(data.train.images) == [row for row in range(20) if row not in (6, 7, 8)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"picture": [b"x"] * 2, "label": [0, 1]}, r"has the columns \['picture', 'label'\], expected 'image'"),
        ({"image": [b"x"] * 2, "class": [0, 1]}, r"has the columns \['image', 'class'\], expected 'image'"),
        ({"image": ["x"] * 2, "label": [0, 1]}, "column 'image' holds string, expected encoded bytes"),
        ({"image": [b"x"] * 2, "label": ["a", "b"]}, "column 'label' holds string, expected integers"),
        ({"image": [b"x"] * 2, "label": [0.0, 1.0]}, "column 'label' holds double, expected integers"),
        ({"image": [b"x"] * 3, "label": [0, 1, None]}, r"row 2 has no label \(1 such rows\)"),
        ({"image": [b"x"] * 2, "label": [-1, 1]}, "labels of the train split go from -1 to 1, expected 0 to 1"),
        ({"image": [b"x"] * 2, "label": [0, 0]}, r"one class \('0'\) found"),
        ({"image": [b"x"] * 2, "label": [0, 10**12]}, "labels go up to 1000000000000"),
    ],
)
def test_files_that_hold_no_data_set(tmp_path: Path, table: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table(table), tmp_path / "train.parquet")
    with pytest.raises(DataError, match=message) as caught:
        load_data(f"parquet:{tmp_path}")
    assert str(caught.value).startswith(str(tmp_path))


def test_test_labels_must_be_training_classes(folder: Path) -> None:
    put(folder / "test.parquet", [png(0)] * 2, [0, 5])
    message = "labels of the test split go from 0 to 5, expected 0 to 2 for 3 classes"
    with pytest.raises(DataError, match=message):
        load_data(f"parquet:{folder}")
    put(folder / "test.parquet", [png(0)] * 2, [-1, -1])
    with pytest.raises(DataError, match=r"test split go from -1 to -1.*-1 marks hidden labels"):
        load_data(f"parquet:{folder}")
    put(folder / "test.parquet", [], [])
    with pytest.raises(DataError, match="a split has no rows"):
        load_data(f"parquet:{folder}")
    put(folder / "test.parquet", *numbered(3), names=("img", "label"))
    with pytest.raises(DataError, match=r"train\.parquet has the columns \('image', 'label'\), test\.parquet has"):
        load_data(f"parquet:{folder}")


def test_files_that_are_absent_or_no_parquet(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing: no such file or folder"):
        load_data(f"parquet:{tmp_path}/nothing")
    with pytest.raises(DataError, match=r"no \.parquet file below it"):
        load_data(f"parquet:{tmp_path}")
    put(tmp_path / "test.parquet", *numbered(3))
    with pytest.raises(DataError, match=r"test\.parquet is a test split, but there is no train"):
        load_data(f"parquet:{tmp_path}")
    (tmp_path / "train.parquet").write_bytes(b"not parquet" * 5)
    with pytest.raises(DataError, match=r"train\.parquet: not a Parquet file"):
        load_data(f"parquet:{tmp_path}")
    with pytest.raises(InputError, match="needs a path"):
        load_data("parquet:")


class Counted:
    """Counts the readers that a source opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[tuple[int, int]] = []
        real = Blocks._reader

        def reader(blocks: Blocks, file: int, group: int) -> Any:
            self.opened.append((file, group))
            return real(blocks, file, group)

        monkeypatch.setattr(Blocks, "_reader", reader)


def test_a_row_group_is_read_once_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "CACHE_BYTES", 0)
    data = load_data(f"parquet:{folder}")
    counted = Counted(monkeypatch)
    list(data.train.batches(4))
    assert counted.opened == [(0, group) for group in range(7)]


def test_any_order_is_read_once_when_it_fits_the_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(monkeypatch)
    data = load_data(f"parquet:{folder}")
    order = np.random.default_rng(0).permutation(20)
    assert values(data.train.subset(order).images) == order.tolist()
    list(data.train.batches(3))
    assert sorted(counted.opened) == [(0, group) for group in range(7)]


def test_the_blocks_used_last_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks([folder / "train.parquet"], "image", 1)
    size = blocks.row(0, 0).as_py() and blocks._kept_bytes
    blocks = Blocks([folder / "train.parquet"], "image", 2 * size + size // 2)  # two of three rows each
    counted = Counted(monkeypatch)
    for row in (0, 3, 0, 6, 0):  # the third row group pushes out the second, not the first
        blocks.row(0, row)
    assert counted.opened == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("cache", [0, 400, 10**9])
@pytest.mark.parametrize("block", [1, 200, 10**9])
def test_blocks_within_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: int, block: int) -> None:
    monkeypatch.setattr(parquet, "_BLOCK_BYTES", block)
    monkeypatch.setattr(parquet, "CACHE_BYTES", cache)
    put(tmp_path / "train.parquet", *numbered(30), rows=13)
    put(tmp_path / "test.parquet", *numbered(3))
    data = load_data(f"parquet:{tmp_path}")
    assert values(torch.cat([batch.images for batch in data.train.batches(7)])) == list(range(30))
    order = np.random.default_rng(1).permutation(30)
    assert values(data.train.subset(order).images) == order.tolist()


def test_a_data_set_larger_than_the_cache_is_sampled_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "train.parquet", *numbered(200), rows=100)
    put(tmp_path / "test.parquet", *numbered(3))
    assert load_data(f"parquet:{tmp_path}").train.source.run == 1  # type: ignore[attr-defined]
    monkeypatch.setattr(parquet, "CACHE_BYTES", 1000)
    monkeypatch.setattr("roadworthy.records.STATISTICS_SAMPLE", 100)
    data = load_data(f"parquet:{tmp_path}")
    assert data.train.source.run == 50  # type: ignore[attr-defined]
    counted = Counted(monkeypatch)
    assert 0 < data.mean[0] < 1
    assert len(counted.opened) <= 2


def test_worker_processes_read_the_same(folder: Path) -> None:
    data = load_data(f"parquet:{folder}")
    expected = data.train.images
    for context, workers in (("fork", 2), ("spawn", 1)):
        split = load_data(f"parquet:{folder}").train
        next(split.batches(2))
        loader = torch.utils.data.DataLoader(
            split,  # type: ignore[arg-type]
            batch_size=5,
            num_workers=workers,
            multiprocessing_context=context,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
            images = torch.cat([batch for batch, _ in loader])
        assert torch.equal(images, expected)


_STREAM = """
import sys, psutil, torch
from roadworthy.data import load_data, parquet
parquet.CACHE_BYTES, parquet._BLOCK_BYTES = 4 << 20, 1 << 20
torch.set_num_threads(1)
data = load_data("parquet:" + sys.argv[1], channels=1)
next(data.test.batches(2))
process = psutil.Process()
before, peak, n = process.memory_info().rss, 0, 0
for batch in data.train.batches(2):
    n += len(batch.ids)
    peak = max(peak, process.memory_info().rss)
print(n, (peak - before) >> 20)
"""


@pytest.mark.parametrize("groups", [40, 1])
def test_streaming_keeps_memory_bounded(tmp_path: Path, groups: int) -> None:
    """160 MB of images in many row groups, and in a single one."""
    padded = png(7) + bytes(400_000)  # what follows the end of an image is ignored
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", kind), ("label", pa.int64())])
    rows = 400 // groups
    options = {"compression": "none", "use_dictionary": False, "write_batch_size": 4}  # pages of four rows
    with pq.ParquetWriter(tmp_path / "train.parquet", schema, **options) as writer:
        for _ in range(groups):
            images = pa.array([{"bytes": padded, "path": None}] * rows, kind)
            writer.write_table(pa.table([images, pa.array([0, 1] * (rows // 2))], schema=schema), row_group_size=rows)
    put(tmp_path / "test.parquet", [png(0)] * 2, [0, 1])
    done = subprocess.run([sys.executable, "-c", _STREAM, str(tmp_path)], capture_output=True, text=True, check=True)
    n, growth = map(int, done.stdout.split())
    assert n == 400
    assert growth < 50, f"{growth} MB above the start, for 160 MB of images"


def test_cifar10_of_the_shared_folder(shared: Path) -> None:
    path = shared / "data" / "cifar10"
    data = load_data(f"parquet:{path}")
    assert (len(data.train), len(data.test), data.train.shape) == (50_000, 10_000, (3, 32, 32))
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    assert torch.bincount(data.test.labels).tolist() == [1000] * 10
    part = data.test.take(300)
    assert len(part.images) == len(set(part.ids)) == 300
    assert not part.broken
    rows = pq.read_table(path / "test.parquet").slice(0, 3).to_pylist()
    for row, image in zip(rows, data.test.subset([0, 1, 2]).images, strict=True):
        pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
        np.testing.assert_array_equal(image.numpy(), pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255))


def test_the_source_may_be_built_by_hand(folder: Path) -> None:
    data = load_data(f"parquet:{folder}")
    assert isinstance(data.train.source, ParquetSource)
    assert data.train.source.where(3) == f"{folder}/train.parquet:3"
