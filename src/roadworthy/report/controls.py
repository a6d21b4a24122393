"""Controls that a ranking needs beside it: random maps, edges, and a map turned round."""

from __future__ import annotations

from roadworthy.evaluation.result import Result


def missing_controls(result: Result) -> list[str]:
    """Return the controls that were not run, by the names they are asked for under.

    Edges are asked for only of pictures: of series, tables and tokens there are none.
    """
    wanted = {
        "random": "random" in result.methods,
        "sobel": "sobel" in result.methods or not _pictures(result),
        "inverse:NAME": any(name.startswith("inverse:") for name in result.methods),
    }
    return [name for name, there in wanted.items() if not there]


def _pictures(result: Result) -> bool:
    return result.sheet is not None or any(view["imputer"] == "noisy-linear" for view in result.views)
