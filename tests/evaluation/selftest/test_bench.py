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
from roadworthy.evaluation.selftest.bench import Bench, Judges, answers
from roadworthy.evaluation.selftest.contender import OFFERED, View, contender, contenders, shares_by_view
from roadworthy.evaluation.selftest.maps import blobs, planted_maps, pooled, quadrants, white
from roadworthy.evaluation.selftest.natural import beats_random
from roadworthy.evaluation.selftest.quality import average_precision
from roadworthy.evaluation.selftest.target import two_patterns
from roadworthy.records import Batch

IDS = [f"s{row}" for row in range(24)]
STRATEGIES = (
    "road",
    "road morf",
    "road lerf probability",
    "deletion",
    "insertion",
    "pixel-flipping",
    "untouched gain",
)


@pytest.fixture
def bench(q4: torch.nn.Module, q4_data: Callable[..., tuple[torch.Tensor, torch.Tensor]]) -> Bench:
    images, labels = q4_data(n=24)
    predicted = answers(q4, images)
    maps = {"truth": quadrants(labels.numpy(), 16), "white": white(0, IDS, (16, 16)), "zero": np.zeros((24, 16, 16))}
    judges = Judges(q4, None, mean=(0.3,) * 3, seed=0)
    shares = shares_by_view(contenders(STRATEGIES))
    return Bench("q4", 0, Batch(images, labels, IDS), predicted, judges, maps, shares)


@pytest.mark.parametrize("name", STRATEGIES)
def test_scores_are_those_of_an_evaluation_with_that_strategy_alone(bench: Bench, name: str) -> None:
    one = contender(name)
    base = name.split()[0] if name != "untouched gain" else "road"
    order = "both" if len(one.orders) == 2 else one.orders[0]
    strategy = Strategy.of(
        base, order=order, readout=one.readout, fractions=one.fractions, imputer=one.views[0].imputer
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
    view = View("untouched", "noisy-linear")
    assert bench.result(view) is bench.result(view)
    assert bench.with_maps({"zero": bench.maps["zero"]})._results == {}


def test_a_gate_lets_the_truth_through_and_not_another_random_map(bench: Bench) -> None:
    view = View("untouched", "mean")
    gated = bench.with_maps(
        {"truth": bench.maps["truth"], "noise": blobs(1, IDS, (16, 16)), "null white": bench.maps["white"]}
    )
    assert beats_random(gated, "truth", view)
    assert not beats_random(gated, "noise", view)


def test_names_of_strategies_are_read_and_wrong_ones_refused() -> None:
    assert contender("fine-tuned lerf").views == (View("fine-tuned", "mean"),)
    assert len(contender("symmetric").views) == 4
    assert contender("symmetric logit").readout == "logit"
    assert contender("deletion").orders == ("morf",)
    assert [one.name for one in contenders(OFFERED)] == list(OFFERED)
    with pytest.raises(InputError, match="Did you mean 'road'"):
        contender("raod morf")
    with pytest.raises(InputError, match="'roar' trains a network for each explanation"):
        contender("roar")
    with pytest.raises(InputError, match="each with a name of its own"):
        contenders(["road", "road"])


def test_shares_of_a_view_are_those_of_all_that_ask_it() -> None:
    found = shares_by_view(contenders([Strategy.of("road", fractions=(0.2, 0.4)), "road lerf"]))
    assert found == {View("untouched", "noisy-linear"): (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)}


def test_a_callable_cannot_be_fine_tuned() -> None:
    judges = Judges(lambda images: images.flatten(1), None, mean=(0.5,), seed=0)
    with pytest.raises(ModelError, match=r"needs a torch\.nn\.Module and training samples"):
        judges.ask(View("fine-tuned", "mean"))


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
    assert len(maps) == 27
    assert quality["truth"] == quality["blur 1"] == 1.0
    for kind in ("permuted", "swapped", "noisy"):
        steps = [quality["truth"], *(value for name, value in quality.items() if name.startswith(f"{kind} "))]
        assert (np.diff(steps) < 0).all()
    assert quality["blur 4"] > 0.9 > quality["coarse"] > 0.4
    chance = 36 / 576
    for name in ("null white", "null blob", "leak", "constant", "permuted 1"):
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
    both = two_patterns(bench)
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
