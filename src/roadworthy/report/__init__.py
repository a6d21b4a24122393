"""What a result says: the verdict, one HTML page, and figures. Never loads torch.

The package is callable: ``roadworthy.report(result, "report.html")`` writes the page, whether the name has come to
mean the function or, once it was imported, this package.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from roadworthy.comparison import Comparison
from roadworthy.evaluation.result import Result
from roadworthy.labelfree.result import LabelFree
from roadworthy.report.figures import curves_figure, sheet_figure
from roadworthy.report.folder import write_all, write_pictures
from roadworthy.report.page import report
from roadworthy.report.verdict import Verdict, verdict

__all__ = ["Verdict", "curves_figure", "report", "sheet_figure", "verdict", "write_all", "write_pictures"]


class CallablePackage(ModuleType):
    """This package as a function: :func:`roadworthy.report.page.report`."""

    def __call__(
        self,
        result_or_path: Result | LabelFree | Comparison | str | Path,
        path: str | Path = "report.html",
        *,
        title: str | None = None,
    ) -> Path:
        return report(result_or_path, path, title=title)


CallablePackage.__call__.__doc__ = report.__doc__
sys.modules[__name__].__class__ = CallablePackage
