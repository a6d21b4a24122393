"""Numbers of every sample for the page's explorer: compact, within a budget, and decoded only when it is opened."""

from __future__ import annotations

import base64
from string import Template
from typing import Any, NamedTuple

import numpy as np

from roadworthy.evaluation import scoring
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import is_control, labelled
from roadworthy.markup import clean, escape, number
from roadworthy.report.chart import judges_word
from roadworthy.report.facts import orders_of, words_of
from roadworthy.report.material import Material
from roadworthy.report.pictures import spread
from roadworthy.report.sheet import asked, class_name, sheet_plan
from roadworthy.report.text import asset, json_block

BUDGET = 3_000_000  # bytes of the numbers of all samples at most
_BASE64 = 4 / 3
_CODES = 3 * 2  # bytes a sample of its label, its answer and the class explained
_READOUTS = ("top1", "probability")
_MOST = 255  # what a byte holds


class Layer(NamedTuple):
    """What one view says of every sample, or the mean over the views that count.

    Attributes:
        label: how it is spoken of.
        result: whose scores these are; several views count as their mean.
        most: how many answers there are of each copy: repeats, trainings and views together.
    """

    label: str
    result: Result
    most: int

    @property
    def scale(self) -> int:
        """What hits are counted out of: ``most``, or what a byte holds."""
        return min(self.most, _MOST)

    @property
    def bits(self) -> int:
        """Bits that hold a count of hits."""
        return next(bits for bits in (1, 2, 4, 8) if self.scale < 2**bits)


def explorer_section(material: Material) -> str:
    """Return the explorer as HTML, with its numbers in a script that is not read before it is opened.

    It takes at most :data:`BUDGET` bytes besides class names; of more samples than fit, evenly chosen ones are shown.
    Empty where not one fits.
    """
    result = material.result
    layers, rows = _layers_and_rows(material)
    if not rows:
        return ""
    data = _data(result, layers, rows)
    what = (
        f"{number(len(rows))} of {number(result.n)} samples, evenly chosen"
        if len(rows) < result.n
        else "every sample"
    )
    parts = {
        "what": what,
        "about": _about(material, layers),
        "layers": _options([layer.label for layer in layers]),
        "judges": judges_word(material.main),
        "layers_hidden": "" if len(layers) > 1 else " hidden",
        "readouts": _options([readout["name"] for readout in data["readouts"]], _start(result)),
        "right": _options(_rights(result, layers)),
        "right_hidden": "" if labelled(result) else " hidden",
        "kept_hidden": "" if data["kept"] else " hidden",
        "data": json_block(data),
    }
    return Template(asset("explorer.html")).substitute(parts)


def _layers_and_rows(material: Material) -> tuple[list[Layer], list[int]]:
    """Each view beside the mean where all samples of all of them fit, else the mean alone; and the samples shown."""
    result, views = material.result, material.main.views
    each = result.repeats // len(result.views)
    layers = [Layer(_mean_label(material), result, each * len(result.counted_views("top1")))]
    everything = layers + [Layer(view.label, view.found.result, each) for view in views]
    rows = _rows(result, everything)
    return (everything, rows) if len(rows) == result.n else (layers, _rows(result, layers))


def _mean_label(material: Material) -> str:
    """What the numbers are the mean over: views that say nothing of a readout do not count in it."""
    result, every = material.result, len(material.result.views)
    counts = [len(result.counted_views(readout)) for readout in _READOUTS]
    hits, probability = (f"{count} of {every}" if count < every else str(every) for count in counts)
    differs = f"; answers over {hits}" if hits != probability else ""
    return f"mean over {probability} {material.main.views_word}{differs}" if every > 1 else ""


def _cells(result: Result) -> int:
    """Numbers of a sample: of the intact input once, of every copy."""
    return 1 + len(result.methods) * len(result.orders) * (len(result.fractions) - 1)


def _rows(result: Result, layers: list[Layer]) -> list[int]:
    """As many samples as fit, evenly chosen, and those kept for pictures."""
    each = _BASE64 * (_CODES + sum(_cells(result) * (1 + layer.bits / 8) for layer in layers))
    kept = list(_kept(result).values())
    count = min(result.n, int(BUDGET / each))
    while count:
        rows = sorted({*spread(result.n, count), *kept})
        size = len(rows) * each + len(json_block([result.ids[row] for row in rows]))
        if size <= BUDGET:
            return rows
        count = int(count * min(0.98, BUDGET / size))
    return []


def _kept(result: Result) -> dict[int, int]:
    """Return the sample of each place of the sheet that is shown."""
    if result.sheet is None:
        return {}
    row = {sample: place for place, sample in reversed(list(enumerate(result.ids)))}
    ids = result.sheet.ids
    return {place: row[ids[place]] for place in sheet_plan(result, result.sheet).samples if ids[place] in row}


def _data(result: Result, layers: list[Layer], rows: list[int]) -> dict[str, Any]:
    place = {row: position for position, row in enumerate(rows)}
    codes = np.stack([result.scores.labels, result.scores.predicted, result.scores.targets])[:, rows]
    seen, codes = np.unique(codes, return_inverse=True)
    return {
        "n": result.n,
        "ids": [clean(result.ids[row]) for row in rows],
        "names": [clean(class_name(result, int(index))) for index in seen],
        "codes": _base64(codes.reshape(3, -1).T.astype("<u4" if len(seen) > 2**16 else "<u2")),
        "width": 4 if len(seen) > 2**16 else 2,
        "labelled": labelled(result),
        "units": result.unit if result.retrained else "answers",
        "weights": score_weights(result).tolist(),
        "controls": [is_control(method) for method in result.methods],
        "readouts": [{"key": key, "name": words_of(result, key).name} for key in _READOUTS],
        "pictured": clean(asked(result)),
        "kept": {place[row]: position for position, row in _kept(result).items()},
        "layers": [_layer(layer, rows) for layer in layers],
    }


def _layer(layer: Layer, rows: list[int]) -> dict[str, Any]:
    hits, probability = (_by_sample(layer.result, readout, rows) for readout in _READOUTS)
    return {
        "most": layer.most,
        "scale": layer.scale,
        "bits": layer.bits,
        "hits": _base64(packed(np.rint(hits * layer.scale).astype(np.uint8), layer.bits)),
        "probability": _base64(np.rint(probability.clip(0, 1) * _MOST).astype(np.uint8)),
    }


def _by_sample(result: Result, readout: str, rows: list[int]) -> np.ndarray:
    """Return [sample, cell]: the intact input, then method by method, order by order (MoRF first), the shares."""
    orders = [result.orders.index(order) for order in orders_of(result)]
    values = scoring.over_samples(result, readout)[..., rows]
    copies = values[:, orders, 1:].reshape(-1, len(rows))
    return np.concatenate([values[0, :1, 0], copies]).T


def score_weights(result: Result) -> np.ndarray:
    """Return [order, fraction], MoRF first: a sample's score is the sum of its values, each times its weight."""
    shape = (len(result.orders), len(result.fractions))
    unit = np.eye(shape[0] * shape[1]).reshape(1, *shape, -1)
    weights = scoring.score(unit, result.orders, result.fractions, result.average)[0].reshape(shape)
    return weights[[result.orders.index(order) for order in orders_of(result)]]


def packed(values: np.ndarray, bits: int) -> np.ndarray:
    """Pack small numbers into bytes, the first in the lowest bits.

    Example:
        >>> packed(np.array([1, 0, 3, 2, 1]), 2).tolist()
        [177, 1]
    """
    per = 8 // bits
    flat = np.zeros(-(-values.size // per) * per, dtype=np.uint8)
    flat[: values.size] = values.ravel()
    shifted = flat.reshape(-1, per) << (bits * np.arange(per, dtype=np.uint8))
    return np.bitwise_or.reduce(shifted, axis=1).astype(np.uint8)


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")


def _options(names: list[str], chosen: int = 0) -> str:
    return "".join(
        f'<option value="{place}"{" selected" if place == chosen else ""}>{escape(text)}</option>'
        for place, text in enumerate(names)
    )


def _start(result: Result) -> int:
    """The readout scores are of at first: the result's own, else the probability."""
    return _READOUTS.index(result.readout) if result.readout in _READOUTS else 1


def _rights(result: Result, layers: list[Layer]) -> list[str]:
    mixed = any(layer.most > 1 for layer in layers)
    return ["any answer", "right", "wrong", *(["right in some only"] if mixed else [])]


def _about(material: Material, layers: list[Layer]) -> str:
    result = material.result
    named = escape(material.main.score_name)
    real = sum(not is_control(method) for method in result.methods)
    among = "methods that are no controls" if real > 1 else "methods"
    several = ""
    if layers[0].most > 1:
        over = f"{result.repeats} trainings" if result.retrained else f"{layers[0].most} answers"
        unless = f" unless one {judges_word(material.main).lower()} is chosen" if len(layers) > 1 else ""
        several = f" Numbers are means over {over}{unless}."
    if result.retrained:
        several += " The answer on the intact input is that of the first training on unmodified images."
    apart = f"; disagreement is the highest score of the {among} less the lowest" if len(result.methods) > 1 else ""
    return f"A sample's score is its own {named}{apart}. Probabilities are rounded to 1/{_MOST}.{several}"
