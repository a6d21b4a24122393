"""Features of a network: the numbers of an independent forward pass, and no work twice after an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from roadworthy.data import load_data
from roadworthy.errors import DataError, InputError, ModelError, RoadworthyWarning
from roadworthy.probe import extract_features, read_features
from roadworthy.records import Split


def network(seed: int = 0) -> torch.nn.Sequential:
    torch_state = torch.get_rng_state()
    torch.manual_seed(seed)
    made = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    torch.set_rng_state(torch_state)
    return made


def hidden(net: torch.nn.Sequential, values: np.ndarray) -> np.ndarray:
    weight, bias = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    return np.maximum(values @ weight.T + bias, 0)


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(25, 6)).astype(np.float32)


LABELS = np.arange(25) % 3


class Tally:
    """No list or number of the model itself, which would count as a setting that tells models apart."""

    def __init__(self, most: int) -> None:
        self.count, self.most = 0, most


class Counted(torch.nn.Module):
    """Counts the samples it is asked about, and stops after some."""

    def __init__(self, body: torch.nn.Module, most: int = 10**9) -> None:
        super().__init__()
        self.body, self.tally = body, Tally(most)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.tally.count += len(x)
        if self.tally.count > self.tally.most:
            raise KeyboardInterrupt
        return self.body(x)


class Source:
    """Flat samples; some cannot be read."""

    def __init__(self, values: np.ndarray, broken: tuple[int, ...] = ()) -> None:
        self.values, self.broken = values, broken
        self.labels = np.arange(len(values)) % 3
        self.ids = [f"sample {row}" for row in range(len(values))]

    def read(self, index: int) -> torch.Tensor:
        if index in self.broken:
            raise DataError(f"{index} is broken")
        return torch.from_numpy(self.values[index])

    def where(self, index: int) -> str:
        return str(index)


def test_the_penultimate_layer_is_what_the_last_is_given(values: np.ndarray, tmp_path: Path) -> None:
    net = network()
    net.train()
    state = torch.get_rng_state()
    found = extract_features(net, values, tmp_path / "a.h5", labels=LABELS, classes=["a", "b", "c"], per_part=7)
    assert net.training
    assert torch.equal(state, torch.get_rng_state())
    np.testing.assert_allclose(found.take(np.arange(25)), hidden(net, values), atol=1e-5)
    with h5py.File(tmp_path / "a.h5") as file:
        assert (file["features"].dtype, file["labels"].dtype) == (np.float32, np.int64)
        assert file["label_names"].asstr()[...].tolist() == ["a", "b", "c"]
        assert file["labels"][...].tolist() == LABELS.tolist()
        assert file["ids"].asstr()[24] == "24"
        assert file.attrs["done"] == 25
        assert json.loads(file.attrs["key"])["layer"] == "penultimate"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.h5"]


def test_a_named_layer_a_callable_and_convolutions(values: np.ndarray, tmp_path: Path) -> None:
    net, rows = network(), np.arange(25)
    named = extract_features(net, values, tmp_path / "a.h5", labels=LABELS, features="0")
    weight, bias = net[0].weight.detach().numpy(), net[0].bias.detach().numpy()
    np.testing.assert_allclose(named.take(rows), values @ weight.T + bias, atol=1e-5)
    own = extract_features(net, values, tmp_path / "b.h5", labels=LABELS, features=lambda x: 2 * x)
    np.testing.assert_array_equal(own.take(rows), 2 * values)
    conv = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 3)
    )
    images = torch.rand(25, 1, 8, 8)
    pooled = extract_features(conv, images, tmp_path / "c.h5", labels=LABELS, features="0", max_batch=10)
    expected = conv[0](images).mean(dim=(2, 3)).detach().numpy()
    np.testing.assert_allclose(pooled.take(rows), expected, atol=1e-5)


def test_a_data_set_gives_training_samples_first(tmp_path: Path) -> None:
    data = load_data("digits")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 7), torch.nn.ReLU(), torch.nn.Linear(7, 10))
    found = extract_features(net, data, tmp_path / "a.h5")
    assert found.ids == (*data.train.ids, *data.test.ids)
    np.testing.assert_array_equal(found.labels, np.concatenate([data.train.labels, data.test.labels]))
    images = torch.cat([data.train.images, data.test.images])
    np.testing.assert_allclose(found.take(np.arange(len(found))), net[:3](images).detach().numpy(), atol=1e-5)
    test = extract_features(net, data.test, tmp_path / "b.h5", classes=data.classes)
    np.testing.assert_allclose(test.take(np.arange(5)), found.take(np.arange(1438, 1443)), atol=1e-6)


def test_data_sets_and_loaders_of_torch(values: np.ndarray, tmp_path: Path) -> None:
    net, pairs = network(), TensorDataset(torch.from_numpy(values), torch.from_numpy(LABELS))
    loader = DataLoader(pairs, batch_size=4, collate_fn=lambda items: {"x": torch.stack([x for x, _ in items]),
                                                                     "label": [y for _, y in items]})  # fmt: skip
    wrapped = Keyword(net)
    for number, (model, data) in enumerate(((net, pairs), (net, DataLoader(pairs, batch_size=4)), (wrapped, loader))):
        found = extract_features(model, data, tmp_path / f"{number}.h5", per_part=10)
        np.testing.assert_allclose(found.take(np.arange(25)), hidden(net, values), atol=1e-5)
        assert found.labels.tolist() == LABELS.tolist()
        assert found.ids[12] == "12"


class Keyword(torch.nn.Module):
    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def test_an_interrupted_run_goes_on_and_asks_no_sample_twice(values: np.ndarray, tmp_path: Path) -> None:
    whole = extract_features(
        Counted(network()), values, tmp_path / "whole.h5", labels=LABELS, per_part=5, max_batch=5
    )
    path = tmp_path / "a.h5"
    stopped = Counted(network(), most=13)  # one sample finds the last layer; two parts of five are whole
    with pytest.raises(KeyboardInterrupt):
        extract_features(stopped, values, path, labels=LABELS, per_part=5, max_batch=5)
    assert not path.exists()
    again = Counted(network())
    done: list[int] = []
    found = extract_features(again, values, path, labels=LABELS, per_part=5, max_batch=5, progress=done.append)
    assert sum(done) == 25
    assert again.tally.count == 15 + 1
    np.testing.assert_array_equal(found.take(np.arange(25)), whole.take(np.arange(25)))
    assert not (tmp_path / ".a.h5.partial").exists()
    after = Counted(network(), most=0)
    extract_features(after, values, path, labels=LABELS, per_part=5, max_batch=5)
    assert after.tally.count == 0


@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
@pytest.mark.parametrize("what", ["model", "layer", "samples", "labels", "classes"])
def test_another_origin_is_refused(values: np.ndarray, tmp_path: Path, what: str, finished: bool) -> None:
    path = tmp_path / "a.h5"
    first = Counted(network(), most=10**9 if finished else 13)
    try:
        extract_features(first, values, path, labels=LABELS, per_part=5)
    except KeyboardInterrupt:
        assert not finished
    model, arguments = Counted(network(seed=int(what == "model"))), {"labels": LABELS, "per_part": 5}
    if what == "layer":
        arguments["features"] = "body.0"
    elif what == "samples":
        values = values + 1
    elif what == "labels":
        arguments["labels"] = (LABELS + 1) % 3
    elif what == "classes":
        arguments["classes"] = ["x", "y", "z"]
    expected = {"labels": "samples"}.get(what, what)
    with pytest.raises(DataError, match=f"another origin, which differ in {expected}; choose another path"):
        extract_features(model, values, path, **arguments)


def test_something_else_at_the_path_is_left_alone(values: np.ndarray, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["mine"] = 1
    (tmp_path / "b.h5").write_text("mine")
    for name in ("a.h5", "b.h5"):
        with pytest.raises(DataError, match="holds something else already"):
            extract_features(network(), values, tmp_path / name, labels=LABELS)
    assert (tmp_path / "b.h5").read_text() == "mine"


def test_broken_samples_are_left_out_also_where_they_fill_a_part(values: np.ndarray, tmp_path: Path) -> None:
    broken = (0, 5, 6, 7, 8, 9, 20)
    split = Split(Source(values, broken))
    with pytest.warns(RoadworthyWarning, match="could not be read"):
        found = extract_features(network(), split, tmp_path / "a.h5", per_part=5, classes=["a", "b", "c"])
    kept = [row for row in range(25) if row not in broken]
    assert found.ids == tuple(f"sample {row}" for row in kept)
    np.testing.assert_allclose(found.take(np.arange(18)), hidden(network(), values[kept]), atol=1e-5)
    # the same split, which knows its broken samples now, is the same samples
    assert len(extract_features(network(), split, tmp_path / "a.h5", per_part=5, classes=["a", "b", "c"])) == 18


@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
def test_nothing_that_can_be_read(values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no sample could be read"):
        extract_features(network(), Split(Source(values, tuple(range(25)))), tmp_path / "a.h5")


class Endless(IterableDataset):
    def __iter__(self):
        yield torch.zeros(6), 0


class Ragged(torch.nn.Module):
    """Holds as many values as its input is long."""

    def __init__(self) -> None:
        super().__init__()
        self.same = torch.nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(x).sum(dim=1, keepdim=True).repeat(1, 2)


class Lengths(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, row: int):
        if row > 3:
            raise IndexError
        return torch.zeros(3 if row < 2 else 5), row % 2


@pytest.mark.parametrize(
    ("data", "arguments", "error", "message"),
    [
        (np.zeros((3, 6), np.float32), {}, InputError, "labels: features are kept with the classes"),
        (np.zeros((3, 6), np.float32), {"labels": [0, 1]}, InputError, "labels: got shape"),
        (np.zeros((3, 6), np.float32), {"labels": [0, 1, 1], "features": "2.x"}, InputError, "no layer '2.x'"),
        (np.zeros((3, 6), np.float32), {"labels": [0, -1, 1]}, InputError, "from -1 to 1, expected numbers from 0"),
        (np.zeros((3, 6), np.float32), {"labels": [0, 2, 1], "classes": ["a", "b"]}, InputError, "for 2 classes"),
        (np.zeros((3, 6), np.float32), {"labels": [0, 1, 1], "per_part": 0}, InputError, "per_part: got 0"),
        (TensorDataset(torch.zeros(3, 6)), {}, InputError, "a batch has none"),
        (DataLoader(TensorDataset(torch.zeros(3, 6)), shuffle=True), {}, InputError, "shuffle=False"),
        (Endless(), {}, InputError, "a Dataset with a length"),
        (iter([torch.zeros(3, 6)]), {}, InputError, "an iterable of batches cannot be gone on with"),
        (load_data("digits"), {"labels": [0]}, InputError, "a data set brings its own"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(tmp_path: Path, data, arguments: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        extract_features(network(), data, tmp_path / "a.h5", **arguments)
    assert not list(tmp_path.iterdir())  # nothing that would stand in the way of the next try


def test_other_endings_models_without_layers_and_ragged_features(tmp_path: Path, values: np.ndarray) -> None:
    with pytest.raises(InputError, match="ends in .h5 or .hdf5"):
        extract_features(network(), values, tmp_path / "a.npz", labels=LABELS)
    with pytest.raises(ModelError, match="no linear or convolution layer"):
        extract_features(lambda x: x[:, :3], values, tmp_path / "a.h5", labels=LABELS)
    with pytest.raises(ModelError, match="of samples '0', .* some are not finite"):
        extract_features(network(), values, tmp_path / "a.h5", labels=LABELS, features=lambda x: x / 0)
    with pytest.raises(DataError, match="samples have 3 and 5 values"):
        extract_features(Ragged(), Lengths(), tmp_path / "b.h5", features="same", per_part=2)


def test_a_damaged_part_is_named(values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        extract_features(Counted(network(), most=13), values, tmp_path / "a.h5", labels=LABELS, per_part=5)
    part = tmp_path / ".a.h5.partial" / "part-000000.npz"
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(DataError, match=r"part-000000\.npz: cannot be read .*delete it and go on"):
        extract_features(Counted(network()), values, tmp_path / "a.h5", labels=LABELS, per_part=5)
    part.unlink()
    assert len(extract_features(Counted(network()), values, tmp_path / "a.h5", labels=LABELS, per_part=5)) == 25


CHILD = """
import sys, time, numpy as np, torch
from roadworthy.probe import extract_features
torch.set_num_threads(1)
class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
    def forward(self, x):
        time.sleep(float(sys.argv[2]))
        return self.body(x)
torch.manual_seed(0)
values = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
extract_features(Slow(), values, sys.argv[1], labels=np.arange(200) % 3, per_part=10)
"""


@pytest.mark.slow
def test_a_killed_process_leaves_what_the_next_goes_on_with(tmp_path: Path) -> None:
    path, parts = tmp_path / "a.h5", tmp_path / ".a.h5.partial"
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(path), "0.1"])
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and len(list(parts.glob("part-*.npz"))) < 4:
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert not path.exists()
    kept = {part: part.stat().st_mtime_ns for part in parts.glob("part-*.npz")}
    assert 4 <= len(kept) < 20
    for place, seconds in ((path, "0.1"), (tmp_path / "whole.h5", "0")):
        begun = time.monotonic()
        subprocess.run([sys.executable, "-c", CHILD, str(place), seconds], check=True, timeout=200)
        assert time.monotonic() - begun < 200
    found, whole = read_features(path), read_features(tmp_path / "whole.h5")
    np.testing.assert_array_equal(found.take(np.arange(200)), whole.take(np.arange(200)))
    assert found.labels.tolist() == whole.labels.tolist()
