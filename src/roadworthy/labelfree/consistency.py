"""Perturbation consistency: how firmly each prediction stands under small disturbances, without labels.

The idea is that of a practitioner's guide, which calls it SUDO; it is not the published method of that name
(pseudo-label discrepancy). Here agreement is counted with the class of the undisturbed sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError, unknown_name
from roadworthy.labelfree.outputs import Outputs
from roadworthy.types import Layout, Normalize, Output, Progress, Seed

if TYPE_CHECKING:
    import torch

    from roadworthy.labelfree.asking import Features
    from roadworthy.labelfree.perturbation.base import Choice

STATISTICS = {
    "agreement": "share of passes that give the clean class",
    "mode-share": "share of passes that give the commonest class",
    "soft-agreement": "mean probability of the clean class over the passes",
    "confidence": "mean over the passes of the largest probability",
    "confidence-variance": "how little the largest probability varies over the passes",
    "variance": "how little the probabilities vary over the passes",
    "entropy": "how far the mean entropy of the passes is from that of equal probabilities",
}


@dataclass(frozen=True, eq=False, repr=False)
class Consistency:
    """What a classifier answered under T perturbed passes, as sums over the passes.

    Attributes:
        clean: what it says of the undisturbed samples.
        passes: T.
        perturbation: name of the perturbation, parts joined by ``+``.
        strength: of the one part that has a strength; None where none or several have.
        seed: of the draws.
        agreement_count: int64 (N,), passes whose class is the clean class.
        mode_count: int64 (N,), passes of the commonest class.
        mode: int64 (N,), that class; of equals the clean class, else the first.
        mean_probabilities: float32 (N, C), mean over the passes.
        variance: float64 (N,), variance of the probabilities over the passes (divided by T), summed over classes; in
            [0, 1 - 1/C].
        entropy: float64 (N,), mean over the passes of the entropy, divided by log C; in [0, 1].
        confidence_mean: float64 (N,), mean over the passes of the largest probability.
        confidence_variance: float64 (N,), its variance over the passes (divided by T).
        has_dropout: whether dropout drew anything; None where it was not asked for.
        settings: of each part, by its name.
        notes: what the user should know.
    """

    clean: Outputs
    passes: int
    perturbation: str
    strength: float | None
    seed: int
    agreement_count: np.ndarray
    mode_count: np.ndarray
    mode: np.ndarray
    mean_probabilities: np.ndarray
    variance: np.ndarray
    entropy: np.ndarray
    confidence_mean: np.ndarray
    confidence_variance: np.ndarray
    has_dropout: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.clean)

    def __repr__(self) -> str:
        agreement = self.scores().mean() if len(self) else float("nan")
        return (
            f"Consistency({self.perturbation}, n={len(self)}, passes={self.passes}, mean agreement {agreement:.3f})"
        )

    def scores(self, statistic: str = "agreement", *, chance_corrected: bool = False) -> np.ndarray:
        """Return a score of each sample, high where its prediction stands firm.

        Args:
            statistic: a name in :data:`STATISTICS`.
            chance_corrected: turn r into (r - 1/C) / (1 - 1/C), and what is below chance into 0, so that a coin
                scores about 0 whatever the number of classes. Of finite passes a coin's mode share stays above 0.
                ``variance``, ``confidence-variance`` and ``entropy`` are on such a scale already and stay as they
                are.

        Returns:
            float64 (N,) in [0, 1].

        Raises:
            InputError: an unknown statistic.

        Example:
            >>> from roadworthy.labelfree.consistency import perturbation_consistency
            >>> model = lambda x: x
            >>> found = perturbation_consistency(model, np.array([[9.0, 0.0], [0.1, 0.0]]), features=None)
            >>> float(found.scores()[0])
            1.0
        """
        chance = 1 / self.clean.class_count
        rows = np.arange(len(self))
        if statistic == "variance":
            return np.clip(1 - self.variance / (1 - chance), 0, 1)
        if statistic == "entropy":
            return np.clip(1 - self.entropy, 0, 1)
        if statistic == "confidence-variance":
            return np.clip(1 - 4 * self.confidence_variance / (1 - chance) ** 2, 0, 1)
        if statistic == "agreement":
            score = self.agreement_count / self.passes
        elif statistic == "mode-share":
            score = self.mode_count / self.passes
        elif statistic == "soft-agreement":
            score = self.mean_probabilities[rows, self.clean.predicted].astype(np.float64)
        elif statistic == "confidence":
            score = self.confidence_mean
        else:
            raise unknown_name("statistic", statistic, STATISTICS)
        return np.clip((score - chance) / (1 - chance) if chance_corrected else score, 0, 1)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON: settings, notes, and the statistics of each sample."""
        names = (
            "agreement_count",
            "mode_count",
            "mode",
            "variance",
            "entropy",
            "confidence_mean",
            "confidence_variance",
        )
        return {
            "perturbation": self.perturbation,
            "strength": self.strength,
            "passes": self.passes,
            "seed": self.seed,
            "n": len(self),
            "has_dropout": self.has_dropout,
            "settings": self.settings,
            "notes": list(self.notes),
            "ids": list(self.clean.ids),
            "predicted": self.clean.predicted.tolist(),
            **{name: getattr(self, name).tolist() for name in names},
        }


def perturbation_consistency(
    model: Callable[..., Any] | Sequence[Callable[..., Any]],
    data: Any,
    *,
    perturbation: Choice = "gaussian",
    passes: int = 30,
    strength: float | dict[str, float] | None = None,
    adaptive: tuple[float, float] | None = None,
    seed: Seed = 0,
    features: Features = "penultimate",
    second: Callable[..., Any] | None = None,
    labels: Any = None,
    ids: Sequence[Any] | None = None,
    classes: Sequence[str] = (),
    batch: Callable[[Any], Any] | None = None,
    normalize: Normalize | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    progress: Progress | None = None,
) -> Consistency:
    """Ask a classifier T times about perturbed samples, and see how firmly each of its predictions stands.

    Data are read once; only sums over the passes are kept, N x C. Nothing of the caller's is changed. Every sample
    draws from its own stream, keyed by the seed and its id, so that batch size and row order do not matter.

    Args:
        model: a module or callable; several of them with ``perturbation="ensemble"``.
        data: tensor, array or table (N, ...), Split, Dataset, DataLoader, or an iterable of batches; with or without
            labels.
        perturbation: a name, several joined by ``+``, a perturbation object, a callable on a batch (a torchvision v2
            transform), or a list of these.
        passes: T, at least 1; 20 to 50 is usual. An ensemble has one pass for each member.
        strength: in the unit of the perturbation; of several, a dict by name. None takes each one's default.
        adaptive: (low, high): the strength of each sample is strength x (low + (high - low) x its clean confidence).
            None gives all samples the same.
        seed: decides all draws.
        features: kept with the clean predictions: ``"penultimate"``, the name of a layer, a callable on the samples,
            or None.
        second: another model of the same kind, asked about the undisturbed samples; kept with the clean predictions.
        labels: (N,) of an array, if known; they are kept, and change nothing.
        ids: names of the samples; positions by default.
        classes: class names.
        batch: turns a batch of a DataLoader or iterable into what the model takes: a tensor, a mapping of arguments,
            or a ``BatchInput``.
        normalize: ``(mean, std)`` per channel, applied before the model; samples are perturbed before it.
        output: how to pick the logits from what the model returns.
        layout: ``"NCHW"`` or ``"NHWC"``, of data and model.
        device: for a callable without parameters.
        max_batch: samples in one forward pass, at most.
        progress: called with the number of samples done.

    Returns:
        The consistency of each sample.

    Raises:
        InputError: data, perturbation or settings that do not fit one another.
        ModelError: what the model returns cannot be used.

    Example:
        >>> import torch
        >>> model = lambda x: 10 * x
        >>> sure_and_not = torch.tensor([[3.0, 0.0], [1.0, 0.999]])
        >>> found = perturbation_consistency(model, sure_and_not, strength=0.2, passes=50)
        >>> float(found.scores()[0]), bool(found.scores()[1] < 0.8)
        (1.0, True)
    """
    from roadworthy.labelfree.passes import run_passes
    from roadworthy.rng import resolve_seed

    if isinstance(passes, bool) or not hasattr(passes, "__index__") or passes < 1:
        raise InputError(f"passes: got {passes!r}, expected an integer of at least 1")
    return run_passes(
        list(model) if isinstance(model, Sequence) else [model],
        data,
        perturbation=perturbation,
        passes=int(passes),
        strength=strength,
        adaptive=adaptive,
        seed=resolve_seed(seed),
        features=features,
        second=second,
        classes=classes,
        reading={"labels": labels, "ids": ids, "batch": batch},
        asking={"normalize": normalize, "output": output, "device": device},
        layout=layout,
        max_batch=max_batch,
        progress=progress,
    )
