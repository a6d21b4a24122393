"""Where the shares of each source stand on the axis on which sources are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import finite, listed
from roadworthy.statistics.areas import area, check_fractions
from roadworthy.statistics.rank_matrices import kendall_matrix, spearman_matrix

if TYPE_CHECKING:
    from roadworthy.statistics.concordance import Pairing, Source


class Checked:
    """A source whose values were checked: scores as (M, P, U), high is good, and where it stands on the axis."""

    def __init__(self, source: Source, pairing: Pairing) -> None:
        self.name, self.unit = str(source.name), source.unit
        what = f"source {self.name!r}"
        if source.order not in ("morf", "lerf", "") or source.unit not in ("samples", "trainings"):
            raise InputError(
                f"{what}: order {source.order!r} and unit {source.unit!r} came, expected 'morf', 'lerf' or '', and "
                "'samples' or 'trainings'"
            )
        higher = source.order != "morf" if source.higher_is_better is None else source.higher_is_better
        scores = finite(source.scores, f"scores of {what}", 3, ("method", "share", source.unit))
        self.scores = scores if higher else -scores
        self.removed = _checked_shares(source.shares, what)
        if len(self.removed) != scores.shape[1]:
            raise InputError(f"{what}: {scores.shape[1]} shares of scores came for {len(self.removed)} shares")
        at = 1 - self.removed if pairing == "kept" and source.order == "lerf" else self.removed
        self.at = np.where(self.removed == 0, np.nan, np.round(at, 9))  # 1 - 0.9 is not quite 0.1
        self.count = scores.shape[-1]
        # areas of another scale are told apart as well as these, and no finer than the sums can be trusted
        self.scale = float(np.abs(scores).max()) or 1.0


def _checked_shares(shares: Any, what: str) -> np.ndarray:
    try:
        found = np.asarray(shares, dtype=np.float64).reshape(-1)
        found = check_fractions(found) if len(found) != 1 else found
    except (InputError, ValueError, TypeError) as error:
        raise InputError(f"{what}: {error}") from error
    if not ((found >= 0) & (found <= 1)).all():
        raise InputError(f"{what}: shares {listed(found)} came, expected shares removed between 0 and 1")
    return found


class Layout:
    """Where the shares of each source stand on the axis that all share."""

    def __init__(self, sources: list[Checked]) -> None:
        self.sources = sources
        every = np.concatenate([source.at for source in sources])
        self.shares = np.unique(every[~np.isnan(every)])
        self.places = [np.flatnonzero(~np.isnan(source.at)) for source in sources]
        self.methods = len(sources[0].scores)

    def ranked(self, curves: list[np.ndarray]) -> np.ndarray:
        """Lay out (D, M, P_i) per source as (D, P, S, M); NaN where a source lacks the share."""
        shape = (len(curves[0]), len(self.shares), len(curves), self.methods)
        out = np.full(shape, np.nan)
        for s, (source, curve, own) in enumerate(zip(self.sources, curves, self.places, strict=True)):
            place = np.searchsorted(self.shares, source.at[own])
            out[:, place, s] = _rounded(np.moveaxis(curve[:, :, own], 1, 2), source.scale)
        return out

    def areas(self, curves: list[np.ndarray]) -> np.ndarray:
        """Return the areas (D, S, M); NaN for a source of a single share."""
        found = [
            _rounded(area(source.removed, curve), source.scale)
            if len(source.removed) > 1
            else np.full(curve.shape[:2], np.nan)
            for source, curve in zip(self.sources, curves, strict=True)
        ]
        return np.stack(found, axis=1)

    def correlations(self, curves: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Spearman and Kendall at each share, each (D, P, S, S), and the areas."""
        at_shares = self.ranked(curves)
        return spearman_matrix(at_shares), kendall_matrix(at_shares), self.areas(curves)


def _rounded(values: np.ndarray, scale: float) -> np.ndarray:
    """Round what is equal but for the order of a sum: such methods share their rank."""
    return np.round(values / scale, 12)
