"""One training on several processes against the same on one."""

from __future__ import annotations

import copy
import functools
import itertools
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError, RoadworthyError, RoadworthyWarning
from roadworthy.model import Recipe, fit, fit_distributed
from roadworthy.model.team import Team
from roadworthy.rng import seeded_globals

pytestmark = pytest.mark.filterwarnings("ignore:.*ProcessGroup.*")
# 45 samples in batches of 8: the last has 5, and no part of it equals another
RECIPE = Recipe(
    epochs=3, learning_rate=0.1, batch_size=8, flip=True, crop_padding=1, label_smoothing=0.1, warmup_epochs=1
)


def net() -> nn.Sequential:
    with seeded_globals(4, "init"):
        return nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(64, 3),
        )


def samples(n: int = 45) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    labels = torch.arange(n) % 3
    return torch.rand(n, 1, 8, 8, generator=generator) + labels[:, None, None, None] * 0.2, labels


def close(one: nn.Module, other: nn.Module, tolerance: float = 1e-4) -> bool:
    theirs = other.state_dict()
    return all(torch.allclose(value, theirs[name], atol=tolerance) for name, value in one.state_dict().items())


def build() -> Any:
    # can be sent to another process wherever this file lies
    return functools.partial(copy.deepcopy, net())


def until(condition: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("count", [0, 1, 4, 5, 23])
def test_parts_cover_a_batch_once_and_evenly(size: int, count: int) -> None:
    parts = [list(range(count))[Team(rank, size).part(count)] for rank in range(size)]
    assert list(itertools.chain(*parts)) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


class TestTwoProcesses:
    def test_the_loss_curve_is_that_of_one(self, tmp_path: Path) -> None:
        images, labels = samples()
        one, held_out, reported = net(), (images[:9], labels[:9]), list[int]()
        expected = fit(one, (images, labels), recipe=RECIPE, seed=3, validation=held_out)
        model, history = fit_distributed(
            build(),
            (images, labels),
            processes=2,
            recipe=RECIPE,
            seed=3,
            validation=held_out,
            checkpoint=tmp_path / "a.pt",
            snapshots=tmp_path / "snapshots",
            progress=reported.append,
        )
        assert history.loss == pytest.approx(expected.loss, abs=1e-4)
        assert history.accuracy == pytest.approx(expected.accuracy, abs=1e-9)
        assert history.validation == expected.validation
        assert history.chosen == expected.chosen
        assert close(model, one)
        assert not any(part.training != one.training for part in model.modules())
        assert sum(reported) == 3 * 45
        assert len(list((tmp_path / "snapshots").iterdir())) == 3
        # and one process reads what two have written
        alone = net()
        again = fit(alone, (images, labels), recipe=RECIPE, seed=3, validation=held_out, checkpoint=tmp_path / "a.pt")
        assert again.resumed == 3
        assert close(alone, model, 0)

    @pytest.mark.slow
    def test_continues_in_an_epoch_what_one_process_began(self, tmp_path: Path) -> None:
        class Stop(Exception):
            pass

        def stop(done: int) -> None:
            nonlocal seen
            seen += done
            if seen > 45 + 16:
                raise Stop

        seen, path, whole = 0, tmp_path / "a.pt", net()
        expected = fit(whole, samples(), recipe=RECIPE, seed=3)
        with pytest.raises(Stop):
            fit(net(), samples(), recipe=RECIPE, seed=3, checkpoint=path, checkpoint_seconds=0, progress=stop)
        model, history = fit_distributed(
            build(), samples(), processes=2, recipe=RECIPE, seed=3, checkpoint=path, checkpoint_seconds=0
        )
        assert history.resumed == 1
        assert history.loss == pytest.approx(expected.loss, abs=1e-4)
        assert close(model, whole)

    @pytest.mark.slow
    def test_a_last_batch_that_is_too_small_to_share(self) -> None:
        recipe = Recipe(epochs=2, learning_rate=0.1, batch_size=1)
        one = net()
        expected = fit(one, samples(3), recipe=recipe)
        model, history = fit_distributed(build(), samples(3), processes=2, recipe=recipe)
        assert history.loss == pytest.approx(expected.loss, abs=1e-4)
        assert close(model, one)

    @pytest.mark.slow
    def test_batch_normalisation_warns_and_works(self) -> None:
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))
        with pytest.warns(RoadworthyWarning, match="each of 2 processes normalises its own part"):
            trained, history = fit_distributed(
                functools.partial(copy.deepcopy, model), samples(), processes=2, recipe=RECIPE
            )
        assert history.loss[-1] < history.loss[0]
        assert int(trained[1].num_batches_tracked) == 3 * 6
        assert int(model[1].num_batches_tracked) == 0


class TestFailures:
    def test_a_process_that_dies_ends_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source = """
            import os, signal, torch
            class Deadly(torch.nn.Linear):
                def forward(self, images):
                    if torch.distributed.is_initialized() and torch.distributed.get_rank() == 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return super().forward(images.flatten(1))
            def build():
                return Deadly(64, 3)
        """
        (tmp_path / "deadly_net.py").write_text(textwrap.dedent(source))
        monkeypatch.syspath_prepend(tmp_path)
        import deadly_net  # type: ignore[import-not-found]

        with pytest.raises(
            RoadworthyError, match=r"fit_distributed: process \d of 2 (died|failed).*same call goes on"
        ):
            fit_distributed(deadly_net.build, samples(), processes=2, recipe=RECIPE)

    def test_a_killed_parent_takes_its_processes_along(self, tmp_path: Path) -> None:
        """kill -9 leaves no time to stop the team: nobody may go on writing the checkpoint."""
        source = """
            import signal, sys, torch
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in what a shell runs in the background
            sys.path.insert(0, sys.argv[1])
            from endless_net import build
            from roadworthy.model import Recipe, fit_distributed
            if __name__ == "__main__":
                samples = torch.rand(16, 1, 8, 8), torch.arange(16) % 3
                recipe = Recipe(epochs=1000000, learning_rate=0.01, batch_size=8, warmup_epochs=0)
                fit_distributed(build, samples, processes=2, recipe=recipe, checkpoint=sys.argv[2])
        """
        net = (
            "import torch\ndef build():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))\n"
        )
        (tmp_path / "endless_net.py").write_text(net)
        script, checkpoint = tmp_path / "script.py", tmp_path / "kept" / "a.pt"
        script.write_text(textwrap.dedent(source))
        checkpoint.parent.mkdir()
        with subprocess.Popen([sys.executable, str(script), str(tmp_path), str(checkpoint)]) as parent:
            until(checkpoint.exists, 120)
            team = psutil.Process(parent.pid).children(recursive=True)
            trainers = [child for child in team if "spawn_main" in " ".join(child.cmdline())]
            assert len(trainers) == 2
            assert all(child.status() != psutil.STATUS_ZOMBIE for child in trainers)
            parent.send_signal(signal.SIGKILL)
        left = psutil.wait_procs(team, timeout=10)[1]
        for child in left:
            child.kill()
        assert left == []
        written = checkpoint.read_bytes()
        time.sleep(0.5)
        assert checkpoint.read_bytes() == written

    @pytest.mark.slow
    def test_what_an_interpreter_does_at_its_end_cannot_fail_a_training_that_is_done(self) -> None:
        # stands for gloo's threads, which may abort a process whose interpreter is taken down
        code = (
            "(__import__('multiprocessing').parent_process() "
            "and __import__('atexit').register(__import__('os').abort), __import__('copy').deepcopy(net))[1]"
        )
        made = functools.partial(eval, code, {"net": net()})
        seen: list[int] = []
        model, history = fit_distributed(made, samples(), processes=2, recipe=RECIPE, seed=5, progress=seen.append)
        assert len(history.loss) == RECIPE.epochs
        assert sum(seen) == 45 * RECIPE.epochs
        assert not close(model, net())

    @pytest.mark.slow
    def test_an_error_in_a_process_is_told(self) -> None:
        images = torch.full((8, 1, 8, 8), float("nan"))
        with pytest.raises(RoadworthyError, match="failed: .*SolverError: fit: the loss is nan"):
            fit_distributed(build(), (images, torch.arange(8) % 3), processes=2, recipe=RECIPE)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"processes": 0}, "processes is 0, expected an integer of at least 1"),
            ({"device": "cuda:1"}, "expected 'cpu' or 'cuda'"),
        ],
    )
    def test_arguments(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            fit_distributed(build(), samples(), recipe=RECIPE, **options)

    def test_what_cannot_be_sent(self) -> None:
        with pytest.raises(ModelError, match="cannot be sent to a process"):
            fit_distributed(lambda: net(), samples(), processes=2, recipe=RECIPE)
        with pytest.raises(ModelError, match="build: returned int, expected a torch.nn.Module"):
            fit_distributed(int, samples(), processes=2, recipe=RECIPE)  # type: ignore[arg-type]


@pytest.mark.slow
def test_inside_a_process_group_that_exists(tmp_path: Path) -> None:
    script = f"""
        import copy, functools, os, torch
        torch.set_num_threads(1)
        from roadworthy.model import Recipe, fit_distributed, save_weights
        torch.distributed.init_process_group("gloo")
        net = torch.load({str(tmp_path / "net.pt")!r}, weights_only=False)
        images, labels = torch.load({str(tmp_path / "data.pt")!r}, weights_only=True)
        model, history = fit_distributed(
            functools.partial(copy.deepcopy, net), (images, labels), seed=3,
            recipe=Recipe(epochs=3, learning_rate=0.1, batch_size=8),
        )
        save_weights(model, f"{tmp_path}/rank{{torch.distributed.get_rank()}}.safetensors")
        torch.distributed.barrier()
        os._exit(0)  # as fit_distributed advises: gloo's threads may abort an interpreter that ends
    """
    from roadworthy.model import load_weights

    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    torch.save(net(), tmp_path / "net.pt")
    torch.save(samples(), tmp_path / "data.pt")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*torchrun, str(tmp_path / "script.py")]
    done = subprocess.run(command, check=False, timeout=300, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one = net()
    fit(one, samples(), recipe=Recipe(epochs=3, learning_rate=0.1, batch_size=8), seed=3)
    for rank in range(2):
        model = net()
        load_weights(model, tmp_path / f"rank{rank}.safetensors")
        assert close(model, one)
