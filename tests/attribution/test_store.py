"""Maps on disk: made block by block, gone on with after an interruption, and never mixed with others'."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_networks import forms, some_images

from roadworthy.attribution import Settings, attribute, attribute_to_store, open_maps
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.records import Batch

FAST = Settings(ig_steps=3, samples=2)
NAMES = ["grad", "ig", "ig-sg", "random", "inverse:ig"]


class Interrupt(Exception):
    pass


def stop_after(maps: int):  # type: ignore[no-untyped-def]
    """Return a progress callback that raises once so many maps are made."""
    made: list[int] = []

    def progress(done: int) -> None:
        made.append(done)
        if sum(made) >= maps:
            raise Interrupt

    return progress


def test_a_store_holds_what_attribute_returns(tmp_path: Path) -> None:
    model, images, ids = forms(), some_images(7), [f"s{row}" for row in range(7)]
    expected = attribute(model, images, NAMES, ids=ids, settings=FAST)
    with attribute_to_store(model, images, NAMES, tmp_path / "m.zarr", block=3, ids=ids, settings=FAST) as maps:
        assert sorted(maps) == sorted(NAMES)
        assert maps.ids == ids
        for name in NAMES:
            assert maps[name].shape == expected[name].shape
            np.testing.assert_allclose(maps[name][:], expected[name], atol=1e-6)
            np.testing.assert_allclose(maps[name][2:5, ..., 1], expected[name][2:5, ..., 1], atol=1e-6)
            np.testing.assert_allclose(maps[name][-1], expected[name][-1], atol=1e-6)
            np.testing.assert_allclose(np.asarray(maps[name]), expected[name], atol=1e-6)
        np.testing.assert_allclose(
            maps.info["ig"]["completeness_gap"], expected.info["ig"]["completeness_gap"], atol=1e-6
        )
        assert maps.targets is not None
        assert maps.targets.tolist() == expected.targets.tolist()
        assert maps.targets.dtype == np.int64
        assert sorted(maps.info) == sorted(NAMES)
        assert maps.key is not None
        assert maps.key["seed"] == 0
        assert maps.info["ig"]["settings"]["ig_steps"] == 3


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    model, images, path = forms(), some_images(8), tmp_path / "m.zarr"
    whole = attribute_to_store(model, images, NAMES, tmp_path / "whole.zarr", block=2, settings=FAST)
    with pytest.raises(Interrupt):
        # 5 maps a sample, of which one (the inverse) is not computed
        attribute_to_store(model, images, NAMES, path, block=2, settings=FAST, progress=stop_after(2 * 8 + 1))
    with pytest.warns(RoadworthyWarning, match="did not finish"):
        assert open_maps(path)["ig"].shape[0] == 4
    passes: list[int] = []
    handle = model.register_forward_hook(lambda module, inputs, output: passes.append(len(output)))
    done: list[int] = []
    maps = attribute_to_store(model, images, NAMES, path, block=2, settings=FAST, progress=done.append)
    handle.remove()
    for name in NAMES:
        assert np.array_equal(maps[name][:], whole[name][:]), name
    assert sum(passes) == 4 + 4 * (1 + 3 + 2 * 3) + 1, (
        "four samples were left: answers, grad, ig, two copies; a baseline"
    )
    assert sum(done) >= 2 * 2 * 5
    again: list[int] = []
    handle = model.register_forward_hook(lambda module, inputs, output: again.append(1))
    attribute_to_store(model, images, NAMES, path, block=2, settings=FAST)
    handle.remove()
    assert not again


SCRIPT = """
import sys
import numpy as np, torch
torch.set_num_threads(1)
sys.path.insert(0, {folder!r})
from attribution_networks import forms, some_images
from roadworthy.attribution import Settings, attribute_to_store
attribute_to_store(forms(), some_images(60), ["grad", "ig-sg"], {path!r}, block=2,
                   settings=Settings(ig_steps=4, samples=3), progress=lambda done: print(done, flush=True))
print("end", flush=True)
"""


@pytest.mark.parametrize("lines", [(9,), pytest.param((1, 3, 6, 14), marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_to_the_same_maps(tmp_path: Path, lines: tuple[int, ...]) -> None:
    path = tmp_path / "killed.zarr"
    code = textwrap.dedent(SCRIPT.format(folder=str(Path(__file__).parent), path=str(path)))
    kills = 0
    for many in lines:
        with subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        ) as process:
            assert process.stdout is not None
            for _ in range(many):
                process.stdout.readline()
            time.sleep(0.004 * many)  # somewhere within a block
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
    assert kills == len(lines)
    settings = Settings(ig_steps=4, samples=3)
    maps = attribute_to_store(forms(), some_images(60), ["grad", "ig-sg"], path, block=2, settings=settings)
    expected = attribute(forms(), some_images(60), ["grad", "ig-sg"], settings=settings)
    for name in expected:
        np.testing.assert_allclose(maps[name][:], expected[name], atol=1e-6)


def test_rows_beyond_the_finished_ones_are_never_read(tmp_path: Path) -> None:
    import zarr

    path = tmp_path / "m.zarr"
    attribute_to_store(forms(), some_images(4), ["grad"], path, block=2)
    array = zarr.open_group(str(path))["maps/grad"]
    array.resize((6, 3, 8, 10))  # what a run killed within its third block leaves
    array[4:6] = 77.0
    assert open_maps(path)["grad"].shape[0] == 4
    assert not (open_maps(path)["grad"][:] == 77).any()
    with pytest.raises((DataError, IndexError)):
        open_maps(path)["grad"][4]
    grown = attribute_to_store(forms(), some_images(6), ["grad"], path, block=2)
    np.testing.assert_allclose(grown["grad"][:], attribute(forms(), some_images(6), "grad")["grad"], atol=1e-6)


def test_more_methods_are_added(tmp_path: Path) -> None:
    path, images = tmp_path / "m.zarr", some_images(5)
    attribute_to_store(forms(), images, ["grad"], path, block=2)
    maps = attribute_to_store(forms(), images, ["grad", "sobel"], path, block=4)
    assert {name: values.shape[0] for name, values in maps.items()} == {"grad": 5, "sobel": 5}


def test_a_store_made_in_another_way_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path, images, model = tmp_path / "m.zarr", some_images(4), forms()
    attribute_to_store(model, images, ["grad-sg"], path, settings=FAST)
    for match, options in {
        r"seed is 0 there and 1 here.*Choose another path, or delete this folder; open_maps\(": {"seed": 1},
        r"settings.samples is 2 there and 3 here": {"settings": Settings(ig_steps=3, samples=3)},
        r"target is 'predicted' there and 'label' here": {"labels": [0, 1, 2, 3], "target": "label"},
        r"normalize is None there": {"normalize": ([0.5] * 3, [0.2] * 3)},
        r"holds maps of other samples: number 1 is '1' there and 'b' here": {"ids": ["0", "b", "2", "3"]},
    }.items():
        with pytest.raises(DataError, match=match):
            attribute_to_store(model, images, ["grad-sg"], path, **{"settings": FAST, **options})
    other = forms()
    with torch.no_grad():
        other.fc.bias += 1e-3
    with pytest.raises(DataError, match=r"model is 'Forms:\w+' there and 'Forms:\w+' here"):
        attribute_to_store(other, images, ["grad-sg"], path, settings=FAST)
    with pytest.raises(DataError, match="the maps 'grad-sg' there are of another method: it.method is 'grad-sg'"):
        attribute_to_store(model, images, {"grad-sg": "ixg-sg"}, path, settings=FAST)
    with pytest.raises(DataError, match="holds maps of 4 samples, these are 2"):
        attribute_to_store(model, images[:2], ["grad-sg"], path, settings=FAST)
    batches = [Batch(images, torch.zeros(4), list("0123")), Batch(images[..., :6], torch.zeros(4), list("4567"))]
    with pytest.raises(DataError, match="samples of a store have one shape"):
        attribute_to_store(model, batches, ["grad-sg"], path, settings=FAST, block=4)
    with pytest.raises(InputError, match="block: got 0"):
        attribute_to_store(model, images, ["grad-sg"], path, block=0)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(DataError, match="is not empty and holds no maps"):
        attribute_to_store(model, images, ["grad-sg"], tmp_path / "other")


@pytest.mark.parametrize("change", ["image", "label", "target"])
def test_other_samples_with_equal_ids_are_refused(tmp_path: Path, change: str) -> None:
    path, images, model, ids = tmp_path / "m.zarr", some_images(5), forms(), list("abcde")
    classes = torch.tensor([0, 1, 2, 3, 0])
    options = {"labels": classes, "target": "label"} if change == "label" else {"target": classes}
    first = attribute_to_store(model, images, ["grad"], path, block=2, ids=ids, **options)
    again = attribute_to_store(model, images.double(), ["grad"], path, block=2, ids=ids, **options)
    assert np.array_equal(again["grad"][:], first["grad"][:])
    if change == "image":
        images = images.clone()
        images[3:, 0, 2, 1] += 1e-6
    else:
        options[{"label": "labels"}.get(change, change)] = torch.tensor([0, 1, 2, 1, 1])
    with pytest.raises(DataError, match=r"1 samples have changed since their maps were made, the first 'd'.*delete"):
        attribute_to_store(model, images, ["grad"], path, block=2, ids=ids, **options)
    with pytest.raises(DataError, match="have changed"):  # nor is another method added beside old ones
        attribute_to_store(model, images, ["sobel"], path, block=2, ids=ids, **options)


def test_labels_that_no_map_depends_on_may_change(tmp_path: Path) -> None:
    path, images = tmp_path / "m.zarr", some_images(3)
    attribute_to_store(forms(), images, ["grad"], path, labels=[0, 1, 2])
    attribute_to_store(forms(), images, ["grad"], path, labels=[0, 1, 0])


def test_another_callable_under_an_old_name_is_refused(tmp_path: Path) -> None:
    path, images = tmp_path / "m.zarr", some_images(3)
    attribute_to_store(forms(), images, {"mine": lambda model, images, targets: images}, path)
    attribute_to_store(forms(), images, {"mine": lambda model, images, targets: images}, path)
    with pytest.raises(DataError, match="the maps 'mine' there are of another method"):
        attribute_to_store(forms(), images, {"mine": lambda model, images, targets: -images}, path)


def test_methods_may_have_the_names_of_a_stores_own_parts(tmp_path: Path) -> None:
    names = dict.fromkeys(("targets", "key", "ids", "maps", "digests"), "constant")
    maps = attribute_to_store(forms(), some_images(3), names, tmp_path / "m.zarr", target=[1, 2, 3])
    assert maps.targets is not None
    assert maps.targets.tolist() == [1, 2, 3]
    assert set(maps) == set(maps.info) == set(names)
    assert maps.info["targets"]["method"] == maps.info["key"]["method"] == "constant"


def test_a_damaged_block_is_named(tmp_path: Path) -> None:
    path = tmp_path / "m.zarr"
    attribute_to_store(forms(), some_images(4), ["grad"], path, block=2)
    chunk = path / "maps" / "grad" / "c" / "1" / "0" / "0" / "0"
    damaged = bytearray(chunk.read_bytes())
    damaged[100] ^= 1
    chunk.write_bytes(bytes(damaged))
    maps = open_maps(path)
    assert np.isfinite(maps["grad"][:2]).all()
    with pytest.raises(DataError, match=r"maps 'grad': cannot read .*checksum"):
        maps["grad"][2:]


def test_names_cannot_leave_the_store(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "m.zarr"
    maps = attribute_to_store(forms(), some_images(2), {"../../evil": "constant", "a/b": "center"}, path)
    assert sorted(maps) == ["../../evil", "a/b"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["deep"]
    assert sorted(entry.name for entry in (tmp_path / "deep").iterdir()) == ["m.zarr"]


def test_a_missing_file_is_told_and_its_maps_are_made_again(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    images, path = torch.rand(10, 1, 4, 4), tmp_path / "maps.zarr"
    wanted = attribute_to_store(model, images, ["ixg", "constant"], path, block=4)["ixg"][:]
    chunk = sorted(entry for entry in (path / "maps" / "ixg" / "c").rglob("*") if entry.is_file())[0]
    chunk.unlink()
    with pytest.raises(DataError, match=r"1 files of 'ixg' are missing"):
        open_maps(path)
    again = attribute_to_store(model, images, ["ixg", "constant"], path, block=4)
    np.testing.assert_array_equal(again["ixg"][:], wanted)


def test_quick_methods_are_kept_when_a_slow_one_is_interrupted(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    images, path = torch.rand(6, 1, 4, 4), tmp_path / "maps.zarr"

    def slow(*_: object) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attribute_to_store(model, images, {"grad": "grad", "slow": slow}, path, block=4)
    with pytest.warns(RoadworthyWarning, match="grad: 4"):
        assert open_maps(path)["grad"].shape[0] == 4
