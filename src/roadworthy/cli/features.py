"""``roadworthy features``: what a layer of a network holds of each sample, into an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_json
from roadworthy.cli.options import (
    ChannelsOption,
    DataOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    ModelOption,
    NormalizeOption,
    SeedOption,
    SizeOption,
    WeightsOption,
    parse_normalize,
    parse_size,
    pick_device,
)
from roadworthy.errors import InputError

_SPLITS = ("train", "test", "both")


def features(
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    classes: Annotated[
        int | None,
        typer.Option("--classes", help="Classes that the network answers, where its weights are for other data."),
    ] = None,
    normalize: NormalizeOption = "auto",
    layer: Annotated[
        str, typer.Option("--layer", help="Layer that features are taken from; the penultimate by default.")
    ] = "penultimate",
    split: Annotated[str, typer.Option("--split", help="train, test, or both, the training samples first.")] = "both",
    n: Annotated[
        int | None, typer.Option("--n", min=1, help="Samples of each split, drawn by the seed; all by default.")
    ] = None,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    file: Annotated[Path, typer.Option("--out", help="The .h5 file to write.")] = Path("features.h5"),
    as_json: JsonOption = False,
) -> None:
    """Write features of samples into an HDF5 file (features, labels, label_names); stopped, the command goes on."""
    from roadworthy.data import load_data
    from roadworthy.model import load_model
    from roadworthy.probe import extract_features
    from roadworthy.records import Data

    if split not in _SPLITS:
        raise InputError(f"--split: got {split!r}, expected {', '.join(_SPLITS)}")
    place = pick_device(device)
    loaded = load_data(data, size=parse_size(size), channels=channels, seed=seed)
    with bar("model") as progress:
        network = load_model(
            model,
            loaded,
            weights=weights,
            classes=classes,
            normalize=parse_normalize(normalize),
            seed=seed,
            device=place,
            progress=progress,
        )
    if n is not None:
        loaded = Data(loaded.name, loaded.train.take(n, seed), loaded.test.take(n, seed), loaded.classes)
    samples = {"train": loaded.train, "test": loaded.test, "both": loaded}[split]
    with claimed(file.parent, file.name), bar("features") as progress:
        found = extract_features(
            network,
            samples,
            file,
            features=layer,
            classes=loaded.classes,
            device=place,
            max_batch=max_batch,
            progress=progress,
        )
    if as_json:
        told = {"n": len(found), "dimension": found.dimension, "label_names": list(found.label_names)}
        print_json({"features": str(file), **told, "layer": layer, "split": split})
    else:
        text = f"{len(found)} samples x {found.dimension} features of {len(found.label_names)} classes in {file}"
        out.print(text, markup=False, highlight=False, soft_wrap=True)
