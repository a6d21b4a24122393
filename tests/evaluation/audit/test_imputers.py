"""The audit of imputers on fills whose faults are known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.evaluation.audit.imputers import audit_imputers, draw_masks, verdicts
from roadworthy.imputation import Zero

FRACTION = 0.4


def pictures(n: int = 60, channels: int = 2, side: int = 10) -> torch.Tensor:
    """White noise within [0.2, 0.8]: nothing can be known from the neighbours."""
    return 0.2 + 0.6 * torch.rand(n, channels, side, side, generator=torch.Generator().manual_seed(1))


def ideal(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw from the images' own distribution: no network can tell."""
    return 0.2 + 0.6 * torch.rand(images.shape, generator=generator)


def oracle(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Put back what was removed (a callable is given the whole image)."""
    return images


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    chosen = {"zero": "zero", "ideal": ideal, "truth": oracle}
    return audit_imputers(pictures(), chosen, fractions=[FRACTION, 0.6], seed=2)


def test_a_fixed_fill_reveals_and_a_draw_from_the_data_hides(table: pd.DataFrame) -> None:
    found = table.set_index(["imputer", "fraction"])
    assert (found.base == 0.4).all()
    for share in (FRACTION, 0.6):
        assert found.predictor_error["zero", share] < 0.01
        assert found.predictor_error["ideal", share] > 0.36
    lines = table.attrs["verdicts"]
    assert lines["zero"].startswith("zero: reveals what was removed (error of a predictor 0.0")
    assert lines["ideal"].startswith("ideal: hides what was removed")
    assert lines["truth"].startswith("truth: hides what was removed")
    assert "where guessing has 0.400 / 0.400, at shares 0.4 / 0.6" in lines["zero"]
    assert [name for name, line in lines.items() if "nearest" in line] == ["ideal"]
    assert [name for name, line in lines.items() if "shows through" in line] == ["truth"]
    assert table.groupby("imputer").peeks.unique().explode().to_dict() == {
        "zero": False,
        "ideal": False,
        "truth": True,
    }


def test_fills_made_from_what_was_removed_are_found() -> None:
    names = ["noisy-linear", "mean", "image-mean", "zero", "blur"]
    table = audit_imputers(pictures(8), names, fractions=[0.5], mean=(0.5, 0.5), masks="blobs")
    assert table.set_index("imputer").peeks.to_dict() == dict.fromkeys(names, False) | {"blur": True}


def test_distortion_against_its_definition(table: pd.DataFrame) -> None:
    images, found = pictures(), table.set_index(["imputer", "fraction"])
    removed = draw_masks("random", tuple(images.shape), [str(i) for i in range(60)], FRACTION, 2)
    gone = images.numpy()[np.broadcast_to(removed[:, None], images.shape)]
    assert found.rmse["zero", FRACTION] == pytest.approx(math.sqrt((gone.astype(float) ** 2).mean()))
    # the difference of two uniform draws over 0.6 has the variance 0.6^2 / 6
    assert found.rmse["ideal", FRACTION] == pytest.approx(0.6 / math.sqrt(6), rel=0.03)
    assert (table[table.imputer == "truth"][["rmse", "rmse_low", "rmse_high"]] == 0).all(axis=None)
    for _, row in table.iterrows():
        assert row.rmse_low <= row.rmse <= row.rmse_high
    assert (table.ms > 0).all()


def test_the_model_is_asked_about_filled_images(q4, q4_data) -> None:
    images, labels = q4_data(40)
    labels[:10] = (labels[:10] + 1) % 4
    training = q4.training
    table = audit_imputers(
        images, {"truth": oracle, "zero": "zero"}, fractions=[0.3], model=q4, labels=labels, masks="blobs"
    )
    found = table.set_index("imputer")
    assert table.attrs["intact_accuracy"] == 0.75
    assert (found.agreement["truth"], found.accuracy["truth"]) == (1.0, 0.75)
    removed = draw_masks("blobs", tuple(images.shape), [str(i) for i in range(40)], 0.3, 0)
    wanted = q4(torch.where(torch.from_numpy(removed)[:, None], 0.0, images)).argmax(1)
    assert found.agreement["zero"] == pytest.approx(float((wanted == q4(images).argmax(1)).double().mean()))
    assert found.accuracy["zero"] == pytest.approx(float((wanted == labels).double().mean()))
    z, n = 1.959964, 40  # Wilson's interval of 40 hits in 40
    assert found.agreement_low["truth"] == pytest.approx(1 / (1 + z**2 / n), abs=1e-6)
    assert found.agreement_high["truth"] == pytest.approx(1.0)
    assert "answers as before on 1.000 of the images" in table.attrs["verdicts"]["truth"]
    assert q4.training == training


def test_without_labels_there_is_no_accuracy(q4, q4_data) -> None:
    table = audit_imputers(q4_data(8)[0], ["zero"], fractions=[0.5], model=q4)
    assert "accuracy" not in table
    assert table.attrs["intact_accuracy"] is None


def test_the_same_seed_is_bit_equal_and_nothing_is_changed() -> None:
    images = pictures(12)
    kept, state = images.clone(), torch.get_rng_state()
    one, same, other = (
        audit_imputers(images, ["noisy-linear"], fractions=[0.5], seed=seed).drop(columns="ms") for seed in (1, 1, 2)
    )
    pd.testing.assert_frame_equal(one, same)
    assert one.rmse[0] != other.rmse[0]
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), state)


def test_series_and_too_few_images() -> None:
    series = torch.rand(5, 2, 30, generator=torch.Generator().manual_seed(0))
    table = audit_imputers(series, ["noisy-linear"], fractions=[0.5], masks="blobs")
    assert table.predictor_error.isna().all()
    assert table.attrs["verdicts"]["noisy-linear"].startswith(
        "noisy-linear: cannot tell whether it reveals what was removed: a predictor needs 8 images or more to learn "
        "from and be judged on, got 5 (error of a predictor unknown where"
    )


@hypothesis_settings(max_examples=25, deadline=None)
@given(
    masks=st.sampled_from(["random", "blobs"]),
    height=st.integers(1, 9),
    width=st.integers(2, 9),
    shares=st.lists(st.floats(0, 1), min_size=2, max_size=2),
    seed=st.integers(0, 5),
)
def test_masks_have_the_exact_share_nest_and_belong_to_the_sample(
    masks: str, height: int, width: int, shares: list[float], seed: int
) -> None:
    shape, (low, high) = (3, 2, height, width), sorted(shares)
    few, many = (draw_masks(masks, shape, ["a", "b", "c"], share, seed) for share in (low, high))  # type: ignore[arg-type]
    assert (few.sum(axis=(1, 2)) == math.floor(low * height * width + 1e-9)).all()
    assert not (few & ~many).any()
    alone = draw_masks(masks, (1, *shape[1:]), ["b"], low, seed)  # type: ignore[arg-type]
    assert (alone[0] == few[1]).all()


def test_blobs_hang_together() -> None:
    def borders(masks: str) -> float:
        removed = draw_masks(masks, (20, 1, 24, 24), [str(i) for i in range(20)], 0.5, 0)  # type: ignore[arg-type]
        return float((removed[:, 1:] != removed[:, :-1]).mean())

    assert borders("random") == pytest.approx(0.5, abs=0.03)
    assert borders("blobs") < 0.15


def test_what_verdicts_say_follows_from_the_table() -> None:
    def rows(name: str, low: float, high: float) -> pd.DataFrame:
        middle = (low + high) / 2
        return pd.DataFrame(
            {"imputer": [name], "fraction": 0.3, "predictor_error": middle, "predictor_low": low}
            | {"predictor_high": high, "base": 0.3, "rmse": 0.1, "peeks": False, "ms": 1.0, "n": 7}
        )

    for low, high, said in (
        (0.21, 0.29, "hides"),
        (0.19, 0.29, "partly reveals"),
        (0.05, 0.12, "partly reveals"),
        (0.05, 0.09, "reveals"),
        (math.nan, math.nan, "cannot tell whether it reveals"),
    ):
        assert verdicts(rows("x", low, high))["x"].startswith(f"x: {said} what was removed")


def test_input_is_checked() -> None:
    images = pictures(4)
    for change, message in (
        ({"images": images.numpy()}, "images: got ndarray"),
        ({"images": images.int()}, r"got torch\.int32 \(4, 2, 10, 10\)"),
        ({"images": images[:0]}, "got 0 with 0 ids"),
        ({"ids": ["a"]}, "got 4 with 1 ids"),
        ({"fractions": [0.5, 1.0]}, r"fractions: got \[0\.5, 1\.0\]"),
        ({"fractions": [0.001]}, r"between 0\.01 \(one unit\) and 1"),
        ({"imputers": []}, "imputers: got none"),
        ({"imputers": ["zero", Zero()]}, "'zero' comes twice"),
        ({"imputers": ["zeros"]}, "Did you mean 'zero'"),
        ({"imputers": ["gain"]}, "must be trained on your data first"),
        ({"masks": "stripes"}, "masks: got 'stripes'"),
        ({"effort": "much"}, "effort: got 'much'"),
        ({"model": lambda given: given.flatten(1), "labels": [0]}, "labels: got 1 for 4 images"),
    ):
        given_all = {"images": images, "imputers": ["zero"], "fractions": [0.5]} | change
        with pytest.raises(InputError, match=message):
            audit_imputers(given_all.pop("images"), given_all.pop("imputers"), **given_all)
