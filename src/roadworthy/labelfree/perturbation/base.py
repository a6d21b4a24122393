"""What a perturbation is, the table of named ones, and how a user's choice becomes a list of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeAlias

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.registry import Registry


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of the data and the model before anything is perturbed.

    Attributes:
        valid_range: smallest and largest value that the data can take, or None.
        scale: what one unit of noise is, to be broadcast over (N, ...); None takes the data's own unit.
        mean: of the data, to be broadcast likewise, or None.
        vectors: (V, D), the model's own embedding table, or None.
        special: token ids that stand for no word: padding, begin, end, ...
        pad: the token id of padding, or None.
        mask: the token id of a masked word, or None.
    """

    valid_range: tuple[float, float] | None = None
    scale: torch.Tensor | None = None
    mean: torch.Tensor | None = None
    vectors: torch.Tensor | None = None
    special: tuple[int, ...] = ()
    pad: int | None = None
    mask: int | None = None


class Perturbation(abc.ABC):
    """A small disturbance that should not change what a sample is. A frozen dataclass; its fields are its settings.

    Attributes:
        name: public name.
        unit: what ``strength`` is measured in; empty for a kind without strength.
        strength: how strong the disturbance is; None for a kind without strength.
    """

    name: ClassVar[str]
    unit: ClassVar[str] = ""
    strength: float | None = None

    def with_strength(self, strength: float) -> Perturbation:
        """Return the same perturbation at another strength.

        Raises:
            InputError: the kind has no strength, or a value that is negative or not finite.
        """
        if not self.unit:
            raise InputError(f"strength: {self.name} has none; leave strength= out, or name another part with it")
        if isinstance(strength, bool) or not 0 <= float(strength) < float("inf"):
            raise InputError(f"strength: got {strength!r} for {self.name}, expected at least 0 ({self.unit})")
        return replace(self, strength=float(strength))  # type: ignore[type-var]

    def fitted(self, facts: Facts) -> Self:
        """Return the perturbation with what was left open taken from the facts.

        Raises:
            InputError: something is needed that is not known.
        """
        return self

    def settings(self) -> dict[str, Any]:
        """Return what a result records of it, JSON-serialisable; arrays are left out."""
        named: dict[str, Any] = {} if not self.unit else {"strength": self.strength, "unit": self.unit}
        for entry in fields(self):  # type: ignore[arg-type]
            value = getattr(self, entry.name)
            if entry.name != "strength" and isinstance(value, (int, float, str, tuple)):
                named[entry.name] = list(value) if isinstance(value, tuple) else value
        return named


class InputPerturbation(Perturbation):
    """A perturbation of what the model is given."""

    @abc.abstractmethod
    def check(self, values: torch.Tensor) -> None:
        """Refuse values for which it has no meaning.

        Raises:
            InputError: naming what is expected and the alternatives.
        """

    @abc.abstractmethod
    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Return disturbed samples; the given ones are not changed, and the next pass may overwrite those returned.

        Args:
            values: (N, ...), channels first, or token ids (N, T).
            strength: float32 (N,), of each sample.
            draws: a stream for each sample.
        """


class ModelPerturbation(Perturbation):
    """A perturbation inside the model."""

    @abc.abstractmethod
    def during(self, model: Callable[..., Any], strength: torch.Tensor, draws: Draws) -> AbstractContextManager[None]:
        """Return a block in which the model is disturbed; after it, also after an error, the model is as before.

        Args:
            model: what is called.
            strength: float32 (N,), of each sample.
            draws: a stream for each sample.
        """


Choice: TypeAlias = str | Perturbation | Callable[..., Any] | Sequence[str | Perturbation | Callable[..., Any]]
perturbations: Registry[Callable[..., Perturbation]] = Registry("perturbation")


def knobs(name: str) -> dict[str, Any]:
    """Return the settings of a perturbation kind with their defaults; None where there is none or it is found out.

    Raises:
        InputError: an unknown name.

    Example:
        >>> from roadworthy.labelfree.perturbation import knobs
        >>> knobs("rotation")
        {'strength': 10.0, 'border': 'edge'}
    """
    kind: Any = perturbations[name]
    return {entry.name: None if entry.default is MISSING else entry.default for entry in fields(kind)}


def resolve(choice: Choice, strength: float | dict[str, float] | None = None) -> tuple[Perturbation, ...]:
    """Turn what a user passes as ``perturbation`` into the parts that follow one another in each pass.

    Args:
        choice: a name, several joined by ``+`` (``"rotation+gaussian"``), a perturbation object such as
            ``Gaussian(scale=...)``, a callable that takes a batch and returns it disturbed (a torchvision v2
            transform), or a list of these.
        strength: in the unit of the kind; of several parts with a strength, a dict by name. None takes defaults.

    Returns:
        The parts.

    Raises:
        InputError: an unknown name, another type, or a strength that no part or more than one could take.

    Example:
        >>> from roadworthy.labelfree.perturbation import resolve
        >>> [(part.name, part.strength) for part in resolve("gaussian+dropout", 0.1)]
        [('gaussian', 0.1), ('dropout', None)]
    """
    entries: Sequence[Any] = choice if isinstance(choice, (list, tuple)) else [choice]
    parts = [part for entry in entries for part in _parts(entry)]
    if not parts:
        raise InputError(f"perturbation: got {choice!r}, expected at least one; known: {', '.join(perturbations)}")
    if strength is None:
        return tuple(parts)
    if not isinstance(strength, dict):
        able = [part.name for part in parts if part.unit]
        if len(able) > 1:
            raise InputError(
                f"strength: got {strength!r}, but {' and '.join(able)} have strengths in different units; pass a "
                f"dict such as {{{able[0]!r}: {strength!r}}}"
            )
        strength = {(able or [parts[0].name])[0]: strength}
    unknown = [name for name in strength if name not in [part.name for part in parts]]
    if unknown:
        raise InputError(f"strength: no part is named {unknown[0]!r}; parts: {', '.join(p.name for p in parts)}")
    return tuple(p.with_strength(strength[p.name]) if p.name in strength else p for p in parts)


def _parts(entry: str | Perturbation | Callable[..., Any]) -> list[Perturbation]:
    if isinstance(entry, Perturbation):
        return [entry]
    if isinstance(entry, str):
        return [perturbations[name.strip()]() for name in entry.split("+")]
    if callable(entry) and not isinstance(entry, type):
        from roadworthy.labelfree.perturbation.function import Function

        return [Function(entry)]
    raise InputError(
        f"perturbation: got {entry!r}, expected a name ({', '.join(perturbations)}), several joined by '+', a "
        "perturbation object such as Gaussian(scale=...), or a callable that takes a batch and returns it disturbed"
    )


def per_sample(strength: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Give a value of each sample (N,) the axes that it needs to be broadcast over (N, ...)."""
    return strength.view(-1, *[1] * (values.ndim - 1))


def need_floating(name: str, values: torch.Tensor) -> None:
    """Refuse token ids and other whole numbers.

    Raises:
        InputError: naming the perturbations of token ids.
    """
    if not values.is_floating_point():
        raise InputError(
            f"{name}: got {values.dtype} values, expected real numbers; for token ids use word-neighbours, "
            "word-deletion, word-swap, word-shuffle, hidden-noise or dropout"
        )


def need_images(name: str, values: torch.Tensor) -> None:
    """Refuse all but images (N, C, H, W).

    Raises:
        InputError: naming the perturbations of other data.
    """
    need_floating(name, values)
    if values.ndim != 4:
        raise InputError(
            f"{name}: got values of shape {tuple(values.shape)}, expected images (N, C, H, W); for series use "
            "time-warp, frequency-noise or slice, for tables gaussian or occlusion"
        )
