"""What to label: a draw that tells the accuracy, and what its labels say; samples chosen to train on or look at."""

from roadworthy.labelfree.labelling.bands import Selection, confidence_bands, middle_band
from roadworthy.labelfree.labelling.estimate import AuditEstimate, audit_estimate
from roadworthy.labelfree.labelling.files import load_plan
from roadworthy.labelfree.labelling.intervals import Interval
from roadworthy.labelfree.labelling.plan import AuditPlan, audit_plan, chance_correct
from roadworthy.labelfree.labelling.planner import labels_needed
from roadworthy.labelfree.labelling.verdict import verdict

__all__ = [
    "AuditEstimate",
    "AuditPlan",
    "Interval",
    "Selection",
    "audit_estimate",
    "audit_plan",
    "chance_correct",
    "confidence_bands",
    "labels_needed",
    "load_plan",
    "middle_band",
    "verdict",
]
