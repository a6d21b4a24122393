"""The imputation predictor on fills that show everything, fills that show nothing, and what lies between."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.audit.predictor import imputation_error, imputation_errors
from roadworthy.imputation import FunctionImputer, ImageMean, MaskToken, Mean, NoisyLinear, Zero
from roadworthy.imputation.imputer import Imputer

NOISY = NoisyLinear(noise=0.05)  # errors lie in the middle, where any other network has others


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def smooth(n: int = 60, side: int = 8) -> torch.Tensor:
    """Images in which a pixel is near its neighbours, but not on their mean."""
    coarse = torch.nn.functional.interpolate(drawn(n, 3, 4, 4), size=(side, side), mode="bilinear")
    return 0.6 * coarse + 0.4 * drawn(n, 3, side, side, seed=1)


def ask(images: torch.Tensor, imputer: Imputer, fraction: float = 0.3, **settings: object) -> dict[str, object]:
    mean = images.double().mean([dim for dim in range(images.ndim) if dim != 1])
    given = {"mean": mean, "seed": 0, "ids": [str(i) for i in range(len(images))], **settings}
    return imputation_error(images, imputer, fraction=fraction, **given)  # type: ignore[arg-type]


def same_again(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The ideal fill of uniform noise: other values of the same distribution."""
    mask = removed if removed.shape == images.shape else removed.unsqueeze(1)
    return torch.where(mask, torch.rand(images.shape, generator=generator), images)


@pytest.mark.parametrize("imputer", [Mean(), ImageMean()], ids=lambda one: one.name)
def test_a_fixed_fill_shows_the_mask(imputer: Imputer) -> None:
    found = ask(smooth(40) + 0.05, imputer)
    assert found["error"] < 0.02
    assert found["low"] <= found["error"] <= found["high"] <= 0.03
    assert found["base"] == pytest.approx(19 / 64)


@pytest.mark.parametrize("fraction", [0.2, 0.5, 0.8])
def test_an_ideal_fill_leaves_the_base_rate(fraction: float) -> None:
    found = ask(drawn(60, 3, 10, 10), FunctionImputer(same_again), fraction)
    assert found["error"] == pytest.approx(found["base"], abs=0.01)
    assert found["base"] == pytest.approx(min(fraction, 1 - fraction), abs=0.01)


def test_what_is_put_back_as_it_was_cannot_be_told() -> None:
    found = ask(smooth(), FunctionImputer(lambda images, removed, generator: images))
    assert found["error"] == pytest.approx(found["base"], abs=0.01)


def test_a_linear_fill_without_noise_is_seen_and_noise_as_in_the_image_hides_it_better() -> None:
    images = smooth(100, 10)
    bare, noisy = ask(images, NoisyLinear(noise=0.0)), ask(images, NoisyLinear(noise=0.12))
    assert bare["error"] < 0.4 * bare["base"]
    assert noisy["error"] > 2 * bare["error"]


def test_everything_or_nothing_removed_leaves_nothing_to_tell() -> None:
    for fraction in (0.0, 1.0):
        found = ask(drawn(20, 1, 6, 6), Zero(), fraction)
        assert (found["error"], found["low"], found["high"], found["base"]) == (0, 0, 0, 0)


def test_too_few_samples_have_no_figure() -> None:
    found = ask(drawn(5, 1, 6, 6), Zero())
    assert found["error"] is found["low"] is found["high"] is None
    assert found["base"] == pytest.approx(10 / 36)


@pytest.mark.parametrize("shape", [(120, 2, 30), (1500, 20), (150, 1, 1, 30)], ids=["series", "table", "one row"])
def test_other_shapes(shape: tuple[int, ...]) -> None:
    images = drawn(*shape) + 0.1
    shown, hidden = ask(images, Zero()), ask(drawn(*shape), FunctionImputer(same_again))
    assert shown["error"] < 0.05 < 0.28 < hidden["error"] <= hidden["base"] == pytest.approx(0.3)


def test_token_ids_are_told_by_a_table() -> None:
    tokens = torch.randint(0, 50, (60, 20), generator=torch.Generator().manual_seed(0))
    assert ask(tokens, MaskToken(50), mean=None)["error"] == 0.0
    # an id that stands in the text as well: kept ones are taken for removed ones, 1 in 50 of 14 in 20
    assert 0 < ask(tokens, MaskToken(7), mean=None)["error"] < 0.05


def test_each_channel_on_its_own() -> None:
    images = smooth() + 0.05
    found = imputation_errors(
        images, Zero(), fractions=(0.3,), mean=None, seed=0, ids=[str(i) for i in range(60)], unit="channel"
    )[0]
    assert found["error"] < 0.02
    assert found["base"] == pytest.approx(57 / 192)


def test_masks_may_be_given() -> None:
    images = smooth()
    removed = np.zeros((60, 8, 8), dtype=bool)
    removed[:, :4] = True
    found = ask(images + 0.05, Zero(), 0.5, removed=removed)
    assert found["error"] < 0.02
    assert found["base"] == 0.5
    assert ask(images + 0.05, Zero(), 0.5, removed=torch.from_numpy(removed)) == found
    # masks that do not have the share that was said: the base is that of the masks
    assert ask(images, Zero(), 0.1, removed=removed)["base"] == 0.5


def test_several_shares_with_one_network() -> None:
    images = smooth() + 0.05
    found = imputation_errors(
        images, Zero(), fractions=(0.0, 0.1, 0.5, 0.9, 1.0), mean=None, seed=0, ids=[str(i) for i in range(60)]
    )
    assert [one["fraction"] for one in found] == [0.0, 0.1, 0.5, 0.9, 1.0]
    assert [one["base"] for one in found] == pytest.approx([0, 6 / 64, 0.5, 1 - 57 / 64, 0])
    assert all(one["error"] <= 0.03 for one in found)


def test_the_same_call_twice_is_bit_equal_and_leaves_all_as_it_was() -> None:
    images = smooth(60, 6)
    before, torch_state, numpy_state = images.clone(), torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    python_state = random.getstate()
    first = ask(images, NOISY)
    assert ask(images, NOISY) == first
    assert ask(images, NOISY, seed=1) != first
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002
    assert random.getstate() == python_state


def test_it_learns_under_no_grad_and_from_inference_tensors() -> None:
    plain = ask(smooth(60, 6), NOISY)
    with torch.no_grad():
        assert ask(smooth(60, 6), NOISY) == plain
    with torch.inference_mode():
        images = smooth(60, 6)
    assert ask(images, NOISY) == plain


def test_constant_images_and_single_pixels_are_no_trouble() -> None:
    assert ask(torch.full((40, 1, 6, 6), 0.5), Mean())["error"] == pytest.approx(10 / 36)
    assert ask(torch.full((40, 1, 6, 6), 0.5), Zero())["error"] < 0.02
    assert ask(drawn(40, 3, 1, 1), Zero(), 0.5)["base"] == 0  # floor(0.5): nothing is removed


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"effort": "lazy"}, "effort: got 'lazy'"),
        ({"ids": ["a"]}, "with 1 ids"),
        ({"removed": np.zeros((20, 5, 5), bool)}, r"removed: got torch.bool of shape \(20, 5, 5\)"),
        ({"removed": np.zeros((20, 6, 6))}, "removed: got torch.float64"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        ask(drawn(20, 1, 6, 6), Zero(), **change)


def test_an_imputer_without_a_meaning_here_is_refused() -> None:
    with pytest.raises(InputError, match="table"):
        ask(drawn(50, 6), NoisyLinear())
