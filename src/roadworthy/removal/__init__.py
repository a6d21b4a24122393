"""From an attribution map to the units that are removed at a share p: order, ties, counts, nested masks."""

from __future__ import annotations

from roadworthy.removal.masks import removed_at, units_removed
from roadworthy.removal.order import ranks_without_ties, removal_ranks, tie_draw
from roadworthy.removal.reduction import reduce_channels, unit_values
from roadworthy.removal.smoothness import smoothness
from roadworthy.removal.ties import constant_maps, nonfinite_rows, tied_share

__all__ = [
    "constant_maps",
    "nonfinite_rows",
    "ranks_without_ties",
    "reduce_channels",
    "removal_ranks",
    "removed_at",
    "smoothness",
    "tie_draw",
    "tied_share",
    "unit_values",
    "units_removed",
]
