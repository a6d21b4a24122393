"""``roadworthy road``: rank attribution methods on a model and data, without retraining."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli.attribute import DEFAULT_METHODS, Subject, load_subject, store_maps
from roadworthy.cli.console import bar, out, print_frame, print_json
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
    parse_floats,
    parse_methods,
)

if TYPE_CHECKING:
    from roadworthy.evaluation import Result


def road(
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    methods: MethodsOption = DEFAULT_METHODS,
    strategy: Annotated[
        str, typer.Option("--strategy", help="Preset: road, pixel-flipping, deletion or insertion.")
    ] = "road",
    fractions: Annotated[str | None, typer.Option("--fractions", help="Shares removed, comma separated.")] = None,
    order: Annotated[str | None, typer.Option("--order", help="morf, lerf or both.")] = None,
    imputer: Annotated[str | None, typer.Option("--imputer", help="What fills removed pixels (see sources).")] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", min=0, help="Sd of noisy-linear's noise, in pixel units.")
    ] = None,
    reduction: Annotated[
        str | None, typer.Option("--reduction", help="Channels: sum, abs-sum, max-abs, l2 or mean.")
    ] = None,
    sign: Annotated[str | None, typer.Option("--sign", help="signed, abs, positive or squared.")] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="pixel or channel.")] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often ties and noise are drawn anew.")] = 1,
    n: SamplesOption = None,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    target: TargetOption = "predicted",
    settings: SettingsOption = "road",
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    folder: Annotated[Path, out_option("roadworthy-road")] = Path("roadworthy-road"),
    as_json: JsonOption = False,
) -> None:
    """Rank attribution methods by removal and write the report; stopped, the same command goes on."""
    subject = load_subject(
        data, model, weights, normalize, n=n, size=size, channels=channels, seed=seed, device=device
    )
    choices: dict[str, Any] = {
        "order": order,
        "imputer": imputer,
        "noise": noise,
        "reduction": reduction,
        "sign": sign,
        "unit": unit,
    }
    choices |= {
        "strategy": strategy,
        "fractions": None if fractions is None else parse_floats(fractions, "fractions"),
    }
    shared = {"target": target, "settings": settings, "seed": seed, "max_batch": max_batch}
    result, written = run_road(subject, parse_methods(methods), folder, shared, choices | {"repeats": repeats})
    if as_json:
        print_json(as_record(result, written))
    else:
        show(result, written)


def run_road(
    subject: Subject, methods: dict[str, Any], folder: Path, shared: dict[str, Any], choices: dict[str, Any]
) -> tuple[Result, dict[str, Path]]:
    """Store the maps, evaluate, and write everything into ``folder``; each stage goes on where it stopped."""
    from roadworthy.evaluation import Strategy, evaluate
    from roadworthy.report import write_all

    strategy_fields = {key: value for key, value in choices.items() if key not in ("strategy", "repeats")}
    chosen = Strategy.of(choices["strategy"], **strategy_fields)  # a wrong option must not cost an hour of maps first
    named = {name: source for name, source in methods.items() if not isinstance(source, Path)}
    maps = _gathered(subject, methods, named, folder / "maps.zarr", shared)
    copies = len(subject.split) * len(methods) * len(chosen.orders) * len(chosen.fractions) * choices["repeats"]
    with bar("degraded copies", total=copies) as progress:
        result = evaluate(
            subject.model,
            subject.split,
            None,
            maps,
            strategy=chosen,
            repeats=choices["repeats"],
            mean=subject.data.mean,
            classes=subject.data.classes,
            device=subject.device,
            checkpoint=folder / "blocks",
            progress=progress,
            **shared,
        )
    return result, write_all(result, folder)


def _gathered(
    subject: Subject, methods: dict[str, Any], named: dict[str, Any], store_path: Path, shared: dict[str, Any]
) -> Any:
    """Put maps made here and maps from files into one mapping, in the order the methods were named."""
    from roadworthy.attribution import Maps

    files = {name: _saved_map(name, source) for name, source in methods.items() if isinstance(source, Path)}
    if not named:
        return files
    store = store_maps(subject, named, store_path, shared)
    arrays = {name: files[name] if name in files else store[name] for name in methods}
    return Maps(arrays, ids=store.ids or subject.split.ids, targets=store.info["targets"], info=store.info)


def _saved_map(name: str, path: Path) -> Any:
    from roadworthy.attribution import open_maps
    from roadworthy.errors import InputError

    found = open_maps(path)
    if name in found:
        return found[name]
    if len(found) == 1:
        return next(iter(found.values()))
    raise InputError(f"--methods: {path} holds {', '.join(found)}, none named {name!r}")


def show(result: Result, written: dict[str, Path]) -> None:
    """Print the verdict, the ranking and where the report lies."""
    from roadworthy.report import verdict

    ranking = result.ranking()
    print_frame(ranking, f"{ranking.attrs['score']} ({ranking.attrs['readout']}), n = {result.n}")
    found = verdict(result)
    for sentence in (found.leads, found.trust):
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {written['report.html']}", markup=False, highlight=False, soft_wrap=True)


def as_record(result: Result, written: dict[str, Path]) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    from roadworthy.report import verdict

    ranking, found = result.ranking(), verdict(result)
    return {
        "verdict": [found.leads, found.trust],
        "trust": found.level,
        "score": ranking.attrs["score"],
        "direction": ranking.attrs["direction"],
        "readout": ranking.attrs["readout"],
        "ranking": ranking.to_dict(orient="records"),
        "intact_accuracy": result.intact_accuracy,
        "n": result.n,
        "warnings": result.warnings,
        "provenance": result.provenance,
        "files": {name: str(path) for name, path in written.items()},
    }
