"""Controls that a ranking needs beside it: random maps, edges, and a map turned round."""

from __future__ import annotations

from roadworthy.evaluation.result import Result
from roadworthy.markup import clean
from roadworthy.report.findings import Findings


def missing_controls(found: Findings) -> list[str]:
    """Return the controls that were not run, by the names they are asked for under.

    Edges are asked for only of pictures: of series, tables and tokens there are none. The inverse is that of the best
    method that is no control.
    """
    result = found.result
    best = next((name for name in [*found.counted, *found.methods] if name in found.real_methods), None)
    wanted = {
        "random": "random" in result.methods,
        "sobel": "sobel" in result.methods or not _pictures(result),
    }
    if best is not None:
        wanted[f"inverse:{clean(best)}"] = any(name.startswith("inverse:") for name in result.methods)
    return [name for name, there in wanted.items() if not there]


def _pictures(result: Result) -> bool:
    return result.sheet is not None or any(view["imputer"] == "noisy-linear" for view in result.views)
