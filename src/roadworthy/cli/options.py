"""Options that several verbs share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli import complete
from roadworthy.errors import InputError

DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        autocompletion=complete.one_of(*complete.DATA_SETS),
        help="Data set: digits, folder:PATH, parquet:PATH, torchvision:NAME, ... (see sources).",
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        autocompletion=complete.one_of(*complete.MODELS),
        help="Model: digits-cnn, torchvision:NAME, timm:NAME, transformers:FOLDER, package.module:factory "
        "(see sources).",
    ),
]
WeightsOption = Annotated[
    str | None, typer.Option("--weights", help="Weights: a .safetensors or .pt file, or the name of a published set.")
]
NormalizeOption = Annotated[
    str,
    typer.Option(
        "--normalize",
        autocompletion=complete.one_of(*complete.NORMALIZE),
        help="auto (what the model was published with), imagenet, none, or MEAN/STD, e.g. .5,.4,.3/.2,.2,.2",
    ),
]
MethodsOption = Annotated[
    str,
    typer.Option(
        "--methods",
        autocompletion=complete.several_of(*complete.METHODS),
        help="Methods, comma separated (see sources), or NAME=FILE for saved maps.",
    ),
]
SamplesOption = Annotated[
    int | None, typer.Option("--n", min=1, help="Number of test samples, drawn by the seed; all by default.")
]
SizeOption = Annotated[
    str | None, typer.Option("--size", help="Bring images to HEIGHTxWIDTH, or one number for a square.")
]
ChannelsOption = Annotated[int | None, typer.Option("--channels", help="1 (grey), 3 (RGB) or 4 (RGBA).")]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target", autocompletion=complete.one_of(*complete.TARGETS), help="Class to explain: predicted or label."
    ),
]
SettingsOption = Annotated[
    str,
    typer.Option(
        "--settings",
        autocompletion=complete.one_of(*complete.SETTINGS),
        help="Parameters of the methods: road, road-code, roar or roar-code.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of every random draw.")]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        autocompletion=complete.one_of(*complete.DEVICES),
        help="cpu, cuda, cuda:1, ...; cuda if there is one, else cpu.",
    ),
]
MaxBatchOption = Annotated[int, typer.Option("--max-batch", min=1, help="Images in one pass through the model.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, alone on standard output.")]


def out_option(default: str) -> Any:
    """Return the option for the folder that a verb writes."""
    return typer.Option("--out", help=f"Folder for everything that is written; {default} by default.")


def parse_list(text: str, what: str) -> list[str]:
    """Split a comma-separated list; empty parts are refused."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"--{what}: got {text!r}, expected names separated by commas")
    return parts


def parse_floats(text: str, what: str) -> tuple[float, ...]:
    """Split a comma-separated list of numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InputError(f"--{what}: got {text!r}, expected numbers separated by commas, such as .1,.3,.5") from error


def parse_size(text: str | None) -> int | tuple[int, int] | None:
    """Read ``224`` or ``HEIGHTxWIDTH``."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.lower().split("x")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2) or min(numbers, default=0) < 1:
        raise InputError(f"--size: got {text!r}, expected a number or HEIGHTxWIDTH")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def parse_normalize(text: str) -> Any:
    """Read ``auto``, ``imagenet``, ``none`` or ``MEAN/STD``."""
    if text == "none":
        return None
    if "/" not in text:
        return text
    mean, std = text.split("/", 1)
    return parse_floats(mean, "normalize"), parse_floats(std, "normalize")


def parse_methods(text: str) -> dict[str, str | Path]:
    """Read ``ig,random,mine=maps.npy``: names to method names, or to files of saved maps."""
    found: dict[str, str | Path] = {}
    for part in parse_list(text, "methods"):
        name, is_file, file = part.partition("=")
        if name in found:
            raise InputError(f"--methods: {name!r} is named twice")
        if not is_file and ":" in name and not name.startswith("inverse:"):
            raise InputError(
                f"--methods: got {name!r}, expected a method by name, inverse:NAME, or saved maps as in mine=maps.npy"
                "; a function of yours goes in from Python, evaluate(..., {'mine': function})"
            )
        found[name] = Path(file).expanduser() if is_file else name
    return found


def pick_device(device: str | None) -> str:
    """Return the device to use, refusing one that is not there."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cause = str(error).splitlines()[0].partition(". ")[0].partition(" device type at start")[0]
        raise InputError(
            f"--device: {device!r} cannot be used here ({cause[:200]}); leave it out, or name cpu"
        ) from error
    return device
