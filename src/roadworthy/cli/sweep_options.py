"""Options of the verbs that run sweeps, and how they become an experiment and an executor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import complete
from roadworthy.cli.options import parse_floats, parse_list, parse_normalize, parse_size
from roadworthy.errors import InputError

if TYPE_CHECKING:
    from roadworthy.sweep.executors import Executor

ENGINES = ("auto", "serial", "processes", "ray")

SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="KEY=VALUE of the experiment, dotted, value in YAML; may be given several times."),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        autocompletion=complete.one_of(*complete.DATA_SETS),
        help="Data set; replaces the whole 'data' section (see sources).",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        autocompletion=complete.one_of(*complete.MODELS),
        help="Model; replaces the whole 'model' section (see sources).",
    ),
]
SizeOption = Annotated[str | None, typer.Option("--size", help="Bring images to HEIGHTxWIDTH, or one number.")]
WeightsOption = Annotated[
    str | None,
    typer.Option("--weights", help="Weights of the model that the maps explain; by default it is trained."),
]
NormalizeOption = Annotated[
    str | None,
    typer.Option(
        "--normalize", autocompletion=complete.one_of(*complete.NORMALIZE), help="auto, imagenet, none, or MEAN/STD."
    ),
]
MethodsOption = Annotated[
    str | None,
    typer.Option(
        "--methods",
        autocompletion=complete.several_of(*complete.METHODS),
        help="Methods, comma separated (see sources); NAME=TRAIN:TEST for saved maps, NAME=tfrecord:PATTERN for "
        "record files of both splits.",
    ),
]
StrategyOption = Annotated[
    str | None,
    typer.Option(
        "--strategy",
        autocompletion=complete.one_of(*complete.TRAINING_STRATEGIES),
        help="Preset: roar, kar or roar-2019.",
    ),
]
RecipeOption = Annotated[
    str | None,
    typer.Option(
        "--recipe", autocompletion=complete.one_of(*complete.RECIPES), help="How networks are trained (see sources)."
    ),
]
FractionsOption = Annotated[str | None, typer.Option("--fractions", help="Shares removed, comma separated.")]
OrderOption = Annotated[
    str | None, typer.Option("--order", autocompletion=complete.one_of(*complete.ORDERS), help="morf, lerf or both.")
]
ImputerOption = Annotated[
    str | None,
    typer.Option(
        "--imputer",
        "--imputers",
        autocompletion=complete.several_of(*complete.IMPUTERS),
        help="What fills removed pixels; several, comma separated.",
    ),
]
RepeatsOption = Annotated[int | None, typer.Option("--repeats", help="Independent trainings of each kind.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of every random draw.")]
PlanOption = Annotated[
    bool, typer.Option("--plan", help="Print the jobs, and what they will take, measured by a short probe; run none.")
]
SmokeOption = Annotated[
    bool, typer.Option("--smoke", help="Go the whole way on two images a class, one epoch, one repeat, two shares.")
]
RetryOption = Annotated[bool, typer.Option("--retry-failed", help="Do failed jobs again.")]
EngineOption = Annotated[
    str,
    typer.Option(
        "--engine",
        autocompletion=complete.one_of(*ENGINES),
        help="auto, serial (in this process), processes (of this machine) or ray (a cluster).",
    ),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes; by default one a core, or one a GPU.")
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads of each job.")]
AddressOption = Annotated[
    str, typer.Option("--address", help="Ray cluster: auto, local (one of our own), or HOST:PORT.")
]
CpusOption = Annotated[float, typer.Option("--cpus", min=0.01, help="Ray: CPUs that each job takes.")]
GpusOption = Annotated[float, typer.Option("--gpus", min=0, help="Ray: GPUs that each job takes.")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        autocompletion=complete.several_of(*complete.DEVICES),
        help="cpu, cuda, cuda:1, or several, comma separated; all GPUs if there are any.",
    ),
]


@dataclass(frozen=True)
class Engine:
    """Where jobs are to be done, as the command line says it."""

    name: str = "auto"
    workers: int | None = None
    threads: int = 1
    address: str = "auto"
    cpus: float = 1.0
    gpus: float = 0.0
    device: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise InputError(f"--engine: got {self.name!r}, expected {', '.join(ENGINES)}")
        if self.name == "serial" and (self.workers or 1) > 1:
            raise InputError(f"--workers: {self.workers} jobs at a time need --engine processes, not serial")
        if self.name == "ray" and self.workers is not None:
            raise InputError("--workers: with --engine ray, --cpus and --gpus of each job decide how many run")

    def devices(self) -> list[str]:
        """Return where to compute: as given, else all GPUs, else the CPU.

        Raises:
            InputError: a device that cannot be used here.
        """
        import torch

        from roadworthy.cli.options import pick_device

        if self.device is not None:
            return [pick_device(name) for name in parse_list(self.device, "device")]
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [f"cuda:{number}" for number in range(count)] or ["cpu"]

    def width(self, jobs: int, processes: int = 1) -> int:
        """Return how many jobs will run at a time.

        Args:
            jobs: how many there are to do.
            processes: that share one training; they take the place of workers.

        Raises:
            InputError: worker processes, which see one GPU each, for trainings that need several.
        """
        if self.name == "serial":
            return 1
        devices = [] if self.name == "ray" else self.devices()
        on_gpus = any(name != "cpu" for name in devices)
        if on_gpus and processes > 1:
            return self._one_across_gpus(processes)
        usable = len(devices) if on_gpus else _cores() // self.threads
        return max(1, min(jobs, (self.workers or usable) // processes))

    def _one_across_gpus(self, processes: int) -> int:
        if self.name == "processes":
            raise InputError(
                f"--engine processes: a worker sees one GPU, and processes_per_trial is {processes}; use --engine "
                "serial, whose trainings see all GPUs, or --set processes_per_trial=1 with a training on each GPU"
            )
        return 1

    def executor(self, jobs: int, processes: int = 1) -> Executor:
        """Return the executor for this many jobs, whose trainings take ``processes`` each."""
        from roadworthy.sweep.executors import ProcessExecutor, RayExecutor, SerialExecutor

        if jobs == 0:
            return SerialExecutor()
        if self.name == "ray":
            return RayExecutor(self.address, cpus=self.cpus, gpus=self.gpus)
        width, devices = self.width(jobs, processes), self.devices()
        if self.name == "serial" or (self.name == "auto" and width == 1):
            import torch

            torch.set_num_threads(self.threads)  # as worker processes have, so that both give the same bits
            return SerialExecutor(device=devices[0])
        return ProcessExecutor(width, devices=devices, threads=self.threads)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def overrides(assignments: Sequence[str] | None, **flags: Any) -> dict[str, Any]:
    """Return dotted keys and values for what the command line changes; what was not given is left out.

    Args:
        assignments: ``--set`` texts; they come last and win.
        **flags: values of the options above, by their names.

    Raises:
        InputError: a value that cannot be read.

    Example:
        >>> overrides(["repeats=2"], data="digits", size="16", fractions=".1,.5", imputer="mean,zero", seed=None)
        {'data': 'digits', 'data.size': 16, 'fractions': [0.1, 0.5], 'imputers': ['mean', 'zero'], 'repeats': 2}
    """
    from roadworthy.sweep.settings_file import parse_assignments

    given = {name: value for name, value in flags.items() if value is not None}
    found: dict[str, Any] = {}
    for name, (key, read) in _READ.items():
        if name in given:
            found[key] = read(given.pop(name))
    assert not given, given
    return found | parse_assignments(assignments or [])


def methods(text: str) -> Any:
    """Read ``ig,random,mine=train.npy:test.npy,other=gb``: names of one's own to files or method names.

    Example:
        >>> methods("ig,mine=a.npy:b.npy")
        {'ig': 'ig', 'mine': {'train': 'a.npy', 'test': 'b.npy'}}
        >>> methods("mine=tfrecord:IG/train*:tfrecord:IG/test*,all=tfrecord:IG/*")["mine"]
        {'train': 'tfrecord:IG/train*', 'test': 'tfrecord:IG/test*'}
    """
    found: dict[str, str | Mapping[str, str]] = {}
    for part in parse_list(text, "methods"):
        name, is_given, source = part.partition("=")
        if name in found:
            raise InputError(f"--methods: {name!r} is named twice")
        if is_given and (not name or not source):
            raise InputError(f"--methods: got {part!r}, expected NAME=METHOD or NAME=TRAIN:TEST")
        found[name] = _source(name, source) if is_given else name
    return found


def _source(name: str, source: str) -> str | Mapping[str, str]:
    """Read what a method stands for: another method, TRAIN:TEST, or a pattern of record files of both splits."""
    from roadworthy.sweep.paths import RECORDS, is_record_pattern

    prefix = RECORDS if is_record_pattern(source) else ""
    train, colon, test = source.removeprefix(prefix).partition(":")
    if colon and train != "inverse":
        return {"train": prefix + train, "test": test}
    if not prefix and (Path(source).suffix or os.sep in source):
        raise InputError(
            f"--methods: {name!r} names one file; retraining needs maps of both splits: {name}=TRAIN:TEST, or "
            f"{name}=tfrecord:PATTERN for record files of both"
        )
    return source


def _normalize(text: str) -> Any:
    found = parse_normalize(text)
    return [list(part) for part in found] if isinstance(found, tuple) else found


_READ: dict[str, tuple[str, Any]] = {
    "data": ("data", str),
    "size": ("data.size", parse_size),
    "model": ("model", str),
    "weights": ("model.weights", str),
    "normalize": ("model.normalize", _normalize),
    "methods": ("methods", methods),
    "strategy": ("strategy", str),
    "recipe": ("recipe", str),
    "fractions": ("fractions", lambda text: list(parse_floats(text, "fractions"))),
    "order": ("order", str),
    "imputer": ("imputers", lambda text: parse_list(text, "imputer")),
    "repeats": ("repeats", int),
    "seed": ("seed", int),
}
