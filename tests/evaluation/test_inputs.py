"""What may come as images, and what cannot be matched with maps, ids or targets by position."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import roadworthy as rw
from roadworthy.errors import AttributionError, InputError, ModelError, RoadworthyWarning
from roadworthy.evaluation.checks import intact_verdict
from roadworthy.evaluation.inputs import Stream, block_size


def loaders(dataset) -> dict[str, DataLoader]:
    n = len(dataset)
    return {
        "shuffle": DataLoader(dataset, shuffle=True),
        "subset": DataLoader(dataset, sampler=SubsetRandomSampler(range(n))),
        "weighted": DataLoader(dataset, sampler=WeightedRandomSampler([1.0] * n, n)),
        "batches": DataLoader(dataset, batch_sampler=BatchSampler(RandomSampler(dataset), 4, False)),
        "reversed": DataLoader(dataset, sampler=list(range(n))[::-1]),
    }


def test_nothing_is_matched_by_position_with_a_loader_that_reorders(q4, q4_data) -> None:
    images, labels = q4_data(n=16)
    for name, loader in loaders(TensorDataset(images, labels)).items():
        for attributions in ({"x": images.mean(1)}, rw.attribute(q4, images, ["grad"])):
            with pytest.raises(InputError, match=r"shuffle=False"):
                rw.evaluate(q4, loader, None, attributions)
        with pytest.raises(InputError, match=r"ids: .*shuffle=False"):
            rw.evaluate(q4, loader, None, ["random"], ids=list(map(str, range(16))))
        with pytest.raises(InputError, match=r"target: .*shuffle=False"):
            rw.evaluate(q4, loader, None, ["random"], target=[0] * 16)
        assert rw.evaluate(q4, loader, None, ["random"]).n == 16, name


def test_a_dropped_remainder_is_not_called_unreadable(q4, q4_data) -> None:
    images, labels = q4_data(n=10)
    dataset = TensorDataset(images, labels)
    for loader, n in (
        (DataLoader(dataset, batch_size=4, drop_last=True), 8),
        (DataLoader(dataset, sampler=SubsetRandomSampler([1, 2, 3, 6])), 4),
    ):
        result = rw.evaluate(q4, loader, None, ["random"], intact_check="warn")
        assert result.n == n
        assert not any("could not be read" in warning for warning in result.warnings)


def test_maps_of_more_images_are_not_taken_for_a_slice(q4, q4_data) -> None:
    images, labels = q4_data(n=16)
    maps = rw.attribute(q4, images, ["grad"])
    with pytest.raises(AttributionError, match="16 maps for 8 samples"):
        rw.evaluate(q4, images[8:], labels[8:], maps)


def test_maps_are_matched_by_id(q4, q4_data, tmp_path) -> None:
    images, labels = q4_data(n=12)
    ids = [f"s{row}" for row in range(12)]
    turn = np.random.default_rng(0).permutation(12)
    kept = rw.attribution.attribute_to_store(
        q4, images[turn], ["ixg"], tmp_path / "m.zarr", ids=[ids[i] for i in turn]
    )
    right = rw.evaluate(q4, images, labels, {"ixg": "ixg"}, ids=ids)
    found = rw.evaluate(q4, images, labels, kept, ids=ids)
    np.testing.assert_allclose(found.scores.logit, right.scores.logit, atol=1e-5)
    with pytest.raises(AttributionError, match=r"no map for 1 of 12 samples, the first 'new'"):
        rw.evaluate(q4, images, labels, kept, ids=[*ids[:-1], "new"])
    with pytest.raises(AttributionError, match=r"maps are of other samples: the first is 's\d+' there and 'a0' here"):
        rw.evaluate(q4, images, labels, kept, ids=[f"a{row}" for row in range(12)])


def test_maps_for_another_class_are_told(q4, q4_data, tmp_path) -> None:
    images, labels = q4_data(n=8)
    for maps in (
        rw.attribute(q4, images, ["grad"], target=[0] * 8),
        rw.attribution.attribute_to_store(q4, images, ["grad"], tmp_path / "m.zarr", target=[0] * 8),
    ):
        with pytest.warns(RoadworthyWarning, match="another class .* for 6 of 8"):
            rw.evaluate(q4, images, labels, maps)


def test_an_own_method_gets_a_model_that_takes_the_images_it_is_given(q4, q4_data) -> None:
    images, labels = q4_data()
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.2, 0.2)
    shape = (1, 3, 1, 1)
    scale, shift = torch.tensor(std).view(shape), torch.tensor(mean).view(shape)

    def net(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"scores": q4(x * scale + shift)}

    def gradient(model, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.clone().requires_grad_()
            scores = model(leaf).gather(1, targets[:, None]).sum()
            return torch.autograd.grad(scores, leaf)[0]

    options = {"normalize": (mean, std), "output": "scores"}
    result = rw.evaluate(net, images, labels, {"own": gradient, "grad": "grad"}, **options)
    np.testing.assert_allclose(result.scores.logit[0], result.scores.logit[1], atol=1e-4)


def test_chance_is_found_before_any_map_is_made(q4, q4_data) -> None:
    images, labels = q4_data(n=64, height=4, width=4)
    asked: list[int] = []

    def mine(model, batch: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        asked.append(len(batch))
        return batch.mean(dim=1)

    with pytest.raises(InputError, match="shifted by one"):
        rw.evaluate(q4, images, (labels + 1) % 4, {"mine": mine})
    assert asked == []


def test_an_unknown_training_mean_is_taken_from_the_images_and_told(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.warns(RoadworthyWarning, match="fills use the mean of the images evaluated; pass mean="):
        rw.evaluate(q4, images, labels, ["random"], imputer="mean")
    source = TensorDataset(images, labels)
    with pytest.warns(RoadworthyWarning, match="fills use the mean of the images evaluated; pass mean="):
        found = rw.evaluate(q4, source, None, ["random"], imputer="mean")
    assert found.settings["mean"] == pytest.approx(images.mean(dim=(0, 2, 3)).tolist(), abs=1e-7)


def test_nan_pixels_are_named(q4, q4_data) -> None:
    images, labels = q4_data()
    images[5, 0, 0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN or infinite pixels in samples '5'"):
        rw.evaluate(q4, images, labels, ["random"], imputer="zero")


def test_shares_that_remove_nothing_are_told(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.warns(RoadworthyWarning, match=r"shares \[0\.001\] remove none of 256 units"):
        rw.evaluate(q4, images, labels, ["random"], fractions=(0.001, 0.5))


class Counted(IterableDataset):
    """A stream that knows its length."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.pairs = list(zip(images, labels.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self):
        return iter(self.pairs)


def test_streams_and_odd_arrays(q4, q4_data) -> None:
    images, labels = q4_data()
    wanted = rw.evaluate(q4, images, labels, ["random"]).scores.logit
    odd = images.numpy()[..., ::-1].copy()[..., ::-1]  # negative strides
    assert odd.strides[-1] < 0
    for given, classes in (
        (Counted(images, labels), None),
        (odd, labels.numpy()[::-1].copy()[::-1]),
        (images.numpy().astype(">f4"), labels),
        (images.double(), labels),
    ):
        np.testing.assert_allclose(rw.evaluate(q4, given, classes, ["random"]).scores.logit, wanted, atol=1e-6)


class OneShot(IterableDataset):
    """A stream that hands out one and the same iterator."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.pairs = iter(list(zip(images, labels.tolist(), strict=True)))

    def __iter__(self):
        return self.pairs


def test_a_stream_that_can_be_read_once_is_read_whole(q4, q4_data) -> None:
    images, labels = q4_data(n=100, height=4, width=4)
    assert rw.evaluate(q4, OneShot(images, labels), None, ["random"], max_samples=100).n == 100
    loader = DataLoader(OneShot(images, labels), batch_size=7)
    assert rw.evaluate(q4, loader, None, ["random"], max_samples=100).n == 100


def test_complex_maps_of_a_callable_are_refused(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.raises(AttributionError, match="complex64, expected real numbers"):
        rw.evaluate(q4, images, labels, {"m": lambda m, x, t: x.mean(1).numpy().astype(np.complex64)})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": "a"}, "noise: got 'a'"),
        ({"noise": -1.0}, "noise: got -1.0"),
        ({"classes": 5}, "classes: got 5"),
        ({"max_samples": True}, "max_samples: got True"),
        ({"attributions": {1: "random", "1": "grad"}}, "two names read alike"),
        ({"max_samples": 2.5}, "max_samples: got 2.5"),
        ({"repeats": True}, "repeats: got True"),
        ({"repeats": 0}, "repeats: got 0"),
        ({"sheet": None}, "sheet: got None"),
        ({"max_batch": 0}, "max_batch: got 0"),
        ({"mean": "x"}, "mean: got 'x'"),
        ({"mean": [float("nan")]}, r"mean: got \[nan\]"),
        ({"nonfinite": "no"}, "nonfinite: got 'no'"),
        ({"ids": ["a"] * 8}, "ids: 'a' occurs more than once"),
        ({"ids": [*"abcdefg", "x\udce9"]}, r"ids: 'x\\udce9' holds bytes that are no text; .* os.fsencode"),
        ({"ids": ["a"]}, "ids: 1 ids for 8 samples"),
        ({"target": [0] * 70}, "target: 70 classes for 8 samples"),
        ({"target": [7] * 8}, "target: range from 7 to 7"),
        ({"attributions": []}, "attributions: got none"),
        ({"attributions": {"x": 3}}, "'x' is a int"),
        ({"attributions": {"x": np.zeros((8, 16, 16), complex)}}, "complex"),
        ({"layout": "HWCN"}, "layout: got 'HWCN'"),
    ],
)
def test_arguments_that_do_not_fit_are_named(q4, q4_data, options: dict, message: str) -> None:
    images, labels = q4_data()
    given = {"attributions": ["random"]} | options
    with pytest.raises(InputError, match=message):
        rw.evaluate(q4, images, labels, **given)


def test_numpy_numbers_are_numbers(q4, q4_data) -> None:
    images, labels = q4_data()
    options = {"repeats": np.int64(2), "max_batch": np.int64(4), "mean": np.float32(0.5), "normalize": None}
    assert rw.evaluate(q4, images, labels, ["random"], strategy="road", **options).repeats == 2
    stats = (np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0]))
    assert rw.evaluate(q4, images, labels, ["random"], normalize=stats).n == 8


def test_complex_scores_are_refused(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.raises(ModelError, match="complex"):
        rw.evaluate(lambda x: torch.complex(q4(x), q4(x)), images, labels, ["random"])


def test_a_list_may_mix_names_and_functions(q4, q4_data) -> None:
    images, labels = q4_data()

    def brightness(model, batch, targets):
        return batch.mean(dim=1)

    assert rw.evaluate(q4, images, labels, ["grad", brightness]).methods == ["grad", "brightness"]
    with pytest.raises(InputError, match="two methods have one name"):
        rw.evaluate(q4, images, labels, [brightness, brightness])


def test_blocks_depend_on_the_samples_size_alone() -> None:
    assert block_size((3, 32, 32)) == 64
    assert block_size((3, 224, 224)) == 27
    assert block_size((3, 4000, 6000)) == 1
    stream = Stream(torch.zeros(130, 3, 32, 32), None, ids=None, max_samples=None, layout="NCHW")
    assert [len(batch.ids) for batch in stream.blocks()] == [64, 64, 2]


@pytest.mark.parametrize(
    ("labels", "predicted", "classes", "words", "stop"),
    [
        (np.arange(40) % 4, np.arange(40) % 4, 4, "", False),
        (np.arange(40) % 4, (np.arange(40) + 1) % 4, 4, "add 1 to the labels", True),
        ((np.arange(40) + 1) % 4, np.arange(40) % 4, 4, "subtract 1 from the labels", True),
        (np.arange(40) % 2, 1 - np.arange(40) % 2, 2, "look swapped", True),
        (np.arange(100) % 4, np.zeros(100, int), 4, "not clearly above chance 0.25", True),
        (np.repeat([0, 1], [95, 5]), np.zeros(100, int), 2, "answers class 0 for all 100", False),
        (np.zeros(1, int), np.zeros(1, int), 2, "not clearly above chance", False),
    ],
)
def test_the_intact_verdict(labels, predicted, classes: int, words: str, stop: bool) -> None:
    message, stopped = intact_verdict(labels, predicted, classes)
    assert words in message
    assert bool(words) == bool(message)
    assert stopped is stop
