"""Statistics: top-k accuracy, areas, rank correlations, and which methods can be told apart."""

from roadworthy.statistics.agreement import RankAgreement, rank_agreement
from roadworthy.statistics.areas import area, area_over_curve, symmetric_gain
from roadworthy.statistics.bootstrap import PairedBootstrap, curve_bands, paired_bootstrap
from roadworthy.statistics.chance import above_chance
from roadworthy.statistics.concordance import Concordance, Matrix, Pairing, Source, concordance
from roadworthy.statistics.groups import groups
from roadworthy.statistics.information import information_bounds
from roadworthy.statistics.multiple import holm
from roadworthy.statistics.rank_matrices import concordance_p, kendall_matrix, kendalls_w, spearman_matrix
from roadworthy.statistics.ranking import pairwise_table, rank_methods
from roadworthy.statistics.ranks import area_under_roc, kendall, midranks, spearman
from roadworthy.statistics.repeats import (
    PairedRepeats,
    RepeatSummary,
    least_difference,
    over_repeats,
    paired_repeats,
    rank_methods_over_repeats,
)
from roadworthy.statistics.topk import TopKAccuracy, target_ranks, topk_accuracy
from roadworthy.statistics.unpaired import UnpairedDifference, unpaired_difference

__all__ = [
    "Concordance",
    "Matrix",
    "PairedBootstrap",
    "PairedRepeats",
    "Pairing",
    "RankAgreement",
    "RepeatSummary",
    "Source",
    "TopKAccuracy",
    "UnpairedDifference",
    "above_chance",
    "area",
    "area_over_curve",
    "area_under_roc",
    "concordance",
    "concordance_p",
    "curve_bands",
    "groups",
    "holm",
    "information_bounds",
    "kendall",
    "kendall_matrix",
    "kendalls_w",
    "least_difference",
    "midranks",
    "over_repeats",
    "paired_bootstrap",
    "paired_repeats",
    "pairwise_table",
    "rank_agreement",
    "rank_methods",
    "rank_methods_over_repeats",
    "spearman",
    "spearman_matrix",
    "symmetric_gain",
    "target_ranks",
    "topk_accuracy",
    "unpaired_difference",
]
