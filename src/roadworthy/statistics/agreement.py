"""Do the two removal orders rank the methods alike?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import numeric
from roadworthy.statistics.areas import area, check_fractions
from roadworthy.statistics.ranks import kendall, spearman


@dataclass(frozen=True)
class RankAgreement:
    """Rank correlation of the methods between the two orders; 1 is the same ranking, -1 the reverse.

    Attributes:
        fractions: shares removed (P,).
        spearman: Spearman's rho at each share (P,); NaN where undefined.
        kendall: Kendall's tau-b at each share (P,); NaN where undefined.
        spearman_mean: mean of the defined ``spearman``; NaN if there is none.
        kendall_mean: mean of the defined ``kendall``; NaN if there is none.
        spearman_area: Spearman's rho of the areas under the whole curves.
        kendall_area: Kendall's tau-b of the areas.
        undefined: number of shares without a value, where an order gives all methods the same score.
        methods: number of methods.
    """

    fractions: np.ndarray
    spearman: np.ndarray
    kendall: np.ndarray
    spearman_mean: float
    kendall_mean: float
    spearman_area: float
    kendall_area: float
    undefined: int
    methods: int


def rank_agreement(fractions: Any, morf: Any, lerf: Any) -> RankAgreement:
    """Compare how the two orders rank the methods, share by share and over the areas.

    Low is good after removing the most relevant units, high is good after removing the least relevant. Both orders
    are paired at the same share removed; the ROAD paper pairs the share removed with the share *kept*, which for
    shares symmetric about 1/2 is ``lerf[:, ::-1]``. With fewer than two methods, at share 0, or where all methods
    score alike, there is no ranking: NaN, neither 0 nor 1.

    Args:
        fractions: (P,) rising shares removed, the same for both orders; a single one leaves the areas undefined.
        morf: (M, P) score of each method with the most relevant units removed.
        lerf: (M, P) score of each method with the least relevant units removed; a NaN makes its share undefined.

    Returns:
        The correlations and how many shares have none.

    Raises:
        InputError: shapes that do not fit, or fractions that do not rise.

    Example:
        >>> found = rank_agreement([0, 0.2, 0.4], [[1, 0.3, 0.1], [1, 0.5, 0.2]], [[1, 0.9, 0.7], [1, 0.8, 0.6]])
        >>> found.spearman.tolist(), found.spearman_mean, found.undefined
        ([nan, 1.0, 1.0], 1.0, 1)
    """
    low, high = numeric(morf, "morf", 2), numeric(lerf, "lerf", 2)
    if low.shape != high.shape:
        raise InputError(f"morf has shape {low.shape} and lerf {high.shape}, expected the same (methods, fractions)")
    single = low.shape[1] == 1 and np.size(fractions) == 1
    shares = np.asarray(fractions, dtype=np.float64).reshape(1) if single else check_fractions(fractions)
    if len(shares) != low.shape[1]:
        raise InputError(f"morf has {low.shape[1]} columns for {len(shares)} fractions, expected one per fraction")
    rho, tau = spearman(-low, high, axis=0), kendall(-low, high, axis=0)
    overall = (np.nan, np.nan)
    if not single:
        gains = -area(shares, low), area(shares, high)
        overall = float(spearman(*gains)), float(kendall(*gains))
    defined = ~np.isnan(rho)
    return RankAgreement(
        fractions=shares,
        spearman=rho,
        kendall=tau,
        spearman_mean=float(rho[defined].mean()) if defined.any() else np.nan,
        kendall_mean=float(tau[defined].mean()) if defined.any() else np.nan,
        spearman_area=overall[0],
        kendall_area=overall[1],
        undefined=int((~defined).sum()),
        methods=len(low),
    )
