"""Evaluations side by side: the score of each method in each run, and what it differs by from the first run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.comparison.intact import intact_table
from roadworthy.comparison.meaning import why_not
from roadworthy.comparison.paired import over_samples
from roadworthy.comparison.record import Comparison
from roadworthy.comparison.settings import settings_table
from roadworthy.comparison.units import ENOUGH, Shared, over, shared_samples, shared_trainings
from roadworthy.evaluation import scoring
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import above_chance
from roadworthy.evaluation.withheld import withheld_by_gate, without_withheld
from roadworthy.statistics import (
    Source,
    concordance,
    holm,
    paired_repeats,
    unpaired_difference,
)

DIFFERENCES = (
    *("method", "run", "against", "difference", "low", "high", "p", "p_holm", "different", "paired", "unit"),
    *("n", "n_against", "withheld"),
)
AGREEMENT = ("run", "against", "spearman", "low", "high", "kendall", "methods", "n")
_TABLE = ("method", "score", "low", "high", "rank", "group")


@dataclass(frozen=True)
class Pair:
    """A run and the first one, over what they share.

    Attributes:
        run: name of the run.
        against: name of the first.
        results: the run and the first, over the shared samples where there are some.
        readouts: what the scores of each are of.
        shared: the samples.
        unit: ``"trainings"`` where both have several, else ``"samples"``.
    """

    run: str
    against: str
    results: tuple[Result, Result]
    readouts: tuple[str, str]
    shared: Shared

    @property
    def unit(self) -> str:
        """What the difference is over."""
        return "trainings" if all(result.unit == "trainings" for result in self.results) else "samples"

    @property
    def methods(self) -> list[str]:
        """The methods of both, in the order of the first."""
        return [method for method in self.results[1].methods if method in self.results[0].methods]


def compare_evaluations(runs: Mapping[str, Result], *, readout: str | None, level: float, seed: int) -> Comparison:
    """Compare evaluations; see :func:`roadworthy.compare`."""
    readouts = {name: readout or result.readout for name, result in runs.items()}
    (against, first), *others = runs.items()
    refused = {
        name: reason
        for name, result in others
        if (reason := why_not(first, result, (readouts[against], readouts[name])))
    }
    pairs = [_pair(runs, readouts, name, against) for name, _ in others]
    compared = [pair for pair in pairs if pair.run not in refused]
    rankings = {name: result.ranking(readouts[name], level=level) for name, result in runs.items()}
    intact = intact_table(runs, pairs, level=level, seed=seed)
    attrs = rankings[against].attrs
    return Comparison(
        kind="evaluations",
        runs=tuple(runs),
        table=_table(runs, rankings),
        differences=_differences(compared, level=level, seed=seed),
        settings=settings_table(runs),
        intact=intact,
        agreement=_agreement(runs, readouts, level=level, seed=seed),
        refused=refused,
        warnings=tuple(_warnings(runs, pairs, refused, intact)),
        readout=readouts[against],
        score_name=str(attrs["score"]),
        higher_is_better=bool(attrs["higher_is_better"]),
        level=level,
        seed=seed,
    )


def _pair(runs: Mapping[str, Result], readouts: Mapping[str, str], name: str, against: str) -> Pair:
    result, first = runs[name], runs[against]
    shared = shared_samples(result, first)
    if shared.rows is not None:
        result, first = over(result, shared.rows[0]), over(first, shared.rows[1])
    return Pair(name, against, (result, first), (readouts[name], readouts[against]), shared)


def _table(runs: Mapping[str, Result], rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    parts = []
    for name, result in runs.items():
        reasons = withheld_by_gate(result)
        shown = without_withheld(rankings[name], reasons)[list(_TABLE)]
        count = result.repeats if result.unit == "trainings" else result.n
        parts.append(
            shown.assign(
                rank=shown["rank"].astype("Int64"),
                run=name,
                n=count,
                unit=result.unit,
                score_name=rankings[name].attrs["score"],
                withheld=[reasons.get(method, "") for method in shown["method"]],
            )
        )
    table = pd.concat(parts, ignore_index=True)
    table.attrs = {}
    return table[["run", *_TABLE, "n", "unit", "score_name", "withheld"]]


def _differences(pairs: list[Pair], *, level: float, seed: int) -> pd.DataFrame:
    """Subtract the first run's score of each method, and correct for all of these differences together."""
    family = sum(len(pair.methods) for pair in pairs)
    # a p-value goes down to 2 / draws, and Holm multiplies it by the number of differences
    draws = max(10_000, int(3 * family / (1 - level)))
    rows = [row for pair in pairs for row in _of_pair(pair, level=level, draws=draws, seed=seed)]
    table = pd.DataFrame(rows, columns=list(DIFFERENCES))
    known = table["withheld"] == ""
    corrected = holm(table.loc[known, "p"].to_numpy(dtype=float))
    table.loc[known, "p_holm"] = corrected
    table["different"] = table["p_holm"].astype(float) <= 1 - level
    numbers = ["difference", "low", "high", "p", "p_holm"]
    return table.astype(dict.fromkeys(numbers, float) | {"different": bool, "paired": bool})


def _of_pair(pair: Pair, *, level: float, draws: int, seed: int) -> Iterator[dict[str, Any]]:
    if not pair.methods:
        return
    found = _subtracted(pair, level=level, draws=draws, seed=seed)
    reasons = [withheld_by_gate(result) for result in pair.results]
    for place, method in enumerate(pair.methods):
        names = (pair.run, pair.against)
        why = "; ".join(
            f"{name}: {held[method]}" for name, held in zip(names, reasons, strict=True) if method in held
        )
        numbers = {key: np.nan if why else float(found[key][place]) for key in ("difference", "low", "high", "p")}
        yield {
            "method": method, "run": pair.run, "against": pair.against, **numbers, "p_holm": np.nan,
            "paired": found["paired"], "unit": pair.unit, "n": found["n"], "n_against": found["n_against"],
            "withheld": why,
        }  # fmt: skip


def _subtracted(pair: Pair, *, level: float, draws: int, seed: int) -> dict[str, Any]:
    """Return difference, interval and p of each shared method, and over what."""
    one, other = (_scores(result, readout, pair) for result, readout in zip(pair.results, pair.readouts, strict=True))
    if pair.unit == "trainings":
        places = shared_trainings(*pair.results)
        if places is not None:
            return _over_trainings(pair, one[:, places[0]], other[:, places[1]], places, level=level)
    elif pair.shared.rows is not None:
        return over_samples(one, other, level=level, draws=draws, seed=seed)
    found = unpaired_difference(one, other, level=level)
    return {
        "difference": found.difference, "low": found.low, "high": found.high, "p": found.p, "paired": False,
        "n": found.n[0], "n_against": found.n[1],
    }  # fmt: skip


def _over_trainings(
    pair: Pair, one: np.ndarray, other: np.ndarray, places: tuple[np.ndarray, np.ndarray], *, level: float
) -> dict[str, Any]:
    """Compare the scores (M, R) of trainings that share their seeds."""
    found = paired_repeats(np.vstack([one - other, np.zeros(one.shape[1])]), level=level)
    last = len(one)
    low, high = found.difference_low[:-1, last].copy(), found.difference_high[:-1, last].copy()
    for place, method in enumerate(pair.methods):
        if _same_trainings(pair, method, places):  # not merely as many hits: then the spread would not be known
            low[place] = high[place] = 0.0
    return {
        "difference": found.difference[:-1, last], "low": low, "high": high, "p": found.p[:-1, last], "paired": True,
        "n": found.n, "n_against": found.n,
    }  # fmt: skip


def _same_trainings(pair: Pair, method: str, places: tuple[np.ndarray, np.ndarray]) -> bool:
    if pair.shared.rows is None:
        return False
    one, other = (
        result.scores[readout][result.methods.index(method)][:, :, own]
        for result, readout, own in zip(pair.results, pair.readouts, places, strict=True)
    )
    return bool(np.array_equal(one, other))


def _scores(result: Result, readout: str, pair: Pair) -> np.ndarray:
    """Return the score (M, units) of each method that both have."""
    if pair.unit == "trainings":
        curves = scoring.per_repeat(result, readout)
        scores, _, _ = scoring.score(curves, result.orders, result.fractions, result.average)
    else:
        scores, _, _ = result.method_scores(readout)
    return scores[[result.methods.index(method) for method in pair.methods]]


def _agreement(runs: Mapping[str, Result], readouts: Mapping[str, str], *, level: float, seed: int) -> pd.DataFrame:
    """Say how alike each two runs rank the methods that both have, by their scores."""
    rows = [
        row
        for one, other in combinations(runs, 2)
        if (row := _agreed(_pair(runs, readouts, other, one), level=level, seed=seed)) is not None
    ]
    return pd.DataFrame(rows, columns=list(AGREEMENT))


def _agreed(pair: Pair, *, level: float, seed: int) -> dict[str, Any] | None:
    methods = [m for m in pair.methods if not any(m in withheld_by_gate(result) for result in pair.results)]
    if len(methods) < 2:
        return None
    sources, joint = [], pair.unit == "trainings" or pair.shared.rows is not None
    for name, result, readout in zip((pair.run, pair.against), pair.results, pair.readouts, strict=True):
        scores = _scores(result, readout, pair)[[pair.methods.index(method) for method in methods]]
        higher = bool(result.method_scores(readout)[2])
        # the score is one number a method, so that there is one share to rank at
        kept = scores if joint else scores.mean(axis=-1, keepdims=True)
        sources.append(Source(name, kept[:, None], [0.5], higher_is_better=higher, unit=pair.unit))
    found = concordance(sources, methods, level=level, seed=seed)
    value = {name: float(getattr(found, name).value[0, 1]) for name in ("spearman", "kendall")}
    ends = {name: float(getattr(found.spearman, name)[0, 1]) for name in ("low", "high")}
    count = min(len(source.scores[0, 0]) for source in sources) if joint else 0
    return {"run": pair.run, "against": pair.against, **value, **ends, "methods": len(methods), "n": count}


def _warnings(
    runs: Mapping[str, Result], pairs: list[Pair], refused: Mapping[str, str], intact: pd.DataFrame
) -> Iterator[str]:
    for name, result in runs.items():
        if not above_chance(result):
            yield f"{name}: its accuracy with nothing removed is not clearly above chance, so its scores say nothing"
        if result.missing:
            yield f"{name}: it is not complete: {'; '.join(line.partition(': ')[0] for line in result.missing)}"
    for pair in pairs:
        names = f"{pair.run} and {pair.against}"
        if pair.shared.note:
            yield f"{names}: {pair.shared.note}"
        fewest = min(result.n for result in pair.results)
        if pair.unit == "samples" and fewest < ENOUGH:
            yield f"{names}: {fewest} samples are few to tell anything apart; be wary below {ENOUGH}"
        if pair.run in refused:
            continue
        yield from _about_units(pair, names)
        alone = [*(set(pair.results[0].methods) ^ set(pair.results[1].methods))]
        if alone:
            yield f"{names}: not in both, so not compared: {', '.join(sorted(alone))}"
        if pair.methods and _same_scores(pair):
            yield f"{names}: all scores are the very same, as of one run under two names"
    apart = [str(name) for name in intact.loc[intact["different"], "run"]]
    if apart and len(refused) < len(pairs):
        yield (
            f"{', '.join(apart)}: the accuracy with nothing removed differs from the first run's, and a better model "
            "has more to lose: part of a difference in score may be the model's, not the method's"
        )


def _about_units(pair: Pair, names: str) -> Iterator[str]:
    units = {result.unit for result in pair.results}
    if len(units) > 1:
        yield f"{names}: one has a single training of each point, so differences are over samples, not trainings"
    if pair.unit == "trainings":
        if shared_trainings(*pair.results) is None:
            yield f"{names}: their trainings share no seeds, so that they are compared as two sets of others"
        if pair.shared.rows is None:
            yield f"{names}: trainings are tested on other samples, which may move all of them together"
    elif all(result.retrained for result in pair.results):
        yield f"{names}: what one training differs from the next by is not known; train each point twice or more"


def _same_scores(pair: Pair) -> bool:
    one, other = pair.results
    if pair.shared.rows is None or one.methods != other.methods or one.orders != other.orders:
        return False
    return all(np.array_equal(one.scores[name], other.scores[name]) for name in ("top1", "probability"))
