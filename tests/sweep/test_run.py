"""A small real sweep: the same numbers as in one process, whatever was stopped, deleted or changed on the way."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import roadworthy as rw
from roadworthy.attribution import open_maps
from roadworthy.errors import AttributionError, DataError, InputError
from roadworthy.evaluation.audit.gate import encoding_gap
from roadworthy.evaluation.audit.training import audit_training
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.result import READOUTS
from roadworthy.evaluation.retrain import Retrainer
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.imputation import resolve_imputer
from roadworthy.model import load_recipe
from roadworthy.sweep.checks import completed
from roadworthy.sweep.collate import collate, is_sweep, read_plan, training_table
from roadworthy.sweep.executors import SerialExecutor
from roadworthy.sweep.experiment import Experiment, dump, load_experiment
from roadworthy.sweep.job import Job
from roadworthy.sweep.run import plan_of, prepare, run_experiment, save_results, stamp
from roadworthy.sweep.store import Store
from roadworthy.sweep.subject import fresh_network, open_data
from roadworthy.sweep.trial import Trial, perform

SMALL = {
    "data.train": 120,
    "data.test": 50,
    "methods": ["grad", "random"],
    "fractions": [0.5],
    "order": "both",
    "repeats": 2,
    "recipe": {"base": "digits", "epochs": 1, "warmup_epochs": 0},
    "audit": "off",
}


def small(**changes: Any) -> Experiment:
    return load_experiment(None, {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}})


def run(folder: Path, experiment: Experiment, **options: Any) -> list[tuple[str, str]]:
    events: list[tuple[str, str]] = []
    run_experiment(
        experiment,
        folder,
        executor=SerialExecutor(),
        on_event=lambda what, job, seconds: events.append((what, job.label)),
        **options,
    )
    return events


def done(events: list[tuple[str, str]], what: str = "finished") -> list[str]:
    return [label for name, label in events if name == what]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "run"
    events = run(folder, small())
    assert not done(events, "failed")
    # 2 x (unmodified, random, grad in two orders), maps of two splits, ROAD of two methods
    assert len(done(events)) == 2 * 4 + 2 + 2
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def test_nothing_is_missing_in_the_end(finished: Path) -> None:
    collected, places = save_results(finished)
    assert (collected.finished, collected.planned, collected.missing) == (8, 8, [])
    assert rw.load_result(places["mean"]).methods == ["grad", "random"]


def test_a_training_by_hand_gives_the_same_bits(finished: Path) -> None:

    spec, plan = small(), read_plan(finished)
    data = open_data(spec.data.model_dump(mode="json"))
    base = rw.load_model("digits-cnn", data, weights=finished / "models" / f"{plan.runtime['base']}.safetensors")
    model = spec.model.model_dump(mode="json")
    retrainer = Retrainer(
        lambda seed: fresh_network(model, data, seed), data.train, data.test, load_recipe(spec.recipe), seed=0
    )
    filler = Filler(resolve_imputer("mean"), torch.tensor(data.mean), 0, torch.device("cpu"))
    maps = {
        part.name: MapRows("grad", rw.attribute(base, part, ["grad"], mean=data.mean)["grad"], part.ids)
        for part in (data.train, data.test)
    }
    degrader = Degrader(Strategy.of("roar", fractions=(0.5,)), filler, 1)
    trained, _ = retrainer.run(
        Treatment.of("grad", "lerf", 0.5), degrader, train_maps=maps["train"], test_maps=maps["test"]
    )
    key = next(row[-1] for row in plan.points["mean"] if row[:4] == ["grad", "lerf", 0.5, 1])
    record = Store(finished).read(key)
    for readout in READOUTS:
        assert (record.arrays[readout] == getattr(trained, readout)).all()
    assert record.head["loss"] == trained.loss


def test_a_finished_sweep_does_nothing_and_loads_no_data(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the data were opened")

    monkeypatch.setattr("roadworthy.sweep.subject.open_data", refuse)
    before = {file: file.stat().st_mtime_ns for file in copied.rglob("*") if file.is_file()}
    events = run(copied, small())
    assert not done(events)
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_the_table_has_every_training(finished: Path) -> None:
    table = training_table(read_plan(finished), Store(finished))
    assert len(table) == 8
    assert (table["n"] == 50).all()
    result = collate(read_plan(finished), Store(finished)).results["mean"]
    for row in table.itertuples():
        for m, method in enumerate(result.methods):
            for o, order in enumerate(result.orders):
                p = result.fractions.index(row.fraction)
                mine = (
                    row.fraction == 0
                    or method == row.method == "random"
                    or (method, order) == (row.method, row.order)
                )
                if mine:
                    assert result.scores.top1[m, o, p, row.repeat].mean() == pytest.approx(row.top1)


def test_another_share_runs_that_share_alone_and_keeps_the_old_experiment(copied: Path) -> None:
    events = run(copied, small(fractions=[0.2, 0.5]))
    finished_now = done(events)
    assert len(finished_now) == 2 * 3 + 2  # and ROAD, which has the new share too
    assert all("0.2" in label or "ROAD" in label for label in finished_now)
    # written out in full, with the strategy's own values
    assert (copied / "experiment-1.yaml").read_text() == dump(completed(small()))
    assert (copied / "experiment.yaml").read_text() == dump(completed(small(fractions=[0.2, 0.5])))
    # and it stands for the same work
    again = load_experiment(copied / "experiment.yaml")
    assert not done(run(copied, again))


def test_data_may_be_moved(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for split, n in (("train", 8), ("test", 4)):
        for label in ("a", "b"):
            (tmp_path / "here" / split / label).mkdir(parents=True)
            for row in range(n):
                pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "here" / split / label / f"{row}.png")

    def of(place: str) -> Experiment:
        return small(data=f"folder:{tmp_path / place}", data__train=None, data__test=None, repeats=1)

    run(tmp_path / "run", of("here"))
    (tmp_path / "here").rename(tmp_path / "there")
    assert not done(run(tmp_path / "run", of("there")))


def test_a_record_that_was_lost_or_damaged_is_made_again_with_the_same_bits(copied: Path) -> None:
    plan, store = read_plan(copied), Store(copied)
    lost, damaged = (job.key for job in plan.of_kind("train")[1:3])
    before = {key: store.read(key).arrays["probability"] for key in (lost, damaged)}
    (copied / "trials" / f"{lost}.npz").unlink()
    path = copied / "trials" / f"{damaged}.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(DataError, match="damaged"):
        store.read(damaged)
    events = run(copied, small())
    assert len(done(events)) == 2
    for key, values in before.items():
        assert (store.read(key).arrays["probability"] == values).all()


def remove(folder: Path, chosen: Callable[[Any], bool]) -> int:
    jobs = [job for job in read_plan(folder).jobs if chosen(job)]
    for job in jobs:
        (folder / "trials" / f"{job.key}.npz").unlink()
    return len(jobs)


def test_an_unfinished_sweep_is_told_of_what_is_there(copied: Path) -> None:
    remove(copied, lambda job: "grad lerf 0.5, repeat 1" in job.label)
    collected, places = save_results(copied)
    result = rw.load_result(places["mean"])
    assert (result.methods, result.repeats) == (["grad", "random"], 1)
    assert result.missing == ["1 of 8 trainings not done yet: grad lerf 0.5, repeat 1"]
    assert any("1 of 2 repeats" in warning for warning in result.warnings)
    remove(copied, lambda job: "grad morf 0.5, repeat 0" in job.label)
    assert collate(read_plan(copied), Store(copied)).results["mean"].methods == ["random"]
    remove(copied, lambda job: job.label.startswith("unmodified"))
    collected, _ = save_results(copied)
    assert collected.results == {}
    assert collected.finished == 4
    assert run(copied, small())
    assert save_results(copied)[0].missing == []


def test_a_method_that_fails_stops_no_other(tmp_path: Path) -> None:
    experiment = small(
        methods=["grad", "gradcam", "random"],
        maps__settings={"base": "road", "gradcam_layer": "nowhere"},
        repeats=1,
    )
    events = run(tmp_path / "run", experiment)
    assert set(done(events, "failed")) == {"maps of gradcam, test split", "maps of gradcam, train split"}
    store, plan = Store(tmp_path / "run"), read_plan(tmp_path / "run")
    failures = list(store.failures().values())
    assert all("nowhere" in failure.traceback for failure in failures)
    collected = collate(plan, store)
    assert collected.results["mean"].methods == ["grad", "random"]
    assert any(line.startswith("2 of 4 sets of maps failed") for line in collected.missing)
    assert "left out, since some of their trainings are not there: gradcam" in collected.results["mean"].warnings
    # told again, they stay failed; with retry_failed they are tried
    assert not done(run(tmp_path / "run", experiment))
    assert len(done(run(tmp_path / "run", experiment, retry_failed=True), "failed")) == 2


def test_maps_from_files_stand_for_both_splits(tmp_path: Path, finished: Path) -> None:
    files = {}
    for part in ("train", "test"):
        saved = open_maps(next((finished / "maps").glob(f"*/grad-{part}.zarr")))
        np.savez(tmp_path / f"{part}.npz", mine=np.asarray(saved["grad"]), ids=np.array(saved.ids))
        files[part] = str(tmp_path / f"{part}.npz")
    run(tmp_path / "run", small(methods={"mine": files, "random": "random"}, compare_road=False))
    ours = collate(read_plan(tmp_path / "run"), Store(tmp_path / "run")).results["mean"]
    made = collate(read_plan(finished), Store(finished)).results["mean"]
    assert (ours.scores.probability[0] == made.scores.probability[0]).all()


def test_the_comparison_with_road_and_the_cost_are_in_the_result(finished: Path) -> None:
    result = collate(read_plan(finished), Store(finished)).results["mean"]
    beside = result.settings["beside"]["road"]
    assert set(beside["score"]) == {"grad", "random"}
    assert beside["images"] == 50 * 2 * 2
    save_results(finished)
    road = rw.load_result(finished / "road")
    spec, plan = small(), read_plan(finished)
    data = open_data(spec.data.model_dump(mode="json"))
    base = rw.load_model("digits-cnn", data, weights=finished / "models" / f"{plan.runtime['base']}.safetensors")
    whole = rw.evaluate(
        base, data.test, None, ["grad", "random"], strategy="road", fractions=(0.5,), mean=data.mean,
        intact_check="warn", imputer=["noisy-linear", "mean"], audit="off",
    )  # fmt: skip
    assert road.views == whole.views
    assert (road.scores.top1 == whole.scores.top1).all()
    np.testing.assert_allclose(road.scores.probability, whole.scores.probability, atol=1e-5)
    expected = whole.view(0).ranking().set_index("method")["score"]
    for name, value in beside["score"].items():
        assert value == pytest.approx(expected[name])
    cost: pd.DataFrame = result.cost
    assert cost["work"].value_counts().to_dict() == {"retrain": 8, "maps": 2, "road": 2}
    assert (cost.loc[cost["work"] == "retrain", "images"] == 120).all()
    assert (cost["seconds"] > 0).all()


def test_changed_data_are_noticed(tmp_path: Path, copied: Path) -> None:
    assert is_sweep(copied)
    assert not is_sweep(tmp_path)
    with pytest.raises(DataError, match="no sweep lies here"):
        read_plan(tmp_path)
    folder = tmp_path / "images"
    folder.mkdir()
    experiment = small(data=f"folder:{folder}", data__train=None, data__test=None)
    assert stamp(experiment) is None
    (folder / "a.png").write_bytes(b"x")
    first = stamp(experiment)
    (folder / "b.png").write_bytes(b"x")
    assert first is not None
    assert stamp(experiment) != first
    assert stamp(small(model="package.module:factory", recipe="digits")) is None


def test_data_that_are_not_those_planned_for_fail_the_job(copied: Path) -> None:
    plan = prepare(small(), copied)
    job = plan.of_kind("train")[0]
    changed = {**job.spec, "data": {**job.spec["data"], "identity": {**job.spec["data"]["identity"], "train": "0"}}}
    with pytest.raises(DataError, match=r"digits: the data are not what this sweep was planned for \(train differ\)"):
        perform(copied, Job("train", changed), "cpu")


def edit(folder: Path, split: str, seed: int) -> None:
    """Write noise under the names of a split's images."""
    generator = np.random.default_rng(seed)
    for label in ("a", "b"):
        (folder / split / label).mkdir(parents=True, exist_ok=True)
        for row in range(8):
            pixels = generator.integers(0, 256, (8, 8), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / split / label / f"{row}.png")


def test_other_pixels_under_the_same_names_are_other_data(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    edit(folder, "train", 0)
    edit(folder, "test", 1)
    experiment = small(data=f"folder:{folder}", data__train=None, data__test=None, repeats=1, compare_road=False)
    first = {job.key for job in plan_of(experiment).of_kind("train")}
    edit(folder, "test", 2)
    assert not first & {job.key for job in plan_of(experiment).of_kind("train")}
    edit(folder, "test", 1)
    assert first == {job.key for job in plan_of(experiment).of_kind("train")}


@pytest.mark.parametrize("node", ["maps/grad/c/0/0/0/0", "ids/c/0", "ids/zarr.json"])
def test_damage_inside_a_store_of_maps_is_found_when_failures_are_tried_again(copied: Path, node: str) -> None:
    plan = read_plan(copied)
    before = {job.key: Store(copied).read(job.key).arrays for job in plan.of_kind("train")}
    lose_estimators(copied)
    for store in (copied / "maps").glob("*/grad-test.zarr"):
        path = store / node
        if node.startswith("maps"):
            path.write_bytes(path.read_bytes()[:5])
        else:
            path.unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(copied, small())
        run(copied, small(), retry_failed=True)
    assert save_results(copied)[0].missing == []
    for key, arrays in before.items():
        for name, values in Store(copied).read(key).arrays.items():
            assert (values == arrays[name]).all()


def lose_estimators(folder: Path) -> int:
    return remove(folder, lambda job: job.label.startswith("grad"))


def test_maps_and_weights_that_are_gone_are_made_again(copied: Path) -> None:
    plan, store = read_plan(copied), Store(copied)
    before = {job.key: store.read(job.key).arrays for job in plan.of_kind("train")}
    lost = lose_estimators(copied)
    shutil.rmtree(copied / "maps")
    with pytest.warns(UserWarning, match="gone or cannot be read; it is done again"):
        events = run(copied, small())
    assert len(done(events)) == lost + 2
    lost = lose_estimators(copied)
    for path in (copied / "maps").glob("*/grad-train.zarr/zarr.json"):
        path.write_text("{")
    weights = copied / "models" / f"{plan.runtime['base']}.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    remove(copied, lambda job: job.kind == "maps" and job.spec["split"] == "test")
    with pytest.warns(UserWarning, match="done again"):
        run(copied, small())
    assert save_results(copied)[0].missing == []
    for key, arrays in before.items():
        for name, values in Store(copied).read(key).arrays.items():
            assert (values == arrays[name]).all()


def test_weights_given_first_and_none_later_share_a_folder(tmp_path: Path, finished: Path) -> None:
    weights = next((finished / "models").iterdir())
    run(tmp_path, small(model={"name": "digits-cnn", "weights": str(weights)}, compare_road=False))
    events = run(tmp_path, small(compare_road=False))
    assert not done(events, "failed")
    assert save_results(tmp_path)[0].missing == []


@pytest.mark.parametrize("content", ["", "[]", None])
def test_what_jobs_read_at_their_start_is_written_again(copied: Path, content: str | None) -> None:
    remove(copied, lambda job: "repeat 1" in job.label)
    if content is None:
        (copied / "runtime.json").unlink()
    else:
        (copied / "runtime.json").write_text(content)
    assert not done(run(copied, small()), "failed")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{}", b'{"format": 1, "digest": "x"}\n{}'])
def test_a_damaged_plan_is_made_again(copied: Path, content: bytes) -> None:
    (copied / "plan.json").write_bytes(content)
    with pytest.raises(DataError, match="run the experiment again"):
        read_plan(copied)
    assert not done(run(copied, small()))
    assert save_results(copied)[0].missing == []


def test_saved_maps_that_do_not_fit_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    np.save(tmp_path / "test.npy", np.zeros((50, 8, 8)))
    np.save(tmp_path / "odd.npy", np.zeros((120, 8, 7)))
    for train, message in (("test.npy", "mine: 50 maps for 120 train samples, of 1438 in all"), ("odd.npy", "8, 7")):
        files = {"train": str(tmp_path / train), "test": str(tmp_path / "test.npy")}
        with pytest.raises(AttributionError, match=message):
            plan_of(small(methods={"mine": files}))


def test_saved_maps_of_all_samples_serve_a_part_of_them(tmp_path: Path) -> None:
    whole = rw.load_data("digits")
    for split in (whole.train, whole.test):
        np.save(tmp_path / f"{split.name}.npy", split.images.numpy()[:, 0])
    files = {part: str(tmp_path / f"{part}.npy") for part in ("train", "test")}
    experiment = small(methods={"mine": files}, compare_road=False, repeats=1, order="morf")
    run(tmp_path / "run", experiment)
    data = open_data(experiment.data.model_dump(mode="json"))
    part = MapRows("mine", data.test.images.numpy()[:, 0], data.test.ids)
    plan = read_plan(tmp_path / "run")
    job = next(job for job in plan.of_kind("train") if job.spec["treatment"]["kind"] == "estimator")
    rows = Trial(tmp_path / "run", job, "cpu")._rows("test")
    assert (rows(data.test.ids) == part(data.test.ids)).all()


def test_two_patterns_of_record_files_are_two_methods(tmp_path: Path) -> None:
    pytest.importorskip("google_crc32c", reason="needs the extra tfrecord")
    data = open_data(small().data.model_dump(mode="json"))
    files = {}
    for name, seed in (("grad", 0), ("ig", 1)):
        for split in (data.train, data.test):
            values = np.random.default_rng(seed).normal(size=(len(split), 8, 8)).astype(np.float32)
            np.savez(tmp_path / f"{name}-{split.name}.npz", **{name: values}, ids=np.array(split.ids))
        files[name] = {part: str(tmp_path / f"{name}-{part}.npz") for part in ("train", "test")}
    plan = plan_of(small(methods=files))
    assert len(plan.runtime["files"]) == 4
    swapped = {"ig": files["grad"]}
    with pytest.raises(DataError, match="maps 'ig': .* holds grad; call the method what it is there"):
        plan_of(small(methods=swapped))
    with pytest.raises((DataError, InputError), match="no record files there"):
        plan_of(small(methods={"mine": {"train": str(tmp_path / "no-*"), "test": str(tmp_path / "no-*")}}))


def test_roar_2019_goes_the_whole_way_in_colour(tmp_path: Path) -> None:
    experiment = load_experiment(
        None,
        {
            "data": "planted-colour:n=60,test=20",
            "model": "small-cnn",
            "recipe": {"base": "fast-cifar", "epochs": 1, "warmup_epochs": 0},
            "strategy": "roar-2019",
            "methods": ["grad", "sobel", "gradcam"],
            "maps": "roar-code",
            "fractions": [0.5],
            "repeats": 1,
        },
    )
    events = run(tmp_path, experiment)
    assert not done(events, "failed")
    collected, _ = save_results(tmp_path)
    assert collected.results["mean"].methods == ["grad", "sobel", "gradcam", "random"]
    assert collected.results["mean"].settings["mean"] == [0.485, 0.456, 0.406]


def test_road_beside_points_the_way_roar_does(tmp_path: Path) -> None:
    better = {"base": "digits", "epochs": 8}
    run(
        tmp_path,
        small(methods=["ig", "inverse:ig"], order="morf", fractions=[0.3], repeats=1, recipe=better, data__train=400),
    )
    result = save_results(tmp_path)[0].results["mean"]
    beside = result.settings["beside"]["road"]
    assert (beside["orders"], beside["higher_is_better"]) == (["morf"], False)
    assert beside["score"]["ig"] < beside["score"]["inverse:ig"]
    assert beside["images"] == 50 * 3


@pytest.mark.parametrize(("memory", "expected"), [(1000, 1000), (10**12, None)])
def test_memory_is_what_the_experiment_says_and_no_bound_where_all_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, expected: int | None
) -> None:
    plan = prepare(small(memory=memory), tmp_path)
    seen: list[int] = []

    def stop(self: Retrainer, *_: object, **__: object) -> None:
        seen.append(self.memory)
        raise KeyboardInterrupt

    monkeypatch.setattr(Retrainer, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        perform(tmp_path, plan.of_kind("train")[0], "cpu")
    # more than any data have, also than the default that fit has for itself
    assert seen == [expected] if expected is not None else seen[0] > 2**50


def test_masks_of_the_training_samples_are_audited(tmp_path: Path) -> None:
    experiment = small(
        data__train=400, imputers=["mean", "noisy-linear"], repeats=1, audit="quick", compare_road=False
    )
    events = run(tmp_path, experiment)
    assert "audit of grad" in done(events)
    collected, _ = save_results(tmp_path)
    for imputer in ("mean", "noisy-linear"):
        audit = collected.results[imputer].audit["leakage"]
        assert (audit["n"], audit["target"], audit["classes"]) == (400, "label", 10)
        assert {row["method"] for row in audit["masks"]} == {"grad"}
        assert {(row["method"], row["imputer"]) for row in audit["verdicts"]} == {("grad", imputer)}
        assert {row["imputer"] for row in audit["imputers"]} == {imputer}
        assert rw.load_result(tmp_path / imputer).audit == collected.results[imputer].audit
        assert [(row["method"], row["keep"]) for row in collected.results[imputer].audit["gate"]] == [
            ("grad", 0.06), ("grad", 0.12)
        ]  # fmt: skip
        assert {row["imputer"] for row in collected.results[imputer].audit["gate"]} == {imputer}
    cost = collected.results["mean"].cost
    assert {"audit", "judge"} <= set(cost["work"])
    assert {"the mean fill", "the noisy-linear fill", "grad"} <= set(cost["method"][cost["work"] == "audit"])
    # the same by hand, with the judge that was kept
    plan, data = read_plan(tmp_path), open_data(experiment.data.model_dump(mode="json"))
    (judge,) = (job for job in plan.of_kind("judge") if job.spec["removal"]["imputer"] == "mean")
    network = rw.load_model("digits-cnn", data, weights=tmp_path / "models" / f"{judge.key}.safetensors")
    maps = [
        np.asarray(open_maps(next((tmp_path / "maps").glob(f"*/grad-{part}.zarr")))["grad"])
        for part in ("train", "test")
    ]
    rows = encoding_gap(network, data.train, data.test, {"grad": tuple(maps)}, mean=data.mean, seed=0)
    for made, kept in zip(rows, collected.results["mean"].audit["gate"], strict=True):
        for name in ("kar", "judge", "control_kar", "control_judge"):
            assert made[name] == pytest.approx(kept[name], abs=0.021)  # one sample of 50: threads may round otherwise


def test_a_fill_is_judged_once_for_all_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from roadworthy.evaluation.audit import leakage

    asked: list[str] = []
    real = leakage.imputation_errors

    def counted(images: Any, imputer: Any, **options: Any) -> Any:
        asked.append(imputer.name)
        return real(images, imputer, **options)

    monkeypatch.setattr(leakage, "imputation_errors", counted)
    experiment = small(
        data__train=60, methods=["grad", "ixg"], order="morf", fractions=[0.5], repeats=1, audit="quick",
        compare_road=False,
    )  # fmt: skip
    run(tmp_path, experiment)
    assert asked == ["mean"]
    collected, _ = save_results(tmp_path)
    found = collected.results["mean"].audit["leakage"]
    assert [row["method"] for row in found["verdicts"]] == ["grad", "ixg"]
    assert {row["imputer"] for row in found["imputers"]} == {"mean"}
    # as if it had been judged with the masks
    plan, data = read_plan(tmp_path), open_data(experiment.data.model_dump(mode="json"))
    job = next(job for job in plan.of_kind("audit") if job.spec["name"] == "grad")
    trial = Trial(tmp_path, job, "cpu")
    strategy = Strategy(name="sweep", **job.spec["removal"], fractions=(0.5,))
    alone = audit_training(
        data.train, {"grad": trial._rows("train")}, strategy=strategy, imputers=[trial._imputer("mean", 0.01)],
        mean=trial._mean(), class_count=10, seed=0,
    )  # fmt: skip
    assert alone["imputers"] == found["imputers"]
    assert alone["verdicts"] == found["verdicts"][:1]


def test_without_lerf_no_gate_is_needed() -> None:
    found = plan_of(small(audit="quick", order="morf"))
    assert not found.of_kind("judge")
    assert all("judges" not in job.spec for job in found.of_kind("audit"))
    assert len(plan_of(small(audit="quick")).of_kind("judge")) == 1


def test_a_trained_fill_is_known_by_its_content(tmp_path: Path) -> None:
    from roadworthy.imputation import GainSettings, train_gain

    data = open_data(small().data.model_dump(mode="json"))
    for name, seed in (("one", 0), ("other", 1)):
        gain = train_gain(data.train, settings=GainSettings(size=2, blocks=0, epochs=1), seed=seed)
        gain.save(tmp_path / f"{name}.safetensors")
    shutil.copy(tmp_path / "one.safetensors", tmp_path / "copy.safetensors")

    def with_fill(name: str) -> Experiment:
        return small(imputers=["mean", f"gain:{tmp_path / name}.safetensors"], compare_road=False, repeats=1)

    plans = {name: plan_of(with_fill(name)) for name in ("one", "copy", "other")}
    keys = {name: {job.key for job in found.jobs} for name, found in plans.items()}
    assert set(plans["one"].points) == {"mean", "gain"}
    assert keys["one"] == keys["copy"] != keys["other"]
    run(tmp_path / "run", with_fill("one"))
    assert "gain" in save_results(tmp_path / "run")[1]
    with pytest.raises(InputError, match="each name once"):
        small(imputers=[f"gain:{tmp_path}/one.safetensors", f"gain:{tmp_path}/other.safetensors"])
