"""The constants that docs/methods state are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import torch

from roadworthy.attribution import lrp
from roadworthy.attribution.settings import UNKNOWN_MEAN, UNKNOWN_STD, Settings, presets
from roadworthy.evaluation import Result, default_strategy, finetune
from roadworthy.evaluation import presets as strategies
from roadworthy.evaluation.audit import gate, gate_rule, leak_verdict, leakage, mask_only
from roadworthy.evaluation.epochs import JUDGE
from roadworthy.imputation import NOISE, TOLERANCE, GainSettings, impute, opencv
from roadworthy.imputation.operator import DIAGONAL, DIRECT
from roadworthy.labelfree import calibration, discrepancy, domain, intervals, selfvalidation
from roadworthy.labelfree.estimators import cot, estimators
from roadworthy.labelfree.gates import beyond, class_shares, collapsed, domain_classifier, gates, mmd, passes
from roadworthy.labelfree.gates import calibration as calibration_gate
from roadworthy.probe import parting
from roadworthy.records import STATISTICS_SAMPLE
from roadworthy.report.thresholds import RARE
from roadworthy.statistics import least_difference, paired_bootstrap

DOCS = Path(__file__).resolve().parents[1] / "docs"


def page(name: str) -> str:
    return re.sub(r"\s+", " ", (DOCS / name).read_text(encoding="utf8"))


def default(function: object, name: str) -> object:
    return inspect.signature(function).parameters[name].default  # type: ignore[arg-type]


def bare(number: float) -> str:
    """Write a number as the pages do, without the 0 before the point."""
    return f"{number:g}".removeprefix("0")


def test_imputation() -> None:
    text = page("methods/imputation.md")
    assert (DIRECT, DIAGONAL) == (1 / 6, 1 / 12)
    assert "w = 1/6 for the four direct neighbours, 1/12 for the four diagonal ones" in text
    assert f"σ = {NOISE}" in text
    assert f"below {TOLERANCE:g}".replace("0.0001", "1e-4") in text
    assert f"first {STATISTICS_SAMPLE:,}" in text
    assert f"radius {opencv.RADIUS:g}" in text
    gain = GainSettings()
    assert f"α = {gain.alpha:g}" in text
    assert f"goes up to {gain.missing}" in text


def test_the_fill_where_everything_is_removed() -> None:
    text = page("methods/imputation.md")
    assert "Where none is known, it is the image's own mean" in text
    images, everything = torch.rand(2, 3, 4, 4), torch.ones(2, 4, 4, dtype=torch.bool)
    own = impute(images, everything, noise=0)
    assert torch.allclose(own, images.mean(dim=(2, 3), keepdim=True).expand_as(images))
    assert torch.equal(impute(images, everything, noise=0, mean=[0.25] * 3), torch.full_like(images, 0.25))


@pytest.mark.parametrize("name", ["symmetric", "road", "pixel-flipping", "deletion", "insertion", "roar"])
def test_the_shares_of_each_strategy(name: str) -> None:
    rows = [line for line in (DOCS / "methods/strategies.md").read_text(encoding="utf8").splitlines() if "|" in line]
    shares = " ".join(bare(share) for share in strategies[name].fractions)
    row = next(line for line in rows if line.startswith((f"| `{name}` |", f"| `{name}`, ", f"| `{name}` without")))
    assert shares in row


def test_strategies() -> None:
    text = page("methods/strategies.md")
    strategy = strategies["f-fidelity"]
    assert f"α = {bare(strategy.alpha)}, β = {bare(strategy.beta)}" in text
    assert f"{strategy.repeats} draws at {len(strategy.fractions)} shares" in text
    assert default_strategy().judges == ("untouched",)
    assert finetune.GRAINS == (0.0, 1.0, 2.0, 4.0)
    assert "standard deviation of 1, 2 or 4 pixels" in text
    assert JUDGE[0] == 2
    assert len(finetune.RATES) == 4
    assert "trained for two epochs" in text
    assert f"SGD at {bare(finetune.judge_recipe(10_000).learning_rate)}" in text


def test_attribution() -> None:
    text = page("methods/attribution.md")
    road, roar = presets["road"], presets["roar"]
    assert road == Settings()
    assert (road.ig_steps, road.ig_rule, road.samples, road.noise) == (50, "gausslegendre", 15, 0.2)
    assert (road.noise_unit, road.baseline) == ("normalized", "mean")
    assert (roar.ig_steps, roar.ig_rule, roar.samples, roar.noise) == (25, "uniform", 15, 0.15)
    assert (roar.noise_unit, roar.baseline) == ("range", "black")
    assert (presets["road-code"].guided_samples, presets["road-code"].guided_noise) == (100, 1.0)
    assert presets["roar-code"].samples == 25
    for row in (
        "| 50, Gauss-Legendre | 25, uniform |",
        "| 15 | 15 | 15; `gb` 100 | 25 |",
        "| .2 standard deviations | .15 of the image's range | .2; `gb` 1 | .15 of the range |",
    ):
        assert row in text
    assert UNKNOWN_MEAN == UNKNOWN_STD == 0.5
    assert "mean and standard deviation are taken as .5" in text
    assert f"γ = {bare(lrp.GAMMA)}" in text
    assert f"ε = {lrp.EPSILON:.0e}".replace("e-06", "e-6") in text


def test_every_method_is_on_the_page() -> None:
    from roadworthy.attribution import methods

    text = page("methods/attribution.md")
    for name in methods:
        assert f"`{name}`" in text or f"`-{name.rpartition('-')[2]}`" in text, name


def test_statistics() -> None:
    text = page("methods/statistics.md")
    assert default(paired_bootstrap, "draws") == 10_000
    assert default(Result.curves, "draws") == 2_000
    assert "10,000 draws or more, 2,000 for bands" in text
    three, five, ten = (least_difference(repeats, 36) for repeats in (3, 5, 10))
    assert f"{three:.1f} at R = 3, {five:.1f} at R = 5 and {ten:.1f} at R = 10" in text
    assert f"below {RARE} samples" in text
    assert f"Below {RARE} samples" in page("limits.md")


def test_audits() -> None:
    text = page("methods/audits.md")
    assert f"N / {mask_only.DEPENDENCE}" in text
    assert f"penalty {mask_only._RIDGE}" in text
    assert leakage._FOLDS == {"quick": 2, "thorough": 5}
    assert f"at {leak_verdict.LEVEL:.0%}".replace("%", " %") in text
    assert f"more than {bare(leak_verdict.MARGIN)} above" in text
    assert (leak_verdict.SHOWN, leak_verdict.HIDDEN) == (0.5, 0.9)
    assert gate.KEEPS == (0.06, 0.12)
    assert f"beyond > {gate_rule.THRESHOLD:.2f}".replace("0.", ".") in text


def test_labelfree() -> None:
    text = page("methods/labelfree.md")
    for name in [*estimators, *gates]:
        assert f"`{name}`" in text, name
    assert calibration._TEMPERATURES == (0.05, 20.0)
    assert f"cut at {domain._RATIO:g}" in text
    assert domain._FOLDS == 5
    assert f"at most {cot._POINTS} samples" in text
    assert f"2 · {intervals._BANDWIDTH}²" in text
    assert f"expected error at t + {bare(intervals._FLOOR)}" in text
    assert intervals._BEYOND == 0.2
    assert f"above {bare(selfvalidation.WIDEST)}" in text
    names = inspect.signature(discrepancy.pseudo_label_discrepancy).parameters
    assert [names[name].default for name in ("count", "points", "repeats", "metric")] == [10, 10, 5, "auc"]


def test_gates() -> None:
    rows = (DOCS / "methods/labelfree.md").read_text(encoding="utf8").splitlines()

    def row(name: str) -> str:
        return next(line for line in rows if line.startswith(f"| `{name}`"))

    assert f"p < {bare(mmd._ALPHA)}" in row("mmd")
    for limit in (domain_classifier._EASY, domain_classifier._APART):
        assert bare(limit) in row("domain-classifier")
    for limit in (class_shares._CHANGED, class_shares._UPSIDE_DOWN):
        assert bare(limit) in row("class-shares")
    for limit in (calibration_gate._MUCH, calibration_gate._USELESS):
        assert bare(limit) in row("calibration")
    assert f"{collapsed._ONE}" in row("collapsed")
    assert (passes._UNSURE, passes._LEAST) == (0.1, 5)
    assert f"{beyond._INSIDE:.0%}".replace("%", " %") in row("mahalanobis")


def test_rank_k() -> None:
    assert default(parting.part_rows, "share") == 0.75
    assert "⌊.75 N⌋" in page("methods/rank_k.md")
    assert parting._SORTED == 4


def test_every_perturbation_is_on_the_page_with_its_strength() -> None:
    from roadworthy.labelfree.perturbation import perturbations

    rows = (DOCS / "methods/labelfree.md").read_text(encoding="utf8").splitlines()
    for name in perturbations:
        row = next(line for line in rows if line.startswith(f"| `{name}` |") and line.count("|") == 4)
        strength = getattr(perturbations[name], "strength", None)
        assert row.endswith("| - |") if strength is None else f"| {strength:g}, " in row, name


def test_runs_are_paired_over_as_many_samples_as_the_page_says() -> None:
    from roadworthy.comparison.units import ENOUGH

    assert f"at least {ENOUGH} of the same" in page("methods/statistics.md")
