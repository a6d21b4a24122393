"""What a saved result must be: each check says what is wrong with a damaged or hand-edited file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from roadworthy.errors import DataError
from roadworthy.evaluation.result import COST, FORMAT, READOUTS, WORK, Scores, Sheet

KEYS = (
    *("methods", "orders", "fractions", "removed", "repeats", "ids", "classes", "predicted"),
    *("method_info", "settings", "provenance", "warnings"),
)
DEPTH = 20  # nesting of settings that the report still lays out
_KINDS = {"u": "uint8", "iu": "integers", "f": "floats"}
_MOST = 2**62  # classes and counts are int64


def checked_head(head: Any) -> dict[str, Any]:
    """Return what result.json holds, if a result can be made of it.

    Raises:
        DataError: saying which entry is missing or what is wrong with it, without the file's name.
    """
    if not isinstance(head, dict):
        raise DataError(f"holds a {type(head).__name__}, expected an object with {', '.join(KEYS)}")
    if head.get("format") != FORMAT:
        raise DataError(f"format {head.get('format')!r}, expected {FORMAT}")
    missing = [key for key in KEYS if key not in head]
    if missing:
        raise DataError(f"{', '.join(map(repr, missing))} missing")
    for key in ("methods", "ids", "classes", "warnings", "orders"):
        _each(key, head[key], "a text", lambda value: isinstance(value, str))
    for key in ("methods", "ids", "orders"):
        if not head[key] or len(set(head[key])) < len(head[key]):
            raise DataError(f"{key!r} holds {'entries twice' if head[key] else 'nothing'}, expected distinct ones")
    if not set(head["orders"]) <= {"morf", "lerf"}:
        raise DataError(f"'orders' are {head['orders']}, expected 'morf', 'lerf' or both")
    _check_shares(head["fractions"], head["removed"])
    if not _is_count(head["repeats"]) or not head["repeats"]:
        raise DataError(f"'repeats' is {head['repeats']!r}, expected a whole number of at least 1")
    _each("predicted", head["predicted"], "a class, 0 or above", _is_count)
    _same_length("predicted", head["predicted"], "ids", head["ids"])
    _check_info(head["method_info"], head["methods"])
    _check_settings(head["settings"], head["provenance"])
    _check_views(head["settings"].get("views"), head["repeats"])
    _check_audit(head.get("audit", {}))
    check_sweep(head)
    return head


def check_sweep(head: dict[str, Any]) -> None:
    """Check what a sweep adds to a result: costs, missing points, and what stands beside; older results lack them.

    Raises:
        DataError: as :func:`checked_head`.
    """
    _check_beside(head["settings"].get("beside"))
    _each("missing", head.get("missing", []), "a text", lambda value: isinstance(value, str))
    if "cost" in head:
        _check_cost(head["cost"])


def checked_scores(scores: Scores) -> Scores:
    """Return the scores, if they are hits of 0 or 1, finite numbers, and classes.

    Raises:
        DataError: naming the column and the values.
    """
    for name in ("top1", "top5"):
        values = scores[name]
        if values.dtype.kind not in "biu" or values.min() < 0 or values.max() > 1:
            raise DataError(f"column {name!r} holds other values than 0 and 1")
    for name in ("probability", "logit"):
        values = scores[name]
        if values.dtype.kind != "f" or not np.isfinite(values).all():
            raise DataError(f"column {name!r} holds other values than finite numbers")
    for name, values in (("label", scores.labels), ("target", scores.targets)):
        if values.dtype.kind not in "iu" or values.min() < 0 or values.max() > _MOST:
            raise DataError(f"column {name!r} holds other values than classes, 0 or above")
    return scores


def checked_sheet(sheet: Sheet, head: dict[str, Any]) -> Sheet:
    """Return the samples kept for pictures, if their arrays fit one another and the result.

    Raises:
        DataError: naming the array, what it is and what was expected.
    """
    if sheet.images.ndim != 4 or not all(sheet.images.shape):
        raise DataError(f"'images' has shape {sheet.images.shape}, expected (samples, channels, height, width)")
    samples, *image = sheet.images.shape
    cells = (samples, len(head["methods"]), len(head["orders"]), len(head["fractions"]))
    expected = {
        "images": ((samples, *image), "u"),
        "labels": ((samples,), "iu"),
        "maps": ((*cells[:2], *image[1:]), "f"),
        "copies": ((*cells, *image), "u"),
        "answers": (cells, "iu"),
    }
    for name, (shape, kinds) in expected.items():
        array = getattr(sheet, name)
        if array.shape != shape or array.dtype.kind not in kinds or (kinds == "u" and array.dtype != np.uint8):
            raise DataError(
                f"{name!r} is {array.dtype} of shape {array.shape}, expected shape {shape} and {_KINDS[kinds]}"
            )
    if len(sheet.ids) != samples or not all(isinstance(sample, str) for sample in sheet.ids):
        raise DataError(f"'ids' are {len(sheet.ids)} for {samples} images, expected a text for each")
    return sheet


def _check_shares(fractions: Any, removed: Any) -> None:
    _each("fractions", fractions, "a share between 0 and 1", _is_share)
    if len(fractions) < 2 or fractions[0] != 0 or any(b <= a for a, b in pairwise(fractions)):
        raise DataError(f"'fractions' are {fractions}, expected 0 and then rising shares")
    _each("removed", removed, "a number of units", _is_count)
    _same_length("removed", removed, "fractions", fractions)
    if list(removed) != sorted(removed):
        raise DataError(f"'removed' is {removed}, expected numbers that do not fall as the fractions rise")


def _check_info(info: Any, methods: list[str]) -> None:
    if not isinstance(info, dict):
        raise DataError(f"'method_info' is a {type(info).__name__}, expected an object of columns")
    for name, column in info.items():
        _each(f"method_info.{name}", column, "a plain value", lambda value: not isinstance(value, list | dict))
        _same_length(f"method_info.{name}", column, "methods", methods)
    if info.get("method", methods) != methods:
        raise DataError("'method_info.method' names other methods than 'methods'")


def _check_settings(settings: Any, provenance: Any) -> None:
    for name, entries in (("settings", settings), ("provenance", provenance)):
        if not isinstance(entries, dict):
            raise DataError(f"{name!r} is a {type(entries).__name__}, expected an object")
        if max(depths(entries)) > DEPTH:
            raise DataError(f"{name!r} is nested deeper than {DEPTH} levels")
    if settings.get("readout", READOUTS[0]) not in READOUTS:
        raise DataError(f"'settings.readout' is {settings['readout']!r}, expected one of {', '.join(READOUTS)}")
    if not isinstance(settings.get("imputer", ""), str):
        raise DataError(f"'settings.imputer' is {settings['imputer']!r}, expected a text")
    if settings.get("average", "area") not in ("area", "shares"):
        raise DataError(f"'settings.average' is {settings['average']!r}, expected 'area' or 'shares'")
    seed = provenance.get("seed", 0)
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise DataError(f"'provenance.seed' is {seed!r}, expected a whole number")


def _check_views(views: Any, repeats: int) -> None:
    if views is None:
        return
    _each("settings.views", views, "an object with texts 'judge' and 'imputer'", _is_view)
    if not views or repeats % len(views):
        raise DataError(f"'repeats' is {repeats}, expected a multiple of the {len(views)} in 'settings.views'")


def _check_audit(audit: Any) -> None:
    if not isinstance(audit, dict):
        raise DataError(f"'audit' is a {type(audit).__name__}, expected an object")
    if max(depths(audit)) > DEPTH:
        raise DataError(f"'audit' is nested deeper than {DEPTH} levels")


def _check_beside(beside: Any) -> None:
    """Refuse what the report could not set beside the ranking; other entries than ROAD are no concern of it."""
    if beside is None or (isinstance(beside, dict) and beside.get("road") is None):
        return
    road = beside["road"] if isinstance(beside, dict) else None
    if not isinstance(road, dict) or not isinstance(road.get("score"), dict):
        raise DataError("'settings.beside' holds no object 'road' with an object 'score'")
    _each("settings.beside.road.score", list(road["score"].values()), "a finite number", _is_finite)
    for name in ("seconds", "images"):
        _each(f"settings.beside.road.{name}", [road.get(name)], "a number, 0 or above", _is_amount)


def _check_cost(cost: Any) -> None:
    if not isinstance(cost, dict) or set(cost) != set(COST):
        raise DataError(f"'cost' is no object of the columns {', '.join(COST)}")
    fits: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "work": (f"one of {', '.join(WORK)}", lambda value: value in WORK),
        "method": ("a text", lambda value: isinstance(value, str)),
        "order": ("'morf', 'lerf' or ''", lambda value: value in ("morf", "lerf", "")),
        "fraction": ("a share between 0 and 1, or null", lambda value: value is None or _is_share(value)),
        "repeat": ("a repeat, or null", lambda value: value is None or _is_count(value)),
        "seconds": ("a number, 0 or above", _is_amount),
        "images": ("a number of images", _is_count),
    }
    for name, (expected, fit) in fits.items():
        _each(f"cost.{name}", cost[name], expected, fit)
        _same_length(f"cost.{name}", cost[name], "cost.work", cost["work"])


def depths(value: Any) -> Iterator[int]:
    """Yield 0, 1, ... up to the depth to which lists and objects are nested."""
    level = [value]
    depth = 0
    while level:
        yield depth
        depth += 1
        inner = (list(v.values()) if isinstance(v, dict) else v for v in level if isinstance(v, dict | list))
        level = [entry for entries in inner for entry in entries]


def _each(name: str, values: Any, expected: str, fits: Callable[[Any], bool]) -> None:
    if not isinstance(values, list):
        raise DataError(f"{name!r} is a {type(values).__name__}, expected a list")
    for position, value in enumerate(values):
        if not fits(value):
            shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:57]}..."
            raise DataError(f"{name!r} has {shown} at position {position}, expected {expected}")


def _same_length(name: str, values: Sequence[Any], other: str, others: Sequence[Any]) -> None:
    if len(values) != len(others):
        raise DataError(f"{name!r} has {len(values)} entries for {len(others)} in {other!r}, expected one for each")


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_view(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("judge", "imputer"))


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST <= value <= _MOST


def _is_amount(value: Any) -> bool:
    return _is_finite(value) and value >= 0


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
