"""The training loop against a closed-form step, against itself interrupted, and against what it must not touch."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError, SolverError
from roadworthy.model import Recipe, fit
from roadworthy.model.feed import Feed
from roadworthy.records import Split
from roadworthy.rng import seeded_globals, torch_generator

Make = Callable[..., Split]
pytestmark = pytest.mark.filterwarnings("ignore:.*samples could not be read")


def net(channels: int = 1, classes: int = 2, dropout: float = 0.3) -> nn.Sequential:
    with seeded_globals(4, "init"):
        return nn.Sequential(
            nn.Conv2d(channels, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(64, classes),
        )


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def by_hand(
    x: np.ndarray, y: np.ndarray, w: np.ndarray, b: np.ndarray, batches: list[np.ndarray], recipe: Recipe
) -> tuple[np.ndarray, np.ndarray, float]:
    """Train softmax regression with Nesterov momentum in float64, from the formulas; return also the mean loss."""
    steps, speeds, total = len(batches), [np.zeros_like(w), np.zeros_like(b)], 0.0
    classes = len(b)
    for step, rows in enumerate(batches):
        logits = x[rows] @ w.T + b
        shifted = np.exp(logits - logits.max(1, keepdims=True))
        probability = shifted / shifted.sum(1, keepdims=True)
        wanted = np.full_like(probability, recipe.label_smoothing / classes)
        wanted[np.arange(len(rows)), y[rows]] += 1 - recipe.label_smoothing
        total += float(-(wanted * np.log(probability)).sum())
        slope = (probability - wanted) / len(rows)
        rate = recipe.rate(step / steps)
        for number, (value, grad) in enumerate([(w, slope.T @ x[rows]), (b, slope.sum(0))]):
            grad = grad + (recipe.weight_decay * value if number == 0 else 0)  # biases do not decay
            speeds[number] = recipe.momentum * speeds[number] + grad
            value -= rate * (grad + recipe.momentum * speeds[number])
    return w, b, total / len(x)


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle"])
def test_an_epoch_of_softmax_regression_against_the_formulas(schedule: Any) -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(50, 5)).astype(np.float32), rng.integers(0, 3, 50)
    recipe = Recipe(
        epochs=1,
        learning_rate=0.5,
        batch_size=8,
        weight_decay=0.1,
        label_smoothing=0.1,
        schedule=schedule,
        warmup_epochs=0.3,
    )
    model = nn.Linear(5, 3)
    train = (torch.from_numpy(x), torch.from_numpy(y))
    order = torch_generator(9, "fit-order", 0)
    rows = torch.arange(50)
    batches = [part.numpy() for _, part in Feed((train[0], rows), 10**9).epoch(recipe, order)]
    assert [len(part) for part in batches] == [8] * 6 + [2]
    w, b = (p.detach().double().numpy().copy() for p in (model.weight, model.bias))
    stats = ([0.1] * 5, [2.0] * 5)
    w, b, loss = by_hand((x.astype(np.float64) - 0.1) / 2, y, w, b, batches, recipe)
    history = fit(model, train, recipe=recipe, seed=9, normalize=stats)
    assert np.allclose(model.weight.detach().numpy(), w, atol=1e-6)
    assert np.allclose(model.bias.detach().numpy(), b, atol=1e-6)
    assert history.loss[0] == pytest.approx(loss, rel=1e-5)


def test_weights_of_norms_and_biases_do_not_decay() -> None:
    model = nn.Sequential(nn.LayerNorm((1, 2, 2)), nn.Flatten(), nn.Linear(4, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    # constant images normalise to 0, so that only the bias of the classifier has a gradient; equal labels cancel it
    train = (torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 0, 1]))
    model[0].bias.data.zero_()
    fit(model, train, recipe=Recipe(epochs=1, learning_rate=0.1, batch_size=4, momentum=0, weight_decay=0.5))
    assert torch.equal(model[0].weight, torch.ones(1, 2, 2))  # has axes like a convolution, and is none
    assert torch.equal(model[2].bias, torch.ones(2))
    assert torch.allclose(model[2].weight, torch.full((2, 4), 1 - 0.1 * 0.5))


class TestLearning:
    recipe = Recipe(epochs=6, learning_rate=0.1, batch_size=8)

    @pytest.mark.parametrize(("channels", "classes"), [(1, 2), (3, 4), (5, 8)])
    def test_any_channels_and_classes(self, make_split: Make, channels: int, classes: int) -> None:
        history = fit(
            net(channels, classes, 0.0), make_split(64, channels=channels, classes=classes), recipe=self.recipe
        )
        assert history.accuracy[-1] >= 0.95
        assert history.loss[-1] < history.loss[0]
        assert len(history.seconds) == 6

    def test_same_seed_same_bits_other_seed_other_weights(self, make_split: Make) -> None:
        found = []
        for seed in (0, 0, 1):
            model = net()
            fit(model, make_split(), recipe=self.recipe, seed=seed)
            found.append(weights(model))
        assert equal(found[0], found[1])
        assert not equal(found[0], found[2])

    def test_a_generator_as_seed(self, make_split: Make) -> None:
        found = []
        for _ in range(2):
            model = net()
            fit(model, make_split(), recipe=self.recipe, seed=torch.Generator().manual_seed(5))
            found.append(weights(model))
        assert equal(*found)

    def test_a_split_equals_its_tensors(self, make_split: Make) -> None:
        one, other, split = net(), net(), make_split()
        fit(one, split, recipe=self.recipe)
        fit(other, (split.images.numpy(), split.labels.to(torch.int16)[:, None]), recipe=self.recipe)
        assert equal(weights(one), weights(other))

    def test_streamed_data_are_learnt_too(self, make_split: Make) -> None:
        model = net(dropout=0.0)
        history = fit(model, make_split(64, broken=[5]), recipe=self.recipe, memory=0)
        assert history.accuracy[-1] >= 0.95

    def test_outputs_that_are_no_tensor(self, make_split: Make) -> None:
        class Pair(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = net()

            def forward(self, images: torch.Tensor) -> Any:
                return None, self.body(images)

        assert len(fit(Pair(), make_split(), recipe=self.recipe, output=1).loss) == 6
        with pytest.raises(ModelError, match="Pass output="):
            fit(Pair(), make_split(), recipe=self.recipe)

    def test_bfloat16_on_demand(self, make_split: Make) -> None:
        model, plain = net(dropout=0.0), net(dropout=0.0)
        recipe = Recipe(epochs=6, learning_rate=0.1, batch_size=8, bf16=True)
        assert fit(model, make_split(), recipe=recipe).accuracy[-1] >= 0.95
        fit(plain, make_split(), recipe=self.recipe)
        assert all(value.dtype != torch.bfloat16 for value in model.state_dict().values())
        assert not equal(weights(model), weights(plain))

    def test_augmentation_is_drawn_anew_each_epoch(self) -> None:
        model, seen = net(dropout=0.0), list[torch.Tensor]()
        model[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
        recipe = Recipe(epochs=8, learning_rate=0.1, flip=True, crop_padding=2)
        fit(model, (torch.rand(1, 1, 8, 8), torch.tensor([1])), recipe=recipe)
        assert len({tuple(images.flatten().tolist()) for images in seen}) > 4

    def test_one_sample(self) -> None:
        history = fit(net(dropout=0.0), (torch.rand(1, 1, 8, 8), torch.tensor([1])), recipe=self.recipe)
        assert history.accuracy[-1] == 1.0


class TestUntouched:
    recipe = Recipe(epochs=2, learning_rate=0.1, batch_size=8, flip=True, crop_padding=1)

    def test_flags_frozen_weights_inputs_and_global_rng(self, make_split: Make) -> None:
        model = net().eval()
        model[5].train()
        model[0].weight.requires_grad_(False)
        frozen = model[0].weight.clone()
        images, labels = make_split().images.clone(), make_split().labels
        kept = images.clone()
        states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        fit(model, (images, labels), recipe=self.recipe)
        assert torch.equal(torch.get_rng_state(), states[0])
        assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
        assert random.getstate() == states[2]
        assert [part.training for part in model] == [False] * 5 + [True, False]
        assert torch.equal(model[0].weight, frozen)
        assert all(parameter.grad is None for parameter in model.parameters())
        assert torch.equal(images, kept)

    def test_flags_after_an_error_and_inside_no_grad(self, make_split: Make) -> None:
        def stop(_: int) -> None:
            raise KeyboardInterrupt

        model = net().eval()
        with torch.no_grad(), pytest.raises(KeyboardInterrupt):
            fit(model, make_split(), recipe=self.recipe, progress=stop)
        assert not any(part.training for part in model.modules())
        assert all(parameter.grad is None for parameter in model.parameters())

    def test_the_batch_order_is_free_of_the_global_generators(self, make_split: Make) -> None:
        found = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            model = net()
            fit(model, make_split(), recipe=self.recipe)
            found.append(weights(model))
        assert equal(*found)


class TestCheckpoint:
    recipe = Recipe(epochs=4, learning_rate=0.1, batch_size=8, flip=True, crop_padding=1, label_smoothing=0.1)

    @pytest.mark.parametrize("memory", [10**9, 0])
    @pytest.mark.parametrize("stop_after", [1, 45, 80, 119])
    def test_interrupted_and_resumed_is_the_same_to_the_bit(
        self, make_split: Make, tmp_path: Path, memory: int, stop_after: int
    ) -> None:
        whole = net()
        expected = fit(whole, make_split(broken=[7]), recipe=self.recipe, seed=3, memory=memory)
        seen = 0

        def interrupt(done: int) -> None:
            nonlocal seen
            seen += done
            if seen > stop_after:
                raise KeyboardInterrupt

        path = tmp_path / "runs" / "a.pt"
        with pytest.raises(KeyboardInterrupt):
            fit(
                net(),
                make_split(broken=[7]),
                recipe=self.recipe,
                seed=3,
                memory=memory,
                checkpoint=path,
                progress=interrupt,
            )
        resumed, reported = net(), []
        history = fit(
            resumed,
            make_split(broken=[7]),
            recipe=self.recipe,
            seed=3,
            memory=memory,
            checkpoint=path,
            progress=reported.append,
        )
        assert history.resumed == stop_after // (40 if memory == 0 else 39)
        assert equal(weights(resumed), weights(whole))
        assert history.loss == expected.loss
        assert history.accuracy == expected.accuracy
        assert sum(reported) == 4 * (40 if memory == 0 else 39)

    def test_a_finished_run_is_read_not_repeated(self, make_split: Make, tmp_path: Path) -> None:
        one, other = net(), net()
        first = fit(one, make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt")
        stamp = (tmp_path / "a.pt").stat().st_mtime_ns
        again = fit(other, make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt")
        assert equal(weights(one), weights(other))
        assert (again.loss, again.seconds, again.resumed) == (first.loss, first.seconds, 4)
        assert (tmp_path / "a.pt").stat().st_mtime_ns == stamp
        assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]

    def test_the_file_needs_no_pickle(self, make_split: Make, tmp_path: Path) -> None:
        fit(net(), make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt", normalize=([0.5], [0.2]))
        assert torch.load(tmp_path / "a.pt", weights_only=True)["run"]["recipe"]["epochs"] == 4

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"seed": 1}, "these differ: seed"),
            ({"recipe": Recipe(epochs=5, learning_rate=0.1)}, "these differ: recipe"),
            ({"normalize": ([0.5], [0.5])}, "these differ: normalize"),
            ({"n": 41}, "these differ: data"),
            ({"classes": 4}, "these differ: data, model"),
        ],
    )
    def test_of_another_run(self, make_split: Make, tmp_path: Path, change: dict[str, Any], message: str) -> None:
        fit(net(), make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt")
        classes = change.pop("classes", 2)
        train = make_split(change.pop("n", 40), classes=classes)
        with pytest.raises(ModelError, match=message):
            fit(net(classes=classes), train, checkpoint=tmp_path / "a.pt", **{"recipe": self.recipe, **change})

    @pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
    def test_damaged(self, make_split: Make, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a.pt").write_bytes(content)
        with pytest.raises(ModelError, match=r"a\.pt' cannot be read.*delete it"):
            fit(net(), make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt")

    def test_other_tensors_in_a_file_that_loads(self, make_split: Make, tmp_path: Path) -> None:
        torch.save({"weights": torch.zeros(2)}, tmp_path / "a.pt")
        with pytest.raises(ModelError, match="cannot be read.*delete it"):
            fit(net(), make_split(), recipe=self.recipe, checkpoint=tmp_path / "a.pt")


class TestRefused:
    recipe = Recipe(epochs=1, learning_rate=0.1, batch_size=8)

    def test_a_callable(self, make_split: Make) -> None:
        with pytest.raises(ModelError, match="got function, expected a torch.nn.Module"):
            fit(lambda images: images, make_split(), recipe=self.recipe)  # type: ignore[arg-type]

    def test_nothing_to_train(self, make_split: Make) -> None:
        with pytest.raises(ModelError, match="Linear has no parameters that require gradients"):
            fit(nn.Linear(2, 2).requires_grad_(False), make_split(), recipe=self.recipe)

    def test_labels_beyond_the_classes(self, make_split: Make) -> None:
        with pytest.raises(InputError, match="labels go to 3, the model has 2 classes"):
            fit(net(), make_split(classes=4), recipe=self.recipe)

    def test_a_device_that_is_not_there(self, make_split: Make) -> None:
        if torch.cuda.is_available():
            pytest.skip("there is a CUDA device")
        with pytest.raises(InputError, match="no CUDA device is available"):
            fit(net(), make_split(), recipe=self.recipe, device="cuda")

    def test_a_loss_that_is_not_finite(self) -> None:
        train = (torch.full((8, 1, 8, 8), float("inf")), torch.arange(8) % 2)
        with pytest.raises(
            SolverError, match=r"the loss is nan in epoch 1 after 8 samples .*0\.1.*lower the learning"
        ):
            fit(net(), train, recipe=self.recipe)
