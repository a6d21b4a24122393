"""M2: a network with set weights, whose evidence is known exactly.

Each image carries its class pattern in four cells of a 4 x 4 grid, with strengths from 1 down to 0.25, and that of a
rival class in three others, weaker in all; the rest is empty. The network measures how much of each pattern each cell
holds and adds up: its logits are these sums. So what a cell is worth for the probability of the class can be computed
exactly, as its Shapley value over all sets of cells, and within a cell each pixel's share is its term of the sum.
Nothing is learnt and nothing is estimated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from torch import nn

from roadworthy.data.planted import patterns
from roadworthy.errors import InputError
from roadworthy.evaluation.retrained import as_split
from roadworthy.evaluation.selftest.bench import Bench, Judges
from roadworthy.evaluation.selftest.contender import Contender, asked_by_view
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.records import Batch
from roadworthy.rng import numpy_generator
from roadworthy.statistics import paired_bootstrap

ORDER = ("graded truth", "region truth", "half of the truth", "random", "constant", "inverse")
"""The maps, best first; ``random`` and ``constant`` are worth the same."""
GRID, CELL = 4, 6
MEAN = 0.5
_CONTRAST = 0.3  # of a pattern of strength 1, in pixel units
_STRENGTHS = (1.0, 0.75, 0.5, 0.25)
_RIVALS = (0.75, 0.5, 0.25)
_GAIN = 4.0  # logits of a pattern of strength 1
_LEVEL = 0.99  # of intervals: one pair has to come out equal, and at 95 % it would not once in twenty


class WiredNet(nn.Module):
    """Adds up, for each class, how much of its pattern the cells hold; weights are set, not learnt.

    Example:
        >>> net = WiredNet()
        >>> net(torch.full((1, 1, 24, 24), 0.5)).abs().max().item()
        0.0
    """

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.Conv2d(1, 4, CELL, stride=CELL, bias=False)
        self.relu = nn.ReLU()
        with torch.no_grad():
            self.cells.weight.copy_(torch.from_numpy(_GAIN * templates()[:, None]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, 4) of images (N, 1, 24, 24) in pixel units."""
        return self.relu(self.cells((images - MEAN) / _CONTRAST)).sum(dim=(2, 3))


def templates() -> np.ndarray:
    """Return what measures each class, (4, 6, 6): 1 on its own pattern, 0 on those of the others and on grey."""
    flat = patterns(CELL)[0].reshape(4, -1)
    return np.linalg.solve(flat @ flat.T, flat).reshape(4, CELL, CELL)


def shapley_values(game: np.ndarray) -> np.ndarray:
    """Return the exact Shapley value of each player, by enumeration.

    Args:
        game: float (2^k,), what each set of players is worth; bit i of the position says whether i is in the set.

    Returns:
        float64 (k,); they add up to what all are worth minus what nobody is.

    Raises:
        InputError: a length that is no power of two.

    Example:
        >>> shapley_values(np.array([0.0, 1.0, 2.0, 6.0])).tolist()  # alone 1 and 2, together 6
        [2.5, 3.5]
    """
    players = len(game).bit_length() - 1
    if len(game) != 2**players or players < 1:
        raise InputError(f"game: {len(game)} values, expected one for each set of players: 2, 4, 8, ...")
    size = np.zeros(1, dtype=np.int64)
    for _ in range(players - 1):
        size = np.concatenate([size, size + 1])  # players in each set of the others
    orders = [math.factorial(s) * math.factorial(players - 1 - s) for s in range(players)]
    weight = (np.array(orders, dtype=np.float64) / math.factorial(players))[size]
    values = np.empty(players)
    for i in range(players):
        without, joined = game.reshape(-1, 2, 2**i).transpose(1, 0, 2).reshape(2, -1)
        values[i] = weight @ (joined - without)
    return values


@dataclass(frozen=True)
class Wired:
    """The bench: images, labels and the maps whose order is known.

    Attributes:
        images: float32 (N, 1, 24, 24) in pixel units.
        labels: int64 (N,); the network answers them all right.
        strengths: float64 (N, 4, 16), how much of each class's pattern each cell holds.
        ids: N sample ids.
    """

    images: torch.Tensor
    labels: np.ndarray
    strengths: np.ndarray
    ids: list[str]

    def worth(self) -> np.ndarray:
        """Return what each cell is worth for the probability of the class: exact Shapley values, (N, 16).

        Empty cells add nothing to any set, so they are worth 0 and change nothing for the others: sets of the cells
        that hold something are enough.
        """
        found = np.zeros((len(self.labels), GRID * GRID))
        for row, strengths in enumerate(self.strengths):
            held = strengths.any(axis=0)
            found[row, held] = shapley_values(_game(strengths[:, held], int(self.labels[row])))
        return found

    def maps(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return the six maps (N, 24, 24), best first."""
        worth = self.worth()
        held = self.strengths.argmax(axis=1)  # the class whose pattern a cell holds
        share = templates() * patterns(CELL)[0]  # each pixel's term of the sum
        graded = _on_pixels(worth[..., None, None] * share[held])
        own = np.take_along_axis(self.strengths, self.labels[:, None, None], axis=1)[:, 0]
        generator = numpy_generator(seed, "wired-maps")
        drawn = generator.random(own.shape) * (own > 0)
        half = drawn >= np.sort(drawn, axis=1)[:, [-len(_STRENGTHS) // 2]]
        region, part = (_on_pixels(np.multiply.outer(cells, np.ones((CELL, CELL)))) for cells in (own > 0, half))
        random = generator.random(graded.shape)
        return dict(zip(ORDER, (graded, region, part, random, np.zeros_like(graded), -graded), strict=True))


def wired_bench(n: int = 120, seed: int = 0) -> Wired:
    """Draw the images: class, rival, and which cells hold how much of either.

    Args:
        n: number of images; labels go round 0, 1, 2, 3.
        seed: decides everything.

    Example:
        >>> bench = wired_bench(8)
        >>> bool((WiredNet()(bench.images).argmax(1).numpy() == bench.labels).all())
        True
    """
    ids = [f"wired:{row}" for row in range(n)]
    labels = np.arange(n, dtype=np.int64) % 4
    strengths = np.zeros((n, 4, GRID * GRID))
    for row, sample in enumerate(ids):
        generator = numpy_generator(seed, "wired", sample)
        cells = generator.permutation(GRID * GRID)
        rival = (labels[row] + generator.integers(1, 4)) % 4
        own, other = cells[: len(_STRENGTHS)], cells[len(_STRENGTHS) :][: len(_RIVALS)]
        strengths[row, labels[row], own] = _STRENGTHS
        strengths[row, rival, other] = _RIVALS
    drawn = np.einsum("nkc,kij->ncij", strengths, patterns(CELL)[0])
    images = torch.from_numpy((MEAN + _CONTRAST * _on_pixels(drawn)).astype(np.float32))[:, None]
    return Wired(images, labels, strengths, ids)


def wired(found: Sequence[Contender], *, n: int = 120, train: int = 400, seeds: Sequence[int] = (0,)) -> list[Trial]:
    """Hold each strategy against the exact answer: graded truth > region > half > random = constant > inverse.

    A pair is right if the interval of its difference (paired bootstrap over images) lies on the right side of 0, for
    random and constant if it holds 0. A strategy passes with all 15 pairs right for every seed.

    Args:
        found: the strategies.
        n: images per seed.
        train: images that a fine-tuned judge is trained on.
        seeds: of images, maps, judges and draws.

    Example:
        >>> from roadworthy.evaluation.selftest.contender import contenders
        >>> wired(contenders(["mean"]), n=60)[0].passed
        True
    """
    right: dict[str, list[tuple[int, list[str]]]] = {one.name: [] for one in found}
    for seed in seeds:
        bench = _as_bench(wired_bench(n, seed), wired_bench(train, seed + 1), seed, found)
        for one in found:
            right[one.name].append(_pairs(bench.scores(one), seed))
    count = math.comb(len(ORDER), 2)
    return [
        Trial(
            "M2",
            name,
            min(good for good, _ in per_seed) / count,
            f"all {count} pairs of maps in their known order",
            all(good == count for good, _ in per_seed),
            "; ".join(dict.fromkeys(wrong for _, each in per_seed for wrong in each)),
            n,
            tuple(seeds),
        )
        for name, per_seed in right.items()
    ]


def _as_bench(drawn: Wired, others: Wired, seed: int, found: Sequence[Contender]) -> Bench:
    train = as_split("train", others.images, others.labels, [f"train {sample}" for sample in others.ids])
    labels = torch.from_numpy(drawn.labels)
    return Bench(
        "wired",
        seed,
        Batch(drawn.images, labels, drawn.ids),
        labels,
        Judges(WiredNet().eval(), train, mean=[MEAN], seed=seed),
        drawn.maps(seed),
        asked_by_view(found),
    )


def _pairs(scores: np.ndarray, seed: int) -> tuple[int, list[str]]:
    """Count the pairs in the right order, and name the others."""
    told = paired_bootstrap(scores, level=_LEVEL, draws=2000, seed=seed)
    wrong = []
    for better, worse in combinations(range(len(ORDER)), 2):
        low, high = told.difference_low[better, worse], told.difference_high[better, worse]
        equal = {ORDER[better], ORDER[worse]} == {"random", "constant"}
        if not (low <= 0 <= high if equal else low > 0):
            wrong.append(f"{ORDER[better]} {'=' if equal else '>'} {ORDER[worse]} fails")
    return math.comb(len(ORDER), 2) - len(wrong), wrong


def _game(strengths: np.ndarray, label: int) -> np.ndarray:
    """Return the probability of the label for each set of cells kept: (4, cells) -> (2^cells,)."""
    sums = np.zeros((1, len(strengths)))
    for cell in strengths.T:
        sums = np.concatenate([sums, sums + _GAIN * cell])
    odds = np.exp(sums - sums[:, [label]]).sum(axis=1)
    return np.asarray(1 / odds)


def _on_pixels(cells: np.ndarray) -> np.ndarray:
    """Lay out what each cell holds: (N, 16, 6, 6) -> (N, 24, 24)."""
    laid = cells.reshape(len(cells), GRID, GRID, CELL, CELL).transpose(0, 1, 3, 2, 4)
    return laid.reshape(len(cells), GRID * CELL, GRID * CELL)
