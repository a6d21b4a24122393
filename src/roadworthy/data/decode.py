"""From an encoded image to a float tensor: every pixel format, upright, bounded, with the cause named on failure.

Decoding is Pillow's. Added to it: one rule for channels and transparency, 16-bit values kept at full depth, a bound
on the number of pixels checked before any of them is decoded, and one error for all the ways a file can be broken.
"""

from __future__ import annotations

import functools
import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError

from roadworthy.errors import DataError

# Formats that decode in process and hold one picture: no PostScript, no PDF, no vector formats.
_FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "JPEG2000", "AVIF")
_ENDINGS = ("png", "jpg", "jpeg", "jpe", "jfif", "gif", "bmp", "tif", "tiff", "webp")
_RARE_ENDINGS = ("ppm", "pgm", "pbm", "pnm", "tga", "jp2", "avif")
EXTENSIONS = frozenset(f".{ending}" for ending in (*_ENDINGS, *_RARE_ENDINGS))
_ORIENTATION = 0x0112  # EXIF tag
_GREY_MODES = ("1", "L", "LA", "La")


def decode(
    image: bytes | Path, where: str, *, channels: int | None = None, size: tuple[int, int] | None = None
) -> torch.Tensor:
    """Decode one image.

    Args:
        image: the encoded bytes, or the path of a file.
        where: what to call it in messages.
        channels: 1, 3 or 4, or None for 1 when the image is grey and 3 when it has colour.
        size: (height, width) to bring it to; see :func:`fit`.

    Returns:
        float32 (C, H, W) in [0, 1].

    Raises:
        DataError: it cannot be decoded, or has too many pixels.
    """
    try:
        with _open(image) as opened:
            opened.load()
            return to_tensor(_upright(opened), channels=channels, size=size)
    except MemoryError:
        raise
    except Exception as error:  # decoders raise OSError, ValueError, SyntaxError, struct.error, ... on broken files
        raise DataError(f"{where}: {_cause(error)}") from error


def header_channels(image: bytes | Path) -> int | None:
    """Return 1 for a grey image and 3 for one with colour, from its header alone; None when that is broken."""
    try:
        with _open(image) as opened:
            return _natural_channels(opened.mode)
    except Exception:  # as in decode; the sample is named when it is read
        return None


def to_tensor(
    image: Image.Image, *, channels: int | None = None, size: tuple[int, int] | None = None
) -> torch.Tensor:
    """Turn a decoded image into float32 (C, H, W) in [0, 1].

    Args:
        image: an image of any mode. 16-bit grey is divided by 65535, float grey is taken as it is.
        channels: as in :func:`decode`. Transparency is kept for 4 and laid on white otherwise.
        size: (height, width), see :func:`fit`.

    Raises:
        DataError: values whose scale is unknown.
    """
    image = _plain(image, channels)
    if size is not None:
        image = fit(image, size)
    values = np.asarray(image)
    if values.dtype == np.uint8:
        return unit_tensor(values[None] if values.ndim == 2 else values.transpose(2, 0, 1))
    plane = torch.from_numpy(np.array(values, dtype=np.float32))[None]
    if channels in (3, 4):
        plane = plane.repeat(3, 1, 1)
    return torch.cat([plane, torch.ones_like(plane[:1])]) if channels == 4 else plane


def unit_tensor(values: np.ndarray) -> torch.Tensor:
    """Bring 8-bit values of any shape to float32 in [0, 1]."""
    return torch.from_numpy(np.divide(values, 255, dtype=np.float32, order="C"))


def fit(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Scale an image until it covers (height, width) and crop the rest evenly on both sides.

    The scaling is bilinear with a support that grows with the factor, so that shrinking does not alias. An image of
    the right size is not touched.
    """
    height, width = size
    if image.size == (width, height):
        return image
    scale = min(image.width / width, image.height / height)
    left, top = (image.width - width * scale) / 2, (image.height - height * scale) / 2
    box = (max(left, 0), max(top, 0), min(left + width * scale, image.width), min(top + height * scale, image.height))
    return image.resize((width, height), Image.Resampling.BILINEAR, box=box)


def _open(image: bytes | Path) -> Image.Image:
    empty = image.stat().st_size == 0 if isinstance(image, Path) else len(image) == 0
    if empty:
        raise DataError("is empty (0 bytes)")
    opened = Image.open(io.BytesIO(image) if isinstance(image, bytes) else image, formats=_formats())
    pixels, limit = opened.width * opened.height, Image.MAX_IMAGE_PIXELS
    if limit is not None and pixels > limit:
        opened.close()
        raise DataError(
            f"has {opened.width} x {opened.height} = {pixels} pixels, more than the limit of {limit} "
            "(PIL.Image.MAX_IMAGE_PIXELS)"
        )
    return opened


@functools.cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)  # older Pillow lacks the newest


def _upright(image: Image.Image) -> Image.Image:
    try:
        turned = image.getexif().get(_ORIENTATION, 1) != 1
    except Exception:  # a broken EXIF block does not make the picture unreadable
        return image
    return ImageOps.exif_transpose(image) if turned else image


def _natural_channels(mode: str) -> int:
    return 1 if mode in _GREY_MODES or mode[0] in "IF" else 3


def _plain(image: Image.Image, channels: int | None) -> Image.Image:
    """Bring an image to mode L, RGB, RGBA or F."""
    if image.mode[0] in "IF":
        return Image.fromarray(_unit_values(np.asarray(image)))
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels or _natural_channels(image.mode)]
    if mode != "RGBA" and image.has_transparency_data:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return image if image.mode == mode else image.convert(mode)


def _unit_values(values: np.ndarray) -> np.ndarray:
    low, high = values.min(), values.max()
    if np.issubdtype(values.dtype, np.floating):
        if not (low >= 0 and high <= 1):  # also when a value is NaN
            raise DataError(f"float image with values from {low:g} to {high:g}, expected [0, 1]")
        return values.astype(np.float32)
    if low < 0 or high > 65535:
        raise DataError(f"integer image with values from {low} to {high}, expected 16-bit values, [0, 65535]")
    return (values / 65535).astype(np.float32)


def _cause(error: Exception) -> str:
    if isinstance(error, DataError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):
        return f"is not an image of a known format ({', '.join(_formats())})"
    if isinstance(error, Image.DecompressionBombError):
        return f"has too many pixels (PIL.Image.MAX_IMAGE_PIXELS): {error}"
    if isinstance(error, FileNotFoundError):
        return "the file is gone"
    return f"cannot be decoded: {type(error).__name__}: {error}"
