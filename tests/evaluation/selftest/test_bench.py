"""A bench scores every strategy from one evaluation per view: the same numbers as an evaluation of its own gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.data import load_data
from roadworthy.errors import InputError, ModelError
from roadworthy.evaluation import Strategy
from roadworthy.evaluation.audit.idsds import idsds
from roadworthy.evaluation.finetune import tuned_for
from roadworthy.evaluation.selftest import bench as module
from roadworthy.evaluation.selftest.bench import Bench, Judges, answers
from roadworthy.evaluation.selftest.contender import (
    DRAWS,
    IDSDS,
    OFFERED,
    RETRAINED,
    Asked,
    View,
    asked_by_view,
    contender,
    contenders,
)
from roadworthy.evaluation.selftest.maps import KEPT, blobs, planted_maps, pooled, quadrants, white
from roadworthy.evaluation.selftest.natural import beats_random
from roadworthy.evaluation.selftest.quality import average_precision
from roadworthy.evaluation.selftest.target import two_patterns
from roadworthy.forward import Classifier
from roadworthy.records import Batch

IDS = [f"s{row}" for row in range(24)]
STRATEGIES = (
    "road",
    "road morf",
    "road lerf probability",
    "deletion",
    "insertion",
    "pixel-flipping",
    "mean",
    "symmetric untouched",
)


@pytest.fixture
def bench(q4: torch.nn.Module, q4_data: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Bench:
    images, labels = q4_data(n=24)
    predicted = answers(q4, images)
    maps = {"truth": quadrants(labels.numpy(), 16), "white": white(0, IDS, (16, 16)), "zero": np.zeros((24, 16, 16))}
    judges = Judges(q4, None, mean=(0.3,) * 3, seed=0)
    asked = asked_by_view(contenders(STRATEGIES))
    return Bench("q4", 0, Batch(images, labels, IDS), predicted, judges, maps, asked)


@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_are_those_of_an_evaluation_with_that_strategy_alone(bench: Bench, name: str) -> None:
    one = contender(name)
    base = name.split()[0] if name != "mean" else "road"
    strategy = Strategy.of(
        base,
        training="none",
        order="both" if len(one.orders) == 2 else one.orders[0],
        readout=one.readout,
        fractions=one.fractions,
        imputer=tuple(view.imputer for view in one.views),
    )
    result = rw.evaluate(
        bench.judges.model,
        bench.samples.images,
        bench.samples.labels,
        bench.maps,
        strategy=strategy,
        target=bench.targets,
        mean=(0.3,) * 3,
        ids=IDS,
        sheet=0,
    )
    scores, _, higher = result.method_scores()
    # shares in between may be evaluated for other strategies; noisy-linear starts from the fill at the share before
    assert np.allclose(bench.scores(one), scores if higher else -scores, atol=2e-3)
    ranking, alone = bench.ranking(one), result.ranking()
    assert ranking[["method", "group"]].values.tolist() == alone[["method", "group"]].values.tolist()
    assert ranking.attrs["score"] == alone.attrs["score"]
    assert bench.found(one).views == result.views
    assert bench.undefined(one) == {"truth": 0, "white": 0, "zero": 24}


def test_with_even_shares_each_counts_alike(bench: Bench) -> None:
    one = contender("road even")
    result = bench.result(one.views[0])
    columns = [result.fractions.index(share) for share in one.fractions]
    curves = result.scores.top1[:, :, columns, 0].astype(float).mean(axis=2)
    assert np.allclose(bench.scores(one), curves[:, 1] - curves[:, 0])
    assert np.allclose(bench.scores(contender("road even morf")), -curves[:, 0])
    assert np.allclose(bench.scores(contender("road lerf even")), curves[:, 1])
    assert contender("mean ends").fractions == (0.05, 0.1, 0.3, 0.7, 0.9, 0.95)


def test_scores_of_some_maps_are_rows_of_all_and_a_view_is_evaluated_once(bench: Bench) -> None:
    one = contender("road")
    everything = bench.scores(one)
    assert np.array_equal(bench.scores(one, ["zero", "truth"]), everything[[2, 0]])
    view = one.views[0]
    assert bench.result(view) is bench.result(view)
    assert bench.with_maps({"zero": bench.maps["zero"]})._results == {}


def test_a_gate_lets_the_truth_through_and_not_another_random_map(bench: Bench) -> None:
    view = contender("mean").views[0]
    gated = bench.with_maps(
        {"truth": bench.maps["truth"], "noise": blobs(1, IDS, (16, 16)), "null white": bench.maps["white"]}
    )
    assert beats_random(gated, "truth", view)
    assert not beats_random(gated, "noise", view)


def test_names_of_strategies_are_read_and_wrong_ones_refused() -> None:
    fills = ("mean", "noisy-linear")
    assert contender("symmetric fine-tuned lerf").views == tuple(
        View("fine-tuned", fill, tuned_on=fills) for fill in fills
    )
    assert contender("symmetric untouched").views == tuple(View("untouched", fill) for fill in fills)
    assert len(contender("symmetric").views) == 4
    assert contender("symmetric logit").readout == "logit"
    assert contender("deletion").orders == ("morf",)
    assert [one.name for one in contenders(OFFERED)] == list(OFFERED)
    with pytest.raises(InputError, match="Did you mean 'road'"):
        contender("raod morf")
    assert contender("idsds") is IDSDS
    assert [contender(name).training for name in RETRAINED] == ["retrain"] * 3
    assert contender("roar symmetric").orders == ("morf", "lerf")
    with pytest.raises(InputError, match="each with a name of its own"):
        contenders(["road", "road"])


def test_shares_of_a_view_are_those_of_all_that_ask_it() -> None:
    fractions = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
    found = asked_by_view(contenders([Strategy.of("road", fractions=(0.2, 0.4), order="lerf"), "road lerf"]))
    assert found == {View("untouched", "noisy-linear"): Asked(fractions, ("lerf",))}
    assert asked_by_view(contenders(["deletion"]), both=True)[View("untouched", "mean")].orders == ("morf", "lerf")


def test_a_callable_cannot_be_fine_tuned() -> None:
    judges = Judges(lambda images: images.flatten(1), None, mean=(0.5,), seed=0)
    with pytest.raises(ModelError, match=r"needs a torch\.nn\.Module and training samples"):
        judges.ask(View("fine-tuned", "mean", tuned_on=("mean",)))
    with pytest.raises(ModelError, match=r"needs a torch\.nn\.Module and training samples"):
        judges.of_patches()


@pytest.mark.parametrize("name", ["symmetric", "f-fidelity"])
def test_a_judge_is_the_one_that_the_product_makes_for_the_strategy(name: str) -> None:
    data = load_data("planted:n=64,test=8")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
    judges = Judges(net, data.train, mean=data.mean, seed=3)
    tuned = [judges.ask(view) for view in contender(name).views if view.judge == "fine-tuned"]
    own = tuned_for(Strategy.of(name), Classifier(net), data.train, seed=3, mean=data.mean)
    assert all(torch.equal(judge[1].weight, own[1].weight) for judge in tuned)
    assert len({id(judge) for judge in tuned}) == 1
    other = judges.ask(contender("f-fidelity" if name == "symmetric" else "symmetric fine-tuned").views[0])
    assert not torch.equal(other[1].weight, own[1].weight)  # random masks at one rate, not blobs of any size


def test_views_that_share_degraded_copies_are_evaluated_together(monkeypatch: pytest.MonkeyPatch) -> None:
    data = load_data("planted:n=64,test=8")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
    found = contenders(["symmetric", "symmetric fine-tuned", "road morf", "f-fidelity"])
    samples = next(data.test.batches(8))
    maps = {"truth": data.relevant.astype(np.float32), "white": white(0, samples.ids, (24, 24))}
    judges = Judges(net, data.train, mean=data.mean, seed=0)
    bench = Bench("planted", 0, samples, samples.labels, judges, maps, asked_by_view(found))
    seen = []
    monkeypatch.setattr(
        module, "evaluate", lambda *a, **more: seen.append(more["strategy"]) or rw.evaluate(*a, **more)
    )
    scores = {one.name: bench.scores(one) for one in found}
    assert [(each.imputer, each.training) for each in seen] == [
        ("mean", ("none", "finetune")),
        ("noisy-linear", ("none", "finetune")),
        ("mean", ("finetune",)),
    ]
    halves = [bench.scores(contender(f"symmetric {half}")) for half in ("untouched", "fine-tuned")]
    assert np.allclose(scores["symmetric"], np.mean(halves, axis=0))
    assert bench.result(found[-1].views[0]).repeats == DRAWS


def test_idsds_scores_are_those_of_the_audit_and_no_order_counts_as_random() -> None:
    data = load_data("planted:n=64,test=12")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
    samples = next(data.test.batches(12))
    maps = {"truth": data.relevant.astype(np.float32), "zero": np.zeros((12, 24, 24))}
    judges = Judges(net, data.train, mean=data.mean, seed=0)
    bench = Bench("planted", 0, samples, samples.labels, judges, maps, {})
    own = idsds(judges.of_patches(), samples.images, samples.labels, maps, mean=data.mean)["scores"]
    assert bench.scores(IDSDS).mean(axis=1) == pytest.approx([own[name]["score"] for name in maps])
    assert bench.undefined(IDSDS) == {name: own[name]["undefined"] for name in maps} == {"truth": 0, "zero": 12}


def planted(**changes: Any) -> tuple[rw.data.Data, dict[str, np.ndarray]]:
    data = load_data("planted:n=8,test=24", **changes)
    samples = data.test
    maps = planted_maps(
        samples.images,
        data.relevant,
        samples.source.decoy(),
        np.arange(24) % 4,
        seed=0,
        ids=samples.ids,
    )
    return data, maps


def test_built_maps_have_the_quality_they_were_built_for() -> None:
    data, maps = planted()
    quality = {
        name: average_precision(values, data.relevant, seed=0, ids=data.test.ids).mean()
        for name, values in maps.items()
    }
    assert len(maps) == 28
    assert (maps["sparse"] != 0).mean(axis=(1, 2)) == pytest.approx(KEPT, abs=1 / 576)
    assert quality["truth"] == quality["blur 1"] == 1.0
    for kind in ("permuted", "swapped", "noisy"):
        steps = [quality["truth"], *(value for name, value in quality.items() if name.startswith(f"{kind} "))]
        assert (np.diff(steps) < 0).all()
    assert quality["blur 4"] > 0.9 > quality["coarse"] > 0.4
    chance = 36 / 576
    for name in ("null white", "null blob", "leak", "constant", "sparse", "permuted 1"):
        assert quality[name] < 2.5 * chance
    assert quality["inverse"] < quality["decoy"] < quality["null white"]
    assert quality["half empty"] == pytest.approx(0.53, abs=0.02)


def test_the_decoy_is_another_cell_than_the_truth() -> None:
    data, maps = planted()
    decoy = maps["decoy"] > 0.5
    assert decoy.sum(axis=(1, 2)).tolist() == [36] * 24
    assert not (decoy & data.relevant).any()


def test_pooling_keeps_the_mean_of_each_cell_and_moves_its_grid() -> None:
    maps = np.arange(36, dtype=np.float32).reshape(1, 6, 6)
    aligned = pooled(maps, 3, 0)
    assert aligned[0, :3, :3].tolist() == [[7.0] * 3] * 3
    moved = pooled(maps, 3, 1)
    assert moved[0, 0, 0] == 0.0  # a corner cell of one pixel
    assert moved[0, 1:4, 1:4].tolist() == [[14.0] * 3] * 3


def test_smooth_null_maps_are_smooth_and_white_ones_are_not() -> None:
    def neighbours(maps: np.ndarray) -> float:
        return float(np.corrcoef(maps[:, :, 1:].ravel(), maps[:, :, :-1].ravel())[0, 1])

    assert abs(neighbours(white(0, IDS, (24, 24)))) < 0.05
    assert neighbours(blobs(0, IDS, (24, 24))) > 0.9
    assert not np.array_equal(white(0, IDS, (4, 4)), white(0, IDS, (4, 4), "another"))


def test_two_patterns_put_another_class_where_the_decoy_was() -> None:
    data, maps = planted()

    class Reads(torch.nn.Module):
        """Answers the class whose pattern correlates most anywhere on the grid of cells."""

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            from roadworthy.data.planted import patterns

            of_class = torch.from_numpy(patterns(6)[0]).float()
            cells = images[:, 0].unfold(1, 6, 6).unfold(2, 6, 6)
            return torch.einsum("nabhw,khw->nabk", cells, of_class).amax((1, 2))

    samples = Batch(data.test.images, data.test.labels, data.test.ids)
    judges = Judges(Reads(), None, mean=(0.5,), seed=0)
    bench = Bench("planted", 0, samples, data.test.labels, judges, maps, {})
    both, turned = two_patterns(bench)
    assert list(turned.maps) == ["other", "random"]
    assert not (turned.targets == both.targets).any()
    assert torch.equal(turned.samples.images, both.samples.images)
    assert both.n > 12
    rows = [data.test.ids.index(name) for name in both.samples.ids]
    cells = (maps["truth"] + maps["decoy"])[rows]
    assert np.array_equal(both.maps["own"] + both.maps["other"], cells)
    # what is marked as evidence for the answer is: without it, the model answers something else
    images = both.samples.images.clone()
    images[torch.from_numpy(both.maps["own"] > 0.5)[:, None]] = 0.5
    assert (answers(Reads(), images) == both.targets).float().mean() < 0.2
    kept = both.samples.images.clone()
    kept[torch.from_numpy(both.maps["other"] > 0.5)[:, None]] = 0.5
    assert (answers(Reads(), kept) == both.targets).float().mean() > 0.9
