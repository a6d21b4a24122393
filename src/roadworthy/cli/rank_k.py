"""``roadworthy rank-k``: how high the right class is ranked, from features, saved scores or a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
)
from roadworthy.errors import InputError
from roadworthy.files import replacing

if TYPE_CHECKING:
    from roadworthy.probe import LogisticClassifier, RankK, Scores

RESULT, PER_CLASS, SCORES, CLASSIFIER = "rank-k.json", "per-class.csv", "scores.npz", "classifier.safetensors"
FIGURE = "rank-epochs"
_FEATURES = (".h5", ".hdf5")
_HARDEST = 5  # classes printed


def rank_k(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SOURCE]",
            help="Features (.h5) or saved scores (.npz, .csv); without it --model is asked about test samples.",
        ),
    ] = None,
    k: Annotated[str | None, typer.Option("--k", help="Ranks, comma separated; 1 and 5 by default.")] = None,
    train_share: Annotated[
        float, typer.Option("--train-share", help="Of features: share of the rows to fit the classifier on.")
    ] = 0.75,
    order: Annotated[
        str, typer.Option("--order", help="Which rows these are: file (the first) or stratified (drawn by class).")
    ] = "file",
    standardise: Annotated[
        bool, typer.Option("--standardise/--raw", help="Bring features to mean 0 and deviation 1 before the fit.")
    ] = True,
    c: Annotated[
        str, typer.Option("--c", help="Inverse strength of the penalty, or cv: by cross-validation of these rows.")
    ] = "1",
    classifier: Annotated[
        Path | None,
        typer.Option("--classifier", help="A stored classifier that scores all rows; nothing is fitted."),
    ] = None,
    epochs: Annotated[
        Path | None,
        typer.Option(
            "--epochs",
            help="Draw ranks over epochs instead: a .csv (epoch, rank1, rank5), or a folder of scores by epoch.",
        ),
    ] = None,
    training: Annotated[
        str | None, typer.Option("--training", help="With --epochs: which training of a sweep's curves.csv.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Of all intervals, between 0 and 1.")] = 0.95,
    data: DataOption = "digits",
    model: ModelOption = "digits-cnn",
    weights: WeightsOption = None,
    normalize: NormalizeOption = "auto",
    n: SamplesOption = None,
    size: SizeOption = None,
    channels: ChannelsOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    max_batch: MaxBatchOption = 256,
    folder: Annotated[Path, out_option("roadworthy-rank-k")] = Path("roadworthy-rank-k"),
    as_json: JsonOption = False,
) -> None:
    """Say how often the right class is among the k first answers, with Wilson intervals, of each class too.

    Of features, a logistic regression is fitted on the first rows and scored on the rest.
    """
    from roadworthy import probe

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")
    ranks = None if k is None else _whole(k)
    if epochs is not None:
        _over_epochs(epochs, ranks, training, folder, as_json=as_json)
        return
    if source is None or source.suffix.lower() not in _FEATURES:
        if classifier is not None:
            raise InputError("--classifier scores features; give a file of features (.h5) as SOURCE")
        if source is None:
            place: dict[str, Any] = {"n": n, "size": size, "channels": channels, "seed": seed, "device": device}
            scores = _asked(load_subject(data, model, weights, normalize, **place), max_batch)
        else:
            scores = probe.read_scores(source)
    elif classifier is not None:
        scores = probe.score_features(probe.load_classifier(classifier), source)
    else:
        settings: dict[str, Any] = {"train_share": train_share, "order": order, "standardise": standardise}
        found = probe.probe_features(source, k=ranks, c=_strength(c), level=level, seed=seed, **settings)
        finish(found.as_dict(), found.rank, found.scores, folder, fitted=found.classifier, as_json=as_json)
        return
    rank = probe.rank_k(scores.scores, scores.labels, k=ranks, level=level, label_names=scores.label_names)
    record = rank.as_dict()
    finish({**record, "notes": [*scores.notes, *record["notes"]]}, rank, scores, folder, as_json=as_json)


def _asked(subject: Subject, max_batch: int) -> Scores:
    from roadworthy.probe import model_scores

    with bar("samples", total=len(subject.split)) as progress:
        return model_scores(
            subject.model,
            subject.split,
            label_names=subject.data.classes,
            device=subject.device,
            max_batch=max_batch,
            progress=progress,
        )


def finish(
    record: dict[str, Any],
    rank: RankK,
    scores: Scores,
    folder: Path,
    *,
    fitted: LogisticClassifier | None = None,
    as_json: bool,
) -> None:
    """Write the result, its table by class, the scores and the classifier into the folder, and print the ranks."""
    from roadworthy.probe import write_scores

    with claimed(folder):
        _write_json(folder / RESULT, record)
        with replacing(folder / PER_CLASS) as beside:
            rank.per_class.to_csv(beside, index=False)
        write_scores(scores, folder / SCORES)
        if fitted is not None:
            fitted.save(folder / CLASSIFIER)
    if as_json:
        print_json({**record, "folder": str(folder)})
        return
    table = rank.table
    print_frame(table.assign(rank=[f"rank-{one}" for one in rank.k]), f"{100 * rank.level:g} % intervals (Wilson)")
    hardest = rank.per_class[rank.per_class["rank"] == rank.k[0]].dropna().sort_values("accuracy", kind="stable")
    if len(hardest):
        shown = hardest.head(_HARDEST)
        print_frame(shown, f"classes of least rank-{rank.k[0]} accuracy, {len(shown)} of {len(hardest)}")
    for note in rank.notes:  # the others were warnings
        say(f"note: {note}")
    out.print(f"all classes, scores: {folder}", markup=False, highlight=False, soft_wrap=True)


def _over_epochs(path: Path, ranks: list[int] | None, training: str | None, folder: Path, *, as_json: bool) -> None:
    from roadworthy.probe import read_epochs
    from roadworthy.report.figures import save_figure
    from roadworthy.report.rank_epochs import rank_epochs_figure

    found = read_epochs(path, k=ranks, training=training)
    with claimed(folder):
        written = save_figure(rank_epochs_figure(found), folder / FIGURE)
        _write_json(folder / f"{FIGURE}.json", found.as_dict())
    if as_json:
        print_json({**found.as_dict(), "files": {name: str(place) for name, place in written.items()}})
        return
    out.print(found.sentence, markup=False, highlight=False, soft_wrap=True)
    out.print(f"figure: {written[FIGURE + '.png']}", markup=False, highlight=False, soft_wrap=True)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    with replacing(path) as beside:
        beside.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf8")


def _whole(text: str) -> list[int]:
    try:
        return [int(part) for part in parse_list(text, "k")]
    except ValueError as error:
        raise InputError(f"--k: got {text!r}, expected whole numbers separated by commas, such as 1,5") from error


def _strength(text: str) -> float | Literal["cross-validated"]:
    if text == "cv":
        return "cross-validated"
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"--c: got {text!r}, expected a number above 0, or cv") from error
