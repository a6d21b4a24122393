"""The front of a comparison: runs in memory or in folders get names, are read, and go to what compares their kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.comparison.evaluations import compare_evaluations
from roadworthy.comparison.labelfree_runs import compare_labelfree
from roadworthy.comparison.record import Comparison
from roadworthy.comparison.saved import saved_run
from roadworthy.errors import DataError, InputError, listed, unknown_name
from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.labelfree.result import HEAD, LabelFree
from roadworthy.rng import resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed


def compare(
    results: Mapping[str, Any] | Sequence[Any],
    *,
    readout: str | None = None,
    level: float = 0.95,
    seed: Seed = 0,
) -> Comparison:
    """Hold runs against each other: other models, versions of the code, methods or strategies.

    The first run is the one that the others are held against. Two evaluations of the same samples (by id) are
    compared by a paired bootstrap over the samples; those that share at least 50 over these; others by Welch's t.
    After retraining the unit is the training: paired over repeats where runs share their seed. Holm's correction
    makes false differences of any run and method together as rare as ``1 - level``. Scores that mean different
    things, such as those of another strategy, are not subtracted; how alike the methods are ranked is shown still.

    Of label-free runs each has an interval that holds at its own level, whatever the other does. Their difference
    lies between the extremes that both allow, at a level of at least ``1 - (1 - a) - (1 - b)``; where both judge the
    same samples it cannot be larger than the share on which their predictions differ.

    Args:
        results: by name, or one after the other: results of :func:`roadworthy.evaluate`, or of
            :func:`roadworthy.labelfree.labelfree`, or the folders they were saved in. Without names a folder is
            called by its own, a result "run 1", "run 2" and so on.
        readout: ``"top1"``, ``"top5"``, ``"probability"`` or ``"logit"``; each run's own by default.
        level: of intervals, and of all differences together, in (0, 1). A label-free run keeps its own.
        seed: of the bootstrap.

    Returns:
        The comparison: ``table``, ``differences``, ``intact``, ``agreement``, ``settings``, ``verdict``,
        ``save(folder)``; :func:`roadworthy.report` makes a page of it.

    Raises:
        InputError: fewer than two runs, names twice, an evaluation with a label-free run, or an unknown readout.
        DataError: a folder that holds no run.

    Source:
        Bootstrap: Hesterberg (2015); Welch (1947); Holm (1979); shares: Newcombe (1998).

    Example:
        >>> import numpy as np, roadworthy as rw
        >>> rng = np.random.default_rng(0)
        >>> images, labels = rng.random((60, 1, 8, 8), dtype=np.float32), np.arange(60) % 2
        >>> images[:, 0, :, 4:] = (images[:, 0, :, 4:] + labels[:, None, None]) / 2
        >>> def model(x):
        ...     return x[:, 0].mean(1)[:, [0, 7]] * 5
        >>> shared = {"mean": [0.5], "seed": 0}
        >>> runs = {reduction: rw.evaluate(model, images, labels, ["grad", "random"], reduction=reduction, **shared)
        ...         for reduction in ("sum", "abs-sum")}
        >>> compare(runs).differences[["method", "run", "against", "difference"]].values.tolist()
        [['grad', 'abs-sum', 'sum', 0.0], ['random', 'abs-sum', 'sum', 0.0]]
    """
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < level < 1:
        raise InputError(f"level: got {level!r}, expected a share between 0 and 1, such as 0.95")
    if readout is not None and readout not in READOUTS:
        raise unknown_name("readout", readout, READOUTS)
    runs = {name: _opened(name, run) for name, run in _named(results).items()}
    free = {name: run for name, run in runs.items() if isinstance(run, LabelFree)}
    scored = {name: run for name, run in runs.items() if isinstance(run, Result)}
    if free and scored:
        raise InputError(
            f"results: {listed(scored)} rank methods with labels, {listed(free)} judge a classifier without; these "
            "have nothing in common, compare runs of one kind"
        )
    if free:
        if readout is not None:
            raise InputError(f"readout: got {readout!r}; label-free runs have none, leave it out")
        return compare_labelfree(free)
    return compare_evaluations(scored, readout=readout, level=level, seed=resolve_seed(seed))


def _named(results: Any) -> dict[str, Any]:
    if isinstance(results, (str, Path, Result, LabelFree)):
        raise InputError("results: one run came, expected two or more, as a list or by name")
    if not isinstance(results, Iterable):
        raise InputError(f"results: got {type(results).__name__}, expected runs as a list or by name")
    if isinstance(results, Mapping):
        found = {str(name): run for name, run in results.items()}
        if len(found) < len(results):
            raise InputError("results: two names are the same as text; give each run a name of its own")
    else:
        given = list(results)
        names = run_names(given)
        found = dict(zip(names, given, strict=True))
    if len(found) < 2:
        raise InputError(f"results: {len(found)} came, expected two or more runs")
    return found


def run_names(runs: Sequence[Any]) -> list[str]:
    """Name runs that have no names: a folder by its own name, or its path where two have the same.

    Raises:
        InputError: a folder that is named twice.

    Example:
        >>> run_names(["runs/a", "runs/b"]), run_names(["x/run", "y/run"])
        (['a', 'b'], ['x/run', 'y/run'])
    """
    names = [
        Path(run).expanduser().resolve().name or str(run) if isinstance(run, (str, Path)) else f"run {place}"
        for place, run in enumerate(runs, 1)
    ]
    if len(set(names)) < len(names):
        names = [str(run) if isinstance(run, (str, Path)) else name for run, name in zip(runs, names, strict=True)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"results: {listed(twice)} came twice; name each run once, or give them names of their own")
    return names


def _opened(name: str, run: Any) -> Result | LabelFree:
    if isinstance(run, (Result, LabelFree)):
        if isinstance(run, Result) and not (run.methods and run.n):
            raise InputError(f"{name}: it has {len(run.methods)} methods and {run.n} samples, expected some")
        return run
    if not isinstance(run, (str, Path)):
        raise InputError(
            f"{name}: got {type(run).__name__}, expected a result of rw.evaluate or rw.labelfree, or its folder"
        )
    folder = Path(run).expanduser()
    found = saved_run(folder)
    if found is not None:
        return found
    if not folder.exists():
        raise DataError(f"{folder}: there is no such folder; give the folder of a run")
    below = sorted(str(found.parent) for found in folder.glob("*/result.json"))
    there = f"; below it are {', '.join(below[:5])}" if below else ""
    raise DataError(f"{folder}: no run lies here (no result.json and no {HEAD}){there}")
