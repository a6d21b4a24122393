"""The recipes that ship, against the published tables; and recipes of your own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from roadworthy.errors import InputError
from roadworthy.model import Recipe, load_recipe, recipes
from roadworthy.model.optimizer import sgd

# Hooker et al. 2019, published code: training images, then what follows from its parameters
TABLE = {
    "imagenet": (1_281_167, 4096, 32_000, 1.6, 312.8, 102.3, 1564, [9384, 18767, 25023]),
    "food101": (75_750, 256, 20_000, 0.7, 295.9, 67.6, 1479, [8877, 17754, None]),
    "birdsnap": (47_386, 256, 20_000, 1.0, 185.1, 108.05, 926, [5553, 11106, 14808]),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_published_table(name: str) -> None:
    samples, batch, steps, peak, per_epoch, epochs, warm, changes = TABLE[name]
    recipe = load_recipe(name)
    table = recipe.timetable(samples)
    assert recipe.batch_size == batch
    assert table.steps == steps
    assert table.peak_rate == recipe.peak_rate == pytest.approx(peak, rel=1e-12)
    assert table.steps_per_epoch == pytest.approx(per_epoch, abs=0.06)
    assert table.epochs == pytest.approx(epochs, abs=0.06)
    assert table.warmup_end == warm
    assert [step for _, step in table.changes[1:]] == changes
    assert [multiplier for multiplier, _ in table.changes] == [1.0, 0.1, 0.01, 0.001]
    assert table.work == steps * batch


@pytest.mark.parametrize("name", TABLE)
def test_the_published_rate_at_every_step(name: str) -> None:
    """The rate against the published rule, written out: multiplier by epoch = step / (images / batch)."""
    samples, batch, steps, peak, *_ = TABLE[name]
    recipe = load_recipe(name)
    table = recipe.timetable(samples)
    for step in range(0, steps, 37):
        epoch = step / (samples / batch)
        factor = next(
            factor for start, factor in ((80, 1e-3), (60, 1e-2), (30, 0.1), (5, 1), (0, None)) if epoch >= start
        )
        expected = peak * (epoch / 5 if factor is None else factor)
        assert recipe.rate(step / table.steps_per_epoch, length=table.epochs) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", TABLE)
def test_other_published_settings(name: str) -> None:
    recipe = load_recipe(name)
    assert (recipe.momentum, recipe.nesterov, recipe.weight_decay) == (0.9, True, 1e-4)
    assert (recipe.label_smoothing, recipe.decay_biases, recipe.flip) == (0.1, True, True)
    assert recipe.random_resized_crop == (0.08, 1.0)
    assert recipe.aspect == pytest.approx((3 / 4, 4 / 3))
    assert recipe.interpolation == "bicubic"


@pytest.mark.slow
def test_decay_reaches_the_published_number_of_parameters() -> None:
    import torchvision

    groups = sgd(torchvision.models.resnet50(), load_recipe("imagenet")).param_groups
    assert [group["weight_decay"] for group in groups] == [1e-4, 0.0]
    counts = [sum(p.numel() for p in group["params"]) for group in groups]
    assert counts == [25_503_912, 25_557_032 - 25_503_912]


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("cifar10-road", {0: 0.01, 24: 0.01, 25: 0.001, 39: 0.001}),
        ("food101-road", {0: 0.01, 9: 0.01, 10: 1e-3, 20: 1e-4, 39: 1e-5}),
    ],
)
def test_the_recipes_of_the_road_paper(name: str, rates: dict[int, float]) -> None:
    recipe = load_recipe(name)
    assert {epoch: recipe.rate(epoch) for epoch in rates} == pytest.approx(rates)
    assert (recipe.epochs, recipe.batch_size, recipe.momentum) == (40, 32, 0.9)
    assert (recipe.nesterov, recipe.weight_decay, recipe.label_smoothing) == (False, 0.0, 0.0)
    assert not recipe.flip
    assert recipe.random_resized_crop is None


def test_plain_momentum_against_torch() -> None:
    net = nn.Linear(2, 2)
    assert not sgd(net, load_recipe("cifar10-road")).defaults["nesterov"]
    assert sgd(net, load_recipe("imagenet")).defaults["nesterov"]


def test_biases_of_norms_never_decay() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2))
    for decays, shapes in ((True, {(2, 1, 3, 3), (2,), (2, 2)}), (False, {(2, 1, 3, 3), (2, 2)})):
        recipe = Recipe(epochs=1, learning_rate=0.1, weight_decay=0.1, decay_biases=decays)
        decayed, plain = (group["params"] for group in sgd(net, recipe).param_groups)
        assert {tuple(p.shape) for p in decayed} == shapes
        assert {id(p) for p in net[1].parameters()} <= {id(p) for p in plain}


class TestLoading:
    def test_every_recipe_has_a_description_and_comes_back(self) -> None:
        assert {"imagenet", "birdsnap", "food101", "cifar10-road", "food101-road", "digits", "fast-cifar"} <= set(
            recipes
        )
        for name in recipes:
            assert recipes.describe(name)
            assert load_recipe(name) == recipes[name] == load_recipe(recipes[name])
            assert load_recipe(json.loads(json.dumps(asdict(recipes[name])))) == recipes[name]

    def test_changes_and_a_base(self, tmp_path: Path) -> None:
        assert load_recipe("digits", epochs=3).epochs == 3
        changed = load_recipe({"base": "imagenet", "weight_decay": "1e-5", "description": "mine"}, batch_size=256)
        assert (changed.peak_rate, changed.weight_decay, changed.total_steps) == (0.1, 1e-5, 32_000)
        (tmp_path / "mine.yaml").write_text("base: food101\nepochs: 7\nweight_decay: 1e-3\n")
        from_file = load_recipe(tmp_path / "mine.yaml")
        assert (from_file.epochs, from_file.total_steps, from_file.weight_decay) == (7, 0, 1e-3)
        assert load_recipe({"base": str(tmp_path / "mine.yaml"), "total_steps": 5}).epochs == 0

    def test_a_schedule_puts_the_steps_of_the_base_away(self) -> None:
        assert load_recipe("cifar10-road", schedule="cosine").steps == ()
        stepped = load_recipe("digits", steps=[[6, 0.1]])
        assert (stepped.schedule, stepped.steps) == ("steps", ((6, 0.1),))

    @pytest.mark.parametrize(
        ("spec", "changes", "message"),
        [
            ("imagnet", {}, "Unknown recipe 'imagnet'. Did you mean 'imagenet'?"),
            ("digits", {"epoch": 3}, "Unknown recipe setting 'epoch'. Did you mean 'epochs'?"),
            ({"base": "digits", "momentun": 3}, {}, "Unknown recipe setting 'momentun'. Did you mean 'momentum'?"),
            ({"epochs": 3}, {}, "has no learning_rate; give one, or base="),
            (3, {}, "got int, expected a name, the path"),
            ("missing.yaml", {}, "missing.yaml: there is no such file"),
            ("digits", {"learning_rate": "fast"}, "learning_rate is 'fast', expected a number"),
            ("digits", {"flip": "yes"}, "flip is 'yes', expected true or false"),
            ("digits", {"steps": [[1, 2, 3]]}, r"expected pairs \(epoch, multiplier\)"),
            ("digits", {"bf16": "auto"}, "bf16 is 'auto', expected true, false or null"),
            ("digits", {"epochs": 5, "total_steps": 5}, "both epochs=5 and total_steps=5"),
        ],
    )
    def test_refused(self, spec: Any, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_recipe(spec, **changes)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("- 1\n", "mine.yaml: got a list, expected keys and values"),
            ("a: [", "mine.yaml, line 1, column"),
            ("a: " + "[" * 5000, "nested too deeply"),
            ("base: digits\nepochs: 3\nepochs: 30\n", "line 3, column 1: the key 'epochs' is there twice"),
            ("base: digits\nsteps: &a [[1, .1]]\nx: *a\n", "aliases are not read here"),
            ("#" * 2**20 + "\n", "larger than 1048576 bytes"),
            ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
            ("base: mine.yaml\n", "is its own base"),
        ],
    )
    def test_files_that_are_no_recipe(
        self, tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("mine.yaml").write_text(text)
        with pytest.raises(InputError, match=message):
            load_recipe("mine.yaml")


def test_names_of_results_stay_when_settings_are_added() -> None:
    described = Recipe(epochs=2, learning_rate=0.1).described()
    assert set(described) == {
        *("epochs", "learning_rate", "batch_size", "momentum", "weight_decay", "label_smoothing", "schedule"),
        *("warmup_epochs", "steps", "flip", "crop_padding", "drop_last", "bf16"),
    }
    assert Recipe(epochs=2, learning_rate=0.1, nesterov=False).described() == {**described, "nesterov": False}


def test_the_files_are_in_the_package() -> None:
    from importlib.resources import files

    assert files("roadworthy.model").joinpath("recipes", "imagenet.yaml").is_file()
