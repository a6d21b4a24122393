"""Do the labels bear out what was estimated without them?"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling.estimate import AuditEstimate

Verdict: TypeAlias = Literal["confirmed", "refuted", "cannot tell"]


def verdict(audit: AuditEstimate, low: float, high: float, *, tolerance: float = 0.0) -> Verdict:
    """Hold an audit against an interval that was given without labels.

    Confirmed if the whole interval of the audit lies within the claimed one, refuted if the two do not meet, and else
    the labels cannot tell. So a few labels never confirm by being few.

    Args:
        audit: what the labels say; its combined interval counts.
        low: lower end of what was claimed; NaN where no number was given.
        high: upper end; equal to ``low`` for a claim without interval.
        tolerance: how far the truth may lie outside of the claim before that matters.

    Returns:
        ``"confirmed"``, ``"refuted"`` or ``"cannot tell"``; the last too where nothing was claimed.

    Raises:
        InputError: ends in the wrong order, or a negative tolerance.

    Example:
        >>> from roadworthy.labelfree.labelling import Interval
        >>> found = Interval(0.6, 0.5, 0.7)
        >>> audit = AuditEstimate(found, found, 0.0, 0.0, (), 60, 1000, 0.9)
        >>> verdict(audit, 0.72, 0.79), verdict(audit, 0.65, 0.79), verdict(audit, 0.4, 0.8)
        ('refuted', 'cannot tell', 'confirmed')
    """
    if low > high or tolerance < 0:
        raise InputError(
            f"low {low}, high {high} and tolerance {tolerance} came, expected low <= high and tolerance >= 0"
        )
    if math.isnan(low) or math.isnan(high):
        return "cannot tell"
    if audit.combined.low > high + tolerance or audit.combined.high < low - tolerance:
        return "refuted"
    if low - tolerance <= audit.combined.low and audit.combined.high <= high + tolerance:
        return "confirmed"
    return "cannot tell"
