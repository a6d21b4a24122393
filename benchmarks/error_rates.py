"""How often the statistics err where the truth is known: the figures in the docstrings of ``roadworthy.statistics``.

Panels of ten methods of equal mean: how often Holm at 5 % calls any of the 45 pairs real, over samples (paired
bootstrap and sign flips, each alone and both as here) and over trainings (Student's t, paired). Then panels of curves
whose noiseless agreement is known: how often its 95 % interval holds it. Everything is drawn by fixed seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from _common import Record, environment, parser
from scipy.special import ndtr

from roadworthy.statistics import Source, concordance, holm, paired_bootstrap, paired_repeats

METHODS = 10
PAIRS = np.triu_indices(METHODS, 1)
SHARES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
Draw = Callable[[np.random.Generator, int], np.ndarray]


def normal(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw normal scores with a part that all methods share."""
    return rng.normal(size=(METHODS, n)) + rng.normal(size=n)


def gain_of_hits(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the symmetric gain of hits at seven shares, on samples of different difficulty."""
    difficulty = rng.normal(size=(n, 1)) + np.linspace(1.5, -1.5, 7)
    hits = rng.normal(size=(2, METHODS, n, 7)) * 0.7 + difficulty > 0
    return np.asarray((hits[0].astype(float) - hits[1]).mean(axis=-1))


def one_in_ten(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw -1 or 1 in one sample of ten, else 0."""
    drawn = rng.random((METHODS, n))
    return (drawn < 0.05).astype(float) - (drawn > 0.95)


def mirrored(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw exponential scores, half of the methods mirrored."""
    return (rng.exponential(size=(METHODS, n)) - 1) * np.repeat([1, -1], METHODS // 2)[:, None]


def rare_gain(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw 0.9 in one sample of ten, else -0.1, for half of the methods; the others have 0 throughout."""
    scores = np.zeros((METHODS, n))
    scores[: METHODS // 2] = np.where(rng.random((METHODS // 2, n)) < 0.1, 0.9, -0.1)
    return scores


def half_spread(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw normal scores, half of the methods with a fifth of the spread."""
    return rng.normal(size=(METHODS, n)) * np.repeat([0.2, 1.0], METHODS // 2)[:, None]


def accuracy(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the accuracy on 50 test samples at one share."""
    return rng.binomial(50, 0.7, size=(METHODS, n)) / 50


def trained_gain(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the symmetric gain of accuracies at five shares on 100 test samples."""
    hits = rng.binomial(100, 0.6, size=(2, METHODS, n, 5)) / 100
    return np.asarray((hits[0] - hits[1]).mean(axis=-1))


def collapses(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw accuracies of which one in twenty falls to chance."""
    fine = 0.8 + 0.01 * rng.normal(size=(METHODS, n))
    return np.where(rng.random((METHODS, n)) < 0.05, 0.1, fine)


OVER_SAMPLES: dict[str, Draw] = {
    "normal": normal,
    "symmetric gain of hits at seven shares": gain_of_hits,
    "-1 or 1 in one sample of ten, else 0": one_in_ten,
    "exponential, half of them mirrored": mirrored,
    "half +0.9 in one of ten, else -0.1": rare_gain,
}
OVER_TRAININGS: dict[str, Draw] = {
    "normal, with a shift shared by all": normal,
    "normal, half with a fifth of the spread": half_spread,
    "symmetric gain, 5 shares, 100 samples": trained_gain,
    "accuracy on 50 samples at one share": accuracy,
    "one training of twenty collapses": collapses,
    "exponential, half of them mirrored": mirrored,
}


def alone(scores: np.ndarray, rng: np.random.Generator, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the p-values of every pair by plain percentiles of a bootstrap, and by sign flips."""
    n = scores.shape[1]
    gaps = scores[PAIRS[0]] - scores[PAIRS[1]]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=draws)
    drawn = weights @ gaps.T / n
    below, above = (drawn <= 0).mean(axis=0), (drawn >= 0).mean(axis=0)
    percentile = np.minimum(1, 2 * np.maximum(np.minimum(below, above), 1 / (draws + 1)))
    flipped = rng.choice([-1.0, 1.0], size=(draws, n)) @ gaps.T / n
    reached = (np.abs(flipped) >= np.abs(gaps.mean(axis=1)) - 1e-12).sum(axis=0)
    return percentile, (reached + 1) / (draws + 1)


def over_samples(record: Record, panels: int, sizes: list[int], draws: int) -> None:
    """Count panels in which a pair is called real, the unit being the sample."""
    record.line(f"\nany of 45 pairs called real, over samples: {panels} panels each, {draws} draws")
    record.line(f"{'scores':<40} {'n':>5} {'percentile':>11} {'sign flips':>11} {'the larger':>11}")
    for n in sizes:
        for name, draw in OVER_SAMPLES.items():
            rng = np.random.default_rng(11)
            wrong = np.zeros(3)
            for seed in range(panels):
                scores = draw(rng, n)
                found = paired_bootstrap(scores, draws=draws, seed=seed).p[PAIRS]
                wrong += [holm(p).min() <= 0.05 for p in (*alone(scores, rng, draws), found)]
            shares = " ".join(f"{100 * share:9.1f} %" for share in wrong / panels)
            record.line(f"{name:<40} {n:>5} {shares}")


def over_trainings(record: Record, panels: int) -> None:
    """Count panels in which a pair is called real, the unit being the training."""
    repeats = (2, 3, 5, 10)
    record.line(f"\nany of 45 pairs called real, over R trainings: {panels} panels each")
    record.line(f"{'scores':<40} " + " ".join(f"{f'R = {r}':>9}" for r in repeats))
    for name, draw in OVER_TRAININGS.items():
        rng, shares = np.random.default_rng(12), []
        for count in repeats:
            wrong = sum(holm(paired_repeats(draw(rng, count)).p[PAIRS]).min() <= 0.05 for _ in range(panels))
            shares.append(wrong / panels)
        record.line(f"{name:<40} " + " ".join(f"{100 * share:7.1f} %" for share in shares))


def curves(rng: np.random.Generator, methods: int, spread: float, apart: bool) -> np.ndarray:
    """Return the noiseless accuracies (order, methods, shares) of methods of drawn quality."""
    quality = spread * rng.normal(size=(2, methods))
    if not apart:
        quality[1] = quality[0] + 0.3 * spread * rng.normal(size=methods)
    morf = ndtr(1 - 2 * SHARES - quality[0][:, None])
    lerf = ndtr(1 - 2 * SHARES + quality[1][:, None])
    return np.stack([morf, lerf])


def agreement(record: Record, panels: int, draws: int) -> None:
    """Count intervals that hold the agreement of the noiseless curves."""
    cases = {
        "M = 8, n = 200, far apart": (8, 200, 0.6, False),
        "M = 8, n = 1000, far apart": (8, 1000, 0.6, False),
        "M = 8, n = 200, close to each other": (8, 200, 0.15, False),
        "M = 8, n = 1000, close to each other": (8, 1000, 0.15, False),
        "M = 8, n = 1000, orders that differ": (8, 1000, 0.6, True),
        "M = 5, n = 300, far apart": (5, 300, 0.6, False),
    }
    record.line(f"\nagreement of MoRF and LeRF, hits at five shares: {panels} panels each, {draws} draws")
    record.line(f"{'case':<40} {'95 % interval holds it':>23} {'bias of rho':>12}")
    for name, (methods, n, spread, apart) in cases.items():
        held, bias = _held(panels, draws, methods, n, spread, apart, "samples")
        record.line(f"{name:<40} {100 * held:21.0f} % {bias:12.2f}")
    record.line("the same over trainings, M = 8, 1000 test samples, far apart")
    for trainings in (2, 3, 5, 10):
        held, bias = _held(panels, draws, 8, trainings, 0.6, False, "trainings")
        record.line(f"{f'{trainings} trainings':<40} {100 * held:21.0f} % {bias:12.2f}")


def _held(
    panels: int, draws: int, methods: int, n: int, spread: float, apart: bool, unit: str
) -> tuple[float, float]:
    rng, held, bias = np.random.default_rng(13), 0, []
    for seed in range(panels):
        exact = curves(rng, methods, spread, apart)
        truth = _rho([part[..., None] for part in exact], unit, 20, seed)[0]
        if unit == "samples":
            scores = [(rng.random((*part.shape, n)) < part[..., None]).astype(float) for part in exact]
        else:
            scores = [rng.binomial(1000, part[..., None], size=(*part.shape, n)) / 1000 for part in exact]
        value, low, high = _rho(scores, unit, draws, seed)
        held += bool(low - 1e-9 <= truth <= high + 1e-9)
        bias.append(value - truth)
    return held / panels, float(np.mean(bias))


def _rho(scores: list[np.ndarray], unit: str, draws: int, seed: int) -> tuple[float, float, float]:
    sources = [
        Source(order, part, SHARES, order, unit=unit) for order, part in zip(("morf", "lerf"), scores, strict=True)
    ]
    found = concordance(sources, draws=draws, seed=seed).spearman
    return float(found.value[0, 1]), float(found.low[0, 1]), float(found.high[0, 1])


def main() -> None:
    """Print and keep the figures."""
    options = parser((__doc__ or "").splitlines()[0])
    options.add_argument("--panels", type=int, default=250, help="panels of samples; ten times as many of trainings")
    options.add_argument("--draws", type=int, default=4000)
    chosen = options.parse_args()
    record, began = Record("error_rates"), time.process_time()
    record.line(environment("roadworthy", "numpy", "scipy"))
    over_samples(record, chosen.panels, [20, 50, 200], chosen.draws)
    over_trainings(record, 10 * chosen.panels)
    agreement(record, chosen.panels // 2, 500)
    record.line(f"\n{time.process_time() - began:.0f} CPU seconds")
    if chosen.save:
        record.save()


if __name__ == "__main__":
    main()
