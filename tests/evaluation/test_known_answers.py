"""Field reports about models, labels, maps, shapes, seeds and direction: each with its right value."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import roadworthy as rw
from roadworthy.errors import AttributionError, InputError, ModelError, RoadworthyWarning


def accuracy(result, method: str, order: str, fraction: float) -> float:
    table = result.table
    row = table[(table.method == method) & (table.order == order) & np.isclose(table.fraction, fraction)]
    return row.top1.item()


def curve(result) -> np.ndarray:
    return result.table[["top1", "top5", "probability", "logit"]].to_numpy()


def test_1_any_output_form_gives_the_same_numbers(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    maps = q4_maps(images)
    plain = curve(rw.evaluate(q4, images, labels, maps))
    forms = {
        "mapping": (lambda x: {"logits": q4(x)}, None),
        "object": (lambda x: SimpleNamespace(logits=q4(x), hidden=1), None),
        "tuple": (lambda x: (torch.zeros(len(x)), q4(x)), 1),
        "key": (lambda x: {"scores": q4(x)}, "scores"),
        "callable": (lambda x: [q4(x)], lambda returned: returned[0]),
    }
    for model, output in forms.values():
        np.testing.assert_allclose(curve(rw.evaluate(model, images, labels, maps, output=output)), plain, atol=1e-6)
    with pytest.raises(ModelError, match="tuple of 2.*Pass output="):
        rw.evaluate(forms["tuple"][0], images, labels, maps)


def test_3_shifted_labels_stop_with_the_intact_accuracy(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    with pytest.raises(InputError, match=r"intact accuracy is 0\.00 \(n = 8\).*100%.*label - 1.*shifted by one"):
        rw.evaluate(q4, images, (labels + 1) % 4, q4_maps(images))
    with pytest.warns(RoadworthyWarning, match="shifted by one"):
        result = rw.evaluate(q4, images, (labels + 1) % 4, q4_maps(images), intact_check="warn")
    assert any("shifted by one" in warning for warning in result.warnings)


def test_3_zero_removed_is_always_the_first_point(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    table = rw.evaluate(q4, images, labels, q4_maps(images), fractions=(0.5,)).table
    assert table.fraction.unique().tolist() == [0.0, 0.5]
    assert (table[table.fraction == 0].top1 == 1.0).all()
    assert (table[table.fraction == 0].removed == 0).all()


def test_4_nonfinite_maps_are_refused_by_sample_or_dropped(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    maps = q4_maps(images)
    maps["oracle"][3] = np.nan
    maps["oracle"][5, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"oracle: '3', '5'.*nonfinite='drop'") as caught:
        rw.evaluate(q4, images, labels, maps)
    assert isinstance(caught.value, AttributionError)
    with pytest.warns(RoadworthyWarning, match="2 samples were left out"):
        result = rw.evaluate(q4, images, labels, maps, nonfinite="drop")
    assert result.n == 6
    assert result.ids == ["0", "1", "2", "4", "6", "7"]
    assert (result.table.n == 6).all()


def test_4_a_callable_with_a_nonfinite_map_is_dropped_alike(q4, q4_data) -> None:
    images, labels = q4_data()

    def mine(model, batch: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        maps = batch.mean(dim=1).clone()
        maps[2] = float("nan")
        return maps

    with pytest.raises(AttributionError, match=r"mine: '2'.*nonfinite='drop'"):
        rw.evaluate(q4, images, labels, {"mine": mine, "random": "random"})
    with pytest.warns(RoadworthyWarning, match="1 samples were left out"):
        result = rw.evaluate(q4, images, labels, {"mine": mine, "random": "random"}, nonfinite="drop")
    assert result.ids == ["0", "1", "3", "4", "5", "6", "7"]


def test_8_dropout_left_in_train_mode_is_put_to_rest_and_restored(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), q4).eval()
    model[0].train()
    first, second = (rw.evaluate(model, images, labels, q4_maps(images)) for _ in range(2))
    assert (curve(first) == curve(second)).all()
    np.testing.assert_allclose(curve(first), curve(rw.evaluate(q4, images, labels, q4_maps(images))), atol=1e-6)
    assert model[0].training
    assert not model[1].training


def test_8_flags_are_restored_after_an_error(q4, q4_data) -> None:
    images, labels = q4_data()
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), q4).train()

    def broken(*_: object) -> torch.Tensor:
        raise RuntimeError("on purpose")

    with pytest.raises(Exception, match="on purpose"):
        rw.evaluate(model, images, labels, {"mine": broken})
    assert all(module.training for module in model.modules())


def test_9_a_pixel_goes_with_all_its_channels(q4, q4_data) -> None:
    images, labels = q4_data(height=4, width=4)
    attribution = np.zeros((8, 3, 4, 4))
    attribution[:, 0, 0] = 1
    seen: list[torch.Tensor] = []

    def fill(batch: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append(removed.clone())
        return torch.full_like(batch, -1)

    options = {"order": "morf", "imputer": fill, "fractions": (0.25,), "audit": "off"}
    rw.evaluate(q4, images, labels, {"red": attribution}, **options)
    assert seen[0].shape == (8, 4, 4)
    assert seen[0][:, 0].all()
    assert seen[0].sum() == 8 * 4
    rw.evaluate(q4, images, labels, {"red": attribution}, unit="channel", **options)
    assert seen[1].shape == (8, 3, 4, 4)
    assert (seen[1].sum(dim=(1, 2, 3)) == 12).all()


def test_19_seeds_decide_everything_and_global_state_is_left_alone(q4, q4_data) -> None:
    images, labels = q4_data()
    maps = {"flat": np.zeros((8, 16, 16))}
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    zero, again, one = (rw.evaluate(q4, images, labels, maps, seed=seed) for seed in (0, 0, 1))
    assert (zero.scores.logit == again.scores.logit).all()
    assert (zero.scores.logit != one.scores.logit).any()
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002


def test_19_a_generator_is_a_seed_too(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    runs = [rw.evaluate(q4, images, labels, q4_maps(images), seed=np.random.default_rng(5)) for _ in range(2)]
    assert (runs[0].scores.logit == runs[1].scores.logit).all()
    assert runs[0].provenance["seed"] == runs[1].provenance["seed"]


def test_21_direction(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    result = rw.evaluate(q4, images, labels, q4_maps(images), imputer="zero", fractions=(0.3, 0.7))
    found = {name: accuracy(result, name, "morf", 0.3) for name in ("oracle", "random", "inverse")}
    assert found == {"oracle": 0.0, "random": 1.0, "inverse": 1.0}
    # keeping 30 % by the oracle = removing 70 % by the inverse
    assert accuracy(result, "oracle", "lerf", 0.7) == accuracy(result, "inverse", "morf", 0.7) == 1.0
    assert result.ranking().method.tolist() == ["oracle", "random", "inverse"]


def test_the_inverse_gains_exactly_the_negative_and_a_constant_nothing(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    maps = q4_maps(images) | {"constant": np.ones((8, 16, 16))}
    maps["inverse"] = -maps["oracle"]
    with pytest.warns(RoadworthyWarning, match="constant: 8 of 8 maps are constant"):
        result = rw.evaluate(q4, images, labels, maps)
    score = result.ranking("logit").set_index("method").score
    assert score["inverse"] == pytest.approx(-score["oracle"], abs=1e-12)
    assert score["constant"] == 0.0
    info = result.method_info.set_index("method")
    assert info.constant_maps.to_dict() == {"oracle": 0, "inverse": 0, "random": 0, "constant": 8}
    assert info.tied_share["constant"] == 1.0


@pytest.mark.parametrize("strategy", ["road", "pixel-flipping", "deletion", "insertion"])
def test_every_preset_puts_the_oracle_first_and_its_inverse_last(q4, q4_data, q4_maps, strategy: str) -> None:
    images, labels = q4_data(n=16)
    result = rw.evaluate(q4, images, labels, q4_maps(images), strategy=strategy)
    assert result.ranking("logit").method.tolist() == ["oracle", "random", "inverse"]
    assert result.ranking().attrs["readout"] == ("top1" if strategy == "road" else "probability")


def test_24_works_where_gradients_are_off(q4, q4_data) -> None:
    images, labels = q4_data()
    outside = rw.evaluate(q4, images, labels, ["grad", "random"])
    with torch.no_grad():
        inside = rw.evaluate(q4, images, labels, ["grad", "random"])
    assert (curve(outside) == curve(inside)).all()


def test_25_non_square(q4, q4_data) -> None:
    images, labels = q4_data(n=6, height=16, width=24)
    oracle = images.mean(dim=1).numpy()
    result = rw.evaluate(q4, images, labels, {"oracle": oracle}, imputer="zero", fractions=(0.25,), order="morf")
    assert accuracy(result, "oracle", "morf", 0) == 1.0
    assert accuracy(result, "oracle", "morf", 0.25) == 0.0
    with pytest.raises(ValueError, match=r"\(24, 16\).*\(3, 16, 24\).*swapped"):
        rw.evaluate(q4, images, labels, {"oracle": oracle.transpose(0, 2, 1)})


def test_28_normalised_images_are_filled_in_pixel_units(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.2, 0.2)
    stats = [torch.tensor(part).view(1, 3, 1, 1) for part in (mean, std)]
    normal = (images - stats[0]) / stats[1]

    def model(x: torch.Tensor) -> torch.Tensor:
        return q4(x * stats[1] + stats[0])

    maps = q4_maps(images)
    plain = rw.evaluate(q4, images, labels, maps, mean=mean)
    before = rw.evaluate(model, images, labels, maps, normalize=(mean, std))
    already = rw.evaluate(model, normal, labels, maps, normalized=(mean, std))
    np.testing.assert_allclose(curve(before), curve(plain), atol=1e-4)
    np.testing.assert_allclose(curve(already), curve(plain), atol=1e-4)
    with pytest.warns(RoadworthyWarning, match=r"images range from -\d.*normalized=\(mean, std\)"):
        rw.evaluate(model, normal, labels, maps)


@pytest.mark.parametrize("form", [list, np.int32, torch.int16, "column", float])
def test_31_labels_in_any_form(q4, q4_data, q4_maps, form) -> None:
    images, labels = q4_data()
    given = {
        list: labels.tolist(),
        np.int32: labels.numpy().astype(np.int32),
        torch.int16: labels.to(torch.int16),
        "column": labels[:, None],
        float: labels.double(),
    }[form]
    maps = q4_maps(images)
    assert (curve(rw.evaluate(q4, images, given, maps)) == curve(rw.evaluate(q4, images, labels, maps))).all()


def test_35_tables_remove_features() -> None:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.normal(size=(50, 4)).astype(np.float32))
    weight = torch.tensor([2.0, -1.0, 0.5, 0.1])

    def model(rows: torch.Tensor) -> torch.Tensor:
        score = rows @ weight
        return torch.stack([-score, score], dim=1)

    labels = (x @ weight > 0).long()
    attribution = (weight * x).abs().numpy()
    result = rw.evaluate(model, x, labels, {"|wx|": attribution}, imputer="mean", fractions=(0.25, 0.5, 0.75))
    assert result.removed == [0, 1, 2, 3]
    assert accuracy(result, "|wx|", "lerf", 0.5) > accuracy(result, "|wx|", "morf", 0.5)
    with pytest.raises(InputError, match="noisy-linear.*mean"):
        rw.evaluate(model, x, labels, {"|wx|": attribution})


def test_35_series_remove_time_steps() -> None:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.random(size=(20, 2, 30)).astype(np.float32)) * 0.2
    labels = torch.arange(20) % 2
    for row, label in enumerate(labels.tolist()):
        x[row, :, 15 * label : 15 * label + 15] += 0.8

    def model(series: torch.Tensor) -> torch.Tensor:
        return 20 * torch.stack([series[:, :, :15].mean((1, 2)), series[:, :, 15:].mean((1, 2))], dim=1)

    maps = {"oracle": x.mean(dim=1).numpy(), "inverse": -x.mean(dim=1).numpy()}
    for imputer in ("zero", "noisy-linear"):
        result = rw.evaluate(model, x, labels, maps, imputer=imputer, fractions=(0.2, 0.6))
        assert result.removed == [0, 6, 18]
        assert result.ranking("logit").method.tolist() == ["oracle", "inverse"]


def test_token_ids_with_a_mask_token() -> None:
    tokens = torch.arange(1, 41).reshape(8, 5) % 7 + 1
    labels = (tokens == 3).any(dim=1).long()
    assert 0 < labels.sum() < 8

    def model(ids: torch.Tensor) -> torch.Tensor:
        assert not ids.is_floating_point()
        found = (ids == 3).any(dim=1).float()
        return torch.stack([1 - found, found], dim=1)

    maps = {"oracle": (tokens == 3).float().numpy()}
    result = rw.evaluate(
        model, tokens, labels, maps, imputer=rw.imputation.MaskToken(0), fractions=(0.2,), order="morf"
    )
    assert accuracy(result, "oracle", "morf", 0) == 1.0
    assert accuracy(result, "oracle", "morf", 0.2) == pytest.approx(float((labels == 0).float().mean()))


def test_38_data_without_end_is_refused(q4, q4_data) -> None:
    images, labels = q4_data()
    endless = itertools.cycle(list(zip(images, labels.tolist(), strict=True)))
    with pytest.raises(InputError, match=r"cycle has no known length.*max_samples="):
        rw.evaluate(q4, endless, None, ["random"])
    result = rw.evaluate(q4, endless, None, ["random"], max_samples=10)
    assert result.n == 10
    assert len(set(result.ids)) == 10


def test_images_may_come_as_tensor_array_dataset_or_loader(q4, q4_data) -> None:
    images, labels = q4_data(n=10)
    dataset = TensorDataset(images, labels)
    wanted = curve(rw.evaluate(q4, images, labels, ["grad", "random"]))
    for given in (dataset, DataLoader(dataset, batch_size=3), DataLoader(dataset, batch_size=4, num_workers=2)):
        np.testing.assert_allclose(curve(rw.evaluate(q4, given, None, ["grad", "random"])), wanted, atol=1e-6)
    np.testing.assert_allclose(curve(rw.evaluate(q4, images.numpy(), labels, ["grad", "random"])), wanted, atol=1e-6)
    channels_last = rw.evaluate(
        lambda x: q4(x.movedim(-1, 1)), images.movedim(1, -1), labels, ["grad", "random"], layout="NHWC"
    )
    np.testing.assert_allclose(curve(channels_last), wanted, atol=1e-6)


def test_maps_are_channels_first_in_any_layout(q4, q4_data) -> None:
    images, labels = q4_data(n=6, height=16, width=24)
    wanted = rw.evaluate(q4, images, labels, {"x": images.numpy()})
    last = images.movedim(1, -1)
    found = rw.evaluate(lambda x: q4(x.movedim(-1, 1)), last, labels, {"x": images.numpy()}, layout="NHWC")
    np.testing.assert_allclose(curve(found), curve(wanted), atol=1e-6)


def test_a_shuffling_loader_cannot_be_matched_with_saved_maps(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    loader = DataLoader(TensorDataset(images, labels), shuffle=True)
    with pytest.raises(InputError, match="'oracle' is an array.*shuffle=False"):
        rw.evaluate(q4, loader, None, q4_maps(images))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3, 4] * 2, r"range from 1 to 4.*4 classes \(0 to 3\).*subtract 1"),
        ([0, 1, 2, -1] * 2, "range from -1 to 2.*Negative"),
        ([0, 1, 2, 9] * 2, "range from 0 to 9"),
        ([0.5, 1, 2, 3] * 2, r"got 0\.5, 0\.5, expected whole numbers"),
        ([0, 1, 2], r"got shape \(3,\), expected one class per sample, \(8,\)"),
        (np.eye(4)[[0, 1, 2, 3] * 2], "one-hot labels take their argmax"),
    ],
)
def test_bad_labels_are_named(q4, q4_data, labels, message: str) -> None:
    images, _ = q4_data()
    with pytest.raises(InputError, match=message):
        rw.evaluate(q4, images, labels, ["random"])


def test_nan_logits_are_named(q4, q4_data) -> None:
    images, labels = q4_data()

    def broken(x: torch.Tensor) -> torch.Tensor:
        logits = q4(x).clone()
        logits[x.amin(dim=(1, 2, 3)) < -5] = float("nan")
        return logits

    poisoned = images.clone()
    poisoned[2, 0, 0, 0] = -9
    with (
        pytest.warns(RoadworthyWarning, match="range"),
        pytest.raises(ModelError, match=r"NaN.*1 of 8 intact samples: '2'"),
    ):
        rw.evaluate(broken, poisoned, labels, ["random"])

    def fill(batch: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.full_like(batch, -9)

    with pytest.raises(ModelError, match=r"copies with 5% removed by random \(morf\)"):
        rw.evaluate(broken, images, labels, ["random"], imputer=fill)


def test_accuracy_at_chance_stops(q4_data) -> None:
    images, labels = q4_data(n=40)
    scores = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    order = {float(image.sum()): row for row, image in enumerate(images)}

    def guessing(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([scores[order.get(float(image.sum()), 0)] for image in x])

    with pytest.raises(InputError, match=r"intact accuracy is 0\.\d\d \(n = 40\), not clearly above chance 0\.25"):
        rw.evaluate(guessing, images, labels, ["random"])


def test_no_labels_scores_agreement_with_the_intact_answer(q4, q4_data, q4_maps) -> None:
    images, _ = q4_data()
    with pytest.warns(RoadworthyWarning, match="no labels were given"):
        result = rw.evaluate(q4, images, None, q4_maps(images))
    assert result.intact_accuracy == 1.0
    assert any("no labels" in warning for warning in result.warnings)


def test_images_of_eight_bits_are_refused(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.raises(InputError, match=r"torch\.uint8.*divide 8-bit images by 255"):
        rw.evaluate(q4, (images * 255).to(torch.uint8), labels, ["random"])
    with pytest.warns(RoadworthyWarning, match="divide by 255"):
        rw.evaluate(q4, images * 255, labels, ["random"])


def test_a_map_count_that_does_not_fit_is_refused(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    with pytest.raises(AttributionError, match="oracle: 5 maps for 8 samples"):
        rw.evaluate(q4, images, labels, {"oracle": q4_maps(images)["oracle"][:5]})


def test_unknown_names_get_a_suggestion(q4, q4_data) -> None:
    images, labels = q4_data()
    with pytest.raises(InputError, match="Did you mean 'random'"):
        rw.evaluate(q4, images, labels, ["randon"])
    with pytest.raises(InputError, match="Did you mean 'noisy-linear'"):
        rw.evaluate(q4, images, labels, ["random"], imputer="noisy-liner")
    with pytest.raises(InputError, match="Did you mean 'deletion'"):
        rw.evaluate(q4, images, labels, ["random"], strategy="deltion")


def test_nothing_of_the_callers_is_changed(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    model = torch.nn.Sequential(torch.nn.BatchNorm2d(3, affine=True), q4).train()
    maps = q4_maps(images)
    before = [images.clone(), labels.clone(), *(array.copy() for array in maps.values())]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    model[0].weight.grad = torch.ones(3)
    rw.evaluate(model, images, labels, maps | {"grad": "grad"})
    for kept, now in zip(before, [images, labels, *maps.values()], strict=True):
        assert (np.asarray(kept) == np.asarray(now)).all()
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert torch.equal(model[0].weight.grad, torch.ones(3))
    assert model.training
    assert not model._forward_hooks
    assert not model[0]._backward_hooks


def test_target_decides_whose_probability_is_recorded(q4, q4_data, q4_maps) -> None:
    images, labels = q4_data()
    wrong = (labels + 1) % 4
    by_label = rw.evaluate(q4, images, labels, q4_maps(images), target="label")
    given = rw.evaluate(q4, images, labels, q4_maps(images), target=wrong)
    intact = torch.softmax(q4(images), dim=1)
    rows = torch.arange(8)
    np.testing.assert_allclose(by_label.scores.probability[0, 0, 0, 0], intact[rows, labels].numpy(), rtol=1e-5)
    np.testing.assert_allclose(given.scores.probability[0, 0, 0, 0], intact[rows, wrong].numpy(), rtol=1e-5)
    with pytest.raises(InputError, match="target: 3 classes for 8 samples"):
        rw.evaluate(q4, images, labels, q4_maps(images), target=[0, 1, 2])
