"""TensorBoard itself: every number is read back with its own reader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.errors import InputError, MissingExtraError
from roadworthy.evaluation import Result
from roadworthy.labelfree.result import LabelFree
from roadworthy.tracking.entries import entries_of

reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def read(folder: Path) -> Any:
    return reader.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()


def check_written(found: Any, result: Result | LabelFree, step: int = 0, tag: str = "roadworthy/") -> None:
    told = entries_of(result)
    for name, value in told.metrics.items():
        points = {event.step: event.value for event in found.Scalars(tag + name)}
        assert points[step] == np.float32(value), name
    place = f"{tag}step_{step}/" if step else tag
    for name, curve in told.curves.items():
        points = {event.step: event.value for event in found.Scalars(place + name)}
        assert points == {share: np.float32(value) for share, value in curve.items()}, name


def test_a_folder(result: Result, judged: LabelFree, tmp_path: Path) -> None:
    assert rw.to_tensorboard(result, tmp_path) is None
    rw.to_tensorboard(judged, str(tmp_path), tag="unlabelled/wards")
    found = read(tmp_path)
    check_written(found, result)
    check_written(found, judged, tag="unlabelled/wards/")
    told = len(entries_of(result).metrics) + 6 + len(entries_of(judged).metrics)
    assert len(found.Tags()["scalars"]) == told
    text = found.Tensors("roadworthy/notes/text_summary")[0].tensor_proto.string_val[0].decode()
    assert "| warnings | few samples<br>www" in text
    assert (
        "| versions.torch | 2.9 |"
        in found.Tensors("roadworthy/settings/text_summary")[0].tensor_proto.string_val[0].decode()
    )


def test_a_writer_stays_open_and_keeps_its_own(result: Result, tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        rw.to_tensorboard(result, writer)
        rw.to_tensorboard(result, writer, step=5)
        writer.add_scalar("loss", 0.5, 1)
    found = read(tmp_path)
    check_written(found, result)
    check_written(found, result, step=5)
    assert [event.value for event in found.Scalars("loss")] == [0.5]
    assert [event.step for event in found.Scalars("roadworthy/score/ig")] == [0, 5]


def test_faults(result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file is a file, expected a folder"):
        rw.to_tensorboard(result, tmp_path / "file")
    with pytest.raises(InputError, match="got int, expected a SummaryWriter or a folder"):
        rw.to_tensorboard(result, 3)
    with pytest.raises(InputError, match="tag: got 'a b'"):
        rw.to_tensorboard(result, tmp_path, tag="a b")
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtraError, match=r'needs TensorBoard: pip install "roadworthy\[tensorboard\]"'):
        rw.to_tensorboard(result, tmp_path / "log")
