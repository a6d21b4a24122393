"""The gate of retraining scores: does a mask add anything to the pixels it shows?

A network retrained on the pixels that an explanation keeps (KAR) may read the class off the *shape* of what is kept,
with no evidence in the pixels: Puli et al. (NeurIPS 2024) prove that ROAR and its relatives reward such explanations.
A judge that was fine-tuned on random masks has no way to have learnt that code, and sees the same pixels. So what the
retrained network is ahead of the judge on the very same degraded images is what the mask tells it beyond them.

The retrained network starts from the judge's weights, so both know the images alike and a few epochs suffice; a start
from scratch (``build=``) finds the same gaps and takes longer. Explanations whose masks tell the class and whose
pixels show it too have no gap: there is nothing left to add. The judge must know masks well, or it falls behind for
want of training and not of the code: train it by ``judge_recipe(n, GATE_JUDGE)``, for longer than that of an
evaluation. What it is behind all the same is measured on random masks, which hold no code (the *control*), and taken
off every gap: what is left is what counts. A judge that is ahead there has no weakness, and nothing is taken off.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, SolverError
from roadworthy.evaluation.audit.gate_rule import THRESHOLD, gate_verdict
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.epochs import GATE
from roadworthy.evaluation.finetune import RATES, judge_recipe
from roadworthy.evaluation.retrain import Retrainer, Trained, score
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.forward import device_of
from roadworthy.imputation import Imputer, resolve_imputer
from roadworthy.model import Recipe
from roadworthy.records import Split
from roadworthy.removal import units_removed
from roadworthy.rng import resolve_seed
from roadworthy.statistics import paired_bootstrap
from roadworthy.types import Normalize, Output, Progress, Reduction, Seed, Sign, Unit

__all__ = ["KEEPS", "THRESHOLD", "Gate", "encoding_gap", "gate_verdict"]

KEEPS = (0.06, 0.12)
"""Shares kept. So little that what is shown seldom suffices, and a mask that tells the class has much to add."""
_BEHIND = 0.05  # training accuracy that a network may be short of the judge, on what it was trained on


def encoding_gap(
    judge: torch.nn.Module,
    train: Split,
    test: Split,
    maps: Mapping[str, tuple[Any, Any]],
    *,
    keeps: Sequence[float] = KEEPS,
    control: Mapping[float, np.ndarray] | None = None,
    level: float = 0.95,
    draws: int = 2000,
    progress: Progress | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Train a network on what each explanation keeps, and hold it against the judge on the same degraded test images.

    Args:
        judge: a copy of the model, from :func:`~roadworthy.evaluation.finetune.fine_tuned`, trained as said above and
            with the same fill; it is not changed.
        train: training samples.
        test: test samples, none of them in ``train``.
        maps: for each method, array-likes (N, *units) or (N, C, ...) of the training and of the test samples.
        keeps: shares of the units kept; the least relevant others are removed.
        control: what :meth:`Gate.random_hits` returned for the same judge, samples, shares and options; by default it
            is worked out here.
        level: confidence level of the intervals.
        draws: bootstrap draws, over test samples.
        progress: called with the number of samples just trained on.
        **options: of :class:`Gate`: fill, recipe, seed and so on.

    Returns:
        A row for each method and share kept: ``method``, ``keep``, ``imputer``, ``kar`` and ``judge`` (accuracies),
        ``gap`` (the former minus the latter); ``control_kar``, ``control_judge`` and ``control`` (the same on random
        masks); ``beyond`` (``gap`` minus ``control`` where that is above 0); ``gap_low``, ``gap_high``,
        ``beyond_low`` and ``beyond_high`` (paired bootstrap over test samples; the spread between trainings is not in
        it); and ``n``.

    Raises:
        InputError: no maps, shares that keep nothing or everything, or a control of other samples or shares.
        AttributionError: maps that do not fit the samples, or are not finite.

    Source:
        Puli et al., "Explanations that reveal all through the definition of encoding" (NeurIPS 2024); retraining on
        kept pixels: Hooker et al., "A Benchmark for Interpretability Methods in Deep Neural Networks" (NeurIPS 2019).

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("planted:n=80,test=8")
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
        >>> maps = {"noise": tuple(np.random.default_rng(0).random((n, 24, 24)) for n in (80, 8))}
        >>> [sorted(row)[:3] for row in encoding_gap(net, data.train, data.test, maps, keeps=(0.1,))]
        [['beyond', 'beyond_high', 'beyond_low']]
    """
    gate = Gate(judge, train, test, **options)
    return gate.gaps(maps, keeps=keeps, control=control, level=level, draws=draws, progress=progress)


@dataclass(frozen=True)
class Gate:
    """A judge, and networks that are trained on what a mask keeps, asked about the same images.

    Attributes:
        judge: what networks are held against.
        train: training samples.
        test: test samples.
        imputer: what fills what is not kept.
        mean: training mean per channel, in pixel units; by default that of ``train``.
        recipe: how the networks are trained; by default :func:`~roadworthy.evaluation.finetune.judge_recipe` with
            three epochs at least. One that stays behind the judge on its own training samples is trained again at a
            fifth of the rate.
        build: returns a network to train, for a seed; by default a copy of the judge.
        unit: ``"pixel"`` or ``"channel"``.
        sign: how the values of a map are ordered.
        reduction: how its channels are reduced.
        seed: of ties, fills, random masks and training.
        normalize: ``(mean, std)`` for networks that do not normalise by themselves.
        output: how to pick the class scores.
        device: where to train; None leaves networks where they are.
    """

    judge: torch.nn.Module
    train: Split
    test: Split
    imputer: str | Imputer = "mean"
    mean: Sequence[float] | torch.Tensor | None = None
    recipe: Recipe | None = None
    build: Callable[[int], torch.nn.Module] | None = None
    unit: Unit = "pixel"
    sign: Sign = "signed"
    reduction: Reduction = "sum"
    seed: Seed = 0
    normalize: Normalize | None = None
    output: Output = None
    device: str | torch.device | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", resolve_seed(self.seed))

    @cached_property
    def degrader(self) -> Degrader:
        """What degrades the images of both."""
        values = torch.as_tensor(self.train.statistics()[0] if self.mean is None else self.mean)
        fields: dict[str, Any] = {"unit": self.unit, "sign": self.sign, "reduction": self.reduction}
        strategy = Strategy.of("kar", imputer=self.imputer, random_masks="fixed", **fields)
        place = device_of(self.judge, self.device)
        return Degrader(strategy, Filler(resolve_imputer(self.imputer), values, self._seed, place))

    def gaps(
        self,
        maps: Mapping[str, Sequence[Any]],
        *,
        keeps: Sequence[float] = KEEPS,
        control: Mapping[float, np.ndarray] | None = None,
        level: float = 0.95,
        draws: int = 2000,
        progress: Progress | None = None,
    ) -> list[dict[str, Any]]:
        """Return the rows of :func:`encoding_gap`, which says what is taken."""
        _check(maps, keeps, self.train)
        known = self.random_hits(keeps, progress) if control is None else control
        absent = [keep for keep in keeps if keep not in known or np.shape(known[keep]) != (2, len(self.test))]
        if absent:
            raise InputError(
                f"control: it has nothing for {len(self.test)} test samples with {absent[0]:g} kept; work it out on "
                "the same samples and shares"
            )
        rows = []
        for name, pair in maps.items():
            parts = [
                MapRows(name, array, split.ids) for array, split in zip(pair, (self.train, self.test), strict=True)
            ]
            for keep in keeps:
                hits = self.hits(Treatment("estimator", name, "lerf", 1 - keep), parts, progress)
                rows.append(
                    {"method": name, "keep": float(keep), "imputer": self.degrader.filler.imputer.name}
                    | _gap(hits, np.asarray(known[keep]), level=level, draws=draws, seed=self._seed)
                )
        return rows

    def random_hits(
        self, keeps: Sequence[float] = KEEPS, progress: Progress | None = None
    ) -> dict[float, np.ndarray]:
        """Ask both about random masks, one for each image: there is no code in them, and the judge knows such masks.

        Args:
            keeps: shares of the units kept.
            progress: called with the number of samples just trained on.

        Returns:
            For each share (2, N) hits on the test samples: of the network trained on such masks, and of the judge.
        """
        return {keep: self.hits(Treatment("random", fraction=1 - keep), (None, None), progress) for keep in keeps}

    def hits(
        self, treatment: Treatment, maps: Sequence[MapRows | None], progress: Progress | None = None
    ) -> np.ndarray:
        """Train a network on what a treatment keeps, and ask it and the judge.

        Args:
            treatment: what is kept.
            maps: of the training and of the test samples; None where random masks need none.
            progress: called with the number of samples just trained on.

        Returns:
            (2, N) float64, 1 where the answer is right: of the network, and of the judge.
        """
        trained = self._trained(treatment, maps, progress)
        shown = self.degrader.split(self.test, treatment, maps[1])
        return np.stack([trained.top1, self._judged(shown)]).astype(np.float64)

    def _judged(self, split: Split) -> np.ndarray:
        return np.asarray(score(self.judge, split, normalize=self.normalize, output=self.output)["top1"])

    def _trained(self, treatment: Treatment, maps: Sequence[MapRows | None], progress: Progress | None) -> Trained:
        """Train on what is kept; a network that a rate ruins would let every mask pass, so slower ones are tried."""
        few = self.degrader.split(self.train.take(512, self._seed), treatment, maps[0])
        known = float(self._judged(few).mean())
        chosen = judge_recipe(len(self.train), GATE) if self.recipe is None else self.recipe
        found: list[Trained] = []
        for rate in RATES:
            retrainer = self._retrainer(replace(chosen, learning_rate=rate * chosen.learning_rate))
            with contextlib.suppress(SolverError):  # a loss that is no longer finite
                trained, _ = retrainer.run(
                    treatment, self.degrader, train_maps=maps[0], test_maps=maps[1], progress=progress
                )
                found.append(trained)
                if trained.history.accuracy[-1] >= known - _BEHIND:
                    return trained
        if not found:
            raise ModelError(
                "encoding_gap: no network could be trained on what is kept; pass recipe= with a lower rate"
            )
        return max(found, key=lambda trained: trained.history.accuracy[-1])

    def _retrainer(self, recipe: Recipe) -> Retrainer:
        return Retrainer(
            self.build or (lambda _: copy.deepcopy(self.judge)),
            self.train,
            self.test,
            recipe,
            seed=self._seed,
            normalize=self.normalize,
            output=self.output,
            device=self.device,
        )

    @property
    def _seed(self) -> int:
        return resolve_seed(self.seed)


def _check(maps: Mapping[str, Any], keeps: Sequence[float], train: Split) -> None:
    if not maps:
        raise InputError("encoding_gap: no maps were given; pass {name: (training maps, test maps)}")
    for name, pair in maps.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"encoding_gap: {name!r} is no pair (training maps, test maps)")
    units = int(np.prod(train.shape[1:] if len(train.shape) > 1 else train.shape))
    for keep in keeps:
        if not 0 < keep < 1 or units_removed(units, 1 - keep) == 0:
            raise InputError(f"keeps: got {keep!r}, expected shares kept between 0 and 1, such as {KEEPS}")
    if not keeps:
        raise InputError(f"keeps: got none, expected shares kept such as {KEEPS}")


def _gap(hits: np.ndarray, control: np.ndarray, *, level: float, draws: int, seed: int) -> dict[str, Any]:
    weakness = control[0] - control[1]
    weakness = weakness if weakness.mean() > 0 else np.zeros_like(weakness)
    rows = {"gap": hits, "beyond": np.stack([hits[0] - hits[1], weakness])}
    means = {"kar": hits[0], "judge": hits[1], "control_kar": control[0], "control_judge": control[1]}
    found = {name: float(values.mean()) for name, values in means.items()}
    found["control"] = found["control_kar"] - found["control_judge"]
    for name, pair in rows.items():
        told = paired_bootstrap(pair, level=level, draws=draws, seed=seed)
        ends = (told.difference, told.difference_low, told.difference_high)
        found |= {name + end: float(table[0, 1]) for end, table in zip(("", "_low", "_high"), ends, strict=True)}
    return found | {"n": hits.shape[1]}
