"""A strategy: one point in the space of removal-based evaluations. Published methods are presets of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

from roadworthy.errors import InputError
from roadworthy.evaluation.result import READOUTS
from roadworthy.imputation import NOISE
from roadworthy.model.normalized import IMAGENET
from roadworthy.registry import Registry
from roadworthy.removal.order import SIGNS
from roadworthy.removal.reduction import REDUCTIONS
from roadworthy.types import Order, Reduction, Sign, Unit

Training: TypeAlias = Literal["none", "finetune", "retrain"]
JUDGES: dict[str, str] = {"none": "untouched", "finetune": "fine-tuned"}
"""What each way of asking without retraining is called in a result."""


@dataclass(frozen=True)
class Strategy:
    """How an evaluation removes, fills, asks and scores.

    Fields that are not given are those of ``road``.

    Attributes:
        name: the preset it came from.
        training: ``"none"``: the model is asked as it is; ``"finetune"``: one copy of it is, fine-tuned on random
            masks (:func:`roadworthy.evaluation.fine_tuned`); ``("none", "finetune")``: both are; ``"retrain"``: a new
            one is trained for every method, order and share, on training images degraded in the same way.
        order: ``"morf"``, ``"lerf"`` or ``"both"``.
        imputer: name of an imputer, a callable ``(images, removed, generator) -> images``, or an
            :class:`roadworthy.imputation.Imputer`; or a tuple of them, each a view of its own.
        noise: sd of the Gaussian noise that noisy-linear adds to removed units, in pixel units.
        fractions: shares removed, in (0, 1]; 0 is always evaluated first.
        unit: ``"pixel"`` or ``"channel"``.
        sign: ``"signed"``, ``"abs"``, ``"positive"`` or ``"squared"``.
        reduction: how the channels of a map are reduced.
        readout: the readout that headlines the result; all are recorded.
        mean: what the mean fill puts in, per channel in pixel units; None takes the training mean.
        ties: how equal values are ordered: ``"random"`` (a draw per image) or ``"first"`` (by position, rows from
            the top, channel by channel within a pixel).
        random_masks: for the random baseline of a retrained evaluation: ``"fixed"`` (one mask an image, exact
            count, as every method has), ``"redrawn"`` (exact count, drawn anew every epoch) or ``"bernoulli"`` (drawn
            anew every epoch, each unit on its own with probability p, as published).
        alpha: a unit that the order takes at share p is removed with this probability only (F-Fidelity); 1 removes
            all of them.
        beta: the largest share of units that is removed on average: at share p the probability is
            ``min(alpha, beta / p)``.
        average: how the shares of a curve make a score: ``"area"`` (trapezoid on the true shares, from 0) or
            ``"shares"`` (each share removed counts alike).
        repeats: how often ties, noise and the draws of ``alpha`` are drawn anew where the caller does not say.

    Example:
        >>> Strategy.of("road", order="morf").orders
        ('morf',)
    """

    name: str = "road"
    training: Training | tuple[Training, ...] = "none"
    order: Order | Literal["both"] = "both"
    imputer: Any = "noisy-linear"
    noise: float = NOISE
    fractions: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    unit: Unit = "pixel"
    sign: Sign = "signed"
    reduction: Reduction = "sum"
    readout: str = "top1"
    mean: tuple[float, ...] | None = None
    ties: Literal["random", "first"] = "random"
    random_masks: Literal["fixed", "redrawn", "bernoulli"] = "fixed"
    alpha: float = 1.0
    beta: float = 1.0
    average: Literal["area", "shares"] = "area"
    repeats: int = 1

    def __post_init__(self) -> None:
        self._check_training()
        _one_of("order", self.order, ("morf", "lerf", "both"))
        _one_of("unit", self.unit, ("pixel", "channel"))
        _one_of("sign", self.sign, SIGNS)
        _one_of("reduction", self.reduction, REDUCTIONS)
        _one_of("readout", self.readout, READOUTS)
        _one_of("ties", self.ties, ("random", "first"))
        _one_of("average", self.average, ("area", "shares"))
        _one_of("random_masks", self.random_masks, ("fixed", "redrawn", "bernoulli"))
        if isinstance(self.noise, (bool, str)) or not 0 <= self.noise < math.inf:
            raise InputError(
                f"noise: got {self.noise!r}, expected a standard deviation of at least 0, in pixel units"
            )
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if isinstance(value, (bool, str)) or not 0 < value <= 1:
                raise InputError(f"{name}: got {value!r}, expected a probability in (0, 1]")
        object.__setattr__(self, "fractions", _checked_fractions(self.fractions))

    def _check_training(self) -> None:
        trainings = self.training if isinstance(self.training, tuple) else (self.training,)
        for training in trainings:
            _one_of("training", training, ("none", "finetune", "retrain"))
        if not trainings or len(set(trainings)) < len(trainings) or ("retrain" in trainings and len(trainings) > 1):
            raise InputError(
                f"training: got {self.training!r}, expected 'none', 'finetune' or 'retrain', or ('none', 'finetune')"
            )
        if not self.imputers:
            raise InputError("imputer: got none, expected at least one")
        if "retrain" in trainings and (len(self.imputers) > 1 or self.alpha < 1 or self.beta < 1):
            raise InputError("training: 'retrain' takes one imputer, and alpha and beta of 1")

    @property
    def judges(self) -> tuple[str, ...]:
        """Who is asked without retraining: ``"untouched"``, ``"fine-tuned"``, or both."""
        trainings = self.training if isinstance(self.training, tuple) else (self.training,)
        return tuple(JUDGES[training] for training in trainings if training in JUDGES)

    @property
    def imputers(self) -> tuple[Any, ...]:
        """What fills removed units, one or several."""
        return self.imputer if isinstance(self.imputer, tuple) else (self.imputer,)

    @property
    def removes_all(self) -> bool:
        """Whether every unit that the order takes is removed, so that masks nest."""
        return self.alpha == 1 and self.beta == 1

    def removal_probability(self, fraction: float) -> float:
        """Return the probability with which a unit is removed that the order takes at a share."""
        return min(self.alpha, self.beta / fraction)

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders to run, MoRF first."""
        return ("morf", "lerf") if self.order == "both" else (self.order,)

    @property
    def all_fractions(self) -> tuple[float, ...]:
        """The shares with 0 in front."""
        return (0.0, *self.fractions)

    @staticmethod
    def of(strategy: str | Strategy, **changes: Any) -> Strategy:
        """Return a preset with some fields changed; a change that is None is left out.

        Raises:
            InputError: an unknown preset (with a suggestion), or a value outside a field's range.
        """
        if isinstance(strategy, str):
            strategy = presets[strategy]
        elif not isinstance(strategy, Strategy):
            raise InputError(f"strategy: got {type(strategy).__name__}, expected a name or a Strategy")
        return replace(strategy, **{key: value for key, value in changes.items() if value is not None})

    def settings(self) -> dict[str, Any]:
        """Return the fields as a JSON-serialisable mapping; callables by their name."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        found["strategy"] = found.pop("name")
        del found["repeats"]  # a result states its own
        found["fractions"] = list(self.fractions)
        found["mean"] = None if self.mean is None else list(self.mean)
        found["imputer"] = " + ".join(map(imputer_name, self.imputers))
        found["training"] = " + ".join(self.training) if isinstance(self.training, tuple) else self.training
        return found


def default_strategy(*, fine_tuned: bool = False) -> Strategy:
    """Return what asks where the caller names no strategy: the preset ``symmetric``, of the model as it is.

    The self-test (``roadworthy audit self``) decides. On cases with known answers the gain by probability at shares
    near none and near all keeps built maps closer to their true order than ``road``, an area by accuracy, and fails
    fewer tests; asked of the model as it is it does as well as asked of a copy. A copy costs a training, so one is
    asked only where the caller gave what it takes. The table is in the documentation, under audits.

    Args:
        fine_tuned: ask a copy fine-tuned on random masks as well.

    Example:
        >>> default_strategy().judges, default_strategy().imputers, default_strategy().orders
        (('untouched',), ('mean', 'noisy-linear'), ('morf', 'lerf'))
    """
    symmetric = presets["symmetric"]
    return symmetric if fine_tuned else replace(symmetric, training="none")


def imputer_name(imputer: Any) -> str:
    """Return what an imputer is called in settings and tables."""
    return imputer if isinstance(imputer, str) else getattr(imputer, "name", None) or _name_of(imputer)


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _one_of(field: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InputError(f"{field}: got {value!r}, expected one of {', '.join(map(repr, allowed))}")


def _checked_fractions(fractions: Sequence[float]) -> tuple[float, ...]:
    try:
        values = [float(fraction) for fraction in fractions]
    except (TypeError, ValueError) as error:
        raise InputError(f"fractions: got {fractions!r}, expected shares removed such as (.1, .3, .5)") from error
    if not values:
        raise InputError("fractions: got none, expected at least one share in (0, 1]")
    bad = [value for value in values if not (math.isfinite(value) and 0.0 <= value <= 1.0)]
    if bad:
        hint = " They look like percentages: divide by 100." if all(1 < value <= 100 for value in bad) else ""
        raise InputError(f"fractions: got {bad}, expected shares removed between 0 and 1.{hint}")
    return tuple(sorted({value for value in values if value > 0.0})) or _only_zero()


def _only_zero() -> tuple[float, ...]:
    raise InputError("fractions: got only 0, which is always evaluated; expected at least one share in (0, 1]")


presets: Registry[Strategy] = Registry("strategy")
presets.add(
    "road",
    Strategy(),
    "remove and debias: no retraining, both orders, noisy linear imputation (Rong et al. 2022)",
)
presets.add(
    "symmetric",
    Strategy(
        name="symmetric",
        training=("none", "finetune"),
        imputer=("mean", "noisy-linear"),
        # near none and near all removed only the top of a map decides: what goes first, and what is left last
        fractions=(0.05, 0.1, 0.3, 0.7, 0.9, 0.95),
        readout="probability",
        average="shares",
    ),
    "both orders, two fills, asked of the model as it is (this much is the default) and of one copy fine-tuned on "
    "random masks (Bluecher et al. 2024)",
)
presets.add(
    "f-fidelity",
    Strategy(
        name="f-fidelity",
        training="finetune",
        imputer="mean",
        fractions=tuple(round(0.05 * step, 2) for step in range(1, 20)),
        alpha=0.5,
        beta=0.1,
        repeats=50,
    ),
    "Fid+ and Fid-: random parts of the most, or least, relevant units removed, at most a tenth on average, on a "
    "copy fine-tuned on as many (Zheng et al. 2025)",
)
presets.add(
    "pixel-flipping",
    Strategy(name="pixel-flipping", order="morf", imputer="zero", readout="probability"),
    "most relevant pixels set to black, probability of the target class (Bach et al. 2015)",
)
presets.add(
    "deletion",
    Strategy(name="deletion", order="morf", imputer="mean", readout="probability"),
    "most relevant pixels set to the data's mean, probability of the target class (Petsiuk et al. 2018)",
)
presets.add(
    "insertion",
    Strategy(
        name="insertion",
        order="lerf",
        imputer="blur",
        readout="probability",
        fractions=(0.1, 0.3, 0.5, 0.7, 0.9, 1.0),
    ),
    "most relevant pixels put into a blurred image: LeRF from nothing to all removed (Petsiuk et al. 2018)",
)
presets.add(
    "roar",
    Strategy(name="roar", training="retrain", order="morf", imputer="mean"),
    "remove and retrain: what a new model can still reach without the most relevant pixels (Hooker et al. 2019)",
)
presets.add(
    "kar",
    Strategy(name="kar", training="retrain", order="lerf", imputer="mean"),
    "keep and retrain: what a new model can reach without the least relevant pixels (Hooker et al. 2019)",
)
presets.add(
    "roar-2019",
    Strategy(
        name="roar-2019",
        training="retrain",
        order="morf",
        imputer="mean",
        unit="channel",
        sign="squared",
        mean=tuple(IMAGENET[0]),
        ties="first",
        random_masks="bernoulli",
    ),
    "ROAR as its published code does it: each channel value on its own, squared maps, ImageNet's mean",
)
