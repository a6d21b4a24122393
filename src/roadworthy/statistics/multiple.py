"""Holm's step-down correction of p-values (Holm 1979): family-wise, whatever the dependence between the tests.

Equals ``statsmodels.stats.multitest.multipletests(method="holm")``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import listed, to_array


def holm(p: Any) -> np.ndarray:
    """Adjust p-values so that calling those at most ``a`` real errs anywhere with probability at most ``a``.

    Args:
        p: (m,) p-values in [0, 1], in any order.

    Returns:
        float64 (m,), in the order of ``p``: at least ``p``, at most 1, and equal where ``p`` is equal.

    Raises:
        InputError: values outside [0, 1] or NaN, naming their positions; more than one axis.

    Example:
        >>> holm([0.01, 0.04, 0.03, 0.005]).tolist()
        [0.03, 0.06, 0.06, 0.02]
    """
    values = to_array(p)
    if values.ndim != 1:
        raise InputError(f"p: shape {values.shape} came, expected one axis of p-values")
    values = values.astype(np.float64)
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)))
    if len(bad):
        raise InputError(f"p: {listed(values[bad])} at {listed(bad)} came, expected values in [0, 1]")
    order = np.argsort(values, kind="stable")
    steps = np.minimum(1, values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.maximum.accumulate(steps)
    return adjusted
