"""A kept block is used only for what it was made of; a resumed run says what the first one said."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import InputError, RoadworthyWarning


@pytest.fixture
def toy():
    images = torch.from_numpy(np.random.default_rng(0).random((40, 1, 6, 6)).astype(np.float32))
    labels = (images[:, 0, :, 3:].mean((1, 2)) > images[:, 0, :, :3].mean((1, 2))).long()

    def model(x: torch.Tensor) -> torch.Tensor:
        return 30 * torch.stack([x[:, 0, :, :3].mean((1, 2)), x[:, 0, :, 3:].mean((1, 2))], dim=1)

    return model, images, labels


class Holding(torch.nn.Module):
    """What a module holds beside its state belongs to it too."""

    def __init__(self, act, shift: torch.Tensor | None = None) -> None:
        super().__init__()
        self.act = act
        self._shift = [torch.tensor(0.0) if shift is None else shift]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.help(self.act(x) + self._shift[0])

    def help(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[:, 0, :, :3].mean((1, 2)), x[:, 0, :, 3:].mean((1, 2))], dim=1)


def evaluated_or_refused(*arguments, **options):
    """Return the result, or None where the folder was refused because it holds a run with other settings."""
    try:
        return rw.evaluate(*arguments, **options)
    except InputError as error:
        if "other settings" not in str(error):
            raise
        return None


def test_every_change_is_noticed(toy, tmp_path) -> None:
    """Whatever the scores depend on, a folder kept for one value of it must not answer for another."""
    model, images, labels = toy
    base = {"attributions": {"m": "grad"}, "fractions": (0.5,), "mean": (0.5,), "intact_check": "warn"}
    flipped = images.flip(3).contiguous()
    first_output = {"output": 0}, {"output": 1}

    def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return model(x), model(x.flip(3))

    changes = {
        "images": [(model, images, labels, {}), (model, flipped, labels, {})],
        "labels": [(model, images, labels, {}), (model, images, 1 - labels, {})],
        "targets": [(model, images, labels, {"target": [0] * 40}), (model, images, labels, {"target": [1] * 40})],
        "output": [(two, images, labels, first_output[0]), (two, images, labels, first_output[1])],
        "method": [
            (model, images, labels, {"attributions": {"m": "grad"}}),
            (model, images, labels, {"attributions": {"m": "random"}}),
        ],
        "callable": [
            (model, images, labels, {"attributions": {"m": lambda m, x, t: x[:, 0]}}),
            (model, images, labels, {"attributions": {"m": lambda m, x, t: -x[:, 0]}}),
        ],
        "imputer": [
            (model, images, labels, {"imputer": lambda x, r, g: torch.zeros_like(x)}),
            (model, images, labels, {"imputer": lambda x, r, g: torch.ones_like(x)}),
        ],
        "held function": [(Holding(torch.relu), images, labels, {}), (Holding(torch.neg), images, labels, {})],
        "held tensor": [
            (Holding(torch.relu, torch.tensor(0.0)), images, labels, {}),
            (Holding(torch.relu, torch.tensor(5.0)), images, labels, {}),
        ],
        "partial": [
            (functools.partial(lambda x, k: model(x) * k, k=1.0), images, labels, {}),
            (functools.partial(lambda x, k: model(x) * k, k=-1.0), images, labels, {}),
        ],
    }
    for name, calls in changes.items():
        folder = tmp_path / name
        for number, (net, pictures, classes, options) in enumerate(calls):
            fresh = rw.evaluate(net, pictures, classes, **base | options)
            kept = evaluated_or_refused(net, pictures, classes, checkpoint=folder, **base | options)
            if kept is None:
                assert number == 1, name
                continue
            assert (kept.scores.logit == fresh.scores.logit).all(), name
            assert (kept.scores.top1 == fresh.scores.top1).all(), name


def test_a_resumed_run_keeps_its_warnings_and_settings(toy, tmp_path) -> None:
    model, images, _ = toy
    options = {"attributions": ["grad"], "fractions": (0.5,), "checkpoint": tmp_path}
    with pytest.warns(RoadworthyWarning):
        first = rw.evaluate(model, images * 3, None, **options)
    with pytest.warns(RoadworthyWarning):
        again = rw.evaluate(model, images * 3, None, **options)
    assert first.warnings == again.warnings
    assert any("no labels" in warning for warning in again.warnings)
    assert any("range" in warning for warning in again.warnings)
    assert first.settings == again.settings
    assert again.settings["classes"] == 2
    assert again.settings["labels"] == "model"


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 half a file", b"\x80\x04\x95 pickle"])
def test_a_damaged_block_is_scored_again(toy, tmp_path, damage: bytes) -> None:
    model, images, labels = toy
    options = {"attributions": ["grad"], "fractions": (0.5,), "checkpoint": tmp_path}
    wanted = rw.evaluate(model, images, labels, **options)
    (block,) = tmp_path.glob("block-*.npz")
    block.write_bytes(damage)
    found = rw.evaluate(model, images, labels, **options)
    assert (found.scores.logit == wanted.scores.logit).all()


def test_a_damaged_head_is_named(toy, tmp_path) -> None:
    model, images, labels = toy
    for text in ("[]", "null", '{"key": []}'):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(InputError, match=r"run\.json: is not what a run wrote"):
            rw.evaluate(model, images, labels, ["grad"], checkpoint=tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json: cannot be read.*delete the folder"):
        rw.evaluate(model, images, labels, ["grad"], checkpoint=tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"checkpoint: .*file is a file, expected a folder"):
        rw.evaluate(model, images, labels, ["grad"], checkpoint=tmp_path / "file")


def test_dropping_a_sample_leaves_the_fills_of_the_others(toy) -> None:
    model, images, labels = toy
    maps = images[:, 0].numpy().copy()
    bad = maps.copy()
    bad[3] = np.nan

    def fill(batch: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.full_like(batch, float(torch.rand(1, generator=generator)))

    options = {"imputer": fill, "fractions": (0.5,), "order": "morf"}
    whole = rw.evaluate(model, images, labels, {"m": maps}, **options)
    with pytest.warns(RoadworthyWarning, match="1 samples were left out"):
        less = rw.evaluate(model, images, labels, {"m": bad}, nonfinite="drop", **options)
    keep = np.arange(40) != 3
    np.testing.assert_allclose(less.scores.logit, whole.scores.logit[..., keep], rtol=1e-5)


def test_progress_counts_all_copies_also_when_resumed(toy, tmp_path) -> None:
    model, images, labels = toy
    for _ in range(2):
        done: list[int] = []
        rw.evaluate(model, images, labels, ["grad", "random"], checkpoint=tmp_path, progress=done.append)
        assert sum(done) == 40 * 2 * 2 * 6 * 2  # images, methods, orders, shares, fills
