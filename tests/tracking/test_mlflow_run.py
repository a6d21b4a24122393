"""MLflow itself, with a store in a folder: every number is read back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roadworthy as rw
from roadworthy.errors import InputError, MissingExtraError
from roadworthy.evaluation import Result
from roadworthy.labelfree.result import LabelFree
from roadworthy.tracking.entries import entries_of

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no other store without a server
mlflow: Any = pytest.importorskip("mlflow")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    yield mlflow.MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def check_written(client: Any, run_id: str, result: Result | LabelFree, prefix: str = "roadworthy/") -> None:
    told, run = entries_of(result), client.get_run(run_id)
    numbers = {f"{prefix}{name}": value for name, value in told.metrics.items()}
    assert {name: run.data.metrics[name] for name in numbers} == numbers
    for name, curve in told.curves.items():
        assert {point.step: point.value for point in client.get_metric_history(run_id, prefix + name)} == curve
    for name, text in told.params.items():
        kept = run.data.params[prefix + name]
        assert kept == text if len(text) <= 500 else kept == text[:499] + "…"
    for name, text in told.tags.items():
        kept = run.data.tags[prefix + name]
        assert kept == text if len(text) <= 5000 else kept == text[:4999] + "…"


def test_a_new_run_in_an_experiment(client: Any, result: Result, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("<p>")
    run_id = rw.to_mlflow(result, experiment="explainers", report=page)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "roadworthy road"
    assert client.get_experiment(run.info.experiment_id).name == "explainers"
    check_written(client, run_id, result)
    files = {file.path.removeprefix("roadworthy/") for file in client.list_artifacts(run_id, "roadworthy")}
    assert files == {"report.html", "result.json", "ranking.csv", "results.parquet", "per_sample.parquet"}
    again = rw.load_result(client.download_artifacts(run_id, "roadworthy", str(tmp_path)))
    assert again.ranking().equals(result.ranking())
    assert mlflow.active_run() is None
    assert rw.to_mlflow(result, experiment="explainers", files=False) != run_id
    assert len(client.search_runs([run.info.experiment_id])) == 2


def test_the_active_run_is_written_into_and_stays_active(client: Any, result: Result) -> None:
    with mlflow.start_run() as run:
        mlflow.log_param("seed", 99)
        assert rw.to_mlflow(result) == run.info.run_id
        assert mlflow.active_run().info.run_id == run.info.run_id
    check_written(client, run.info.run_id, result)
    assert client.get_run(run.info.run_id).data.params["seed"] == "99"


def test_without_a_run_one_is_made_and_ended(client: Any, judged: LabelFree) -> None:
    run_id = rw.to_mlflow(judged, name="wards")
    run = client.get_run(run_id)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "wards")
    check_written(client, run_id, judged)
    assert "roadworthy/labelfree.json" in {file.path for file in client.list_artifacts(run_id, "roadworthy")}


def test_two_results_and_two_steps_go_into_one_run(client: Any, result: Result, judged: LabelFree) -> None:
    run_id = rw.to_mlflow(result, experiment="e", files=False)
    rw.to_mlflow(judged, run=run_id, prefix="unlabelled/wards", files=False)
    check_written(client, run_id, result)
    check_written(client, run_id, judged, "unlabelled/wards/")
    rw.to_mlflow(result, run=client.get_run(run_id), step=7)
    history = client.get_metric_history(run_id, "roadworthy/score/ig")
    assert [point.step for point in history] == [0, 7]
    curve = entries_of(result).curves["curve_morf/ig"]
    for name in ("roadworthy/curve_morf/ig", "roadworthy/step_7/curve_morf/ig"):
        assert {point.step: point.value for point in client.get_metric_history(run_id, name)} == curve
    assert client.list_artifacts(run_id, "roadworthy/step_7")


def test_faults_are_told_before_anything_is_written(client: Any, result: Result, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file .*absent.html; rw.report"):
        rw.to_mlflow(result, report=tmp_path / "absent.html")
    with pytest.raises(InputError, match="give one of the two"):
        rw.to_mlflow(result, run="x", experiment="y")
    with pytest.raises(InputError, match="got int, expected an MLflow run"):
        rw.to_mlflow(result, run=3)
    with pytest.raises(InputError, match="MLflow refuses: .*deadbeef"):
        rw.to_mlflow(result, run="deadbeef")
    assert client.search_runs(["0"]) == []


def test_other_settings_under_the_same_names_are_refused(client: Any, result: Result) -> None:
    run_id = rw.to_mlflow(result, experiment="e", files=False)
    result.provenance["seed"] = 4
    with pytest.raises(InputError, match="holds other parameters under roadworthy/.*give another prefix="):
        rw.to_mlflow(result, run=run_id, files=False)


def test_a_run_of_ours_that_breaks_is_marked_so(client: Any, result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(mlflow.MlflowClient, "log_artifacts", broken)
    with pytest.raises(OSError, match="no space"):
        rw.to_mlflow(result, experiment="e")
    (run,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert run.info.status == "FAILED"


def test_what_the_client_alone_cannot_open_names_the_extra(
    client: Any, result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise mlflow.exceptions.MlflowException("unsupported")

    monkeypatch.setattr(mlflow, "MlflowClient", closed)
    monkeypatch.setattr(mlflow, "get_tracking_uri", lambda: "sqlite:///x.db")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'sqlite:///x.db.*pip install "roadworthy\[mlflow\]"'):
        rw.to_mlflow(result)


def test_without_mlflow_the_extra_is_named(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r'to_mlflow needs MLflow: pip install "roadworthy\[mlflow\]"'):
        rw.to_mlflow(result)


def test_a_database_of_one_file(client: Any, result: Result, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="the whole of MLflow is not installed")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    check_written(mlflow.MlflowClient(), rw.to_mlflow(result), result)
