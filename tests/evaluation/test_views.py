"""Several judges and fills in one result: each view is what an evaluation of it alone gives."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import DataError, InputError
from roadworthy.evaluation import Strategy
from roadworthy.evaluation.result import READOUTS

SHARES = (0.2, 0.6)


class Linear(torch.nn.Module):
    """Two classes by the halves of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(36, 2)
        with torch.no_grad():
            left = (torch.arange(36) % 6 < 3).float()
            self.layer.weight.copy_(torch.stack([left, 1 - left]))
            self.layer.bias.zero_()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(images.flatten(1))


@pytest.fixture
def toy():
    images = torch.from_numpy(np.random.default_rng(0).random((50, 1, 6, 6)).astype(np.float32))
    with torch.no_grad():
        labels = Linear()(images).argmax(1)
    maps = {"effect": images[:, 0].numpy(), "noise": np.random.default_rng(1).random((50, 6, 6))}
    return Linear().eval(), images, labels, maps


def judge_of(model: Linear) -> Linear:
    other = Linear().eval()
    with torch.no_grad():
        other.layer.weight.copy_(
            model.layer.weight + 0.3 * torch.randn(2, 36, generator=torch.Generator().manual_seed(3))
        )
    return other


@pytest.fixture
def both(toy):
    model, images, labels, maps = toy
    return rw.evaluate(
        model,
        images,
        labels,
        maps,
        strategy="symmetric",
        judge=judge_of(model),
        fractions=SHARES,
        mean=[0.5],
        repeats=2,
    )


def test_views_lie_along_the_repeat_axis_judge_by_judge(both) -> None:
    assert both.views == [
        {"judge": judge, "imputer": imputer}
        for judge in ("untouched", "fine-tuned")
        for imputer in ("mean", "noisy-linear")
    ]
    assert both.repeats == 8
    assert both.table.groupby(["judge", "imputer"]).size().eq(2 * 2 * 3 * 2).all()


@pytest.mark.parametrize("index", range(4))
def test_a_view_is_the_evaluation_of_it_alone(toy, both, index: int) -> None:
    model, images, labels, maps = toy
    view = both.view(index)
    asked = model if view.views[0]["judge"] == "untouched" else judge_of(model)
    targets = model(images).argmax(1)
    alone = rw.evaluate(
        asked, images, labels, maps, strategy="road", imputer=view.views[0]["imputer"], fractions=SHARES, mean=[0.5],
        repeats=2, target=targets,
    )  # fmt: skip
    assert view.repeats == 2
    for readout in READOUTS:
        np.testing.assert_array_equal(view.scores[readout], alone.scores[readout])


def test_the_score_is_the_mean_over_views_per_sample(both) -> None:
    scores = np.mean([both.view(index).method_scores()[0] for index in range(4)], axis=0)
    np.testing.assert_allclose(both.method_scores()[0], scores, atol=1e-12)
    ranking = both.ranking().set_index("method")
    np.testing.assert_allclose(ranking.loc[both.methods, "score"], scores.mean(axis=1), atol=1e-12)
    sd = ranking.loc[both.methods, "repeat_sd"]
    by_repeat = np.array([[rank_score(both, m, r) for r in range(2)] for m in range(2)])
    np.testing.assert_allclose(sd, by_repeat.std(axis=1, ddof=1), atol=1e-7)


def rank_score(result, method: int, repeat: int) -> float:
    """The symmetric gain of one repeat, averaged over the views, by hand."""
    cells = [view * 2 + repeat for view in range(4)]
    curve = result.scores.probability[method][:, :, cells].mean(axis=(2, 3), dtype=float)
    return float((curve[1] - curve[0])[1:].mean())


def test_intact_accuracy_is_that_of_the_given_model(both) -> None:
    assert both.intact_accuracy == 1.0
    assert both.view(2).intact_accuracy < 1.0


def test_a_saved_result_keeps_its_views(both, tmp_path) -> None:
    both.save(tmp_path)
    back = rw.load_result(tmp_path)
    assert back.views == both.views
    assert back.view(3).ranking().equals(both.view(3).ranking())
    head = (tmp_path / "result.json").read_text()
    (tmp_path / "result.json").write_text(head.replace('"repeats": 8', '"repeats": 6'))
    with pytest.raises(DataError, match="'repeats' is 6, expected a multiple of the 4 in 'settings.views'"):
        rw.load_result(tmp_path)


def test_a_result_without_views_is_one(toy) -> None:
    model, images, labels, maps = toy
    result = rw.evaluate(model, images, labels, maps, strategy="road", fractions=SHARES)
    assert result.views == [{"judge": "untouched", "imputer": "noisy-linear"}]
    assert result.view(0).ranking().equals(result.ranking())
    with pytest.raises(InputError, match="view: got 1, this result has 1"):
        result.view(1)


def test_a_stopped_run_of_views_goes_on(toy, both, tmp_path) -> None:
    model, images, labels, maps = toy
    settings = {"strategy": "symmetric", "fractions": SHARES, "mean": [0.5], "repeats": 2, "checkpoint": tmp_path}
    calls = []
    for _ in range(2):
        result = rw.evaluate(model, images, labels, maps, judge=judge_of(model), progress=calls.append, **settings)
        np.testing.assert_array_equal(result.scores.probability, both.scores.probability)
        assert sum(calls) == 50 * 2 * 2 * 2 * 8
        calls.clear()
    with pytest.raises(InputError, match=r"other settings \(judges is "):
        rw.evaluate(model, images, labels, maps, judge=Linear().eval(), **settings)


def test_a_strategy_that_fine_tunes_needs_training_samples_or_a_judge(toy) -> None:
    model, images, labels, maps = toy
    with pytest.raises(InputError, match="needs train=.*or judge="):
        rw.evaluate(model, images, labels, maps, strategy="symmetric", mean=[0.5])
    with pytest.raises(InputError, match="strategy 'road' asks the given model only"):
        rw.evaluate(model, images, labels, maps, strategy="road", judge=judge_of(model))


def test_the_copy_is_made_from_the_training_samples(toy) -> None:
    model, images, labels, maps = toy
    before = model.layer.weight.clone()
    strategy = Strategy(training="finetune", imputer="mean", fractions=SHARES)
    result = rw.evaluate(model, images, labels, maps, strategy=strategy, train=(images, labels), mean=[0.5])
    assert result.views == [{"judge": "fine-tuned", "imputer": "mean"}]
    assert torch.equal(model.layer.weight, before)
    again = rw.evaluate(model, images, labels, maps, strategy=strategy, train=(images, labels), mean=[0.5])
    np.testing.assert_array_equal(result.scores.logit, again.scores.logit)


def test_capped_removal_by_hand(toy) -> None:
    """Every unit of the top p goes with probability min(alpha, beta / p); the draw is shared by all methods."""
    model, images, labels, maps = toy
    seen = []

    def fill(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append(removed.clone())
        return torch.where(removed[:, None], 0.0, images)

    strategy = Strategy(imputer=fill, fractions=(0.25, 1.0), alpha=0.5, beta=0.25, order="morf")
    rw.evaluate(model, images, labels, maps, strategy=strategy, mean=[0.5], repeats=200, audit="off")
    masks = torch.stack(seen).view(200, 2, 2, 50, 6, 6).float()  # repeat, method, share, sample
    rates = masks.mean(dim=(0, 3, 4, 5))
    np.testing.assert_allclose(rates[:, 0], 0.5 * 9 / 36, atol=0.005)  # alpha is the tighter bound
    np.testing.assert_allclose(rates[:, 1], 0.25, atol=0.005)  # beta is
    top = torch.from_numpy(maps["effect"]).flatten(1).topk(9).indices
    outside = torch.ones(50, 36).scatter(1, top, 0).view(50, 6, 6)
    assert (masks[:, 0, 0] * outside).sum() == 0
    assert torch.equal(masks[:, 0, 1], masks[:, 1, 1])  # with all units taken, methods cannot differ


def test_a_thorough_audit_scores_by_single_patches_too(toy) -> None:
    model, images, labels, maps = toy
    settings = {"fractions": SHARES, "mean": [0.5]}
    found = rw.evaluate(model, images, labels, maps, audit="thorough", train=(images, labels), **settings).audit
    scores = found["idsds"]["scores"]
    assert set(scores) == {"effect", "noise"}
    assert scores["effect"]["score"] > scores["noise"]["score"]
    assert "idsds" not in rw.evaluate(model, images, labels, maps, audit="thorough", **settings).audit
    assert rw.evaluate(model, images, labels, maps, audit="off", **settings).audit == {}
    assert set(rw.evaluate(model, images, labels, maps, **settings).audit) == {"leakage"}


def test_a_run_that_goes_on_has_the_same_audit(toy, tmp_path) -> None:
    model, images, labels, maps = toy
    settings = {"fractions": SHARES, "mean": [0.5], "checkpoint": tmp_path}
    first = rw.evaluate(model, images, labels, maps, **settings).audit
    (kept,) = tmp_path.glob("audit-quick-*.json")
    assert rw.evaluate(model, images, labels, maps, **settings).audit == first
    kept.write_text("{")  # damaged: made anew, from blocks that are not scored again
    again = rw.evaluate(model, images, labels, maps, **settings).audit
    for found in (first, again):
        found["leakage"].pop("seconds")
    assert again == first


class Dropping(Linear):
    """The same with dropout and batch normalisation, which act in training mode only."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm = torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(36)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layer(self.drop(self.norm(images.flatten(1))))


def test_a_judge_is_asked_in_evaluation_mode_and_left_as_it_was(toy) -> None:
    model, images, labels, maps = toy
    judge = Dropping().train()
    before, state = {name: value.clone() for name, value in judge.state_dict().items()}, torch.get_rng_state()
    settings = {"strategy": "symmetric", "fractions": SHARES, "mean": [0.5], "judge": judge}
    one, two = (rw.evaluate(model, images, labels, maps, **settings) for _ in range(2))
    np.testing.assert_array_equal(one.scores.logit, two.scores.logit)
    assert judge.training
    assert all(torch.equal(value, before[name]) for name, value in judge.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_judge_of_other_classes_is_refused(toy) -> None:
    model, images, labels, maps = toy
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3))
    with pytest.raises(InputError, match="judge: it has 3 classes and the model 2"):
        rw.evaluate(model, images, labels, maps, strategy="symmetric", judge=other, mean=[0.5])


@pytest.mark.parametrize("fills", [("mean", "mean"), (lambda x, r, g: x, lambda x, r, g: x * 1)])
def test_fills_of_one_name_are_refused_before_any_work(toy, fills: tuple) -> None:
    _, images, labels, maps = toy
    with pytest.raises(InputError, match="imputer: two fills are called"):
        rw.evaluate(lambda x: pytest.fail("asked"), images, labels, maps, imputer=fills, mean=[0.5])


def test_normalised_training_samples_are_brought_back_to_pixel_units(toy) -> None:
    _, images, labels, maps = toy
    seen: list[float] = []

    class Looking(torch.nn.Module):
        """Notes the range of what it is given."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = Linear()

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            seen.extend((float(given.min()), float(given.max())))
            return self.inner(given)

    normal = (images - 0.5) / 0.25
    rw.evaluate(
        Looking(), normal, labels, maps, strategy="symmetric", train=(normal, labels), normalized=([0.5], [0.25]),
        fractions=SHARES,
    )  # fmt: skip
    assert min(seen) >= -2.3
    assert max(seen) <= 2.3


def test_the_training_samples_give_the_mean_of_the_fill(toy) -> None:
    model, images, labels, maps = toy
    settings = {"strategy": "symmetric", "train": (images, labels), "fractions": SHARES, "audit": "off"}
    result = rw.evaluate(model, iter_of(images, labels), None, maps, **settings)
    assert result.settings["mean_source"] == "train"
    assert result.settings["mean"] == pytest.approx([float(images.mean())], abs=1e-6)


def iter_of(images: torch.Tensor, labels: torch.Tensor) -> torch.utils.data.DataLoader:
    """Images whose mean is not known beforehand."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=16)


def test_token_ids_cannot_be_fine_tuned_on(toy) -> None:
    tokens, labels = torch.arange(40).view(20, 2) % 7, torch.arange(20) % 2
    model = torch.nn.Sequential(torch.nn.Embedding(8, 2), torch.nn.Flatten(), torch.nn.Linear(4, 2))
    fill = rw.imputation.MaskToken(7)
    with pytest.raises(InputError, match="cannot be fine-tuned on token ids"):
        rw.evaluate(
            model, tokens, labels, {"m": np.arange(40.0).reshape(20, 2)}, strategy="symmetric", imputer=fill,
            train=(tokens, labels), intact_check="warn",
        )  # fmt: skip


def test_a_second_view_that_cannot_be_had_costs_nothing_but_itself(toy) -> None:
    _, images, labels, maps = toy

    class Fixed(torch.nn.Module):
        """No parameters: no copy can be fine-tuned."""

        def forward(self, given: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                return Linear()(given)

    result = rw.evaluate(Fixed(), images, labels, maps, audit="thorough", train=(images, labels), fractions=SHARES)
    assert "idsds" not in result.audit
    assert any(
        "IDSDS, the second view, was left out: finetune: the model has no parameters" in w for w in result.warnings
    )


@pytest.mark.parametrize("text", ["[]", "3", "null", "{", "[" * 3000, '{"a":' * 40 + "1" + "}" * 40])
def test_a_damaged_audit_is_made_anew(toy, tmp_path, text: str) -> None:
    model, images, labels, maps = toy
    settings = {"fractions": SHARES, "mean": [0.5], "checkpoint": tmp_path}
    rw.evaluate(model, images, labels, maps, **settings)
    (kept,) = tmp_path.glob("audit-quick-*.json")
    kept.write_text(text)
    assert "leakage" in rw.evaluate(model, images, labels, maps, **settings).audit


def test_each_share_counts_alike_where_the_strategy_says_so(toy) -> None:
    model, images, labels, maps = toy
    shares = (0.05, 0.1, 0.9)
    strategy = Strategy(fractions=shares, average="shares", readout="probability")
    result = rw.evaluate(model, images, labels, maps, strategy=strategy, mean=[0.5], audit="off")
    curves = result.scores.probability.mean(axis=(3, 4), dtype=np.float64)  # [method, order, share]
    by_hand = (curves[:, 1, 1:] - curves[:, 0, 1:]).mean(axis=1)
    ranking = result.ranking().set_index("method")
    np.testing.assert_allclose(ranking.loc[result.methods, "score"], by_hand, atol=1e-7)
    assert ranking.loc["effect", "score"] != pytest.approx(
        float(np.trapezoid(curves[0, 1] - curves[0, 0], result.fractions) / 0.9), abs=1e-4
    )
    morf = rw.evaluate(
        model, images, labels, maps, strategy=strategy, order="morf", mean=[0.5], audit="off"
    ).ranking()  # fmt: skip
    assert morf.attrs["score"] == "mean over the shares of the MoRF curve"
    assert morf.attrs["direction"] == "lower is better"
    np.testing.assert_allclose(
        morf.set_index("method").loc[result.methods, "score"], curves[:, 0, 1:].mean(axis=1), atol=1e-7
    )


def test_a_view_that_says_nothing_is_left_out_of_every_mean(both) -> None:
    dead = replace(both, scores=copy.deepcopy(both.scores))
    for readout in READOUTS:  # the second of four views, of two repeats each
        dead.scores[readout][:, :, :, 2:4] = dead.scores[readout][:1, :1, :1, 2:4]
    views = len(both.views)
    assert (views, both.repeats) == (4, 8)
    cells, left = [0, 1, 4, 5, 6, 7], [0, 2, 3]
    cut = {name: both.scores[name][:, :, :, cells] for name in READOUTS}
    settings = both.settings | {"views": [both.views[view] for view in left]}
    live = replace(both, scores=replace(both.scores, **cut), repeats=6, settings=settings)
    assert dead.counted_views() == left
    assert both.counted_views() == list(range(views))
    for readout in ("top1", "probability"):
        pd.testing.assert_frame_equal(dead.curves(readout), live.curves(readout))
        one, other = dead.ranking(readout), live.ranking(readout)
        pd.testing.assert_frame_equal(one, other)
        assert one.attrs["left_out"] == [f"{both.views[1]['judge']} with {both.views[1]['imputer']} fill"]
        assert other.attrs["left_out"] == []
    np.testing.assert_array_equal(dead.agreement().spearman, live.agreement().spearman)
    assert dead.view(1).says_nothing()
    assert dead.view(1).ranking().attrs["left_out"] == []  # alone, it is what was asked for
    flat = replace(both, scores=replace(both.scores, top1=np.ones_like(both.scores.top1)))
    assert flat.counted_views("top1") == list(range(views))


def test_a_single_method_is_never_dead(both) -> None:
    one = replace(
        both, methods=both.methods[:1], scores=replace(both.scores, top1=np.ones_like(both.scores.top1[:1]))
    )
    assert not one.says_nothing("top1")
