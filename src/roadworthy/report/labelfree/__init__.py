"""The report on a classifier and data without labels. Never loads torch."""

from roadworthy.report.labelfree.figure import reliability_figure
from roadworthy.report.labelfree.page import labelfree_report

__all__ = ["labelfree_report", "reliability_figure"]
