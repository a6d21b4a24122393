"""An audit's samples are drawn over all of the data, in whatever order these come."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.evaluation.audit.collect import BYTES, AuditSamples, Part


def filled(order: np.ndarray, *, most: int, size: int = 64, seed: int = 0) -> Part:
    """Draw from samples whose class is their number divided by 800."""
    samples = AuditSamples(most, len(order), seed)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        ids = [f"s{row}" for row in rows]
        part = Part(
            torch.zeros(len(rows), 1, 2, 2), rows // 800, {"m": rows[:, None, None] * np.ones((1, 2, 2))}, ids
        )
        samples.take(ids, part.images, lambda part=part: part, ids)
    found = samples.gathered()
    assert found is not None
    return found


def test_sorted_data_give_every_class_its_share() -> None:
    found = filled(np.arange(3200), most=400)
    assert len(found.ids) == 400
    counts = np.bincount(found.classes, minlength=4)
    assert counts.min() > 70
    assert counts.max() < 130
    assert [f"s{int(value)}" for value in found.values["m"][:, 0, 0]] == found.ids


def test_the_draw_belongs_to_the_samples_not_to_their_order_or_blocks() -> None:
    shuffled = np.random.default_rng(0).permutation(3200)
    one, other = filled(np.arange(3200), most=300), filled(shuffled, most=300, size=500)
    assert set(one.ids) == set(other.ids)
    assert set(one.ids) != set(filled(np.arange(3200), most=300, seed=1).ids)


@pytest.mark.parametrize("count", [1, 399, 400])
def test_few_samples_are_all_taken(count: int) -> None:
    assert len(filled(np.arange(count), most=400).ids) == count


def test_large_images_are_fewer() -> None:
    samples = AuditSamples(500, 10_000, 0)
    images = torch.zeros(1, 1, 1, 1).expand(4, 3, 2048, 2048)
    samples.take(["a", "b", "c", "d"], images, lambda: pytest.fail("not asked for"), [])
    assert samples.most == BYTES // (4 * 3 * 2048 * 2048)


def test_nothing_there_is_none() -> None:
    assert AuditSamples(10, 0, 0).gathered() is None
