"""Rank-1 and rank-5 over the epochs of a training: does one rise while the other stands still?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from roadworthy.errors import DataError, InputError, listed, unknown_name
from roadworthy.probe.ranks import rank_k
from roadworthy.probe.scores import read_scores

if TYPE_CHECKING:
    import pandas as pd

LEAST_CHANGE = 0.01
"""A share that changes by less over the window stands still."""
_FEWEST = 5  # epochs: with 4 the trend test cannot reach p < .05
_LARGEST_P = 0.05
_COLUMN = re.compile(r"(?:rank|top)[-_ ]?(\d+)")
_EPOCH = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True)
class Trend:
    """How one share moves over the last epochs.

    Attributes:
        k: the rank.
        change: Theil-Sen slope times the span of the window.
        p: of Kendall's test against no trend, two-sided.
        word: ``"rises"`` or ``"falls"`` (a change of at least :data:`LEAST_CHANGE`, p < .05), ``"stands still"`` (a
            smaller change), or ``"cannot be told"`` (a larger change that chance may explain).
    """

    k: int
    change: float
    p: float
    word: Literal["rises", "falls", "stands still", "cannot be told"]


@dataclass(frozen=True, eq=False)
class EpochRanks:
    """Rank-k accuracy after each epoch. Make one with :meth:`of`, or read one with :func:`read_epochs`.

    Attributes:
        epochs: int64 (E,), ascending.
        k: (K,) ascending.
        accuracy: float64 (E, K).
        window: first and last epoch that trends are taken over: the later half of the epochs, at least 5.
        trends: one for each k; none with fewer than 5 epochs.
        sentence: what the curves say.
    """

    epochs: np.ndarray
    k: tuple[int, ...]
    accuracy: np.ndarray
    window: tuple[int, int]
    trends: tuple[Trend, ...]
    sentence: str

    @staticmethod
    def of(epochs: Any, accuracy: Mapping[int, Any]) -> EpochRanks:
        """Judge shares by epoch.

        A share rises or falls where it changes by at least one point in a hundred over the window (the Theil-Sen
        slope, so that a single odd epoch does not count) and Kendall's test has p < .05. The test takes epochs for
        independent; neighbours are alike in a smooth training, so its p-value is too small there, never the change.

        Args:
            epochs: (E,) whole numbers, each once.
            accuracy: k to (E,) shares in [0, 1].

        Raises:
            InputError: shares outside [0, 1], epochs that repeat, or lengths that differ.

        Example:
            >>> steps = np.arange(1, 11)
            >>> found = EpochRanks.of(steps, {1: np.full(10, 0.4), 5: 0.5 + steps / 50})
            >>> found.sentence
            'Rank-5 rises while rank-1 stands still: over epochs 6 to 10 rank-1 changes by +0.0 points, rank-5 by \
+8.0 points. The right class comes nearer to the top, not to the first place.'
        """
        from roadworthy.labels import label_array

        numbers = label_array(epochs, what="epochs")
        ks = tuple(sorted(accuracy))
        if not len(numbers) or not ks:
            raise InputError(f"epochs: {len(numbers)} epochs and {len(ks)} ranks came, expected one or more of each")
        if len(set(numbers.tolist())) != len(numbers):
            raise InputError("epochs: some come twice; give one training at a time")
        shares = [np.asarray(accuracy[k], dtype=np.float64) for k in ks]
        if any(share.shape != numbers.shape for share in shares):
            raise InputError(f"accuracy: shapes {[share.shape for share in shares]} came for {len(numbers)} epochs")
        order = np.argsort(numbers)
        table = np.stack(shares, axis=1)[order]
        if not ((table >= 0) & (table <= 1)).all():  # also where a value is NaN
            raise InputError("accuracy: expected shares from 0 to 1; of percentages take a hundredth")
        numbers = numbers[order]
        start = min(len(numbers) // 2, max(0, len(numbers) - _FEWEST))
        last = numbers[start:]
        window = int(last[0]), int(last[-1])
        enough = len(numbers) >= _FEWEST
        trends = tuple(_trend(k, last, table[start:, place]) for place, k in enumerate(ks)) if enough else ()
        return EpochRanks(numbers, ks, table, window, trends, _sentence(len(numbers), window, trends))

    @property
    def table(self) -> pd.DataFrame:
        """A row per epoch: epoch, and a column for each rank."""
        import pandas as pd

        columns = {f"rank{k}": self.accuracy[:, place] for place, k in enumerate(self.k)}
        return pd.DataFrame({"epoch": self.epochs, **columns})

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        from roadworthy.labelfree.plain import plain

        found: dict[str, Any] = plain(self)
        return found


def _trend(k: int, epochs: np.ndarray, shares: np.ndarray) -> Trend:
    from scipy.stats import kendalltau, theilslopes

    change = float(theilslopes(shares, epochs).slope * (epochs[-1] - epochs[0]))
    constant = bool((shares == shares[0]).all())
    p = 1.0 if constant else float(kendalltau(epochs, shares).pvalue)
    if abs(change) < LEAST_CHANGE:
        return Trend(k, change, p, "stands still")
    if p >= _LARGEST_P:
        return Trend(k, change, p, "cannot be told")
    return Trend(k, change, p, "rises" if change > 0 else "falls")


def _sentence(count: int, window: tuple[int, int], trends: Sequence[Trend]) -> str:
    if not trends:
        return f"{count} epochs are too few to tell how the ranks move; {_FEWEST} are needed."
    figures = ", ".join(
        f"rank-{trend.k} {'changes ' if place == 0 else ''}by {100 * trend.change:+.1f} points"
        for place, trend in enumerate(trends)
    )
    over = f"over epochs {window[0]} to {window[1]} {figures}"
    first, *others = trends
    rising = [f"rank-{trend.k}" for trend in others if trend.word == "rises"]
    if first.k == 1 and first.word == "stands still" and rising:
        names = " and ".join(rising)
        verb = "rises" if len(rising) == 1 else "rise"
        return (
            f"{names.capitalize()} {verb} while rank-1 stands still: {over}. The right class comes nearer to the "
            "top, not to the first place."
        )
    words = "; ".join(f"rank-{trend.k} {trend.word}" for trend in trends)
    return f"{words.capitalize()}: {over}."


def read_epochs(path: str | Path, *, k: int | Sequence[int] | None = None, training: str | None = None) -> EpochRanks:
    """Read rank-k accuracy by epoch.

    Args:
        path: a ``.csv`` with columns ``epoch`` and ``rank1``, ``rank5``, ... (or ``top1``, ...), such as the
            ``curves.csv`` of a sweep; or a folder of saved scores (see :func:`read_scores`), a file an epoch, whose
            last number is the epoch.
        k: of a folder; see :func:`rank_k`.
        training: of a ``.csv`` with columns ``key`` and ``training``: which one, by either.

    Returns:
        The shares, and what they say.

    Raises:
        DataError: no such file or folder, or nothing of the kind in it.
        InputError: several trainings in one file and none named, or shares that cannot be used.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        return _from_folder(place, k)
    if not place.is_file() or place.suffix.lower() != ".csv":
        what = "ends in another way" if place.is_file() else "no such file or folder"
        raise DataError(f"{place}: {what}; expected a .csv with columns epoch, rank1, rank5, or a folder of scores")
    return _from_csv(place, training)


def _from_csv(place: Path, training: str | None) -> EpochRanks:
    import pandas as pd

    try:
        frame = pd.read_csv(place)
    except (ValueError, OSError) as error:
        raise DataError(f"{place}: cannot be read as .csv ({error})") from error
    names = {str(name).strip().lower(): name for name in frame.columns}
    ranks = {int(match[1]): names[name] for name in names if (match := _COLUMN.fullmatch(name))}
    if "epoch" not in names or not ranks:
        raise DataError(f"{place}: has columns {listed(frame.columns)}, expected 'epoch', 'rank1' and 'rank5'")
    if "key" in names:
        frame = _one_training(place, frame, [names[name] for name in ("training", "key") if name in names], training)
    try:
        return EpochRanks.of(
            frame[names["epoch"]].to_numpy(), {k: frame[name].to_numpy(float) for k, name in ranks.items()}
        )
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _one_training(place: Path, frame: pd.DataFrame, columns: list[str], wanted: str | None) -> pd.DataFrame:
    known = list(dict.fromkeys(frame[columns[0]].astype(str)))
    if wanted is not None:
        frame = frame[(frame[columns].astype(str) == wanted).any(axis=1)]
        if frame.empty:
            raise unknown_name("training", wanted, known)
    if frame[columns[-1]].nunique() > 1:
        raise InputError(f"{place}: holds several trainings ({listed(known, 3)}); name one: training= (--training)")
    return frame


def _from_folder(place: Path, k: int | Sequence[int] | None) -> EpochRanks:
    files = {
        int(match[1]): file
        for file in sorted(place.iterdir())
        if file.suffix.lower() in (".npz", ".csv") and (match := _EPOCH.search(file.stem))
    }
    if not files:
        raise DataError(f"{place}: holds no file of scores with an epoch in its name, such as epoch-03.npz")
    found = {epoch: rank_k((said := read_scores(file)).scores, said.labels, k=k) for epoch, file in files.items()}
    ks = {ranks.k for ranks in found.values()}
    if len(ks) > 1:
        raise InputError(f"{place}: the files have different numbers of classes; pass k= (--k)")
    shares = np.stack([ranks.accuracy for ranks in found.values()])
    return EpochRanks.of(list(found), dict(zip(ks.pop(), shares.T, strict=True)))
