"""The smoother's steps, shared by the multigrid solvers: the roots of a Chebyshev polynomial.

The weights 1/6 and 1/12 put the eigenvalues of the diagonally scaled operator into (0, 4/3], and to 3/2 where a strip
lies along a border; oscillating errors lie above 2/3, where three steps shrink them to a few per cent. The lower end
is set below that, which pays for scattered masks: there the smoother does most of the work.
"""

from __future__ import annotations

import numpy as np

LOW, HIGH = 0.2, 1.5
HIGH_THIN = 2.0  # images one unit wide
SWEEPS = 3
LOW_ENDING, ENDING = 0.05, 8  # on the coarsest level, where smoothing is all there is


def chebyshev_steps(low: float, high: float, count: int) -> np.ndarray:
    """Return the step sizes of damped Jacobi whose product is the Chebyshev polynomial on [low, high].

    Args:
        low: lower end of the interval, above 0.
        high: upper end.
        count: number of steps.

    Returns:
        float32 (count,), in Leja order, which keeps intermediate values small.

    Example:
        >>> chebyshev_steps(0.5, 1.5, 1).tolist()
        [1.0]
    """
    angles = (2 * np.arange(1, count + 1) - 1) * np.pi / (2 * count)
    left = list((high + low) / 2 + (high - low) / 2 * np.cos(angles))
    ordered = [left.pop(int(np.argmax(left)))]
    while left:
        distances = [np.prod(np.abs(value - np.array(ordered))) for value in left]
        ordered.append(left.pop(int(np.argmax(distances))))
    return (1 / np.array(ordered)).astype(np.float32)
