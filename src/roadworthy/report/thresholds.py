"""The numbers at which the report changes its words, in one place."""

from __future__ import annotations

AGREE, PARTLY = 0.8, 0.5  # mean Spearman correlation of the two orders: from here on they agree, or agree in part
FEW, TOO_FEW = 100, 30  # samples: below these, trust with care, or little
ENOUGH, SOME = 5, 3  # trainings of each point: below these, trust with care, or little
COMPARABLE = 3  # methods: a rank correlation over fewer is no evidence
RARE = 50  # samples: below these a rare event may not have occurred yet; see roadworthy.statistics.bootstrap
WEAK, POOR = 0.9, 0.5  # accuracy of the fine-tuned copy, as a share of the model's: below these, with care, or little
TIED = 0.5  # share of tied units from which on a draw, not the map, orders most of an image
