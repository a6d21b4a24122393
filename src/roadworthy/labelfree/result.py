"""What label-free evaluation found: one record of plain values, a table of the samples, and a few pictures."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadworthy.errors import DataError, InputError, RoadworthyWarning, listed
from roadworthy.files import write_together
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.saved import read_outputs, write_outputs

if TYPE_CHECKING:
    from roadworthy.labelfree.labelling import AuditPlan

FORMAT = 1
HEAD, SAMPLES, TARGET, PICTURES, PLAN = "labelfree.json", "samples.parquet", "target.npz", "pictures.npz", "plan.csv"
_KEYS = (
    *("n", "classes", "predicted", "truth", "source", "estimate", "estimates", "validation", "consistency", "curve"),
    *("described", "clusters", "threshold", "gates", "diagnosis", "discrepancy", "notes", "plan", "settings"),
)
_PICTURE_BYTES = 2**28  # many times what is kept; a file that claims more is not one


@dataclass(frozen=True, eq=False)
class Pictures:
    """A few samples as pictures, with what perturbation made of them.

    Attributes:
        ids: R names.
        band: R words: "high", "middle" or "low" confidence.
        clean: uint8 (R, C, H, W).
        perturbed: uint8 (R, P, C, H, W); P is 0 where nothing was perturbed.
    """

    ids: tuple[str, ...]
    band: tuple[str, ...]
    clean: np.ndarray
    perturbed: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class LabelFree:
    """How far a classifier can be believed on samples without labels. Made by :func:`roadworthy.labelfree`.

    Attributes:
        record: all findings as plain values (JSON); see the keys in :meth:`as_dict`.
        per_sample: a row a sample: ``id``, ``predicted``, ``confidence``, and where perturbed ``agreement``,
            ``soft_agreement``, ``mode_share``, ``entropy``, ``variance``.
        target: what the classifier says of the samples, without labels.
        plan: which samples to label to check the estimate.
        pictures: a few samples as pictures, or None.
    """

    record: dict[str, Any]
    per_sample: pd.DataFrame
    target: Outputs = field(repr=False)
    plan: AuditPlan | None = field(default=None, repr=False)
    pictures: Pictures | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        value, low, high = self.accuracy
        return f"LabelFree(n={self.n}, accuracy={value:.3f} ({low:.3f} to {high:.3f}))"

    def _repr_html_(self) -> str:
        from roadworthy.labelfree.notebook import card_of

        return card_of(self)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.per_sample)

    @property
    def accuracy(self) -> tuple[float, float, float]:
        """The estimate of accuracy and its interval (value, low, high); NaN where no number can be given."""
        live = self.record["estimate"]
        if live is None:
            return float("nan"), float("nan"), float("nan")
        value, low, high = (float("nan") if live[key] is None else live[key] for key in ("accuracy", "low", "high"))
        return value, low, high

    @property
    def estimates(self) -> pd.DataFrame:
        """A row for every estimator: its estimate, and the errors it made in self-validation."""
        rows = self.record["estimates"]
        columns = ["estimator", "accuracy", "mae", "bias", "worst", "chosen", "note"]
        return pd.DataFrame([{key: row[key] for key in columns} for row in rows], columns=columns)

    @property
    def gates(self) -> pd.DataFrame:
        """A row for every gate: name, status (pass, warn, refuse), value, interval, rule and sentence."""
        return pd.DataFrame(self.record["gates"])

    @property
    def warnings(self) -> list[str]:
        """What to know when reading the rest."""
        return list(self.record["notes"])

    @property
    def verdict(self) -> list[str]:
        """The findings in sentences: how accurate, how far to trust it, what to do."""
        from roadworthy.labelfree.verdict import sentences

        return [sentence.text for sentence in sentences(self.record)]

    def as_dict(self) -> dict[str, Any]:
        """Return the findings for JSON, with the verdict.

        Keys: ``n``, ``classes``, ``truth`` (accuracy by labels that came along; nothing else uses it), ``source``,
        ``estimate``, ``estimates``, ``validation``, ``consistency``, ``curve``, ``described``, ``clusters``,
        ``threshold``, ``gates``, ``diagnosis``, ``discrepancy``, ``plan``, ``audit``, ``settings``, ``provenance``,
        ``notes``, ``verdict``.
        """
        return {**self.record, "verdict": self.verdict}

    def to_json(self) -> str:
        """Return :meth:`as_dict` as text."""
        return json.dumps(self.as_dict(), indent=1)

    def save(self, folder: str | Path) -> Path:
        """Write everything into a folder; an earlier result there lasts until all of this is written.

        The files are then moved one by one: killed within that moment, the folder has no head and is not read.

        Files: ``labelfree.json``, ``samples.parquet``, ``target.npz`` (what the classifier says of the samples),
        ``plan.csv`` (which samples to label; a plan that lies there with labels is left alone), ``pictures.npz``.

        Raises:
            InputError: the folder is a file.
        """
        place = Path(folder).expanduser()
        if place.exists() and not place.is_dir():
            raise InputError(f"save: {place} is a file, expected a folder")
        place.mkdir(parents=True, exist_ok=True)
        files: dict[str, Callable[[Path], Any]] = {
            SAMPLES: lambda file: self.per_sample.to_parquet(file, index=False),
            TARGET: lambda file: write_outputs(self.target, file),
        }
        if self.pictures is not None:
            held: dict[str, Any] = {
                name: np.array(getattr(self.pictures, name)) for name in ("ids", "band", "clean", "perturbed")
            }
            files[PICTURES] = lambda file: np.savez_compressed(file, **held)
        head = json.dumps({"format": FORMAT, **self.record}, indent=1)
        files[HEAD] = lambda file: file.write_text(head, encoding="utf8")
        write_together(place, files, head=HEAD, optional=(PICTURES,))
        if self.plan is not None:
            self.plan.save(place / PLAN)
        return place


def load_labelfree(folder: str | Path) -> LabelFree:
    """Read what :meth:`LabelFree.save` wrote.

    Args:
        folder: where it lies.

    Returns:
        The result; the plan is read from ``plan.csv`` if that is there.

    Raises:
        DataError: nothing readable lies there.

    Example:
        >>> load_labelfree("runs/wards").verdict[0]  # doctest: +SKIP
        'On these 1,000 samples ...'
    """
    from roadworthy.labelfree.labelling import load_plan

    place = Path(folder).expanduser()
    if not (place / HEAD).is_file():
        raise DataError(f"{place}: no label-free result lies here ({HEAD} is missing); give the folder a run wrote")
    try:
        record = json.loads((place / HEAD).read_text(encoding="utf8"))
        version = record.pop("format") if isinstance(record, dict) else None
        if version != FORMAT:
            raise DataError(f"{place / HEAD}: format {version!r}, expected {FORMAT}; run the evaluation again")
        per_sample = pd.read_parquet(place / SAMPLES)
        pictures = _read_pictures(place / PICTURES) if (place / PICTURES).exists() else None
        names = per_sample["id"].tolist()
        missing = [name for name in _KEYS if name not in record]
        if missing:
            raise DataError(f"{place / HEAD}: holds no {listed(missing)}; run the evaluation again")
    except DataError:
        raise
    except (OSError, ValueError, KeyError, RecursionError, zipfile.BadZipFile) as error:
        raise DataError(f"{place}: the result cannot be read ({error}); run the evaluation again") from error
    target = read_outputs(place / TARGET)
    if list(target.ids) != names:
        raise DataError(f"{place}: {TARGET} and {SAMPLES} are of different samples; run the evaluation again")
    plan = load_plan(place / PLAN) if (place / PLAN).exists() else None
    return LabelFree(record, per_sample, target, plan, pictures)


def audited(result: LabelFree, plan: AuditPlan, *, partial: bool = False) -> LabelFree:
    """Hold a result against labels that people gave the samples of its plan.

    Args:
        result: the result.
        plan: its plan, read again with labels filled in (:func:`~roadworthy.labelfree.labelling.load_plan`).
        partial: go on although some labels are missing; those that are there must be the first ones of the plan.

    Returns:
        The result with ``audit``: what the labels alone and combined with the confidences say, and whether that
        confirms or refutes what was estimated without them. A diagnosis names a disagreement.

    Raises:
        InputError: missing or unknown labels, samples that are not the result's.

    Warns:
        RoadworthyWarning: the plan is not the one that this result drew.

    Example:
        >>> audited(found, load_plan("runs/wards/plan.csv")).record["audit"]["verdict"]  # doctest: +SKIP
        'confirmed'
    """
    from roadworthy.labelfree.diagnosis import with_audit
    from roadworthy.labelfree.labelling import audit_estimate, verdict

    own = result.record["plan"]
    if own and set(own["ids"]) != set(plan.ids):
        warnings.warn(
            "plan: it is not the one that this result drew, so it may have been drawn from other samples of the same "
            "names; its labels say nothing then",
            RoadworthyWarning,
            stacklevel=2,
        )
    found = audit_estimate(plan, None, result.target, level=result.record["settings"]["level"], partial=partial)
    _, low, high = result.accuracy
    audit = {"estimate": found.as_dict(), "verdict": verdict(found, low, high)}
    diagnosis = result.record["diagnosis"]
    if diagnosis is not None:
        claim = None if np.isnan(low) else (low, high)
        diagnosis = with_audit(diagnosis, (found.combined.low, found.combined.high), claim)
    return replace(result, record={**result.record, "audit": audit, "diagnosis": diagnosis}, plan=plan)


def _read_pictures(path: Path) -> Pictures:
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
    if size > _PICTURE_BYTES:
        raise DataError(f"{path}: claims {size} bytes, more than pictures of a result take; run the evaluation again")
    with np.load(path, allow_pickle=False) as held:
        return Pictures(tuple(held["ids"].tolist()), tuple(held["band"].tolist()), held["clean"], held["perturbed"])
