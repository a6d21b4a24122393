"""From scores per sample to a ranking that says which of its differences are real."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.statistics._checks import listed
from roadworthy.statistics.bootstrap import paired_bootstrap
from roadworthy.statistics.groups import groups
from roadworthy.statistics.multiple import holm

if TYPE_CHECKING:
    from roadworthy.statistics.bootstrap import PairedBootstrap
    from roadworthy.statistics.repeats import PairedRepeats
    from roadworthy.types import Seed


def rank_methods(
    scores: Any,
    names: Sequence[str],
    *,
    higher_is_better: bool = True,
    level: float = 0.95,
    draws: int = 10_000,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Rank methods by their mean score, with intervals and groups that cannot be told apart.

    Where the unit is a training and not a sample, take :func:`rank_methods_over_repeats`.

    Args:
        scores: (M, N) finite score of each method on each sample, the same samples for all.
        names: M distinct names.
        higher_is_better: whether a high score is good.
        level: confidence level of each interval; over all pairs together, a false difference is shown with
            probability at most ``1 - level`` (Holm).
        draws: bootstrap resamples.
        seed: seed or generator.

    Returns:
        A row per method, best first (equal scores in the order given), with columns

        - ``method``; ``score``: the mean; ``low``, ``high``: its interval;
        - ``rank``: 1 + number of methods with a better score, so equal scores share the better rank;
        - ``group``: letters; methods that share a letter are not told apart, methods that share none are.

        ``attrs`` holds ``higher_is_better``, ``direction``, ``level``, ``draws``, ``n``, ``seed``, and as lists in
        row order ``difference``, ``difference_low``, ``difference_high``, ``p``, ``p_holm`` (M x M, row minus
        column) and ``different`` (whether Holm's p is at most ``1 - level``). :func:`pairwise_table` lays them out.

    Raises:
        InputError: NaN or infinite scores; names that are not M distinct ones.

    Warns:
        RoadworthyWarning: so few draws that no difference could pass the correction.

    Example:
        >>> scores = np.array([[0.1] * 20, [0.9] * 20, [0.1] * 19 + [0.2]])
        >>> table = rank_methods(scores, ["random", "ig", "sobel"], draws=1000)
        >>> table[["method", "rank", "group"]].values.tolist()
        [['ig', 1, 'a'], ['sobel', 2, 'b'], ['random', 3, 'b']]
    """
    found = paired_bootstrap(scores, draws=draws, level=level, seed=seed)
    table = ranked(found, names, higher_is_better=higher_is_better, level=level)
    _warn_few_draws(len(table), draws, level)
    table.attrs |= {"draws": draws, "n": found.n, "seed": found.seed}
    return table


def ranked(
    found: PairedBootstrap | PairedRepeats, names: Sequence[str], *, higher_is_better: bool, level: float
) -> pd.DataFrame:
    """Lay out a comparison, best method first, with Holm's correction and the groups that follow from it.

    Args:
        found: what a comparison of M methods found.
        names: M distinct names.
        higher_is_better: whether a high score is good.
        level: confidence level of all pairs together.

    Returns:
        Columns ``method``, ``score``, ``low``, ``high``, ``rank``, ``group``; ``attrs`` as in :func:`rank_methods`,
        without what belongs to the way of comparing.

    Raises:
        InputError: names that are not M distinct ones.
    """
    labels = [str(name) for name in names]
    _check_names(labels, len(found.mean))
    order = np.argsort(-found.mean if higher_is_better else found.mean, kind="stable")
    score = found.mean[order]
    better = score[None, :] > score[:, None] if higher_is_better else score[None, :] < score[:, None]
    attrs = _pairs(found, order, level)
    table = pd.DataFrame(
        {
            "method": [labels[i] for i in order],
            "score": score,
            "low": found.low[order],
            "high": found.high[order],
            "rank": 1 + better.sum(axis=1),
            "group": groups(np.array(attrs["different"], dtype=bool)),
        }
    )
    table.attrs = {
        "higher_is_better": bool(higher_is_better),
        "direction": "higher is better" if higher_is_better else "lower is better",
        "level": level,
        **attrs,
    }
    return table


def pairwise_table(ranking: pd.DataFrame) -> pd.DataFrame:
    """Lay out every pairwise difference of a ranking, a row per pair.

    Args:
        ranking: what :func:`rank_methods` returned.

    Returns:
        Columns ``method``, ``other`` (ranked below it), ``difference`` (``method`` minus ``other``), ``low`` and
        ``high`` (its interval), ``p``, ``p_holm`` (corrected for the number of pairs) and ``different``.

    Raises:
        InputError: a table without the attributes that :func:`rank_methods` sets.

    Example:
        >>> table = rank_methods(np.array([[1.0] * 20, [0.0] * 20]), ["ig", "random"], draws=1000)
        >>> pairwise_table(table)[["method", "other", "difference", "different"]].values.tolist()
        [['ig', 'random', 1.0, True]]
    """
    missing = [name for name in (*_TABLES, "different") if name not in ranking.attrs]
    if missing:
        raise InputError(f"ranking: its attrs lack {listed(missing)}; pass the table that rank_methods returned")
    methods = ranking["method"].to_numpy()
    first, second = np.triu_indices(len(methods), 1)
    columns = {name: np.array(ranking.attrs[name])[first, second] for name in (*_TABLES, "different")}
    table = pd.DataFrame({"method": methods[first], "other": methods[second], **columns})
    return table.rename(columns={"difference_low": "low", "difference_high": "high"})


_TABLES = ("difference", "difference_low", "difference_high", "p", "p_holm")


def _pairs(
    found: PairedBootstrap | PairedRepeats, order: np.ndarray, level: float
) -> dict[Hashable, list[list[Any]]]:
    """Return the M x M tables in ranked order, as lists: attrs must compare with == and go into JSON."""
    both = np.ix_(order, order)
    upper = np.triu_indices(len(order), 1)
    p = found.p[both]
    corrected = np.ones_like(p)
    corrected[upper] = holm(p[upper])
    corrected = np.minimum(corrected, corrected.T)
    tables = {name: getattr(found, name)[both] for name in ("difference", "difference_low", "difference_high")}
    tables |= {"p": p, "p_holm": corrected, "different": corrected <= 1 - level}
    return {name: table.tolist() for name, table in tables.items()}


def _check_names(names: list[str], rows: int) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if len(names) != rows or twice:
        what = f"{listed(twice)} more than once" if twice else f"{len(names)} names for {rows} rows of scores"
        raise InputError(f"names: {what} came, expected one distinct name per row")


def _warn_few_draws(methods: int, draws: int, level: float) -> None:
    pairs = methods * (methods - 1) // 2
    if pairs * 2 / (draws + 1) > 1 - level:
        needed = int(np.ceil(pairs * 2 / (1 - level)))
        warnings.warn(
            f"draws={draws} is too few to tell any of {pairs} pairs apart at level {level}; pass at least {needed}",
            RoadworthyWarning,
            stacklevel=3,
        )
