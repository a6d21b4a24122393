"""Which samples are shown as pictures, and what perturbation makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.gather import Asking, Gathered
from roadworthy.labelfree.labelling import confidence_bands
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.result import Pictures

_VERSIONS = 3
_SIDE = 256  # larger pictures are thinned: a report shows them no larger


def pictures_of(
    data: Any,
    gathered: Gathered,
    perturbing: dict[str, Any],
    *,
    count: int,
    seed: int,
    asking: Asking,
    model: Any,
    ids: Sequence[Any] | None,
) -> Pictures | None:
    """Return pictures of high, middle and low confidence, or None where samples are no images in [0, 1].

    Args:
        data: the samples.
        gathered: what is known of them.
        perturbing: how they were perturbed.
        count: of each band.
        seed: of the draws; the perturbed versions are those that the model was shown.
        asking: how the model was asked.
        model: the model, for what is perturbed by it.
        ids: names of all samples of an array.
    """
    from roadworthy.labelfree.examples import perturbed_examples

    if count < 1 or isinstance(data, Outputs) or type(data).__name__ == "Consistency":
        return None
    bands = confidence_bands(gathered.target, count, seed=seed)
    rows = [int(row) for part in bands.values() for row in part]
    words = tuple(name for name, part in bands.items() for _ in part)
    consistency = gathered.consistency
    kind = "gaussian" if consistency is None else perturbing["perturbation"]
    try:
        found = perturbed_examples(
            data,
            rows,
            kind,
            _VERSIONS,
            strength=None if consistency is None else perturbing["strength"],
            seed=seed,
            model=None if isinstance(model, (list, tuple)) else model,
            ids=ids,
            batch=asking.batch,
            layout=asking.layout,
        )
    except InputError:  # a perturbation of the model alone shows nothing, and the samples without it are wanted still
        found = perturbed_examples(
            data, rows, "gaussian", 1, seed=seed, ids=ids, batch=asking.batch, layout=asking.layout
        )
        found = type(found)(found.clean, found.perturbed[:, :0], found.ids, found.perturbation)
    clean, changed = found.clean, found.perturbed
    if clean.ndim != 4 or clean.shape[1] not in (1, 3, 4) or not 0 <= clean.min() <= clean.max() <= 1:
        return None
    changed = changed[:, :0] if consistency is None else changed
    step = max(1, -(-max(clean.shape[-2:]) // _SIDE))
    return Pictures(found.ids, words, _bytes(clean[..., ::step, ::step]), _bytes(changed[..., ::step, ::step]))


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.asarray((np.clip(values, 0, 1) * 255).round(), dtype=np.uint8)
