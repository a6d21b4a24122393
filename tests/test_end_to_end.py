"""From data to verdict with networks that were really trained, and with real ImageNet weights."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.report import verdict

ROOT = Path(__file__).resolve().parents[1]
ORACLE_FIRST = ["oracle", "random", "inverse"]


def area_order(result, order: str) -> list[str]:
    """Return the methods from best to worst by the area under one order's accuracy curve."""
    ranking = result.ranking("probability").set_index("method")
    return ranking[f"{order}_area"].sort_values(ascending=order == "morf").index.tolist()


def test_digits_in_both_orders(tmp_path: Path) -> None:
    data = rw.load_data("digits")
    model = rw.load_model("digits-cnn", data, cache=tmp_path)
    test = data.test.take(150)
    result = rw.evaluate(model, test, None, ["ig", "ig-sg", "random", "inverse:ig"], classes=data.classes)
    ranking = result.ranking().set_index("method")
    assert result.intact_accuracy > 0.95
    assert ranking.score["ig"] > 0.3
    assert ranking.low["ig"] > ranking.high["random"]
    assert ranking.low["random"] < 0 < ranking.high["random"]
    assert ranking.score["inverse:ig"] == pytest.approx(-ranking.score["ig"], abs=1e-12)
    assert ranking.index[0] in ("ig", "ig-sg")
    assert ranking.index[-1] == "inverse:ig"
    assert "ig" in verdict(result).leads
    page = rw.report(result, tmp_path / "report.html")
    assert page.stat().st_size < 8_000_000


@pytest.mark.slow
def test_planted_pixels_come_first_and_their_inverse_last(tmp_path: Path) -> None:
    data = rw.load_data("planted")
    model = rw.load_model("small-cnn", data, cache=tmp_path)
    truth = data.relevant.astype(np.float32)
    maps = {
        "oracle": truth,
        "inverse": -truth,
        "random": np.random.default_rng(0).random(truth.shape, dtype=np.float32),
    }
    for strategy in (None, "road", "pixel-flipping", "deletion", "insertion"):
        result = rw.evaluate(model, data.test, None, maps, strategy=strategy, order="both", mean=data.mean)
        assert result.intact_accuracy > 0.9
        assert result.ranking("probability").method.tolist() == ORACLE_FIRST, strategy
        assert area_order(result, "morf") == ORACLE_FIRST, strategy
        assert area_order(result, "lerf") == ORACLE_FIRST, strategy
        scores = result.ranking("probability").set_index("method")
        assert scores.low["oracle"] > scores.high["random"], strategy
        assert scores.high["inverse"] < scores.low["random"], strategy


@pytest.mark.slow
def test_fashion_mnist_with_a_network_trained_here(tmp_path: Path) -> None:
    try:
        data = rw.load_data("fashion-mnist")
    except rw.errors.DataError as error:
        pytest.skip(f"Fashion-MNIST is not here: {error}")
    model = rw.load_model("small-cnn", data, cache=tmp_path)
    methods = ["ig", "ig-sq", "gradcam", "grad", "random", "inverse:ig"]
    result = rw.evaluate(model, data.test.take(300), None, methods, classes=data.classes, mean=data.mean)
    ranking = result.ranking().set_index("method")
    assert result.intact_accuracy > 0.85
    assert ranking.low["ig"] > ranking.high["random"]
    assert ranking.index[-1] == "inverse:ig"
    assert ranking.score["inverse:ig"] == pytest.approx(-ranking.score["ig"], abs=1e-12)
    kept = rw.load_result(result.save(tmp_path / "run"))
    assert kept.ranking().equals(result.ranking())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("efficientnet_lite_pytorch") is None, reason="needs the test extra")
def test_real_imagenet_weights_at_224(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    model = rw.load_model("efficientnet_lite:pretrained")
    photo = importlib.import_module("efficientnet_lite").photo
    images = torch.cat([photo(name) for name in ("chelsea", "coffee", "rocket", "astronaut")])
    predicted = model(images).argmax(dim=1)
    assert predicted[0] in range(281, 286), "chelsea is a cat"
    methods = ["gradcam", "ig", "random", "inverse:gradcam"]
    options = {"settings": rw.attribution.Settings(ig_steps=8), "fractions": (0.1, 0.5, 0.9), "max_batch": 8}
    result = rw.evaluate(model, images, None, methods, strategy="road", **options)
    ranking = result.ranking("probability").set_index("method")
    assert result.removed == [0, 5017, 25088, 45158]
    assert ranking.score["gradcam"] > ranking.score["random"] > ranking.score["inverse:gradcam"]
