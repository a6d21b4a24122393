"""How long to fine-tune; apart from what trains, so that a plan can be made without it."""

from __future__ import annotations

import math

MOST = 30
JUDGE = (2, 8_000)
"""For the judge of an evaluation: at least so many epochs, and so many samples seen."""
GATE_JUDGE = (6, 10_000)
"""For the judge of the gate."""
GATE = (3, 5_000)
"""For a network that the gate trains on what a map keeps."""


def epochs_for(count: int, effort: tuple[int, int]) -> int:
    """Return the epochs for a number of training samples: few samples are gone over more often, 30 times at most.

    Args:
        count: training samples.
        effort: the least number of epochs, and of samples to be seen in all of them.

    Example:
        >>> epochs_for(50_000, JUDGE), epochs_for(2_000, JUDGE), epochs_for(10, JUDGE)
        (2, 4, 30)
    """
    least, seen = effort
    return max(least, min(MOST, math.ceil(seen / max(1, count))))
