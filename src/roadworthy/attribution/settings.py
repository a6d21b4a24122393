"""Parameters of the attribution methods, with those of the published evaluations under their names."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from roadworthy.errors import InputError, unknown_name
from roadworthy.forward import as_stats
from roadworthy.types import Normalize

Baseline = Literal["mean", "black"] | float | tuple[float, ...]

# Neither a normalisation nor a standard deviation is known: the convention of the published CIFAR-10 code.
UNKNOWN_MEAN = 0.5
UNKNOWN_STD = 0.5


@dataclass(frozen=True)
class Settings:
    """Parameters of all methods; take a named one (:data:`presets`) or change it with ``dataclasses.replace``.

    Attributes:
        ig_steps: points on the path of integrated gradients.
        ig_rule: ``"gausslegendre"``, or ``"uniform"``: the plain mean over equally spaced points, both ends included.
        baseline: where paths start and what occlusion puts in: ``"mean"`` (the data mean: the zero of normalised
            images), ``"black"`` (0), or values in pixel units.
        samples: noisy copies of an ensemble (``-sg``, ``-sq``, ``-var``).
        noise: standard deviation of their noise, in ``noise_unit``.
        noise_unit: ``"normalized"`` (multiples of the data's standard deviation), ``"range"`` (of the image's own
            maximum minus minimum), or ``"pixel"``.
        guided_samples: ``samples`` for guided backpropagation; None takes ``samples``.
        guided_noise: ``noise`` for guided backpropagation; None takes ``noise``.
        gradcam_layer: name of the layer Grad-CAM looks at; None takes the last convolution that runs.
        gradcam_relu: whether Grad-CAM drops negative evidence; by default the map is signed.
        shap_samples: random path points of gradient SHAP.
        shap_noise: standard deviation of its noise, in ``noise_unit``.
        occlusion_window: side of the sliding window; None takes an eighth of the shorter side.
        occlusion_stride: its step; None takes half the window.
        lrp_rule: ``"composite"`` (gamma rule for convolutions but the first, epsilon elsewhere), or ``"epsilon"``
            everywhere, which on ReLU networks with plain normalised input equals input x gradient.
        cells: superpixels along a side for LIME and kernel SHAP (at most the side itself).
        lime_samples: perturbed copies for LIME.
        kernel_shap_samples: perturbed copies for kernel SHAP.

    Example:
        >>> dataclasses.replace(presets["road"], ig_steps=20).ig_steps
        20
    """

    ig_steps: int = 50
    ig_rule: Literal["gausslegendre", "uniform"] = "gausslegendre"
    baseline: Baseline = "mean"
    samples: int = 15
    noise: float = 0.2
    noise_unit: Literal["normalized", "range", "pixel"] = "normalized"
    guided_samples: int | None = None
    guided_noise: float | None = None
    gradcam_layer: str | None = None
    gradcam_relu: bool = False
    shap_samples: int = 25
    shap_noise: float = 0.09
    occlusion_window: int | None = None
    occlusion_stride: int | None = None
    lrp_rule: Literal["composite", "epsilon"] = "composite"
    cells: int = 8
    lime_samples: int = 200
    kernel_shap_samples: int = 200

    def __post_init__(self) -> None:
        for name in ("ig_steps", "samples", "shap_samples", "cells", "lime_samples", "kernel_shap_samples"):
            _at_least(name, getattr(self, name), 1)
        for name in ("guided_samples", "occlusion_window", "occlusion_stride"):
            if getattr(self, name) is not None:
                _at_least(name, getattr(self, name), 1)
        for name in ("noise", "guided_noise", "shap_noise"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InputError(f"settings: {name} is {value!r}, expected a number of at least 0")
        _one_of("ig_rule", self.ig_rule, ("gausslegendre", "uniform"))
        _one_of("noise_unit", self.noise_unit, ("normalized", "range", "pixel"))
        _one_of("lrp_rule", self.lrp_rule, ("composite", "epsilon"))
        if isinstance(self.baseline, str):
            _one_of("baseline", self.baseline, ("mean", "black"))


def _at_least(name: str, value: Any, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise InputError(f"settings: {name} is {value!r}, expected an integer of at least {low}")


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"settings: {name} is {value!r}, expected one of {', '.join(map(repr, known))}")


#: Named settings. ``road`` and ``roar`` follow the papers; the ``-code`` ones follow the code released with them.
presets: Mapping[str, Settings] = {
    "road": Settings(),
    "road-code": Settings(guided_samples=100, guided_noise=1.0),
    "roar": Settings(ig_steps=25, ig_rule="uniform", baseline="black", noise=0.15, noise_unit="range"),
    "roar-code": Settings(
        ig_steps=25, ig_rule="uniform", baseline="black", samples=25, noise=0.15, noise_unit="range"
    ),
}


_ENSEMBLES = ("samples", "noise", "noise_unit")
_READ_BY: Mapping[str, tuple[str, ...]] = {
    "grad": _ENSEMBLES,
    "ixg": _ENSEMBLES,
    "ig": (*_ENSEMBLES, "ig_steps", "ig_rule", "baseline"),
    "gb": (*_ENSEMBLES, "guided_samples", "guided_noise"),
    "gradcam": ("gradcam_layer", "gradcam_relu"),
    "guided-gradcam": (*_ENSEMBLES, "guided_samples", "guided_noise", "gradcam_layer", "gradcam_relu"),
    "deeplift": ("baseline",),
    "gradient-shap": ("baseline", "shap_samples", "shap_noise", "noise_unit"),
    "occlusion": ("baseline", "occlusion_window", "occlusion_stride"),
    "lrp": ("lrp_rule",),
    "lime": ("baseline", "cells", "lime_samples"),
    "kernel-shap": ("baseline", "cells", "kernel_shap_samples"),
    **dict.fromkeys(("random", "constant", "center", "sobel"), ()),
}


def read_by(settings: Settings, family: str) -> Settings:
    """Return settings in which all that a family of methods does not read has its default.

    Two settings that come to the same here give the family the same maps. Of a family that is not known here, all
    counts.

    Example:
        >>> read_by(Settings(ig_steps=10), "grad") == read_by(Settings(ig_steps=20), "grad")
        True
    """
    if family not in _READ_BY:
        return settings
    return Settings(**{name: getattr(settings, name) for name in _READ_BY[family]})


@dataclass(frozen=True)
class Resolved:
    """Settings together with what they come to for one model and one kind of image.

    Attributes:
        settings: as given.
        name: the preset's name, or ``"custom"``.
        baseline: per channel in pixel units, (C,), on the model's device.
        baseline_from: where the baseline came from.
        std: per channel, for noise given in normalised units.
        std_from: where that came from.
    """

    settings: Settings
    name: str
    baseline: torch.Tensor
    baseline_from: str
    std: torch.Tensor
    std_from: str

    def spread(self, image: torch.Tensor, noise: float) -> torch.Tensor:
        """Return the noise's standard deviation for one image (C, ...) in pixel units, broadcastable over it."""
        unit = self.settings.noise_unit
        if unit == "range":
            return noise * (image.max() - image.min())
        if unit == "pixel":
            return torch.tensor(noise, device=image.device)
        return noise * self.over_channels(self.std, image)

    def start(self, image: torch.Tensor) -> torch.Tensor:
        """Return the baseline, broadcastable over one image (C, ...)."""
        return self.over_channels(self.baseline, image)

    @staticmethod
    def over_channels(values: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        """View values per channel so that they broadcast over one image (C, ...)."""
        return values.view(-1, *[1] * (image.ndim - 1))

    def describe(self) -> dict[str, Any]:
        """Return all values as JSON types, resolved ones in pixel units."""
        spread = None
        if self.settings.noise_unit == "normalized":
            spread = [round(self.settings.noise * value, 7) for value in self.std.tolist()]
        return {
            "name": self.name,
            **dataclasses.asdict(self.settings),
            "baseline_pixels": [round(value, 7) for value in self.baseline.tolist()],
            "baseline_from": self.baseline_from,
            "noise_pixels": spread
            if spread is not None
            else f"{self.settings.noise} in unit {self.settings.noise_unit}",
            "noise_from": self.std_from,
        }


def named(settings: str | Settings) -> Settings:
    """Return the settings of a name, or settings as they are.

    Raises:
        InputError: an unknown name, or neither of the two.

    Example:
        >>> named("roar").ig_steps
        25
    """
    if isinstance(settings, Settings):
        return settings
    if not isinstance(settings, str):
        raise InputError(f"settings: got {type(settings).__name__}, expected a name or a Settings object")
    if settings not in presets:
        raise unknown_name("settings", settings, presets)
    return presets[settings]


def resolve(
    settings: Settings,
    *,
    model: Callable[..., Any],
    channels: int,
    normalize: Normalize | None,
    mean: Sequence[float] | float | None,
    device: torch.device,
) -> Resolved:
    """Work out baseline and noise in pixel units.

    The mean is ``mean``, else that of ``normalize``, else the model's ``pixel_mean``, else 0.5. The standard
    deviation is that of ``normalize``, else the model's ``pixel_std``, else 0.5.

    Raises:
        InputError: an unknown name, or a wrong number of values.
    """
    name = next((key for key, preset in presets.items() if preset == settings), "custom")
    if settings.baseline == "mean":
        values, origin = _first_known(
            ("mean=", mean),
            ("normalize=", None if normalize is None else normalize[0]),
            ("the model's pixel_mean", getattr(model, "pixel_mean", None)),
            ("no mean known: 0.5", UNKNOWN_MEAN),
        )
    else:
        values, origin = (0.0 if settings.baseline == "black" else settings.baseline), "settings.baseline"
    spread, spread_from = _first_known(
        ("normalize=", None if normalize is None else normalize[1]),
        ("the model's pixel_std", getattr(model, "pixel_std", None)),
        ("no standard deviation known: 0.5", UNKNOWN_STD),
    )
    baseline, std = as_stats((_listed(values), _listed(spread)), channels, device)
    return Resolved(settings, name, baseline.expand(channels), origin, std.expand(channels), spread_from)


def _first_known(*candidates: tuple[str, Any]) -> tuple[Any, str]:
    return next((value, origin) for origin, value in candidates if value is not None)


def _listed(values: Any) -> Any:
    return [float(values)] if isinstance(values, (int, float)) else values
