"""The front of the stage: images and what is removed of them in, filled images out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from roadworthy.errors import InputError
from roadworthy.forward import as_stats
from roadworthy.imputation.imputer import NOISE, Imputer, add_noise, resolve_imputer
from roadworthy.imputation.operator import over_channels
from roadworthy.rng import normal_fields, resolve_seed, torch_generator
from roadworthy.types import Normalize, Seed

Images = TypeVar("Images", torch.Tensor, np.ndarray)


def impute(
    images: Images,
    removed: torch.Tensor | np.ndarray,
    method: str | Callable[..., Any] | Imputer = "noisy-linear",
    *,
    noise: float = NOISE,
    seed: Seed = 0,
    mean: Sequence[float] | torch.Tensor | None = None,
    normalized: Normalize | None = None,
    ids: Sequence[str] | None = None,
) -> Images:
    """Fill removed units of images, series, tables or token ids.

    Args:
        images: (N, C, H, W), (N, C, T) or (N, F), floating, in pixel units; or integer token ids (N, T).
        removed: bool, True = removed: (N, H, W) or (N, T) for all channels, or of the images' shape.
        method: a name (see ``imputers``), a callable ``(images, removed, generator) -> images``, or an imputer.
        noise: standard deviation of the noise of noisy-linear, in pixel units. The default is the value of the
            authors' released code; the text of the paper says 0.1. Not clipped.
        seed: seed or generator of the noise; each sample draws from a stream of its own, keyed by its id.
        mean: training-set mean per channel, in pixel units.
        normalized: ``(mean, std)`` if the images are normalised already: fills and noise are still stated in pixel
            units and converted, so ``"zero"`` puts ``-mean / std``. Where ``mean`` is not given it is this mean.
        ids: sample ids; positions by default.

    Returns:
        Filled images, of the same kind, shape, dtype and device; kept units are bit-equal, the input is not changed.

    Raises:
        InputError: input of a wrong kind or shape, or an imputer that has no meaning for it.
        SolverError: the solver of noisy-linear failed: outcome, images and advice.

    Example:
        >>> images = torch.ones(1, 3, 4, 4)
        >>> removed = torch.zeros(1, 4, 4, dtype=torch.bool); removed[0, 1, 1] = True
        >>> impute(images, removed, "zero")[0, :, 1, 1].tolist()
        [0.0, 0.0, 0.0]
    """
    imputer = resolve_imputer(method, noise=noise)
    given, mask = _as_tensor("images", images), _as_tensor("removed", removed)
    names = [str(i) for i in range(len(given))] if ids is None else [str(name) for name in ids]
    if len(names) != len(given):
        raise InputError(f"ids: got {len(names)} ids for {len(given)} images")
    over_channels(given, mask)
    imputer.check(tuple(given.shape), "pixel" if mask.ndim < given.ndim else "channel")
    mask = mask.to(given.device)
    key = resolve_seed(seed)
    with torch.no_grad():
        filled = _fill(imputer, given, mask, mean=mean, normalized=normalized, seed=key, names=names)
    return filled.numpy() if isinstance(images, np.ndarray) else filled


def _fill(
    imputer: Imputer,
    images: torch.Tensor,
    removed: torch.Tensor,
    *,
    mean: Sequence[float] | torch.Tensor | None,
    normalized: Normalize | None,
    seed: int,
    names: list[str],
) -> torch.Tensor:
    pixels = images
    shift = scale = torch.zeros(0)
    if normalized is not None:
        shape = (1, -1, *[1] * (images.ndim - 2))
        shift, scale = (
            part.to(images.dtype).view(shape) for part in as_stats(normalized, images.shape[1], images.device)
        )
        pixels = images * scale + shift
        mean = shift.flatten() if mean is None else mean
    means = None if mean is None else torch.as_tensor(mean)
    generator = torch_generator(seed, "imputer")
    filled = imputer.fill(pixels, removed, mean=means, generator=generator)
    if imputer.noise:
        fields = torch.from_numpy(normal_fields(seed, "imputation-noise", names, tuple(images.shape[1:])))
        filled = add_noise(filled, removed, fields, imputer.noise)
    if normalized is not None:
        filled = torch.where(over_channels(images, removed), (filled - shift) / scale, images)
    return filled


def _as_tensor(name: str, value: torch.Tensor | np.ndarray) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value))
    raise InputError(f"{name}: got {type(value).__name__}, expected a torch tensor or a NumPy array")
