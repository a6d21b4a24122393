"""Consistency against a plain loop that keeps every probability, and against what planted models must give."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from roadworthy.errors import InputError, ModelError
from roadworthy.labelfree.consistency import STATISTICS, Consistency, perturbation_consistency
from roadworthy.labelfree.examples import perturbed_examples
from roadworthy.labelfree.perturbation import Draws, Gaussian, InputPerturbation, Rotation
from roadworthy.labelfree.reading import BatchInput
from roadworthy.records import Split

NOISE = Gaussian(scale=1.0, valid_range=None)


class Held:
    """Images in memory as the source of a split."""

    def __init__(self, images: torch.Tensor, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels
        self.ids = [f"image {row}" for row in range(len(images))]

    def read(self, index: int) -> torch.Tensor:
        return self.images[index]

    def where(self, index: int) -> str:
        return self.ids[index]


def points(n: int = 40, features: int = 3) -> torch.Tensor:
    return torch.randn(n, features, generator=torch.Generator().manual_seed(0))


class Scripted(InputPerturbation):
    """Replaces the samples by what was written down for each pass."""

    name = "scripted"

    def __init__(self, script: torch.Tensor) -> None:
        self.script, self.passed = script, 0

    def check(self, values: torch.Tensor) -> None:
        pass

    def settings(self) -> dict[str, object]:
        return {}

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        self.passed += 1
        return self.script[self.passed - 1]


def test_statistics_are_those_of_a_loop_that_keeps_everything() -> None:
    generator = torch.Generator().manual_seed(1)
    clean, script = 2 * torch.randn(25, 4, generator=generator), 2 * torch.randn(12, 25, 4, generator=generator)
    found = perturbation_consistency(lambda x: x, clean, perturbation=Scripted(script), passes=12)
    kept = torch.softmax(script.double(), dim=2).numpy()
    answers, said = kept.argmax(axis=2), torch.softmax(clean.double(), dim=1).numpy()
    np.testing.assert_allclose(found.clean.probabilities, said, atol=1e-12)
    assert found.agreement_count.tolist() == (answers == said.argmax(axis=1)).sum(axis=0).tolist()
    assert found.mode_count.tolist() == stats.mode(answers, axis=0).count.tolist()
    np.testing.assert_allclose(found.mean_probabilities, kept.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found.variance, kept.var(axis=0).sum(axis=1), atol=1e-12)
    entropy = stats.entropy(kept, axis=2).mean(axis=0) / np.log(4)
    np.testing.assert_allclose(found.entropy, entropy, atol=1e-12)
    np.testing.assert_allclose(found.confidence_mean, kept.max(axis=2).mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.confidence_variance, kept.max(axis=2).var(axis=0), atol=1e-12)
    rows = np.arange(25)
    soft = kept[:, rows, said.argmax(axis=1)].mean(axis=0)
    np.testing.assert_allclose(found.scores("soft-agreement"), soft, atol=1e-6)
    np.testing.assert_array_equal(found.scores(), (answers == said.argmax(axis=1)).mean(axis=0))


def votes(rows: list[list[int]], classes: int = 3) -> torch.Tensor:
    return 9.0 * nn.functional.one_hot(torch.tensor(rows), classes).float()


def test_agreement_counts_the_clean_class_and_the_mode_prefers_it() -> None:
    clean = votes([0, 0, 2])  # type: ignore[list-item]
    script = votes([[1, 0, 1], [1, 0, 2], [1, 1, 1], [1, 1, 2]])
    found = perturbation_consistency(lambda x: x, clean, perturbation=Scripted(script), passes=4)
    # the first is flipped away from its clean class every time: the commonest class alone would call it firm
    assert found.agreement_count.tolist() == [0, 2, 2]
    assert found.mode_count.tolist() == [4, 2, 2]
    assert found.mode.tolist() == [1, 0, 2]
    assert found.scores("mode-share").tolist() == [1, 0.5, 0.5]
    assert found.scores(chance_corrected=True).tolist() == pytest.approx([0, 0.25, 0.25])


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("corrected", [False, True])
def test_scores_run_from_0_to_1_and_a_firm_sample_has_1(statistic: str, corrected: bool) -> None:
    clean = torch.cat([60 * votes([0, 1]), torch.zeros(1, 3)])  # type: ignore[list-item]
    coin = torch.randint(3, (300,), generator=torch.Generator().manual_seed(0))
    script = clean.repeat(300, 1, 1)
    script[:, 1] = 60 * votes(coin.tolist())
    found = perturbation_consistency(lambda x: x, clean, perturbation=Scripted(script), passes=300)
    score = found.scores(statistic, chance_corrected=corrected)
    assert score.min() >= 0
    assert score.max() <= 1
    assert score[0] == pytest.approx(1, abs=1e-6)
    if statistic in ("agreement", "mode-share", "soft-agreement", "variance"):
        at_chance = 0 if corrected or statistic == "variance" else 1 / 3
        assert score[1] == pytest.approx(at_chance, abs=0.06)
    if statistic == "entropy":
        assert score[2] == pytest.approx(0, abs=1e-9)


def test_a_flip_has_the_probability_that_the_noise_gives_it() -> None:
    """A linear model of two classes: agreement is a normal tail, and its counts are binomial."""
    margin = torch.linspace(0.05, 3, 30)
    data = torch.stack([margin, torch.zeros(30)], dim=1).repeat(60, 1)
    found = perturbation_consistency(lambda x: x, data, perturbation=NOISE, strength=1.0, passes=30)
    share = found.scores().reshape(60, 30).mean(axis=0)
    expected = stats.norm.cdf(margin.numpy() / 2**0.5)
    sd = np.sqrt(expected * (1 - expected) / 1800)
    assert np.abs(share - expected).max() < 4.5 * sd.max()
    # between samples of one margin the spread is binomial: passes and samples are independent
    spread = found.agreement_count.reshape(60, 30).var(axis=0) / (30 * expected * (1 - expected))
    assert 0.8 < spread[:20].mean() < 1.2


def test_a_second_model_is_asked_about_the_undisturbed_samples() -> None:
    found = perturbation_consistency(lambda x: x, [points()], second=lambda x: -x, passes=1)
    said = perturbation_consistency(lambda x: -x, [points()], passes=1).clean
    np.testing.assert_array_equal(found.clean.second, said.probabilities)


def same(one: Consistency, other: Consistency, rows: list[int] | None = None) -> None:
    chosen = slice(None) if rows is None else rows
    for name in ("agreement_count", "mode_count", "mode"):
        np.testing.assert_array_equal(getattr(one, name)[chosen], getattr(other, name))
    for name in ("mean_probabilities", "variance", "entropy", "confidence_mean", "confidence_variance"):
        np.testing.assert_array_equal(getattr(one, name)[chosen], getattr(other, name))


@pytest.mark.parametrize("perturbation", [NOISE, "occlusion", "gaussian+occlusion"])
def test_neither_batches_nor_order_nor_company_change_a_sample(perturbation: str | Gaussian) -> None:
    data, settings = points(), {"perturbation": perturbation, "passes": 12}
    whole = perturbation_consistency(lambda x: x, data, strength=None, **settings)
    same(whole, perturbation_consistency(lambda x: x, data, **settings))
    for size in (1, 7, 256):
        same(whole, perturbation_consistency(lambda x: x, data, max_batch=size, **settings))
    loader = DataLoader(TensorDataset(data), batch_size=9)
    if perturbation is NOISE:  # the others take scale and mean from data in memory
        same(whole, perturbation_consistency(lambda x: x, loader, **settings))
        rows = [5, 3, 39, 0]
        same(whole, perturbation_consistency(lambda x: x, data[rows], ids=rows, **settings), rows)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(2)).tolist()
    same(whole, perturbation_consistency(lambda x: x, data[order], ids=order, **settings), order)


def test_another_seed_is_another_run() -> None:
    one, two = (perturbation_consistency(lambda x: x, points(), seed=seed, strength=1.0) for seed in (0, 1))
    assert (one.variance != two.variance).all()
    assert (one.seed, two.seed) == (0, 1)


def test_nothing_of_the_callers_is_changed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4, 2))
    model[3].eval()
    model(points()).sum().backward()
    data, state = points(), {name: value.clone() for name, value in model.state_dict().items()}
    kept, flags = data.clone(), [part.training for part in model.modules()]
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    loader = DataLoader(TensorDataset(data), batch_size=8, shuffle=True)
    for given in (data, loader):
        perturbation_consistency(model, given, perturbation="gaussian+dropout", passes=3)
    assert torch.equal(data, kept)
    assert [part.training for part in model.modules()] == flags
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), gradients, strict=True))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert torch.equal(torch_state, torch.get_rng_state())
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002


def test_data_are_read_once_and_batches_keep_to_their_limit() -> None:
    read, sizes = [], []

    class Counted(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, row: int) -> torch.Tensor:
            read.append(row)
            return torch.zeros(3)

    def model(x: torch.Tensor) -> torch.Tensor:
        sizes.append(len(x))
        return x

    done: list[int] = []
    perturbation_consistency(model, Counted(), passes=5, max_batch=6, progress=done.append)
    assert read == list(range(20))
    assert max(sizes) == 6
    assert len(sizes) == 4 * 6  # four pieces: a clean pass and five others
    assert sum(done) == 20


def test_pixel_units_are_clipped_and_others_are_not() -> None:
    seen: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return x.flatten(1)[:, :2]

    images = torch.rand(10, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    split = Split(Held(images, np.zeros(10, dtype=np.int64)))
    for data in (split, images):
        seen.clear()
        perturbation_consistency(model, data, strength=0.5, passes=3)
        whole = torch.cat(seen[1:])
        assert (float(whole.min()), float(whole.max())) == (0, 1)
        assert float((whole - images.repeat(3, 1, 1, 1)).abs().max()) > 0.5
    seen.clear()
    perturbation_consistency(model, images * 2 - 1, strength=0.5, passes=3)
    assert float(torch.cat(seen[1:]).min()) < -1
    table = points(200) * torch.tensor([1.0, 100.0, 0.0]) + 5
    seen.clear()
    perturbation_consistency(model, table, strength=0.1, passes=10)
    noise = torch.cat(seen[1:]) - table.repeat(10, 1)
    sd = (0.1 * table.std(dim=0, correction=0)).tolist()
    assert noise.std(dim=0).tolist() == pytest.approx(sd, rel=0.06, abs=1e-6)


def test_strength_follows_the_confidence_of_the_sample() -> None:
    seen: list[torch.Tensor] = []
    data = torch.tensor([[0.0, 0.0], [9.0, 0.0]]).repeat(1, 1)

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return x

    perturbation_consistency(model, data, perturbation=NOISE, strength=0.1, adaptive=(0.5, 2.0), passes=800)
    sd = (torch.stack(seen[1:]) - data).std(dim=(0, 2)).tolist()
    confidence = torch.softmax(data, dim=1).amax(1)
    assert sd == pytest.approx((0.1 * (0.5 + 1.5 * confidence)).tolist(), rel=0.08)
    with pytest.raises(InputError, match=r"adaptive: got \(1, -1\)"):
        perturbation_consistency(model, data, adaptive=(1, -1))
    with pytest.raises(InputError, match=r"expected \(low, high\)"):
        perturbation_consistency(model, data, adaptive=3)  # type: ignore[arg-type]


def test_one_sample_and_one_class_among_the_answers_are_enough() -> None:
    """Classes come from the model, not from what it happens to answer."""
    data = torch.tensor([[9.0, 0.0, 0.0]])
    found = perturbation_consistency(lambda x: x, data, passes=1)
    assert len(found) == 1
    assert found.clean.class_count == 3
    assert found.mean_probabilities.shape == (1, 3)
    assert found.scores().tolist() == [1]
    assert any("1 passes are few" in note for note in found.notes)
    hundred = perturbation_consistency(lambda x: x, data.repeat(100, 1), perturbation=NOISE)
    assert set(hundred.clean.predicted.tolist()) == {0}
    assert hundred.agreement_count.tolist() == [30] * 100


class Reads(nn.Module):
    def forward(self, *, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
        share = (input_ids.float() * attention_mask).sum(1) / attention_mask.sum(1)
        return {"logits": torch.stack([share - 5, 5 - share], dim=1)}


def test_batches_of_any_structure_are_understood() -> None:
    ids = torch.randint(1, 10, (10, 6), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[:4, 4:] = 0
    labels = torch.arange(10) % 2
    batches = [
        {"input_ids": ids[part], "attention_mask": mask[part], "labels": labels[part]}
        for part in (slice(0, 7), slice(7, 10))
    ]
    expected = perturbation_consistency(Reads(), batches, perturbation="word-swap", max_batch=4)
    assert expected.clean.labels is not None
    assert expected.clean.labels.tolist() == labels.tolist()

    def own(raw: tuple[str, dict[str, torch.Tensor]]) -> BatchInput:
        inputs = {name: raw[1][name] for name in ("attention_mask", "input_ids")}
        return BatchInput(inputs, perturbed="input_ids", labels=raw[1]["labels"])

    wrapped = (("odd", batch) for batch in batches)
    same(expected, perturbation_consistency(Reads(), wrapped, perturbation="word-swap", batch=own))

    def twice(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + 0 * b.float()

    data = points(8)
    tuples = [BatchInput((data, torch.ones(8, 1)), perturbed=0)]
    plain = perturbation_consistency(lambda x: x, data, perturbation=NOISE)
    same(plain, perturbation_consistency(twice, tuples, perturbation=NOISE))


@pytest.mark.parametrize("labels", [None, [0, 1, 1], [-1, -1, -1], [-1, 1, 1], [0.5, 1, 2]])
def test_labels_beside_the_samples_are_kept_where_they_are_classes(labels: list[float] | None) -> None:
    data = points(3)
    batch = data if labels is None else (data, torch.tensor(labels))
    found = perturbation_consistency(lambda x: x, [batch])
    if labels == [0, 1, 1]:
        assert found.clean.labels is not None
        assert found.clean.labels.tolist() == labels
    else:
        assert found.clean.labels is None
        unknown = labels in (None, [-1, -1, -1])  # no surprise: nobody knows the classes
        assert any("no class from 0 to 2" in note for note in found.notes) == (not unknown)


Maker = Callable[[], object]


@pytest.mark.parametrize(
    ("data", "settings", "match"),
    [
        (lambda: points(0), {}, r"expected \(N, ...\) with at least one sample"),
        (lambda: torch.zeros(3), {}, r"got shape \(3,\)"),
        (lambda: 7, {}, r"data: got int"),
        (lambda: [], {}, r"there are no samples"),
        (lambda: [("a", 1, 2)], {}, r"a batch is a tuple of 3.*batch="),
        (lambda: [{"a": points(), "b": points()}], {}, r"not clear which is perturbed"),
        (lambda: [BatchInput({"a": points()}, perturbed="b")], {}, r"perturbed='b' is not among \['a'\]"),
        (lambda: np.array([["x", "y"]]), {}, r"values of type <U1, expected real numbers"),
        (lambda: torch.zeros(2, 3, 4, 4, dtype=torch.uint8), {}, r"divide 8-bit images by 255"),
        (points, {"ids": ["a"] * 40}, r"39 of 40 ids repeat"),
        (points, {"ids": [*map(str, range(39)), "\udce9"]}, r"ids: '\\udce9' holds bytes that are no text"),
        (points, {"ids": ["a"]}, r"1 ids"),
        (points, {"passes": 0}, r"passes: got 0"),
        (points, {"passes": 2.5}, r"passes: got 2.5"),
        (points, {"max_batch": 0}, r"max_batch: got 0"),
        (points, {"labels": [0, 1]}, r"labels: got shape \(2,\)"),
        (lambda: [points()], {"labels": [0, 1]}, r"a data set brings its own"),
        (points, {"perturbation": "rotation"}, r"rotation: got values of shape \(40, 3\)"),
        (points, {"seed": "a"}, r"seed: got str"),
        (lambda: DataLoader(TensorDataset(points()), shuffle=True), {"ids": range(40)}, r"use shuffle=False"),
    ],
)
def test_what_cannot_be_used_is_named(data: Maker, settings: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        perturbation_consistency(lambda x: x, data(), **settings)  # type: ignore[arg-type]


def test_scores_that_are_not_finite_name_the_samples() -> None:
    data = points(5)
    data[3, 0] = float("nan")
    with pytest.raises(ModelError, match=r"not finite for samples '3'"):
        perturbation_consistency(lambda x: x, data, perturbation=NOISE)


def test_an_unknown_statistic_is_named() -> None:
    with pytest.raises(InputError, match=r"Unknown statistic 'agreemnt'. Did you mean 'agreement'"):
        perturbation_consistency(lambda x: x, points()).scores("agreemnt")


def test_values_for_json_hold_everything_of_a_sample() -> None:
    found = perturbation_consistency(lambda x: x, points(), perturbation=[NOISE, Rotation()][:1], passes=11)
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert (plain["passes"], plain["perturbation"], plain["strength"], plain["n"]) == (11, "gaussian", 0.05, 40)
    assert plain["agreement_count"] == found.agreement_count.tolist()
    assert plain["settings"]["gaussian"]["scale"] == 1


@pytest.mark.parametrize("in_split", [False, True])
def test_examples_are_what_the_model_was_shown(in_split: bool) -> None:
    seen: list[torch.Tensor] = []

    def model(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.clone())
        return x.flatten(1)[:, :2]

    images = torch.rand(9, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    data = Split(Held(images, np.zeros(9, dtype=np.int64))) if in_split else images
    perturbation_consistency(model, data, perturbation="rotation+gaussian", seed=4, passes=5)
    shown = perturbed_examples(data, [7, 2], "rotation+gaussian", n_passes=3, seed=4)
    assert shown.perturbed.shape == (2, 3, 2, 6, 6)
    np.testing.assert_array_equal(shown.clean, images[[7, 2]].numpy())
    for number in range(3):
        np.testing.assert_array_equal(shown.perturbed[:, number], seen[1 + number][[7, 2]].numpy())
    assert len(np.unique(shown.perturbed[0, :, 0, 0, 0])) == 3


def test_examples_that_cannot_be_are_refused() -> None:
    images = torch.rand(3, 1, 4, 4)
    with pytest.raises(InputError, match=r"dropout changes the model, not the samples"):
        perturbed_examples(images, [0], "dropout")
    with pytest.raises(InputError, match=r"rows: got \[3\], expected positions from 0 to 2"):
        perturbed_examples(images, [0, 3])
    with pytest.raises(InputError, match=r"rows: got \[\]"):
        perturbed_examples(images, [])
    with pytest.raises(InputError, match=r"n_passes: got 0"):
        perturbed_examples(images, [0], n_passes=0)
