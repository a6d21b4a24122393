"""The numbers that docs/method.md states are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import torch

from roadworthy.attribution.settings import UNKNOWN_MEAN, UNKNOWN_STD, presets
from roadworthy.evaluation import Result, Strategy
from roadworthy.imputation import NOISE, impute
from roadworthy.imputation.operator import DIAGONAL, DIRECT
from roadworthy.imputation.solve import TOLERANCE
from roadworthy.report.thresholds import RARE

DOCS = Path(__file__).resolve().parents[2] / "docs"
METHOD, LIMITS = (
    re.sub(r"\s+", " ", (DOCS / name).read_text(encoding="utf8")) for name in ("method.md", "limits.md")
)


def test_imputation() -> None:
    assert f"sd {NOISE} in pixel units" in METHOD
    assert (DIRECT, DIAGONAL) == (1 / 6, 1 / 12)
    assert "1/6 for the direct and 1/12 for the diagonal ones" in METHOD
    assert f"below {TOLERANCE:g}".replace("0.0001", "1e-4") in METHOD


def test_the_fill_where_everything_is_removed() -> None:
    assert "if one is known" in METHOD
    assert "Else it is the image's own mean" in METHOD
    images, everything = torch.rand(2, 3, 4, 4), torch.ones(2, 4, 4, dtype=torch.bool)
    own = impute(images, everything, noise=0)
    assert torch.allclose(own, images.mean(dim=(2, 3), keepdim=True).expand_as(images))
    assert torch.equal(impute(images, everything, noise=0, mean=[0.25] * 3), torch.full_like(images, 0.25))


def test_strategy_and_statistics() -> None:
    assert (Strategy().unit, Strategy().sign, Strategy().reduction) == ("pixel", "signed", "sum")
    assert inspect.signature(Result.curves).parameters["draws"].default == 2000
    assert "(2,000 draws)" in METHOD
    assert f"Below {RARE} samples" in METHOD
    assert f"Below {RARE} samples" in LIMITS


def test_named_settings() -> None:
    road, roar = presets["road"], presets["roar"]
    assert (road.ig_steps, road.ig_rule, road.samples, road.noise) == (50, "gausslegendre", 15, 0.2)
    assert (road.noise_unit, road.baseline) == ("normalized", "mean")
    assert (roar.ig_steps, roar.ig_rule, roar.samples, roar.noise) == (25, "uniform", 15, 0.15)
    assert (roar.noise_unit, roar.baseline) == ("range", "black")
    assert (presets["road-code"].guided_samples, presets["road-code"].guided_noise) == (100, 1.0)
    assert presets["roar-code"].samples == 25
    assert UNKNOWN_MEAN == UNKNOWN_STD == 0.5
    for said in ("50 Gauss-Legendre steps, 15 copies, noise of 0.2", "25 steps with both ends", "noise of 0.15"):
        assert said in METHOD
