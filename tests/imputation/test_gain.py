"""GAIN: what the fill must hold whatever was learned, what training must learn, and going on after a stop."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.imputation import Gain, GainSettings, impute, load_gain, resolve_imputer, train_gain
from roadworthy.imputation.gain_networks import GainNetwork, plain_state
from roadworthy.imputation.gain_training import _blobs
from roadworthy.records import Split
from roadworthy.rng import seeded_globals

TINY = GainSettings(size=2, blocks=1, epochs=2, batch=8)


def pictures(n: int = 24, *shape: int, seed: int = 1) -> torch.Tensor:
    """Smooth images: waves of random direction, and a little noise."""
    channels, height, width = shape or (3, 9, 7)
    draws = torch.Generator().manual_seed(seed)
    phase, tilt = 6 * torch.rand(2, n, channels, 1, 1, generator=draws)
    rows, columns = torch.arange(height).view(-1, 1), torch.arange(width)
    waves = torch.sin(phase + 0.4 * (tilt - 3).sign() * rows + 0.5 * columns)
    return 0.5 + 0.4 * waves + 0.02 * torch.rand(n, channels, height, width, generator=draws)


def masks(n: int, height: int, width: int, share: float = 0.5, seed: int = 2) -> torch.Tensor:
    return torch.rand(n, height, width, generator=torch.Generator().manual_seed(seed)) < share


@pytest.fixture(scope="module")
def gain() -> Gain:
    return train_gain(pictures(), TINY, seed=3)


class Rows:
    """A source in memory."""

    def __init__(self, images: torch.Tensor) -> None:
        self.images, self.labels = images, np.zeros(len(images), dtype=np.int64)
        self.ids = [f"row {i}" for i in range(len(images))]

    def read(self, index: int) -> torch.Tensor:
        return self.images[index]

    def where(self, index: int) -> str:
        return self.ids[index]


@pytest.mark.parametrize("shape", [(1, 2, 1), (1, 5, 1), (3, 8, 8), (2, 7, 10), (4, 1, 6)])
def test_any_shape_is_filled_and_what_is_kept_stays_bit_for_bit(shape: tuple[int, ...]) -> None:
    images = pictures(8, *shape)
    found = train_gain(images, GainSettings(size=2, blocks=1, epochs=1, batch=4))
    removed = masks(8, *shape[1:])
    removed[:, 0, 0] = False
    given = images.clone()
    filled = found.fill(images, removed)
    assert torch.equal(images, given)
    assert filled.isfinite().all()
    kept = ~removed.unsqueeze(1).expand_as(images)
    assert torch.equal(filled[kept], images[kept])
    assert not torch.equal(filled, images)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_dtype_and_shape_stay(gain: Gain, dtype: torch.dtype) -> None:
    images = pictures(4).to(dtype)
    filled = gain.fill(images, masks(4, 9, 7))
    assert (filled.dtype, filled.shape) == (dtype, images.shape)


def test_the_fill_knows_nothing_of_what_was_removed(gain: Gain) -> None:
    images, removed = pictures(6), masks(6, 9, 7)
    other = torch.where(removed.unsqueeze(1), torch.rand(6, 3, 9, 7), images)
    gone = removed.unsqueeze(1).expand_as(images)
    assert torch.equal(gain.fill(images, removed)[gone], gain.fill(other, removed)[gone])


def test_the_batch_does_not_matter(gain: Gain) -> None:
    images, removed = pictures(7), masks(7, 9, 7)
    whole = impute(images, removed, gain, seed=5)
    for rows in ([0], [3, 1], [6, 5, 4, 3, 2]):
        assert torch.equal(whole[rows], impute(images[rows], removed[rows], gain, seed=5))


def test_noise_follows_the_generator_and_the_globals_stay(gain: Gain) -> None:
    images, removed = pictures(4), masks(4, 9, 7)
    state = torch.get_rng_state()
    one, same, other = (
        gain.fill(images, removed, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(gain.fill(images, removed), gain.fill(images, removed))
    assert torch.equal(torch.get_rng_state(), state)


def test_all_and_nothing_removed(gain: Gain) -> None:
    images = pictures(3)
    nothing = torch.zeros(3, 9, 7, dtype=torch.bool)
    assert torch.equal(gain.fill(images, nothing), images)
    with pytest.warns(RoadworthyWarning, match="100% of an image is removed"):
        assert Gain.fill(train_gain(images, TINY), images, ~nothing).isfinite().all()


def test_more_than_it_was_trained_for_is_told_as_the_callers_filters_say() -> None:
    images = pictures(4)
    found = train_gain(images, GainSettings(size=2, blocks=1, epochs=1, missing=0.5))
    half, most = masks(4, 9, 7, 0.3), masks(4, 9, 7, 0.8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.fill(images, half)
    share = float(most.flatten(1).float().mean(1).max())
    with pytest.warns(RoadworthyWarning, match=rf"{share:.0%} of an image .* at most 50%"):
        found.fill(images, most)
    for action, times in (("always", 2), ("once", 1)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter(action)  # type: ignore[arg-type]
            for _ in range(2):
                found.fill(images, most)
        assert len(told) == times


def test_training_learns_what_removed_units_were() -> None:
    images = pictures(144, 1, 10, 10)
    settings = GainSettings(size=6, blocks=1, epochs=24, batch=16, missing=0.6)
    found = train_gain(images[:120], settings, seed=0)
    removed = masks(24, 10, 10, 0.3)
    gone = removed.unsqueeze(1)
    truth, mean = images[120:], images[:120].mean(0)
    error = float((found.fill(truth, removed) - truth)[gone].square().mean().sqrt())
    blind = float((mean - truth)[gone].square().mean().sqrt())
    assert error < 0.5 * blind
    errors = [row["held_out_rmse"] for row in found.training["history"]]
    assert len(errors) == 24
    assert errors[-1] < 0.6 * errors[0]


def test_the_training_is_bit_equal_also_after_a_stop(tmp_path: Path) -> None:
    images, settings = pictures(30), GainSettings(size=2, blocks=1, epochs=3, batch=8)
    state = torch.get_rng_state()
    straight = train_gain(images, settings, seed=4)
    stopped = tmp_path / "deep" / "gain.pt"
    done: list[int] = []

    def stop(count: int) -> None:
        done.append(count)
        if sum(done) > 40:  # in the second epoch of 30 images
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_gain(images, settings, seed=4, checkpoint=stopped, progress=stop)
    seen: list[int] = []
    again = train_gain(images, settings, seed=4, checkpoint=stopped, progress=seen.append)
    assert again.settings()["weights"] == straight.settings()["weights"]
    assert again.training == straight.training
    assert seen[0] == 30
    assert sum(seen) == 3 * 30
    assert [path.name for path in stopped.parent.iterdir()] == ["gain.pt"]
    assert torch.equal(torch.get_rng_state(), state)
    assert train_gain(images, settings, seed=5).settings()["weights"] != straight.settings()["weights"]


def test_more_epochs_go_on_and_another_training_is_refused(tmp_path: Path) -> None:
    images, path = pictures(), tmp_path / "gain.pt"
    one = GainSettings(size=2, blocks=1, epochs=1)
    train_gain(images, one, checkpoint=path)
    longer = GainSettings(size=2, blocks=1, epochs=2)
    assert (
        train_gain(images, longer, checkpoint=path).settings()["weights"]
        == train_gain(images, longer).settings()["weights"]
    )
    for changed in (
        lambda: train_gain(images + 0.1, longer, checkpoint=path),
        lambda: train_gain(images, longer, seed=1, checkpoint=path),
        lambda: train_gain(images, GainSettings(size=3, blocks=1, epochs=2), checkpoint=path),
    ):
        with pytest.raises(InputError, match="is of another training"):
            changed()
    with pytest.raises(InputError, match="has 2 epochs, 1 were asked for"):
        train_gain(images, one, checkpoint=path)
    path.write_bytes(b"half a file")
    with pytest.raises(InputError, match="cannot be read .* delete it"):
        train_gain(images, longer, checkpoint=path)


def test_a_split_is_its_images_and_can_be_larger_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pictures()
    found = train_gain(images, TINY, seed=3)
    held = train_gain(Split(Rows(images)), TINY, seed=3)
    monkeypatch.setattr("roadworthy.imputation.gain_training._IN_MEMORY", 0)
    streamed = train_gain(Split(Rows(images)), TINY, seed=3)
    for other in (held, streamed):
        assert other.settings() == found.settings()
        assert torch.allclose(other.mean_image, images.mean(0))


def test_saved_and_read_again(gain: Gain, tmp_path: Path) -> None:
    path = gain.save(tmp_path / "mine.safetensors")
    images, removed = pictures(5), masks(5, 9, 7)
    for again in (load_gain(path), resolve_imputer(f"gain:{path}")):
        assert again.settings() == gain.settings()
        assert torch.equal(again.fill(images, removed), gain.fill(images, removed))
    assert torch.equal(impute(images, removed, f"gain:{path}"), impute(images, removed, gain))
    assert load_gain(path).training == gain.training
    with pytest.raises(InputError, match=r"expected a name that ends in \.safetensors"):
        gain.save(tmp_path / "mine.pt")


def test_what_is_no_gain_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    with pytest.raises(InputError, match=r"there is no file 'no\.safetensors'\. Train one"):
        resolve_imputer("gain:no.safetensors")
    with pytest.raises(InputError, match="must be trained on your data first"):
        resolve_imputer("gain")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="cannot be read as a GAIN imputer"):
        load_gain(tmp_path / "x.safetensors")
    save_file({"a": torch.zeros(1)}, tmp_path / "y.safetensors")
    with pytest.raises(InputError, match="does not say that it holds a GAIN imputer"):
        load_gain(tmp_path / "y.safetensors")


@pytest.fixture
def altered(gain: Gain, tmp_path: Path) -> Callable[..., Path]:
    """Write a file of a GAIN imputer, in which something was changed."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    whole = gain.save(tmp_path / "whole.safetensors")
    with safe_open(whole, framework="pt") as file:
        about = json.loads(file.metadata()["roadworthy"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def write(change: Callable[[Any, dict[str, torch.Tensor]], Any]) -> Path:
        header, kept = copy.deepcopy(about), dict(tensors)
        change(header, kept)
        save_file(kept, tmp_path / "mine.safetensors", metadata={"roadworthy": json.dumps(header)})
        return tmp_path / "mine.safetensors"

    return write


FIRST = "generator.enter.0.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about, _: about.update(format=2), "does not say"),
        (lambda about, _: about.update(settings=[1]), "settings in its header lack 'size', 'blocks'"),
        (lambda about, _: about.update(settings=None), "settings in its header lack"),
        (lambda about, _: about["settings"].pop("hint"), "lack 'hint'"),
        (lambda about, _: about["settings"].update(size="2"), "size is '2'"),
        (lambda about, _: about["settings"].update(unit=["pixel"]), "unit is"),
        (
            lambda about, _: about["settings"].update(size=3),
            r"tensor .* is torch\.float32 .*, expected torch\.float32",
        ),
        (
            lambda about, _: about["settings"].update(unit="channel"),
            r"enter\.0\.weight.* \(2, 5, 7, 7\), .*\(2, 9, 7, 7\)",
        ),
        (lambda about, _: about["settings"].update(blocks=128), "got 37 tensors, a network of 128 blocks has 1815"),
        (lambda about, _: about["settings"].update(blocks=2000), "blocks is 2000, expected at most 128"),
        *(
            (lambda about, _, scale=scale: about.update(scale=scale), "scale is .*, expected a finite number above 0")
            for scale in (float("nan"), float("inf"), 0, -1.0, "1", None, True, [1], 10**400, 1e300)
        ),
        (lambda about, _: about.update(training=[1]), "training is list"),
        (lambda about, _: about.pop("training"), "training is NoneType"),
        (lambda about, _: about["training"].update(n="20"), "training has n '20'"),
        (lambda about, _: about["training"].update(n=0), "training has n 0, expected an integer of at least 1"),
        (lambda about, _: about["training"].update(seed=1.5), "training has seed 1.5"),
        (lambda about, _: about["training"].update(seed=True), "training has seed True"),
        (lambda about, _: about["training"].update(history={"a": 1}), "training has a history"),
        (lambda about, _: about["training"].update(history=[{"held_out_rmse": "x"}]), "training has a history"),
        (lambda _, part: part.pop("mean_image"), "mean_image is NoneType"),
        (lambda _, part: part.update(mean_image=part["mean_image"] / 0), "mean_image holds NaN"),
        (lambda _, part: part.update(mean_image=part["mean_image"].int()), r"mean_image is torch\.int32 \(3, 9, 7\)"),
        (lambda _, part: part.update(mean_image=part["mean_image"].bfloat16()), r"mean_image is torch\.bfloat16"),
        (lambda _, part: part.update(mean_image=part["mean_image"][0].clone()), r"float32 \(9, 7\), expected"),
        (lambda _, part: part.update(mean_image=torch.zeros(3, 0, 7)), r"float32 \(3, 0, 7\), expected"),
        (lambda _, part: part.update({FIRST: part[FIRST].bfloat16()}), r"enter\.0\.weight.* torch\.bfloat16"),
        (lambda _, part: part.update({FIRST: part[FIRST].double()}), r"enter\.0\.weight.* torch\.float64"),
        (lambda _, part: part.update({FIRST: part[FIRST] * float("nan")}), r"enter\.0\.weight.* NaN"),
        (lambda _, part: part.update({"generator.enter.1.running_var": -torch.ones(2)}), "negative variance"),
        (lambda _, part: part.pop(FIRST), "got 36 tensors, a network of 1 blocks has 37"),
        (lambda _, part: part.update({"generator.x": part.pop(FIRST)}), r"no tensors 'enter\.0\.weight'"),
        (lambda _, part: part.update(x=torch.zeros(1)), "tensors 'x', which no GAIN"),
    ],
)
def test_damaged_and_hostile_files_are_refused_by_name(
    altered: Callable[..., Path], change: Callable[[Any, dict[str, torch.Tensor]], Any], message: str
) -> None:
    with pytest.raises(ModelError, match=r"gain: '.*mine\.safetensors' cannot be read as a GAIN .*" + message):
        load_gain(altered(change))


@pytest.mark.parametrize(
    "header", ["[]", "3", "null", '"gain"', "false", "{", "", "[" * 100_000, '{"kind": "gain", "format": 1}', "NaN"]
)
def test_headers_that_are_none_are_refused_by_name(tmp_path: Path, header: str) -> None:
    from safetensors.torch import save_file

    save_file({"mean_image": torch.zeros(1, 2, 2)}, tmp_path / "mine.safetensors", metadata={"roadworthy": header})
    with pytest.raises(ModelError, match=r"gain: '.*mine\.safetensors' cannot be read as a GAIN"):
        load_gain(tmp_path / "mine.safetensors")


def test_large_networks_are_not_built_for_a_file_that_holds_none(
    altered: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, built = altered(lambda about, _: about["settings"].update(blocks=128, size=1024)), []
    whole = GainNetwork.__init__

    def spy(self: GainNetwork, *sizes: int, **settings: Any) -> None:
        built.append(settings["blocks"])
        whole(self, *sizes, **settings)

    monkeypatch.setattr(GainNetwork, "__init__", spy)
    with pytest.raises(ModelError, match="128 blocks"):
        load_gain(path)
    assert max(built) <= 1


def test_an_unchanged_copy_of_a_file_is_read(altered: Callable[..., Path], gain: Gain) -> None:
    assert load_gain(altered(lambda about, _: about.update(later=1))).settings() == gain.settings()


def test_fills_leave_the_imputer_as_it_is(gain: Gain) -> None:
    def everything() -> tuple[Any, ...]:
        tensors = [*gain._network.state_dict().values(), gain.mean_image]
        others = {name: value for name, value in vars(gain).items() if name not in ("_network", "mean_image")}
        return [value.clone() for value in tensors], [value.device for value in tensors], copy.deepcopy(others)

    weights, places, others = everything()
    with pytest.warns(RoadworthyWarning, match="is removed"):
        gain.fill(pictures(3), torch.ones(3, 9, 7, dtype=torch.bool))
    again = everything()
    assert all(map(torch.equal, weights, again[0]))
    assert (places, others) == again[1:]


def test_other_images_and_units_are_refused(gain: Gain) -> None:
    with pytest.raises(InputError, match=r"trained on images of shape \(3, 9, 7\)"):
        gain.fill(pictures(2, 3, 9, 8), masks(2, 9, 8))
    with pytest.raises(InputError, match="the unit is 'channel'"):
        gain.fill(pictures(2), torch.zeros(2, 3, 9, 7, dtype=torch.bool))
    with pytest.raises(InputError, match="expected floating"):
        gain.fill(pictures(2).int(), masks(2, 9, 7))


def test_channels_can_be_removed_on_their_own() -> None:
    images = pictures(16)
    found = train_gain(images, GainSettings(size=2, blocks=1, epochs=1, unit="channel"))
    removed = torch.rand(16, 3, 9, 7, generator=torch.Generator().manual_seed(0)) < 0.4
    filled = found.fill(images, removed)
    assert torch.equal(filled[~removed], images[~removed])
    assert not torch.equal(filled, images)
    with pytest.raises(InputError, match="the unit is 'pixel'"):
        found.fill(images, removed[:, 0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 0}, "size is 0, expected an integer of at least 1"),
        ({"epochs": 1.5}, "epochs is 1.5"),
        ({"batch": 1}, "batch is 1, expected an integer of at least 2"),
        ({"size": 1025}, "size is 1025, expected at most 1024"),
        ({"blocks": 2000}, "blocks is 2000, expected at most 128"),
        ({"missing": 0}, "missing is 0, expected a number above 0 and at most 1"),
        ({"hint": 1.2}, "hint is 1.2, expected a number of at least 0 and at most 1"),
        ({"alpha": float("inf")}, "alpha is inf"),
        ({"learning_rate": None}, "learning_rate is None, expected a number above 0"),
        ({"blobs": 10**400}, "blobs is 1000"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"unit": "patch"}, "unit is 'patch'"),
    ],
)
def test_settings_are_checked(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GainSettings(**change)  # type: ignore[arg-type]


def test_training_masks_have_their_share_and_hang_together() -> None:
    share = torch.tensor([0.0, 0.25, 0.5, 1.0]).view(-1, 1, 1, 1)
    draws = torch.Generator().manual_seed(0)
    for shape in ((4, 2, 16, 16), (4, 1, 1, 8), (4, 1, 2, 2)):
        removed = _blobs(shape, share, draws)
        assert torch.equal(removed.flatten(2).float().mean(2), share.view(-1, 1).expand(shape[:2]))
    large = _blobs((4, 1, 32, 32), torch.full((4, 1, 1, 1), 0.5), draws)
    assert float((large[..., 1:] != large[..., :-1]).float().mean()) < 0.3, "0.5 where units are drawn on their own"


def test_images_are_checked() -> None:
    for given, message in (
        (torch.rand(5, 3), r"5 samples of shape \(3,\)"),
        (pictures(1), "1 samples"),
        ((255 * pictures(4)).to(torch.uint8), r"got torch\.uint8"),
        (pictures(4) / 0, "NaN or infinite"),
        ([1, 2], "got list"),
    ):
        with pytest.raises(InputError, match=message):
            train_gain(given, TINY)  # type: ignore[arg-type]


def test_values_beyond_pixel_units_can_be_reached() -> None:
    images = 10 * pictures(16) - 4
    found = train_gain(images, TINY)
    assert found.scale == pytest.approx(float(images.max() - images.min()))
    assert found.fill(images, masks(16, 9, 7)).isfinite().all()


def test_every_convolution_has_spectral_norm_one_and_the_plain_network_is_the_same() -> None:
    with seeded_globals(0, "test"):
        network = GainNetwork(5, 3, width=4, blocks=2)
        plain = GainNetwork(5, 3, width=4, blocks=2, spectral=False)
    planes = torch.rand(6, 5, 11, 8, generator=torch.Generator().manual_seed(0))
    for _ in range(60):  # power iteration takes a step in every pass
        network(planes)
    network.eval()
    plain.load_state_dict(plain_state(network))
    assert torch.equal(plain.eval()(planes), network(planes))
    convolutions = [part for part in plain.modules() if isinstance(part, (torch.nn.Conv2d, torch.nn.ConvTranspose2d))]
    assert len(convolutions) == 2 + 2 * 2 + 2
    for part in convolutions:
        weight = part.weight.transpose(0, 1) if isinstance(part, torch.nn.ConvTranspose2d) else part.weight
        largest = np.linalg.svd(weight.detach().flatten(1).numpy(), compute_uv=False)[0]
        assert largest == pytest.approx(1.0, rel=0.05)
