"""Multinomial logistic regression on features, kept without pickle: what it answers is plain arithmetic on arrays."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.files import replacing
from roadworthy.probe.features import Features
from roadworthy.rng import derive

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2)
"""Values of C that cross-validation chooses from."""
_FOLDS = 5
_STEPS = 1000  # of the optimiser
_ABOUT = "roadworthy"
_ARRAYS = ("weight", "bias", "mean", "scale", "present", "seen")


@dataclass(frozen=True, eq=False)
class LogisticClassifier:
    """A fitted classifier: scores are ``(x - mean) / scale @ weight.T + bias``, one for each class.

    Attributes:
        weight: float64 (P, D), a row for each class that occurred in training.
        bias: float64 (P,).
        mean: float64 (D,), taken from each feature; zeros if features were not standardised.
        scale: float64 (D,), that each feature is divided by; ones likewise, and where a feature was constant.
        present: int64 (P,), positions of these classes in ``label_names``.
        seen: uint64, ascending hashes of the rows that it was fitted on, to know these again.
        label_names: C class names.
        c: inverse strength of the penalty, scikit-learn's C.
        standardised: whether mean and scale are those of the training rows.
        tried: accuracy on left-out folds by C, where C was chosen so.
        note: why the fit is not to be relied on, or empty.
    """

    weight: np.ndarray
    bias: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    present: np.ndarray
    seen: np.ndarray
    label_names: tuple[str, ...]
    c: float
    standardised: bool
    tried: tuple[tuple[float, float], ...] = ()
    note: str = ""

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Return float64 (N, C), logits; minus infinity for classes that never occurred in training.

        Args:
            features: (N, D), finite.

        Raises:
            InputError: another number of features.
        """
        if features.ndim != 2 or features.shape[1] != self.weight.shape[1]:
            raise InputError(
                f"features: got shape {features.shape}, expected (N, {self.weight.shape[1]}), as the classifier was "
                "fitted on"
            )
        found = np.full((len(features), len(self.label_names)), -np.inf)
        found[:, self.present] = (features - self.mean) / self.scale @ self.weight.T + self.bias
        return found

    def score_rows(self, features: Features, rows: np.ndarray) -> np.ndarray:
        """Return the scores of some rows, float64 (n, C), read in blocks.

        Args:
            features: where the rows are.
            rows: ascending positions.
        """
        found = np.empty((len(rows), len(self.label_names)))
        for start, block in features.blocks():
            first, last = np.searchsorted(rows, (start, start + len(block)))
            if last > first:
                found[first:last] = self.scores(block[rows[first:last] - start])
        return found

    def save(self, path: str | Path) -> Path:
        """Write the classifier as safetensors; :func:`load_classifier` gives bit-equal scores.

        Raises:
            InputError: another ending than ``.safetensors``.
        """
        from safetensors.numpy import save

        place = Path(path).expanduser()
        if place.suffix != ".safetensors":
            raise InputError(f"{place}: expected a name that ends in .safetensors")
        about = {
            "label_names": self.label_names,
            "c": self.c,
            "standardised": self.standardised,
            "tried": self.tried,
            "note": self.note,
        }
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        with replacing(place) as beside:
            beside.write_bytes(save(arrays, metadata={_ABOUT: json.dumps(about)}))
        return place


def load_classifier(path: str | Path) -> LogisticClassifier:
    """Read what :meth:`LogisticClassifier.save` wrote.

    Raises:
        DataError: no such file, or one that holds no such classifier.
    """
    from safetensors import SafetensorError, safe_open

    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(
            f"{place}: {'not a file' if place.exists() else 'no such file'}; expected a .safetensors file"
        )
    try:
        with safe_open(place, framework="np") as file:
            about = json.loads((file.metadata() or {})[_ABOUT])
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
        found = LogisticClassifier(
            **arrays,
            label_names=tuple(map(str, about["label_names"])),
            c=float(about["c"]),
            standardised=bool(about["standardised"]),
            tried=tuple((float(c), float(share)) for c, share in about["tried"]),
            note=str(about["note"]),
        )
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{place}: holds no classifier that 'roadworthy rank-k' wrote ({error})") from error
    _check(place, found)
    return found


def _check(place: Path, found: LogisticClassifier) -> None:
    count, dimension = found.weight.shape if found.weight.ndim == 2 else (-1, -1)
    shapes = {"bias": (count,), "mean": (dimension,), "scale": (dimension,), "present": (count,)}
    wrong = [name for name, shape in shapes.items() if getattr(found, name).shape != shape]
    wrong += [] if found.seen.dtype == np.uint64 and found.seen.ndim == 1 else ["seen"]
    inside = found.present.dtype.kind == "i" and set(found.present.tolist()) <= set(range(len(found.label_names)))
    if wrong or not inside:
        raise DataError(
            f"{place}: the classifier's {', '.join(wrong) or 'classes'} do not fit the rest; fit it again"
        )


def fit_classifier(
    features: np.ndarray,
    labels: np.ndarray,
    label_names: Sequence[str],
    *,
    c: float | Literal["cross-validated"] = 1.0,
    standardise: bool = True,
    seed: int = 0,
) -> LogisticClassifier:
    """Fit a logistic regression with an L2 penalty (scikit-learn, L-BFGS), on these rows alone.

    Args:
        features: (N, D), finite.
        labels: int64 (N,), positions in ``label_names``.
        label_names: C class names; not all need to occur.
        c: inverse strength of the penalty, above 0; or ``"cross-validated"``: the one of :data:`STRENGTHS` with the
            highest rank-1 accuracy on folds left out (5, or as many as the rarest class has rows, at least 2,
            stratified and shuffled by the seed); the smallest of equals.
        standardise: bring each feature to mean 0 and standard deviation 1 of these rows first.
        seed: of the folds.

    Returns:
        The classifier.

    Raises:
        InputError: a C that cannot be used, or rows of a single class.

    Example:
        >>> x = np.array([[0.0], [0.2], [0.9], [1.1]])
        >>> fitted = fit_classifier(x, np.array([0, 0, 1, 1]), ["low", "high"])
        >>> fitted.scores(x).argmax(axis=1).tolist()
        [0, 0, 1, 1]
    """
    tried: tuple[tuple[float, float], ...] = ()
    values = np.asarray(features, dtype=np.float64)
    if len(np.unique(labels)) < 2:
        raise InputError(
            f"labels: the rows to fit on are all of the class {label_names[int(labels[0])]!r}; if the file is sorted "
            "by class, pass order='stratified' (--order stratified)"
        )
    if c == "cross-validated":
        tried = _cross_validated(values, labels, len(label_names), standardise, seed)
        c = max(tried, key=lambda entry: entry[1])[0]
    if isinstance(c, (bool, str)) or not 0 < c < np.inf:
        raise InputError(f"c: got {c!r}, expected a number above 0, or 'cross-validated'")
    weight, bias, mean, scale, present, note = _fitted(values, labels, float(c), standardise)
    if note:
        warnings.warn(note, RoadworthyWarning, stacklevel=2)
    names = tuple(map(str, label_names))
    seen = np.unique(row_hashes(features))
    return LogisticClassifier(weight, bias, mean, scale, present, seen, names, float(c), standardise, tried, note)


def row_hashes(features: np.ndarray) -> np.ndarray:
    """Hash each row of features, as float32, to uint64 (N,); rows of equal values have equal hashes.

    Example:
        >>> found = row_hashes(np.array([[0.5, 1.0], [2.0, 3.0], [0.5, 1.0]]))
        >>> bool(found[0] == found[2] != found[1])
        True
    """
    rows = np.ascontiguousarray(features, dtype=np.float32) + 0.0  # minus zero is zero
    digests = b"".join(hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def _fitted(values: np.ndarray, labels: np.ndarray, c: float, standardise: bool) -> tuple[Any, ...]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    mean, scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
    if standardise:
        mean, scale = values.mean(axis=0), values.std(axis=0)
        scale[values.min(axis=0) == values.max(axis=0)] = 1
    model = LogisticRegression(C=c, max_iter=_STEPS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit((values - mean) / scale, labels)
    weight, bias = model.coef_, model.intercept_
    if len(weight) == 1:  # of two classes only the second has a row
        weight, bias = np.vstack([np.zeros_like(weight), weight]), np.concatenate([[0.0], bias])
    stopped = any(issubclass(entry.category, ConvergenceWarning) for entry in caught)
    way_out = "pass a smaller c" if standardise else "standardise the features, or pass a smaller c"
    note = f"the classifier was still changing after {_STEPS} steps; {way_out}" if stopped else ""
    return weight, bias, mean, scale, model.classes_.astype(np.int64), note


def _cross_validated(
    values: np.ndarray, labels: np.ndarray, class_count: int, standardise: bool, seed: int
) -> tuple[tuple[float, float], ...]:
    from sklearn.model_selection import StratifiedKFold

    counts = np.bincount(labels, minlength=class_count)
    folds = int(min(_FOLDS, max(2, counts[counts > 0].min())))
    if counts.max() < folds:
        raise InputError("c: every class has a single row, so there is nothing to cross-validate on; pass a number")
    state = derive(seed, "rank-k folds") % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class with fewer rows than folds misses some of them
        parts = list(StratifiedKFold(folds, shuffle=True, random_state=state).split(values, labels))
    found = []
    for c in STRENGTHS:
        hits = 0
        for fitted, left in parts:
            weight, bias, mean, scale, present, _ = _fitted(values[fitted], labels[fitted], c, standardise)
            answers = present[((values[left] - mean) / scale @ weight.T + bias).argmax(axis=1)]
            hits += int((answers == labels[left]).sum())
        found.append((c, hits / len(labels)))
    return tuple(found)
