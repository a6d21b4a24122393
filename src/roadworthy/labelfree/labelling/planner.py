"""How many labels it takes to know an accuracy to within a given distance."""

from __future__ import annotations

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling.intervals import wilson


def labels_needed(
    half_width: float,
    *,
    level: float = 0.9,
    expected: float | tuple[float, float] | None = None,
    population: int | None = None,
) -> int:
    """Find how many random labels give an interval of this half width (Wilson's, for a finite population).

    Args:
        half_width: distance from the middle of the interval to its ends, in (0, 0.5).
        level: of the interval, in (0, 1).
        expected: the accuracy, or its interval (low, high); the value nearest one half counts, which needs most.
            None takes the worst case, one half.
        population: samples there are; None for without end. More than that are never needed.

    Returns:
        Number of labels, at least 2 where the population has as many.

    Raises:
        InputError: a number out of range.

    Example:
        >>> labels_needed(0.05), labels_needed(0.05, expected=0.95), labels_needed(0.05, population=1000)
        (268, 59, 212)
    """
    if not 0 < half_width < 0.5:
        raise InputError(f"half_width: got {half_width}, expected a distance between 0 and 0.5, such as 0.05")
    if population is not None and population < 1:
        raise InputError(f"population: got {population}, expected at least 1 sample")
    share = _worst(expected)
    if not 0 < level < 1:
        raise InputError(f"level: got {level}, expected a share between 0 and 1, such as 0.9")
    most = 2**40 if population is None else population
    low, high = min(2, most), most
    while low < high:  # the half width falls with n
        middle = (low + high) // 2
        if half_width_of(share, middle, level=level, population=population) <= half_width:
            high = middle
        else:
            low = middle + 1
    return low


def half_width_of(share: float, n: int, *, level: float = 0.9, population: int | None = None) -> float:
    """Return half the width of Wilson's interval of n random labels; 0 where all are labelled.

    Example:
        >>> round(half_width_of(0.5, 268), 3)
        0.05
    """
    from scipy.stats import norm

    if population is not None and n >= population:
        return 0.0
    effective = float(n) if population is None else n * (population - 1) / (population - n)
    low, high = wilson(share, effective, float(norm.ppf((1 + level) / 2)))
    return (high - low) / 2


def _worst(expected: float | tuple[float, float] | None) -> float:
    if expected is None:
        return 0.5
    low, high = expected if isinstance(expected, tuple) else (expected, expected)
    if not 0 <= low <= high <= 1:
        raise InputError(f"expected: got {expected}, expected an accuracy, or (low, high), within [0, 1]")
    return min(max(0.5, low), high)
