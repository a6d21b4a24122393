"""Perturbations inside the model: dropout of every kind, noise on layers, ensembles; nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from roadworthy.errors import InputError, ModelError
from roadworthy.labelfree.consistency import perturbation_consistency
from roadworthy.labelfree.perturbation import Draws, Dropout, Ensemble, HiddenNoise

N = 6


class Attending(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=batch_first)
        self.batch_first = batch_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        found = self.attention(x, x, x, need_weights=False)[0]
        return found.mean(1 if self.batch_first else 0)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], batch_first: bool) -> None:
        super().__init__()
        self.net, self.batch_first = kind(8, 8, 2, dropout=0.5, batch_first=batch_first), batch_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[0][:, -1] if self.batch_first else self.net(x.transpose(0, 1))[0][-1]


class Functional(nn.Module):
    def __init__(self, call: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x, 0.5, self.training)


class Encoder(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=batch_first)
        self.net = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.batch_first = batch_first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).mean(1) if self.batch_first else self.net(x.transpose(0, 1)).mean(0)


def grid(n: int = N) -> torch.Tensor:
    return torch.randn(n, 5, 8, generator=torch.Generator().manual_seed(0)) + 1


MODELS: dict[str, Callable[[], nn.Module]] = {
    "Dropout": lambda: nn.Dropout(0.5),
    "Dropout1d": lambda: nn.Dropout1d(0.5),
    "Dropout2d": lambda: nn.Sequential(nn.Unflatten(1, (5, 1)), nn.Dropout2d(0.5), nn.Flatten(1)),
    "Dropout3d": lambda: nn.Sequential(nn.Unflatten(1, (5, 1, 1)), nn.Dropout3d(0.5), nn.Flatten(1)),
    "AlphaDropout": lambda: nn.AlphaDropout(0.5),
    "FeatureAlphaDropout": lambda: nn.FeatureAlphaDropout(0.5),
    "F.dropout": lambda: Functional(F.dropout),
    "F.dropout1d": lambda: Functional(F.dropout1d),
    "F.alpha_dropout": lambda: Functional(F.alpha_dropout),
    "attention": Attending,
    "attention, sequence first": lambda: Attending(batch_first=False),
    "LSTM": lambda: Recurrent(nn.LSTM, True),
    "GRU, sequence first": lambda: Recurrent(nn.GRU, False),
    "transformer": Encoder,
    "transformer, sequence first": lambda: Encoder(batch_first=False),
}


def made(name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = nn.Sequential(MODELS[name](), nn.Flatten())
        model = nn.Sequential(body, nn.Linear(body(grid()).shape[1], 3))
    return model.eval().requires_grad_(False)


def asked(model: nn.Module, rows: list[int], passes: int = 3) -> torch.Tensor:
    draws = Draws(0, "test", [str(row) for row in rows])
    with torch.no_grad():
        found = []
        for _ in range(passes):
            with Dropout().during(model, torch.zeros(len(rows)), draws):
                found.append(model(grid()[rows]))
    return torch.stack(found)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_dropout_is_switched_on_by_sample_and_pass(name: str) -> None:
    model = made(name)
    state = torch.get_rng_state()
    whole = asked(model, list(range(N)))
    clean = model(grid())
    assert torch.equal(state, torch.get_rng_state())
    assert not any(part.training for part in model.modules())
    assert not any(part._forward_hooks for part in model.modules())
    assert bool((whole[0] != whole[1]).any())
    assert bool((whole != clean).any(dim=2).any(dim=0).all()), "some sample met no dropout"
    # rows in another order and company meet the same dropout
    assert torch.allclose(asked(model, [4, 1, 2]), whole[:, [4, 1, 2]], atol=1e-5)
    assert torch.allclose(asked(model, [3]), whole[:, [3]], atol=1e-5)


@pytest.mark.parametrize("name", ["Dropout", "Dropout1d", "AlphaDropout", "F.dropout"])
def test_dropout_drops_as_much_as_the_model_says(name: str) -> None:
    layer = MODELS[name]()
    values = torch.full((400, 20, 3), 2.0)
    draws = Draws(1, "test", [str(row) for row in range(400)])
    with torch.no_grad(), Dropout().during(layer, torch.zeros(400), draws):
        found = layer(values)
    kept = found == found.max()
    assert float(kept.float().mean()) == pytest.approx(0.5, abs=0.02)
    if name == "AlphaDropout":  # keeps mean and variance of standard normal values
        with torch.no_grad(), Dropout().during(layer, torch.zeros(400), draws):
            normal = layer(torch.randn(400, 20, 3, generator=torch.Generator().manual_seed(0)))
        assert float(normal.mean()) == pytest.approx(0, abs=0.03)
        assert float(normal.std()) == pytest.approx(1, abs=0.03)
    else:
        assert found[kept].unique().tolist() == [4]  # scaled by 1 / (1 - rate)
        assert found[~kept].unique().tolist() == [0]
    if name == "Dropout1d":  # whole channels go
        assert torch.equal(kept, kept[:, :, :1].expand_as(kept))


def test_batch_normalisation_stays_as_in_evaluation_and_all_flags_come_back() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.RReLU(), nn.Linear(4, 2))
    model[2].eval()
    flags = [part.training for part in model.modules()]
    mean, count = model[1].running_mean.clone(), int(model[1].num_batches_tracked)
    found = perturbation_consistency(model, torch.randn(9, 4), perturbation="dropout", passes=20)
    assert found.has_dropout is True
    assert [part.training for part in model.modules()] == flags
    assert torch.equal(model[1].running_mean, mean)
    assert int(model[1].num_batches_tracked) == count
    # a batch of one sample would fail if batch normalisation were in training
    alone = perturbation_consistency(model, torch.randn(1, 4), perturbation="dropout", passes=20)
    assert len(alone) == 1


@pytest.mark.parametrize("layers", [(), (nn.Dropout(0.0),)], ids=["none", "rate 0"])
def test_a_model_without_dropout_is_named(layers: tuple[nn.Module, ...]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), *layers, nn.Linear(4, 2))
    found = perturbation_consistency(model, torch.randn(9, 4), perturbation="dropout", passes=20)
    assert found.has_dropout is False
    assert found.agreement_count.tolist() == [20] * 9
    assert any("no dropout that draws, so every pass gave the clean answer" in note for note in found.notes)
    both = perturbation_consistency(nn.Linear(4, 2), torch.randn(9, 4), perturbation="gaussian+dropout")
    assert any("only the other perturbations" in note for note in both.notes)
    assert perturbation_consistency(model, torch.randn(9, 4)).has_dropout is None


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:.*torch.jit:FutureWarning")
def test_dropout_inside_a_scripted_model_is_switched_on_too() -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)))
    whole = perturbation_consistency(model, torch.randn(6, 4), perturbation="dropout", passes=10)
    assert whole.has_dropout is True
    assert float(whole.variance.min()) > 0
    assert model.training


def test_dropout_needs_a_module() -> None:
    with pytest.raises(InputError, match=r"the model is a function.*pass a torch.nn.Module"):
        perturbation_consistency(lambda x: x, torch.randn(3, 2), perturbation="dropout")


class Breaks(nn.Module):
    """Answers once and then fails."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last, self.calls = nn.Dropout(0.5), nn.Linear(4, 2), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > 3:
            raise RuntimeError("out of luck")
        return self.last(self.drop(x))


@pytest.mark.parametrize("perturbation", ["gaussian+dropout", HiddenNoise(layers=("drop",))])
def test_after_an_error_everything_is_as_before(perturbation: str | HiddenNoise) -> None:
    model = Breaks()
    model.drop.eval()
    state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fast = torch.backends.mha.get_fastpath_enabled()
    with pytest.raises(ModelError, match="out of luck"):
        perturbation_consistency(model, torch.randn(5, 4, generator=torch.Generator()), perturbation=perturbation)
    assert (model.training, model.drop.training, model.last.training) == (True, False, True)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    assert torch.backends.mha.get_fastpath_enabled() == fast


def test_hidden_noise_has_the_wanted_size_for_each_sample() -> None:
    layer = nn.Identity()
    model = nn.Sequential(layer)
    values = torch.randn(3, 4000, generator=torch.Generator().manual_seed(0)) * torch.tensor([[1.0], [10.0], [5.0]])
    draws = Draws(0, "test", ["a", "b", "c"])
    with HiddenNoise(layers=("0",)).during(model, torch.tensor([0.1, 0.1, 0.0]), draws):
        noise = model(values) - values
    assert noise.std(dim=1).tolist() == pytest.approx([0.1, 1.0, 0.0], rel=0.05)


@pytest.mark.parametrize("batch_first", [True, False])
def test_blocks_of_a_transformer_are_found_and_rows_keep_their_noise(batch_first: bool) -> None:
    model = nn.Sequential(Encoder(batch_first), nn.Linear(8, 3))
    whole = perturbation_consistency(model, grid(), perturbation="hidden-noise", strength=1.0, max_batch=6)
    parts = perturbation_consistency(model, grid(), perturbation="hidden-noise", strength=1.0, max_batch=4)
    order = [3, 0, 5, 1, 2, 4]
    other = perturbation_consistency(model, grid()[order], perturbation="hidden-noise", strength=1.0, ids=order)
    assert float(whole.variance.min()) > 0
    np.testing.assert_allclose(parts.mean_probabilities, whole.mean_probabilities, atol=1e-5)
    np.testing.assert_allclose(other.mean_probabilities, whole.mean_probabilities[order], atol=1e-5)


def test_hidden_noise_names_what_it_cannot_do() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(InputError, match=r"looks like a block of a transformer; pass HiddenNoise\(layers"):
        perturbation_consistency(model, torch.randn(3, 4), perturbation="hidden-noise")
    with pytest.raises(InputError, match=r"no layer 'O'"):
        perturbation_consistency(model, torch.randn(3, 4), perturbation=HiddenNoise(layers=("O",)))
    model.unused = nn.Linear(4, 4)
    model.forward = lambda x: model[1](model[0](x))  # type: ignore[method-assign]
    with pytest.raises(ModelError, match=r"none of the layers 'unused' was called"):
        perturbation_consistency(model, torch.randn(3, 4), perturbation=HiddenNoise(layers=("unused",)))


class Votes(nn.Module):
    def __init__(self, label: int) -> None:
        super().__init__()
        self.label = label

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 5 * F.one_hot(torch.full((len(x),), self.label), 3).float() + x


def test_members_of_an_ensemble_are_the_passes() -> None:
    data = torch.zeros(4, 3)
    judged = perturbation_consistency(
        Votes(2), data, perturbation=Ensemble([Votes(0), Votes(0), Votes(2)]), features=None
    )
    assert judged.passes == 3
    assert judged.clean.predicted.tolist() == [2] * 4
    assert judged.agreement_count.tolist() == [1] * 4
    assert (judged.mode_count.tolist(), judged.mode.tolist()) == ([2] * 4, [0] * 4)
    together = perturbation_consistency([Votes(0), Votes(0), Votes(2)], data, perturbation="ensemble", features=None)
    assert together.clean.predicted.tolist() == [0] * 4
    assert together.agreement_count.tolist() == [2] * 4
    np.testing.assert_allclose(together.clean.probabilities, together.mean_probabilities, atol=1e-6)


def test_ensembles_that_are_none_are_refused() -> None:
    data = torch.zeros(4, 3)
    with pytest.raises(InputError, match=r"got 0 model, expected at least two|expected at least two"):
        perturbation_consistency(Votes(1), data, perturbation="ensemble")
    with pytest.raises(InputError, match=r"got 2 models; of several the perturbation must be 'ensemble'"):
        perturbation_consistency([Votes(1), Votes(2)], data)
    with pytest.raises(InputError, match=r"\[2, 3\] classes"):
        perturbation_consistency([Votes(1), lambda x: x[:, :2]], data, perturbation="ensemble", features=None)
