"""Arrays to pictures: images as the eye expects them, attribution maps in one diverging colour scale."""

from __future__ import annotations

import base64
import io

import numpy as np

# blue - near white - red (ColorBrewer RdBu), readable with the common colour-vision deficiencies
_NEGATIVE, _ZERO, _POSITIVE = (33, 102, 172), (247, 247, 247), (178, 24, 43)
_CLIP = 99.5
_EXACT = 48 * 48  # pixels up to which a colour picture keeps every colour; larger ones are reduced to 256


def image_array(image: np.ndarray) -> np.ndarray:
    """Turn a uint8 image (C, H, W) into what pictures are made of: (H, W) grey or (H, W, 3) colour.

    One channel is grey, three are RGB, a fourth is dropped; any other count is shown as the mean of the channels.
    """
    channels = image.shape[0]
    if channels in (3, 4):
        return np.ascontiguousarray(image[:3].transpose(1, 2, 0))
    return image[0] if channels == 1 else image.mean(axis=0).round().astype(np.uint8)


def map_array(attribution: np.ndarray) -> np.ndarray:
    """Colour an attribution map (H, W): red speaks for the target, blue against it, white is zero.

    The scale is symmetric and ends at the 99.5th percentile of the absolute values, so that one outlier does not
    hide the rest; a map of zeros is white.
    """
    values = np.nan_to_num(np.asarray(attribution, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    top = np.percentile(np.abs(values), _CLIP) or np.abs(values).max() or 1.0
    scaled = np.clip(values / top, -1, 1)[..., None]
    ends = np.where(scaled > 0, np.array(_POSITIVE, dtype=np.float64), np.array(_NEGATIVE, dtype=np.float64))
    return (np.array(_ZERO) + np.abs(scaled) * (ends - np.array(_ZERO))).round().astype(np.uint8)


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """Scale a picture: sharp pixels when it grows, smooth when it shrinks."""
    from PIL import Image

    grows = height >= picture.shape[0]
    method = Image.Resampling.NEAREST if grows else Image.Resampling.LANCZOS
    return np.asarray(Image.fromarray(picture).resize((width, height), method))


def data_uri(picture: np.ndarray, side: int) -> str:
    """Encode a picture (H, W) or (H, W, 3) as a PNG data URI whose longer side is at most ``side`` pixels.

    Colour pictures of more than 48 x 48 pixels are reduced to 256 colours, a third of the size.
    """
    from PIL import Image

    height, width = _scaled(picture.shape[0], picture.shape[1], side)
    image = Image.fromarray(picture if picture.shape[:2] == (height, width) else resized(picture, height, width))
    if image.mode == "RGB" and image.width * image.height > _EXACT:
        image = image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def most_bytes(height: int, width: int, side: int) -> int:
    """Bound the length of :func:`data_uri` for a picture of this size: noise, which does not compress."""
    rows, columns = _scaled(height, width, side)
    pixels = rows * columns
    return int((pixels * (3 if pixels <= _EXACT else 1) * 1.02 + 1200) * 4 / 3)


def _scaled(height: int, width: int, side: int) -> tuple[int, int]:
    scale = min(1.0, side / max(height, width))
    return max(1, round(height * scale)), max(1, round(width * scale))


def spread(count: int, most: int) -> list[int]:
    """Choose up to ``most`` of ``count`` positions, evenly, the first and the last among them.

    Example:
        >>> spread(9, 3), spread(2, 5), spread(4, 1)
        ([0, 4, 8], [0, 1], [0])
    """
    if count <= most:
        return list(range(count))
    return [round(i) for i in np.linspace(0, count - 1, most)]
