"""Labels in whatever form people return them, brought to the rows and classes of a target."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roadworthy.errors import InputError, listed, unknown_name
from roadworthy.labelfree.outputs import Outputs

_WRITTEN_WHOLE = re.compile(r"\.0+$")  # a spreadsheet writes 1 as 1.0
_MOST = 2**53  # beyond, a float is no exact whole number


def rows_of(ids: Sequence[str], target: Outputs) -> np.ndarray:
    """Return the row of each id in the target, int64.

    Raises:
        InputError: some are not there.

    Example:
        >>> rows_of(["b", "a"], Outputs.of([0.1, 0.2], ids=["a", "b"])).tolist()
        [1, 0]
    """
    place = {name: row for row, name in enumerate(target.ids)}
    strange = [name for name in ids if name not in place]
    if strange:
        raise InputError(
            f"ids: {listed(strange)} of the plan are not in the target; pass the outputs that the plan was made for "
            "(a spreadsheet may have changed ids such as 007)"
        )
    return np.array([place[name] for name in ids], dtype=np.int64)


def labels_by_id(ids: Sequence[str], labels: Mapping[Any, Any] | Sequence[Any] | np.ndarray) -> list[Any]:
    """Return a label for each id, None where there is none.

    Args:
        ids: names in the order wanted.
        labels: by id; or in the order of the ids; or pairs (id, label).

    Raises:
        InputError: labels of other ids, ids that come twice, or another number of labels.

    Example:
        >>> labels_by_id(["a", "b"], {"b": 1}), labels_by_id(["a", "b"], ["cat", ""])
        ([None, 1], ['cat', None])
    """
    if isinstance(labels, Mapping):
        pairs = [(str(name), label) for name, label in labels.items()]
    elif len(labels) and isinstance(labels[0], tuple):
        pairs = [(str(name), label) for name, label in labels]
    else:
        if len(labels) != len(ids):
            raise InputError(f"labels: got {len(labels)}, the plan has {len(ids)}; pass them by id, as {{id: label}}")
        pairs = list(zip(ids, labels, strict=True))
    twice = [name for name, times in Counter(name for name, _ in pairs).items() if times > 1]
    if twice:
        raise InputError(f"labels: {listed(twice)} come more than once; keep one label for each")
    known = set(ids)
    strange = [name for name, _ in pairs if name not in known]
    if strange:
        raise InputError(
            f"labels: {listed(strange)} were not drawn by the plan. Samples chosen in another way (a middle band, or "
            "by hand) say nothing of the whole: leave them out here, they are good for training"
        )
    found = dict(pairs)
    return [None if _empty(found.get(name)) else found[name] for name in ids]


def class_numbers(ids: Sequence[str], labels: Sequence[Any], target: Outputs) -> np.ndarray:
    """Return classes as numbers, int64: labels are class names, or else numbers counted from 0.

    Where the names are numbers themselves, other than those, text is always a name.

    Raises:
        InputError: a label that is neither.

    Example:
        >>> said = Outputs.of([0.1, 0.2], classes=("cat", "dog"))
        >>> class_numbers(["a", "b"], ["dog", "cat"], said).tolist(), class_numbers(["a"], ["1.0"], said).tolist()
        ([1, 0], [1])
    """
    words = [str(label).strip() for label in labels]
    if words and all(isinstance(label, str) for label in labels):
        for told in (words, [_WRITTEN_WHOLE.sub("", word) for word in words]):
            if set(told) <= set(target.classes):
                return _named(told, target.classes)
        odd_words = [word for word in words if word not in target.classes]
        counted = [str(number) for number in range(target.class_count)]
        if all(name.isdigit() for name in target.classes) and list(target.classes) != counted:
            raise InputError(f"labels: {unknown_name('class', odd_words[0], target.classes)}")
    numbers = [_whole(word) for word in words]
    odd = [k for k, number in enumerate(numbers) if number is None]
    if odd:
        if any(word in target.classes for word in words):  # names, then, and some of them are misspelt
            odd = [k for k, word in enumerate(words) if word not in target.classes]
        error = unknown_name("class", words[odd[0]], target.classes)
        raise InputError(
            f"labels: {listed([ids[k] for k in odd])}: {error} Give every row a name, or every row a number from 0"
        )
    found = np.array(numbers, dtype=np.int64)
    outside = np.flatnonzero((found < 0) | (found >= target.class_count))
    if outside.size:
        raise InputError(
            f"labels: {listed([ids[int(k)] for k in outside])} hold {listed(sorted(set(found[outside].tolist())))}, "
            f"expected 0 to {target.class_count - 1}, or the names {listed(target.classes)}"
        )
    return found


def _named(words: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    twice = sorted({word for word in words if classes.count(word) > 1})
    if twice:
        raise InputError(f"labels: {listed(twice)} name more than one class; give the numbers of the classes, from 0")
    return np.array([classes.index(word) for word in words], dtype=np.int64)


def _empty(label: Any) -> bool:
    if isinstance(label, str):
        return not label.strip()
    return label is None or (isinstance(label, (float, np.floating)) and bool(np.isnan(label)))


def _whole(word: str) -> int | None:
    try:
        number = float(word)  # a spreadsheet writes 1 as 1.0
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < _MOST else None
