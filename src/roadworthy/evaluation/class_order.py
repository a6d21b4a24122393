"""Do the labels number the classes in another order than the model? Told from its answers, without names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LEAST = 0.8  # share of the answers that the renaming must explain, on samples it was not found from
GAIN = 0.1  # and by how much it must beat the labels as they are
_SHOWN = 4


@dataclass(frozen=True)
class Renaming:
    """Another class for each label, by which the answers follow from the labels.

    Attributes:
        accuracy: share of the answers it gives, each found from the other half of the samples.
        classes: the class that the model answers for each label present.
    """

    accuracy: float
    classes: dict[int, int]

    def __str__(self) -> str:
        moved = [f"{label} as {answer}" for label, answer in self.classes.items() if label != answer]
        more = f", ... ({len(moved)} in all)" if len(moved) > _SHOWN else ""
        return (
            "of the answers follow from the labels if classes are renamed (label "
            f"{', '.join(moved[:_SHOWN])}{more}): labels and model seem to number the classes in different orders, "
            "for instance folders by name and the model as it was trained. Bring the labels into the model's order; "
            "for a folder list the names in that order in classes.json"
        )


def class_order(labels: np.ndarray, predicted: np.ndarray) -> Renaming | None:
    """Look for one answer to every label, each another, that explains the answers far better than the labels.

    The renaming is the best assignment (Hungarian method) on every second sample of a class and is judged on the
    others, and the other way round, so that many classes with few samples do not fit by luck.

    Args:
        labels: int (n,).
        predicted: int (n,).

    Returns:
        The renaming; None where the labels fit as they are, where no renaming helps, or where fewer than four samples
        a class, or one class alone, cannot show it.

    Example:
        >>> labels = np.arange(60) % 3
        >>> class_order(labels, np.array([2, 0, 1])[labels]).classes
        {0: 2, 1: 0, 2: 1}
        >>> class_order(labels, labels) is None
        True
    """
    given = float((labels == predicted).mean())
    kinds, rows, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if given > 1 - GAIN or len(kinds) < 2 or np.median(counts) < 4:
        return None
    answers, columns = np.unique(predicted, return_inverse=True)
    if len(answers) < 2:
        return None
    half = _turn(rows, len(kinds))
    hits = 0
    for part in (0, 1):
        found = _assigned(rows[half == part], columns[half == part], len(kinds), len(answers))
        hits += int((found[rows[half != part]] == columns[half != part]).sum())
    accuracy = hits / len(labels)
    if accuracy < LEAST or accuracy < given + GAIN:
        return None
    whole = _assigned(rows, columns, len(kinds), len(answers))
    pairs = zip(kinds.tolist(), whole.tolist(), strict=True)
    return Renaming(accuracy, {label: int(answers[answer]) for label, answer in pairs if answer >= 0})


def _turn(rows: np.ndarray, count: int) -> np.ndarray:
    """Return 0 and 1 by turns within each class."""
    turn = np.empty(len(rows), dtype=np.int64)
    for row in range(count):
        members = np.flatnonzero(rows == row)
        turn[members] = np.arange(len(members)) % 2
    return turn


def _assigned(rows: np.ndarray, columns: np.ndarray, labels: int, answers: int) -> np.ndarray:
    """Return the answer (a column) assigned to every label (a row); -1 where there are too few answers."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((labels, answers))
    np.add.at(table, (rows, columns), 1)
    found = np.full(labels, -1)
    row, column = linear_sum_assignment(table, maximize=True)
    found[row] = column
    return found
