"""The front of a retrained evaluation in one process: a user's arguments become trainings, one after the other."""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.attribution import attribute, is_method, name_of
from roadworthy.errors import AttributionError, InputError, ModelError
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.gather import Facts, Grid, Point, gather
from roadworthy.evaluation.inputs import as_tensor
from roadworthy.evaluation.intact import preflight
from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.evaluation.retrain import Retrainer, Trained
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import RANDOM, Degrader, MapRows, Treatment
from roadworthy.fingerprints import array_hash, callable_fingerprint, model_fingerprint, pixels_hash, stated_model
from roadworthy.forward import device_of
from roadworthy.imputation import resolve_imputer
from roadworthy.labels import as_labels
from roadworthy.model import load_recipe, reset
from roadworthy.records import Split
from roadworthy.removal import units_removed
from roadworthy.rng import seeded_globals
from roadworthy.types import Normalize, Output, Progress

_WAY_OUT = "pass a Split such as data.train, or a pair (images, labels)"


@dataclass
class Retraining:
    """The arguments of :func:`roadworthy.evaluate` that a retrained evaluation has, checked."""

    model: Any
    test: Split
    train: Split
    attributions: dict[str, Any]
    strategy: Strategy
    build: Callable[[], torch.nn.Module] | None
    recipe: Any
    seed: int
    repeats: int
    mean: Sequence[float] | None
    normalize: Normalize | None
    output: Output
    device: str | torch.device | None
    target: Any
    settings: Any
    max_batch: int
    validation_share: float
    classes: Sequence[str]
    checkpoint: str | Path | None
    progress: Progress | None
    intact_check: Any = "raise"
    audit: Any = "quick"
    _maps: dict[str, dict[str, MapRows]] = field(default_factory=dict)
    _built: Any = field(default_factory=weakref.WeakSet)
    _digests: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find what is wrong with the arguments before anything costly begins."""
        self.recipe = load_recipe(self.recipe)
        if not isinstance(self.model, torch.nn.Module):
            raise ModelError(
                f"model: got {type(self.model).__name__}; to retrain, pass a torch.nn.Module: the trained one that "
                "the maps explain"
            )
        share = self.validation_share
        if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
            raise InputError(f"validation_share: got {share!r}, expected a share of at least 0 and below 1")

    def result(self) -> Result:
        """Make the maps, train and score every point, and put the result together."""
        warned = preflight(
            self.model,
            self.test,
            normalize=self.normalize,
            output=self.output,
            device=self.device,
            max_batch=self.max_batch,
            intact_check=self.intact_check,
        )
        grid = Grid(
            list(self.attributions), self.strategy.orders, self.strategy.all_fractions, list(range(self.repeats))
        )
        for part, split in (("train", self.train), ("test", self.test)):
            self._maps[part] = self._maps_of(split, part)
        retrainer, filler = self._retrainer(), self._filler()
        points = {
            (treatment, repeat): self._point(retrainer, Degrader(self.strategy, filler, repeat), treatment)
            for repeat in grid.repeats
            for treatment in grid.treatments()
        }
        result = gather(grid, lambda treatment, repeat: points[treatment, repeat], self._facts(warned, retrainer))
        labels = max(int(split.labels.max()) for split in (self.train, self.test))
        result.audit.update(self._audited(filler, max(2, labels + 1)))
        return result

    def _audited(self, filler: Filler, classes: int) -> dict[str, Any]:
        """Audit the masks of the training samples for leakage."""
        if self.audit == "off" or not self._maps["train"]:
            return {}
        from roadworthy.evaluation.audit.training import audit_gate, audit_training, gate_for, judge_of_gate

        shared: dict[str, Any] = {"strategy": self.strategy, "mean": filler.mean, "seed": self.seed}
        leakage = audit_training(
            self.train,
            self._maps["train"],
            imputers=[filler.imputer],
            class_count=classes,
            effort=self.audit,
            **shared,
        )
        if "lerf" not in self.strategy.orders:  # the gate stands in front of what is kept and retrained
            return {"leakage": leakage}
        shared |= {"normalize": self.normalize, "output": self.output, "device": self.device}
        shared["imputer"] = filler.imputer
        gate = gate_for(judge_of_gate(self.model, self.train, **shared), self.train, self.test, **shared)
        maps = {name: (rows, self._maps["test"][name]) for name, rows in self._maps["train"].items()}
        return {"leakage": leakage, "gate": audit_gate(gate, maps)}

    def _point(self, retrainer: Retrainer, degrader: Degrader, treatment: Treatment) -> Point:
        maps = {part: rows.get(treatment.method) for part, rows in self._maps.items()}
        trained, _ = retrainer.run(
            treatment,
            degrader,
            train_maps=maps["train"],
            test_maps=maps["test"],
            checkpoint=self._checkpoint_of(retrainer, treatment, degrader.repeat),
            progress=self.progress,
        )
        return point_of(trained)

    def _maps_of(self, split: Split, part: str) -> dict[str, MapRows]:
        given = {name: source for name, source in self.attributions.items() if isinstance(source, (tuple, list))}
        made = {name: source for name, source in self.attributions.items() if name not in given and source != RANDOM}
        found: dict[str, MapRows] = {}
        if made:
            maps = attribute(
                self.model,
                split,
                made,
                target=self.target,
                seed=self.seed,
                max_batch=self.max_batch,
                normalize=self.normalize,
                settings=self.settings,
                mean=self._fill_mean(),
                output=self.output,
                device=self.device,
            )
            found |= {name: MapRows(name, array, maps.ids) for name, array in maps.items()}
        for name, pair in given.items():
            found[name] = MapRows(name, real_array(name, pair[0 if part == "train" else 1]), split.ids)
        return found

    def _fill_mean(self) -> list[float]:
        given = self.strategy.mean if self.mean is None else self.mean
        if given is not None:
            return [float(value) for value in torch.as_tensor(given).flatten()]
        return list(self.train.statistics()[0])

    def _filler(self) -> Filler:
        imputer = resolve_imputer(self.strategy.imputer, noise=self.strategy.noise)
        return Filler(imputer, torch.tensor(self._fill_mean()), self.seed, device_of(self.model, self.device))

    def _retrainer(self) -> Retrainer:
        def build(seed: int) -> torch.nn.Module:
            if self.build is None:
                return reset(self.model, seed)
            with seeded_globals(seed, "build"):
                return self._new(self.build())

        return Retrainer(
            build,
            self.train,
            self.test,
            self.recipe,
            seed=self.seed,
            validation_share=self.validation_share,
            normalize=self.normalize,
            output=self.output,
            device=self.device,
            max_batch=self.max_batch,
        )

    def _new(self, built: Any) -> torch.nn.Module:
        """Refuse a network that has been trained before: its weights would not be fresh."""
        if not isinstance(built, torch.nn.Module):
            raise ModelError(f"build: returned {type(built).__name__}, expected a torch.nn.Module")
        if built is self.model or built in self._built:
            raise ModelError("build: returned a network that is in use already; it must make a new one at every call")
        self._built.add(built)
        return built

    def _digest_of(self, name: str, make: Callable[[], str]) -> str:
        if name not in self._digests:
            self._digests[name] = make()
        return self._digests[name]

    def _checkpoint_of(self, retrainer: Retrainer, treatment: Treatment, repeat: int) -> Path | None:
        """Name a training's checkpoint after all that it follows from and the checkpoint itself does not check."""
        if self.checkpoint is None:
            return None
        about = {
            "strategy": self.strategy.settings(),
            "imputer": callable_fingerprint(self.strategy.imputer) if callable(self.strategy.imputer) else "",
            "treatment": asdict(treatment),
            "repeat": repeat,
            "seed": self.seed,
            "recipe": retrainer.recipe.described(),
            "network": model_fingerprint(self.model) if self.build is None else callable_fingerprint(self.build),
            "images": self._digest_of("", lambda: pixels_hash(self.train)),
            "maps": "",
            "mean": self._fill_mean(),
            "normalize": None if self.normalize is None else [list(map(float, part)) for part in self.normalize],
            "output": callable_fingerprint(self.output) if callable(self.output) else self.output,
            "validation": self.validation_share,
        }
        if treatment.kind == "estimator":
            rows = self._maps["train"][treatment.method]
            about["maps"] = self._digest_of(treatment.method, lambda: array_hash(rows.array))
        key = hashlib.blake2b(json.dumps(about, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()
        return Path(self.checkpoint) / f"{key}.pt"

    def _facts(self, warned: list[str], retrainer: Retrainer) -> Facts:
        shape = self.test.shape
        units = int(np.prod(shape[1:] if self.strategy.unit == "pixel" and len(shape) > 1 else shape))
        settings = self.strategy.settings() | {
            "target": self.target if isinstance(self.target, str) else "given",
            "labels": "given",
            "recipe": retrainer.recipe.described(),
            "validation_share": self.validation_share,
            "fill_mean": self._fill_mean(),
            "settings": str(self.settings),
            "model": stated_model(self.model),
        }
        return Facts(
            removed=[units_removed(units, fraction) for fraction in self.strategy.all_fractions],
            seed=self.seed,
            device=str(device_of(self.model, self.device)),
            classes=self.classes,
            settings=settings,
            warnings=warned,
        )


def point_of(trained: Trained) -> Point:
    """Return what a result needs of a training."""
    names = (*READOUTS, "labels", "predicted")
    return Point(trained.ids, {name: getattr(trained, name) for name in names}, trained.seconds[1], trained.images)


def real_array(name: str, maps: Any) -> np.ndarray:
    """Return maps as an array of real numbers.

    Raises:
        AttributionError: something else.
    """
    found = maps.detach().cpu().numpy() if isinstance(maps, torch.Tensor) else np.asarray(maps)
    if found.dtype.kind not in "fiub":
        raise AttributionError(f"{name}: maps of type {found.dtype}, expected real numbers")
    return found


class _Pair:
    """A source over tensors in memory."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor, ids: Sequence[str]) -> None:
        self.labels, self.ids, self._images = labels.numpy(), list(ids), images

    def read(self, index: int) -> torch.Tensor:
        return self._images[index]

    def read_many(self, indices: np.ndarray) -> torch.Tensor:
        return self._images[torch.as_tensor(indices)]

    def where(self, index: int) -> str:
        return f"image {index}"


def as_split(
    what: str, images: Any, labels: Any = None, ids: Sequence[str] | None = None, *, what_for: str = "retrain"
) -> Split:
    """Turn a Split, or images and labels in memory, into a split.

    Raises:
        InputError: anything else, or no labels.
    """
    if isinstance(images, Split):
        return images
    if labels is None and isinstance(images, (tuple, list)) and len(images) == 2:
        images, labels = images
    if labels is None or not hasattr(images, "shape"):
        raise InputError(f"{what}: got {type(images).__name__}; to {what_for}, {_WAY_OUT}")
    values = as_tensor(what, images).float()
    names = [f"{what} {row}" for row in range(len(values))] if ids is None else [str(sample) for sample in ids]
    if len(names) != len(values):
        raise InputError(f"ids: {len(names)} ids for {len(values)} images")
    return Split(_Pair(values, as_labels(labels, len(values)), names), what)


def named_attributions(attributions: Any) -> dict[str, Any]:
    """Return what stands behind each name: a method name, a callable, or (training maps, test maps).

    Raises:
        InputError: maps of one split only, or something that is neither names nor a mapping.
    """
    if isinstance(attributions, str) or is_method(attributions):
        attributions = [attributions]
    if not isinstance(attributions, Mapping):
        attributions = {name_of(part): part for part in attributions}
    found = {str(name): source for name, source in attributions.items()}
    for name, source in found.items():
        pair = isinstance(source, (tuple, list)) and len(source) == 2
        if not (isinstance(source, str) or is_method(source) or pair):
            raise InputError(
                f"attributions: {name!r} is a {type(source).__name__}; to retrain, maps of the training samples are "
                "needed too: pass a method name, a callable, or a pair (training maps, test maps)"
            )
        if name == RANDOM and source != RANDOM:
            raise InputError("attributions: 'random' is the random baseline here; give your maps another name")
    if not found:
        raise InputError("attributions: got none; name at least one method, for instance ['ig', 'random']")
    return found
