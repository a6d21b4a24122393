"""Answers on a split: in order, in batches, without the broken, with the model left as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.forward import Classifier
from roadworthy.model import accuracy, predict
from roadworthy.records import Split

Make = Callable[..., Split]


class Bands(nn.Module):
    """The logits are the mean brightness of the upper and the lower half."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        half = images.shape[2] // 2
        return torch.stack([part.mean(dim=(1, 2, 3)) for part in (images[:, :, :half], images[:, :, half:])], dim=1)


@pytest.mark.parametrize("max_batch", [1, 7, 256])
def test_logits_labels_and_ids_in_order(make_split: Make, max_batch: int) -> None:
    split, done = make_split(20), list[int]()
    answers = predict(Classifier(Bands(), max_batch=max_batch), split, progress=done.append)
    assert torch.equal(answers.logits, Bands()(split.images))
    assert torch.equal(answers.labels, split.labels)
    assert answers.ids == split.ids
    assert sum(done) == 20
    assert max(done) == min(max_batch, 20)


def test_accuracy_is_a_share(make_split: Make) -> None:
    split = make_split(30)
    assert accuracy(Bands(), split) == 1.0
    assert accuracy(lambda images: Bands()(images).flip(1), split) == 0.0  # type: ignore[arg-type]
    assert accuracy(lambda images: torch.tensor([[1.0, 0.0]]).repeat(len(images), 1), split) == 0.5  # type: ignore[arg-type]


def test_broken_samples_are_left_out(make_split: Make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = predict(Classifier(Bands(), max_batch=4), make_split(10, broken=[2, 5]))
    assert answers.ids == [str(number) for number in range(10) if number not in (2, 5)]
    assert answers.labels.tolist() == [0, 1, 1, 0, 0, 1, 0, 1]


def test_evaluation_mode_inside_and_the_old_mode_after(make_split: Make) -> None:
    model = nn.Sequential(nn.Dropout(0.9), nn.BatchNorm2d(1), Bands()).train()
    assert accuracy(model, make_split()) == 1.0
    assert all(part.training for part in model.modules())
    assert int(model[1].num_batches_tracked) == 0


def test_nothing_to_read(make_split: Make) -> None:
    classifier, split = Classifier(Bands()), make_split(2, broken=[0, 1])
    with pytest.warns(RoadworthyWarning), pytest.raises(InputError, match="train has no samples that can be read"):
        predict(classifier, split)


def test_other_forms_of_output(make_split: Make) -> None:
    def pair(images: torch.Tensor) -> Any:
        return "extra", Bands()(images)

    assert torch.equal(predict(Classifier(pair, output=1), make_split()).logits, Bands()(make_split().images))
