"""The bench: samples, judges and maps, evaluated once for each view and then scored for every strategy."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from roadworthy.data import load_data
from roadworthy.errors import ModelError, RoadworthyWarning
from roadworthy.evaluation.audit.idsds import correlations
from roadworthy.evaluation.audit.patches import GRID
from roadworthy.evaluation.finetune import fine_tuned, tuned_for
from roadworthy.evaluation.flow import evaluate
from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.evaluation.selftest.contender import Asked, Contender, View
from roadworthy.evaluation.selftest.maps import planted_maps, real_maps
from roadworthy.evaluation.selftest.quality import average_precision
from roadworthy.evaluation.strategy import Strategy
from roadworthy.forward import Classifier, untouched
from roadworthy.model import load_model
from roadworthy.records import Batch, Split
from roadworthy.statistics import rank_methods
from roadworthy.types import Progress


class Judges:
    """The model, and the copies of it that are fine-tuned when they are first asked for, as the product makes them.

    Args:
        model: the network, in pixel units.
        train: what the copies are trained on; None refuses them.
        mean: training mean per channel.
        seed: of the fine-tuning.
    """

    def __init__(self, model: Callable[..., Any], train: Split | None, *, mean: Sequence[float], seed: int) -> None:
        self.model, self.train, self.mean, self.seed = model, train, tuple(mean), seed
        self._made: dict[Any, torch.nn.Module] = {}

    def ask(self, view: View) -> Callable[..., Any]:
        """Return who answers for a view: the model as it is, or the copy that the view's strategy makes."""
        if view.judge == "untouched":
            return self.model
        key = (view.tuned_on, view.alpha, view.beta)
        if key not in self._made:
            train = self._trainable()
            self._made[key] = tuned_for(
                view.strategy(), Classifier(self.model), train, seed=self.seed, mean=self.mean
            )
        return self._made[key]

    def of_patches(self) -> torch.nn.Module:
        """Return the copy that has seen single patches removed, which IDSDS asks."""
        if "patch" not in self._made:
            train = self._trainable()
            self._made["patch"] = fine_tuned(
                self.model,  # type: ignore[arg-type]  # refused there
                train,
                masks="patch",
                grid=GRID,
                mean=self.mean,
                seed=self.seed,
            )
        return self._made["patch"]

    def _trainable(self) -> Split:
        if self.train is None or not isinstance(self.model, torch.nn.Module):
            raise ModelError("a fine-tuned judge needs a torch.nn.Module and training samples")
        return self.train


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
        asked: what to evaluate for each view; see :func:`asked_by_view`.
        relevant: bool (N, *units) where the truth is known, else None.
        progress: called with the number of copies just scored.
    """

    name: str
    seed: int
    samples: Batch
    targets: torch.Tensor
    judges: Judges
    maps: dict[str, np.ndarray]
    asked: Mapping[View, Asked]
    relevant: np.ndarray | None = None
    progress: Progress | None = None
    _results: dict[View, Result] = field(default_factory=dict, repr=False)
    _scores: dict[Contender, np.ndarray] = field(default_factory=dict, repr=False)
    _patches: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.samples.ids)

    @property
    def copies(self) -> int:
        """Number of degraded copies to score for all views."""
        each = sum(len(of.fractions) * len(of.orders) * view.repeats for view, of in self.asked.items())
        return self.n * len(self.maps) * each

    def with_maps(self, maps: dict[str, np.ndarray], **changes: Any) -> Bench:
        """Return a bench with other maps (and other fields), whose judges are the same."""
        return replace(self, maps=maps, _results={}, _scores={}, _patches={}, **changes)

    def first(self, n: int) -> Bench:
        """Return a bench of the first ``n`` samples."""
        return self.with_maps(
            {name: values[:n] for name, values in self.maps.items()},
            samples=cut(self.samples, np.arange(min(n, self.n))),
            targets=self.targets[:n],
            relevant=None if self.relevant is None else self.relevant[:n],
        )

    def with_scores(self, one: Contender, scores: np.ndarray) -> Bench:
        """Return a bench that knows a strategy's scores (M, N), higher is better, without evaluating anything."""
        return replace(self, _scores=self._scores | {one: scores})

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
        if one not in self._scores:
            self._scores[one] = self._all_scores(one)
        return self._scores[one][self._rows(names)]

    def ranking(self, one: Contender, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return what the product says of some maps: the table of :meth:`roadworthy.evaluation.Result.ranking`."""
        if one.by_patches:
            return rank_methods(self.scores(one, names), list(self.maps if names is None else names), seed=self.seed)
        return self.found(one, names).ranking()

    def undefined(self, one: Contender) -> dict[str, int]:
        """Return, for each map, for how many samples the product says that it has no order."""
        if one.by_patches:
            return {name: int(np.isnan(values).sum()) for name, values in self._by_patches().items()}
        info = self.result(one.views[0]).method_info
        return dict(zip(info["method"], info["constant_maps"].astype(int), strict=True))

    def found(self, one: Contender, names: Sequence[str] | None = None) -> Result:
        """Return the result that an evaluation with this strategy alone gives, cut from that of all."""
        parts = [self._cut(self.result(view), one, self._rows(names)) for view in one.views]
        readouts = {name: np.concatenate([part[name] for part in parts], axis=3) for name in READOUTS}
        first = self.result(one.views[0])
        places = [first.fractions.index(share) for share in (0.0, *one.fractions)]
        views = [self.result(view).views[0] for view in one.views]
        settings = {"strategy": one.name, "readout": one.readout, "average": one.average, "views": views}
        return replace(
            first,
            methods=list(self.maps if names is None else names),
            orders=list(one.orders),
            fractions=[first.fractions[place] for place in places],
            removed=[first.removed[place] for place in places],
            repeats=sum(view.repeats for view in one.views),
            scores=replace(first.scores, **readouts),
            method_info=first.method_info.iloc[self._rows(names)].reset_index(drop=True),
            settings=first.settings | settings | {"fractions": list(one.fractions)},
        )

    def result(self, view: View) -> Result:
        """Evaluate all maps for a view, once; views with the same degraded copies are asked together."""
        if view not in self._results:
            self._evaluate(self._beside(view))
        return self._results[view]

    def _rows(self, names: Sequence[str] | None) -> list[int]:
        known = list(self.maps)
        return [known.index(name) for name in (known if names is None else names)]

    def _all_scores(self, one: Contender) -> np.ndarray:
        if one.by_patches:
            return np.nan_to_num(np.stack(list(self._by_patches().values())))  # a map without order counts as random
        scores, _, higher = self.found(one).method_scores()
        return scores if higher else -scores

    def _cut(self, result: Result, one: Contender, rows: list[int]) -> dict[str, np.ndarray]:
        orders = [result.orders.index(order) for order in one.orders]
        shares = [result.fractions.index(share) for share in (0.0, *one.fractions)]
        return {name: result.scores[name][rows][:, orders][:, :, shares] for name in READOUTS}

    def _by_patches(self) -> dict[str, np.ndarray]:
        """Return IDSDS of each map for each sample, (N,); NaN where a map has no order of the patches."""
        if not self._patches:
            judge = Classifier(self.judges.of_patches())
            found, moved = correlations(
                judge, self.samples.images, self.targets, self.maps, mean=self.judges.mean, grid=GRID
            )
            # where no patch moves the model no map is better than another
            self._patches |= {name: np.where(moved, values, 0.0) for name, values in found.items()}
        return self._patches

    def _beside(self, view: View) -> list[View]:
        """Return the views to evaluate with one: those of the model as it is and of one copy, on the same copies."""
        alike = [other for other in self.asked if other.copies == view.copies and other not in self._results]
        other = [each for each in alike if each.judge != view.judge]
        return sorted(
            [view, *other[:1]], key=lambda each: each.judge, reverse=True
        )  # as in a result: untouched first

    def _evaluate(self, views: list[View]) -> None:
        tuned = [view for view in views if view.judge == "fine-tuned"]
        trainings = tuple("finetune" if view.judge == "fine-tuned" else "none" for view in views)
        of = functools.reduce(Asked.also, (self.asked[view] for view in views))
        strategy = Strategy(
            name="selftest",
            training=trainings,  # type: ignore[arg-type]
            order="both" if len(of.orders) == 2 else of.orders[0],
            imputer=views[0].imputer,
            fractions=of.fractions,
            alpha=views[0].alpha,
            beta=views[0].beta,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RoadworthyWarning)  # constant maps and the like are meant
            result = evaluate(
                self.judges.model,
                self.samples.images,
                self.samples.labels,
                self.maps,
                strategy=strategy,
                target=self.targets,
                mean=self.judges.mean,
                seed=self.seed,
                ids=self.samples.ids,
                repeats=views[0].repeats,
                intact_check="warn",
                sheet=0,
                progress=self.progress,
                judge=self.judges.ask(tuned[0]) if tuned else None,  # type: ignore[arg-type]
                audit="off",
            )
        self._results |= {view: result.view(index) for index, view in enumerate(views)}


def planted_bench(
    seed: int,
    asked: Mapping[View, Asked],
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
        asked: see :func:`~roadworthy.evaluation.selftest.contender.asked_by_view`.
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
    return Bench(spec, seed, samples, predicted, judges, maps, asked, relevant, progress)


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
