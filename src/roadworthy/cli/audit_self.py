"""``roadworthy audit self``: test the strategies themselves on cases whose answer is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from roadworthy.cli.attribute import load_subject
from roadworthy.cli.console import bar, out, print_json
from roadworthy.cli.options import (
    ChannelsOption,
    DeviceOption,
    JsonOption,
    NormalizeOption,
    SeedOption,
    SizeOption,
    WeightsOption,
    parse_list,
)
from roadworthy.errors import InputError


def self_test(
    data: Annotated[
        str | None,
        typer.Option("--data", help="Test on your own data (see sources); without it on images of known truth."),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", help="With --data: the model to explain and to ask (see sources).")
    ] = "small-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    strategies: Annotated[
        str | None,
        typer.Option(
            "--strategies",
            help="Presets, comma separated, 'symmetric untouched' or 'idsds'; with 'morf' or 'lerf', 'probability' "
            "or 'logit' behind: 'road morf'.",
        ),
    ] = None,
    bases: Annotated[
        str, typer.Option("--bases", help="With --data: the methods whose maps are made worse step by step.")
    ] = "ig,ig-sq,gradcam",
    effort: Annotated[
        Literal["quick", "full"],
        typer.Option("--effort", help="quick: minutes; full: more seeds, images and strategies."),
    ] = "quick",
    retraining: Annotated[
        bool, typer.Option("--retraining", help="Also ROAR, KAR and the leak gate, which take far longer.")
    ] = False,
    seeds: Annotated[str | None, typer.Option("--seeds", help="Seeds of the benches, comma separated.")] = None,
    seed: SeedOption = 0,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    device: DeviceOption = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the table as CSV, JSON, Markdown and text.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Test the strategies themselves on cases whose answer is known, and say which one to believe.

    Without --data on planted images; with it, on your own model and data, by what needs no truth.
    """
    from roadworthy.evaluation.selftest import self_test as run
    from roadworthy.evaluation.selftest.run import requested

    options: dict[str, Any] = {
        "effort": effort,
        "retraining": retraining,
        "seeds": None if seeds is None else _whole(seeds),
    }
    # what cannot be done is told before anything is trained
    named = None if strategies is None else parse_list(strategies, "strategies")
    options["strategies"] = requested(named, effort=effort, retraining=retraining, own=data is not None)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")
    if data is not None:
        subject = load_subject(
            data, model, weights, normalize, n=None, size=size, channels=channels, seed=seed, device=device
        )
        options |= {"data": subject.data, "model": subject.model, "bases": parse_list(bases, "bases")}
    with bar("self-test") as progress:
        found = run(progress=progress, **options)
    written = {} if folder is None else found.save(folder)
    if as_json:
        print_json(json.loads(found.to_json()) | {"files": {name: str(path) for name, path in written.items()}})
        return
    out.print(found.to_text(), markup=False, highlight=False, soft_wrap=True)
    for path in written.values():
        out.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)


def _whole(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in parse_list(text, "seeds"))
    except ValueError as error:
        raise InputError(f"--seeds: got {text!r}, expected whole numbers separated by commas") from error
