"""Validation, snapshots, checkpoints inside an epoch, kills and full disks."""

from __future__ import annotations

import errno
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.model import (
    History,
    Recipe,
    fit,
    load_model,
    load_weights,
    read_weights,
    save_weights,
)
from roadworthy.model.feed import Feed
from roadworthy.records import Split
from roadworthy.rng import seeded_globals, torch_generator

Make = Callable[..., Split]
pytestmark = pytest.mark.filterwarnings("ignore:.*samples could not be read")
RECIPE = Recipe(epochs=4, learning_rate=0.1, batch_size=8, flip=True, crop_padding=1, label_smoothing=0.1)
STEPS = Recipe(total_steps=13, learning_rate=0.1, batch_size=8, flip=True, warmup_epochs=0.5)


class Noisy(nn.Module):
    """Draws from every global generator while it is trained."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return images
        extra = random.random() + float(np.random.rand())  # noqa: NPY002
        return images + 0.01 * extra + 0.01 * torch.rand(())


def net(classes: int = 2) -> nn.Sequential:
    with seeded_globals(4, "init"):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            Noisy(),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64, classes),
        )


def equal(one: nn.Module | dict[str, torch.Tensor], other: nn.Module | dict[str, torch.Tensor]) -> bool:
    left, right = (part.state_dict() if isinstance(part, nn.Module) else part for part in (one, other))
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def same(one: History, other: History) -> bool:
    fields = ("loss", "accuracy", "validation", "chosen")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


class Stop(Exception):
    """Where a test ends a training."""


def stopping(after: int) -> Callable[[int], None]:
    seen = 0

    def stop(done: int) -> None:
        nonlocal seen
        seen += done
        if seen > after:
            raise Stop

    return stop


class TestInsideAnEpoch:
    @pytest.mark.parametrize("recipe", [RECIPE, STEPS], ids=["epochs", "steps"])
    @pytest.mark.parametrize("memory", [10**9, 0])
    @pytest.mark.parametrize("after", [1, 17, 39, 41, 70, 95])
    def test_interrupted_and_resumed_is_the_same_to_the_bit(
        self, make_split: Make, tmp_path: Path, recipe: Recipe, memory: int, after: int
    ) -> None:
        options: dict[str, Any] = {
            "recipe": recipe,
            "seed": 3,
            "memory": memory,
            "validation": make_split(12, seed=8),
        }
        whole, resumed, path = net(), net(), tmp_path / "a.pt"
        expected = fit(whole, make_split(), **options)
        options |= {"checkpoint": path, "checkpoint_seconds": 0}
        with pytest.raises(Stop):
            fit(net(), make_split(), **options, progress=stopping(after))
        reported = list[int]()
        history = fit(resumed, make_split(), **options, progress=reported.append)
        assert equal(resumed, whole)
        assert same(history, expected)
        assert sum(reported) == recipe.timetable(40).work
        # a step is reported before it is kept: all but the last one are there
        assert reported[0] >= after - 8
        assert all(parameter.grad is None for parameter in resumed.parameters())

    def test_time_decides(self, make_split: Make, tmp_path: Path) -> None:
        kept = {}
        for seconds in (0.0, 1e9):
            path = tmp_path / f"{seconds}.pt"
            with pytest.raises(Stop):
                fit(
                    net(),
                    make_split(),
                    recipe=RECIPE,
                    checkpoint=path,
                    checkpoint_seconds=seconds,
                    progress=stopping(60),
                )
            kept[seconds] = torch.load(path, weights_only=True)["partial"]
        assert kept[0.0]["step"] == 2
        assert kept[1e9] is None

    def test_the_length_in_steps(self, make_split: Make) -> None:
        sizes = list[int]()
        history = fit(net(), make_split(43), recipe=STEPS, progress=sizes.append)
        assert sizes == [8] * 13
        assert len(history.loss) == 3  # passes of 5 steps, the last cut short
        few = list[int]()
        fit(net(), make_split(5), recipe=STEPS, progress=few.append)
        assert few == [5] * 13

    def test_rates_follow_the_samples_seen(self, make_split: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = list[float]()
        rate = Recipe.rate
        monkeypatch.setattr(Recipe, "rate", lambda self, at, **more: (asked.append(at), rate(self, at, **more))[1])
        fit(net(), make_split(43), recipe=STEPS)
        assert asked == pytest.approx([step * 8 / 43 for step in range(13)])


SCRIPT = """
    import sys, torch
    torch.set_num_threads(1)
    sys.path.insert(0, {tests!r})
    from test_training_helper import make, net, RECIPE
    from roadworthy.model import fit, save_weights
    import json
    model = net()
    train, validation = make()
    history = fit(model, train, recipe=RECIPE, seed=3, validation=validation, checkpoint={path!r},
                  checkpoint_seconds=float(sys.argv[1]), snapshots={snapshots!r})
    save_weights(model, {final!r})
    print(json.dumps([history.loss, history.validation, history.chosen]))
"""
HELPER = """
    import torch
    from torch import nn
    from roadworthy.model import Recipe
    from roadworthy.rng import seeded_globals
    RECIPE = Recipe(epochs=30, learning_rate=0.005, batch_size=8, flip=True, crop_padding=1)
    def net():
        with seeded_globals(4, "init"):
            layers = nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.2), nn.Flatten(), nn.Linear(800, 3)
        return nn.Sequential(*layers)
    def make():
        images = torch.rand(300, 1, 12, 12, generator=torch.Generator().manual_seed(1))
        labels = torch.arange(300) % 3
        images += labels[:, None, None, None] * 0.1
        return (images[:250], labels[:250]), (images[250:], labels[250:])
"""


@pytest.mark.slow
def test_killed_at_random_moments_ends_as_an_uninterrupted_run(tmp_path: Path) -> None:
    (tmp_path / "test_training_helper.py").write_text(textwrap.dedent(HELPER))
    outputs = {}
    for name in ("whole", "killed"):
        folder = tmp_path / name
        folder.mkdir()
        text = textwrap.dedent(SCRIPT).format(
            tests=str(tmp_path),
            path=str(folder / "a.pt"),
            snapshots=str(folder / "snapshots"),
            final=str(folder / "final.safetensors"),
        )
        (folder / "run.py").write_text(text)
        command = [sys.executable, str(folder / "run.py")]
        if name == "killed":
            draws, kills = random.Random(11), 0
            for _ in range(4):
                running = subprocess.Popen([*command, "0"], stdout=subprocess.DEVNULL)
                deadline = time.monotonic() + 120
                stamp = (folder / "a.pt").stat().st_mtime_ns if (folder / "a.pt").exists() else 0
                while running.poll() is None and time.monotonic() < deadline:
                    if (folder / "a.pt").exists() and (folder / "a.pt").stat().st_mtime_ns != stamp:
                        break
                    time.sleep(0.005)
                time.sleep(draws.uniform(0, 0.4))
                if running.poll() is None:
                    kills += 1
                    running.send_signal(signal.SIGKILL)
                running.wait()
            assert kills >= 2
        done = subprocess.run(
            [*command, "0" if name == "killed" else "1e9"], check=True, capture_output=True, text=True
        )
        outputs[name] = done.stdout
    assert outputs["killed"] == outputs["whole"]
    names = sorted(path.name for path in (tmp_path / "whole" / "snapshots").iterdir())
    assert len(names) == 30
    for file in ("final.safetensors", *(f"snapshots/{name}" for name in names)):
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


class TestValidation:
    def test_the_best_epoch_is_chosen_and_noted(self, make_split: Make, tmp_path: Path) -> None:
        # the validation labels are turned round: what is learnt makes it worse, so that an early epoch is best
        train, held_out = make_split(), make_split(20, seed=9)
        pair = (held_out.images, 1 - held_out.labels)
        model, plain = net(), net()
        history = fit(model, train, recipe=RECIPE, seed=3, validation=pair, snapshots=tmp_path)
        unselected = fit(plain, train, recipe=RECIPE, seed=3)
        assert history.loss == unselected.loss
        assert len(history.validation) == 4
        assert history.chosen == 1 + int(np.argmax(history.validation)) < 4
        assert unselected.chosen == 4
        assert unselected.validation == ()
        scores = []
        for epoch in range(1, 5):
            state, _ = read_weights(tmp_path / f"epoch-{epoch:05d}.safetensors")
            scored = net().eval()
            scored.load_state_dict(state)
            with torch.no_grad():
                scores.append(float((scored(pair[0]).argmax(1) == pair[1]).double().mean()))
            assert equal(model, state) == (epoch == history.chosen)
        assert history.validation == pytest.approx(scores)
        last, _ = read_weights(tmp_path / "epoch-00004.safetensors")
        assert equal(plain, last)

    @pytest.mark.parametrize("memory", [10**9, 0])
    def test_streamed_and_held_agree(self, make_split: Make, memory: int) -> None:
        train = (make_split().images, make_split().labels)
        history = fit(net(), train, recipe=RECIPE, validation=make_split(30, broken=[4], seed=9), memory=memory)
        assert (
            history.validation
            == fit(net(), train, recipe=RECIPE, validation=_without(make_split(30, seed=9), 4)).validation
        )

    def test_nothing_else_changes(self, make_split: Make) -> None:
        model, held_out = net().eval(), make_split(20, seed=9)
        images = held_out.images.clone()
        fit(model, make_split(), recipe=RECIPE, validation=(images, held_out.labels))
        assert torch.equal(images, held_out.images)
        assert not any(part.training for part in model.modules())

    def test_another_validation_split_is_another_run(self, make_split: Make, tmp_path: Path) -> None:
        fit(net(), make_split(), recipe=RECIPE, validation=make_split(20, seed=9), checkpoint=tmp_path / "a.pt")
        with pytest.raises(ModelError, match="these differ: validation"):
            fit(net(), make_split(), recipe=RECIPE, checkpoint=tmp_path / "a.pt")
        model, history = net(), fit(net(), make_split(), recipe=RECIPE, validation=make_split(20, seed=9))
        again = fit(
            model, make_split(), recipe=RECIPE, validation=make_split(20, seed=9), checkpoint=tmp_path / "a.pt"
        )
        assert again.resumed == 4
        assert same(again, history)


def _without(split: Split, position: int) -> tuple[torch.Tensor, torch.Tensor]:
    kept = [row for row in range(len(split)) if row != position]
    return split.images[kept], split.labels[kept]


class TestSnapshots:
    def test_each_nth_and_the_last_with_notes(self, make_split: Make, tmp_path: Path) -> None:
        model = net()
        fit(model, make_split(), recipe=RECIPE, snapshots=tmp_path, snapshot_every=3, normalize=([0.5], [0.25]))
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == ["epoch-00003.safetensors", "epoch-00004.safetensors"]
        notes = [read_weights(tmp_path / name)[1] for name in names]
        stats = {"pixel_mean": [0.5], "pixel_std": [0.25]}
        assert notes == [{"epoch": 3, "last": False, **stats}, {"epoch": 4, "last": True, **stats}]
        assert equal(model, read_weights(tmp_path / names[1])[0])

    def test_of_a_model_in_pixel_units(self, make_split: Make, tmp_path: Path) -> None:
        model = load_model(net(), normalize=([0.5], [0.25]))
        fit(model, make_split(), recipe=Recipe(epochs=1, learning_rate=0.1), snapshots=tmp_path)
        bare = net()
        assert load_weights(bare, tmp_path / "epoch-00001.safetensors")["pixel_std"] == [0.25]
        assert equal(bare, model.body)

    @pytest.mark.parametrize("every", [0, 1.5])
    def test_every(self, make_split: Make, every: Any, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="snapshot_every is"):
            fit(net(), make_split(), recipe=RECIPE, snapshots=tmp_path, snapshot_every=every)


class TestAFullDisk:
    def test_the_last_checkpoint_and_the_training_survive(
        self, make_split: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole, path, calls = net(), tmp_path / "a.pt", 0
        fit(whole, make_split(), recipe=RECIPE)
        save = torch.save

        def full(content: Any, file: Any, **options: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == 3:
                file.write(b"half of it")
                raise OSError(errno.ENOSPC, "No space left on device")
            if calls > 3:
                raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")
            save(content, file, **options)

        monkeypatch.setattr(torch, "save", full)
        model = net()
        with pytest.warns(RoadworthyWarning, match=r"a\.pt' could not be written \(.*No space left.*goes on"):
            fit(model, make_split(), recipe=RECIPE, checkpoint=path)
        assert calls == 4
        assert equal(model, whole)
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.pt"]
        monkeypatch.undo()
        resumed = net()
        assert fit(resumed, make_split(), recipe=RECIPE, checkpoint=path).resumed == 2
        assert equal(resumed, whole)

    def test_a_snapshot(self, make_split: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(self: Path, data: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.warns(RoadworthyWarning, match=r"epoch-00001\.safetensors' could not be written"):
            history = fit(net(), make_split(), recipe=RECIPE, snapshots=tmp_path)
        assert len(history.loss) == 4

    def test_a_quota_of_the_system(self, tmp_path: Path) -> None:
        script = """
            import resource, signal, warnings, torch
            from roadworthy.model import Recipe, fit
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            images, labels = torch.rand(40, 1, 8, 8), torch.arange(40) % 2
            net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2000), torch.nn.Linear(2000, 2))
            def limit(done):
                global seen
                seen += done
                if seen == 80:  # in the second epoch of three
                    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
            seen = 0
            recipe = Recipe(epochs=3, learning_rate=0.1, batch_size=40)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fit(net, (images, labels), recipe=recipe, checkpoint="a.pt", progress=limit)
            assert len(caught) == 2 and "could not be written" in str(caught[0].message), caught
            print(len(torch.load("a.pt", weights_only=True)["history"]["loss"]))
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.stdout.strip() == "1", done.stderr
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.pt"]


def test_a_damaged_checkpoint_may_be_made_anew(make_split: Make, tmp_path: Path) -> None:
    whole, model, path = net(), net(), tmp_path / "a.pt"
    fit(whole, make_split(), recipe=RECIPE, checkpoint=path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="cannot be read"):
        fit(net(), make_split(), recipe=RECIPE, checkpoint=path)
    with pytest.warns(RoadworthyWarning, match="cannot be read.*the training starts anew"):
        assert fit(model, make_split(), recipe=RECIPE, checkpoint=path, damaged="restart").resumed == 0
    assert equal(model, whole)
    with pytest.raises(InputError, match="damaged: got 'ignore'"):
        fit(net(), make_split(), recipe=RECIPE, damaged="ignore")  # type: ignore[arg-type]


class Shifted(Split):
    """A split that adds a number to its images; its parts do so too."""

    def __init__(self, split: Split, shift: float, indices: Any = None) -> None:
        super().__init__(split.source, split.name, split.indices if indices is None else indices)
        self.inner, self.shift, self.broken = split, shift, split.broken

    def batches(self, size: int = 256) -> Iterator[Any]:
        for batch in Split(self.source, self.name, self.indices).batches(size):
            yield batch._replace(images=batch.images + self.shift)

    def _restricted(self, indices: np.ndarray) -> Split:
        return Shifted(self.inner, self.shift, indices)


class Anew:
    """Other images each epoch."""

    def __init__(self, split: Split) -> None:
        self.split, self.asked = split, list[int]()

    def for_epoch(self, epoch: int) -> Split:
        self.asked.append(epoch)
        return Shifted(self.split, float(epoch))


class TestSubclassesAndEpochs:
    @pytest.mark.parametrize("memory", [10**9, 0])
    def test_a_subclass_keeps_what_it_does(self, make_split: Make, memory: int) -> None:
        feed = Feed(Shifted(make_split(600), 5.0), memory)
        images = torch.cat([images for images, _ in feed.epoch(RECIPE, torch_generator(0, "a"))])
        assert len(images) == 600
        assert float(images.min()) >= 5.0

    @pytest.mark.parametrize("memory", [10**9, 0])
    def test_a_split_for_each_epoch(self, make_split: Make, memory: int, tmp_path: Path) -> None:
        train, seen, model = Anew(make_split()), list[float](), net()
        model.register_forward_pre_hook(lambda _, inputs: seen.append(float(inputs[0].min())))
        recipe = Recipe(epochs=3, learning_rate=0.01, batch_size=40)
        fit(model, train, recipe=recipe, memory=memory)
        assert train.asked == [0, 1, 2]
        assert [int(low) for low in seen] == [0, 1, 2]
        with pytest.raises(Stop):
            fit(
                net(),
                Anew(make_split()),
                recipe=recipe,
                memory=memory,
                checkpoint=tmp_path / "a",
                progress=stopping(80),
            )
        resumed, rest = net(), Anew(make_split())
        fit(resumed, rest, recipe=recipe, memory=memory, checkpoint=tmp_path / "a")
        assert rest.asked == [0, 2]
        assert equal(resumed, model)

    def test_known_broken_samples_stay_left_out(self, make_split: Make) -> None:
        split = make_split(600, broken=[3])
        list(split.batches(64))
        part = split.reordered(split.indices[::-1].copy())
        assert len(part) == 599
        assert part.ids == split.ids[::-1]


def test_channels_last_is_the_same_training_but_for_rounding(make_split: Make, tmp_path: Path) -> None:
    plain, other = net(), net()
    fit(plain, make_split(), recipe=RECIPE)
    wanted = Recipe(**{**RECIPE.__dict__, "channels_last": True})
    history = fit(other, make_split(), recipe=wanted, checkpoint=tmp_path / "a.pt", snapshots=tmp_path)
    theirs = other.state_dict()
    assert all(torch.allclose(value, theirs[name], atol=1e-4) for name, value in plain.state_dict().items())
    assert other[0].weight.is_contiguous()
    with pytest.raises(Stop):
        fit(
            net(),
            make_split(),
            recipe=wanted,
            checkpoint=tmp_path / "b.pt",
            checkpoint_seconds=0,
            progress=stopping(60),
        )
    resumed = net()
    again = fit(resumed, make_split(), recipe=wanted, checkpoint=tmp_path / "b.pt")
    assert equal(resumed, other)
    assert again.loss == history.loss


def test_the_checkpoint_holds_no_objects(make_split: Make, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        fit(
            net(),
            make_split(),
            recipe=RECIPE,
            validation=make_split(20, seed=9),
            checkpoint=tmp_path / "a.pt",
            checkpoint_seconds=0,
            progress=stopping(60),
        )
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    assert content["partial"]["step"] == 2
    assert set(content["best"]) == set(net().state_dict())
    assert save_weights(net(), tmp_path / "w.safetensors", notes={"epoch": 3}).exists()
