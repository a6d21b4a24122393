"""M16: a table whose informative columns are known, for the strategies that train anew.

Rows are ``x = z a / 10 + d eta + noise / 10`` with standard normal ``z``, ``eta`` and noise, the label is ``z > 0``,
and ``a`` is 0 for all but four of 16 columns (the synthetic case of Hooker et al. 2019). A linear network is trained
anew for every set of removed columns, by the very code that ROAR and KAR run. Removing the informative columns first
must cost most, removing them last least, and a random choice lies between.

Here ROAR explains the linear network by its weights. Recursive ROAR (Madsen et al., Findings of EMNLP 2022) explains
again after each step, so that a column that stands in for a removed one is found; it must not do worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.retrain import Retrainer
from roadworthy.evaluation.retrained import as_split
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import RANDOM, Degrader, MapRows, Treatment
from roadworthy.imputation import Mean
from roadworthy.model import Recipe
from roadworthy.rng import numpy_generator, seeded_globals
from roadworthy.statistics import area

COLUMNS, INFORMATIVE = 16, 4
STEPS = (1, 2, 3, 4, 8, 12)
"""Numbers of columns removed."""
RECIPE = Recipe(epochs=3, learning_rate=0.3, batch_size=512, weight_decay=0.0, schedule="one-cycle")


@dataclass(frozen=True)
class Table:
    """Rows, labels, and what each column is worth.

    Attributes:
        rows: float32 (N, 16).
        labels: int64 (N,), 0 or 1.
        informative: float64 (16,), the size of a column's part in the label; 0 for all but four.
    """

    rows: torch.Tensor
    labels: np.ndarray
    informative: np.ndarray


def drawn_table(rows: int, seed: int) -> Table:
    """Draw a table.

    Example:
        >>> table = drawn_table(100, seed=0)
        >>> table.rows.shape, int((table.informative > 0).sum())
        (torch.Size([100, 16]), 4)
    """
    generator = numpy_generator(seed, "selftest-table")
    a, d = generator.standard_normal((2, COLUMNS))
    a[INFORMATIVE:] = 0
    places = generator.permutation(COLUMNS)  # so that no draw by position can favour the informative ones
    z, eta = generator.standard_normal((2, rows, 1))
    noise = generator.standard_normal((rows, COLUMNS))
    values = z * a / 10 + eta * d + noise / 10
    return Table(
        torch.from_numpy(values[:, places].astype(np.float32)), (z[:, 0] > 0).astype(np.int64), np.abs(a[places])
    )


CHAIN = (
    ("recursive", "<=", "roar"),
    ("roar", "<=", "truth"),
    ("truth", "<", "random"),
    ("random", "<", "worst"),
)
"""How the areas under the accuracy must lie."""


def tabular(*, rows: int = 20_000, seeds: Sequence[int] = (0, 1, 2, 3, 4)) -> Trial:
    """M16: hold ROAR, and recursive ROAR, against columns that are known to be informative.

    Args:
        rows: of each table; half of them are for training.
        seeds: of table, networks and draws.

    Returns:
        ``measured`` is the number of links of the chain recursive <= ROAR <= truth < random < worst that hold for the
        mean areas over the seeds; the last two must hold for every seed too. The note has the mean areas, and for how
        many seeds each link holds.
    """
    areas = [_Case(drawn_table(rows, seed), seed).areas() for seed in seeds]
    mean = {name: float(np.mean([each[name] for each in areas])) for name in areas[0]}
    held = [_holds(mean, link) for link in CHAIN]
    each_seed = [sum(_holds(each, link) for each in areas) for link in CHAIN]
    always = [count == len(seeds) for link, count in zip(CHAIN, each_seed, strict=True) if link[1] == "<"]
    shown = ", ".join(
        f"{' '.join(link)} {'holds' if fits else 'FAILS'} ({count} of {len(seeds)} seeds)"
        for link, fits, count in zip(CHAIN, held, each_seed, strict=True)
    )
    return Trial(
        "M16",
        "roar",
        float(sum(held)),
        "4 links: recursive <= roar <= truth < random < worst in the mean area, the strict ones for every seed",
        all(held) and all(always),
        f"mean areas: {', '.join(f'{name} {value:.4f}' for name, value in mean.items())}; {shown}",
        rows,
        tuple(seeds),
    )


def _holds(areas: Mapping[str, float], link: tuple[str, str, str]) -> bool:
    lower, sign, upper = link
    return areas[lower] < areas[upper] or (sign == "<=" and areas[lower] == areas[upper])


class _Case:
    """One table with its trainings."""

    def __init__(self, table: Table, seed: int) -> None:
        half = len(table.rows) // 2
        self.table, self.seed = table, seed
        parts = (("train", slice(half)), ("test", slice(half, None)))
        train, test = (as_split(name, table.rows[rows], table.labels[rows]) for name, rows in parts)
        self.retrainer = Retrainer(_linear, train, test, RECIPE, seed=seed)
        self.spread = table.rows[:half].std(dim=0).numpy()
        fractions = tuple(step / COLUMNS for step in STEPS)
        strategy = Strategy.of("roar", fractions=fractions)
        filler = Filler(Mean(), table.rows[:half].mean(dim=0), seed, torch.device("cpu"))
        self.degrader = Degrader(strategy, filler)

    def areas(self) -> dict[str, float]:
        """Return the area under the accuracy for each order of removal."""
        intact, network = self._trained(Treatment())
        generator = numpy_generator(self.seed, "selftest-table-order")
        truth = self.table.informative + 1e-9 * generator.permutation(COLUMNS)  # columns worth nothing in some order
        orders = {"truth": truth, "roar": self._weights(network), "worst": -truth}
        curves = {
            name: [self._trained(_at(name, step), order)[0] for step in STEPS] for name, order in orders.items()
        }
        curves[RANDOM] = [self._trained(_at(RANDOM, step))[0] for step in STEPS]
        curves["recursive"] = self._recursive(network)
        shares = [0, *self.degrader.strategy.fractions]
        return {name: float(area(shares, [intact, *curve])) for name, curve in curves.items()}

    def _recursive(self, network: nn.Module) -> list[float]:
        """Explain the network of each step anew to choose what goes at the next."""
        gone = np.zeros(COLUMNS)  # what went first stays first
        curve = []
        for step in STEPS:
            left = np.where(gone > 0, -1.0, self._weights(network))
            for column in np.argsort(-left)[: step - int((gone > 0).sum())]:
                gone[column] = COLUMNS - (gone > 0).sum()
            accuracy, network = self._trained(_at("recursive", step), gone)
            curve.append(accuracy)
        return curve

    def _weights(self, network: nn.Module) -> np.ndarray:
        """Return how much each column moves the network's answer."""
        weight = network.weight.detach().numpy()  # type: ignore[operator]
        return np.abs(weight[1] - weight[0]) * self.spread

    def _trained(self, treatment: Treatment, order: np.ndarray | None = None) -> tuple[float, nn.Module]:
        train, test = (
            None
            if order is None
            else MapRows(treatment.method, np.broadcast_to(order, (len(split), COLUMNS)), split.ids)
            for split in (self.retrainer.train, self.retrainer.test)
        )
        trained, network = self.retrainer.run(treatment, self.degrader, train_maps=train, test_maps=test)
        return float(trained.top1.mean()), network


def _at(method: str, step: int) -> Treatment:
    return Treatment.of(method, "morf", step / COLUMNS)


def _linear(seed: int) -> nn.Module:
    with seeded_globals(seed, "selftest-linear"):
        return nn.Linear(COLUMNS, 2)
