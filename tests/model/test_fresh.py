"""Models with fresh weights: from the seed alone, of what load_model gives, and never trained."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.model import load_model, reset, untrained
from roadworthy.records import Data

Make = Callable[..., Data]


def equal(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))


class Bound(nn.Module):
    """Holds a parameter of its own, with no way to draw it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.inner = nn.Linear(3, 3)


class Outer(nn.Module):
    """Starts its last layer at zero, whatever that layer does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.last.weight)


class TestUntrained:
    @pytest.mark.parametrize(
        "spec", ["digits-cnn", "small-cnn", "resnet18-cifar", "torchvision:resnet18", "timm:resnet18"]
    )
    def test_what_load_model_gives_with_weights_of_the_seed(self, make_data: Make, spec: str, tmp_path: Path) -> None:
        data = make_data(channels=3, classes=4, size=32, n=8)
        if spec.startswith("timm"):
            pytest.importorskip("timm")
        with warnings.catch_warnings():
            warnings.simplefilter("error", RoadworthyWarning)
            one, again, other = (untrained(spec, data, seed=seed) for seed in (1, 1, 2))
        assert equal(one, again)
        assert not equal(one, other)
        assert not any(part.training for part in one.modules())
        assert one(torch.rand(2, 3, 32, 32)).shape == (2, 4)
        if ":" in spec:
            with pytest.warns(RoadworthyWarning, match="no weights were given"):
                loaded = load_model(spec, data, seed=1)
            assert equal(one, loaded)
            assert one.pixel_mean == loaded.pixel_mean
        else:
            assert one.pixel_mean == pytest.approx(data.mean)
            with pytest.warns(RoadworthyWarning, match="untrained"):
                bare = load_model(spec, seed=1, classes=4, normalize=(data.mean, data.std))
            assert equal(one, bare)

    def test_settings(self, make_data: Make) -> None:
        assert untrained("digits-cnn", classes=7)(torch.rand(2, 1, 8, 8)).shape == (2, 7)
        assert not hasattr(untrained("digits-cnn", make_data(), normalize=None), "pixel_mean")
        assert untrained(small, normalize=([0.5], [0.25])).pixel_std == (0.25,)

    def test_global_generators_are_left_alone(self) -> None:
        state = torch.get_rng_state()
        untrained(small)
        untrained("digits-cnn")
        untrained(small())  # building it draws; the copy does not
        with torch.random.fork_rng():
            torch.set_rng_state(state)
            small()
            expected = torch.get_rng_state()
        assert torch.equal(torch.get_rng_state(), expected)

    @pytest.mark.parametrize("build", [small, Outer, lambda: small()])
    def test_functions_and_classes(self, build: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RoadworthyWarning)
            one, again, other = (untrained(build, seed=seed) for seed in (1, 1, 2))
        assert equal(one, again)
        assert not equal(one, other)

    def test_a_factory_by_address(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "my_fresh_nets.py").write_text(
            "from torch import nn\n"
            "def make():\n    return nn.Linear(2, 2)\n"
            "held = nn.Linear(2, 2)\n"
            "def same():\n    return held\n"
            "def function():\n    return lambda images: images\n"
        )
        monkeypatch.chdir(tmp_path)
        try:
            one, again, other = (untrained("my_fresh_nets:make", seed=seed) for seed in (1, 1, 2))
            assert equal(one, again)
            assert not equal(one, other)
            with pytest.warns(RoadworthyWarning, match="returns the same weights whatever the seed"):
                one, other = (untrained("my_fresh_nets:same", seed=seed) for seed in (1, 2))
            assert not equal(one, other)
            assert one is not sys.modules["my_fresh_nets"].held
            with pytest.raises(ModelError, match="returned function; only a torch.nn.Module can be trained"):
                untrained("my_fresh_nets:function")
        finally:
            sys.modules.pop("my_fresh_nets", None)

    def test_a_module_that_exists(self) -> None:
        model = small().eval()
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        one, other = untrained(model, seed=1), untrained(model, seed=2)
        assert equal(one, reset(model, 1))
        assert not equal(one, other)
        assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())

    def test_refused(self) -> None:
        with pytest.raises(InputError, match="Did you mean 'digits-cnn'"):
            untrained("digit-cnn")
        with pytest.raises(InputError, match="classes: got 1"):
            untrained("digits-cnn", classes=1)
        with pytest.raises(ModelError, match="returned dict; only a torch.nn.Module"):
            untrained(dict)


class TestReset:
    def test_every_layer_and_every_running_statistic(self) -> None:
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
            nn.LayerNorm(144),
            nn.Linear(144, 3),
        )
        with torch.no_grad():
            for value in model.state_dict().values():
                value.fill_(9)
        fresh = reset(model, seed=3)
        for name, value in fresh.state_dict().items():
            assert not bool((value == 9).any()), name
        assert torch.equal(fresh[1].running_var, torch.ones(4))
        assert int(fresh[1].num_batches_tracked) == 0
        assert all(bool((value == 9).all()) for value in model.state_dict().values())
        # the layers' own initialisation, bounded by 1 / sqrt(fan in)
        assert float(fresh[5].weight.detach().abs().max()) <= 144**-0.5
        assert float(fresh[5].weight.detach().std()) == pytest.approx(144**-0.5 / 3**0.5, rel=0.2)

    def test_attention_and_whole_networks(self) -> None:
        import torchvision

        attention = nn.MultiheadAttention(8, 2)
        assert not equal(reset(attention, 0), attention)
        model = torchvision.models.resnet18()
        one, again = reset(model, 1), reset(model, 1)
        assert equal(one, again)
        assert not torch.equal(one.fc.weight, model.fc.weight)

    def test_frozen_weights_and_gradients_of_the_copy(self) -> None:
        model = small().requires_grad_(False)
        model[1].weight.grad = torch.ones_like(model[1].weight)
        fresh = reset(model)
        assert all(p.requires_grad and p.grad is None for p in fresh.parameters())
        assert not any(p.requires_grad for p in model.parameters())
        assert model[1].weight.grad is not None

    def test_what_an_outer_part_does_stands(self) -> None:
        model = Outer()
        with torch.no_grad():
            model.last.weight.fill_(1)
        fresh = reset(model, 5)
        assert torch.equal(fresh.last.weight, torch.zeros(3, 3))
        assert not torch.equal(fresh.first.weight, model.first.weight)

    def test_parts_that_cannot_be_drawn_are_named(self) -> None:
        with pytest.raises(ModelError, match=r"parts of Sequential hold .*: '0'\. Give them one, or pass build="):
            reset(nn.Sequential(Bound(), nn.Linear(3, 3)))
        with pytest.raises(ModelError, match="parts of Bound hold .*: 'Bound'"):
            untrained(Bound())
