"""``roadworthy road``: rank attribution methods on a model and data, without retraining."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import complete
from roadworthy.cli.attribute import DEFAULT_METHODS, Subject, load_subject, store_maps
from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_frame, print_json, say
from roadworthy.cli.judge import judge_for
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
    parse_list,
    parse_methods,
)

if TYPE_CHECKING:
    import pandas as pd

    from roadworthy.evaluation import Result

_WIDE = 100  # columns of a terminal that the whole ranking needs


def road(
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    methods: MethodsOption = DEFAULT_METHODS,
    strategy: Annotated[
        str | None,
        typer.Option(
            "--strategy",
            autocompletion=complete.one_of(*complete.STRATEGIES),
            help="Preset: symmetric, road, f-fidelity, pixel-flipping, deletion or insertion. By default symmetric, "
            "asked of the model as it is; 'symmetric' also trains a copy on random masks, and asks that too.",
        ),
    ] = None,
    fractions: Annotated[str | None, typer.Option("--fractions", help="Shares removed, comma separated.")] = None,
    order: Annotated[
        str | None,
        typer.Option("--order", autocompletion=complete.one_of(*complete.ORDERS), help="morf, lerf or both."),
    ] = None,
    imputer: Annotated[
        str | None,
        typer.Option(
            "--imputer",
            autocompletion=complete.several_of(*complete.IMPUTERS),
            help="What fills removed pixels (see sources); several, comma separated, in turn.",
        ),
    ] = None,
    noise: Annotated[
        float | None, typer.Option("--noise", min=0, help="Sd of noisy-linear's noise, in pixel units.")
    ] = None,
    reduction: Annotated[
        str | None, typer.Option("--reduction", help="Channels: sum, abs-sum, max-abs, l2 or mean.")
    ] = None,
    sign: Annotated[str | None, typer.Option("--sign", help="signed, abs, positive or squared.")] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="pixel or channel.")] = None,
    intact_check: Annotated[
        str, typer.Option("--intact-check", help="raise: stop when the intact accuracy is at chance; warn: go on.")
    ] = "raise",
    repeats: Annotated[
        int | None,
        typer.Option("--repeats", min=1, help="How often ties and noise are drawn anew; 1, and 50 for f-fidelity."),
    ] = None,
    audit: Annotated[
        str,
        typer.Option(
            "--audit",
            autocompletion=complete.one_of(*complete.AUDITS),
            help="Leakage through the masks: quick, thorough (and IDSDS), or off.",
        ),
    ] = "quick",
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
    from roadworthy.errors import InputError
    from roadworthy.evaluation import Strategy, default_strategy

    # all that can be wrong with the options is found before a model is trained or a map is made
    wanted = parse_methods(methods)
    fills = None if imputer is None else tuple(parse_list(imputer, "imputer"))
    changes: dict[str, Any] = {"order": order, "imputer": fills, "noise": noise, "sign": sign, "unit": unit}
    changes |= {"fractions": None if fractions is None else parse_floats(fractions, "fractions")}
    chosen = Strategy.of(default_strategy() if strategy is None else strategy, reduction=reduction, **changes)
    choices = {"strategy": chosen, "repeats": chosen.repeats if repeats is None else repeats, "audit": audit}
    if chosen.training == "retrain":
        raise InputError(f"--strategy: {strategy!r} retrains; that is 'roadworthy roar --strategy {strategy}'")
    check_names(wanted, fills or ())
    check_words(folder, target=target, settings=settings, intact_check=intact_check, audit=audit)
    subject = load_subject(
        data, model, weights, normalize, n=n, size=size, channels=channels, seed=seed, device=device
    )
    shared = {"target": target, "settings": settings, "seed": seed, "max_batch": max_batch}
    result, written = run_road(subject, wanted, folder, shared, choices | {"intact_check": intact_check})
    if as_json:
        print_json(as_record(result, written))
    else:
        show(result, written)


def check_names(methods: dict[str, Any], imputers: Sequence[str]) -> None:
    """Refuse an unknown method or imputer by name, and a file that is not there."""
    from roadworthy.attribution import open_maps
    from roadworthy.attribution.requests import parse
    from roadworthy.imputation import resolve_imputer

    parse([name for name, source in methods.items() if not isinstance(source, Path)] or ["random"])
    for source in methods.values():
        if isinstance(source, Path):
            open_maps(source).close()
    for imputer in imputers:
        resolve_imputer(imputer)


def check_words(folder: Path, *, target: str, settings: str, intact_check: str, audit: str = "quick") -> None:
    """Refuse words that nothing is known by, and a folder that is a file."""
    from roadworthy.attribution import presets
    from roadworthy.errors import InputError, unknown_name

    if settings not in presets:
        raise unknown_name("settings", settings, presets)
    for name, word, known in (
        ("--target", target, ("predicted", "label")),
        ("--intact-check", intact_check, ("raise", "warn")),
        ("--audit", audit, ("quick", "thorough", "off")),
    ):
        if word not in known:
            raise InputError(f"{name}: got {word!r}, expected {' or '.join(map(repr, known))}")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")


def run_road(
    subject: Subject, methods: dict[str, Any], folder: Path, shared: dict[str, Any], choices: dict[str, Any]
) -> tuple[Result, dict[str, Path]]:
    """Check the model, store the maps, evaluate, and write everything into ``folder``; each stage goes on."""
    from roadworthy.evaluation import evaluate, preflight
    from roadworthy.report import write_all

    judged = {"target": shared["target"], "max_batch": shared["max_batch"], "device": subject.device}
    preflight(subject.model, subject.split, intact_check=choices.get("intact_check", "raise"), **judged)
    with claimed(folder):
        maps = _gathered(subject, methods, folder / "maps.zarr", shared)
        chosen = choices["strategy"]
        judge = judge_for(subject, chosen, folder, shared["seed"])
        views = len(chosen.judges) * len(chosen.imputers)
        copies = len(subject.split) * len(methods) * len(chosen.orders) * len(chosen.fractions) * views
        with bar("degraded copies", total=copies * choices.get("repeats", 1)) as progress:
            result = evaluate(
                subject.model,
                subject.split,
                None,
                maps,
                mean=subject.data.mean,
                classes=subject.data.classes,
                device=subject.device,
                judge=judge,
                train=subject.data.train,
                checkpoint=folder / "blocks",
                progress=progress,
                **shared,
                **choices,
            )
        return result, write_all(result, folder)


def _gathered(subject: Subject, methods: dict[str, Any], store_path: Path, shared: dict[str, Any]) -> dict[str, Any]:
    """Put maps made here and maps from files into one mapping, in the order the methods were named."""
    named = {name: source for name, source in methods.items() if not isinstance(source, Path)}
    store = store_maps(subject, named, store_path, shared) if named else None
    return {
        name: _saved_map(name, source, subject) if isinstance(source, Path) else _as_saved(store, name)
        for name, source in methods.items()
    }


def _saved_map(name: str, path: Path, subject: Subject) -> Any:
    """Open one method's maps in a file: the one of that name, or the only one there."""
    from roadworthy.attribution import open_maps
    from roadworthy.errors import InputError
    from roadworthy.fingerprints import model_fingerprint

    found = open_maps(path)
    inside = name if name in found else next(iter(found)) if len(found) == 1 else None
    if inside is None:
        raise InputError(
            f"--methods: {path} holds {', '.join(found)}, none named {name!r}; write one of these before the '='"
        )
    made_for = (found.key or {}).get("model")
    if made_for is not None and made_for != model_fingerprint(subject.model):
        say(f"warning: the maps in {path} were made for another model than the one that is asked here")
    return _as_saved(found, inside)


def _as_saved(found: Any, name: str) -> Any:
    from roadworthy.evaluation.maps import Saved

    gaps = found.info.get(name, {}).get("completeness_gap")
    return Saved(found[name], ids=found.ids or None, targets=found.targets, gaps=gaps)


def show(result: Result, written: dict[str, Path]) -> None:
    """Print the verdict, the ranking and where the report lies."""
    from roadworthy.evaluation.standing import labelled
    from roadworthy.evaluation.words import judges_in_words
    from roadworthy.report import verdict

    ranking = result.ranking()
    asked = judges_in_words(result.views)
    whom = f", asked of {asked}" if asked else ""
    title = f"{ranking.attrs['score']} ({ranking.attrs['readout']}){whom}, n = {counted(result)}"
    found = verdict(result)
    for sentence in found.short:
        out.print(sentence, style="bold", markup=False, highlight=False, soft_wrap=True)
    if labelled(result):
        out.print(_intact(result), markup=False, highlight=False, soft_wrap=True)
    print_frame(fitting(printed(not_withheld(result), result.readout)), title)
    for sentence in found.advice:
        out.print(f"- {sentence}", markup=False, highlight=False, soft_wrap=True)
    for line in result.missing:
        what = line.partition(": ")[0]
        again = (
            "; --retry-failed does them again, the tracebacks are in failures.txt" if line in result.failed else ""
        )
        out.print(f"missing: {what}, see the report{again}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {written['report.html']}", markup=False, highlight=False, soft_wrap=True)


def _intact(result: Result) -> str:
    """Say how good the model is before anything is removed: a reader sees there that the right model was asked."""
    from roadworthy.evaluation.standing import chance
    from roadworthy.markup import percent

    known, guessed = percent(result.intact_accuracy), percent(chance(result))
    return f"Intact accuracy, with nothing removed: {known} (chance {guessed})."


def fitting(ranking: pd.DataFrame) -> pd.DataFrame:
    """Leave out each order's area on a narrow terminal, where names of methods would be cut instead."""
    return ranking if out.width >= _WIDE else ranking.drop(columns=["morf_area", "lerf_area"], errors="ignore")


def not_withheld(result: Result) -> pd.DataFrame:
    """Return the ranking without the numbers that the verdict withholds: NaN in their place."""
    from roadworthy.report.findings import Findings
    from roadworthy.report.printed import printed_ranking

    ranking = result.ranking()
    held = printed_ranking(Findings.of(result)) == "–"
    found = ranking.mask(held.to_numpy())
    found.attrs = ranking.attrs
    return found


def printed(ranking: pd.DataFrame, readout: str) -> pd.DataFrame:
    """Return what of a ranking goes on a terminal; the rest is in ranking.csv and in the report.

    Intervals are cut off where the score of that readout ends; one that is not known is a dash.
    """
    from roadworthy.evaluation.standing import shown_ranking

    spare = ["sd", "n"]
    if {"morf_area", "lerf_area"} <= set(ranking.columns):
        spare.append("aoc")  # the intact accuracy less the MoRF area
    shown = shown_ranking(ranking, readout).drop(columns=spare, errors="ignore")
    whole = shown.assign(rank=shown["rank"].astype("Int64"))  # missing ones made floats of them
    return whole.astype(object).where(whole.notna(), "–")


def counted(result: Result) -> str:
    """Return how much a result rests on: samples, and after retraining trainings too."""
    if not result.retrained:
        return str(result.n)
    return f"{result.repeats} training{'s' if result.repeats > 1 else ''} of each point, {result.n} samples"


def as_record(result: Result, written: dict[str, Path]) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    from roadworthy.report import verdict

    ranking, found = not_withheld(result), verdict(result)
    return {
        "short": list(found.short),
        "verdict": [found.leads, found.trust],
        "trust": found.level,
        "advice": list(found.advice),
        "score": ranking.attrs["score"],
        "direction": ranking.attrs["direction"],
        "readout": ranking.attrs["readout"],
        "ranking": ranking.astype(object).where(ranking.notna(), None).to_dict(orient="records"),
        "below_control": list(found.below_control),
        "labels": result.settings.get("labels", "given"),
        "intact_accuracy": result.intact_accuracy,
        "n": result.n,
        "counted": counted(result),
        "unit": result.unit,
        "views": result.views,
        "trainings": result.repeats if result.retrained else 0,
        "missing": result.missing,
        "failed": result.failed,
        "cost": result.cost.groupby("work")[["seconds", "images"]].sum().to_dict(orient="index"),
        "warnings": result.warnings,
        "provenance": result.provenance,
        "files": {name: str(path) for name, path in written.items()},
    }
