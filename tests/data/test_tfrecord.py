"""Record files as a data set: each record once, labels that count from 0 or 1, names, damage, workers."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

import roadworthy as rw
from roadworthy.data import load_data
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.records import Split
from roadworthy.tfrecord import encode, record_writer


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.new("L", (4, 6), value).save(file, "PNG")
    return file.getvalue()


def put(path: Path, labels: list[int], *, first: int = 0, compress: bool = False, **more: Any) -> Path:
    """Write images of the values ``first``, ``first + 1``, ... with these labels."""
    with record_writer(path, compress=compress) as write:
        for row, label in enumerate(labels):
            extra = {name: value(row, label) for name, value in more.items()}
            features = {"image/encoded": png(first + row), "image/class/label": label}
            write(encode({**features, **{name.replace("__", "/"): value for name, value in extra.items()}}))
    return path


def values(images: torch.Tensor) -> list[int]:
    return (images[:, 0, 0, 0] * 255).round().int().tolist()


@pytest.fixture
def thirteen(tmp_path: Path) -> Path:
    """Three record files of 5, 7 and 1 records (field report 38), and a test file."""
    for number, (first, size) in enumerate(((0, 5), (5, 7), (12, 1))):
        put(tmp_path / f"train-{number:05d}-of-00003", [(first + row) % 3 for row in range(size)], first=first)
    put(tmp_path / "validation-00000-of-00001", [0, 1, 2], first=100)
    return tmp_path


def test_iterating_several_files_ends_with_each_record_once(thirteen: Path) -> None:
    data = load_data(f"tfrecord:{thirteen}")
    assert len(data.train) == 13
    items = list(data.train)
    assert len(items) == 13
    assert values(torch.stack([image for image, _ in items])) == list(range(13))
    assert [label for _, label in items] == [row % 3 for row in range(13)]
    assert len(set(data.train.ids)) == 13
    assert data.train.ids[4:6] == ["train-00000-of-00003:4", "train-00001-of-00003:0"]
    assert [sample for batch in data.train.batches(4) for sample in batch.ids] == data.train.ids
    assert values(data.test.images) == [100, 101, 102]
    assert data.classes == ("0", "1", "2")
    assert data.train.shape == (1, 6, 4)


def test_a_data_set_without_end_is_refused(thirteen: Path, q4: Any) -> None:
    endless = itertools.cycle(list(load_data(f"tfrecord:{thirteen}").train))
    with pytest.raises(InputError, match=r"cycle has no known length.*max_samples="):
        rw.evaluate(q4, endless, None, ["random"])


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("compress", [False, True])
def test_each_record_comes_once_for_any_number_of_workers(tmp_path: Path, workers: int, compress: bool) -> None:
    for number in range(3):
        put(tmp_path / f"train-{number}", [row % 2 for row in range(9)], first=9 * number, compress=compress)
    put(tmp_path / "test-0", [0, 1])
    train = load_data(f"tfrecord:{tmp_path}/*").train
    for shuffle in (False, True):
        loader = DataLoader(train, batch_size=4, num_workers=workers, shuffle=shuffle)
        for _ in range(2):
            found = [value for images, _ in loader for value in values(images)]
            assert sorted(found) == list(range(27))
            assert shuffle or found == list(range(27))


def test_tensorflows_shards(shared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tf"
    shutil.copytree(shared / "data" / "tfrecord", folder)
    folder.chmod(0o755)
    expected = json.loads((folder / "expected.json").read_text())["items"]
    with pytest.warns(RoadworthyWarning, match=r"go from 1 to 10 and none is 0.*label_offset=1.*label 1 becomes"):
        data = load_data(f"tfrecord:{folder}/train-*")
    assert data.classes[:3] == ("airplane", "automobile", "bird")
    labels = {**dict(zip(data.train.ids, data.train.labels.tolist(), strict=True))}
    labels |= dict(zip(data.test.ids, data.test.labels.tolist(), strict=True))
    rows = {shard: itertools.count() for shard in {item["shard"] for item in expected}}
    assert labels == {f"{i['shard']}:{next(rows[i['shard']])}": i["label_1based"] - 1 for i in expected}
    assert data.train.shape == (3, 32, 32)
    saliency = load_data(f"tfrecord:{folder}/validation-saliency-00000-of-00001")
    assert {**dict(zip(saliency.train.ids, saliency.train.labels.tolist(), strict=True))}
    assert len(saliency.train) + len(saliency.test) == 2
    assert saliency.train.images.ndim == 4
    for name in ("flipped-payload", "truncated"):
        with pytest.raises(DataError, match=rf"{name}: the record at byte \d+ is (damaged|cut off)"):
            load_data(f"tfrecord:{folder}/{name}")


def test_the_offset_of_labels_is_found_told_and_may_be_stated(tmp_path: Path) -> None:
    put(tmp_path / "train-0", [1, 2, 3, 1])
    put(tmp_path / "test-0", [2, 3])
    spec = f"tfrecord:{tmp_path}/t*"
    with pytest.warns(
        RoadworthyWarning, match=r"State it with 'tfrecord:.*,label_offset=1'.*label_offset=0,classes=4"
    ):
        found = load_data(spec)
    assert found.train.labels.tolist() == [0, 1, 2, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stated = load_data(f"{spec},label_offset=1")
        assert stated.train.labels.tolist() == [0, 1, 2, 0]
        assert stated.test.labels.tolist() == [1, 2]
        assert len(stated.classes) == 3
        literal = load_data(f"{spec},label_offset=0,classes=4")
        assert literal.train.labels.tolist() == [1, 2, 3, 1]
        assert len(literal.classes) == 4
    with pytest.raises(
        DataError, match=r"labels go from 1 to 3, but 1 between are absent, the first 0.*label_offset=1"
    ):
        load_data(f"{spec},label_offset=0")
    with pytest.raises(DataError, match="labels go from 1 to 3, expected 1 to 2 for 2 classes"):
        load_data(f"{spec},label_offset=1,classes=2")


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1, 3], "", r"labels go from 0 to 3, but 1 between are absent, the first 2; .*label_offset=0,classes=4"),
        ([1, 3], "", "labels go from 1 to 3, but 1 between are absent, the first 2"),
        ([2, 3], "", "labels go from 2 to 3, which may count from 0 or from 1; say which"),
        ([-1, 0], "", r"labels go from -1 to 0, expected 0..K-1 or 1..K"),
        ([0, 1], ",label_offset=1", "labels go from 0 to 1, expected 1 to 1 for 1 classes with label_offset=1"),
        ([1, 2], ",classes=5", "labels go from 1 to 2 of 5 classes, which may count from 0 or from 1"),
        ([0, 2**40], "", "labels go from 0 to 1099511627776, expected"),
        ([0, 0], "", r"one class \('0'\) found"),
    ],
)
def test_labels_that_cannot_be_used(tmp_path: Path, labels: list[int], options: str, message: str) -> None:
    put(tmp_path / "train-0", labels)
    put(tmp_path / "test-0", labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)
        with pytest.raises(DataError, match=message):
            load_data(f"tfrecord:{tmp_path}/t*{options}")


def test_names_of_classes_and_ids_that_records_hold(tmp_path: Path) -> None:
    names = ["ant", "bée", "cat"]
    text = {
        "image__class__text": lambda row, label: names[label].encode(),
        "image__id": lambda row, _: f"i{row}".encode(),
    }
    put(tmp_path / "train-0", [0, 1, 2], **text)
    put(tmp_path / "test-0", [2, 0], **text)
    data = load_data(f"tfrecord:{tmp_path}/t*-0")
    assert data.classes == ("ant", "bée", "cat")
    assert data.test.ids == ["i0", "i1"]
    (tmp_path / "classes.json").write_text(json.dumps({"classes": ["a", "b", "c", "d"], "label_offset": 0}))
    assert load_data(f"tfrecord:{tmp_path}/t*-0").classes == ("a", "b", "c", "d")
    (tmp_path / "classes.json").write_text("[]")
    with pytest.raises(DataError, match=r"classes.json: cannot be used"):
        load_data(f"tfrecord:{tmp_path}/t*-0")
    (tmp_path / "classes.json").unlink()
    put(tmp_path / "train-0", [0, 1, 2, 0], image__class__text=lambda row, label: b"x%d" % row)
    with pytest.warns(RoadworthyWarning, match="class 0 are called 'x0' and 'x3'; classes are numbered"):
        assert load_data(f"tfrecord:{tmp_path}/train-*").classes == ("0", "1", "2")
    put(tmp_path / "train-0", [0, 1, 0], image__id=lambda row, label: b"same")
    with pytest.raises(DataError, match="not unique"):
        load_data(f"tfrecord:{tmp_path}/train-*")


def test_empty_files_and_files_of_no_split(tmp_path: Path) -> None:
    put(tmp_path / "train-00000-of-00002", [])
    put(tmp_path / "train-00001-of-00002", [0, 1, 0, 1])
    put(tmp_path / "test-00000-of-00001", [1])
    data = load_data(f"tfrecord:{tmp_path}")
    assert data.train.ids[0] == "train-00001-of-00002:0"
    put(tmp_path / "other-00000-of-00001", [1])
    with pytest.warns(RoadworthyWarning, match="1 record files of no split are left out; the first: other-00000"):
        load_data(f"tfrecord:{tmp_path}")
    put(tmp_path / "train-00001-of-00002", [])
    with pytest.raises(DataError, match="a split has no records"):
        load_data(f"tfrecord:{tmp_path}/t*")
    with pytest.raises(DataError, match=r"test-00000-of-00001 is a test split, but there is no train\* beside it"):
        load_data(f"tfrecord:{tmp_path}/test*")


def test_what_the_package_writes_beside_records_is_no_record_file(tmp_path: Path) -> None:
    for name, labels in (("train-0", [0, 1, 2, 0]), ("test-0", [1, 2, 0])):
        put(tmp_path / name, labels)
    (tmp_path / "classes.json").write_text(json.dumps({"classes": ["a", "b", "c"]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # indices lie there the second time
            assert load_data(f"tfrecord:{tmp_path}/*").classes == ("a", "b", "c")
        (tmp_path / "test-0").rename(tmp_path / "more-1")
        (tmp_path / "train-0").rename(tmp_path / "more-0")
        data = load_data(f"tfrecord:{tmp_path}/**")
        assert len(data.train) + len(data.test) == 7
    with pytest.raises(DataError, match="classes.json: is no TFRecord file"):
        load_data(f"tfrecord:{tmp_path}/*.json")


def test_a_pool_is_split_by_class(tmp_path: Path) -> None:
    put(tmp_path / "pool-00000-of-00001", [row % 2 for row in range(40)])
    data = load_data(f"tfrecord:{tmp_path}")
    assert sorted(values(data.train.images) + values(data.test.images)) == list(range(40))
    assert 2 < len(data.test) < 20


def test_damage_after_indexing_costs_one_sample(thirteen: Path) -> None:
    import os

    path = thirteen / "train-00001-of-00003"
    load_data(f"tfrecord:{thirteen}")
    stamp = path.stat().st_mtime_ns
    content = bytearray(path.read_bytes())
    content[30] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stamp, stamp))
    train: Split = load_data(f"tfrecord:{thirteen}").train
    with pytest.warns(RoadworthyWarning, match=r"1 of 13 samples could not be read.*record at byte 0 is damaged"):
        assert sum(len(batch.ids) for batch in train.batches()) == 12


def test_records_without_image_or_label_are_named(tmp_path: Path) -> None:
    def write_all(*features: dict[str, Any]) -> None:
        with record_writer(tmp_path / "train-0") as write:
            for each in features:
                write(encode(each))

    write_all({"image/encoded": png(0), "image/class/label": 0}, {"image/encoded": png(0)})
    with pytest.raises(DataError, match=r"train-0:1: has no integer label.*\(1 such records\); it has \['image/enc"):
        load_data(f"tfrecord:{tmp_path}/train-*")
    write_all(*({"label": row % 2, "raw_image": np.zeros(3)} for row in range(4)))
    with pytest.raises(DataError, match=r"has no image: none of .*raw_image.*it has \['label', 'raw_image'\]"):
        load_data(f"tfrecord:{tmp_path}/train-*").train.source.read(0)
    for spec, message in (
        ("tfrecord:", "'tfrecord' needs files behind the colon"),
        (f"tfrecord:{tmp_path}/none*", "no record files there"),
        (f"tfrecord:{tmp_path}/train-*,label_ofset=1", "Did you mean 'label_offset'"),
        (f"tfrecord:{tmp_path}/train-*,label_offset=2", "label_offset=2: expected an integer from 0 to 1"),
    ):
        with pytest.raises(InputError, match=message):
            load_data(spec)


def test_size_and_channels(tmp_path: Path) -> None:
    put(tmp_path / "train-0", [0, 1, 0, 1])
    data = load_data(f"tfrecord:{tmp_path}/train-*", size=(3, 2), channels=3)
    assert data.train.shape == (3, 3, 2)
