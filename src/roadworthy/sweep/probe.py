"""A little of each kind of work of a sweep, done and timed: real images, the real network, untrained."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from roadworthy.sweep.plan import ROAD_FILL

if TYPE_CHECKING:
    from roadworthy.attribution import Settings
    from roadworthy.records import Batch, Data
    from roadworthy.sweep.experiment import Experiment
    from roadworthy.sweep.job import Job
    from roadworthy.sweep.plan import Plan

BUDGET = 1.0  # seconds that one measurement may take
_MOST = 64  # images in a measurement
_ENSEMBLES = ("-sg", "-sq", "-var")


@dataclass(frozen=True)
class Rates:
    """Seconds an image, measured on this machine with the real data and network.

    Attributes:
        read: reading and decoding.
        train: one training step's share, augmentation included.
        score: asking the network.
        degrade: removing and filling, by imputer; ranking the map included.
        maps: the maps of a family, by :func:`family_of`.
        map_bytes: bytes of these.
        counted: sources of maps that were not run: too slow for a probe, so their passes were counted.
        audit: seconds of one audit of a method's masks, not of an image.
        fill: seconds of one audit of a fill.
        weights: bytes of the network's weights.
        seconds: what the probe took.
    """

    read: float
    train: float
    score: float
    degrade: Mapping[str, float]
    maps: Mapping[str, float]
    map_bytes: Mapping[str, int]
    counted: tuple[str, ...]
    audit: float
    fill: float
    weights: int
    seconds: float


@dataclass
class Probe:
    """Does a little of each kind of work, on real images and an untrained network."""

    experiment: Experiment
    plan: Plan
    data: Data
    jobs: list[Job]
    device: str
    _net: Any = field(default=None, init=False)

    def rates(self) -> Rates:
        """Measure."""
        from roadworthy.sweep.subject import fresh_network

        began = time.perf_counter()
        size = min(len(self.data.train), self._batch_size(), _MOST)
        batch, read = _timed(lambda: next(self.data.train.batches(size)))
        self._net = fresh_network(self.experiment.model.model_dump(mode="json"), self.data, 0).to(self.device).eval()
        train = self._train(batch)
        score = self._score(batch)
        maps, sizes, counted = self._maps(batch, train)
        return Rates(
            read=read / len(batch.ids),
            train=train,
            score=score,
            degrade={imputer: self._degrade(batch, imputer) for imputer in self._imputers()},
            maps=maps,
            map_bytes=sizes,
            counted=counted,
            audit=self._audit("audit"),
            fill=self._audit("fill"),
            weights=sum(value.numel() * value.element_size() for value in self._net.state_dict().values()),
            seconds=time.perf_counter() - began,
        )

    def _batch_size(self) -> int:
        trainings = [job for job in self.jobs if job.kind == "train"]
        return int(trainings[0].spec["recipe"]["batch_size"]) if trainings else self.experiment.max_batch

    def _train(self, batch: Batch) -> float:
        """Return the seconds an image of training: the second of two short epochs, the first warms up."""
        from roadworthy.model import fit, load_recipe

        recipe = load_recipe(self.experiment.recipe, epochs=2, warmup_epochs=0)
        count = 2  # as few as batch normalisation takes
        while True:
            part = (batch.images[:count], batch.labels[:count])
            trial = dataclasses.replace(recipe, batch_size=count)
            history = fit(copy.deepcopy(self._net), part, recipe=trial, device=self.device)
            each = history.seconds[-1] / count
            most = min(len(batch.ids), int(BUDGET / max(each, 1e-9)))
            if count >= most:
                return each
            count = min(most, 8 * count)

    def _score(self, batch: Batch) -> float:
        import torch

        def ask() -> None:
            with torch.no_grad():
                self._net(batch.images.to(self.device)).cpu()

        ask()
        return _timed(ask)[1] / len(batch.ids)

    def _imputers(self) -> list[str]:
        wanted = list(self.plan.points)
        if any(job.kind == "road" for job in self.jobs):
            wanted.append(ROAD_FILL)
        return list(dict.fromkeys(wanted))

    def _degrade(self, batch: Batch, imputer: str) -> float:
        """Return the seconds an image of ranking, removing half and filling."""
        import torch

        from roadworthy.evaluation import Strategy
        from roadworthy.evaluation.degrade import Filler
        from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
        from roadworthy.forward import device_of
        from roadworthy.imputation import resolve_imputer
        from roadworthy.rng import normal_fields

        names = ("unit", "sign", "reduction", "noise")
        changes = {name: getattr(self.experiment, name) for name in names}
        strategy = Strategy.of(self.experiment.strategy, imputer=imputer, **changes)
        mean = torch.tensor(self.data.mean if strategy.mean is None else strategy.mean, dtype=torch.float32)
        fill = resolve_imputer(self.plan.runtime["fills"].get(imputer, imputer), noise=strategy.noise)
        filler = Filler(fill, mean, self.experiment.seed, device_of(len, self.device))
        values = normal_fields(0, "probe", batch.ids, tuple(batch.images.shape[1:]))
        split = Degrader(strategy, filler, 0).split(
            self.data.train.subset(range(len(batch.ids))),
            Treatment("estimator", "probe", "morf", 0.5),
            MapRows("probe", values, batch.ids),
        )

        def degrade() -> None:
            for _ in split.batches(len(batch.ids)):
                pass

        degrade()  # compiles, where that is done
        return _timed(degrade)[1] / len(batch.ids)

    def _audit(self, kind: str) -> float:
        """Return the seconds of one audit of masks or of a fill: on fewer samples, as many times as it has more."""
        if not any(job.kind == kind for job in self.jobs):
            return 0.0
        import torch

        from roadworthy.evaluation import Strategy
        from roadworthy.evaluation.audit.leakage import SAMPLES
        from roadworthy.evaluation.audit.training import audit_fill, audit_training
        from roadworthy.evaluation.treatment import MapRows
        from roadworthy.imputation import resolve_imputer
        from roadworthy.rng import normal_fields

        whole = min(SAMPLES.get(self.experiment.audit, 0), len(self.data.train))
        part = self.data.train.take(min(whole, 256), 0)
        names = ("order", "fractions", "unit", "sign", "reduction")
        changes = {name: getattr(self.experiment, name) for name in names}
        options: dict[str, Any] = {
            "strategy": Strategy.of(self.experiment.strategy, **changes),
            "mean": torch.tensor(self.data.mean, dtype=torch.float32),
            "seed": 0,
            "effort": self.experiment.audit,
        }
        fills = [resolve_imputer(fill) for fill in self.plan.runtime["fills"].values()]
        if kind == "fill":
            seconds = _timed(lambda: [audit_fill(part, fill, **options) for fill in fills])[1] / len(fills)
        else:
            maps = {"probe": MapRows("probe", normal_fields(0, "probe", part.ids, part.shape), part.ids)}
            classes = len(self.data.classes)
            seconds = _timed(lambda: audit_training(part, maps, class_count=classes, **options))[1]
        return seconds * whole / len(part)

    def _maps(self, batch: Batch, train: float) -> tuple[dict[str, float], dict[str, int], tuple[str, ...]]:
        """Return seconds and bytes of a sample's maps by family; families too slow to run are counted in passes."""
        from roadworthy.attribution import attribute
        from roadworthy.sweep.checks import map_settings

        settings, shape = map_settings(self.experiment), tuple(batch.images.shape[1:])
        seconds, sizes, counted = dict[str, float](), dict[str, int](), list[str]()
        families = {family_of(job): job.spec["sources"] for job in self.jobs if job.kind == "maps"}
        options: dict[str, Any] = {"settings": settings, "mean": self.data.mean, "device": self.device}
        options["max_batch"] = self.experiment.maps.max_batch
        if families:
            attribute(self._net, batch.images[:1], ["grad"], **options)  # loads what the methods are built on
        for family, sources in families.items():
            each = passes(sources, settings, shape) * train
            count = min(len(batch.ids), int(BUDGET / max(each, 1e-9)))
            if count < 1:
                seconds[family], sizes[family] = each, 4 * math.prod(shape) * len(sources)
                counted += sources
                continue
            began = time.perf_counter()
            maps = attribute(self._net, batch.images[:count], sources, **options)
            seconds[family] = (time.perf_counter() - began) / count
            sizes[family] = sum(values.nbytes for values in maps.values()) // count
        return seconds, sizes, tuple(counted)


def family_of(job: Job) -> str:
    """Name the maps that a job makes, as :class:`Rates` does: those of a family share work and are made together."""
    return ", ".join(job.spec["sources"])


def passes(sources: Sequence[str], settings: Settings, shape: tuple[int, ...]) -> int:
    """Count the passes through the network that a sample's maps of one family take, roughly.

    Args:
        sources: methods of the family; its ensembles share their noisy copies.
        settings: of the methods.
        shape: of one image.

    Example:
        >>> from roadworthy.attribution import Settings
        >>> [passes(names, Settings(), (3, 32, 32)) for names in (["grad"], ["ig"], ["ig-sg", "ig-sq"], ["sobel"])]
        [1, 50, 750, 0]
    """
    names = [source.removeprefix("inverse:") for source in sources]
    ensembles = [name for name in names if name.endswith(_ENSEMBLES)]
    base = ensembles[0].rpartition("-")[0] if ensembles else names[0]
    side = min(shape[-2:]) if len(shape) > 1 else shape[-1]
    window = settings.occlusion_window or max(1, side // 8)
    stride = settings.occlusion_stride or max(1, window // 2)
    known = {
        "ig": settings.ig_steps,
        "gradient-shap": settings.shap_samples,
        "occlusion": math.prod(math.ceil(length / stride) for length in shape[1:] or shape),
        "lime": settings.lime_samples,
        "kernel-shap": settings.kernel_shap_samples,
        **dict.fromkeys(("random", "constant", "center", "sobel"), 0),
    }
    copies = settings.samples if base != "gb" else settings.guided_samples or settings.samples
    plain = len(ensembles) < len(names)
    return known.get(base, 1) * (plain + copies * bool(ensembles))


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began
