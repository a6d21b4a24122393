"""``roadworthy attribute``: maps of several methods, stored as they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_json
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
    as_json: JsonOption = False,
) -> None:
    """Compute attribution maps of test samples and store them (zarr); stopped, the same command goes on."""
    wanted = parse_methods(methods)
    files = [name for name, source in wanted.items() if isinstance(source, Path)]
    if files:
        raise InputError(f"--methods: {files[0]!r} names a file of maps that exist already; name a method here")
    subject = load_subject(
        data, model, weights, normalize, n=n, size=size, channels=channels, seed=seed, device=device
    )
    options = {"target": target, "settings": settings, "seed": seed, "max_batch": max_batch}
    with claimed(folder.parent, folder.name):
        store_maps(subject, wanted, folder, options)
    if as_json:
        print_json({"maps": str(folder), "n": len(subject.split), "methods": list(wanted)})
    else:
        out.print(f"{len(subject.split)} samples x {len(wanted)} methods in {folder}", markup=False)


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
