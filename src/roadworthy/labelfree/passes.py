"""The passes of perturbation consistency: every piece of the data is read once, and all passes go over it in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError
from roadworthy.forward import untouched
from roadworthy.labelfree.asking import Asker, Features, FeatureTap, data_facts, model_facts
from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.outputs import Outputs, energy_of
from roadworthy.labelfree.perturbation.base import Choice, InputPerturbation, ModelPerturbation, Perturbation, resolve
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.dropout import Dropout
from roadworthy.labelfree.perturbation.ensemble import Ensemble
from roadworthy.labelfree.reading import Chunk, Reader
from roadworthy.records import UNKNOWN_LABEL
from roadworthy.rng import seeded_globals
from roadworthy.types import Layout, Progress

_FEW = 10  # passes; with fewer a coin of two classes looks firm too often


def run_passes(
    models: Sequence[Callable[..., Any]],
    data: Any,
    *,
    perturbation: Choice,
    passes: int,
    strength: float | dict[str, float] | None,
    adaptive: tuple[float, float] | None,
    seed: int,
    features: Features,
    second: Callable[..., Any] | None,
    classes: Sequence[str],
    reading: dict[str, Any],
    asking: dict[str, Any],
    layout: Layout,
    max_batch: int,
    progress: Progress | None,
) -> Consistency:
    """Run a clean pass and the perturbed ones; the arguments are those of ``perturbation_consistency``."""
    parts = resolve(perturbation, strength)
    members = _members(parts, models)
    others = () if second is None else (second,)
    askers = {id(m): Asker(m, layout=layout, max_batch=max_batch, **asking) for m in (*models, *members, *others)}
    reader = Reader(data, layout=layout, max_batch=askers[id(models[0])].classifier.max_batch, **reading)
    parts, notes = fit_parts(parts, reader, models[0])
    disturber = Disturber(parts, seed, _checked_range(adaptive))
    asked = [askers[id(member)] for member in members] or [askers[id(models[0])]] * passes
    tap = FeatureTap(askers[id(models[0])], features)
    whole = Collected()
    with contextlib.ExitStack() as stack:
        # what draws from the global generators, such as a loader that shuffles, is seeded, and they are put back
        stack.enter_context(seeded_globals(seed, "labelfree"))
        for asker in askers.values():
            stack.enter_context(untouched(asker.model))
        for chunk in reader.chunks():
            clean = Answers.of(*tap.logits(chunk))
            if len(models) > 1:
                clean = clean.together([Answers.of(askers[id(model)].logits(chunk)) for model in models[1:]])
            if second is not None:
                clean = clean._replace(second=probabilities_of(askers[id(second)].logits(chunk)))
            sums = _Sums(clean.probabilities)
            for number, said in enumerate(disturber.passes(chunk, sums.confident, asked)):
                sums.add(probabilities_of(said), number)
            whole.add(chunk, clean, sums.result(len(asked)))
            if progress is not None:
                progress(len(chunk))
    return Consistency(
        clean=whole.outputs(classes),
        passes=len(asked),
        perturbation="+".join(part.name for part in parts),
        strength=_only_strength(parts),
        seed=seed,
        has_dropout=disturber.dropout_seen,
        settings={part.name: part.settings() for part in parts},
        notes=(*notes, *whole.notes, *filter(None, [tap.note]), *_notes(parts, len(asked), disturber)),
        **whole.statistics(),
    )


def probabilities_of(logits: torch.Tensor) -> np.ndarray:
    """Return the softmax of logits, float64 (N, C)."""
    return torch.softmax(logits.double(), dim=1).numpy()


class Answers(NamedTuple):
    """What a model says of undisturbed samples.

    Attributes:
        probabilities: float64 (N, C).
        energy: float64 (N,), of the logits.
        features: float32 (N, D), or None.
        second: float64 (N, C), of another model, or None.
    """

    probabilities: np.ndarray
    energy: np.ndarray
    features: np.ndarray | None = None
    second: np.ndarray | None = None

    @staticmethod
    def of(logits: torch.Tensor, features: np.ndarray | None = None) -> Answers:
        """Make them from logits (N, C)."""
        return Answers(probabilities_of(logits), energy_of(logits.double().numpy()), features)

    def together(self, others: Sequence[Answers]) -> Answers:
        """Return the mean answer of an ensemble, with the features of this member."""
        members = [self, *others]
        if len({member.probabilities.shape for member in members}) > 1:
            counts = sorted({member.probabilities.shape[1] for member in members})
            raise InputError(f"model: members of the ensemble answer {counts} classes; all need the same classes")
        return self._replace(
            probabilities=np.mean([member.probabilities for member in members], axis=0),
            energy=np.mean([member.energy for member in members], axis=0),
        )


def fit_parts(
    parts: Sequence[Perturbation], reader: Reader, model: Callable[..., Any] | None
) -> tuple[tuple[Perturbation, ...], tuple[str, ...]]:
    """Give the parts what the data and the model say; return them with what the user should know."""
    facts, notes = data_facts(reader)
    if model is not None:
        told = model_facts(model)
        facts = replace(facts, vectors=told.vectors, special=told.special, pad=told.pad, mask=told.mask)
    fitted = tuple(part.fitted(facts) for part in parts)
    units = any(part.name in ("gaussian", "colour-jitter") for part in parts)
    return fitted, notes if units else ()


class Disturber:
    """Asks models about disturbed samples, pass after pass.

    Args:
        parts: what is done in each pass, in this order.
        seed: of all draws.
        adaptive: (low, high), or None; see ``perturbation_consistency``.

    Attributes:
        dropout_seen: whether dropout drew anything so far; None where it is no part.
    """

    def __init__(self, parts: Sequence[Perturbation], seed: int, adaptive: tuple[float, float] | None = None) -> None:
        self.parts, self.seed, self.adaptive = parts, seed, adaptive
        self.dropout_seen: bool | None = False if any(isinstance(part, Dropout) for part in parts) else None

    def draws(self, ids: Sequence[str]) -> list[Draws]:
        """Return the streams of each part for these samples."""
        return [Draws(self.seed, f"{place} {part.name}", ids) for place, part in enumerate(self.parts)]

    def strengths(self, confidence: np.ndarray) -> list[torch.Tensor]:
        """Return the strength of each part for each sample, float32 (N,)."""
        factor = np.ones(len(confidence))
        if self.adaptive is not None:
            low, high = self.adaptive
            factor = low + (high - low) * confidence
        return [torch.from_numpy((part.strength or 0.0) * factor).float() for part in self.parts]

    def disturbed(
        self, values: torch.Tensor, strengths: Sequence[torch.Tensor], draws: Sequence[Draws]
    ) -> torch.Tensor:
        """Return the values after all parts that change the input."""
        for part, strength, streams in zip(self.parts, strengths, draws, strict=True):
            if isinstance(part, InputPerturbation):
                part.check(values)
                values = part.disturb(values, strength, streams)
        return values

    def passes(self, chunk: Chunk, confidence: np.ndarray, askers: Sequence[Asker]) -> Any:
        """Yield the logits (N, C) of each pass, one for each asker."""
        draws, strengths = self.draws(chunk.ids), self.strengths(confidence)
        for asker in askers:
            values = self.disturbed(chunk.values, strengths, draws)
            with contextlib.ExitStack() as stack:
                for part, strength, streams in zip(self.parts, strengths, draws, strict=True):
                    if isinstance(part, ModelPerturbation):
                        stack.enter_context(part.during(asker.model, strength, streams))
                said = asker.logits(chunk, values)
            yield said
        if self.dropout_seen is not None:
            drew = [d.used > 0 for part, d in zip(self.parts, draws, strict=True) if isinstance(part, Dropout)]
            self.dropout_seen = self.dropout_seen or any(drew)


class _Sums:
    """Sums over the passes of one piece, taken from the clean answer, so that no change gives exactly 0."""

    def __init__(self, clean: np.ndarray) -> None:
        self.clean = clean
        self.votes = np.zeros(clean.shape, dtype=np.int32)
        self.change, self.squares = np.zeros_like(clean), np.zeros_like(clean)
        self.entropy, self.confidence, self.confidence_squares = (np.zeros(len(clean)) for _ in range(3))
        self.predicted, self.confident = clean.argmax(axis=1), clean.max(axis=1)

    def add(self, said: np.ndarray, number: int) -> None:
        """Take up the probabilities (N, C) of one pass."""
        if said.shape != self.clean.shape:
            raise InputError(
                f"pass {number}: the model answers {said.shape[1]} classes, the clean one {self.clean.shape[1]}; all "
                "members of an ensemble need the same classes"
            )
        self.votes[np.arange(len(said)), said.argmax(axis=1)] += 1
        with np.errstate(divide="ignore", invalid="ignore"):
            self.entropy -= np.where(said > 0, said * np.log(said), 0).sum(axis=1)
        change = said - self.clean
        self.change += change
        self.squares += np.square(change, out=change)
        top = said.max(axis=1) - self.confident
        self.confidence += top
        self.confidence_squares += top**2

    def result(self, passes: int) -> dict[str, np.ndarray]:
        """Return the statistics of the samples, under the names of ``Consistency``."""
        rows = np.arange(len(self.clean))
        agreement = self.votes[rows, self.predicted]
        most = self.votes.max(axis=1)
        mode = np.where(agreement == most, self.predicted, self.votes.argmax(axis=1))
        change, top = self.change / passes, self.confidence / passes
        variance = np.maximum(self.squares / passes - change**2, 0).sum(axis=1)
        return {
            "agreement_count": agreement.astype(np.int64),
            "mode_count": most.astype(np.int64),
            "mode": mode.astype(np.int64),
            "mean_probabilities": (self.clean + change).astype(np.float32),
            "variance": variance,
            "entropy": np.clip(self.entropy / passes / np.log(self.clean.shape[1]), 0, 1),
            "confidence_mean": self.confident + top,
            "confidence_variance": np.maximum(self.confidence_squares / passes - top**2, 0),
        }


class Collected:
    """What is kept of each piece, joined at the end."""

    def __init__(self) -> None:
        self._answers: list[Answers] = []
        self._statistics: list[dict[str, np.ndarray]] = []
        self._labels: list[Any] = []
        self._ids: list[str] = []
        self.notes: tuple[str, ...] = ()

    def add(self, chunk: Chunk, clean: Answers, statistics: dict[str, np.ndarray] | None = None) -> None:
        """Keep the answers about one piece.

        Raises:
            ModelError: there are more or fewer classes than in the pieces before.
        """
        counts = [len(said.probabilities[0]) for said in (clean, *self._answers[:1])]
        if counts[0] != counts[-1]:
            raise ModelError(
                f"The model returned {counts[0]} class scores for some samples and {counts[-1]} for others"
            )
        self._answers.append(clean)
        self._labels.append(chunk.labels)
        self._ids += chunk.ids
        if statistics is not None:
            self._statistics.append(statistics)

    def statistics(self) -> dict[str, np.ndarray]:
        """Return the statistics of all samples; the pieces go as they are joined, so that no two copies are held."""
        names = list(self._statistics[0])
        return {name: np.concatenate([piece.pop(name) for piece in self._statistics]) for name in names}

    def outputs(self, classes: Sequence[str]) -> Outputs:
        """Return what the model says of all undisturbed samples, with features and labels where all have them.

        The pieces go as they are joined.
        """
        count = self._answers[0].probabilities.shape[1]
        parts: dict[str, np.ndarray | None] = {}
        for name, arrays in zip(Answers._fields, zip(*self._answers, strict=True), strict=True):
            parts[name] = None if any(array is None for array in arrays) else np.concatenate(arrays)
        self._answers.clear()
        return Outputs.of(**parts, labels=self._known_labels(count), ids=self._ids, classes=classes)

    def _known_labels(self, count: int) -> np.ndarray | None:
        if any(part is None for part in self._labels):
            return None
        arrays = [
            np.asarray(p.detach().cpu() if isinstance(p, torch.Tensor) else p).reshape(-1) for p in self._labels
        ]
        labels = np.concatenate(arrays)
        if labels.dtype.kind in "iu" and bool((labels == UNKNOWN_LABEL).all()):
            return None
        if len(labels) == len(self._ids) and labels.dtype.kind in "iuf":
            whole = labels.astype(np.int64, casting="unsafe") if np.isfinite(labels).all() else None
            if whole is not None and (whole == labels).all() and ((whole >= 0) & (whole < count)).all():
                return whole
        self.notes = (f"what stands beside the samples is no class from 0 to {count - 1} and is left out as labels",)
        return None


def _members(parts: Sequence[Perturbation], models: Sequence[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
    ensembles = [part for part in parts if isinstance(part, Ensemble)]
    if len(ensembles) > 1:
        raise InputError("perturbation: ensemble can be one part only; give all members to it")
    if ensembles:
        return ensembles[0].members(models if len(models) > 1 else ())
    if len(models) != 1:
        raise InputError(f"model: got {len(models)} models; of several the perturbation must be 'ensemble'")
    return ()


def _checked_range(adaptive: tuple[float, float] | None) -> tuple[float, float] | None:
    if adaptive is None:
        return None
    try:
        low, high = map(float, adaptive)
    except (TypeError, ValueError) as error:
        raise InputError(f"adaptive: got {adaptive!r}, expected (low, high), such as (0.5, 1.5)") from error
    if not (0 <= low < np.inf and 0 <= high < np.inf):
        raise InputError(f"adaptive: got {adaptive!r}, expected two factors of at least 0")
    return low, high


def _only_strength(parts: Sequence[Perturbation]) -> float | None:
    known = [part.strength for part in parts if part.unit]
    return known[0] if len(known) == 1 else None


def _notes(parts: Sequence[Perturbation], passes: int, disturber: Disturber) -> list[str]:
    notes = []
    if passes < _FEW:
        notes.append(f"{passes} passes are few: a coin looks firm too often; 20 or more are advised")
    if disturber.dropout_seen is False:
        alone = all(isinstance(part, Dropout) for part in parts)
        what = "so every pass gave the clean answer" if alone else "so only the other perturbations did anything"
        notes.append(f"the model has no dropout that draws, {what}")
    if parts and all(part.unit and not part.strength for part in parts):
        notes.append("the strength is 0, so every pass gave the clean answer")
    return notes
