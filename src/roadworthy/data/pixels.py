"""From float images back to integers and to image files, and whether that keeps every value."""

from __future__ import annotations

import io

import numpy as np
import torch
from PIL import Image


def as_bytes(image: torch.Tensor) -> np.ndarray | None:
    """Return an image in [0, 1] as uint8 of the same shape, or None where that would change a value.

    Example:
        >>> as_bytes(torch.tensor([0.0, 1.0])), as_bytes(torch.tensor([0.3]))
        (array([  0, 255], dtype=uint8), None)
    """
    values = image.numpy()
    rounded = np.rint(values * 255).clip(0, 255).astype(np.uint8)
    return rounded if np.array_equal(np.divide(rounded, 255, dtype=np.float32), values) else None


def to_png(image: torch.Tensor) -> tuple[bytes, bool]:
    """Encode an image as PNG: 8 bits where they hold every value, else 16 bits for grey and rounded 8 for colour.

    Args:
        image: float32 (C, H, W) in [0, 1], of 1, 3 or 4 channels.

    Returns:
        The file, and whether it keeps every value.

    Example:
        >>> file, exact = to_png(torch.zeros(3, 4, 4))
        >>> file[:4], exact
        (b'\\x89PNG', True)
    """
    whole = as_bytes(image)
    exact = whole is not None
    if whole is None and image.shape[0] == 1:
        deep = np.rint(image.numpy().astype(np.float64) * 65535).clip(0, 65535).astype(np.uint16)
        exact = np.array_equal((deep / 65535).astype(np.float32), image.numpy())
        picture = Image.fromarray(deep[0])
    else:
        if whole is None:
            whole = np.rint(image.numpy() * 255).clip(0, 255).astype(np.uint8)
        picture = Image.fromarray(whole[0] if len(whole) == 1 else np.ascontiguousarray(whole.transpose(1, 2, 0)))
    file = io.BytesIO()
    picture.save(file, "PNG", compress_level=4)
    return file.getvalue(), exact


def header(encoded: bytes) -> tuple[str, int, int] | None:
    """Return format, height and width of an encoded image from its header; None when that is broken."""
    try:
        with Image.open(io.BytesIO(encoded)) as opened:
            return str(opened.format), opened.height, opened.width
    except Exception:  # decoders raise many kinds on broken files
        return None
