"""GAIN: removed units are drawn by a network that was trained, against another, on images with removed units.

A generator sees the image with noise in the place of what was removed, and the mask; it is trained to return what was
kept and to fill the rest so that a discriminator cannot tell which is which. See :func:`train_gain`.

Source: Yoon et al., GAIN (ICML 2018), in the form of Rong et al. (ICML 2022), appendix B. Departures from the
published training are listed in :mod:`roadworthy.imputation.gain_training`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, RoadworthyWarning, listed
from roadworthy.files import replacing
from roadworthy.imputation.gain_checks import check_mean_image, check_scale, check_state, check_training, is_number
from roadworthy.imputation.gain_networks import GainNetwork
from roadworthy.imputation.imputer import Imputer, from_file, imputers, require_floating
from roadworthy.imputation.operator import over_channels
from roadworthy.rng import normal_fields
from roadworthy.types import Unit

_FORMAT = 1
_PREFIX = "generator."  # of the network's tensors in a file
_SLACK = 1e-6  # a share is a whole number of units: no more than rounding
_TOGETHER = 64  # images in one pass on an accelerator
_MOST = {"size": 1024, "blocks": 128}  # far above what any paper has, far below what fills a memory


@dataclass(frozen=True)
class GainSettings:
    """How a GAIN imputer is built and trained.

    The defaults are those published for CIFAR-10, but for ``missing`` and ``blobs``.

    Attributes:
        size: planes of the first convolution of both networks, at most 1,024; twice as many inside.
        blocks: residual blocks of both networks, at most 128.
        epochs: passes over the training images.
        batch: images in a step.
        learning_rate: of Adam with betas (0.5, 0.999), for both networks.
        alpha: weight of the squared error on kept units beside the adversarial loss, which is 1.
        hint: share of units at which the discriminator is told the mask.
        missing: the share removed from each training image is drawn evenly from 0 to this. Published: 0.5; here 0.9,
            so that the shares of an evaluation (up to 0.9) are among those it was trained for.
        blobs: share of the training masks that hang together (where smoothed noise is low, the smoothing up to a
            quarter of the longest side wide); of the others each unit is drawn on its own. Published: 0.
        unit: ``"pixel"``: all channels of a position are removed together; ``"channel"``: each value on its own.
        held_out: share of the training images (512 at most) that is not trained on, for the error on removed units
            after every epoch; it decides when the learning rate falls, not which epoch is kept.

    Example:
        >>> GainSettings(size=16, epochs=5).alpha
        100.0
    """

    size: int = 64
    blocks: int = 4
    epochs: int = 100
    batch: int = 64
    learning_rate: float = 5e-4
    alpha: float = 100.0
    hint: float = 0.01
    missing: float = 0.9
    blobs: float = 0.5
    unit: Unit = "pixel"
    held_out: float = 0.05

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("blocks", 0), ("epochs", 1), ("batch", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"gain: {name} is {value!r}, expected an integer of at least {least}")
            if value > _MOST.get(name, value):
                raise InputError(f"gain: {name} is {value!r}, expected at most {_MOST[name]}")
        ranges = {
            "learning_rate": (0, math.inf),
            "alpha": (0, math.inf),
            "hint": (0, 1),
            "missing": (0, 1),
            "blobs": (0, 1),
        }
        for name, (low, high) in (ranges | {"held_out": (0, 0.5)}).items():
            value = getattr(self, name)
            positive = name in ("learning_rate", "missing")
            if not is_number(value) or not low <= value <= high or (positive and value == 0):
                raise InputError(
                    f"gain: {name} is {value!r}, expected a number {'above' if positive else 'of at least'} {low}"
                    + ("" if high == math.inf else f" and at most {high}")
                )
        if self.unit not in ("pixel", "channel"):
            raise InputError(f"gain: unit is {self.unit!r}, expected 'pixel' or 'channel'")

    def generator(self, channels: int, *, spectral: bool) -> GainNetwork:
        """Return the network that fills: it sees the image, the mask and noise."""
        inputs = channels + 2 * self.mask_planes(channels)
        return GainNetwork(inputs, channels, width=self.size, blocks=self.blocks, spectral=spectral)

    def discriminator(self, channels: int) -> GainNetwork:
        """Return the network that tells true from filled: it sees the image and the hint."""
        return GainNetwork(
            channels + self.mask_planes(channels), channels, width=self.size, blocks=self.blocks, spectral=True
        )

    def mask_planes(self, channels: int) -> int:
        """Return how many planes a mask has."""
        return 1 if self.unit == "pixel" else channels


def draw(
    network: torch.nn.Module, centred: torch.Tensor, removed: torch.Tensor, noise: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return what the generator puts at every unit, kept ones too, around the mean image.

    Args:
        network: the generator.
        centred: float32 (N, C, H, W), less the mean image.
        removed: bool (N, 1 or C, H, W).
        noise: standard normal, of the shape of ``removed``.
        scale: the largest distance from the mean image.
    """
    shown = (centred / scale).masked_fill(removed, 0.0)
    planes = torch.cat([shown, (~removed).float(), torch.where(removed, noise, 0.0)], dim=1)
    drawn: torch.Tensor = scale * torch.tanh(network(planes))
    return drawn


class Gain(Imputer):
    """Fill with what a trained generator draws; made by :func:`train_gain` or :func:`load_gain`.

    The noise that the generator sees is drawn for each image on its own, keyed by one draw of the caller's generator
    (0 where none is given), by the mask and by what is kept: the fill depends neither on the rest of the batch nor on
    what was removed. On the CPU images pass one by one, so that it is the same bit for bit in any batch.

    Args:
        state: tensors of the generator without spectral normalisation, see ``plain_state``.
        settings: how it was built and trained.
        mean_image: float32 (C, H, W), mean of the training images.
        scale: largest distance of a training image from it.
        training: what is known of the training, as JSON types: ``n``, ``seed``, ``history``, ...

    Raises:
        InputError: any of them is not what such an imputer is made of.
    """

    name = "gain"
    per_image = True

    def __init__(
        self,
        state: Mapping[str, torch.Tensor],
        settings: GainSettings,
        *,
        mean_image: torch.Tensor,
        scale: float,
        training: Mapping[str, Any],
    ) -> None:
        self.trained = settings
        self.training = check_training(training)
        self.mean_image = check_mean_image(mean_image)
        self.scale = check_scale(scale)
        channels = len(mean_image)
        weights = check_state(
            state,
            lambda blocks: replace(settings, blocks=blocks).generator(channels, spectral=False),
            settings.blocks,
        )
        with torch.device("meta"):  # nothing is drawn from the global generator
            self._network = settings.generator(channels, spectral=False)
        self._network.load_state_dict(weights, assign=True)
        self._network.eval().requires_grad_(False)

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse images of another shape or masks of another unit than it was trained on."""
        if len(shape) != 4 or tuple(shape[1:]) != tuple(self.mean_image.shape):
            raise InputError(
                f"gain: input of shape {tuple(shape)}; this one was trained on images of shape "
                f"{tuple(self.mean_image.shape)} (C, H, W) and fills no others. Train one on this data with "
                "train_gain(data.train), or use imputer='noisy-linear'"
            )
        if unit != self.trained.unit:
            raise InputError(
                f"gain: the unit is {unit!r}, this one was trained to fill units {self.trained.unit!r}; train one "
                f"with GainSettings(unit={unit!r})"
            )

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Fill by the generator; see :meth:`Imputer.fill`. ``mean`` and ``previous`` play no part."""
        mask = over_channels(images, removed)
        own = self.trained.unit if images.shape[1] == 1 else "pixel" if mask.shape[1] == 1 else "channel"
        self.check(tuple(images.shape), own)
        require_floating(self.name, images)
        self._warn_beyond(mask)
        centred = images.detach().float() - self.mean_image.to(images.device)
        noise = self._noise(centred, mask, generator)
        # a copy, so that fills elsewhere leave this object as it is
        network = self._network if images.device.type == "cpu" else copy.deepcopy(self._network).to(images.device)
        step = 1 if images.device.type == "cpu" else _TOGETHER
        parts = []
        with torch.no_grad():
            for start in range(0, len(images), step):
                rows = slice(start, start + step)
                parts.append(draw(network, centred[rows], mask[rows], noise[rows], self.scale))
        drawn = (torch.cat(parts) if parts else centred) + self.mean_image.to(images.device)
        return torch.where(mask, drawn.to(images.dtype), images)

    def _noise(self, centred: torch.Tensor, removed: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        key = 0
        if generator is not None:
            key = int(torch.randint(2**62, (1,), generator=generator, device=generator.device).item())
        kept = centred.masked_fill(removed, 0.0).cpu().contiguous().numpy()
        masks = np.packbits(removed.cpu().numpy().reshape(len(removed), -1), axis=1)
        names = [
            hashlib.blake2b(image.tobytes() + mask.tobytes(), digest_size=16).hexdigest()
            for image, mask in zip(kept, masks, strict=True)
        ]
        fields = normal_fields(key, "gain", names, tuple(removed.shape[1:]))
        return torch.from_numpy(fields).to(centred.device)

    def caution(self, fractions: Sequence[float]) -> str:
        """Tell of shares beyond those it was trained for."""
        share = max(fractions, default=0.0)
        if share <= self.trained.missing + _SLACK:
            return ""
        return (
            f"gain: {share:.0%} of an image is removed, this one was trained to fill at most "
            f"{self.trained.missing:.0%}; train one with GainSettings(missing={math.ceil(share * 100) / 100:g}), "
            "or evaluate smaller shares"
        )

    def _warn_beyond(self, removed: torch.Tensor) -> None:
        share = float(removed.flatten(1).float().mean(1).max()) if len(removed) else 0.0
        text = self.caution([share])
        if text:  # told once or every time, as the caller's warning filters say
            warnings.warn(text, RoadworthyWarning, stacklevel=3)

    def settings(self) -> dict[str, Any]:
        """Return name, a hash of the weights, the training's settings, and how many images it was trained on."""
        digest = hashlib.blake2b(digest_size=8)
        for value in (*self._network.state_dict().values(), self.mean_image):
            digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).tobytes())
        return {
            "name": self.name,
            "weights": digest.hexdigest(),
            "n": self.training.get("n"),
            "seed": self.training.get("seed"),
            **asdict(self.trained),
        }

    def save(self, path: str | Path) -> Path:
        """Write the generator as safetensors, with its settings in the header; see :func:`load_gain`.

        Args:
            path: ends in ``.safetensors``. The file appears whole or not at all.

        Returns:
            The path.

        Raises:
            InputError: another ending.
        """
        from safetensors.torch import save

        path = Path(path)
        if path.suffix != ".safetensors":
            raise InputError(f"gain: got {str(path)!r}, expected a name that ends in .safetensors")
        about = {"kind": "gain", "format": _FORMAT, "settings": asdict(self.trained)}
        about |= {"scale": self.scale, "training": self.training}
        state = {f"{_PREFIX}{name}": value.detach().cpu() for name, value in self._network.state_dict().items()}
        with replacing(path) as beside:
            beside.write_bytes(
                save({"mean_image": self.mean_image, **state}, metadata={"roadworthy": json.dumps(about)})
            )
        return path


def load_gain(path: str | Path) -> Gain:
    """Read a GAIN imputer that :meth:`Gain.save` wrote; ``imputer="gain:FILE"`` does the same.

    Args:
        path: the ``.safetensors`` file.

    Returns:
        The imputer, on the CPU; fills are computed where the images are.

    Raises:
        InputError: there is no such file.
        ModelError: it is damaged or holds something else.

    Example:
        >>> import tempfile
        >>> from roadworthy.imputation import GainSettings, train_gain
        >>> gain = train_gain(torch.rand(8, 1, 6, 5), GainSettings(size=2, blocks=1, epochs=1, batch=4))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_gain(gain.save(Path(folder) / "gain.safetensors"))
        >>> again.settings() == gain.settings()
        True
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path).expanduser()
    if not path.is_file():
        raise InputError(f"gain: there is no file {str(path)!r}. {_HOW}")
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("roadworthy", "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return _made(about, tensors)
    except (SafetensorError, ValueError, TypeError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).removeprefix("gain: ").split())
        raise ModelError(f"gain: {str(path)!r} cannot be read as a GAIN imputer ({reason}). {_HOW}") from error


def _made(about: object, tensors: Mapping[str, torch.Tensor]) -> Gain:
    """Make an imputer of a file's header and tensors."""
    if not isinstance(about, dict) or about.get("kind") != "gain" or about.get("format") != _FORMAT:
        raise ValueError("its header does not say that it holds a GAIN imputer of this version")
    told, wanted = about.get("settings"), [field.name for field in fields(GainSettings)]
    if not isinstance(told, dict) or not set(wanted) <= set(told):
        lacking = [name for name in wanted if not isinstance(told, dict) or name not in told]
        raise ValueError(f"the settings in its header lack {listed(lacking)}")
    settings = GainSettings(**{name: told[name] for name in wanted})
    weights = {name: value for name, value in tensors.items() if name != "mean_image"}
    strange = [name for name in weights if not name.startswith(_PREFIX)]
    if strange:
        raise ValueError(f"it holds tensors {listed(strange, 3)}, which no GAIN imputer has")
    return Gain(
        {name.removeprefix(_PREFIX): value for name, value in weights.items()},
        settings,
        mean_image=tensors.get("mean_image"),  # type: ignore[arg-type]
        scale=about.get("scale"),  # type: ignore[arg-type]
        training=about.get("training"),  # type: ignore[arg-type]
    )


_HOW = (
    "Train one with roadworthy.imputation.train_gain(data.train).save('gain.safetensors') or with "
    "'roadworthy audit imputers --imputers gain', then name it as 'gain:gain.safetensors'"
)


def _untrained(noise: float = 0.0) -> NoReturn:
    raise InputError(f"gain: this imputer is a network that must be trained on your data first. {_HOW}")


imputers.add("gain", _untrained, "a trained network draws what is missing; named as gain:FILE; images")
from_file.add("gain", load_gain, "a GAIN imputer saved by Gain.save")
