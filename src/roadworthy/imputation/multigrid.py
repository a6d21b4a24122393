"""What the multigrid solvers share: the smoother's steps, and when to be strict.

The smoother is damped Jacobi; its steps are the roots of a Chebyshev polynomial. The weights 1/6 and 1/12 put the
eigenvalues of the diagonally scaled operator into (0, 4/3], and to 3/2 where a strip lies along a border; oscillating
errors lie above 2/3, where three steps shrink them to a few per cent. The lower end is set below that, which pays for
scattered masks: there the smoother does most of the work.
"""

from __future__ import annotations

import numpy as np

LOW, HIGH = 0.2, 1.5
HIGH_THIN = 2.0  # images one unit wide
SWEEPS = 3
LOW_ENDING, ENDING = 0.05, 8  # on the coarsest level, where smoothing is all there is
HANDED_ON = 0.7  # screening that a level hands on is damped: a lone kept unit weighs less, seen from afar
GOAL = 0.4  # the share of the tolerance that the estimate of the remaining error must meet
LEAST_RATE = 0.25  # the estimate never trusts a faster convergence than this from one correction to the next
STRICT = 0.25  # by so much the goal is lowered where the estimate is known to be poor:
FEW_KEPT = 64  # ... fewer than one unit in so many is kept
LONG = 16  # ... one side is so many times longer than the other
REFRESH_ABOVE = 2**18  # images of more units recompute the residual in float64 after every step; so do long ones


def is_long(height: int, width: int) -> bool:
    """Say whether an image is a strip: there float32 loses more, and slow errors hide from the estimate.

    Example:
        >>> is_long(1, 100), is_long(100, 100)
        (True, False)
    """
    return max(height, width) > LONG * min(height, width)


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
