"""How far results agree on the ranking of methods: every order, judge and fill of each, against every other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from roadworthy.errors import InputError
from roadworthy.evaluation.result import Result
from roadworthy.statistics import Concordance, Pairing, Source, concordance

if TYPE_CHECKING:
    from roadworthy.types import Seed

_ORDERS = {"morf": "MoRF", "lerf": "LeRF"}
By = Literal["order", "gain"]


def concordance_of(
    results: Mapping[str, Result | Sequence[Result]] | Sequence[Result],
    *,
    by: By = "order",
    methods: Sequence[str] | None = None,
    readout: str | None = None,
    pairing: Pairing = "removed",
    level: float = 0.95,
    draws: int = 2000,
    seed: Seed = 0,
) -> Concordance:
    """Compare how results rank their methods: by each order, with each judge and fill.

    What is compared is what all results have: the methods, the shares removed, the samples. Uncertainty is over
    samples, the same for all; over trainings where a result has several; and over the results of a name that stands
    for several, such as the same strategy with other seeds or models.

    Args:
        results: results by name, or one after the other, which are then named by strategy and imputer. One result is
            enough if it has both orders or several views.
        by: ``"order"``: each order is a source; ``"gain"``: the symmetric gain of both is.
        methods: the methods to compare, all that the results have in common by default. Controls are methods like
            others: where every strategy puts random maps last, they add to the agreement.
        readout: what scores are of; each result's own by default.
        pairing: how MoRF and LeRF are paired, see :mod:`roadworthy.statistics.concordance`.
        level: confidence level of each interval.
        draws: resamples.
        seed: seed or generator.

    Returns:
        The matrices over all sources, Kendall's W, and the rank of each method in each source.

    Raises:
        InputError: nothing to compare: one source only, or no method, share or sample in common.

    Example:
        >>> found = concordance_of({"road": road, "roar": roar}, pairing="kept")  # doctest: +SKIP
        >>> found.pairs()[["source", "other", "spearman", "spearman_se"]]  # doctest: +SKIP
    """
    if by not in ("order", "gain"):
        raise InputError(f"by: got {by!r}, expected 'order' or 'gain'")
    if by == "gain" and pairing == "kept":
        raise InputError("pairing: 'kept' came with by='gain', which takes both orders at the same share removed")
    named = _named(results)
    every = [result for group in named.values() for result in group]
    shared = _Shared.of(every, methods)
    return concordance(
        [
            source
            for name, group in named.items()
            for source in _sources(name, group, shared, by, readout, prefix=len(named) > 1)
        ],
        shared.methods,
        pairing=pairing,
        level=level,
        draws=draws,
        seed=seed,
    )


@dataclass(frozen=True)
class _Shared:
    """What all results have in common."""

    methods: list[str]
    fractions: list[float]
    ids: list[str]

    @classmethod
    def of(cls, results: list[Result], methods: Sequence[str] | None) -> _Shared:
        wanted = list(methods) if methods is not None else results[0].methods
        absent = [m for m in wanted if methods is not None and any(m not in result.methods for result in results)]
        if absent:
            raise InputError(f"methods: {', '.join(absent)} came, which not every result has")
        found = cls(
            [method for method in wanted if all(method in result.methods for result in results)],
            [p for p in results[0].fractions if all(_place(result.fractions, p) >= 0 for result in results)],
            _common_ids(results),
        )
        if not any(found.fractions):
            raise InputError("results: they have no share removed in common; evaluate them at the same shares")
        for what, there in (("method", found.methods), ("sample", found.ids)):
            if not there:
                raise InputError(f"results: they have no {what} in common, so that there is nothing to compare")
        return found

    def scores(self, result: Result, readout: str | None) -> np.ndarray:
        """Return [method, order, fraction, unit] of what is shared; the unit that of the result."""
        values = result.scores[readout or result.readout]
        values = values[[result.methods.index(method) for method in self.methods]]
        values = values[:, :, [_place(result.fractions, p) for p in self.fractions]]
        if result.ids != self.ids:
            place = {sample: i for i, sample in enumerate(result.ids)}
            values = values[..., [place[sample] for sample in self.ids]]
        return np.asarray(values.mean(axis=4 if result.unit == "trainings" else 3, dtype=np.float64))


def _place(fractions: list[float], share: float) -> int:
    found = np.flatnonzero(np.abs(np.asarray(fractions) - share) < 1e-9)
    return int(found[0]) if len(found) else -1


def _common_ids(results: list[Result]) -> list[str]:
    common = set(results[0].ids).intersection(*(result.ids for result in results))
    return [sample for sample in results[0].ids if sample in common]


def _named(results: Mapping[str, Result | Sequence[Result]] | Sequence[Result]) -> dict[str, list[Result]]:
    """Return the results of each name; those without are called by strategy and imputer, and counted."""
    if isinstance(results, Mapping):
        named = {str(key): [value] if isinstance(value, Result) else list(value) for key, value in results.items()}
    else:
        named = {}
        for result in results:
            fill = "" if len(result.views) > 1 else f" {result.views[0]['imputer']}"
            name = start = f"{result.settings.get('strategy', 'result')}{fill}"
            count = 1
            while name in named:
                count += 1
                name = f"{start} ({count})"
            named[name] = [result]
    if not any(named.values()):
        raise InputError("results: none came, expected one or more")
    empty = [name for name, group in named.items() if not group]
    if empty:
        raise InputError(f"results: no result stands under {', '.join(empty)}")
    return named


def _sources(
    name: str, group: list[Result], shared: _Shared, by: By, readout: str | None, *, prefix: bool
) -> Iterator[Source]:
    """Yield the sources of one name; its results, where there are several, are the units.

    The name stands in those of the sources where ``prefix`` is set.
    """
    first = group[0]
    if any(result.views != first.views or result.orders != first.orders for result in group):
        raise InputError(f"results: those under {name!r} differ in their orders, judges or imputers; name each alone")
    if by == "gain" and set(first.orders) != {"morf", "lerf"}:
        raise InputError(f"by: 'gain' needs both orders, {name!r} has {', '.join(first.orders)} only")
    varying = [part for part in ("judge", "imputer") if len({view[part] for view in first.views}) > 1]
    for index, view in enumerate(first.views):
        views = [result.view(index) for result in group]
        values = [shared.scores(one, readout) for one in views]
        scores = np.stack([value.mean(axis=-1) for value in values], axis=-1) if len(group) > 1 else values[0]
        unit = "trainings" if len(group) > 1 else views[0].unit
        label = [name if prefix else "", *(view[part] for part in varying)]
        if by == "gain":
            gain = scores[:, first.orders.index("lerf")] - scores[:, first.orders.index("morf")]
            yield Source(_joined(label), gain, shared.fractions, unit=unit)
            continue
        for o, order in enumerate(first.orders):
            yield Source(_joined([*label, _ORDERS[order]]), scores[:, o], shared.fractions, order, unit=unit)


def _joined(parts: list[str]) -> str:
    return " / ".join(part for part in parts if part)
