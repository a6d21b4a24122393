from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.labelfree.consistency import perturbation_consistency
from roadworthy.labelfree.predict import predict_outputs
from roadworthy.records import Data, Split


def made(*layers: nn.Module) -> nn.Sequential:
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(*layers)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model


class Held:
    """Images in memory as the source of a split."""

    def __init__(self, images: torch.Tensor, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels
        self.ids = [f"image {row}" for row in range(len(images))]

    def read(self, index: int) -> torch.Tensor:
        return self.images[index]

    def where(self, index: int) -> str:
        return self.ids[index]


IMAGES = torch.rand(11, 3, 8, 8, generator=torch.Generator().manual_seed(1))
LABELS = np.arange(11) % 4


def convolving() -> nn.Sequential:
    return made(
        nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4)
    )


@pytest.mark.parametrize("kind", ["tensor", "array", "split", "dataset", "loader"])
def test_outputs_are_those_of_the_model_in_evaluation(kind: str) -> None:
    model = convolving()
    labels = None
    data: object = IMAGES
    if kind in ("tensor", "array"):
        labels = LABELS
        data = IMAGES.numpy() if kind == "array" else IMAGES
    elif kind == "split":
        data = Split(Held(IMAGES, LABELS.astype(np.int64)))
    else:
        data = TensorDataset(IMAGES, torch.from_numpy(LABELS))
        data = DataLoader(data, batch_size=5) if kind == "loader" else data
    said = predict_outputs(model, data, labels=labels, max_batch=4, classes="abcd")
    assert all(part.training for part in model.modules())
    model.eval()
    with torch.no_grad():
        logits, held = model(IMAGES), model[:5](IMAGES)
    np.testing.assert_allclose(said.probabilities, torch.softmax(logits.double(), 1).numpy(), atol=1e-5)
    assert said.features is not None
    np.testing.assert_allclose(said.features, held.numpy(), atol=1e-5)
    assert said.energy is not None
    np.testing.assert_allclose(said.energy, -torch.logsumexp(logits.double(), 1).numpy(), atol=1e-4)
    assert said.labels is not None
    assert said.labels.tolist() == LABELS.tolist()
    assert said.classes == ("a", "b", "c", "d")
    if kind != "split":
        assert said.ids == tuple(map(str, range(11)))
    assert not any(part._forward_hooks for part in model.modules())


def test_layers_are_named_and_their_axes_of_space_are_averaged() -> None:
    model = convolving().eval()
    with torch.no_grad():
        held = model[:3](IMAGES).mean(dim=(2, 3))
    said = predict_outputs(model, IMAGES, features="2")
    assert said.features is not None
    np.testing.assert_allclose(said.features, held.numpy(), atol=1e-5)
    with pytest.raises(InputError, match=r"no layer 'conv'.*Layers: '0', '1'"):
        predict_outputs(model, IMAGES, features="conv")
    assert predict_outputs(model, IMAGES, features=None).features is None


def test_axes_of_time_are_averaged_in_both_layouts() -> None:
    series = torch.rand(5, 2, 20, generator=torch.Generator().manual_seed(0))
    model = made(nn.Conv1d(2, 3, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(3, 2)).eval()
    said = predict_outputs(model, series, features="1")
    assert said.features is not None
    np.testing.assert_allclose(said.features, model[:2](series).mean(2).detach().numpy(), atol=1e-6)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.mix, self.head = nn.Embedding(9, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.mix(self.table(ids))).mean(1)

    tokens, ids = Tokens().eval(), torch.randint(9, (5, 7))
    for features in ("penultimate", "mix"):
        held = predict_outputs(tokens, ids, features=features).features
        assert held is not None
        np.testing.assert_allclose(held, tokens.mix(tokens.table(ids)).mean(1).detach().numpy(), atol=1e-6)


class Heads(nn.Module):
    """The class scores are made first; another head, of another size, comes last."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.classes, self.other = nn.Linear(3, 5), nn.Linear(5, 4), nn.Linear(4, 7)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.classes(torch.relu(self.body(x)))
        return self.other(scores), scores


def test_the_layer_that_made_the_scores_is_found() -> None:
    model, data = Heads().eval(), torch.rand(6, 3)
    said = predict_outputs(model, data, output=1)
    assert said.features is not None
    np.testing.assert_allclose(said.features, torch.relu(model.body(data)).detach().numpy(), atol=1e-6)


def test_a_classifier_of_convolutions_and_one_without_any_layer() -> None:
    squeeze = made(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    said = predict_outputs(squeeze, IMAGES)
    assert said.features is not None
    np.testing.assert_allclose(said.features, squeeze[:2](IMAGES).mean((2, 3)).detach().numpy(), atol=1e-5)
    assert predict_outputs(lambda x: x.flatten(1)[:, :3], IMAGES).features is None
    model = made(nn.Linear(3, 4), nn.Linear(4, 2))
    through = predict_outputs(functools.partial(model.forward), torch.rand(3, 3))
    assert through.features is not None
    assert through.features.shape == (3, 4)


class SequenceFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.transpose(0, 1)).mean(0)


def test_where_the_penultimate_layer_has_no_row_for_each_sample_there_are_no_features_and_a_note() -> None:
    series = torch.rand(5, 7, 4)
    assert predict_outputs(SequenceFirst(), series).features is None
    for model, why in ((SequenceFirst(), "not given a row for each sample"), (lambda x: x[:, 0], "no linear or")):
        notes = perturbation_consistency(model, series, passes=1).notes
        assert any(why in note and "features=" in note for note in notes)
    with pytest.raises(InputError, match=r"holds shape \(7, 5, 3\), expected 5 rows"):
        predict_outputs(SequenceFirst(), series, features="head")


def test_features_may_come_from_elsewhere() -> None:
    said = predict_outputs(convolving(), IMAGES, features=lambda x: F.avg_pool2d(x, 4), max_batch=4)
    assert said.features is not None
    np.testing.assert_allclose(said.features, F.avg_pool2d(IMAGES, 4).flatten(1).numpy(), atol=1e-6)


def test_what_is_no_source_of_features_is_refused() -> None:
    with pytest.raises(InputError, match="features: got 3, expected 'penultimate'"):
        predict_outputs(torch.nn.Linear(3, 2), np.zeros((4, 3), np.float32), features=3)


def test_a_model_with_another_number_of_classes_now_and_then_is_refused() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(len(x), 3 if len(x) == 4 else 2)

    with pytest.raises(ModelError, match="2 class scores for some samples and 3 for others"):
        predict_outputs(model, np.zeros((7, 5), np.float32), max_batch=4)


def test_a_model_may_write_into_what_it_is_given() -> None:
    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x.mul_(mask[:, None])
        mask.zero_()
        return x

    x, mask = torch.rand(4, 3), torch.ones(4)
    kept = x.clone()
    predict_outputs(model, [{"x": x, "mask": mask}])
    assert torch.equal(x, kept)
    assert torch.equal(mask, torch.ones(4))


@pytest.mark.filterwarnings("error")
def test_an_array_may_be_read_only() -> None:
    values = np.random.default_rng(0).random((4, 3)).astype(np.float32)
    values.setflags(write=False)
    assert len(predict_outputs(torch.nn.Linear(3, 2), values)) == 4


def test_a_second_model_answers_about_the_same_samples() -> None:
    one, two = convolving(), made(nn.Flatten(), nn.Linear(192, 4))
    said = predict_outputs(one, IMAGES, second=two, max_batch=4)
    assert said.second is not None
    np.testing.assert_allclose(said.second, predict_outputs(two, IMAGES).probabilities, atol=1e-6)


def test_of_an_ensemble_the_mean_is_kept() -> None:
    one, two = convolving(), made(nn.Flatten(), nn.Linear(192, 4))
    alone = [predict_outputs(model, IMAGES) for model in (one, two)]
    said = predict_outputs([one, two], IMAGES, max_batch=4)
    mean = np.mean([part.probabilities for part in alone], axis=0)
    np.testing.assert_allclose(said.probabilities, mean, atol=1e-6)
    assert said.features is not None
    np.testing.assert_allclose(said.features, alone[0].features, atol=1e-5)


def test_normalisation_and_layout_reach_the_model() -> None:
    model = made(nn.Flatten(), nn.Linear(192, 4)).eval()
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 1.0, 2.0])
    said = predict_outputs(model, IMAGES, normalize=(mean.tolist(), std.tolist()))
    with torch.no_grad():
        logits = model((IMAGES - mean[:, None, None]) / std[:, None, None])
    np.testing.assert_allclose(said.probabilities, torch.softmax(logits, 1).numpy(), atol=1e-5)
    last = predict_outputs(model, IMAGES.movedim(1, -1), layout="NHWC")
    with torch.no_grad():
        expected = torch.softmax(model(IMAGES.movedim(1, -1)), 1)
    np.testing.assert_allclose(last.probabilities, expected.numpy(), atol=1e-5)


def test_labels_that_are_no_classes_are_left_out_with_a_warning() -> None:
    with pytest.warns(RoadworthyWarning, match="no class from 0 to 3"):
        said = predict_outputs(convolving(), TensorDataset(IMAGES, torch.full((11,), 4)))
    assert said.labels is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # -1 stands for a class that nobody knows
        said = predict_outputs(convolving(), TensorDataset(IMAGES, torch.full((11,), -1)))
    assert said.labels is None


def test_a_data_set_in_two_splits_is_refused() -> None:
    split = Split(Held(IMAGES, LABELS.astype(np.int64)))
    with pytest.raises(InputError, match=r"such as data.test"):
        predict_outputs(convolving(), Data("x", split, split, "abcd"))
