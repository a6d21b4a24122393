"""What an imputer is, the table of named ones, and how a user's choice becomes one."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.operator import over_channels
from roadworthy.registry import Registry

# Standard deviation of the noise of noisy linear imputation, in pixel units: the value of the authors' released code.
# The text of the paper says 0.1.
NOISE = 0.01


class Imputer(abc.ABC):
    """Fills removed units; one file a subclass.

    Attributes:
        name: public name, recorded in results.
        noise: standard deviation, in pixel units, of the Gaussian noise that :func:`add_noise` adds to removed units
            after the fill; 0 for all but noisy-linear.
        per_image: draws for each image from a stream of its own, so that the rest of a batch does not matter.
    """

    name: str
    noise: float = 0.0
    per_image: bool = False

    @abc.abstractmethod
    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse input for which the fill has no meaning.

        Args:
            shape: of the images, (N, C, H, W), (N, C, T), (N, F), or token ids (N, T).
            unit: ``"pixel"`` or ``"channel"``.

        Raises:
            InputError: naming the alternatives.
        """

    @abc.abstractmethod
    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Return a copy of ``images`` with removed units filled, without noise; kept units are bit-equal.

        Args:
            images: floating, in pixel units, or token ids.
            removed: bool, True = removed: of the images' shape or without the channel dimension.
            mean: training-set mean per channel (C,), or per feature (F,).
            previous: this imputer's fill of the same images for a smaller, nested mask, or None.
            generator: randomness of callables.
        """

    def caution(self, fractions: Sequence[float]) -> str:
        """Return what the user should know before these shares are removed; empty where there is nothing."""
        return ""

    def settings(self) -> dict[str, Any]:
        """Return what a result records of the imputer, JSON-serialisable."""
        return {"name": self.name}


imputers: Registry[Callable[..., Imputer]] = Registry("imputer")
# what reads the file of an imputer that is named as NAME:FILE
from_file: Registry[Callable[[str], Imputer]] = Registry("imputer with a file")


def resolve_imputer(spec: str | Callable[..., Any] | Imputer, *, noise: float = NOISE) -> Imputer:
    """Turn what a user passes as ``imputer`` into one.

    Args:
        spec: a name in ``imputers``, ``"gain:FILE"`` for one that was trained and saved, an imputer, or a callable
            ``(images, removed, generator) -> images``.
        noise: standard deviation of the noise of noisy-linear, in pixel units; the others have none.

    Returns:
        The imputer.

    Raises:
        InputError: an unknown name, another type, or negative noise.

    Example:
        >>> resolve_imputer("noisy-linear").settings()["noise"]
        0.01
    """
    from roadworthy.imputation.function import FunctionImputer

    if not 0 <= noise < float("inf"):
        raise InputError(f"noise: got {noise!r}, expected a standard deviation of at least 0, in pixel units")
    if isinstance(spec, Imputer):
        return spec
    if isinstance(spec, str):
        name, colon, file = spec.partition(":")
        return from_file[name](file) if colon and name in from_file else imputers[spec](noise=noise)
    if callable(spec) and not isinstance(spec, type):
        return FunctionImputer(spec)
    raise InputError(
        f"imputer: got {spec!r}, expected a name ({', '.join(imputers)}), a callable (images, removed, generator) -> "
        "images, or an imputer object such as MaskToken(id)"
    )


def add_noise(filled: torch.Tensor, removed: torch.Tensor, fields: torch.Tensor, sd: float) -> torch.Tensor:
    """Add Gaussian noise to removed units.

    Args:
        filled: floating images of any shape.
        removed: bool, of the images' shape or without the channel dimension.
        fields: standard normal, of the images' shape; see :func:`roadworthy.rng.normal_fields`.
        sd: standard deviation in the images' units; 0 returns ``filled`` itself.

    Returns:
        The noisy images; kept units are bit-equal. Values are not clipped.

    Example:
        >>> add_noise(torch.zeros(1, 1, 2), torch.tensor([[True, False]]), torch.ones(1, 1, 2), 0.5).tolist()
        [[[0.5, 0.0]]]
    """
    if sd == 0:
        return filled
    noisy = filled + sd * fields.to(filled.device, filled.dtype)
    return torch.where(over_channels(filled, removed), noisy, filled)


def require_floating(name: str, images: torch.Tensor) -> None:
    """Refuse integers: token ids have no mean and no zero, and integer pixels would be truncated.

    Raises:
        InputError: naming the way out.
    """
    if not images.is_floating_point():
        raise InputError(
            f"{name}: got {images.dtype}; expected floating values in pixel units. Divide integer images by their "
            "maximum; for token ids use MaskToken(id)"
        )


def channel_values(name: str, values: torch.Tensor | None, images: torch.Tensor) -> torch.Tensor:
    """Bring one value per channel to a shape that broadcasts over ``images``.

    Raises:
        InputError: no values, or a wrong number of them.
    """
    channels = images.shape[1]
    if values is None:
        raise InputError(
            f"{name}: needs mean=, the training-set mean of each of the {channels} channels, in pixel units; "
            "or use 'image-mean', which takes it from the kept values of each image"
        )
    values = torch.as_tensor(values).to(images.device, images.dtype).flatten()
    if values.numel() not in (1, channels):
        raise InputError(f"{name}: mean has {values.numel()} values, the images have {channels} channels")
    return values.view(1, -1, *[1] * (images.ndim - 2))
