"""``roadworthy attribute``: maps of several methods, stored as they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_json, say
from roadworthy.cli.options import (
    ChannelsOption,
    DataOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    MethodsOption,
    ModelOption,
    NormalizeOption,
    SamplesOption,
    SeedOption,
    SettingsOption,
    SizeOption,
    TargetOption,
    WeightsOption,
    out_option,
    parse_methods,
    parse_normalize,
    parse_size,
    pick_device,
)
from roadworthy.errors import InputError

ShardsOption = Annotated[
    Path | None,
    typer.Option(
        "--shards", help="Write the ROAR benchmark's record files into this folder instead (tfrecord data)."
    ),
]
SplitOption = Annotated[str, typer.Option("--split", help="With --shards: train, test or both.")]
_OWN = ("digits-cnn", "small-cnn")  # what is taken where no model is named is trained at first use
DEFAULT_METHODS = "grad,ixg,ig,ig-sg,ig-sq,gb,random,sobel"


def attribute(
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    methods: MethodsOption = DEFAULT_METHODS,
    n: SamplesOption = None,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    target: TargetOption = "predicted",
    settings: SettingsOption = "road",
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    folder: Annotated[Path, out_option("maps.zarr")] = Path("maps.zarr"),
    shards: ShardsOption = None,
    split: SplitOption = "test",
    as_json: JsonOption = False,
) -> None:
    """Compute attribution maps of test samples and store them (zarr); stopped, the same command goes on.

    With --shards they are written as the ROAR benchmark's record files instead, one per input file of a tfrecord data
    set, in a folder a method.
    """
    if split not in ("train", "test", "both"):
        raise InputError(f"--split: got {split!r}, expected train, test or both")
    if shards is None and split != "test":
        raise InputError(f"--split {split} goes with --shards; maps in a zarr store are of the test split")
    wanted = parse_methods(methods)
    files = [name for name, source in wanted.items() if isinstance(source, Path)]
    if files:
        raise InputError(f"--methods: {files[0]!r} names a file of maps that exist already; name a method here")
    subject = load_subject(
        data, model, weights, normalize, n=n, size=size, channels=channels, seed=seed, device=device
    )
    options = {"target": target, "settings": settings, "seed": seed, "max_batch": max_batch}
    if shards is not None:
        parts = [part if n is None else part.take(n, seed) for part in _splits(subject.data, split)]
        report_shards(parts, write_shards(subject, parts, wanted, shards, options), wanted, shards, as_json=as_json)
        return
    with claimed(folder.parent, folder.name):
        store_maps(subject, wanted, folder, options)
    if as_json:
        print_json({"maps": str(folder), "n": len(subject.split), "methods": list(wanted)})
    else:
        out.print(f"{len(subject.split)} samples x {len(wanted)} methods in {folder}", markup=False)


def _splits(data: Any, chosen: str) -> list[Any]:
    """Return the splits to explain: one for both where they lie in the same files, each shard being written once."""
    import numpy as np

    from roadworthy.records import Split

    if chosen != "both":
        return [data.train if chosen == "train" else data.test]
    if data.train.source is not data.test.source:
        return [data.train, data.test]
    return [Split(data.train.source, "data", np.union1d(data.train.indices, data.test.indices))]


def write_shards(
    subject: Subject, splits: list[Any], methods: dict[str, Any], folder: Path, options: dict[str, Any]
) -> list[Path]:
    """Compute maps of some splits into the ROAR benchmark's shards, going on where an earlier run stopped."""
    from roadworthy.attribution import attribute_to_shards

    written: list[Path] = []
    with (
        claimed(folder, "shards"),
        bar("attribution maps", total=sum(map(len, splits)) * len(methods)) as progress,
    ):
        for split in splits:
            written += attribute_to_shards(
                subject.model,
                split,
                list(methods),
                folder,
                mean=subject.data.mean,
                device=subject.device,
                progress=progress,
                **options,
            )
    return written


def report_shards(
    splits: list[Any], written: list[Path], methods: dict[str, Any], folder: Path, *, as_json: bool
) -> None:
    """Print what was written."""
    n = sum(map(len, splits))
    if as_json:
        print_json({"shards": [str(path) for path in written], "n": n, "methods": list(methods)})
    else:
        out.print(f"{n} samples x {len(methods)} methods in {len(written)} files below {folder}", markup=False)


class Subject:
    """The model under examination and the samples it is examined on."""

    def __init__(self, data: Any, split: Any, model: Any, device: str) -> None:
        self.data, self.split, self.model, self.device = data, split, model, device


def load_subject(
    data: str,
    model: str,
    weights: str | None,
    normalize: str,
    *,
    n: int | None,
    size: str | None,
    channels: int | None,
    seed: int,
    device: str | None,
) -> Subject:
    """Load the data's test split (or ``n`` samples of it) and the model, and put the model on the device."""
    from roadworthy.data import load_data
    from roadworthy.model import load_model

    place = pick_device(device)
    loaded = load_data(data, size=parse_size(size), channels=channels, seed=seed)
    split = loaded.test if n is None else loaded.test.take(n, seed)
    if n is not None and n > len(split):
        say(f"warning: --n {n} was asked for, {data} has {len(split)} test samples: all are used")
    if model in _OWN and not data.startswith(("digits", "planted")):
        say(f"note: {model} is a small network, trained here on {data}; name your own with --model (and --weights)")
    with bar("model") as progress:
        network = load_model(
            model,
            loaded,
            weights=weights,
            normalize=parse_normalize(normalize),
            seed=seed,
            device=place,
            progress=progress,
        )
    return Subject(loaded, split, network, place)


def store_maps(subject: Subject, methods: dict[str, Any], folder: Path, options: dict[str, Any]) -> Any:
    """Compute maps into a store, going on where an earlier run stopped, and return it."""
    from roadworthy.attribution import attribute_to_store

    with bar("attribution maps", total=len(subject.split) * len(methods)) as progress:
        return attribute_to_store(
            subject.model,
            subject.split,
            list(methods),
            folder,
            mean=subject.data.mean,
            device=subject.device,
            progress=progress,
            **options,
        )
