"""Samples beside what perturbations make of them, for a person to see whether they are still what they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.types import Layout, Seed

if TYPE_CHECKING:
    from roadworthy.labelfree.perturbation.base import Choice


@dataclass(frozen=True, eq=False)
class PerturbedExamples:
    """Some samples and their perturbed versions.

    Attributes:
        clean: (R, ...), the samples.
        perturbed: (R, P, ...), what the first P passes showed the model.
        ids: R names.
        perturbation: name of the perturbation.
    """

    clean: np.ndarray
    perturbed: np.ndarray
    ids: tuple[str, ...]
    perturbation: str


def perturbed_examples(
    data: Any,
    rows: Sequence[int],
    perturbation: Choice = "gaussian",
    n_passes: int = 4,
    *,
    strength: float | dict[str, float] | None = None,
    seed: Seed = 0,
    model: Callable[..., Any] | None = None,
    ids: Sequence[Any] | None = None,
    batch: Callable[[Any], Any] | None = None,
    layout: Layout = "NCHW",
) -> PerturbedExamples:
    """Return what the first passes of ``perturbation_consistency`` show the model of some samples.

    With the same data, seed, ids and strength the samples are the same bit for bit (without ``adaptive``, which
    changes the strength by what the model says).

    Args:
        data: as for ``perturbation_consistency``; of an iterable, it is read up to the last row.
        rows: positions of the samples.
        perturbation: what is done to them; parts inside the model show nothing and are passed over.
        n_passes: P, how many versions of each.
        strength: in the unit of the perturbation.
        seed: of the draws.
        model: where word vectors and special token ids are taken from.
        ids: names of all samples of the data; positions by default.
        batch: as for ``perturbation_consistency``.
        layout: of the data; the result has channels first.

    Returns:
        The samples, clean and perturbed.

    Raises:
        InputError: rows that the data do not have, or a perturbation that changes the model alone.

    Example:
        >>> shown = perturbed_examples(np.zeros((3, 1, 4, 4), np.float32), [0, 2], n_passes=5)
        >>> shown.clean.shape, shown.perturbed.shape
        ((2, 1, 4, 4), (2, 5, 1, 4, 4))
    """
    from roadworthy.labelfree.passes import Disturber, fit_parts
    from roadworthy.labelfree.perturbation.base import InputPerturbation, resolve
    from roadworthy.labelfree.reading import Reader
    from roadworthy.rng import resolve_seed, seeded_globals

    parts = resolve(perturbation, strength)
    if not any(isinstance(part, InputPerturbation) for part in parts):
        raise InputError(
            f"perturbation: {parts[0].name} changes the model, not the samples; there is nothing to show"
        )
    if isinstance(n_passes, bool) or n_passes < 1:
        raise InputError(f"n_passes: got {n_passes!r}, expected at least 1")
    with seeded_globals(resolve_seed(seed), "labelfree"):
        reader = Reader(data, ids=ids, batch=batch, layout=layout)
        parts, _ = fit_parts(parts, reader, model)
        chunk = reader.take([int(row) for row in rows])
        disturber = Disturber(parts, resolve_seed(seed))
        draws, strengths = disturber.draws(chunk.ids), disturber.strengths(np.ones(len(chunk)))
        shown = [disturber.disturbed(chunk.values, strengths, draws).clone().numpy() for _ in range(n_passes)]
    name = "+".join(part.name for part in parts)
    return PerturbedExamples(chunk.values.numpy(), np.stack(shown, axis=1), chunk.ids, name)
