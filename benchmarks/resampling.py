"""Statistics of 20 methods x 10 shares x 10,000 samples with 2,000 bootstrap draws, against a plain loop over draws.

Reference: for each draw, gather the drawn samples of all curves, average, and do what the statistic asks: quantiles
at the end (bands), sign flips, quantiles and p-values of all differences (ranking, of one score a method), or SciPy's
Spearman and Kendall of the two orders at each share and of the areas (agreement). It is timed on a few draws of the
same scores; all its work grows with their number, so that seconds per draw are compared.

    OMP_NUM_THREADS=1 python benchmarks/resampling.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from _common import Record, alternate, environment, parser
from scipy.stats import kendalltau, spearmanr

from roadworthy.statistics import Source, area, concordance, curve_bands, paired_bootstrap, symmetric_gain


def scores(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shares, and hits of MoRF and LeRF (methods, shares, samples) as float64."""
    rng = np.random.default_rng(0)
    shares = np.arange(1, args.shares + 1) / (args.shares + 1)
    strength = rng.normal(size=(args.methods, 1)) / 2
    hits = [
        rng.random((args.methods, args.shares, args.samples))
        < (0.9 * (1 - shares) ** np.exp(sign * strength))[..., None]
        for sign in (1, -1)
    ]
    return shares, hits[0].astype(np.float64), hits[1].astype(np.float64)


def looped_bands(curves: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    rng, means = np.random.default_rng(0), []
    for _ in range(draws):
        picks = rng.integers(curves.shape[-1], size=curves.shape[-1])
        means.append(curves[..., picks].mean(axis=-1))
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def looped_ranking(gains: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, means, flips = np.random.default_rng(0), [], []
    for _ in range(draws):
        picks = rng.integers(gains.shape[-1], size=gains.shape[-1])
        means.append(gains[:, picks].mean(axis=-1))
        flips.append((gains * rng.choice([-1.0, 1.0], size=gains.shape[-1])).mean(axis=-1))
    moved, flipped, mean = np.array(means), np.array(flips), gains.mean(axis=-1)
    low, high = np.quantile(moved[:, :, None] - moved[:, None], [0.025, 0.975], axis=0)
    p = (np.abs(flipped[:, :, None] - flipped[:, None]) >= np.abs(mean[:, None] - mean)).mean(axis=0)
    return low, high, p


def looped_agreement(shares: np.ndarray, morf: np.ndarray, lerf: np.ndarray, draws: int) -> np.ndarray:
    rng, found = np.random.default_rng(0), []
    for _ in range(draws):
        picks = rng.integers(morf.shape[-1], size=morf.shape[-1])
        a, b = -morf[..., picks].mean(axis=-1), lerf[..., picks].mean(axis=-1)
        columns = [(a[:, p], b[:, p]) for p in range(len(shares))]
        areas = area(shares, a), area(shares, b)
        found.append(
            (
                np.mean([spearmanr(*pair).statistic for pair in columns]),
                np.mean([kendalltau(*pair).statistic for pair in columns]),
                spearmanr(*areas).statistic,
                kendalltau(*areas).statistic,
            )
        )
    return np.quantile(found, [0.025, 0.975], axis=0)


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--methods", type=int, default=20)
    options.add_argument("--shares", type=int, default=10)
    options.add_argument("--samples", type=int, default=10_000)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--reference", type=int, default=50, help="draws the reference is timed on in a round")
    args = options.parse_args()
    shares, morf, lerf = scores(args)
    gains = symmetric_gain(shares, morf, lerf, axis=1)
    sources = [Source("MoRF", morf, shares, "morf"), Source("LeRF", lerf, shares, "lerf")]
    cases: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "agreement of the orders": (
            lambda: concordance(sources, draws=args.draws),
            lambda: looped_agreement(shares, morf, lerf, args.reference),
        ),
        "bands of one order": (
            lambda: curve_bands(morf, draws=args.draws),
            lambda: looped_bands(morf, args.reference),
        ),
        "ranking, all pairs and p-values": (
            lambda: paired_bootstrap(gains, draws=args.draws),
            lambda: looped_ranking(gains, args.reference),
        ),
    }
    record = Record("resampling")
    record.line(environment("roadworthy", "numpy", "scipy"))
    record.line(
        f"{args.methods} methods x {args.shares} shares x {args.samples} samples, {args.draws} draws; medians of "
        f"{args.rounds} alternating rounds; the reference on {args.reference} draws a round"
    )
    sums = [0.0, 0.0]
    for what, (ours, reference) in cases.items():
        medians = alternate({"ours": ours, "reference": reference}, rounds=args.rounds)
        per_draw = medians["ours"] / args.draws, medians["reference"] / args.reference
        record.ratio(what, *per_draw, n=args.draws, unit="draw")
        sums = [total + seconds for total, seconds in zip(sums, per_draw, strict=True)]
    record.ratio("the three together", *sums, n=args.draws, unit="draw", note="(reach: 20)")
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
