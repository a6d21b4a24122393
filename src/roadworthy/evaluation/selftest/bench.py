"""The bench: samples, judges and maps, evaluated once for each view and then scored for every strategy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from roadworthy.data import load_data
from roadworthy.errors import ModelError, RoadworthyWarning
from roadworthy.evaluation.finetune import fine_tuned
from roadworthy.evaluation.flow import evaluate
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.scoring import over_samples, score
from roadworthy.evaluation.selftest.contender import Contender, View
from roadworthy.evaluation.selftest.maps import planted_maps, real_maps
from roadworthy.evaluation.selftest.quality import average_precision
from roadworthy.evaluation.strategy import Strategy
from roadworthy.forward import Classifier, untouched
from roadworthy.model import load_model
from roadworthy.records import Batch, Split
from roadworthy.types import Progress


class Judges:
    """The model, and the copies of it that are fine-tuned when they are first asked for.

    Args:
        model: the network, in pixel units.
        train: what the copies are trained on; None refuses them.
        mean: training mean per channel.
        seed: of the fine-tuning.
        imputers: what fills the masks the copies see.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        train: Split | None,
        *,
        mean: Sequence[float],
        seed: int,
        imputers: Sequence[Any] = ("mean", "noisy-linear"),
    ) -> None:
        self.model, self.train, self.mean, self.seed, self.imputers = model, train, tuple(mean), seed, tuple(imputers)
        self._made: dict[float, torch.nn.Module] = {}

    def ask(self, view: View) -> Callable[..., Any]:
        """Return who answers for a view."""
        if view.judge == "untouched":
            return self.model
        if view.beta not in self._made:
            if self.train is None or not isinstance(self.model, torch.nn.Module):
                raise ModelError("a fine-tuned judge needs a torch.nn.Module and training samples")
            whole = view.beta == 1.0
            self._made[view.beta] = fine_tuned(
                self.model,
                self.train,
                masks="uniform" if whole else view.beta,
                imputers=self.imputers if whole else (view.imputer,),
                mean=self.mean,
                seed=self.seed,
            )
        return self._made[view.beta]


@dataclass
class Bench:
    """Maps on samples, and what each judge makes of them.

    Attributes:
        name: what tables call it.
        seed: of draws, of the planted data and of the model.
        samples: the images evaluated.
        targets: int64 (N,), the class whose probability counts.
        judges: who is asked.
        maps: name -> float (N, *units).
        shares: the shares to evaluate for each view; see :func:`shares_by_view`.
        relevant: bool (N, *units) where the truth is known, else None.
        progress: called with the number of copies just scored.
    """

    name: str
    seed: int
    samples: Batch
    targets: torch.Tensor
    judges: Judges
    maps: dict[str, np.ndarray]
    shares: Mapping[View, tuple[float, ...]]
    relevant: np.ndarray | None = None
    progress: Progress | None = None
    _results: dict[tuple[View, int], Result] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples.ids)

    @property
    def copies(self) -> int:
        """Number of degraded copies to score for all views, each in both orders."""
        return 2 * self.n * len(self.maps) * sum(len(shares) for shares in self.shares.values())

    def with_maps(self, maps: dict[str, np.ndarray], **changes: Any) -> Bench:
        """Return a bench with other maps (and other fields), whose judges are the same."""
        return replace(self, maps=maps, _results={}, **changes)

    def quality(self) -> np.ndarray:
        """Return the average precision of each map on each sample, (M, N)."""
        assert self.relevant is not None
        return np.stack(
            [
                average_precision(values, self.relevant, seed=self.seed, ids=self.samples.ids)
                for values in self.maps.values()
            ]
        )

    def scores(self, one: Contender, names: Sequence[str] | None = None) -> np.ndarray:
        """Return the score a strategy gives each map on each sample, (M, N); higher is always better."""
        rows = [list(self.maps).index(name) for name in (self.maps if names is None else names)]
        return np.mean([self._score(one, view) for view in one.views], axis=0)[rows]

    def _score(self, one: Contender, view: View) -> np.ndarray:
        result = self.result(view, one.repeats)
        shares = [0.0, *one.fractions]
        orders = [result.orders.index(order) for order in one.orders]
        columns = [result.fractions.index(share) for share in shares]
        curves = over_samples(result, one.readout)[:, orders][:, :, columns]
        if one.average == "shares":
            heights = {order: curves[:, row, 1:].mean(axis=1) for row, order in enumerate(one.orders)}
            return np.asarray(heights.get("lerf", 0.0) - heights.get("morf", 0.0))
        scores, _, higher = score(curves, list(one.orders), shares)
        return scores if higher else -scores

    def result(self, view: View, repeats: int = 1) -> Result:
        """Evaluate all maps for a view, in both orders, once."""
        key = (view, repeats)
        if key not in self._results:
            strategy = Strategy(
                name="selftest",
                imputer=view.imputer,
                fractions=self.shares[view],
                alpha=view.alpha,
                beta=view.beta,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RoadworthyWarning)  # constant maps and the like are meant
                self._results[key] = evaluate(
                    self.judges.ask(view),
                    self.samples.images,
                    self.samples.labels,
                    self.maps,
                    strategy=strategy,
                    target=self.targets,
                    mean=self.judges.mean,
                    seed=self.seed,
                    ids=self.samples.ids,
                    repeats=repeats,
                    intact_check="warn",
                    sheet=0,
                    progress=self.progress,
                )
        return self._results[key]


def planted_bench(
    seed: int,
    shares: Mapping[View, tuple[float, ...]],
    *,
    colour: bool = False,
    n: int = 300,
    real: bool = True,
    cache: str | None = None,
    progress: Progress | None = None,
) -> Bench:
    """Return the planted bench: images whose relevant pixels are known, and maps of known quality on them.

    Args:
        seed: of the images, the model, the maps and the draws.
        shares: see :func:`~roadworthy.evaluation.selftest.contender.shares_by_view`.
        colour: three channels, either pattern in a random one.
        n: test images.
        real: also compute gradient, integrated gradients, Grad-CAM and occlusion.
        cache: folder of trained models, see :func:`roadworthy.load_model`.
        progress: called with the number of copies just scored.
    """
    spec = "planted-colour" if colour else "planted"
    # the same data whatever n, so that efforts share the trained model
    data = load_data(f"{spec}:n=2400,test={max(n, 300)}", seed=seed)
    model = load_model("small-cnn", data, seed=seed, cache=cache)
    samples = next(data.test.batches(n))
    predicted = answers(model, samples.images)
    assert data.relevant is not None
    relevant = data.relevant[: len(samples.ids)]
    maps = planted_maps(
        samples.images,
        relevant,
        data.test.source.decoy()[: len(samples.ids)],  # type: ignore[attr-defined]
        predicted.numpy(),
        seed=seed,
        ids=samples.ids,
    )
    if real:
        maps |= real_maps(model, samples.images, predicted, seed=seed, ids=samples.ids, mean=data.mean)
    judges = Judges(model, data.train, mean=data.mean, seed=seed)
    return Bench(spec, seed, samples, predicted, judges, maps, shares, relevant, progress)


def answers(model: Callable[..., Any], images: torch.Tensor) -> torch.Tensor:
    """Return the class that a model answers for each image, int64 (N,)."""
    with untouched(model):
        return Classifier(model).logits(images).argmax(dim=1)


def chosen_samples(split: Split, n: int, seed: int) -> Batch:
    """Return ``n`` samples drawn from a split, in its order; all if there are fewer."""
    part = split.take(n, seed)
    return next(part.batches(len(part)))


def cut(found: Batch, rows: np.ndarray) -> Batch:
    """Return some samples of a batch."""
    keep = torch.as_tensor(rows)
    return Batch(found.images[keep], found.labels[keep], [found.ids[int(row)] for row in rows])
