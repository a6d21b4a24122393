"""Is an accuracy more than guessing? The exact binomial test (Clopper and Pearson 1934)."""

from __future__ import annotations

from roadworthy.errors import InputError
from roadworthy.statistics._checks import check_level


def above_chance(correct: int, n: int, classes: int, *, level: float = 0.95) -> bool:
    """Say whether a number of right answers is clearly more than guessing gives.

    Guessing is right with probability 1 / ``classes`` for each sample, whatever the labels. Judged by the one-sided
    exact binomial test, as ``scipy.stats.binomtest(correct, n, 1 / classes, "greater")``.

    Args:
        correct: number of right answers, 0 to ``n``.
        n: number of samples, at least 1.
        classes: number of classes, at least 2.
        level: confidence level; guessing is called clearly above chance with probability at most ``1 - level``.

    Returns:
        Whether guessing gives so many right answers, or more, with probability at most ``1 - level``.

    Raises:
        InputError: counts outside their ranges.

    Example:
        >>> above_chance(3, 20, 10), above_chance(5, 20, 10)
        (False, True)
    """
    check_level(level)
    if not 0 <= correct <= n or n < 1 or classes < 2:
        raise InputError(
            f"above_chance: {correct} right of {n} with {classes} classes came, expected 0 to n right of at least 1 "
            "with at least 2 classes"
        )
    from scipy.special import betainc

    # the tail of the binomial is the regularised incomplete beta function
    tail = 1.0 if correct == 0 else float(betainc(correct, n - correct + 1, 1 / classes))
    return tail <= 1 - level
