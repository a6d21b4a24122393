"""What a report is made of, worked out once for all its sections."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.report.facts import shown_readouts
from roadworthy.report.findings import Findings


@dataclass(frozen=True)
class Material:
    """What a report is made of, worked out once.

    Attributes:
        result: what it is about.
        findings: by readout, the result's own first.
        curves: what :meth:`Result.curves` returns, by readout in the same order.
    """

    result: Result
    findings: dict[str, Findings]
    curves: dict[str, pd.DataFrame]

    @classmethod
    def of(cls, result: Result) -> Material:
        """Rank by every readout worth showing.

        Raises:
            InputError: a result without methods or samples.
        """
        findings = {readout: Findings.of(result, readout) for readout in shown_readouts(result)}
        return cls(result, findings, {readout: result.curves(readout) for readout in findings})

    @property
    def main(self) -> Findings:
        """The findings of the result's own readout."""
        return self.findings[self.result.readout]
