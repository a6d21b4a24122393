"""A logistic regression fitted on some rows of features and scored by rank on the others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.errors import InputError, RoadworthyWarning, listed
from roadworthy.probe.classifier import LogisticClassifier, fit_classifier, row_hashes
from roadworthy.probe.features import Features, read_features
from roadworthy.probe.parting import Order, Parting, part_rows
from roadworthy.probe.ranks import RankK, rank_k
from roadworthy.probe.scores import Scores
from roadworthy.types import Normalize, Output, Progress, Seed


@dataclass(frozen=True, eq=False)
class Probe:
    """What a classifier on features reached on rows that it was not fitted on.

    Attributes:
        rank: accuracy by k on the scored rows.
        classifier: the fitted classifier.
        parting: the rows of both parts.
        scores: what the classifier said of the scored rows.
        seed: of the parting and of the folds.
        notes: what the reader should know, those of ``rank`` among it.
    """

    rank: RankK
    classifier: LogisticClassifier
    parting: Parting
    scores: Scores
    seed: int
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold: how it was fitted, and the accuracy; no scores."""
        names = self.classifier.label_names
        return {
            **self.rank.as_dict(),
            "notes": list(self.notes),
            "fitted": {
                "rows": len(self.parting.train),
                "features": int(self.classifier.weight.shape[1]),
                "order": self.parting.order,
                "train_share": self.parting.share,
                "standardised": self.classifier.standardised,
                "c": self.classifier.c,
                "accuracy_by_c": [list(entry) for entry in self.classifier.tried],
                "absent": [names[label] for label in range(len(names)) if label not in self.classifier.present],
                "seed": self.seed,
            },
        }


def probe_features(
    features: Features | str | Path | np.ndarray,
    labels: Any = None,
    *,
    label_names: Sequence[str] = (),
    k: int | Sequence[int] | None = None,
    train_share: float = 0.75,
    order: Order = "file",
    standardise: bool = True,
    c: float | Literal["cross-validated"] = 1.0,
    level: float = 0.95,
    seed: Seed = 0,
) -> Probe:
    """Fit a logistic regression on the first three quarters of the rows and score it by rank on the rest.

    Args:
        features: a file of features, what :func:`read_features` returned, or an array (N, D).
        labels: (N,) of an array.
        label_names: C class names of an array.
        k: one or several; see :func:`rank_k`.
        train_share: of the rows to fit on, in (0, 1).
        order: ``"file"``: the first rows; ``"stratified"``: rows of every class, drawn by the seed.
        standardise: bring each feature to mean 0 and standard deviation 1 of the rows to fit on.
        c: inverse strength of the penalty, or ``"cross-validated"``, on the rows to fit on alone.
        level: coverage of the intervals.
        seed: of the draws.

    Returns:
        The accuracy by rank, the classifier, and which classes were absent from either part.

    Raises:
        InputError: features, labels or settings that cannot be used.
        DataError: a file that cannot be read.

    Warns:
        RoadworthyWarning: scored rows are of classes that never occur among the rows to fit on, as where a file is
            sorted by class.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(3, size=200)
        >>> found = probe_features(rng.normal(size=(200, 4)) + 3 * np.eye(3, 4)[y], y, k=(1, 2))
        >>> found.rank.n, bool(found.rank.accuracy[0] > 0.8)
        (50, True)
    """
    from roadworthy.rng import resolve_seed

    number = resolve_seed(seed)
    held = _features(features, labels, label_names)
    parting = part_rows(held.labels, len(held.label_names), share=train_share, order=order, seed=number)
    notes = _notes(parting, held)
    fitted = fit_classifier(
        held.take(parting.train),
        held.labels[parting.train],
        held.label_names,
        c=c,
        standardise=standardise,
        seed=number,
    )
    for note in notes:
        warnings.warn(note, RoadworthyWarning, stacklevel=2)
    scores = _scored(fitted, held, parting.test)
    rank = rank_k(scores.scores, scores.labels, k=k, level=level, label_names=held.label_names)
    said = (*notes, *([fitted.note] if fitted.note else []), *rank.notes)
    return Probe(rank, fitted, parting, scores, number, said)


def score_features(classifier: LogisticClassifier, features: Features | str | Path) -> Scores:
    """Score all rows of other features with a classifier that was fitted before.

    Args:
        classifier: from :func:`load_classifier` or a :class:`Probe`.
        features: a file of features, or what :func:`read_features` returned; of the same classes, in any order.

    Returns:
        The scores, in the classes of the classifier.

    Raises:
        InputError: classes that the classifier does not know, or another number of features.

    Warns:
        RoadworthyWarning: some rows are, to the bit, among those that the classifier was fitted on.
    """
    held = _features(features, None, ())
    names = {name: place for place, name in enumerate(classifier.label_names)}
    unknown = [name for name in held.label_names if name not in names]
    if unknown:
        raise InputError(
            f"label_names: the classifier knows no class {listed(unknown)}; it knows {listed(classifier.label_names)}"
        )
    scores = classifier.score_rows(held, np.arange(len(held)))
    again = sum(int(np.isin(row_hashes(block), classifier.seen).sum()) for _, block in held.blocks())
    notes: tuple[str, ...] = ()
    if again:
        notes = (
            f"{again} of {len(held)} rows are among those that the classifier was fitted on, so their ranks are "
            "better than those of new samples; score other rows",
        )
        warnings.warn(notes[0], RoadworthyWarning, stacklevel=2)
    labels = np.array([names[name] for name in held.label_names])[held.labels]
    return Scores(scores, labels, classifier.label_names, held.ids, notes)


def model_scores(
    model: Callable[..., Any],
    split: Any,
    *,
    label_names: Sequence[str] = (),
    normalize: Normalize | None = None,
    output: Output = None,
    device: Any = None,
    max_batch: int = 256,
    progress: Progress | None = None,
) -> Scores:
    """Ask a model about a split, for :func:`rank_k`.

    Args:
        model: a module or callable from images to class scores.
        split: samples with their classes, such as ``load_data("digits").test``.
        label_names: class names; numbers by default.
        normalize: ``(mean, std)`` per channel, applied before the model.
        output: how to pick the class scores from what the model returns.
        device: for a callable without parameters.
        max_batch: samples in one pass.
        progress: called with the number of samples done.

    Returns:
        Logits, labels and ids.
    """
    from roadworthy.forward import Classifier
    from roadworthy.model.predict import predict

    asked = Classifier(model, normalize=normalize, output=output, device=device, max_batch=max_batch)
    said = predict(asked, split, progress=progress)
    logits = said.logits.numpy()
    names = tuple(map(str, label_names)) or tuple(map(str, range(logits.shape[1])))
    return Scores.of(logits, said.labels.numpy(), label_names=names, ids=said.ids)


def _features(features: Any, labels: Any, label_names: Sequence[str]) -> Features:
    in_memory = not isinstance(features, (Features, str, Path))
    if in_memory:
        if labels is None:
            raise InputError("labels: an array of features came without the classes of its rows; pass labels=")
        return Features.of(features, labels, label_names)
    if labels is not None or len(label_names):
        raise InputError("labels, label_names: a file of features brings its own; leave these out")
    return features if isinstance(features, Features) else read_features(features)


def _scored(classifier: LogisticClassifier, features: Features, rows: np.ndarray) -> Scores:
    ids = features.ids
    chosen = tuple(ids[row] for row in rows.tolist())
    return Scores(classifier.score_rows(features, rows), features.labels[rows], features.label_names, chosen)


def _notes(parting: Parting, features: Features) -> tuple[str, ...]:
    if not parting.unseen:
        return ()
    names = [features.label_names[label] for label in parting.unseen]
    rows = int(np.isin(features.labels[parting.test], parting.unseen).sum())
    why = "the rows are sorted by class, and " if parting.is_sorted else ""
    way_out = "; pass order='stratified' (--order stratified)" if parting.order == "file" else ""
    first = "first " if parting.order == "file" else ""
    return (
        f"{why}{len(names)} of {len(features.label_names)} classes ({listed(names, 5)}) never occur among the {first}"
        f"{len(parting.train)} rows that the classifier is fitted on, so it cannot answer them; {rows} of "
        f"{len(parting.test)} scored rows are of these classes{way_out}",
    )
