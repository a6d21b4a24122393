"""M15: how many images a strategy needs to put a known order right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.rng import numpy_generator
from roadworthy.statistics import spearman

_DRAWS = 400
_FEWEST = 5


def images_needed(scores: np.ndarray, quality: np.ndarray, *, seed: int, least: float = 0.9) -> float:
    """Halve the number of images as long as the order stays right.

    Args:
        scores: (M, N), higher is better.
        quality: (M,), the known order.
        seed: of the subsets drawn.
        least: correlation that 95 of 100 subsets must reach.

    Returns:
        The smallest number of N, N/2, N/4, ... that is enough; NaN if not even N is.

    Example:
        >>> images_needed(np.arange(3.0)[:, None] + np.zeros((3, 40)), np.arange(3), seed=0)
        5.0
    """
    count, enough = scores.shape[1], float("nan")
    size = count
    while size >= _FEWEST:
        generator = numpy_generator(seed, "selftest-power", size)
        # all images are drawn with replacement, so that the largest number has a spread too
        weights = generator.multinomial(size, np.full(count, 1 / count), size=_DRAWS)
        rho = spearman(weights @ scores.T, np.asarray(quality, dtype=float), axis=-1)
        if np.mean(np.nan_to_num(rho, nan=-1.0) >= least - 1e-12) < 0.95:
            break
        enough, size = float(size), size // 2
    return enough


def power(benches: Sequence[Bench], one: Contender, *, base: str = "truth") -> Trial:
    """M15: the number of images from which the permuted ladder comes out right, the worst of the seeds."""
    prefix = "" if base == "truth" else f"{base} "
    names = [base, *(f"{prefix}permuted {share:g}" for share in LEVELS[1:])]
    needed = [images_needed(bench.scores(one, names), -np.asarray(LEVELS), seed=bench.seed) for bench in benches]
    worst = float(np.max(needed))  # NaN where one seed has not enough
    return Trial(
        "M15" if not prefix else f"M15 {base}",
        one.name,
        worst,
        f"at most {benches[0].n} images",
        bool(worst <= benches[0].n),
        "" if worst == worst else f"{benches[0].n} images are too few to rank these maps",
        benches[0].n,
        tuple(bench.seed for bench in benches),
    )
