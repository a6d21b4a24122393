"""The words of reports and tables: what an order, a readout and a column is called, once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class OrderWords(NamedTuple):
    """How an order is spoken of."""

    short: str
    first: str
    better: str


class ReadoutWords(NamedTuple):
    """How a readout is spoken of."""

    name: str
    has_chance: bool


# MoRF stands left everywhere
_ORDERS = {
    "morf": OrderWords("MoRF", "most relevant first", "lower is better"),
    "lerf": OrderWords("LeRF", "least relevant first", "higher is better"),
}
# after retraining an evaluation in one order has a name of its own
_RETRAINED = {
    "morf": OrderWords("ROAR", "most relevant removed, MoRF", "lower is better"),
    "lerf": OrderWords("KAR", "least relevant removed, LeRF", "higher is better"),
}
READOUTS = {
    "top1": ReadoutWords("top-1 accuracy", True),
    "top5": ReadoutWords("top-5 accuracy", False),
    "probability": ReadoutWords("probability", False),
    "logit": ReadoutWords("logit", False),
}
# where no labels were given, hits are counted against the model's own answers: that is no accuracy
_UNLABELLED = {
    "top1": ReadoutWords("top-1 agreement", True),
    "top5": ReadoutWords("top-5 agreement", False),
}


_JUDGES = {"untouched": "the model as it is", "fine-tuned": "a copy of it fine-tuned on random masks"}


def judges_in_words(views: Sequence[dict[str, str]]) -> str:
    """Name who was asked, from the views of a result; empty where networks were trained to be asked.

    Example:
        >>> judges_in_words([{"judge": "untouched", "imputer": "mean"}, {"judge": "untouched", "imputer": "zero"}])
        'the model as it is'
        >>> judges_in_words([{"judge": "fine-tuned", "imputer": "mean"}])
        'a copy of the model fine-tuned on random masks'
    """
    named = [words for judge, words in _JUDGES.items() if judge in [view["judge"] for view in views]]
    return " and ".join(named) if len(named) > 1 else "".join(named).replace("copy of it", "copy of the model")


def readout_words(readout: str, labelled: bool = True) -> ReadoutWords:
    """Return how a readout is spoken of, with labels or without.

    Example:
        >>> readout_words("top1").name, readout_words("top1", labelled=False).name
        ('top-1 accuracy', 'top-1 agreement')
    """
    return READOUTS[readout] if labelled else _UNLABELLED.get(readout, READOUTS[readout])


def order_words(retrained: bool = False) -> dict[str, OrderWords]:
    """Return how each order is spoken of, MoRF first: of the model as it is, or of newly trained ones.

    Example:
        >>> order_words()["lerf"].short, order_words(retrained=True)["lerf"].short
        ('LeRF', 'KAR')
    """
    return _RETRAINED if retrained else _ORDERS


def orders_in_words(orders: list[str], retrained: bool = False) -> str:
    """Name the orders, MoRF first.

    Example:
        >>> orders_in_words(["lerf", "morf"])
        'MoRF (most relevant first) and LeRF (least relevant first)'
    """
    known = order_words(retrained).items()
    return " and ".join(f"{words.short} ({words.first})" for order, words in known if order in orders)
