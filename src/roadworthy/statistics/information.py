"""What an accuracy says about mutual information: bounds in bits.

Fano: ``H(C) - I <= h(e) + e log2(K - 1)``, with the error ``e`` of any classifier. So ``I`` is at least what is left
over. Hellman and Raviv (1970): the error of the best classifier is at most ``(H(C) - I) / 2``. So ``I`` is at most
``H(C) - 2 e`` as far as the classifier at hand is the best there is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import listed, numeric


def information_bounds(accuracy: float, shares: Any) -> tuple[float, float]:
    """Bound the mutual information of the class and what a classifier reads, from the classifier's accuracy.

    Args:
        accuracy: share of right answers, in [0, 1]. Below that of always guessing the commonest class it counts as
            that: a best classifier reaches it without reading anything.
        shares: (K,) share of each class, or their counts; not negative, not all 0.

    Returns:
        The lower bound, which any classifier proves (Fano), and the upper bound, which holds if no classifier does
        better (Hellman and Raviv); both in bits, within 0 and the entropy of the class. For two classes of equal
        share and accuracy ``a`` they are ``1 - h(a)`` and ``2 a - 1``.

    Raises:
        InputError: an accuracy outside [0, 1], or shares that are negative, not finite or all 0.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022), section 4;
        Hellman and Raviv, "Probability of error, equivocation, and the Chernoff bound" (1970).

    Example:
        >>> low, high = information_bounds(0.89, [1, 1])
        >>> round(low, 2), round(high, 2)
        (0.5, 0.78)
        >>> information_bounds(0.5, [10, 10]), information_bounds(1.0, [5, 5, 5, 5])
        ((0.0, 0.0), (2.0, 2.0))
    """
    prior = _prior(shares)
    if not 0 <= accuracy <= 1:
        raise InputError(f"accuracy: {accuracy!r} came, expected a share between 0 and 1")
    entropy = _entropy(prior)
    error = 1 - max(float(accuracy), float(prior.max()))
    others = int((prior > 0).sum()) - 1
    equivocation = _entropy(np.array([error, 1 - error])) + (error * np.log2(others) if others else 0.0)
    return _within(entropy - equivocation, entropy), _within(entropy - 2 * error, entropy)


def _prior(shares: Any) -> np.ndarray:
    values = numeric(shares, "shares", 1)
    if not (np.isfinite(values).all() and (values >= 0).all() and values.sum() > 0):
        raise InputError(
            f"shares: {listed(values.tolist())} came, expected shares or counts of at least 0, not all 0"
        )
    return values / values.sum()


def _entropy(prior: np.ndarray) -> float:
    present = prior[prior > 0]
    return float(-(present * np.log2(present)).sum())


def _within(bits: float, entropy: float) -> float:
    return float(min(max(bits, 0.0), entropy))
