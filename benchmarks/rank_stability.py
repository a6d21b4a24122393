"""Does a ranking of methods survive another fill, another unit of removal, another network? 24 set-ups.

Four fills x two units x three networks rank nine methods by the probability of the predicted class at the shares of
the preset ``symmetric``, asked of the given model. For each score (one order alone, both orders) every two set-ups
are correlated (Spearman, over methods). Each network has maps of its own, so between networks it is the ranking of
methods that is compared. Networks, methods and shares were chosen beforehand; nothing is tuned here.

Reference: 40 set-ups (5 fills x 4 sizes of superpixels x 2 networks, 7 methods) of Bluecher et al., "Decoupling Pixel
Flipping and Occlusion Strategy for Consistent XAI Benchmarks" (TMLR 2024), from the results stored with their code.

    python benchmarks/rank_stability.py --data parquet:PATH --weights FOLDER
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from _common import Record, environment, parser
from torch import nn

import roadworthy as rw
from roadworthy.errors import RoadworthyWarning
from roadworthy.evaluation.scoring import over_samples, score
from roadworthy.evaluation.strategy import Strategy
from roadworthy.model import fit, load_recipe, untrained
from roadworthy.model.resnet_cifar import BasicBlock
from roadworthy.model.small_cnn import SmallCNN
from roadworthy.records import Data
from roadworthy.rng import numpy_generator
from roadworthy.statistics import midranks, rank_methods, spearman_matrix

METHODS = ("grad", "grad-sq", "ixg", "ig", "gb", "lrp", "gradcam", "occlusion", "random")
IMPUTERS = ("mean", "noisy-linear", "blur", "image-mean")
UNITS = ("pixel", "channel")
AXES = ("imputer", "unit", "network")
PUBLISHED = {"MoRF": "0.446 / -0.79", "LeRF": "0.700 / -0.61", "gain": "0.959 / 0.75"}


class Residual(nn.Sequential):
    """Three residual blocks of 16, 32 and 64 channels, halved by strides."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(
            nn.Conv2d(channels, 16, 3, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            BasicBlock(16, 16, 1),
            BasicBlock(16, 32, 2),
            BasicBlock(32, 64, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, classes),
        )


NETWORKS = {
    "plain 16-32-64": lambda channels, classes: SmallCNN(channels, classes, (16, 32, 64)),
    "plain 32-64-64": lambda channels, classes: SmallCNN(channels, classes, (32, 64, 64)),
    "residual 16-32-64": Residual,
}


@dataclass
class Setups:
    """What every set-up found.

    Attributes:
        keys: (imputer, unit, network) of each set-up.
        scores: name of the score -> [set-up, method, image]; higher is better.
    """

    keys: list[tuple[str, str, str]]
    scores: dict[str, np.ndarray]


def network(name: str, data: Data, args: argparse.Namespace) -> nn.Module:
    """Return one of the networks, trained; read from ``--weights`` where it was trained before."""
    model = untrained(
        lambda: NETWORKS[name](data.train.shape[0], len(data.classes)), normalize=data.normalize, seed=args.seed
    )
    checkpoint = None if args.weights is None else args.weights / f"{name.replace(' ', '-')}.pt"
    recipe = load_recipe(args.recipe)
    fit(model, data.train.take(args.train), recipe=recipe, seed=args.seed, checkpoint=checkpoint)
    return model.eval()


def scored(result: rw.evaluation.Result) -> dict[str, np.ndarray]:
    """Return each score of each method for each image; one order alone by its mean over the shares."""
    curves = over_samples(result, "probability")
    heights = {order: curves[:, row, 1:].mean(axis=1) for row, order in enumerate(result.orders)}
    gain, _, _ = result.method_scores("probability")
    top1 = over_samples(result, "top1")
    area, _, _ = score(top1, result.orders, result.fractions, "area")
    return {
        "MoRF": -heights["morf"],
        "LeRF": heights["lerf"],
        "gain": gain,
        "gain by accuracy": result.method_scores("top1")[0],
        "gain by accuracy, area": area,
    }


def collected(data: Data, args: argparse.Namespace, record: Record) -> Setups:
    """Evaluate all set-ups."""
    keys: list[tuple[str, str, str]] = []
    rows: dict[str, list[np.ndarray]] = {}
    samples = data.test.take(args.n)
    for name in NETWORKS:
        began = time.process_time()
        model = network(name, data, args)
        trained = time.process_time() - began
        maps = rw.attribute(model, samples, list(METHODS), mean=data.mean, seed=args.seed)
        explained = time.process_time() - began - trained
        for unit in UNITS:
            strategy = Strategy.of("symmetric", training="none", imputer=IMPUTERS, unit=unit)
            result = rw.evaluate(
                model, samples, None, maps, strategy=strategy, mean=data.mean, seed=args.seed, sheet=0, audit="off"
            )
            for index, view in enumerate(result.views):
                keys.append((view["imputer"], unit, name))
                for what, values in scored(result.view(index)).items():
                    rows.setdefault(what, []).append(values)
        spent = time.process_time() - began - trained - explained
        record.line(
            f"{name:<18} test accuracy on the {result.n} images {result.intact_accuracy:.3f}; CPU seconds: training "
            f"{trained:.0f}, maps {explained:.0f}, {len(UNITS) * len(IMPUTERS)} set-ups {spent:.0f}"
        )
    return Setups(keys, {what: np.stack(values) for what, values in rows.items()})


def pairs_of(keys: list[tuple[str, str, str]], axis: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of set-ups, or those that differ in one axis alone."""
    first, second = np.triu_indices(len(keys), 1)
    if axis is None:
        return first, second
    alone = [
        all((a == b) != (place == axis) for place, (a, b) in enumerate(zip(keys[i], keys[j], strict=True)))
        for i, j in zip(first, second, strict=True)
    ]
    return first[alone], second[alone]


def agreement(values: np.ndarray, args: argparse.Namespace) -> str:
    """Say mean and minimum over pairs of set-ups, each with its interval over resampled images.

    Resampling adds noise, which pulls correlations down; so the interval is the value plus and minus its farther end,
    as everywhere in this package.
    """
    first, second = np.triu_indices(len(values), 1)
    n = values.shape[-1]
    weights = numpy_generator(args.seed, "rank-stability").multinomial(n, np.full(n, 1 / n), size=args.draws) / n
    moved = spearman_matrix(np.einsum("smn,dn->dsm", values, weights, optimize=True))[:, first, second]
    here = spearman_matrix(values.mean(axis=-1))[first, second]
    said = []
    for summary in (np.mean, np.min):
        value, low, high = summary(here), *np.quantile(summary(moved, axis=1), [0.025, 0.975])
        half = max(value - low, high - value)
        said.append(f"{value:6.3f} ({max(value - half, -1):6.3f} to {min(value + half, 1):.3f})")
    return "  ".join(said)


def halves(values: np.ndarray, seed: int) -> float:
    """Return the mean Spearman of a set-up on one half of the images with itself on the other: what n allows."""
    order = numpy_generator(seed, "halves").permutation(values.shape[-1])
    parts = np.stack([values[..., half].mean(axis=-1) for half in np.array_split(order, 2)], axis=1)
    return float(spearman_matrix(parts)[:, 0, 1].mean())


def overview(setups: Setups, args: argparse.Namespace, record: Record) -> None:
    """Print the figures to reach, for each score."""
    count = len(setups.keys)
    record.line(f"\nSpearman of every two of {count} set-ups, with 95 % intervals over images ({args.draws} draws)")
    record.line(
        f"{'score':<24}{'mean':>6}{'least':>26}{'orders':>25}{'random last':>14}{'halves':>8}{'published':>16}"
    )
    for what, values in setups.scores.items():
        means = values.mean(axis=-1)
        orders = len({tuple(np.argsort(-row, kind="stable")) for row in means})
        last = sum(int(np.argmin(row) == METHODS.index("random")) for row in means)
        line = f"{what:<24}{agreement(values, args)}{orders:>8}{last:>14}{halves(values, args.seed):8.3f}"
        record.line(f"{line}{PUBLISHED.get(what, '-'):>16}")
    record.line(
        "orders: how many different ones; halves: a set-up on half of the images with itself on the other half; "
        "published: mean / least of 40 set-ups"
    )
    record.line("reach, for the gain: mean 0.97, least 0.85")


def by_axis(setups: Setups, record: Record) -> None:
    """Print the agreement of set-ups that differ in one respect alone."""
    record.line("\nset-ups that differ in one respect alone: mean Spearman (least)")
    record.line(f"{'score':<24}" + "".join(f"{axis + ' alone':>18}" for axis in AXES))
    for what, values in setups.scores.items():
        matrix = spearman_matrix(values.mean(axis=-1))
        cells = [matrix[pairs_of(setups.keys, axis)] for axis in range(len(AXES))]
        record.line(f"{what:<24}" + "".join(f"{cell.mean():10.3f} ({cell.min():.2f})" for cell in cells))


def ranks_shown(setups: Setups, record: Record) -> None:
    """Print each method's rank by the gain in every set-up."""
    means = setups.scores["gain"].mean(axis=-1)
    ranks = midranks(-means)
    record.line("\nranks by the gain (1 is best)")
    record.line(f"{'':<44}" + "".join(f"{name:>10}" for name in METHODS))
    for key, row in zip(setups.keys, ranks, strict=True):
        record.line(f"{', '.join(key):<44}" + "".join(f"{rank:10g}" for rank in row))
    spread = zip(METHODS, means.min(axis=0), means.max(axis=0), strict=True)
    record.line("gain, least to most: " + "; ".join(f"{name} {low:.3f} to {high:.3f}" for name, low, high in spread))


def reversals(setups: Setups, record: Record, seed: int) -> None:
    """Print which pairs of methods the gain tells apart in opposite ways: these are no noise."""
    told = np.array([_told_apart(values, seed) for values in setups.scores["gain"]])
    first, second = np.triu_indices(len(METHODS), 1)
    ahead, behind = (told > 0).sum(axis=0), (told < 0).sum(axis=0)
    turned = np.flatnonzero((ahead > 0) & (behind > 0))
    record.line(
        f"\nof {len(first)} pairs of methods the gain tells {np.abs(told).sum(axis=1).mean():.1f} apart in a set-up "
        f"(Holm, 5 %); told apart in opposite ways somewhere: {len(turned)}"
    )
    for pair in turned:
        one, other = METHODS[first[pair]], METHODS[second[pair]]
        by_network = {name: told[[key[2] == name for key in setups.keys], pair] for name in NETWORKS}
        shares = "; ".join(f"{name} {(t > 0).sum()} : {(t < 0).sum()}" for name, t in by_network.items())
        record.line(f"  {one} ahead of {other} : behind, in set-ups of each network: {shares}")


def _told_apart(values: np.ndarray, seed: int) -> list[int]:
    """Return 1, -1 or 0 for each pair of methods: the first ahead, behind, not told apart."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)
        table = rank_methods(values, METHODS, draws=2000, seed=seed)
    place = {name: row for row, name in enumerate(table["method"])}
    different = np.array(table.attrs["different"])
    found = []
    for i, j in zip(*np.triu_indices(len(METHODS), 1), strict=True):
        a, b = place[METHODS[i]], place[METHODS[j]]
        found.append(int(different[a, b]) * (1 if a < b else -1))
    return found


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--data", default="planted-colour:n=2000,test=1000,size=32", help="data set")
    options.add_argument("--n", type=int, default=1000, help="test images")
    options.add_argument("--train", type=int, default=20_000, help="training images")
    options.add_argument("--recipe", default="fast-cifar")
    options.add_argument("--weights", type=Path, help="folder in which trained networks are kept")
    options.add_argument("--draws", type=int, default=1000, help="bootstrap draws")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    if args.weights is not None:
        args.weights.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    data = rw.load_data(args.data)
    shares = Strategy.of("symmetric").fractions
    record = Record("rank_stability")
    record.line(environment("roadworthy", "torch", "numpy", "scipy") + ", 1 torch thread, on a busy machine")
    record.line(
        f"rank stability: {len(METHODS)} methods ({', '.join(METHODS)}), n = {args.n} test images, seed {args.seed}, "
        f"shares {shares}, untouched model"
    )
    record.line(
        f"fills {', '.join(IMPUTERS)}; units {', '.join(UNITS)}; networks trained on {args.train} images, recipe "
        f"{args.recipe}, last epoch"
    )
    setups = collected(data, args, record)
    overview(setups, args, record)
    by_axis(setups, record)
    ranks_shown(setups, record)
    reversals(setups, record, args.seed)
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
