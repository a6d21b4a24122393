"""Results with a planted order of methods: no model, so the right verdict is known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roadworthy.evaluation import Result, Scores, Sheet

sys.path.insert(0, str(Path(__file__).parent))

from report_audits import made_gate, made_leakage

STRENGTHS = {"ig": 1.6, "ig-sg": 1.5, "grad": 0.8, "gradcam": 0.4, "random": 0.0, "sobel": 0.1}
FRACTIONS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)


def planted_scores(
    strengths: Sequence[tuple[float, float]],
    orders: Sequence[str],
    fractions: Sequence[float],
    *,
    n: int,
    classes: int,
    base: float,
    repeats: int,
    jitter: float,
) -> Scores:
    """Draw scores: a strong method makes the model fail soon in MoRF and stay right for long in LeRF; 0 is random.

    A sample is right while its rank among the samples, blurred by ``jitter``, is below the accuracy planted.
    """
    rng = np.random.default_rng(11)
    power = np.array([[np.exp(morf if order == "morf" else -lerf) for order in orders] for morf, lerf in strengths])
    accuracy = 1 / classes + (base - 1 / classes) * (1 - np.asarray(fractions)) ** power[..., None]
    accuracy = accuracy[..., None, None]
    rank = (rng.permutation(n) + 0.5) / n
    blur = rng.normal(0, jitter, (len(strengths), len(orders), 1, repeats, n))
    top1 = (rank + blur < accuracy).astype(np.uint8)
    top1[:, :, 0] = rank < base
    top5 = np.ones_like(top1) if classes <= 5 else np.maximum(top1, rank * 0.6 < accuracy).astype(np.uint8)
    probability = (0.7 * accuracy + 0.2 * top1 + rng.uniform(0, 0.05, top1.shape)).astype(np.float32)
    labels = np.arange(n) % classes
    predicted = np.where(rank < base, labels, (labels + 1) % classes)
    return Scores(top1, top5, probability, 10 * probability - 3, labels, labels, predicted)


def planted_sheet(
    methods: int, orders: int, fractions: Sequence[float], *, samples: int, classes: int, size: int, channels: int
) -> Sheet:
    """Smooth images, a blob as map, and copies in which more and more is noise."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:size, :size] / size
    grey = np.stack([128 + 90 * np.sin(6 * x * (s + 1)) * np.cos(5 * y) for s in range(samples)]).astype(np.uint8)
    images = np.repeat(grey[:, None], channels, axis=1)
    maps = np.exp(-8 * ((x - 0.5) ** 2 + (y - 0.4) ** 2)) - 0.3 + rng.normal(0, 0.1, (samples, methods, size, size))
    shape = (samples, methods, orders, len(fractions), channels, size, size)
    gone = rng.random((*shape[:4], 1, size, size), dtype=np.float32) < np.reshape(fractions, (-1, 1, 1, 1))
    copies = np.where(gone, rng.integers(0, 256, shape, dtype=np.uint8), images[:, None, None, None])
    answers = rng.integers(0, classes, shape[:4])
    labels = np.arange(samples) % classes
    answers[..., 0] = labels[:, None, None]
    return Sheet([f"sample {s}" for s in range(samples)], labels, images, maps.astype(np.float32), copies, answers)


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Result]:
    """Return a function that builds a result from ``{method: strength}``, or ``{method: (in MoRF, in LeRF)}``."""

    def build(
        strengths: Mapping[str, Any] | None = None,
        *,
        orders: Sequence[str] = ("morf", "lerf"),
        fractions: Sequence[float] = FRACTIONS,
        n: int = 300,
        classes: int = 10,
        base: float = 0.96,
        repeats: int = 1,
        jitter: float = 0.15,
        readout: str = "top1",
        warnings: Sequence[str] = (),
        class_names: Sequence[str] | None = None,
        samples: int = 3,
        size: int = 12,
        channels: int = 1,
    ) -> Result:
        strengths = STRENGTHS if strengths is None else strengths
        pairs = [value if isinstance(value, tuple) else (value, value) for value in strengths.values()]
        methods = list(strengths)
        names = [f"class {c}" for c in range(classes)] if class_names is None else list(class_names)
        counts = {"samples": samples, "classes": classes, "size": size, "channels": channels}
        options = {"n": n, "classes": classes, "base": base, "repeats": repeats, "jitter": jitter}
        info = {
            "method": methods,
            "tied_share": np.linspace(0, 0.4, len(methods)),
            "constant_maps": list(range(len(methods))),
            "completeness_gap": [0.01 if name.startswith("ig") else None for name in methods],
        }
        return Result(
            methods=methods,
            orders=list(orders),
            fractions=list(fractions),
            removed=[round(p * size * size) for p in fractions],
            repeats=repeats,
            ids=[f"sample {i}" for i in range(n)],
            scores=planted_scores(pairs, orders, fractions, **options),
            classes=names,
            method_info=pd.DataFrame(info),
            settings={"strategy": "road", "imputer": "noisy-linear", "readout": readout, "fill": {"noise": 0.01}},
            provenance={"seed": 0, "n": n, "device": "cpu", "versions": {"python": "3.11"}},
            warnings=list(warnings),
            sheet=planted_sheet(len(methods), len(orders), fractions, **counts) if samples else None,
        )

    return build


def costs(methods: Sequence[str], orders: Sequence[str], fractions: Sequence[float], repeats: int) -> pd.DataFrame:
    """A row per training: unmodified ones, random masks shared by the orders, and estimators; maps and ROAD."""
    rows: list[tuple[Any, ...]] = [("retrain", "", "", 0.0, r, 60.0, 50_000) for r in range(repeats)]
    for method in methods:
        for order in [""] if method == "random" else orders:
            rows += [("retrain", method, order, p, r, 61.5, 50_000) for p in fractions[1:] for r in range(repeats)]
        rows.append(("maps", method, "", np.nan, 0, 12.0, 1_300))
    rows.append(("road", "", "", np.nan, 0, 9.0, 300 * len(methods) * len(orders) * len(fractions)))
    return pd.DataFrame(rows, columns=["work", "method", "order", "fraction", "repeat", "seconds", "images"])


@pytest.fixture(scope="session")
def make_retrained(make_result: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that builds a retrained result: each repeat has a shift of its own, shared by all methods."""

    def build(
        strengths: Mapping[str, Any] | None = None,
        *,
        repeats: int = 5,
        spread: float = 0.01,
        beside: Mapping[str, float] | bool = True,
        missing: Sequence[str] = (),
        audited: bool = True,
        **options: Any,
    ) -> Result:
        result = make_result(strengths, repeats=repeats, samples=0, **options)
        rng = np.random.default_rng(17)
        n, scores = result.n, result.scores
        shift = rng.normal(0, spread, repeats)[:, None] + rng.normal(0, spread / 4, (*scores.top1.shape[:4], 1))
        shift[:, :, 0] = shift[:1, :1, 0]  # one unmodified training a repeat
        rank = (rng.permutation(n) + 0.5) / n
        accuracy = scores.top1.mean(axis=(3, 4), keepdims=True) + shift
        scores.top1[:] = rank < accuracy
        scores.top5[:] = rank * 0.6 < accuracy
        if beside is True:
            gains = result.ranking().set_index("method")["score"]
            beside = {method: float(gains[method]) + 0.01 for method in result.methods}
            result._known.clear()
        result.settings |= {"strategy": "roar", "imputer": "mean", "training": "retrain", "labels": "given"}
        if beside:
            name, higher = (result.ranking().attrs[key] for key in ("score", "higher_is_better"))
            result._known.clear()
            about = {"score_name": name, "higher_is_better": higher, "orders": list(result.orders)}
            result.settings["beside"] = {"road": {"score": dict(beside), "seconds": 9.0, "images": 21_600, **about}}
        result.cost = costs(result.methods, result.orders, result.fractions, repeats)
        result.missing = list(missing)
        if audited:
            result.audit = {"leakage": made_leakage(result, ["mean"]), "gate": made_gate(result)}
        return result

    return build


@pytest.fixture(scope="session")
def make_views(make_result: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that builds one result of several judges and fills, judge by judge, a planted order each."""

    def build(
        planted: Sequence[Mapping[str, Any]],
        *,
        judges: Sequence[str] = ("untouched", "fine-tuned"),
        imputers: Sequence[str] = ("mean", "noisy-linear"),
        **options: Any,
    ) -> Result:
        parts = [make_result(strengths, samples=0, **options) for strengths in planted]
        scores = {
            name: np.concatenate([part.scores[name] for part in parts], axis=3)
            for name in ("top1", "top5", "probability", "logit")
        }
        result = replace(parts[0], repeats=len(parts), scores=replace(parts[0].scores, **scores))
        views = [{"judge": judge, "imputer": imputer} for judge in judges for imputer in imputers]
        assert len(views) == len(parts)
        result.settings |= {
            "strategy": "symmetric",
            "imputer": " + ".join(imputers),
            "labels": "given",
            "views": views,
        }
        return result

    return build
