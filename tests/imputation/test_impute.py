from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError
from roadworthy.imputation import (
    NOISE,
    Blur,
    Imputer,
    MaskToken,
    NoisyLinear,
    add_noise,
    impute,
    imputers,
    resolve_imputer,
    solve,
)

NAMES = ("noisy-linear", "mean", "image-mean", "zero", "blur")


def batch(n: int = 3, *shape: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    shape = shape or (3, 8, 10)
    generator = torch.Generator().manual_seed(seed)
    images = torch.rand(n, *shape, generator=generator)
    return images, torch.rand(n, *shape[1:], generator=generator) < 0.4


def field_report_masks() -> dict[str, torch.Tensor]:
    masks = {name: torch.ones(8, 8, dtype=torch.bool) for name in ("everything", "but one corner", "one row")}
    masks["but one corner"][7, 0] = False
    masks["one row"] = torch.zeros(8, 8, dtype=torch.bool)
    masks["one row"][3] = True
    masks["checkerboard"] = (torch.arange(8)[:, None] + torch.arange(8)) % 2 == 0
    masks["nothing"] = torch.zeros(8, 8, dtype=torch.bool)
    return masks


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("name", sorted(field_report_masks()))
def test_field_report_13_every_fill_is_finite_and_in_range(method: str, name: str) -> None:
    images = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(13))
    removed, mean = field_report_masks()[name][None], torch.tensor([0.4, 0.5, 0.6])
    filled = impute(images, removed, method, noise=0, mean=mean)
    assert filled.isfinite().all()
    assert ((filled >= 0) & (filled <= 1)).all()
    if method == "noisy-linear" and name != "everything":
        for channel, fill in zip(images[0], filled[0], strict=True):
            kept = channel[~removed[0]]
            assert kept.min() <= fill.min()
            assert fill.max() <= kept.max()
    if name == "nothing":
        assert torch.equal(filled, images)
    if name == "everything" and method in ("noisy-linear", "mean", "image-mean"):
        assert torch.equal(filled, mean.view(1, 3, 1, 1).expand_as(images))
    if name == "but one corner" and method == "noisy-linear":
        assert torch.equal(filled, images[:, :, 7:, :1].expand_as(images))


def test_field_report_13_noise_stays_in_the_units_of_the_data() -> None:
    images = torch.full((1, 3, 64, 64), 0.5)
    removed = torch.ones(1, 64, 64, dtype=torch.bool)
    removed[:, 0] = False
    noisy = impute(images, removed)
    assert NOISE == 0.01
    assert (noisy - images)[:, :, 1:].std().item() == pytest.approx(0.01, rel=0.03)
    assert torch.equal(noisy[:, :, 0], images[:, :, 0])


def test_field_report_28_black_and_mean_of_normalised_images() -> None:
    statistics = ((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    images = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(28))
    removed = torch.zeros(2, 6, 6, dtype=torch.bool)
    removed[:, 2:4, 2:4] = True
    black = impute(images, removed, "zero", normalized=statistics)
    assert black[0, :, 2, 2].tolist() == pytest.approx([-2.5, -2.0, -1.5], rel=1e-6)
    mean = impute(images, removed, "mean", normalized=statistics)
    assert mean[0, :, 3, 3].tolist() == [0.0, 0.0, 0.0]
    other = impute(images, removed, "mean", normalized=statistics, mean=(0.5, 0.5, 0.5))
    assert other[0, :, 3, 3].tolist() == pytest.approx([0.0, 0.5, 1.0], abs=1e-6)
    for filled in (black, mean, other):
        assert torch.equal(filled[:, :, 0], images[:, :, 0])


def test_noise_of_normalised_images_is_stated_in_pixel_units() -> None:
    images, removed = torch.zeros(1, 1, 64, 64), torch.ones(1, 64, 64, dtype=torch.bool)
    removed[:, 0, 0] = False
    noisy = impute(images, removed, noise=0.1, normalized=((0.5,), (0.25,)))
    assert noisy.std().item() == pytest.approx(0.4, rel=0.05)


def test_normalised_noisy_linear_is_the_same_fill() -> None:
    images, removed = batch(2)
    mean, std = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1), torch.tensor([0.2, 0.3, 0.4]).view(1, 3, 1, 1)
    pixel = impute(images, removed, noise=0)
    normal = impute((images - mean) / std, removed, noise=0, normalized=(mean.flatten(), std.flatten()))
    assert torch.allclose(normal * std + mean, pixel, atol=1e-4)


def test_the_noise_of_a_sample_does_not_depend_on_its_batch() -> None:
    images, removed = batch(4)
    ids = ["d", "a", "c", "b"]
    whole = impute(images, removed, ids=ids, seed=3)
    again = impute(images, removed, ids=ids, seed=3)
    single = torch.cat([impute(images[i : i + 1], removed[i : i + 1], ids=ids[i : i + 1], seed=3) for i in range(4)])
    order = [2, 0, 3, 1]
    shuffled = impute(images[order], removed[order], ids=[ids[i] for i in order], seed=3)
    assert torch.equal(whole, again)
    assert torch.equal(whole, single)
    assert torch.equal(whole[order], shuffled)
    assert not torch.equal(whole, impute(images, removed, ids=ids, seed=4))


@pytest.mark.parametrize("method", NAMES)
def test_the_batch_does_not_matter_for_any_imputer(method: str) -> None:
    images, removed = batch(5, 3, 21, 13)
    whole = impute(images, removed, method, mean=(0.1, 0.2, 0.3))
    ids = [[str(i)] for i in range(5)]
    single = [
        impute(images[i : i + 1], removed[i : i + 1], method, mean=(0.1, 0.2, 0.3), ids=ids[i]) for i in range(5)
    ]
    assert torch.equal(whole, torch.cat(single))


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_kind_dtype_and_input_are_kept(method: str, kind: str) -> None:
    images, removed = batch(2)
    images = images.double()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    given = (images, removed) if kind == "tensor" else (images.numpy(), removed.numpy())
    before = images.clone(), removed.clone()
    filled = impute(*given, method, mean=(0.1, 0.2, 0.3))
    assert type(filled) is type(given[0])
    assert filled.dtype == given[0].dtype
    kept = (~removed)[:, None].expand_as(images)
    assert torch.equal(torch.as_tensor(filled)[kept], images[kept])
    assert not np.shares_memory(np.asarray(filled), np.asarray(given[0]))
    assert torch.equal(images, before[0])
    assert torch.equal(removed, before[1])
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002


@pytest.mark.parametrize("method", NAMES)
def test_series_and_channel_masks(method: str) -> None:
    series, removed = batch(2, 3, 30)
    filled = impute(series, removed, method, noise=0, mean=(0.1, 0.2, 0.3))
    channelwise = impute(series, removed[:, None].repeat(1, 3, 1), method, noise=0, mean=(0.1, 0.2, 0.3))
    assert filled.shape == series.shape
    assert torch.equal(filled, channelwise)


def test_mean_is_the_training_mean() -> None:
    images, removed = batch(2)
    filled = impute(images, removed, "mean", mean=(0.1, 0.2, 0.3))
    assert torch.equal(filled[:, 1][removed], torch.full((int(removed.sum()),), 0.2))
    with pytest.raises(InputError, match=r"needs mean=.*3 channels.*'image-mean'"):
        impute(images, removed, "mean")
    with pytest.raises(InputError, match="mean has 2 values, the images have 3 channels"):
        impute(images, removed, "mean", mean=(0.1, 0.2))


def test_image_mean_is_that_of_kept_values() -> None:
    images = torch.tensor([[[[1.0, 2.0], [3.0, 100.0]]]])
    removed = torch.tensor([[[False, False], [False, True]]])
    assert impute(images, removed, "image-mean")[0, 0, 1, 1] == 2.0
    everything = torch.ones(1, 2, 2, dtype=torch.bool)
    assert torch.equal(impute(images, everything, "image-mean"), torch.full_like(images, 26.5))
    assert torch.equal(impute(images, everything, "image-mean", mean=[7.0]), torch.full_like(images, 7.0))


def test_noisy_linear_without_a_kept_value_and_without_a_mean_takes_the_image_mean() -> None:
    images, removed = batch(3)
    removed[1] = True
    filled = impute(images, removed, noise=0)
    assert torch.allclose(filled[1], images[1].mean(dim=(1, 2), keepdim=True).expand(3, 8, 10))
    assert torch.equal(filled[0], solve(images[:1], removed[:1]).filled[0])


def test_one_channel_without_a_kept_value() -> None:
    images, removed = batch(2)
    each = removed[:, None].repeat(1, 3, 1, 1)
    each[1, 2] = True
    filled = impute(images, each, noise=0, mean=(0.1, 0.2, 0.3))
    assert torch.equal(filled[1, 2], torch.full((8, 10), 0.3))
    assert torch.equal(filled[1, :2], solve(images[1:, :2], each[1:, :2]).filled[0])


def test_blur_is_a_renormalised_gaussian_of_the_original() -> None:
    images, removed = batch(1, 1, 9, 12)
    sd = 1.5
    expected = images[0, 0].double().numpy()
    for axis in (0, 1):
        size = expected.shape[axis]
        distance = np.arange(size)[:, None] - np.arange(size)
        kernel = np.where(abs(distance) <= 5, np.exp(-0.5 * (distance / sd) ** 2), 0)
        kernel /= kernel.sum(1, keepdims=True)
        expected = np.apply_along_axis(lambda line, k=kernel: k @ line, axis, expected)
    filled = impute(images, removed, Blur(sd))[0, 0]
    assert np.allclose(filled[removed[0]], expected[removed[0].numpy()], atol=1e-6)
    constant = torch.full((1, 2, 7, 5), 0.25)
    assert torch.allclose(impute(constant, torch.ones(1, 7, 5, dtype=torch.bool), "blur"), constant, atol=1e-6)
    assert Blur().settings() == {"name": "blur", "sd": None}
    with pytest.raises(InputError, match="sd is -1"):
        Blur(-1)


def test_tables() -> None:
    table = torch.rand(4, 5)
    removed = torch.zeros(4, 5, dtype=torch.bool)
    removed[:, 1] = True
    assert torch.equal(impute(table, removed, "zero")[:, 1], torch.zeros(4))
    filled = impute(table, removed, "mean", mean=[1.0, 2.0, 3.0, 4.0, 5.0])
    assert torch.equal(filled[:, 1], torch.full((4,), 2.0))
    for method in ("noisy-linear", "blur"):
        with pytest.raises(InputError, match=rf"{method}: input of shape \(4, 5\) is a table.*imputer='mean'"):
            impute(table, removed, method)
    with pytest.raises(InputError, match=r"image-mean: .*use imputer='mean'"):
        impute(table, removed, "image-mean")


def test_token_ids() -> None:
    tokens, removed = torch.arange(12).view(2, 6), torch.zeros(2, 6, dtype=torch.bool)
    removed[:, 4] = True
    filled = impute(tokens, removed, MaskToken(103))
    assert filled[:, 4].tolist() == [103, 103]
    assert filled.dtype == torch.int64
    assert torch.equal(filled[:, :4], tokens[:, :4])
    for method in ("mean", "zero"):
        with pytest.raises(InputError, match=r"torch\.int64.*MaskToken"):
            impute(tokens, removed, method, mean=[0.0])
    with pytest.raises(InputError, match=r"MaskToken: got torch\.float32"):
        impute(tokens.float(), removed, MaskToken(0))
    with pytest.raises(InputError, match=r"shape \(1, 3, 4, 4\).*\(N, T\)"):
        impute(torch.rand(1, 3, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool), MaskToken(0))
    with pytest.raises(InputError, match="id is -1"):
        MaskToken(-1)
    assert MaskToken(7).settings() == {"name": "mask-token", "id": 7}


def test_a_callable_cannot_touch_what_is_not_its_own() -> None:
    images, removed = batch(2)
    before = images.clone(), removed.clone()

    def vandal(given: torch.Tensor, gone: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        given.fill_(0.5)
        gone.fill_(True)
        return given

    filled = impute(images, removed, vandal)
    assert torch.equal(images, before[0])
    assert torch.equal(removed, before[1])
    kept = (~removed)[:, None].expand_as(images)
    assert torch.equal(filled[kept], images[kept])
    assert (filled[~kept] == 0.5).all()


def test_a_callable_gets_a_seeded_generator_and_may_return_an_array() -> None:
    images, removed = batch(2)

    def noise(given: torch.Tensor, gone: torch.Tensor, generator: torch.Generator) -> np.ndarray:
        return torch.rand(given.shape, generator=generator).numpy()

    assert torch.equal(impute(images, removed, noise, seed=1), impute(images, removed, noise, seed=1))
    assert not torch.equal(impute(images, removed, noise, seed=1), impute(images, removed, noise, seed=2))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda images: images[:, :1], r"imputer <lambda>: returned shape \(2, 1, 8, 10\).*\(2, 3, 8, 10\)"),
        (lambda images: images.round().long(), r"returned torch\.int64, expected the images' torch\.float32"),
        (lambda images: images / 0, r"NaN or infinite values in images \[0, 1\]"),
        (lambda images: None, "returned NoneType"),
    ],
)
def test_what_a_callable_returns_is_checked(result: object, message: str) -> None:
    images, removed = batch(2)
    with pytest.raises(InputError, match=message):
        impute(images, removed, lambda given, gone, generator: result(given))


def test_names_and_wrong_names() -> None:
    others = {"gain", "telea", "navier-stokes"}  # have tests of their own
    assert set(imputers) == {*NAMES, *others}
    assert all(imputers.describe(name) for name in imputers)
    for name in NAMES:
        imputer = resolve_imputer(name)
        assert isinstance(imputer, Imputer)
        assert imputer.name == name == imputer.settings()["name"]
        assert imputer.noise == (NOISE if name == "noisy-linear" else 0)
    own = NoisyLinear(noise=0.3)
    assert resolve_imputer(own) is own
    with pytest.raises(InputError, match=r"Unknown imputer 'meen'\. Did you mean 'mean'\?"):
        resolve_imputer("meen")
    with pytest.raises(InputError, match=r"imputer: got 3, expected a name"):
        resolve_imputer(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"noise: got -0\.1"):
        resolve_imputer("noisy-linear", noise=-0.1)
    with pytest.raises(InputError, match=r"Unknown solver 'dirct'\. Did you mean 'direct'"):
        NoisyLinear(solver="dirct")


def test_settings_of_noisy_linear_are_recorded_and_obeyed() -> None:
    images, removed = batch(1)
    direct = NoisyLinear(noise=0, solver="direct")
    assert direct.settings() == {"name": "noisy-linear", "noise": 0, "tolerance": 1e-4, "solver": "direct"}
    assert torch.equal(impute(images, removed, direct), solve(images, removed, solver="direct").filled)
    loose = impute(images, removed, NoisyLinear(noise=0, tolerance=0.5))
    assert not torch.equal(loose, impute(images, removed, noise=0))


def test_a_previous_fill_is_a_start_only() -> None:
    images, removed = batch(2, 3, 40, 40)
    removed[1] = True
    imputer = NoisyLinear()
    cold = imputer.fill(images, removed)
    warm = imputer.fill(images, removed, previous=cold)
    assert torch.allclose(warm, cold, atol=1e-4)


def test_add_noise_touches_removed_units_only() -> None:
    images, removed = batch(2)
    noisy = add_noise(images, removed, torch.ones_like(images), 0.25)
    expected = torch.where(removed[:, None], images + 0.25, images)
    assert torch.equal(noisy, expected)
    assert add_noise(images, removed, torch.ones_like(images), 0) is images


def test_wrong_input_is_refused() -> None:
    images, removed = batch(2)
    with pytest.raises(InputError, match="removed: got list"):
        impute(images, [[True]])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ids: got 1 ids for 2 images"):
        impute(images, removed, ids=["a"])
    with pytest.raises(InputError, match=r"removed: shape \(2, 10, 8\)"):
        impute(images, removed.transpose(1, 2))
    with pytest.raises(InputError, match=r"torch\.uint8"):
        impute((images * 255).byte(), removed)
