"""What two evaluations share: the same samples, and trainings of the same seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.evaluation.standing import labelled

ENOUGH = 50  # shared samples below which a bootstrap over them says little
_PLACES = "samples are known by their places alone, and taken for the same ones; give them names with ids= to be sure"


@dataclass(frozen=True)
class Shared:
    """The samples that two sets of ids have in common.

    Attributes:
        rows: positions of the shared samples in the one and in the other; None where they are taken for others.
        note: what to know about them; "" where both are of the same samples, by names of their own.
    """

    rows: tuple[np.ndarray, np.ndarray] | None
    note: str


def shared_ids(one: Sequence[str], other: Sequence[str]) -> Shared:
    """Find the samples that two runs share, by their ids.

    Args:
        one: ids.
        other: ids.

    Returns:
        All, where both are of the same samples in whatever order; the shared ones where these are at least 50; else
        none. Where an id occurs twice, nobody knows which sample is meant: none.

    Example:
        >>> shared_ids(["a", "b"], ["b", "a"]).rows[1].tolist()
        [1, 0]
        >>> shared_ids(["a", "b"], ["b", "c"]).note
        'only 1 of their samples is shared, fewer than 50: they are compared as if all were others'
    """
    if len(set(one)) < len(one) or len(set(other)) < len(other):
        return Shared(None, "ids occur more than once, so that their samples are compared as if all were others")
    place = {sample: row for row, sample in enumerate(other)}
    rows = [row for row, sample in enumerate(one) if sample in place]
    pair = np.array(rows, dtype=np.int64), np.array([place[one[row]] for row in rows], dtype=np.int64)
    count = len(rows)
    if count == len(one) == len(other):
        return Shared(pair, _PLACES if all(str(row) == sample for row, sample in enumerate(one)) else "")
    if count >= ENOUGH:
        return Shared(
            pair, f"differences are over the {count} samples that both have, of {len(one)} and {len(other)}"
        )
    if count:
        few = f"only {count} of their samples {'is' if count == 1 else 'are'} shared, fewer than {ENOUGH}"
        return Shared(None, f"{few}: they are compared as if all were others")
    return Shared(None, "they have no sample in common, so that they are compared as two sets of others")


def shared_samples(one: Result, other: Result) -> Shared:
    """Find the samples that two results share; the same ids with other labels are other samples."""
    found = shared_ids(one.ids, other.ids)
    if found.rows is None or not (labelled(one) and labelled(other)):
        return found
    labels, others = _labels(one, other)
    differ = int((labels[found.rows[0]] != others[found.rows[1]]).sum())
    if not differ:
        return Shared(found.rows, "") if found.note == _PLACES else found
    return Shared(
        None, f"{differ} samples have the same id but another label, so that they are taken for other samples"
    )


def _labels(*runs: Result) -> Iterator[np.ndarray]:
    """Yield their labels: as names where all know the same classes, which they may number in another order."""
    classes = [sorted(run.classes) for run in runs]
    named = all(
        known == classes[0] and len(set(known)) == len(known) > run.scores.labels.max()
        for known, run in zip(classes, runs, strict=True)
    )
    for run in runs:
        yield np.array(run.classes, dtype=object)[run.scores.labels] if named else run.scores.labels


def over(result: Result, rows: np.ndarray) -> Result:
    """Return the result over some of its samples, without what is not a score."""
    if len(rows) == result.n and (rows == np.arange(len(rows))).all():
        return result
    cut = {name: result.scores[name][..., rows] for name in READOUTS}
    own = {name: getattr(result.scores, name)[rows] for name in ("labels", "targets", "predicted")}
    return replace(
        result, ids=[result.ids[row] for row in rows], scores=replace(result.scores, **cut, **own), sheet=None
    )


def shared_trainings(one: Result, other: Result) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the positions of the trainings that share their seeds; None where fewer than two do."""
    if one.provenance.get("seed") != other.provenance.get("seed"):
        return None
    numbers, others = _numbers(one), _numbers(other)
    both = [number for number in numbers if number in others]
    if len(both) < 2:
        return None
    return np.array([numbers.index(number) for number in both]), np.array([others.index(number) for number in both])


def _numbers(result: Result) -> list[int]:
    """Which repeats a result holds: a sweep that is not complete may lack some."""
    stated = result.settings.get("repeats")
    if isinstance(stated, list) and len(stated) == result.repeats:
        return [int(number) for number in stated]
    return list(range(result.repeats))
