"""``roadworthy audit imputers``: what each fill gives away and how far it is off, before one is used."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import complete
from roadworthy.cli.attribute import load_subject
from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_frame, print_json, say
from roadworthy.cli.options import (
    ChannelsOption,
    DataOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    NormalizeOption,
    SeedOption,
    SizeOption,
    WeightsOption,
    out_option,
    parse_floats,
    parse_list,
    parse_size,
    pick_device,
)
from roadworthy.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from roadworthy.imputation import GainSettings

DEFAULT_IMPUTERS = "noisy-linear,mean,image-mean,zero,blur"
TRAINED = "gain"  # named without a file: trained here
WEIGHTS = "gain.safetensors"
CHECKPOINT = "gain.checkpoint.pt"
PAGE = "imputers.html"
_SHORT = {"fraction": "p", "predictor_error": "error", "base": "guessing", "agreement": "agrees"}


def imputers(
    data: DataOption = "digits",
    names: Annotated[
        str,
        typer.Option(
            "--imputers",
            autocompletion=complete.several_of(*complete.IMPUTERS),
            help="Imputers, comma separated (see sources); gain is trained here, gain:FILE is read.",
        ),
    ] = DEFAULT_IMPUTERS,
    model: Annotated[
        str | None, typer.Option("--model", help="Also ask this model about filled images (see sources).")
    ] = None,
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    fractions: Annotated[str, typer.Option("--fractions", help="Shares removed, comma separated.")] = ".3,.5,.7",
    masks: Annotated[str, typer.Option("--masks", help="random, or blobs (connected regions).")] = "random",
    noise: Annotated[float | None, typer.Option("--noise", min=0, help="Sd of noisy-linear's noise.")] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="A larger predictor on more images, ten times the work.")
    ] = False,
    n: Annotated[int, typer.Option("--n", min=8, help="Number of test samples, drawn by the seed.")] = 500,
    gain_images: Annotated[
        int, typer.Option("--gain-images", min=2, help="Training images for gain, drawn by the seed.")
    ] = 5000,
    gain_size: Annotated[
        int, typer.Option("--gain-size", min=1, help="Planes of gain's first layer; published: 64.")
    ] = 16,
    gain_epochs: Annotated[int, typer.Option("--gain-epochs", min=1, help="Epochs of gain; published: 100.")] = 10,
    gain_missing: Annotated[
        float, typer.Option("--gain-missing", help="Largest share removed in training gain; published: 0.5.")
    ] = 0.9,
    gain_blobs: Annotated[
        float, typer.Option("--gain-blobs", help="Share of connected holes in training gain; published: 0.")
    ] = 0.5,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    folder: Annotated[Path, out_option("roadworthy-imputers")] = Path("roadworthy-imputers"),
    as_json: JsonOption = False,
) -> None:
    """Judge imputers on test images: what a fill gives away, how far it is off, what it costs.

    Gain named without a file is trained on training images first and saved as gain.safetensors in --out; stopped, the
    same command goes on after the last finished epoch.
    """
    from roadworthy.evaluation.audit.imputers import audit_imputers, check_shares
    from roadworthy.imputation import NOISE, GainSettings

    wanted = check_imputers(names)
    shares: Sequence[float] = parse_floats(fractions, "fractions")
    if masks not in ("random", "blobs"):
        raise InputError(f"--masks: got {masks!r}, expected random or blobs")
    settings = GainSettings(size=gain_size, epochs=gain_epochs, missing=gain_missing, blobs=gain_blobs)
    place = pick_device(device)
    loaded, judge = _subject(data, model, weights, normalize, size=size, channels=channels, seed=seed, device=device)
    test = loaded.test.take(n, seed)
    shares = check_shares(shares, math.prod(test.shape[1:]))
    with claimed(folder):
        chosen: dict[str, Any] = dict.fromkeys(wanted)
        for name in wanted:
            chosen[name] = train(loaded, settings, gain_images, seed, place, folder) if name == TRAINED else name
        with bar("imputers", total=len(chosen) * len(shares)) as progress:
            table = audit_imputers(
                test.images,
                chosen,
                fractions=shares,
                mean=loaded.mean,
                masks=masks,  # type: ignore[arg-type]
                noise=NOISE if noise is None else noise,
                model=judge,
                labels=None if judge is None else test.labels,
                ids=test.ids,
                seed=seed,
                effort="thorough" if thorough else "quick",
                device=place,
                max_batch=max_batch,
                progress=progress,
            )
        record = write(table, {name: _settings(chosen[name], noise) for name in chosen}, folder)
    if as_json:
        print_json(record)
    else:
        show(table, folder)


def check_imputers(text: str) -> list[str]:
    """Read the names and refuse, before anything is trained, those that nothing is known by."""
    from roadworthy.imputation import resolve_imputer

    wanted = parse_list(text, "imputers")
    for name in wanted:
        if wanted.count(name) > 1:
            raise InputError(f"--imputers: {name!r} is named twice")
        if name != TRAINED:
            resolve_imputer(name)
    return wanted


def _subject(
    data: str, model: str | None, weights: str | None, normalize: str, *, seed: int, device: str | None, **shape: Any
) -> tuple[Any, Any]:
    """Return the data and the model that is asked, if there is one."""
    if model is not None:
        subject = load_subject(data, model, weights, normalize, n=None, seed=seed, device=device, **shape)
        return subject.data, subject.model
    from roadworthy.data import load_data

    return load_data(data, size=parse_size(shape["size"]), channels=shape["channels"], seed=seed), None


def train(data: Any, settings: GainSettings, images: int, seed: int, device: str, folder: Path) -> Any:
    """Train gain on the training split, going on where an earlier run stopped, and save it."""
    from roadworthy.imputation import train_gain

    split = data.train.take(images, seed)
    say(f"gain: {len(split)} training images, {settings.epochs} epochs, size {settings.size}")
    with bar("gain", total=settings.epochs * len(split)) as progress:
        gain = train_gain(
            split, settings, seed=seed, device=device, checkpoint=folder / CHECKPOINT, progress=progress
        )
    error = gain.training["history"][-1]["held_out_rmse"]
    known = "" if error is None else f"; off by {error:.3f} on removed units of held-out training images"
    say(f"gain: saved as {gain.save(folder / WEIGHTS)}{known}")
    return gain


def _settings(imputer: Any, noise: float | None) -> dict[str, Any]:
    from roadworthy.imputation import NOISE, resolve_imputer

    return resolve_imputer(imputer, noise=NOISE if noise is None else noise).settings()


def write(table: pd.DataFrame, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write imputers.csv, imputers.html and imputers.json; return what the last holds."""
    from roadworthy.files import replacing
    from roadworthy.report.imputers import imputers_report

    record: dict[str, Any] = {str(key): value for key, value in table.attrs.items()} | {"settings": settings}
    record["table"] = table.astype(object).where(table.notna(), None).to_dict(orient="records")
    with replacing(folder / "imputers.csv") as beside:
        table.to_csv(beside, index=False)
    with replacing(folder / "imputers.json") as beside:
        beside.write_text(json.dumps(record, indent=1, default=str), encoding="utf8")
    imputers_report(table, settings, folder / PAGE)
    return record


def show(table: pd.DataFrame, folder: Path) -> None:
    """Print the table without its intervals, a line for each imputer, and where the whole of it lies."""
    spare = [column for column in table.columns if column.endswith(("_low", "_high"))] + ["n", "peeks"]
    title = f"imputers, {table.attrs['masks']} masks, n = {table.attrs['n']}"
    intact = table.attrs.get("intact_accuracy")
    title += "" if intact is None else f", intact accuracy {intact:.3f}"
    shown = table.drop(columns=spare).rename(columns=_SHORT)
    print_frame(shown.astype(object).where(shown.notna(), "–"), title)
    for line in table.attrs["verdicts"].values():
        out.print(line, markup=False, highlight=False, soft_wrap=True)
    out.print(f"table: {folder / 'imputers.csv'}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {folder / PAGE}", markup=False, highlight=False, soft_wrap=True)
