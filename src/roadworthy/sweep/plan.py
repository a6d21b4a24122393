"""From an experiment to jobs: each carries everything its result follows from, and nothing else."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import roadworthy
from roadworthy.errors import DataError
from roadworthy.evaluation.epochs import GATE, GATE_JUDGE, epochs_for
from roadworthy.sweep.experiment import Experiment
from roadworthy.sweep.job import Job
from roadworthy.sweep.values import fill_name

FORMAT = 1
RANDOM = "random"
ROAD_FILL = "noisy-linear"


@dataclass(frozen=True)
class Plan:
    """The jobs of a sweep, and which point of which curve each stands for.

    Attributes:
        jobs: in an order in which they can be done.
        points: for each imputer, rows ``[method, order, fraction, repeat, key]``; p = 0 and random masks occur under
            every method and order that shares them.
        facts: what a result states and the jobs do not: methods, orders, shares, units removed, classes, settings.
        runtime: what jobs need and results do not follow from: memory, batch sizes, paths of files by their hash.
    """

    jobs: list[Job]
    points: dict[str, list[list[Any]]]
    facts: dict[str, Any]
    runtime: dict[str, Any] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[Job]:
        """Return the jobs of one kind."""
        return [job for job in self.jobs if job.kind == kind]

    def to_json(self) -> str:
        """Write the plan as JSON."""
        jobs = [
            {"kind": job.kind, "spec": job.spec, "needs": job.needs, "label": job.label, "cost": job.cost}
            for job in self.jobs
        ]
        text = json.dumps({"jobs": jobs, "points": self.points, "facts": self.facts, "runtime": self.runtime})
        return json.dumps({"format": FORMAT, "digest": _digest(text)}) + "\n" + text

    @staticmethod
    def from_json(text: str) -> Plan:
        """Read what :meth:`to_json` wrote.

        Raises:
            DataError: something else, or what was changed since.
        """
        head, _, body = text.partition("\n")
        try:
            about = json.loads(head)
            if (about["format"], about["digest"]) != (FORMAT, _digest(body)):
                raise ValueError(f"of format {about['format']!r}, expected {FORMAT}, or changed since it was written")
            found = json.loads(body)
            jobs = [Job(**{**job, "needs": tuple(job["needs"])}) for job in found["jobs"]]
            return Plan(jobs, found["points"], found["facts"], found["runtime"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"plan: cannot be read ({error}); run the experiment again") from error


def judge_images(count: int) -> int:
    """Return how many images the gate's judge is fine-tuned on, repetitions counted."""
    return count * epochs_for(count, GATE_JUDGE)


def gate_images(count: int) -> int:
    """Return how many images the gate's two networks of a method and a fill are trained on, repetitions counted."""
    return 2 * count * epochs_for(count, GATE)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def plan(experiment: Experiment, data: Any) -> Plan:
    """Lay out the jobs of an experiment.

    The unmodified trainings and the random masks are shared by all methods. Maps of methods that share work are
    made together, for the test and the training split. The base model, which the maps explain, is the first
    unmodified training, unless weights are given.

    Args:
        experiment: what to do.
        data: its data, see :func:`roadworthy.sweep.subject.open_data`.

    Raises:
        InputError: names that nothing is known by.
    """
    return _Planner(experiment, data).plan()


def _without_source(spec: dict[str, Any]) -> dict[str, Any]:
    """Leave out where the data lie: what they are is in their identity, and they may be moved."""
    return {name: value for name, value in spec.items() if name != "source"}


class _Planner:
    def __init__(self, experiment: Experiment, data: Any) -> None:
        from roadworthy.evaluation import Strategy
        from roadworthy.model import load_recipe
        from roadworthy.sweep.checks import map_settings
        from roadworthy.sweep.subject import architecture, content_hash, fresh_network, identity

        self.experiment, self.data = experiment, data
        names = ("order", "fractions", "noise", "unit", "sign", "reduction", "random_masks")
        self.strategy = Strategy.of(experiment.strategy, **{name: getattr(experiment, name) for name in names})
        self.fills = {fill_name(imputer): imputer for imputer in experiment.imputers or self.strategy.imputers}
        self.imputers = list(self.fills)
        self.recipe = load_recipe(experiment.recipe)
        self.model = experiment.model.model_dump(mode="json")
        self.weights = self.model.pop("weights")
        network = fresh_network(self.model, data, 0)
        self.common: dict[str, Any] = {
            "version": roadworthy.__version__,
            "data": {**_without_source(experiment.data.model_dump(mode="json")), "identity": identity(data)},
            "model": {**self.model, "architecture": architecture(self.model["name"], network)},
        }
        self.settings = map_settings(experiment)
        self.hashes: dict[str, str] = {}  # of files, to their paths
        self._hash = content_hash
        self.jobs: dict[str, Job] = {}
        self.methods = {**experiment.methods}
        if RANDOM not in self.methods:
            self.methods[RANDOM] = RANDOM

    def plan(self) -> Plan:
        from roadworthy.evaluation.gather import Grid

        base = self._base()
        maps = self._maps(base)
        grid = Grid(
            list(self.methods),
            self.strategy.orders,
            self.strategy.all_fractions,
            list(range(self.experiment.repeats)),
        )
        points: dict[str, list[list[Any]]] = {imputer: [] for imputer in self.imputers}
        for repeat in grid.repeats:
            for treatment in grid.treatments():
                for imputer in self.imputers:
                    key = self._add(self._training(treatment, repeat, imputer, base, maps))
                    points[imputer].append(
                        [treatment.method or treatment.kind, treatment.order, treatment.fraction, repeat, key]
                    )
        chosen = self.methods if self.experiment.compare_road else ()
        road = {name: self._add(self._road(name, base, maps.get(name))) for name in chosen}
        audited = maps if self.experiment.audit != "off" else {}
        fills = [self._add(self._fill_audit(imputer)) for imputer in self.imputers] if audited else []
        judges: list[str] = []
        if audited and "lerf" in self.strategy.orders:  # the gate stands in front of what is kept and retrained
            judges = [self._add(self._judge(base, imputer)) for imputer in self.imputers]
        audits = {name: self._add(self._audit(name, about, fills, judges)) for name, about in audited.items()}
        facts = {**self._facts(), "road": road, "audits": audits}
        return Plan(list(self.jobs.values()), points, facts, self._runtime(base))

    def _add(self, job: Job) -> str:
        return self.jobs.setdefault(job.key, job).key

    def _file(self, path: str) -> str:
        digest = self._hash(path)
        self.hashes[digest] = str(path)
        return digest

    def _train_images(self) -> int:
        return self.recipe.timetable(len(self.data.train)).work

    def _described(self) -> dict[str, Any]:
        return json.loads(json.dumps(self.recipe.described()))

    def _training_spec(self, repeat: int) -> dict[str, Any]:
        held = self.experiment.validation_share if self.experiment.select == "validation" else 0.0
        processes = self.experiment.processes_per_trial
        spec = {
            "recipe": self._described(),
            "seed": self.experiment.seed,
            "repeat": repeat,
            "validation_share": held,
        }
        # sums over processes round otherwise than in one
        if processes > 1:
            spec["processes"] = processes
        if 4 * len(self.data.train) * math.prod(self.data.train.shape) > self.experiment.memory:
            spec["memory"] = self.experiment.memory  # samples that do not fit are shuffled in parts of this size
        return {**self.common, **spec}

    def _base(self) -> dict[str, Any]:
        """Describe the model that is explained: weights from a file or a published set, or the first training."""
        if self.weights is None:
            return {"trained": self._add(self._unmodified(0))}
        published = not Path(self.weights).is_file()
        return {"weights": self.weights if published else self._file(self.weights), "published": published}

    def _unmodified(self, repeat: int) -> Job:
        spec = {**self._training_spec(repeat), "treatment": {"kind": "unmodified"}}
        return Job("train", spec, (), f"unmodified, repeat {repeat}", float(self._train_images()))

    def _training(
        self, treatment: Any, repeat: int, imputer: str, base: dict[str, Any], maps: Mapping[str, tuple[Any, Any]]
    ) -> Job:
        if treatment.kind == "unmodified":
            return self._unmodified(repeat)
        spec = self._training_spec(repeat)
        spec["removal"] = self._removal(treatment.kind, imputer)
        needs: tuple[str, ...] = ()
        about: dict[str, Any] = {"kind": treatment.kind, "fraction": treatment.fraction}
        if treatment.kind == "estimator":
            about |= {"order": treatment.order}
            spec["maps"], needs = maps[treatment.method]
        spec["treatment"] = about
        label = f"{treatment}{self._with(imputer)}, repeat {repeat}"
        return Job("train", spec, needs, label, float(self._train_images()))

    def _fill(self, imputer: str) -> str:
        """Return an imputer as jobs know it: a file by its content."""
        name, colon, path = self.fills.get(imputer, imputer).partition(":")
        return f"{name}:{self._file(path)}" if colon else name

    def _removal(self, kind: str, imputer: str) -> dict[str, Any]:
        """Return the fields of the strategy that matter to a treatment."""
        strategy = self.strategy
        found: dict[str, Any] = {"imputer": self._fill(imputer), "unit": strategy.unit}
        if imputer == "noisy-linear":
            found["noise"] = strategy.noise
        if strategy.mean is not None:
            found["mean"] = list(strategy.mean)
        if kind == "random":
            return found | {"random_masks": strategy.random_masks}
        return found | {"sign": strategy.sign, "reduction": strategy.reduction, "ties": strategy.ties}

    def _maps(self, base: dict[str, Any]) -> dict[str, tuple[dict[str, Any], tuple[str, ...]]]:
        """Add the jobs that make maps; return, for each method, what its trainings say of maps and need."""
        from roadworthy.attribution import methods as registered
        from roadworthy.attribution.requests import INVERSE, parse
        from roadworthy.attribution.settings import read_by

        found: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {}
        made = {
            name: source
            for name, source in self.methods.items()
            if isinstance(source, str) and (name, source) != (RANDOM, RANDOM)
        }
        families: dict[str, dict[str, str]] = {}
        for request in parse(made) if made else ():
            source = f"{INVERSE}{request.source}" if request.sign < 0 else str(request.source)
            families.setdefault(registered[str(request.source)].name, {})[request.name] = source
        for family, chosen in families.items():
            about: dict[str, Any] = {
                "base": base,
                "settings": json.loads(json.dumps(asdict(read_by(self.settings, family)))),
                "target": self.experiment.maps.target,
                "seed": self.experiment.seed,
            }
            keys = tuple(self._add(self._map_job(family, chosen, part, about)) for part in ("test", "train"))
            for name, source in chosen.items():
                found[name] = ({**about, "family": family, "source": source}, keys)
        for name, saved in self.methods.items():
            if not isinstance(saved, str):
                self._check_saved(name, saved)
                files = {"train": self._file(saved.train), "test": self._file(saved.test)}
                found[name] = ({"saved": files, "inside": name}, ())
        return found

    def _check_saved(self, name: str, saved: Any) -> None:
        """Refuse saved maps that do not fit the samples, before anything is trained."""
        from roadworthy.removal import unit_values
        from roadworthy.sweep.saved import ids_of_rows, open_saved
        from roadworthy.sweep.subject import whole_ids

        spec = self.experiment.data.model_dump(mode="json")
        for part in ("train", "test"):
            split = getattr(self.data, part)
            array, ids = open_saved(getattr(saved, part), name)
            ids_of_rows(name, array, ids, split, functools.partial(whole_ids, spec, part))
            unit_values(array[:1], split.shape, unit=self.strategy.unit, reduction=self.strategy.reduction, name=name)

    def _map_job(self, family: str, chosen: dict[str, str], part: str, about: dict[str, Any]) -> Job:
        spec = {
            **self.common,
            "maps": about,
            "family": family,
            "sources": sorted(set(chosen.values())),
            "split": part,
        }
        needs = tuple(key for name, key in about["base"].items() if name == "trained")
        # one map in units of an image trained on: known only once some are made, and then it no longer matters
        cost = 4.0 * len(chosen) * len(getattr(self.data, part))
        return Job("maps", spec, needs, f"maps of {', '.join(chosen)}, {part} split", cost)

    def _road(self, name: str, base: dict[str, Any], maps: tuple[dict[str, Any], tuple[str, ...]] | None) -> Job:
        strategy = self.strategy
        spec = {
            **self.common,
            "name": RANDOM if maps is None else maps[0].get("source") or maps[0]["inside"],
            "base": base,
            "order": strategy.order,
            "fractions": list(strategy.fractions),
            "seed": self.experiment.seed,
            "target": self.experiment.maps.target,
            # ROAD's own fill first: it is what stands beside the results
            "imputers": [self._fill(imputer) for imputer in dict.fromkeys((ROAD_FILL, *self.imputers))],
            "removal": {field: getattr(strategy, field) for field in ("unit", "sign", "reduction", "noise")},
        }
        needs = [base["trained"]] if "trained" in base else []
        if maps is not None:
            spec["maps"] = maps[0]
            needs += [key for key in maps[1] if self.jobs[key].spec["split"] == "test"]
        copies = len(strategy.orders) * len(strategy.fractions) * len(spec["imputers"])
        cost = len(self.data.test) * copies / 3
        return Job("road", spec, tuple(needs), f"ROAD of {name}", cost)

    def _judge(self, base: dict[str, Any], imputer: str) -> Job:
        strategy, count = self.strategy, len(self.data.train)
        spec = {**self.common, "base": base, "removal": self._fill_fields(imputer), "seed": self.experiment.seed}
        if strategy.mean is not None:
            spec["mean"] = list(strategy.mean)
        needs = tuple(key for name, key in base.items() if name == "trained")
        label = f"judge of the gate{self._with(imputer)}"
        return Job("judge", spec, needs, label, float(judge_images(count) + gate_images(count)))

    def _fill_audit(self, imputer: str) -> Job:
        spec = {
            **self.common,
            "removal": self._fill_fields(imputer),
            "fractions": list(self.strategy.fractions),
            "seed": self.experiment.seed,
            "effort": self.experiment.audit,
        }
        if self.strategy.mean is not None:
            spec["mean"] = list(self.strategy.mean)
        return Job("fill", spec, (), f"audit of the {imputer} fill", float(len(self.data.train)) / 8)

    def _fill_fields(self, imputer: str) -> dict[str, Any]:
        """Return the fields of the strategy that matter to a fill of whatever is removed."""
        found = {"imputer": self._fill(imputer), "unit": self.strategy.unit}
        return found | {"noise": self.strategy.noise} if imputer == "noisy-linear" else found

    def _with(self, imputer: str) -> str:
        return f", {imputer}" if len(self.imputers) > 1 else ""

    def _audit(
        self, name: str, maps: tuple[dict[str, Any], tuple[str, ...]], fills: list[str], judges: list[str]
    ) -> Job:
        strategy = self.strategy
        fields = ("order", "unit", "sign", "reduction", "noise", "ties")
        spec = {
            **self.common,
            "name": name,
            "maps": maps[0],
            "fractions": list(strategy.fractions),
            "imputers": [self._fill(imputer) for imputer in self.imputers],
            "fills": fills,
            "removal": {field: getattr(strategy, field) for field in fields},
            "seed": self.experiment.seed,
            "effort": self.experiment.audit,
        }
        if strategy.mean is not None:
            spec["mean"] = list(strategy.mean)
        label, count = f"audit of {name}", len(self.data.train)
        if judges:
            spec["judges"] = judges
            cost = float(len(judges) * gate_images(count))
            return Job("audit", spec, (*maps[1], *fills, *judges), label, cost)
        needs = tuple(key for key in maps[1] if self.jobs[key].spec["split"] == "train")
        return Job("audit", spec, (*needs, *fills), label, float(count) / 8)

    def _facts(self) -> dict[str, Any]:
        import numpy as np

        from roadworthy.removal import units_removed

        strategy, shape = self.strategy, self.data.train.shape
        units = int(np.prod(shape[1:] if strategy.unit == "pixel" and len(shape) > 1 else shape))
        settings = strategy.settings() | {
            "target": self.experiment.maps.target,
            "labels": "given",
            "recipe": self._described(),
            "select": self.experiment.select,
            "settings": self.experiment.maps.settings,
            "data": self.experiment.data.source,
            "model": self.experiment.model.name,
            "imputers": self.imputers,
            "train_images": len(self.data.train),
            "classes": len(self.data.classes),
        }
        settings["strategy"] = self.experiment.strategy
        return {
            "methods": list(self.methods),
            "orders": list(strategy.orders),
            "fractions": list(strategy.all_fractions),
            "repeats": self.experiment.repeats,
            "removed": [units_removed(units, fraction) for fraction in strategy.all_fractions],
            "classes": [str(name) for name in self.data.classes],
            "seed": self.experiment.seed,
            "settings": settings,
        }

    def _runtime(self, base: dict[str, Any]) -> dict[str, Any]:
        experiment = self.experiment
        return {
            "source": experiment.data.source,
            "max_batch": experiment.max_batch,
            "map_batch": experiment.maps.max_batch,
            "snapshots": experiment.snapshots,
            "keep_weights": experiment.keep_weights,
            "base": base.get("trained", ""),
            "fills": self.fills,
            "files": self.hashes,
        }
