"""Ladders of worse and worse maps on natural images, and built and real maps on planted ones: are they put in order?

Natural images: the maps of a real method (IG, IG with SmoothGrad squared, Grad-CAM) are made worse in five steps, by
exchanging values within each map (permuted) or by exchanging the maps of images (swapped). A strategy's scores of the
six maps are correlated with their order (Spearman; 1 is right). Planted images: the scores of built maps and of real
methods are correlated with the average precision of the maps against the pixels that are known to be relevant.

Reference: permuted ladders in Zheng et al., "F-Fidelity" (ICLR 2025), CIFAR-100, |Spearman| of MoRF areas: F-Fidelity
1.00 (SmoothGrad squared) and 0.60 (Grad-CAM); ROAR 0.66, and 0.99 the wrong way round.

    python benchmarks/natural_ladders.py --data fashion-mnist parquet:PATH
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from _common import Record, environment, parser

import roadworthy as rw
from roadworthy.evaluation.selftest.bench import Bench, planted_bench
from roadworthy.evaluation.selftest.contender import Contender, asked_by_view, contenders
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.maps import REAL, UNORDERED
from roadworthy.evaluation.selftest.natural import BASES, beats_random, natural_bench
from roadworthy.evaluation.selftest.quality import clear_pairs, order_found
from roadworthy.evaluation.selftest.run import GATE

STRATEGIES = ("symmetric", "symmetric untouched", "symmetric fine-tuned", "road", "road morf")
KINDS = ("permuted", "swapped")


def steps(base: str, kind: str) -> list[str]:
    """Return the names of the maps of a ladder, best first."""
    return [base, *(f"{base} {kind} {share:g}" for share in LEVELS[1:])]


def called(spec: str) -> str:
    """Return the name of a data set, for a path its last part."""
    kind, _, place = spec.partition(":")
    return Path(place).name if "/" in place else kind


def ladder_benches(spec: str, found: Sequence[Contender], args: argparse.Namespace) -> Iterator[Bench]:
    """Yield, for each seed, natural images with the ladders on them and a random map; all ask the same judges."""
    data = rw.load_data(spec)
    network = rw.load_model(args.model, data)
    asked = asked_by_view(found)
    names = ["null white", *(name for base in BASES for kind in KINDS for name in steps(base, kind))]
    judges = None
    for seed in args.seeds:
        bench, _ = natural_bench(
            data.name, network, data.train, data.test, asked, mean=data.mean, bases=BASES, n=args.n, seed=seed
        )
        judges = judges or bench.judges
        yield bench.with_maps({name: bench.maps[name] for name in dict.fromkeys(names)}, judges=judges)


def ladders(found: Sequence[Contender], args: argparse.Namespace, record: Record) -> None:
    """Print every cell and, over all of them, the figures to reach."""
    heads = "  " + " " * 18 + "".join(f"{one.name:>24}" for one in found)
    cells: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for spec in args.data:
        began = time.process_time()
        for bench in ladder_benches(spec, found, args):
            rows = [_row(bench, found, base, kind, cells) for base in BASES for kind in KINDS]
            right = float((bench.targets == bench.samples.labels).float().mean())
            spent, began = time.process_time() - began, time.process_time()
            where = f"{called(spec)}, seed {bench.seed}"
            record.line(f"\n{where}: n = {bench.n}, accuracy {right:.3f}, {spent:.0f} CPU seconds")
            for line in (heads, *rows):
                record.line(line)
    record.line(f"\nover all {len(cells[KINDS[0]])} ladders of a kind: mean, least, number below 0")
    record.line(heads)
    for kind, reach in zip(KINDS, ("0.98, 0.90, 0", "0.95"), strict=True):
        said = [f"{rho.mean():.3f}, {rho.min():.2f}, {(rho < 0).sum()}" for rho in np.array(cells[kind]).T]
        record.line(f"  {kind:<18}" + "".join(f"{text:>24}" for text in said) + f"  (reach: {reach})")


def _row(bench: Bench, found: Sequence[Contender], base: str, kind: str, cells: dict[str, list[list[float]]]) -> str:
    """Return the line of a ladder, and add its cells."""
    orders = [
        order_found(bench.scores(one, steps(base, kind)), -np.asarray(LEVELS), seed=bench.seed) for one in found
    ]
    cells[kind].append([order.rho for order in orders])
    said = "".join(f"{f'{each.rho:.2f} ({each.low:.2f} to {each.high:.2f})':>24}" for each in orders)
    return f"  {base + ' ' + kind:<18}{said}" + ("" if beats_random(bench, base, GATE) else "  (not above random)")


def planted(found: Sequence[Contender], args: argparse.Namespace, record: Record) -> None:
    """Print how far the scores follow the average precision of built maps, and of built and real ones."""
    rows: dict[str, list[tuple[float, ...]]] = {one.name: [] for one in found}
    for seed in args.planted_seeds:
        bench = planted_bench(seed, asked_by_view(found), n=args.n, real=True)
        every = [name for name in bench.maps if name not in UNORDERED]
        built = [name for name in every if name not in REAL]
        quality = dict(zip(bench.maps, bench.quality(), strict=True))
        for one in found:
            both = [
                order_found(bench.scores(one, names), np.stack([quality[name] for name in names]), seed=seed)
                for names in (every, built)
            ]
            means = bench.scores(one, every).mean(axis=1), np.array([quality[name].mean() for name in every])
            rows[one.name].append((both[0].rho, both[1].rho, clear_pairs(*means)[0]))
        worth = ", ".join(f"{name} {quality[name].mean():.2f}" for name in REAL)
        record.line(f"planted, seed {seed}: average precision of the real methods: {worth}")
    record.line(
        f"planted, seeds {', '.join(map(str, args.planted_seeds))}, n = {args.n}: Spearman with the average "
        "precision, mean (least); pairs: share of pairs in order whose precisions differ by 0.1 or more"
    )
    record.line(f"  {'':<24}{f'all {len(every)} maps':>18}{f'{len(built)} built maps':>18}{'pairs':>18}")
    for name, values in rows.items():
        table = np.array(values)
        record.line(
            f"  {name:<24}" + "".join(f"{f'{column.mean():.3f} ({column.min():.3f})':>18}" for column in table.T)
        )
    record.line("  reach: mean 0.97, least 0.95 over 25 maps or more")


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--data", nargs="+", default=["planted-colour:n=2000,test=1000,size=32"], help="data sets")
    options.add_argument("--model", default="small-cnn")
    options.add_argument("--n", type=int, default=300, help="images of a bench")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="of the ladders")
    options.add_argument("--planted-seeds", type=int, nargs="*", default=[3, 4, 5], help="of the planted benches")
    args = options.parse_args()
    torch.set_num_threads(1)
    found = contenders(STRATEGIES)
    record = Record("natural_ladders")
    record.line(environment("roadworthy", "torch", "numpy", "scipy") + ", 1 torch thread, on a busy machine")
    record.line(
        f"n = {args.n} images of a bench; for each data set one network {args.model}, last epoch of its own recipe, "
        "and one copy, fine-tuned as the product does it; intervals (95 %) over images, the value plus and minus its "
        "farther end"
    )
    ladders(found, args, record)
    if args.planted_seeds:
        record.line("")
        planted(found, args, record)
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
