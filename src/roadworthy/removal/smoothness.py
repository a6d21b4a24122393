"""How smooth a map is: smooth maps can score well, or badly, for their shape alone, so a score is read beside it."""

from __future__ import annotations

import numpy as np


def smoothness(values: np.ndarray) -> np.ndarray:
    """Return the correlation of neighbouring units of each map (Moran's I over direct neighbours).

    White noise has about 0, a blurred map nearly 1, a chequerboard -1.

    Args:
        values: (N, H, W), (N, C, H, W), or (N, T); larger is more relevant. Neighbours lie along the last two axes,
            or along the last of two.

    Returns:
        float64 (N,); NaN where there is nothing to say: a constant map, values that are not finite, or no neighbours.

    Source:
        Moran, "Notes on continuous stochastic phenomena" (Biometrika 1950).

    Example:
        >>> rows = np.array([[[0, 0, 1, 1]], [[0, 1, 0, 1]], [[2, 2, 2, 2]]])
        >>> smoothness(rows).round(2)
        array([ 0.33, -1.  ,   nan])
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        return np.full(len(array), np.nan)
    flat = array.reshape(len(array), -1)
    with np.errstate(all="ignore"):  # what is not finite comes out as NaN
        centred = array - flat.mean(axis=1).reshape(-1, *[1] * (array.ndim - 1))
        scale = np.abs(centred).reshape(len(array), -1).max(axis=1, initial=0).reshape(-1, *[1] * (array.ndim - 1))
        centred /= scale  # squares of very small or large values would vanish or overflow
        products, pairs = np.zeros(len(array)), 0
        for axis in range(max(1, array.ndim - 2), array.ndim):
            first, second = (np.moveaxis(centred, axis, -1)[..., part] for part in (slice(None, -1), slice(1, None)))
            products += (first * second).reshape(len(array), -1).sum(axis=1)
            pairs += first[:1].size
        variance = (centred**2).reshape(len(array), -1).mean(axis=1)
        return np.asarray(products / pairs / variance) if pairs else np.full(len(array), np.nan)
