"""An audit plan as CSV: people fill in the last column."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.errors import DataError, RoadworthyWarning, listed
from roadworthy.files import replacing
from roadworthy.labelfree.labelling.plan import AuditPlan

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("id", "stratum", "stratum_size", "probability", "label")
_CHOSEN = "chosen_for"  # a column of selections, which are no draw


def save_plan(plan: AuditPlan, path: str | Path) -> Path:
    """Write a plan: a row a sample with ``id``, ``stratum``, ``stratum_size``, ``probability`` and ``label``.

    Args:
        plan: the plan.
        path: a CSV file. One in which something was filled in is left as it is.

    Returns:
        The path.

    Raises:
        DataError: a file lies there that is no plan.

    Warns:
        RoadworthyWarning: the file that was left holds another draw.

    Example:
        >>> plan.save("plan.csv")  # doctest: +SKIP
        PosixPath('plan.csv')
    """
    import pandas as pd

    place = Path(path).expanduser()
    if place.exists() and _filled(place):
        old = load_plan(place)
        if old.ids != plan.ids:
            warnings.warn(
                f"{place}: holds another plan with {old.labelled} labels and was left as it is; save the new one "
                "elsewhere, or move the old one away",
                RoadworthyWarning,
                stacklevel=2,
            )
        return place
    labels = plan.labels or (None,) * plan.n
    frame = pd.DataFrame(
        {
            "id": [*plan.ids, *(name for name, _ in plan.extra)],
            "stratum": pd.array([*plan.stratum.tolist(), *(None for _ in plan.extra)], dtype="Int64"),
            "stratum_size": pd.array(
                [*plan.sizes[plan.stratum].tolist(), *(None for _ in plan.extra)], dtype="Int64"
            ),
            "probability": [*plan.probability.tolist(), *(np.nan for _ in plan.extra)],
            "label": [*labels, *(label for _, label in plan.extra)],
        }
    )
    with replacing(place) as beside:
        frame.to_csv(beside, index=False, encoding="utf8")
    return place


def load_plan(path: str | Path) -> AuditPlan:
    """Read a plan, with the labels that people have filled in.

    Rows without stratum and probability were added by hand: they are kept apart in ``extra``. Columns that were added
    are ignored.

    Args:
        path: a CSV file that :meth:`AuditPlan.save` wrote; a spreadsheet may have saved it since, with ``;`` too.

    Returns:
        The plan. Its labels are text until :func:`audit_estimate` reads them.

    Raises:
        DataError: no such file, no plan, an id that comes twice, or strata that do not fit together.

    Example:
        >>> load_plan("plan.csv").labelled  # doctest: +SKIP
        50
    """
    place = Path(path).expanduser()
    frame = _read(place)
    twice = frame["id"][frame["id"].duplicated()].unique().tolist()
    if twice:
        raise DataError(f"{place}: {listed(twice)} come more than once; keep one row of each")
    if (frame["id"] == "").any():
        raise DataError(f"{place}: {int((frame['id'] == '').sum())} rows have no id")
    added = (frame["probability"] == "") & (frame["stratum"] == "")
    extra = tuple((str(name), label or None) for name, label in frame.loc[added, ["id", "label"]].to_numpy().tolist())
    frame = frame[~added]
    if frame.empty:
        raise DataError(f"{place}: holds no row that a plan has drawn")
    stratum, stated = _whole(place, frame, "stratum"), _whole(place, frame, "stratum_size")
    sizes, drawn = _sizes(place, stratum, stated, _probabilities(place, frame))
    return AuditPlan(
        ids=tuple(frame["id"]),
        stratum=stratum,
        probability=(drawn / sizes)[stratum],
        sizes=sizes,
        labels=tuple(label or None for label in frame["label"]),
        extra=extra,
    )


def _sizes(
    place: Path, stratum: np.ndarray, stated: np.ndarray, probability: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of each stratum and how many were drawn, which its probabilities must bear out."""
    if stratum.max() >= len(stratum):  # each stratum has a row
        raise DataError(_misfit(place))
    drawn = np.bincount(stratum)
    sizes = np.zeros(len(drawn), dtype=np.int64)
    sizes[stratum] = stated
    lost = np.abs(probability * stated - drawn[stratum]) > 0.5
    if ((drawn == 0) | (drawn > sizes)).any() or (sizes[stratum] != stated).any() or lost.any():
        raise DataError(_misfit(place))
    return sizes, drawn


def _misfit(place: Path) -> str:
    return (
        f"{place}: the strata do not fit together (rows were lost or changed); save the plan anew and copy the "
        "labels by id"
    )


def _read(place: Path) -> pd.DataFrame:
    import pandas as pd

    if not place.is_file():
        raise DataError(f"{place}: {'not a file' if place.exists() else 'no such file'}")
    try:
        with open(place, encoding="utf-8-sig") as file:
            separator = ";" if ";" in file.readline() else ","
        frame = pd.read_csv(
            place, dtype=str, keep_default_na=False, sep=separator, encoding="utf-8-sig", skip_blank_lines=True
        )
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors
        raise DataError(f"{place}: cannot be read as CSV ({error})") from error
    frame = frame.set_axis([str(name).strip() for name in frame.columns], axis=1)
    if _CHOSEN in frame.columns and "probability" not in frame.columns:
        raise DataError(
            f"{place}: holds a selection, not a plan: its samples were chosen, not drawn, so their labels say "
            "nothing of the whole. Use them for training"
        )
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise DataError(f"{place}: is no audit plan, columns {listed(missing)} are missing; see audit_plan")
    for name in COLUMNS[1:]:  # ids may hold spaces
        frame[name] = frame[name].str.strip()
    return frame[(frame != "").any(axis=1)]  # spreadsheets leave rows of commas


def _whole(place: Path, frame: pd.DataFrame, name: str) -> np.ndarray:
    odd = frame["id"][~frame[name].str.fullmatch(r"\d{1,15}(\.0+)?")].tolist()
    if odd:
        raise DataError(f"{place}: column {name} holds no whole number for {listed(odd)}; it must not be changed")
    return np.asarray(frame[name].astype(float).to_numpy().astype(np.int64))


def _probabilities(place: Path, frame: pd.DataFrame) -> np.ndarray:
    try:
        found = frame["probability"].str.replace(",", ".").astype(float).to_numpy()
    except ValueError as error:
        raise DataError(f"{place}: column probability holds what is no number ({error})") from error
    if not ((found > 0) & (found <= 1)).all():
        raise DataError(f"{place}: column probability must lie above 0 and up to 1; it must not be changed")
    return np.asarray(found)


def _filled(place: Path) -> bool:
    """Whether somebody has put something in: a label, a row or a column."""
    frame = _read(place)
    return bool(
        (frame["label"] != "").any() or (frame["probability"] == "").any() or len(frame.columns) > len(COLUMNS)
    )
