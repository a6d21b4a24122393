"""Do one job of a sweep, anywhere: everything it needs is in the job, its folder, and the data."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from roadworthy.attribution import Settings, attribute_to_store, open_maps
from roadworthy.errors import DataError, RoadworthyWarning
from roadworthy.evaluation import Strategy, evaluate
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.maps import Saved
from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.evaluation.retrain import Retrainer, Trained
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.forward import device_of
from roadworthy.imputation import Imputer, resolve_imputer
from roadworthy.model import Recipe, load_model, save_weights
from roadworthy.provenance import ids_hash, versions
from roadworthy.records import Data, Split
from roadworthy.rng import normal_fields
from roadworthy.statistics import above_chance
from roadworthy.sweep.job import Job
from roadworthy.sweep.places import maps_path, weights_path
from roadworthy.sweep.plan import RANDOM, gate_images, judge_images
from roadworthy.sweep.saved import ids_of_rows, open_saved
from roadworthy.sweep.store import Record, Store
from roadworthy.sweep.subject import fresh_network, identity, normalization, open_data, whole_ids

if TYPE_CHECKING:
    from roadworthy.evaluation.audit.gate import Gate

RUNTIME = "runtime.json"


def perform(folder: Path, job: Job, device: str = "cpu") -> None:
    """Do a job and write its record.

    Args:
        folder: the sweep's folder.
        job: what to do.
        device: where to compute.

    Raises:
        DataError: the data, or a file the job needs, are not what they were when the sweep was planned.
    """
    trial = Trial(Path(folder), job, device)
    kinds = {"train": trial.train, "maps": trial.maps, "road": trial.road, "judge": trial.judge}
    record = (kinds | {"fill": trial.fill, "audit": trial.audit})[job.kind]()
    record.head |= {"kind": job.kind, "label": job.label, "device": device, "versions": versions()}
    trial.store.write(job.key, record)


class Trial:
    """A job where it is done.

    Args:
        folder: the sweep's folder.
        job: what to do.
        device: where to compute.

    Raises:
        DataError: the data are not what the sweep was planned for.
    """

    def __init__(self, folder: Path, job: Job, device: str) -> None:
        self.folder, self.job, self.spec, self.device = folder, job, job.spec, device
        self.store = Store(folder)
        self.runtime: dict[str, Any] = json.loads((folder / RUNTIME).read_text(encoding="utf8"))
        self.data = self._data()

    def _data(self) -> Data:
        known = self.spec["data"]["identity"]
        data = open_data(self._data_spec())
        found = json.loads(json.dumps(identity(data)))
        differ = [name for name in found if found[name] != known[name]]
        if differ:
            raise DataError(
                f"{self.runtime['source']}: the data are not what this sweep was planned for ({', '.join(differ)} "
                "differ); run the experiment again, or bring the data back"
            )
        return data

    def _data_spec(self) -> dict[str, Any]:
        spec = {name: value for name, value in self.spec["data"].items() if name != "identity"}
        return {**spec, "source": self.runtime["source"]}

    # training

    def train(self) -> Record:
        """Train a network on degraded images, score it, and keep its weights where they are asked for."""
        spec, treatment = self.spec, self._treatment()
        maps = {part: self._rows(part) if treatment.kind == "estimator" else None for part in ("train", "test")}
        retrainer = Retrainer(
            functools.partial(fresh_network, spec["model"], self.data),
            self.data.train,
            self.data.test,
            Recipe(**_tuples(spec["recipe"])),
            seed=spec["seed"],
            validation_share=spec["validation_share"],
            device=self.device,
            memory=spec.get("memory", sys.maxsize),  # without it, all was found to fit when the sweep was planned
            max_batch=self.runtime["max_batch"],
            processes=spec.get("processes", 1),
        )
        every = self.runtime["snapshots"]
        trained, model = retrainer.run(
            treatment,
            self._degrader(treatment),
            train_maps=maps["train"],
            test_maps=maps["test"],
            checkpoint=self.store.scratch(self.job.key) / "checkpoint.pt",
            snapshots=self.folder / "snapshots" / self.job.key if every else None,
            snapshot_every=max(1, every),
        )
        first = treatment.kind == "unmodified" and spec["repeat"] == 0  # the base model, now or in a later experiment
        if self.runtime["keep_weights"] or first:
            save_weights(model, weights_path(self.folder, self.job.key))
        if treatment.kind == "unmodified":
            _warn_at_chance(trained, len(self.data.classes))
        return training_record(trained, treatment, spec["repeat"])

    def test_split(self) -> Split:
        """Return the test samples as the job's treatment leaves them."""
        treatment = self._treatment()
        rows = self._rows("test") if treatment.kind == "estimator" else None
        return self._degrader(treatment).split(self.data.test, treatment, rows)

    def _treatment(self) -> Treatment:
        found = dict(self.spec["treatment"])
        if found["kind"] == "estimator":
            maps = self.spec["maps"]
            found["method"] = maps.get("source") or maps["inside"]
        return Treatment(**found)

    def _degrader(self, treatment: Treatment) -> Degrader:
        removal = _tuples(self.spec.get("removal", {}))
        strategy = Strategy(name="sweep", training="retrain", **removal)
        imputer = self._imputer(strategy.imputer, strategy.noise)
        mean = torch.tensor(self.data.mean if strategy.mean is None else strategy.mean, dtype=torch.float32)
        place = device_of(len, self.device)
        return Degrader(strategy, Filler(imputer, mean, self.spec["seed"], place), self.spec["repeat"])

    def _imputer(self, name: str, noise: float) -> Imputer:
        kind, colon, digest = name.partition(":")
        return resolve_imputer(f"{kind}:{self._file(digest)}" if colon else kind, noise=noise)

    def _rows(self, part: str) -> MapRows:
        about = self.spec["maps"]
        array, ids = self._open(about, part)
        return MapRows(about.get("source") or about["inside"], array, ids)

    def _open(self, about: Mapping[str, Any], part: str) -> tuple[Any, list[str]]:
        """Return the maps of a method for a split, and the ids of their samples."""
        split = getattr(self.data, part)
        if "saved" in about:
            array, ids = open_saved(self._file(about["saved"][part]), about["inside"])
            whole = functools.partial(whole_ids, self._data_spec(), part)
            return array, ids_of_rows(about["inside"], array, ids, split, whole)
        path = maps_path(self.folder, {**self.spec, "maps": about}, about["family"], part)
        try:
            found = open_maps(path)
            return found[about["source"]], found.ids or []
        except (DataError, KeyError, OSError, ValueError) as error:
            raise DataError(
                f"the maps in {path} cannot be read ({error}); delete that folder and give the same command with "
                "--retry-failed: they are made again"
            ) from error

    # maps

    def maps(self) -> Record:
        """Compute maps of one family for one split into a store; what is there already is not computed again."""
        began = time.perf_counter()
        split, about = getattr(self.data, self.spec["split"]), self.spec["maps"]
        saved = attribute_to_store(
            self._base(about["base"]),
            split,
            self.spec["sources"],
            maps_path(self.folder, self.spec, self.spec["family"], self.spec["split"]),
            target=about["target"],
            seed=about["seed"],
            settings=Settings(**_tuples(about["settings"])),
            mean=self.data.mean,
            max_batch=self.runtime["map_batch"],
            device=self.device,
        )
        n = len(saved.ids or ())
        head = {"n": n, "sources": self.spec["sources"], "split": self.spec["split"], "images": n}
        return Record(head | {"seconds": time.perf_counter() - began}, {})

    def _base(self, base: Mapping[str, Any]) -> torch.nn.Module:
        """Return the model that is explained."""
        if "trained" in base:
            weights = str(weights_path(self.folder, base["trained"]))
        else:
            weights = base["weights"] if base["published"] else self._file(base["weights"])
        about = self.spec["model"]
        model = load_model(about["name"], self.data, weights=weights, normalize=normalization(about))
        return model.to(self.device).eval()

    def _file(self, digest: str) -> str:
        return str(self.runtime["files"][digest])

    # comparison

    def road(self) -> Record:
        """Evaluate a method's maps on the same test samples without retraining."""
        began, spec = time.perf_counter(), self.spec
        maps: Any = RANDOM
        if "maps" in spec:
            array, ids = self._open(spec["maps"], "test")
            maps = Saved(array, ids=ids)
        elif spec["removal"]["unit"] == "channel":  # the control has one value for a position
            test = self.data.test
            maps = Saved(normal_fields(spec["seed"], "random-map", test.ids, test.shape), ids=test.ids)
        base = self._base(spec["base"])
        parts: list[Result] = []
        seconds: list[float] = []
        for name in spec["imputers"]:
            parts.append(self._road_with(base, name, maps))
            seconds.append(time.perf_counter() - began - sum(seconds))
        first = parts[0]
        info = first.method_info.iloc[0].drop("method").to_dict()
        head = {
            "orders": first.orders,
            "fractions": first.fractions,
            "removed": first.removed,
            "settings": first.settings | {"views": [view for part in parts for view in part.views]},
            "warnings": sorted({text for part in parts for text in part.warnings}),
            "method_info": {name: None if value is None else float(value) for name, value in info.items()},
            "images": first.n * len(first.orders) * (len(first.fractions) - 1) * len(parts),
            "seconds": sum(seconds),
            "own_seconds": seconds[0],
        }
        arrays = {name: np.concatenate([part.scores[name][0] for part in parts], axis=2) for name in READOUTS}
        arrays |= {name: getattr(first.scores, name) for name in ("labels", "targets", "predicted")}
        return Record(json.loads(json.dumps(head)), arrays | {"ids": np.array(first.ids)})

    def _road_with(self, base: torch.nn.Module, imputer: str, maps: Any) -> Result:
        spec = self.spec
        return evaluate(
            base,
            self.data.test,
            None,
            {spec["name"]: maps},
            strategy="road",
            order=spec["order"],
            fractions=spec["fractions"],
            imputer=self._imputer(imputer, spec["removal"]["noise"]),
            target=spec["target"],
            seed=spec["seed"],
            mean=self.data.mean,
            max_batch=self.runtime["max_batch"],
            device=self.device,
            intact_check="warn",
            sheet=0,
            audit="off",  # a job of its own, for the masks that networks are trained on
            **{name: value for name, value in spec["removal"].items() if name != "noise"},
        )

    # audit

    def audit(self) -> Record:
        """Look for leakage through the masks of the training samples."""
        from roadworthy.evaluation.audit.training import audit_training

        began, spec = time.perf_counter(), self.spec
        strategy = Strategy(name="sweep", **{**spec["removal"], "fractions": tuple(spec["fractions"])})
        found = audit_training(
            self.data.train,
            {spec["name"]: self._rows("train")},
            strategy=strategy,
            fills=self._judged_fills(),
            mean=self._mean(),
            class_count=len(self.data.classes),
            seed=spec["seed"],
            effort=spec["effort"],
        )
        head = {"leakage": found, "images": found["n"]}
        if "judges" in spec:
            pairs = zip(spec["imputers"], spec["judges"], strict=True)
            head["gate"] = [self._gate(strategy, name, judge) for name, judge in pairs]
        return Record(json.loads(json.dumps(head)) | {"seconds": time.perf_counter() - began}, {})

    def _judged_fills(self) -> dict[str, Any]:
        from roadworthy.evaluation.audit.leak_verdict import Fill

        heads = [self.store.read(key).head for key in self.spec["fills"]]
        return {head["imputer"]: Fill(head["rows"], head["reason"]) for head in heads}

    def fill(self) -> Record:
        """Judge how far a fill shows what was removed; it is the same for all methods."""
        from roadworthy.evaluation.audit.training import audit_fill

        began, spec = time.perf_counter(), self.spec
        strategy = self._fill_strategy(fractions=tuple(spec["fractions"]))
        imputer = self._imputer(strategy.imputer, strategy.noise)
        found = audit_fill(
            self.data.train,
            imputer,
            strategy=strategy,
            mean=self._mean(),
            seed=spec["seed"],
            effort=spec["effort"],
        )
        head: dict[str, Any] = {"imputer": imputer.name, "rows": list(found.rows), "reason": found.reason}
        head["images"] = max((row["n"] for row in found.rows), default=0)
        return Record(json.loads(json.dumps(head)) | {"seconds": time.perf_counter() - began}, {})

    def _fill_strategy(self, **changes: Any) -> Strategy:
        return Strategy(name="sweep", **self.spec["removal"], **changes)

    def _gate(self, strategy: Strategy, imputer: str, judge: str) -> list[dict[str, Any]]:
        """Hold networks that are trained on what is kept against the judge of a fill."""
        from roadworthy.evaluation.audit.training import audit_gate

        arrays = self.store.read(judge).arrays
        control = dict(zip(arrays["keeps"].tolist(), arrays["control"], strict=True))
        gate = self._gate_with(self._base({"trained": judge}), strategy, self._imputer(imputer, strategy.noise))
        return audit_gate(gate, {self.spec["name"]: (self._rows("train"), self._rows("test"))}, control)

    def _gate_with(self, judge: torch.nn.Module, strategy: Strategy, imputer: Imputer) -> Gate:
        from roadworthy.evaluation.audit.training import gate_for

        return gate_for(
            judge,
            self.data.train,
            self.data.test,
            imputer=imputer,
            strategy=strategy,
            mean=self._mean(),
            seed=self.spec["seed"],
            device=self.device,
        )

    def judge(self) -> Record:
        """Fine-tune the copy of the base model that retrained networks are held against; try it on random masks."""
        from roadworthy.evaluation.audit.training import judge_of_gate

        began, spec = time.perf_counter(), self.spec
        strategy = self._fill_strategy()
        imputer = self._imputer(strategy.imputer, strategy.noise)
        judge = judge_of_gate(
            self._base(spec["base"]),
            self.data.train,
            imputer=imputer,
            strategy=strategy,
            mean=self._mean(),
            seed=spec["seed"],
            device=self.device,
        )
        save_weights(judge, weights_path(self.folder, self.job.key))
        control = self._gate_with(judge, strategy, imputer).random_hits()
        images = judge_images(len(self.data.train)) + gate_images(len(self.data.train))
        arrays = {"keeps": np.array(list(control)), "control": np.stack(list(control.values()))}
        return Record({"images": images, "seconds": time.perf_counter() - began}, arrays)

    def _mean(self) -> torch.Tensor:
        return torch.tensor(self.spec.get("mean", self.data.mean), dtype=torch.float32)


def _warn_at_chance(trained: Trained, classes: int) -> None:
    right, n = int(trained.top1.sum()), len(trained.ids)
    if not above_chance(right, n, classes):
        warnings.warn(
            f"the unmodified training is right for {right} of {n} test samples, not clearly more often than by "
            f"chance (1 in {classes}): removal can show nothing. Look at the data and the recipe before going on",
            RoadworthyWarning,
            stacklevel=2,
        )


def training_record(trained: Trained, treatment: Treatment, repeat: int) -> Record:
    """Return what is kept of a training."""
    head = {
        "treatment": dataclasses.asdict(treatment),
        "repeat": repeat,
        "n": len(trained.ids),
        "ids_hash": ids_hash(trained.ids),
        "top1": float(trained.top1.mean()),
        "top5": float(trained.top5.mean()),
        "loss": trained.loss,
        "seconds": trained.seconds[1],
        "training_seconds": trained.seconds[0],
        "images": trained.images,
        "history": dataclasses.asdict(trained.history),
    }
    arrays = {name: getattr(trained, name) for name in (*READOUTS, "labels", "predicted")}
    return Record(json.loads(json.dumps(head)), arrays | {"ids": np.array(trained.ids)})


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give back the tuples that JSON has turned into lists."""

    def tupled(value: Any) -> Any:
        return tuple(tupled(part) for part in value) if isinstance(value, list) else value

    return {name: tupled(value) for name, value in fields.items()}
