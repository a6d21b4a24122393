"""Image classifiers of Hugging Face's transformers (an extra), from a folder written by ``save_pretrained``.

Nothing is downloaded unless ``weights="pretrained"`` asks for it, weights are read from safetensors alone, and code
that comes with a model is not run. What the image processor in the folder does is found out by asking it: the side it
brings images to, and the mean and standard deviation that its rescaling and normalisation amount to. Images of
another size are brought to that side as a whole; the frame that some processors cut off first is not, so that maps
and images stay aligned.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from roadworthy.errors import MissingExtraError, ModelError, RoadworthyWarning
from roadworthy.model.base import Request, is_file, models
from roadworthy.model.weights import load_weights, one_line
from roadworthy.rng import numpy_generator, seeded_globals
from roadworthy.types import Normalize

_SIDES = (40, 60)  # of the images that tell whether a processor brings all to one size
_MODES = {0: "nearest", 2: "bilinear"}  # how pillow numbers them; bicubic stands for what torch has not
_AGREES = 1e-4


class ImageClassifier(nn.Module):
    """A classifier of transformers that takes normalised images of any size and returns class scores (N, K).

    Args:
        network: takes ``pixel_values`` and returns an object with ``logits``.
        size: (height, width) that images of another size are brought to, or None.
        mode: how they are.
        class_names: in the order of the scores.

    Example:
        >>> from types import SimpleNamespace
        >>> class Corner(nn.Module):
        ...     def forward(self, pixel_values):
        ...         return SimpleNamespace(logits=pixel_values[:, :, 0, 0])
        >>> ImageClassifier(Corner(), (4, 4), "bilinear", ("a", "b"))(torch.ones(3, 2, 8, 8)).shape
        torch.Size([3, 2])
    """

    def __init__(
        self, network: nn.Module, size: tuple[int, int] | None, mode: str, class_names: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.network = network
        self.size = size
        self.mode = mode
        self.class_names = class_names

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the class scores of images (N, C, H, W)."""
        if self.size is not None and tuple(images.shape[-2:]) != self.size:
            smooth = {} if self.mode == "nearest" else {"antialias": True, "align_corners": False}
            images = F.interpolate(images, size=self.size, mode=self.mode, **smooth)
        scores: torch.Tensor = self.network(pixel_values=images).logits
        return scores


@models.register(
    "transformers",
    "transformers:FOLDER, an image classifier of transformers (pip install 'roadworthy[transformers]')",
)
def _load(request: Request) -> tuple[nn.Module, Normalize | None]:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"{request.spec!r} needs transformers: pip install 'roadworthy[transformers]'"
        ) from error
    name = str(Path(request.name("transformers:runs/vit")).expanduser())
    download = request.weights == "pretrained"
    if request.weights is not None and not download and not is_file(request.weights):
        raise ModelError(
            f"weights: got {str(request.weights)!r}, expected the path of a file, or 'pretrained' to download; "
            "without weights= those of the folder are read"
        )
    access = {"local_files_only": not download, "trust_remote_code": False}
    config = _read(request, lambda: transformers.AutoConfig.from_pretrained(name, **access))
    _check(request, config)
    with seeded_globals(request.seed, "init", name):
        network = _read(request, lambda: _network(request, config, name, access))
    size, mode, auto = _preprocessing(request, name, access, int(getattr(config, "num_channels", 3)))
    class_names = tuple(str(config.id2label[number]) for number in range(config.num_labels))
    _compare_names(request, class_names)
    return ImageClassifier(network.float().eval(), size, mode, class_names), auto


def _read(request: Request, read: Any) -> Any:
    try:
        return read()
    except ModelError:
        raise
    except Exception as error:  # transformers and its hub raise many kinds
        name = request.argument
        if Path(name).expanduser().is_dir():
            way_out = "it takes a folder with config.json and model.safetensors, as save_pretrained writes it"
        else:
            way_out = (
                f"there is no folder {name!r}, nor such a model in the local cache; give a folder written by "
                "save_pretrained, or weights='pretrained' to download"
            )
        raise ModelError(f"{request.spec}: the model cannot be read ({one_line(error)}); {way_out}") from error


def _network(request: Request, config: Any, name: str, access: dict[str, Any]) -> nn.Module:
    from transformers import AutoModelForImageClassification as Auto

    if request.fresh or (request.weights is not None and is_file(request.weights)):
        network: nn.Module = Auto.from_config(config, trust_remote_code=False)
        if request.weights is not None:
            load_weights(network, request.weights)
        return network
    network, found = Auto.from_pretrained(
        name, config=config, use_safetensors=True, output_loading_info=True, **access
    )
    missing = sorted(found["missing_keys"])
    if missing:
        raise ModelError(
            f"{request.spec}: the weights lack {', '.join(missing[:3])}: what was saved there is no image "
            "classifier; fine-tune it and save that, or pass weights= the path of a file"
        )
    return network


def _check(request: Request, config: Any) -> None:
    if request.class_count(config.num_labels) != config.num_labels:
        raise ModelError(
            f"{request.spec}: the model is for {config.num_labels} classes, not {request.class_count(0)}; fine-tune "
            f"one on your classes, or pass classes={config.num_labels} to keep them"
        )
    channels = int(getattr(config, "num_channels", 3))
    if request.data is not None and len(request.data.mean) != channels:
        raise ModelError(
            f"{request.spec} takes {channels} channels, {request.data.name!r} has {len(request.data.mean)}; "
            f"load the data with channels={channels}"
        )


def _compare_names(request: Request, class_names: tuple[str, ...]) -> None:
    known = () if request.data is None else tuple(map(str, request.data.classes))
    if known != class_names and sorted(known) == sorted(class_names):
        warnings.warn(
            f"{request.spec}: the model numbers the classes in another order ({', '.join(class_names[:4])}, ...) "
            f"than the data ({', '.join(known[:4])}, ...); list them in the model's order in the data's classes.json",
            RoadworthyWarning,
            stacklevel=5,
        )


def _preprocessing(
    request: Request, name: str, access: dict[str, Any], channels: int
) -> tuple[tuple[int, int] | None, str, Normalize | None]:
    """Return the size and interpolation of the folder's image processor, and the normalisation that it amounts to."""
    from transformers import AutoImageProcessor

    try:
        processor = AutoImageProcessor.from_pretrained(name, **access)
    except Exception as error:  # none there, or one that needs code of its own
        if request.normalize == "auto":
            warnings.warn(
                f"{request.spec}: no image processor could be read ({one_line(error)}): images go to the model as "
                "they are, in [0, 1]; pass normalize=(mean, std)",
                RoadworthyWarning,
                stacklevel=5,
            )
        return None, "bilinear", None
    try:
        shapes = {tuple(_processed(processor, _noise(channels, side)).shape[-2:]) for side in _SIDES}
        size = (int(next(iter(shapes))[0]), int(next(iter(shapes))[1])) if len(shapes) == 1 else None
        auto = _statistics(processor, channels, size) if request.normalize == "auto" else None
    except Exception as error:
        raise ModelError(
            f"{request.spec}: what its {type(processor).__name__} does is not a mean and a standard deviation per "
            f"channel ({one_line(error)}); pass normalize=(mean, std), or None for nothing"
        ) from error
    resample = getattr(processor, "resample", None)
    return size, _MODES.get(2 if resample is None else int(resample), "bicubic"), auto


def _noise(channels: int, *sides: int) -> np.ndarray:
    height, width = sides[0], sides[-1]
    return numpy_generator(0, "processor").integers(0, 256, (channels, height, width), dtype=np.uint8)


def _processed(processor: Any, image: np.ndarray, **options: bool) -> torch.Tensor:
    """Return what a processor makes of an 8-bit image (C, H, W)."""
    found = processor([image], return_tensors="pt", input_data_format="channels_first", **options)["pixel_values"]
    return found[0].float()


def _statistics(processor: Any, channels: int, size: tuple[int, int] | None) -> Normalize | None:
    """Return the mean and standard deviation, in pixel units, that a processor's values follow from.

    Raises:
        ValueError: they do not, as where channels are swapped.
    """
    options = {name: False for name in ("do_resize", "do_center_crop") if getattr(processor, name, None)}
    image = _noise(channels, *(size or _SIDES[:1]))
    black, white, found = (_processed(processor, values, **options) for values in (0 * image, 0 * image + 255, image))
    low, high = black[:, 0, 0].double(), white[:, 0, 0].double()
    std = 1 / (high - low)
    mean = -low * std
    expected = (torch.from_numpy(image).double() / 255 - mean[:, None, None]) / std[:, None, None]
    if found.shape != expected.shape or not torch.allclose(found.double(), expected, atol=_AGREES):
        raise ValueError("its values do not follow from each channel by itself")
    if torch.allclose(mean, torch.zeros_like(mean), atol=1e-6) and torch.allclose(std, torch.ones_like(std)):
        return None
    return tuple(round(value, 6) for value in mean.tolist()), tuple(round(value, 6) for value in std.tolist())
