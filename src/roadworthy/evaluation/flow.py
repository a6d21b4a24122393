"""The front of the main flow: a user's arguments become one run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.audit.patches import Patches
from roadworthy.evaluation.fill_mean import check_mean, training_mean
from roadworthy.evaluation.finetune import tuned_for
from roadworthy.evaluation.inputs import Stream
from roadworthy.evaluation.intact import Examiner, Notes, denormalised
from roadworthy.evaluation.maps import MapSources
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.retrained import Retraining, as_split, named_attributions
from roadworthy.evaluation.run import Audit, Run
from roadworthy.evaluation.sheet import SheetMaker
from roadworthy.evaluation.strategy import Strategy, default_strategy
from roadworthy.evaluation.treatment import DegradedSplit
from roadworthy.forward import Classifier, untouched
from roadworthy.imputation import Imputer, Mean, resolve_imputer
from roadworthy.records import Split
from roadworthy.removal.reduction import reduce_channels
from roadworthy.rng import resolve_seed
from roadworthy.types import Layout, Normalize, Output, Progress, Reduction, Seed, Sign, Unit


def evaluate(
    model: Callable[..., Any],
    images: Any,
    labels: Any = None,
    attributions: Any = ("ig", "ig-sg", "grad", "random"),
    *,
    strategy: str | Strategy | None = None,
    fractions: Sequence[float] | None = None,
    order: str | None = None,
    imputer: str | Callable[..., torch.Tensor] | Imputer | Sequence[Any] | None = None,
    noise: float | None = None,
    normalize: Normalize | None = None,
    target: str | Sequence[int] | torch.Tensor = "predicted",
    reduction: Reduction | None = None,
    sign: Sign | None = None,
    unit: Unit | None = None,
    seed: Seed = 0,
    repeats: int | None = None,
    max_batch: int = 256,
    device: str | torch.device | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    settings: Any = "road",
    mean: Sequence[float] | None = None,
    normalized: Normalize | None = None,
    ids: Sequence[str] | None = None,
    classes: Sequence[str] = (),
    max_samples: int | None = None,
    nonfinite: Literal["raise", "drop"] = "raise",
    intact_check: Literal["raise", "warn"] = "raise",
    sheet: int = 12,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
    train: Any = None,
    build: Callable[[], torch.nn.Module] | None = None,
    recipe: Any = None,
    validation_share: float = 0.0,
    judge: torch.nn.Module | None = None,
    audit: Audit = "quick",
) -> Result:
    """Compare attribution methods by what a model can still do after their units are removed.

    With ``strategy="roar"`` or ``"kar"`` the question is what a *new* model can still do: one is trained for every
    method, order, share and repeat, one after the other in this process. ``roadworthy run`` does the same in many
    processes, keeps every result, and goes on after an interruption.

    Args:
        model: a module, or a callable from a batch of images to class scores.
        images: float (N, C, H, W) in pixel units [0, 1]; series (N, C, T), tables (N, F) or token ids (N, T);
            or a Split, Dataset or DataLoader of (image, label).
        labels: int (N,), for images given as a tensor or array. None scores agreement with the model's own
            intact answers, and says so.
        attributions: method names, or a mapping from names to method names, callables
            ``(model, images, targets)``, objects of ``captum.attr`` or Zennit, functions in the style of Quantus, or
            arrays (N, H, W) or (N, C, H, W). Maps are channels first in any layout.
            A callable gets images in pixel units, channels first, and a model that takes those and returns class
            scores (N, K): your own, behind ``normalize``, ``layout`` and ``output`` where these are set.
        strategy: a preset (``"road"``, ``"symmetric"``, ``"f-fidelity"``, ``"pixel-flipping"``, ``"deletion"``,
            ``"insertion"``, ``"roar"``, ``"kar"``, ``"roar-2019"``) or a Strategy. None is ``"symmetric"``, asked of
            the model as it is; with ``judge``, or with ``train`` where a copy can be fine-tuned on such images, of
            the copy too. See :func:`roadworthy.evaluation.strategy.default_strategy` for why.
        fractions: shares removed; 0 is always evaluated first. None keeps the preset's: .05 .1 .3 .7 .9 .95 for
            symmetric.
        order: ``"morf"``, ``"lerf"`` or ``"both"``; None keeps the preset's (``"both"`` for symmetric).
        imputer: a name, a callable ``(images, removed, generator) -> images``, or an Imputer; or several of them,
            each a view of the result; None keeps the preset's (``("mean", "noisy-linear")`` for symmetric).
        noise: sd of noisy-linear's noise, in pixel units.
        normalize: ``(mean, std)`` that is applied after imputation, before the model.
        target: class to explain, and whose probability and logit are recorded: ``"predicted"``, ``"label"`` or
            one class per sample.
        reduction: ``"sum"``, ``"abs-sum"``, ``"max-abs"``, ``"l2"`` or ``"mean"`` over channels.
        sign: ``"signed"``, ``"abs"``, ``"positive"`` or ``"squared"``.
        unit: ``"pixel"`` or ``"channel"``.
        seed: integer or generator; ties and noise come from it, per sample.
        repeats: how often ties and noise are drawn anew; with retraining, networks trained for each point. None keeps
            the preset's: 1, and 50 for f-fidelity.
        max_batch: largest number of images in one pass through the model.
        device: for a callable without parameters; a module runs where it is.
        output: which part of the model's return value holds the class scores: position, key or callable.
        layout: ``"NHWC"`` if images, and the model, are channels last.
        settings: attribution settings, see :func:`roadworthy.attribute`.
        mean: training mean per channel, in pixel units, for the mean fill. None takes it from ``normalize``,
            ``normalized``, the model, ``train`` or the images themselves, in this order, and records which. Of images
            that are not in memory the first 5,000 are read for it, of a stream that can be read once the first block.
        normalized: ``(mean, std)`` if the images are normalised already; they are brought back to pixel units.
        ids: sample ids; positions by default. Draws are tied to them.
        classes: class names, for the report.
        max_samples: stop after so many samples.
        nonfinite: ``"raise"`` refuses maps with NaN or infinity; ``"drop"`` leaves those samples out, for all
            methods, and reports how many.
        intact_check: ``"raise"`` stops when the intact accuracy is at chance or labels look shifted; ``"warn"``
            goes on.
        sheet: how many samples to keep for pictures, spread evenly over the data; at most 24 MB of copies, so that
            of large images fewer are kept, and thinned down to 112 pixels a side.
        checkpoint: a folder in which finished blocks are kept; the same call goes on from there.
        progress: called with the number of copies just scored, or of samples just trained on.
        train: training samples, for retraining or fine-tuning: a Split, or a pair (images, labels). Without a
            strategy they have a copy fine-tuned, where the model is a module with parameters. For retraining
            ``images`` and ``labels`` are the test samples, and maps given as arrays are pairs (training maps, test
            maps).
        build: for retraining, returns a fresh network of the kind to train; by default ``model`` with all its
            parameters drawn anew.
        recipe: a :class:`roadworthy.model.Recipe` or the name of one; needed for retraining. For fine-tuning by
            default two epochs at a small rate, more where samples are few.
        validation_share: for retraining, the share of each class held out to choose the epoch by; with 0 the last
            epoch counts.
        judge: the fine-tuned copy, where it was made before by :func:`roadworthy.evaluation.fine_tuned`; by default
            it is made here, from ``train``.
        audit: ``"quick"`` looks for leakage through the masks on at most 500 samples, drawn (of the training samples,
            for retraining); ``"thorough"`` on up to 4,000, and with ``train`` it scores maps of images by single
            patches too (IDSDS); ``"off"`` leaves it out. Retraining in LeRF order also asks whether networks read the
            class off the mask (the gate).

    Returns:
        The result: ``table``, ``per_sample``, ``ranking()``, ``warnings``, ``save(path)``.

    Raises:
        InputError: arguments that do not fit, labels out of range, intact accuracy at chance.
        AttributionError: maps of a wrong shape or with values that are not finite.
        ModelError: the model returns something that is not class scores, or values that are not finite.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022);
        symmetric gain: Bluecher et al., "Decoupling Pixel Flipping and Occlusion Strategy for Consistent XAI
        Benchmarks" (TMLR 2024).

    Example:
        >>> import torch
        >>> images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> labels = (images[:, 0, :, 4:].mean((1, 2)) > images[:, 0, :, :4].mean((1, 2))).long()
        >>> def model(x):
        ...     return torch.stack([x[:, 0, :, :4].mean((1, 2)), x[:, 0, :, 4:].mean((1, 2))], 1)
        >>> result = evaluate(model, images, labels, ["grad", "random"], fractions=(0.3, 0.6))
        >>> result.ranking()["method"].tolist()
        ['grad', 'random']
    """
    changes: dict[str, Any] = {"order": order, "noise": noise, "reduction": reduction, "sign": sign, "unit": unit}
    imputer = tuple(imputer) if isinstance(imputer, (list, tuple)) else imputer
    changes |= {"fractions": fractions, "imputer": imputer}
    chosen = Strategy.of(default_strategy() if strategy is None else strategy, **changes)
    repeats = chosen.repeats if repeats is None else _whole("repeats", repeats, 1)
    _one_of("nonfinite", nonfinite, ("raise", "drop"))
    _one_of("intact_check", intact_check, ("raise", "warn"))
    _one_of("audit", audit, ("quick", "thorough", "off"))
    if chosen.training == "retrain":
        _check_retraining(train, recipe, layout=layout, nonfinite=nonfinite, normalized=normalized)
        return Retraining(
            model,
            as_split("test", images, labels, ids),
            as_split("train", train),
            named_attributions(attributions),
            chosen,
            build=build,
            recipe=recipe,
            seed=resolve_seed(seed),
            repeats=repeats,
            mean=mean,
            normalize=normalize,
            output=output,
            device=device,
            target=target,
            settings=settings,
            max_batch=max_batch,
            validation_share=validation_share,
            classes=classes,
            checkpoint=checkpoint,
            progress=progress,
            intact_check=intact_check,
            audit=audit,
        ).result()
    if isinstance(classes, str) or not hasattr(classes, "__iter__"):
        raise InputError(f"classes: got {classes!r}, expected the names of the classes")
    stream = Stream(images, labels, ids=ids, max_samples=max_samples, layout=layout)
    stats = normalized if normalize is None else normalize
    classifier = Classifier(model, normalize=stats, output=output, layout=layout, device=device, max_batch=max_batch)
    examiner = Examiner(classifier, stream, target, normalized, stop_at_chance=intact_check == "raise")
    if strategy is None and _asks_copy(classifier, stream, train, judge, examiner.notes):
        chosen = Strategy.of(default_strategy(fine_tuned=True), **changes)
    fillers = [resolve_imputer(each, noise=chosen.noise) for each in chosen.imputers]
    if noise is not None and all(filler.noise != noise for filler in fillers):
        added = ", ".join(f"imputer {filler.name} adds {filler.noise}" for filler in fillers)
        examiner.notes.add("noise", f"noise={noise} has no effect: {added}")
    _check_fills(fillers)
    samples = None if train is None else in_pixel_units(as_split("train", train, what_for="fine-tune"), normalized)
    given = chosen.mean if mean is None else mean
    fills_mean = any(isinstance(filler, Mean) for filler in fillers)
    fill_mean, mean_source = training_mean(given, stats, model, stream, samples, needed=fills_mean)
    for filler in fillers:
        examiner.notes.add(f"fill/{filler.name}", filler.caution(chosen.fractions))
        check_mean(filler, chosen, fill_mean, mean_source, examiner.notes)
    run_seed = resolve_seed(seed)
    run = Run(
        strategy=chosen,
        imputers=fillers,
        judges=_judges(chosen, classifier, judge, samples, stream, recipe=recipe, seed=run_seed, mean=fill_mean),
        examiner=examiner,
        maps=MapSources(
            attributions,
            stream,
            classifier,
            {
                "seed": run_seed,
                "settings": settings,
                "mean": fill_mean,
                "reduce": functools.partial(reduce_channels, reduction=chosen.reduction),
            },
        ),
        seed=run_seed,
        repeats=repeats,
        mean=None if fill_mean is None else torch.tensor(fill_mean),
        drop_nonfinite=nonfinite == "drop",
        sheet=SheetMaker(_whole("sheet", sheet, 0), stream.length),
        progress=progress,
        classes=[str(name) for name in classes],
        audit=audit,
        patches=_patches(classifier, samples, mean=fill_mean, seed=run_seed) if audit == "thorough" else None,
        recorded={"mean": fill_mean, "mean_source": mean_source, "settings": str(settings)},
    )
    with untouched(model), untouched(model if judge is None else judge):
        return run.result(checkpoint)


def _asks_copy(classifier: Classifier, stream: Stream, train: Any, judge: Any, notes: Notes) -> bool:
    """Return whether a fine-tuned copy is asked where the caller names no strategy; say it where none can be made."""
    if judge is not None or train is None:
        return judge is not None
    module = classifier.model
    why = ""
    if not isinstance(module, torch.nn.Module):
        why = f"a {type(module).__name__} cannot be fine-tuned"
    elif not any(parameter.is_floating_point() for parameter in module.parameters()):
        why = "it has no parameters to fine-tune"
    elif classifier.layout != "NCHW":
        why = "fine-tuning takes channels first"
    elif not stream.first().images.is_floating_point():
        why = "a copy cannot be fine-tuned on token ids"
    notes.add("copy", why and f"train: the model was asked as it is, and no copy of it: {why}; judge= takes a copy")
    return not why


def _judges(
    chosen: Strategy,
    classifier: Classifier,
    judge: Any,
    train: Split | None,
    stream: Stream,
    *,
    recipe: Any,
    seed: int,
    mean: Any,
) -> dict[str, Classifier]:
    """Return who is asked, by name; a fine-tuned copy is made where none is given."""
    found = dict.fromkeys(chosen.judges, classifier)
    if "fine-tuned" not in found:
        if judge is not None:
            raise InputError(f"judge: strategy {chosen.name!r} asks the given model only; choose one that fine-tunes")
        return found
    if judge is None:
        if train is None:
            raise InputError(
                "train: a strategy that fine-tunes a copy of the model needs train= (a Split such as data.train, or "
                "(images, labels)) or judge= (a copy that roadworthy.evaluation.fine_tuned returned). Without "
                "strategy= the model is asked as it is"
            )
        if stream.in_memory and not stream.images.is_floating_point():
            raise InputError(
                f"train: a copy cannot be fine-tuned on token ids ({stream.images.dtype}); pass judge= with a copy "
                "that was fine-tuned elsewhere, or leave strategy= out: then the model is asked as it is"
            )
        judge = tuned_for(chosen, classifier, train, recipe=recipe, seed=seed, mean=mean)
    found["fine-tuned"] = Classifier(
        judge,
        normalize=classifier.normalize,
        output=classifier.output,
        layout=classifier.layout,
        device=classifier.device,
        max_batch=classifier.max_batch,
    )
    return found


def _patches(classifier: Classifier, train: Split | None, *, mean: list[float] | None, seed: int) -> Patches | None:
    """Return what scores by single patches, where there are samples to fine-tune a copy of the model on."""
    if train is None or mean is None or classifier.layout != "NCHW":
        return None
    if not isinstance(classifier.model, torch.nn.Module):
        return None
    return Patches(classifier, train, mean, seed)


def _check_fills(fillers: Sequence[Imputer]) -> None:
    """Results tell fills by their names."""
    names = [filler.name for filler in fillers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"imputer: two fills are called {twice!r}; name each once (functions by __name__, an Imputer by its name)"
        )


def in_pixel_units(train: Split, normalized: Normalize | None) -> Split:
    """Bring training samples that are normalised already, as the images are, back to pixel units."""
    if normalized is None:
        return train
    return DegradedSplit(train, functools.partial(denormalised, stats=normalized))


def _check_retraining(train: Any, recipe: Any, *, layout: str, nonfinite: str, normalized: Any) -> None:
    if train is None or recipe is None:
        missing = "train" if train is None else "recipe"
        raise InputError(
            f"{missing}: a strategy that retrains needs train= (a Split such as data.train, or (images, labels)) and "
            "recipe= (a roadworthy.model.Recipe or the name of one, such as 'digits')"
        )
    for name, value, expected in (
        ("layout", layout, "NCHW"), ("nonfinite", nonfinite, "raise"), ("normalized", normalized, None)
    ):  # fmt: skip
        if value != expected:
            raise InputError(f"{name}: got {value!r}; a strategy that retrains takes {expected!r} only")


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < least:
        raise InputError(f"{name}: got {value!r}, expected an integer of at least {least}")
    return int(value)


def _one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        *others, last = map(repr, allowed)
        raise InputError(f"{name}: got {value!r}, expected {', '.join(others)} or {last}")
