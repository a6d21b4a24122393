"""What is asked where the caller names no strategy, and the mean that its fill takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import roadworthy as rw
from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.evaluation import Strategy
from roadworthy.evaluation.fill_mean import training_mean
from roadworthy.evaluation.inputs import Stream
from roadworthy.records import STATISTICS_SAMPLE

FILLS = ["mean", "noisy-linear"]
SHARES = (0.2, 0.6)


class Halves(torch.nn.Module):
    """Two classes by the halves of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(36, 2, bias=False)
        with torch.no_grad():
            left = (torch.arange(36) % 6 < 3).float()
            self.layer.weight.copy_(torch.stack([left, 1 - left]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images.flatten(1))


@pytest.fixture
def toy() -> dict[str, Any]:
    images = torch.from_numpy(np.random.default_rng(0).random((40, 1, 6, 6)).astype(np.float32))
    with torch.no_grad():
        labels = Halves()(images).argmax(1)
    return {"images": images, "labels": labels, "maps": {"effect": images[:, 0].numpy()}}


def views(result: rw.evaluation.Result) -> list[tuple[str, str]]:
    return [(view["judge"], view["imputer"]) for view in result.views]


def asked(model: Any, toy: dict[str, Any], **options: Any) -> rw.evaluation.Result:
    settings: dict[str, Any] = {"fractions": SHARES, "mean": [0.5], "audit": "off"} | options
    return rw.evaluate(model, toy["images"], toy["labels"], toy["maps"], **settings)


def test_the_model_as_it_is_in_both_orders_with_two_fills_by_probability(toy) -> None:
    result = asked(Halves().eval(), toy, fractions=None)
    assert views(result) == [("untouched", fill) for fill in FILLS]
    assert result.orders == ["morf", "lerf"]
    assert result.fractions == [0.0, 0.05, 0.1, 0.3, 0.7, 0.9, 0.95]
    assert (result.settings["strategy"], result.settings["training"]) == ("symmetric", "none")
    assert (result.readout, result.average, result.ranking().attrs["readout"]) == (
        "probability",
        "shares",
        "probability",
    )
    p = result.scores.probability.mean(axis=(3, 4), dtype=np.float64)
    by_hand = (p[0, 1, 1:] - p[0, 0, 1:]).mean()
    assert result.ranking()["score"].iloc[0] == pytest.approx(by_hand, abs=1e-7)


def test_it_is_half_of_the_preset_bit_for_bit(toy) -> None:
    """Views do not know of each other: those of the model are the same without the copy's."""
    alone = asked(Halves().eval(), toy)
    whole = asked(Halves().eval(), toy, strategy="symmetric", judge=Halves().eval())
    np.testing.assert_array_equal(alone.scores.logit, whole.scores.logit[:, :, :, :2])


def test_with_training_samples_a_copy_is_asked_too(toy) -> None:
    model = Halves().eval()
    before = model.layer.weight.clone()
    train = (toy["images"], toy["labels"])
    unnamed, named = (asked(model, toy, train=train, strategy=name) for name in (None, "symmetric"))
    assert views(unnamed) == [(judge, fill) for judge in ("untouched", "fine-tuned") for fill in FILLS]
    assert unnamed.settings["training"] == "none + finetune"
    np.testing.assert_array_equal(unnamed.scores.logit, named.scores.logit)
    assert torch.equal(model.layer.weight, before)


@pytest.mark.parametrize("plain", [False, True], ids=["module", "callable"])
def test_a_judge_is_always_asked(toy, plain: bool) -> None:
    model = Halves().eval()
    result = asked(model.forward if plain else model, toy, judge=Halves().eval())
    assert [judge for judge, _ in views(result)] == ["untouched"] * 2 + ["fine-tuned"] * 2


class Fixed(torch.nn.Module):
    """No parameters: nothing to fine-tune."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return Halves()(images)


@pytest.mark.parametrize(
    ("model", "options", "why"),
    [
        (lambda x: Halves()(x).detach(), {}, "a function cannot be fine-tuned"),
        (Fixed(), {}, "it has no parameters to fine-tune"),
        (Halves(), {"layout": "NHWC"}, "fine-tuning takes channels first"),
    ],
    ids=["callable", "no parameters", "channels last"],
)
def test_where_no_copy_can_be_made_the_model_is_asked_as_it_is_and_it_is_told(toy, model, options, why: str) -> None:
    if options:
        toy |= {"images": toy["images"].movedim(1, -1)}
    with pytest.warns(RoadworthyWarning, match=f"train: the model was asked as it is, and no copy of it: {why}"):
        result = asked(model, toy, train=(toy["images"], toy["labels"]), **options)
    assert views(result) == [("untouched", fill) for fill in FILLS]
    assert result.settings["training"] == "none"


def test_a_named_strategy_is_taken_at_its_word(toy) -> None:
    with pytest.raises(
        InputError, match=r"needs train= .* or judge= .* Without strategy= the model is asked as it is"
    ):
        asked(Halves().eval(), toy, strategy="symmetric")
    road = asked(Halves().eval(), toy, strategy="road", train=(toy["images"], toy["labels"]))
    assert views(road) == [("untouched", "noisy-linear")]
    with pytest.raises(ModelError, match="expected a torch.nn.Module"):
        asked(lambda x: Halves()(x), toy, strategy="symmetric", train=(toy["images"], toy["labels"]))


def test_changes_hold_for_the_default_too(toy) -> None:
    result = asked(Halves().eval(), toy, imputer="zero", order="lerf", sign="abs", repeats=3)
    assert (views(result), result.orders, result.repeats) == ([("untouched", "zero")], ["lerf"], 3)
    assert result.settings["sign"] == "abs"


def test_token_ids_take_a_mask_token_and_no_copy() -> None:
    tokens, labels = torch.arange(40).view(20, 2) % 7, torch.arange(20) % 2
    model = torch.nn.Sequential(torch.nn.Embedding(8, 2), torch.nn.Flatten(), torch.nn.Linear(4, 2))
    maps, options = {"m": np.arange(40.0).reshape(20, 2)}, {"intact_check": "warn", "audit": "off"}
    for source in ((tokens, labels), (DataLoader(TensorDataset(tokens, labels)), None)):
        with pytest.raises(
            InputError, match=r"imputer 'mean': token ids have no mean; pass imputer=.*MaskToken\(id\)"
        ):
            rw.evaluate(model, *source, maps, **options)
        with pytest.warns(RoadworthyWarning, match="no copy of it: a copy cannot be fine-tuned on token ids"):
            result = rw.evaluate(
                model, *source, maps, imputer=rw.imputation.MaskToken(7), train=(tokens, labels), **options
            )
        assert views(result) == [("untouched", "mask-token")]


def test_a_table_is_told_which_fills_it_takes() -> None:
    table = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32))
    model = torch.nn.Linear(5, 2)
    with torch.no_grad():
        labels = model(table).argmax(1)
    given = (model, table, labels, {"m": table.numpy()})
    with pytest.raises(InputError, match="noisy-linear: .*Use imputer='mean' or 'zero'"):
        rw.evaluate(*given)
    with pytest.raises(InputError, match="noisy-linear: .*Use imputer='mean' or 'zero'"):
        rw.evaluate(*given, train=(table, labels))
    result = rw.evaluate(*given, imputer="mean", train=(table, labels), fractions=SHARES)
    assert views(result) == [("untouched", "mean"), ("fine-tuned", "mean")]


# the mean of images that are not in memory


class Counting(TensorDataset):
    """Counts the samples that are read."""

    read = 0

    def __getitem__(self, index: int) -> Any:
        self.read += 1
        return super().__getitem__(index)


def once(images: torch.Tensor, labels: torch.Tensor) -> IterableDataset:
    class Once(IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return iter(zip(images, labels.tolist(), strict=True))

    return Once()


def test_a_loader_gives_the_mean_of_its_images(toy) -> None:
    loader = DataLoader(TensorDataset(toy["images"], toy["labels"]), batch_size=7, shuffle=True)
    maps = ["random"]
    with pytest.warns(RoadworthyWarning, match="fills use the mean of the images evaluated; pass mean="):
        result = rw.evaluate(Halves().eval(), loader, None, maps, fractions=SHARES, audit="off")
    assert result.settings["mean"] == pytest.approx([float(toy["images"].double().mean())], abs=1e-9)
    assert views(result) == [("untouched", fill) for fill in FILLS]


def test_a_stream_that_can_be_read_once_gives_the_mean_of_its_first_block_and_loses_none() -> None:
    images = torch.from_numpy(np.random.default_rng(0).random((100, 1, 6, 6)).astype(np.float32))
    with torch.no_grad():
        labels = Halves()(images).argmax(1)
    with pytest.warns(RoadworthyWarning, match="the mean of the first 64 of the images evaluated"):
        result = rw.evaluate(
            Halves().eval(), once(images, labels), None, ["random"], fractions=SHARES, audit="off", max_samples=100
        )
    assert result.ids == [str(row) for row in range(100)]
    assert result.scores.labels.tolist() == labels.tolist()
    assert result.settings["mean"] == pytest.approx([float(images[:64].double().mean())], abs=1e-9)


def test_a_split_gives_its_own_statistics_and_what_is_known_is_not_read_again(toy) -> None:
    images, labels = toy["images"], toy["labels"]
    split = rw.load_data("planted:n=8,test=6").test
    stream = Stream(split, None, ids=None, max_samples=None, layout="NCHW")
    assert training_mean(None, None, Halves(), stream, needed=True)[0] == pytest.approx(split.statistics()[0])
    source = Counting(images, labels)
    stream = Stream(source, None, ids=None, max_samples=None, layout="NCHW")
    assert training_mean([0.5], None, Halves(), stream, needed=True) == ([0.5], "given")
    assert training_mean(None, None, Halves(), stream) == (None, "unknown")
    assert source.read == 0


def test_no_more_images_are_read_than_a_mean_needs() -> None:
    n = STATISTICS_SAMPLE + 500
    source = Counting(torch.arange(n, dtype=torch.float32).view(n, 1, 1, 1) / n, torch.zeros(n))
    stream = Stream(source, None, ids=None, max_samples=None, layout="NCHW")
    mean, which = training_mean(None, None, Halves(), stream, needed=True)
    assert source.read < n
    seen = int(which.split()[2])
    assert STATISTICS_SAMPLE <= seen < n
    assert mean == pytest.approx([(seen - 1) / 2 / n], abs=1e-7)


def test_channels_last_have_the_mean_of_their_channels() -> None:
    images = torch.rand(10, 4, 5, 3, generator=torch.Generator().manual_seed(0))
    source = TensorDataset(images, torch.zeros(10))
    stream = Stream(source, None, ids=None, max_samples=None, layout="NHWC")
    mean, _ = training_mean(None, None, Halves(), stream, needed=True)
    assert mean == pytest.approx(images.double().mean(dim=(0, 1, 2)).tolist(), abs=1e-7)


def test_the_first_block_can_be_seen_as_often_as_one_likes() -> None:
    images = torch.arange(70.0).view(70, 1, 1, 1)
    stream = Stream(once(images, torch.zeros(70)), None, ids=None, max_samples=70, layout="NCHW")
    assert stream.first().images.flatten().tolist() == stream.first().images.flatten().tolist() == list(range(64))
    assert torch.cat([block.images for block in stream.blocks()]).flatten().tolist() == list(range(70))
    nothing = Stream(once(images[:0], torch.zeros(0)), None, ids=None, max_samples=5, layout="NCHW")
    with pytest.raises(InputError, match="no sample could be read"):
        nothing.first()


def test_the_strategy_without_a_name_says_what_it_is() -> None:
    assert Strategy.of("symmetric").settings() != rw.evaluation.default_strategy().settings()
    assert rw.evaluation.default_strategy(fine_tuned=True) == Strategy.of("symmetric")
    assert rw.evaluation.default_strategy() == Strategy.of("symmetric", training="none")
