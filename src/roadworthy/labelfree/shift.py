"""How far a target is from the source, measured without labels, in five numbers."""

from __future__ import annotations

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.domain import description, drawn_rows, tell_apart
from roadworthy.labelfree.estimators.cot import OptimalTransport
from roadworthy.labelfree.outputs import Outputs

SHIFT_NAMES = ("confidence", "transport", "class shares", "domain", "distance")
TWO_SIDED = (True, False, False, False, False)  # less of the others than was ever seen is no worry

_ROWS = 1000
_NEIGHBOUR = 5
_FAR = 20.0  # standard deviations; a feature that was all but constant must not be the whole distance


def measure_shift(source: Outputs, target: Outputs, *, seed: int = 0) -> np.ndarray:
    """Measure how a target differs from the source.

    Args:
        source: labelled samples; their labels give the class shares.
        target: the others; labels are not read.
        seed: for draws of rows.

    Returns:
        float64 (5,), named by ``SHIFT_NAMES``: the fall of mean confidence; the cost of moving the probabilities to
        the source's class shares (one minus the ``cot`` estimate); the total variation between the shares of
        predicted classes; the area under the curve of a cross-fitted classifier of source and target; and the mean
        log distance to the fifth nearest source sample, less that of source samples from each other. Without
        features the last two use log probabilities.

    Raises:
        InputError: source and target differ in their classes or features, or one holds fewer than two samples.

    Example:
        >>> near = Outputs.of([0.1, 0.9] * 20, labels=[0, 1] * 20)
        >>> far = Outputs.of([0.4, 0.6] * 20)
        >>> dict(zip(SHIFT_NAMES, measure_shift(near, far).round(2).tolist()))["confidence"]
        0.3
    """
    _same_kind(source, target)
    shares = [np.bincount(part.predicted, minlength=part.class_count) / len(part) for part in (source, target)]
    return np.array(
        [
            float(source.confidence.mean() - target.confidence.mean()),
            1 - OptimalTransport().fit(source, seed=seed).estimate(target).accuracy,
            float(np.abs(shares[0] - shares[1]).sum() / 2),
            tell_apart(source, target, seed=seed).auc,
            _distance(source, target, seed),
        ]
    )


def _same_kind(source: Outputs, target: Outputs) -> None:
    if source.class_count != target.class_count:
        raise InputError(f"target: got {target.class_count} classes, the source has {source.class_count}")
    widths = [None if part.features is None else part.features.shape[1] for part in (source, target)]
    if widths[0] != widths[1]:
        raise InputError(
            f"target: got features of width {widths[1]}, the source has {widths[0]} (None: no features); pass the "
            "same features for both"
        )
    if min(len(source), len(target)) < 2:
        raise InputError(f"target: got {len(target)} samples, the source has {len(source)}; expected at least 2 each")


def _distance(source: Outputs, target: Outputs, seed: int) -> float:
    from sklearn.neighbors import NearestNeighbors

    own = description(source)[drawn_rows(source, _ROWS, seed=seed, purpose="distance source")]
    other = description(target)[drawn_rows(target, _ROWS, seed=seed, purpose="distance target")]
    mean, spread = own.mean(axis=0), own.std(axis=0)
    kept = spread > 0
    own = ((own - mean) / np.where(kept, spread, 1))[:, kept]
    other = np.clip(((other - mean) / np.where(kept, spread, 1))[:, kept], -_FAR, _FAR)
    if not kept.any():
        return 0.0
    order = min(_NEIGHBOUR, len(own) - 1)
    nearest = NearestNeighbors(n_neighbors=order + 1).fit(own)
    within = nearest.kneighbors(own)[0][:, order]  # the nearest to a source sample is itself
    across = nearest.kneighbors(other)[0][:, order - 1]
    floor = max(float(np.median(within)) * 1e-3, 1e-9)  # repeated samples lie at distance 0
    return float(np.log(np.maximum(across, floor)).mean() - np.log(np.maximum(within, floor)).mean())
