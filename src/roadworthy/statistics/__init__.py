"""Statistics: top-k accuracy, areas, rank correlations, and which methods can be told apart."""

from roadworthy.statistics.agreement import RankAgreement, rank_agreement
from roadworthy.statistics.areas import area, symmetric_gain
from roadworthy.statistics.bootstrap import PairedBootstrap, curve_bands, paired_bootstrap
from roadworthy.statistics.chance import above_chance
from roadworthy.statistics.groups import groups
from roadworthy.statistics.multiple import holm
from roadworthy.statistics.ranking import pairwise_table, rank_methods
from roadworthy.statistics.ranks import kendall, midranks, spearman
from roadworthy.statistics.topk import TopKAccuracy, target_ranks, topk_accuracy

__all__ = [
    "PairedBootstrap",
    "RankAgreement",
    "TopKAccuracy",
    "above_chance",
    "area",
    "curve_bands",
    "groups",
    "holm",
    "kendall",
    "midranks",
    "paired_bootstrap",
    "pairwise_table",
    "rank_agreement",
    "rank_methods",
    "spearman",
    "symmetric_gain",
    "target_ranks",
    "topk_accuracy",
]
