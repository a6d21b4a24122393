"""Learning rates against published step tables and torch's own scheduler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.model import Recipe


def test_steps_against_the_published_resnet50_schedule() -> None:
    # 1,281,167 images in batches of 4096, base rate 0.1 per 256: peak 1.6; the tables give the steps of each change
    recipe = Recipe(
        epochs=103, learning_rate=1.6, schedule="steps", warmup_epochs=5, steps=((30, 0.1), (60, 0.01), (80, 0.001))
    )
    per_epoch = 1_281_167 / 4096
    assert recipe.rate(0) == 0
    assert recipe.rate(782 / per_epoch) == pytest.approx(1.6 * 782 / 1564, rel=1e-3)
    for before, after, rate in ((1563, 1565, 1.6), (9383, 9384, 0.16), (18767, 18768, 0.016), (25022, 25023, 0.0016)):
        assert recipe.rate(after / per_epoch) == pytest.approx(rate)
        assert recipe.rate(before / per_epoch) != pytest.approx(rate, rel=1e-4)


def test_cosine_against_torch() -> None:
    recipe = Recipe(epochs=10, learning_rate=0.3, schedule="cosine")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        assert recipe.rate(epoch) == pytest.approx(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()


def test_one_cycle_is_two_straight_lines() -> None:
    recipe = Recipe(epochs=8, learning_rate=0.4, schedule="one-cycle", warmup_epochs=2)
    assert [recipe.rate(epoch) for epoch in (0, 1, 2, 5, 8)] == pytest.approx([0, 0.2, 0.4, 0.2, 0])


def test_warm_up_may_last_to_the_end() -> None:
    recipe = Recipe(epochs=2, learning_rate=0.4, schedule="cosine", warmup_epochs=2)
    assert recipe.rate(1.5) == pytest.approx(0.3)
    assert recipe.rate(2.0) == 0


@settings(max_examples=50, deadline=None)
@given(
    epochs=st.integers(1, 50),
    warm=st.floats(0, 1),
    share=st.floats(0, 1, exclude_max=True),
    schedule=st.sampled_from(["cosine", "one-cycle"]),
)
def test_the_rate_stays_between_zero_and_its_peak(epochs: int, warm: float, share: float, schedule: Any) -> None:
    recipe = Recipe(epochs=epochs, learning_rate=0.7, schedule=schedule, warmup_epochs=warm * epochs)
    assert 0 <= recipe.rate(share * epochs) <= 0.7
    assert recipe.rate(warm * epochs) in (pytest.approx(0.7), pytest.approx(0.0) if warm == 1 else pytest.approx(0.7))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs is 0, expected an integer of at least 1"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"crop_padding": -1}, "crop_padding is -1"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"momentum": 1.0}, "momentum is 1.0.*below 1"),
        ({"weight_decay": -1.0}, "weight_decay is -1.0"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
        ({"warmup_epochs": 3.0}, "warmup_epochs is 3.0, expected 0 to epochs=2"),
        ({"schedule": "linear"}, "schedule is 'linear', expected 'cosine'"),
        ({"schedule": "steps"}, "schedule='steps' and steps="),
        ({"steps": ((1, 0.1),)}, "schedule='steps' and steps="),
    ],
)
def test_values_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe(**{"epochs": 2, "learning_rate": 0.1, **settings})


class TestTimetable:
    def test_epochs(self) -> None:
        table = Recipe(epochs=3, learning_rate=0.1, batch_size=8, warmup_epochs=0.5).timetable(23)
        assert (table.steps, table.steps_in_pass, table.passes, table.epochs) == (9, 3, 3, 3.0)
        assert (table.warmup_end, table.work) == (2, 69)

    @pytest.mark.parametrize(("samples", "in_pass", "passes"), [(25, 3, 4), (24, 3, 4), (8, 1, 10), (5, 1, 10)])
    def test_steps(self, samples: int, in_pass: int, passes: int) -> None:
        table = Recipe(total_steps=10, learning_rate=0.1, batch_size=8).timetable(samples)
        assert (table.steps, table.steps_in_pass, table.passes) == (10, in_pass, passes)
        assert table.epochs == pytest.approx(10 * min(8, samples) / samples)
        assert table.work == 10 * min(8, samples)

    def test_a_cosine_over_steps_ends_at_zero(self) -> None:
        recipe = Recipe(total_steps=10, learning_rate=0.1, batch_size=8)
        table = recipe.timetable(25)
        assert recipe.rate(table.epochs, length=table.epochs) == pytest.approx(0)
        assert recipe.rate(table.epochs / 2, length=table.epochs) == pytest.approx(0.05)
        with pytest.raises(InputError, match="needs length="):
            recipe.rate(1.0)

    def test_no_samples(self) -> None:
        with pytest.raises(InputError, match="0 samples"):
            Recipe(epochs=1, learning_rate=0.1).timetable(0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_resized_crop": (0.0, 1.0)}, "random_resized_crop is .*above 0 and up to 1"),
        ({"random_resized_crop": (0.5, 1.5)}, "up to 1"),
        ({"random_resized_crop": (0.5, 0.2)}, "smallest, largest"),
        ({"random_resized_crop": 0.5}, "expected a pair"),
        ({"aspect": (0.0, 1.0)}, "aspect is"),
        ({"interpolation": "lanczos"}, "interpolation is 'lanczos', expected 'nearest'"),
        ({"total_steps": -1}, "total_steps is -1"),
        ({"rate_per": 0.5}, "rate_per is 0.5, expected an integer"),
    ],
)
def test_later_settings_out_of_range(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe(**{"epochs": 2, "learning_rate": 0.1, **settings})
