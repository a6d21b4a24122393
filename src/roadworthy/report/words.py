"""The words of the report: what an order, a readout and a column is called, once for text, page and figures."""

from __future__ import annotations

from typing import NamedTuple


class OrderWords(NamedTuple):
    """How an order is spoken of."""

    short: str
    first: str
    better: str


class ReadoutWords(NamedTuple):
    """How a readout is spoken of."""

    name: str
    explained: str
    has_chance: bool


# MoRF stands left everywhere
ORDERS = {
    "morf": OrderWords("MoRF", "most relevant first", "lower is better"),
    "lerf": OrderWords("LeRF", "least relevant first", "higher is better"),
}
READOUTS = {
    "top1": ReadoutWords("top-1 accuracy", "share of samples whose label is the model's first answer", True),
    "top5": ReadoutWords("top-5 accuracy", "share of samples whose label is among the first five answers", False),
    "probability": ReadoutWords("probability", "mean softmax probability of the target class", False),
    "logit": ReadoutWords("logit", "mean logit of the target class", False),
}


def orders_in_words(orders: list[str]) -> str:
    """Name the orders, MoRF first.

    Example:
        >>> orders_in_words(["lerf", "morf"])
        'MoRF (most relevant first) and LeRF (least relevant first)'
    """
    return " and ".join(f"{words.short} ({words.first})" for order, words in ORDERS.items() if order in orders)
