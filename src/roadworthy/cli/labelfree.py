"""``roadworthy labelfree``: a classifier on data without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import complete
from roadworthy.cli.attribute import Subject, load_subject
from roadworthy.cli.claim import claimed
from roadworthy.cli.console import bar, out, print_frame, print_json, say
from roadworthy.cli.options import (
    ChannelsOption,
    DataOption,
    DeviceOption,
    JsonOption,
    MaxBatchOption,
    ModelOption,
    NormalizeOption,
    SamplesOption,
    SeedOption,
    SizeOption,
    WeightsOption,
    out_option,
    parse_list,
    parse_size,
)
from roadworthy.errors import InputError

if TYPE_CHECKING:
    from roadworthy.labelfree import LabelFree, Outputs

PAGE = "labelfree.html"
_SAVED = (".npz", ".csv", ".parquet", ".h5", ".hdf5")


def labelfree(
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Samples without labels: images:FOLDER, a data set (its test split), or a file of saved outputs. "
            "By default half of the test split of --data, to try it out.",
        ),
    ] = None,
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    source: Annotated[
        Path | None,
        typer.Option("--source", help="Saved outputs with labels, in place of --data and --model."),
    ] = None,
    perturbation: Annotated[
        str,
        typer.Option(
            "--perturbation",
            autocompletion=complete.several_of("none", *complete.PERTURBATIONS, between="+"),
            help="How samples are disturbed, joined by + (see sources); or none.",
        ),
    ] = "gaussian",
    passes: Annotated[int, typer.Option("--passes", min=1, help="Perturbed passes.")] = 30,
    strength: Annotated[
        float | None, typer.Option("--strength", min=0, help="Of the perturbation, in its own unit (see sources).")
    ] = None,
    corruptions: Annotated[
        str | None,
        typer.Option(
            "--corruptions",
            autocompletion=complete.several_of("none", *complete.CORRUPTIONS),
            help="Corrupted copies of labelled samples to try estimators on; all by default, or none.",
        ),
    ] = None,
    discrepancy: Annotated[
        bool, typer.Option("--discrepancy", help="Pseudo-label discrepancy too, from training samples.")
    ] = False,
    layer: Annotated[
        str, typer.Option("--layer", help="Layer that features are taken from; the penultimate by default.")
    ] = "penultimate",
    reliability: Annotated[
        float, typer.Option("--reliability", help="For which the coverage is reported, between 0 and 1.")
    ] = 0.9,
    level: Annotated[float, typer.Option("--level", help="Of all intervals, between 0 and 1.")] = 0.9,
    half_width: Annotated[
        float, typer.Option("--half-width", help="That the labels of the plan shall reach, such as .05.")
    ] = 0.05,
    n: SamplesOption = None,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    folder: Annotated[Path, out_option("roadworthy-labelfree")] = Path("roadworthy-labelfree"),
    as_json: JsonOption = False,
) -> None:
    """Say how far a classifier can be believed on samples without labels, and which of them to label."""
    from roadworthy.labelfree import labelfree as judge

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")
    judging: dict[str, Any] = {"reliability": reliability, "level": level, "half_width": half_width, "seed": seed}
    if target is not None and _is_saved(target):
        given = {"--passes": passes, "--strength": strength, "--corruptions": corruptions, "--layer": layer}
        _without_effect(given | {"--perturbation": perturbation, "--discrepancy": discrepancy})
        with claimed(folder):
            result = judge(data=_saved(target, n, seed), source=_saved(source, None, seed), **judging)
            written(result, folder, as_json=as_json)
        return
    if source is not None:
        raise InputError("--source takes saved outputs, and then --target does too: a file of outputs")
    with claimed(folder):  # at once: what another process is at is found before hours of work
        subject = load_subject(
            data, model, weights, normalize, n=None, size=size, channels=channels, seed=seed, device=device
        )
        known, unknown = _splits(subject, target, size=size, channels=channels, n=n, seed=seed)
        with bar("samples") as progress:
            result = judge(
                subject.model,
                unknown,
                source=known,
                train=subject.data.train if discrepancy else None,
                perturbation=None if perturbation == "none" else perturbation,
                passes=passes,
                strength=strength,
                corruptions=_names(corruptions),
                classes=subject.data.classes,
                features=layer,
                device=subject.device,
                max_batch=max_batch,
                progress=progress,
                **judging,
            )
        written(result, folder, as_json=as_json)


def _names(corruptions: str | None) -> list[str] | None:
    """Read the names of corruptions: all, or none of them."""
    if corruptions is None:
        return None
    return [] if corruptions == "none" else parse_list(corruptions, "corruptions")


_DEFAULTS = {"--perturbation": "gaussian", "--passes": 30, "--layer": "penultimate", "--discrepancy": False}


def _without_effect(given: dict[str, Any]) -> None:
    """Refuse options that saved outputs leave nothing to do for."""
    idle = [name for name, value in given.items() if value != _DEFAULTS.get(name)]
    if idle:
        raise InputError(
            f"{', '.join(idle)}: no effect on saved outputs, which no model is asked about; leave them out"
        )


def written(result: LabelFree, folder: Path, *, as_json: bool) -> None:
    """Write everything into a folder that is claimed, and print what was found."""
    from roadworthy.report.labelfree import labelfree_report

    result.save(folder)
    page = labelfree_report(result, folder / PAGE)
    if as_json:
        print_json({**result.as_dict(), "files": {PAGE: str(page), "folder": str(folder)}})
    else:
        show(result, page)


def show(result: LabelFree, page: Path) -> None:
    """Print the verdict, the estimates, the gates and where the report lies."""
    if len(result.estimates):
        print_frame(result.estimates.drop(columns="note"), f"accuracy without labels, n = {result.n}")
    print_frame(result.gates[["name", "status", "value", "expected"]], "gates")
    for sentence in result.verdict:
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _is_saved(target: str) -> bool:
    return ":" not in target and Path(target).suffix.lower() in _SAVED


def _saved(path: str | Path | None, n: int | None, seed: int) -> Outputs | None:
    from roadworthy.labelfree import read_outputs
    from roadworthy.rng import numpy_generator

    if path is None:
        return None
    found = read_outputs(path)
    if n is None or n >= len(found):
        return found
    return found.take(sorted(numpy_generator(seed, "take", "target").permutation(len(found))[:n].tolist()))


def _splits(
    subject: Subject, target: str | None, *, size: str | None, channels: int | None, n: int | None, seed: int
) -> tuple[Any, Any]:
    """Return labelled samples and those without labels; no sample is on both sides."""
    from roadworthy.data import load_unlabelled
    from roadworthy.rng import numpy_generator

    known = subject.split
    if target is None or target == subject.data.name:
        order = numpy_generator(seed, "labelfree halves").permutation(len(known))
        half = len(known) // 2
        say(f"no other samples: half of the test split ({len(known) - half}) is taken for samples without labels")
        known, unknown = (known.subset(sorted(part.tolist())) for part in (order[:half], order[half:]))
    else:
        shape = subject.data.train.shape
        brought = parse_size(size) or (tuple(shape[1:]) if len(shape) == 3 else None)
        unknown = load_unlabelled(target, size=brought, channels=channels or shape[0], seed=seed)
    return known, unknown if n is None else unknown.take(n, seed)
