"""What must not matter: batch size, workers, row order, scale of a map, being interrupted."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import roadworthy as rw
from roadworthy.errors import InputError
from roadworthy.evaluation import run as run_module


class Recorder:
    """An imputer that keeps what it was asked and fills with draws from its generator."""

    def __init__(self) -> None:
        self.masks: list[torch.Tensor] = []
        self.fills: list[torch.Tensor] = []

    def __call__(self, images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        filled = torch.rand(images.shape, generator=generator)
        self.masks.append(removed.clone())
        self.fills.append(filled)
        return filled


def inputs(q4_data, n: int = 70) -> tuple[torch.Tensor, torch.Tensor, dict[str, np.ndarray]]:
    images, labels = q4_data(n=n, height=8, width=8)
    noise = np.random.default_rng(0).integers(0, 5, size=(n, 8, 8)).astype(np.float32)
    return images, labels, {"coarse": noise, "oracle": images.mean(dim=1).numpy()}


def test_masks_and_fills_are_bit_identical_for_any_batch_size(q4, q4_data) -> None:
    images, labels, maps = inputs(q4_data)
    kept = []
    for max_batch in (1, 7, 64, 1000):
        recorder = Recorder()
        result = rw.evaluate(q4, images, labels, maps, imputer=recorder, max_batch=max_batch, fractions=(0.2, 0.6))
        kept.append((recorder, result))
    first, wanted = kept[0]
    for recorder, result in kept[1:]:
        assert all(torch.equal(a, b) for a, b in zip(first.masks, recorder.masks, strict=True))
        assert all(torch.equal(a, b) for a, b in zip(first.fills, recorder.fills, strict=True))
        np.testing.assert_allclose(result.scores.logit, wanted.scores.logit, atol=1e-5)


def copies_seen(model, images, labels, maps, **options) -> list[torch.Tensor]:
    seen: list[torch.Tensor] = []

    def spy(batch: torch.Tensor) -> torch.Tensor:
        seen.append(batch.clone())
        return model(batch)

    rw.evaluate(spy, images, labels, maps, **options)
    return [image for batch in seen for image in batch]


def test_noisy_linear_copies_are_bit_identical_for_any_batch_size_and_worker_count(q4, q4_data) -> None:
    images, labels, maps = inputs(q4_data)
    wanted = copies_seen(q4, images, labels, maps, fractions=(0.3,))
    dataset = TensorDataset(images, labels)
    loaders = [DataLoader(dataset, batch_size=16, num_workers=2), DataLoader(dataset, batch_size=9)]
    for given_images, given_labels, max_batch in [
        (images, labels, 5),
        (loaders[0], None, 256),
        (loaders[1], None, 33),
    ]:
        found = copies_seen(q4, given_images, given_labels, maps, fractions=(0.3,), max_batch=max_batch)
        assert len(found) == len(wanted)
        assert sorted(hash(image.numpy().tobytes()) for image in found) == sorted(
            hash(image.numpy().tobytes()) for image in wanted
        )


def test_row_order_changes_nothing_when_ids_travel_with_the_rows(q4, q4_data) -> None:
    images, labels, maps = inputs(q4_data, n=20)
    ids = [f"s{row}" for row in range(20)]
    turn = np.random.default_rng(1).permutation(20)
    plain = rw.evaluate(q4, images, labels, maps, ids=ids)
    turned = rw.evaluate(
        q4, images[turn], labels[turn], {k: v[turn] for k, v in maps.items()}, ids=[ids[i] for i in turn]
    )
    np.testing.assert_allclose(turned.scores.logit, plain.scores.logit[..., turn], atol=1e-5)


@given(scale=st.sampled_from([1e-6, 0.5, 10.0, 1e8]), shift=st.sampled_from([-3.0, 0.0, 5.0]), n=st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_monotone_transforms_of_a_map_change_no_score(scale: float, shift: float, n: int) -> None:
    generator = np.random.default_rng(n)
    images = torch.from_numpy(generator.random((n, 1, 6, 6)).astype(np.float32))
    values = generator.integers(-9, 9, size=(n, 6, 6)).astype(np.float64)

    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.mean((1, 2, 3)), x[:, 0, :3].mean((1, 2))], dim=1)

    plain, moved = (
        rw.evaluate(model, images, None, {"m": m}, strategy="road", intact_check="warn", fractions=(0.5,))
        for m in (values, values * scale + shift)
    )
    assert (plain.scores.logit == moved.scores.logit).all()


def test_repeats_redraw_ties_and_noise_and_report_their_spread(q4, q4_data) -> None:
    images, labels, maps = inputs(q4_data, n=12)
    result = rw.evaluate(q4, images, labels, maps, strategy="road", repeats=3)
    logits = result.scores.logit
    assert (logits[:, :, 1:, 0] != logits[:, :, 1:, 1]).any()
    assert (logits[:, :, 0] == logits[:, :, :1, 0]).all(), "nothing removed: nothing to draw"
    assert sorted(result.table["repeat"].unique()) == [0, 1, 2]
    assert "repeat_sd" in result.ranking()


class Stopped(Exception):
    """Stands for a kill."""


def test_an_interrupted_run_goes_on_and_gives_the_same(q4, q4_data, tmp_path, monkeypatch) -> None:
    images, labels, maps = inputs(q4_data, n=200)
    wanted = rw.evaluate(q4, images, labels, maps)
    scored: list[int] = []
    original = run_module.Run._score

    def stop_at_the_third(self, batch, start):
        if len(scored) == 2:
            raise Stopped
        scored.append(start)
        return original(self, batch, start)

    monkeypatch.setattr(run_module.Run, "_score", stop_at_the_third)
    with pytest.raises(Stopped):
        rw.evaluate(q4, images, labels, maps, checkpoint=tmp_path)
    monkeypatch.setattr(
        run_module.Run, "_score", lambda self, batch, start: (scored.append(start), original(self, batch, start))[1]
    )
    result = rw.evaluate(q4, images, labels, maps, checkpoint=tmp_path)
    assert scored == [0, 64, 128, 192]
    assert (result.scores.logit == wanted.scores.logit).all()
    assert (result.scores.top1 == wanted.scores.top1).all()
    assert result.sheet is not None
    assert (result.sheet.copies == wanted.sheet.copies).all()
    assert result.table.equals(wanted.table)


def test_a_kept_run_is_not_taken_for_another(q4, q4_data, tmp_path) -> None:
    images, labels, maps = inputs(q4_data, n=10)
    rw.evaluate(q4, images, labels, maps, checkpoint=tmp_path)
    with pytest.raises(InputError, match=r"other settings \(fractions is \[.*\] there and \[.*\] here\)"):
        rw.evaluate(q4, images, labels, maps, checkpoint=tmp_path, fractions=(0.5,))
    with pytest.raises(InputError, match=r"other settings \(.*seed"):
        rw.evaluate(q4, images, labels, maps, checkpoint=tmp_path, seed=1)
    same, turned = (
        rw.evaluate(q4, images, labels, {k: sign * v for k, v in maps.items()}, checkpoint=tmp_path)
        for sign in (1, -1)
    )
    assert (turned.scores.logit[:, 0] == same.scores.logit[:, 1]).all(), "maps of another run were taken for these"
