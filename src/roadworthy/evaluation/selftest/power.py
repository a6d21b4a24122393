"""M15: how many images a strategy needs to put a known order right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.rng import numpy_generator
from roadworthy.statistics import rank_methods, spearman

_DRAWS = 400
_FEWEST = 5
_RANKED = 2000  # draws of a ranking


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
    """M15: the number of images from which the permuted ladder comes out right, the worst of the seeds.

    With fewer images the product must refuse: in draws of half as many (of all of them, where even these are too few)
    its ranking may not tell any two steps apart.
    """
    prefix = "" if base == "truth" else f"{base} "
    names = [base, *(f"{prefix}permuted {share:g}" for share in LEVELS[1:])]
    scores = [bench.scores(one, names) for bench in benches]
    needed = [
        images_needed(each, -np.asarray(LEVELS), seed=bench.seed) for each, bench in zip(scores, benches, strict=True)
    ]
    worst = float(np.max(needed))  # NaN where one seed has not enough
    fewer = [bench.n if each != each else int(each) // 2 for each, bench in zip(needed, benches, strict=True)]
    silent = float(
        np.mean(
            [refused(each, size, seed=bench.seed) for each, size, bench in zip(scores, fewer, benches, strict=True)]
        )
    )
    note = "" if worst == worst else f"{benches[0].n} images are too few to rank these maps; "
    return Trial(
        "M15" if not prefix else f"M15 {base}",
        one.name,
        worst,
        f"at most {benches[0].n} images, and no ranking from half of those needed",
        bool(worst <= benches[0].n and silent >= 0.95),
        f"{note}no ranking in {silent:.0%} of draws of {', '.join(map(str, fewer))} images",
        benches[0].n,
        tuple(bench.seed for bench in benches),
    )


def refused(scores: np.ndarray, size: int, *, seed: int, subsets: int = 20) -> float:
    """Return the share of subsets of ``size`` images in whose ranking all maps share one group.

    Args:
        scores: (M, N), higher is better.
        size: images of a subset; all N are one subset.
        seed: of the subsets drawn, and of the bootstrap.
        subsets: how many are drawn.

    Example:
        >>> clear = np.arange(3.0)[:, None] + np.zeros((3, 40))
        >>> refused(clear, 4, seed=0), refused(clear, 40, seed=0)
        (1.0, 0.0)
    """
    generator = numpy_generator(seed, "selftest-refused", size)
    names = [str(row) for row in range(len(scores))]
    drawn = [
        generator.choice(scores.shape[1], size, replace=False)
        for _ in range(1 if size == scores.shape[1] else subsets)
    ]
    tables = [rank_methods(scores[:, rows], names, draws=_RANKED, seed=seed) for rows in drawn]
    return float(np.mean([(table["group"] == "a").all() for table in tables]))
