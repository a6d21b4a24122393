"""Audits made by hand, as :attr:`Result.audit` holds them: the right sentences are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roadworthy.evaluation import Result
from roadworthy.report.findings import Findings
from roadworthy.report.trust import reasons

CONTROL = 0.02
"""Gap of the gate on random masks."""


def every_reason(result: Result) -> str:
    """All reasons for and against trusting a result, those too that the sentence only counts."""
    return "; ".join(reason.text for reason in reasons(Findings.of(result)))


def made_leakage(
    result: Result,
    imputers: Sequence[str],
    leaks: Mapping[str, float] | None = None,
    *,
    hidden: Sequence[str] = ("noisy-linear",),
    unsure: Sequence[str] = (),
) -> dict[str, Any]:
    """A leakage audit in which the masks of ``leaks`` tell the class that accurately, at MoRF and the second share.

    Behind the imputers of ``hidden`` no mask leaks; whether those of ``unsure`` leak cannot be told.
    """
    leaks = leaks or {}
    masks = [
        {
            "method": method,
            "order": order,
            "fraction": p,
            "accuracy": leaks.get(method, 0.11) if (order, place) == ("morf", 1) else 0.1,
            "low": 0.08,
            "high": 0.93,
            "random": 0.1,
            "random_low": 0.07,
            "random_high": 0.13,
            "bits_low": 0.0,
            "bits_high": 0.4,
            "balanced_accuracy": 0.12,
            "balanced_chance": 0.1,
        }
        for method in result.methods
        for order in result.orders
        for place, p in enumerate(result.fractions[1:])
    ]

    def verdict(imputer: str, method: str) -> dict[str, Any]:
        leak = method in leaks and imputer not in hidden
        said = "leaks" if leak else "cannot tell" if method in unsure else "does not leak"
        ground = "shown" if leak else "wide" if method in unsure else "hidden" if method in leaks else "no mask"
        own = max((row for row in masks if row["method"] == method), key=lambda row: row["accuracy"])
        numbers = {name: own[name] for name in ("order", "fraction", "accuracy", "random")}
        numbers |= {"chance": 0.1, "above": 0.12, "margin": 0.08, "error": 0.03, "base": 0.3}
        return {"imputer": imputer, "method": method, "verdict": said, "ground": ground, "note": "", **numbers}

    return {
        "n": result.n,
        "classes": 10,
        "target": "predicted",
        "effort": "quick",
        "seconds": 1.5,
        "chance": 0.1,
        "chance_low": 0.08,
        "chance_high": 0.14,
        "masks": masks,
        "imputers": [
            {"imputer": imputer, "fraction": 0.3, "low": 0.01, "high": 0.31, "base": 0.3}
            | {"error": 0.27 if imputer in hidden else 0.03}
            for imputer in imputers
        ],
        "verdicts": [verdict(imputer, method) for imputer in imputers for method in result.methods],
    }


def made_gate(result: Result, gaps: Mapping[str, float] | None = None) -> list[dict[str, Any]]:
    """A gate that every method passes but those of ``gaps``."""
    wide = gaps or {}
    return [
        {
            "method": method,
            "keep": keep,
            "imputer": "mean",
            "judge": 0.4,
            "kar": 0.4 + wide.get(method, 0.01) + CONTROL,
            "gap": wide.get(method, 0.01) + CONTROL,
            "control": CONTROL,
            "beyond": wide.get(method, 0.01),
            "beyond_low": wide.get(method, 0.01) - 0.03,
            "beyond_high": wide.get(method, 0.01) + 0.03,
        }
        for method in result.methods
        for keep in (0.06, 0.12)
    ]


def made_patches(scores: Mapping[str, float]) -> dict[str, Any]:
    """Single-patch deletion with these scores."""
    rows = {
        method: {"score": value, "low": value - 0.05, "high": value + 0.05, "undefined": place}
        for place, (method, value) in enumerate(scores.items())
    }
    return {"grid": 4, "scores": rows}
