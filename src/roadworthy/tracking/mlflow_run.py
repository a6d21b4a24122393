"""A result as parameters, metrics, tags and files of an MLflow run."""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roadworthy.errors import InputError, MissingExtraError
from roadworthy.evaluation.result import Result
from roadworthy.labelfree.result import LabelFree
from roadworthy.tracking.entries import Entries, entries_of, opened
from roadworthy.tracking.names import check_prefix

# what servers of all ages take; longer text is cut and marked
_KEY, _PARAM, _TAG = 250, 500, 5000
_AT_ONCE = {"params": 100, "tags": 100, "metrics": 1000}


def to_mlflow(
    result: Result | LabelFree | str | Path,
    *,
    run: Any = None,
    experiment: str | None = None,
    name: str | None = None,
    report: str | Path | None = None,
    files: bool = True,
    prefix: str = "roadworthy",
    step: int = 0,
) -> str:
    """Write a result into an MLflow run: settings, scores with intervals, curves, warnings and its files.

    The active run and experiment stay what they were. Numbers that the gate withholds, or that are not known, are
    left out.

    Args:
        result: what ``evaluate`` or ``labelfree`` returned, or the folder it was saved in.
        run: the run to write into, or its id. By default the active run; where there is none, a new one.
        experiment: make a new run in this experiment, and the experiment where it is missing.
        name: of a new run.
        report: a file to keep with the run, such as what :func:`roadworthy.report` wrote.
        files: whether what ``result.save`` writes is kept with the run; :func:`roadworthy.load_result` reads it
            again.
        prefix: what stands before every name, so that two results may go into one run.
        step: when the result was made, such as the epoch of a training. Curves and files of a step other than 0 have
            it in their names.

    Returns:
        The id of the run.

    Raises:
        MissingExtraError: MLflow is not installed.
        InputError: no such run; both a run and an experiment; a report that is not there; a run that holds other
            parameters under the same names.

    Example:
        >>> rw.to_mlflow(result, experiment="explainers", report="report.html")  # doctest: +SKIP
        '1f2c8a...'
    """
    found = opened(result)
    before = check_prefix("prefix", prefix)
    page = None if report is None else _file(report)
    mlflow = _mlflow()
    entries = entries_of(found)
    place = before if step == 0 else f"{before}step_{step}/"
    try:
        with _run(mlflow, run, experiment, name or entries.title) as (client, run_id):
            _write(client, run_id, entries, before, place, step)
            if files:
                with tempfile.TemporaryDirectory() as folder:
                    client.log_artifacts(run_id, str(found.save(folder)), place.rstrip("/") or None)
            if page is not None:
                client.log_artifact(run_id, str(page), place.rstrip("/") or None)
    except mlflow.exceptions.MlflowException as error:
        raise _in_words(error, before) from error
    return run_id


def _write(client: Any, run_id: str, entries: Entries, before: str, place: str, step: int) -> None:
    """Send all that is text or number, in as many messages as servers allow."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(1000 * time.time())
    batches: dict[str, list[Any]] = {
        "params": [Param(*pair) for pair in _bounded(before, entries.params, _PARAM).items()],
        "tags": [RunTag(*pair) for pair in _bounded(before, entries.tags, _TAG).items()],
        "metrics": [Metric(before + key, value, now, step) for key, value in entries.metrics.items()]
        + [
            Metric(place + key, value, now, share)
            for key, curve in entries.curves.items()
            for share, value in curve.items()
        ],
    }
    for kind, items in batches.items():
        for start in range(0, len(items), _AT_ONCE[kind]):
            client.log_batch(run_id, **{kind: items[start : start + _AT_ONCE[kind]]})


def _in_words(error: Exception, before: str) -> InputError:
    line = " ".join(str(error).split())[:300]
    if "param" in line.lower():
        return InputError(
            f"the run holds other parameters under {before or 'the same names'}, and MLflow changes none: give "
            f"another prefix= or another run ({line})"
        )
    return InputError(f"MLflow refuses: {line}")


def _bounded(before: str, texts: Mapping[str, str], length: int) -> dict[str, str]:
    return {
        f"{before}{key}"[:_KEY]: text if len(text) <= length else text[: length - 1] + "…"
        for key, text in texts.items()
    }


@contextmanager
def _run(mlflow: Any, run: Any, experiment: str | None, name: str) -> Iterator[tuple[Any, str]]:
    """Yield a client and the id of the run to write into; a run made here ends here, failed if an error came."""
    if run is not None and experiment is not None:
        raise InputError("run and experiment: a run lies in an experiment already; give one of the two")
    client = _client(mlflow)
    active = mlflow.active_run()
    if run is not None:
        yield client, _known_run(client, run)
    elif experiment is None and active is not None:
        yield client, active.info.run_id
    elif experiment is None:
        with mlflow.start_run(run_name=name) as started:
            yield client, started.info.run_id
    else:
        held = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if held is None else held.experiment_id
        run_id = client.create_run(place, run_name=name).info.run_id
        try:
            yield client, run_id
        except BaseException:
            client.set_terminated(run_id, "FAILED")
            raise
        client.set_terminated(run_id)


def _known_run(client: Any, run: Any) -> str:
    run_id = run if isinstance(run, str) else getattr(getattr(run, "info", None), "run_id", None)
    if not isinstance(run_id, str):
        raise InputError(f"run: got {type(run).__name__}, expected an MLflow run or its id")
    client.get_run(run_id)  # refuses an unknown one before anything is written
    return run_id


def _client(mlflow: Any) -> Any:
    try:
        client = mlflow.MlflowClient()
        client.search_experiments(max_results=1)
    except mlflow.exceptions.MlflowException as error:
        uri = mlflow.get_tracking_uri()
        if importlib.util.find_spec("sqlalchemy") is None and "://" in uri and not uri.startswith("http"):
            raise MissingExtraError(
                f"MLflow keeps runs in {uri}, which mlflow-skinny alone cannot open: "
                'pip install "roadworthy[mlflow]", '
                "or give mlflow.set_tracking_uri the address of a server"
            ) from error
        raise
    return client


def _mlflow() -> Any:
    try:
        import mlflow
    except ImportError as error:
        raise MissingExtraError('to_mlflow needs MLflow: pip install "roadworthy[mlflow]"') from error
    return mlflow


def _file(path: str | Path) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        raise InputError(f"report: there is no file {file}; rw.report(result, {str(path)!r}) writes it")
    return file
