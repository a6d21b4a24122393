"""What most likely went wrong, told from the shapes and kinds at hand; error messages end in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_COLOURS = (1, 3, 4)  # channels that pictures have


def looks_channels_last(shape: Sequence[int]) -> bool:
    """Tell whether a batch of pictures has its channels on the last axis.

    Example:
        >>> looks_channels_last((8, 32, 32, 3)), looks_channels_last((8, 3, 32, 32))
        (True, False)
    """
    return len(shape) == 4 and shape[1] not in _COLOURS and shape[3] in _COLOURS


def batch_hint(model: Any, shape: Sequence[int], layout: str, error: str) -> str:
    """Return why a model may have failed on a batch, and the way out; empty where nothing is known.

    Args:
        model: the model, of which the first convolution tells the channels.
        shape: the batch, channels first.
        layout: the layout that the caller named.
        error: the model's own message.

    Example:
        >>> batch_hint(None, (16, 32, 32, 3), "NCHW", "")
        ". The images look channels last: pass layout='NHWC', or images.permute(0, 3, 1, 2)"
    """
    if "allocate memory" in error:
        return ". There is not enough memory: pass a smaller max_batch (--max-batch), or smaller images (--size)"
    if "scalar types: Long, Int" in error:
        return ". Token ids must be integers: pass images.long()"
    wanted = _channels(model)
    if layout == "NHWC":
        swapped = len(shape) == 4 and shape[2] in _COLOURS and shape[1] not in _COLOURS
        return ". layout='NHWC' was passed, but the images look channels first: leave it out" if swapped else ""
    if looks_channels_last(shape):
        return ". The images look channels last: pass layout='NHWC', or images.permute(0, 3, 1, 2)"
    if len(shape) == 3 and wanted is not None:
        if shape[0] == wanted:
            return ". This looks like one image: give it a batch axis, images[None]"
        if wanted == 1:
            return ". The images have no channel axis: give them one, images[:, None]"
    if len(shape) == 4 and wanted is not None and shape[1] != wanted:
        return (
            f". The model takes {wanted} channel{'s' if wanted > 1 else ''}, the images have {shape[1]}: load the "
            f"data with channels={wanted} (--channels {wanted})"
            + (", or repeat the grey channel, images.expand(-1, 3, -1, -1)" if (wanted, shape[1]) == (3, 1) else "")
        )
    return ""


def _channels(model: Any) -> int | None:
    """Return the channels that a module's first two-dimensional convolution takes."""
    parts = model.modules() if isinstance(model, torch.nn.Module) else ()
    return next((part.in_channels for part in parts if isinstance(part, torch.nn.Conv2d)), None)


def scores_hint(shape: Sequence[int]) -> str:
    """Return how scores of another shape become one score a class.

    Example:
        >>> scores_hint((8, 5, 16, 16))
        '; for a score at every position lambda s: s.flatten(2).mean(2)'
    """
    if len(shape) == 1 or (len(shape) == 2 and shape[1] == 1):
        return "; for two classes with one logit lambda s: torch.stack([0 * s.flatten(), s.flatten()], 1)"
    return "; for a score at every position lambda s: s.flatten(2).mean(2)" if len(shape) > 2 else "."


def not_a_model(model: Any) -> str:
    """Return what to do with something that was passed for a model and is none.

    Example:
        >>> not_a_model("resnet50")
        "; roadworthy.load_model('resnet50') loads a model by its name"
    """
    if isinstance(model, str):
        if model.endswith((".pt", ".pth", ".safetensors")):
            return f"; of a file of weights, roadworthy.load_model('torchvision:NAME', data, weights={model!r})"
        return f"; roadworthy.load_model({model!r}) loads a model by its name"
    if isinstance(model, Mapping):
        return ". These look like weights: put them into the network they belong to, with load_state_dict"
    if hasattr(model, "predict_proba"):
        return (
            ". Pass a function from a tensor to class scores, such as "
            "lambda x: np.log(model.predict_proba(x.flatten(1).numpy()) + 1e-12)"
        )
    if isinstance(model, torch.Tensor) or hasattr(model, "__array__"):
        return ". The model comes first, then the images"
    return ""


def bytes_in_words(count: float) -> str:
    """Write an amount of memory or disk.

    Example:
        >>> bytes_in_words(2_500), bytes_in_words(5e9)
        ('0.0 MB', '5.0 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def of_file(source: Any) -> str:
    """Return how maps in a file are passed, where a name is one of a file; empty for others.

    Example:
        >>> of_file("maps.npy"), of_file("ig")
        ("; maps in a file are opened first, attributions=roadworthy.attribution.open_maps('maps.npy')", '')
    """
    path = str(source) if isinstance(source, str | os.PathLike) else ""
    if not path.endswith((".npy", ".npz", ".zarr", ".h5", ".hdf5", ".pt")):
        return ""
    return f"; maps in a file are opened first, attributions=roadworthy.attribution.open_maps({path!r})"


def wrapper_hint(model: Any) -> str:
    """Return where a wrapped module's own layers are to be had; empty for others.

    Example:
        >>> wrapper_hint(torch.nn.DataParallel(torch.nn.Linear(2, 2)))
        ' The model is wrapped in DataParallel: pass model.module.'
    """
    for attribute in ("_orig_mod", "module"):
        if isinstance(model, torch.nn.Module) and isinstance(getattr(model, attribute, None), torch.nn.Module):
            return f" The model is wrapped in {type(model).__name__}: pass model.{attribute}."
    return ""
