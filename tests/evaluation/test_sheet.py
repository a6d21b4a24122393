from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.evaluation.sheet import MAX_BYTES, SheetMaker, SheetPart
from roadworthy.records import Batch

ORDERS, SHARES = 2, 6


def parts(
    count: int, length: int, shape: tuple[int, int, int], methods: int, *, block: int = 5
) -> tuple[list[str], list[SheetPart]]:
    """The ids kept, in order, and the parts that hold them, from a stream of blocks."""
    maker, found = SheetMaker(count, length), []
    values = {f"m{m}": np.zeros((block, *shape[1:]), dtype=np.float32) for m in range(methods)}
    for start in range(0, length, block):
        ids = [str(place) for place in range(start, min(length, start + block))]
        images = torch.zeros(1).expand(len(ids), *shape)
        part = maker.begin(Batch(images, torch.zeros(len(ids)), ids), values, start, (ORDERS, SHARES))
        found += [part] if part else []
    return [sample for part in found for sample in part.arrays["ids"].tolist()], found


@pytest.mark.parametrize(
    ("count", "length", "shape", "methods", "kept", "side"),
    [
        (12, 100, (1, 8, 8), 10, 12, 8),  # small: as many as asked
        (12, 7, (3, 32, 32), 10, 7, 32),
        (2, 30, (3, 224, 224), 3, 2, 224),  # large, but both fit as they are
        (12, 30, (3, 224, 224), 10, 5, 112),  # thinned, so that five fit in place of one
        (1, 30, (3, 224, 224), 10, 1, 224),
        (12, 10, (3, 448, 448), 40, 1, 112),
        (12, 10, (3, 1000, 600), 40, 1, 125),
    ],
)
def test_as_many_samples_as_fit(
    count: int, length: int, shape: tuple[int, int, int], methods: int, kept: int, side: int
) -> None:
    ids, found = parts(count, length, shape, methods)
    assert len(ids) == kept
    assert max(found[0].arrays["copies"].shape[-2:]) == side
    assert sum(part.arrays["copies"].nbytes for part in found) <= MAX_BYTES
    assert ids == [str(round(place)) for place in np.linspace(0, length - 1, kept)]


def test_thinned_pictures_are_pixels_of_the_image() -> None:
    images = torch.rand(2, 1, 230, 224, generator=torch.Generator().manual_seed(0))
    values = {f"m{m}": np.zeros((2, 230, 224), dtype=np.float32) for m in range(40)}
    part = SheetMaker(2, 2).begin(Batch(images, torch.zeros(2), ["a", "b"]), values, 0, (ORDERS, SHARES))
    assert part is not None
    wanted = (images[:, :, ::2, ::2] * 255).round().to(torch.uint8).numpy()
    assert (part.arrays["images"] == wanted).all()
    assert part.arrays["maps"].shape == (2, 40, 115, 112)


def test_nothing_is_kept_where_none_is_asked_or_no_picture_can_be_made() -> None:
    assert parts(0, 10, (1, 8, 8), 2) == ([], [])
    assert parts(4, 10, (2, 8, 8), 2) == ([], [])
