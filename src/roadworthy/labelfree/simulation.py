"""Two classes in the plane whose wild samples have moved: the simulation that pseudo-label discrepancy came with.

Described by Kiyasseh et al. (2024). It shows what the method does where the truth is known, and where it goes wrong:
with the positive class moved onto or past the negative one, discrepancy is as large as ever and its sign is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roadworthy.errors import unknown_name
from roadworthy.labelfree.outputs import Outputs
from roadworthy.rng import numpy_generator, resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed

_SOURCE = ((1.0, 1.0), (2.0, 2.0))
_WILD = ((2.0, -1.0), (3.0, 0.0))
_THIRD = (3.0, -1.0)
_MOVED = {"moved-onto": (2.0, -1.0), "moved-past": (1.0, -2.0), "moved-far-past": (0.0, -3.0)}

VARIANTS = ("base", "third-class", "imbalance", *_MOVED)


def simulate(variant: str = "base", *, seed: Seed = 0) -> tuple[Outputs, Outputs, Outputs]:
    """Draw source and wild samples, and fit the classifier that scores them.

    Args:
        variant: ``"base"``; ``"third-class"``, 1,000 wild samples of a class that the source has not, counted as
            negative; ``"imbalance"``, eight negatives to a positive among the wild; ``"moved-onto"``,
            ``"moved-past"``, ``"moved-far-past"``, wild positives at or beyond the negatives.
        seed: seed or generator.

    Returns:
        ``(train, test, wild)``: 1,000, 400 and 2,000 (1,125 with imbalance, 3,000 with a third class) samples with
        their two coordinates as features and their true classes, and what a logistic regression says of them.

    Raises:
        InputError: an unknown variant.

    Example:
        >>> [len(part) for part in simulate("imbalance")]
        [1000, 400, 1125]
    """
    from sklearn.linear_model import LogisticRegression

    if variant not in VARIANTS:
        raise unknown_name("variant", variant, VARIANTS)
    generator = numpy_generator(resolve_seed(seed), "simulation")

    def gaussians(means: tuple[tuple[float, float], ...], variance: float, sizes: tuple[int, ...]) -> np.ndarray:
        parts = [
            np.array(mean) + np.sqrt(variance) * generator.standard_normal((n, 2))
            for mean, n in zip(means, sizes, strict=True)
        ]
        return np.concatenate(parts)

    positives = _MOVED.get(variant, _WILD[1])
    means: tuple[tuple[float, float], ...] = (_WILD[0], positives)
    sizes: tuple[int, ...] = (1000, 125 if variant == "imbalance" else 1000)
    if variant == "third-class":
        means, sizes = (*means, _THIRD), (*sizes, 1000)
    train, test = gaussians(_SOURCE, 0.8, (500, 500)), gaussians(_SOURCE, 0.1, (200, 200))
    wild = gaussians(means, 1.0, sizes)
    model = LogisticRegression(max_iter=1000).fit(train, np.repeat([0, 1], 500))
    labels = (np.repeat([0, 1], 500), np.repeat([0, 1], 200), np.repeat([0, 1, 0][: len(sizes)], sizes))
    said = [
        Outputs.of(model.predict_proba(values), features=values, labels=truth)
        for values, truth in zip((train, test, wild), labels, strict=True)
    ]
    return said[0], said[1], said[2]
