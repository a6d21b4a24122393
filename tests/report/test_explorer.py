from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_pages import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result
from roadworthy.report import explorer, report
from roadworthy.report.explorer import BUDGET, explorer_section, packed, score_weights
from roadworthy.report.material import Material

Make = Callable[..., Result]


def section(result: Result) -> tuple[str, dict[str, Any]]:
    html = explorer_section(Material.of(result))
    return html, Page(html).data("samples-data")


def unpacked(text: str, bits: int, count: int) -> np.ndarray:
    """What the page's script reads: the first value in the lowest bits."""
    found = [byte >> (bits * place) & (2**bits - 1) for byte in base64.b64decode(text) for place in range(8 // bits)]
    return np.array(found[:count])


def decoded(data: dict[str, Any], result: Result, layer: int = 0) -> dict[str, np.ndarray]:
    """Values by readout, [sample, cell]."""
    cells = 1 + len(result.methods) * len(result.orders) * (len(result.fractions) - 1)
    shape, chosen = (len(data["ids"]), cells), data["layers"][layer]
    hits = unpacked(chosen["hits"], chosen["bits"], shape[0] * cells) / chosen["scale"]
    probability = np.frombuffer(base64.b64decode(chosen["probability"]), dtype=np.uint8) / 255
    return {"top1": hits.reshape(shape), "probability": probability.reshape(shape)}


def curves_of(values: np.ndarray, result: Result) -> np.ndarray:
    """Cells of samples as [method, order, fraction, sample], MoRF first, with the intact input in front."""
    shape = (len(values), len(result.methods), len(result.orders), len(result.fractions) - 1)
    copies = values[:, 1:].reshape(shape)
    intact = np.broadcast_to(values[:, 0].reshape(-1, 1, 1, 1), (*shape[:3], 1))
    return np.moveaxis(np.concatenate([intact, copies], axis=3), 0, -1)


@settings(max_examples=30, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.lists(st.integers(0, 255), max_size=40))
def test_what_is_packed_is_read_back(bits: int, numbers: list[int]) -> None:
    values = (np.array(numbers, dtype=int) % 2**bits).astype(np.uint8)
    found = packed(values, bits)
    assert len(found) == -(-len(values) * bits // 8)
    assert unpacked(base64.b64encode(found.tobytes()).decode(), bits, len(values)).tolist() == values.tolist()


@pytest.mark.parametrize("orders", [["lerf", "morf"], ["morf"], ["lerf"]])
def test_every_sample_has_the_numbers_of_the_result(make_result: Make, orders: list[str]) -> None:
    result = make_result({"ig": 1.0, "grad": 0.4, "random": 0.0}, n=50, orders=orders)
    result.scores.probability[:, :, 0] = result.scores.probability[:1, :1, 0]
    _, data = section(result)
    assert data["ids"] == result.ids
    assert data["layers"][0]["bits"] == 1
    found = decoded(data, result)
    shown = [result.orders.index(order) for order in ("morf", "lerf") if order in orders]
    hits = curves_of(found["top1"], result)
    assert (hits == result.scores.top1[:, shown].mean(axis=3)).all()
    wanted = result.scores.probability[:, shown].mean(axis=3)
    assert np.abs(curves_of(found["probability"], result) - wanted).max() < 0.5 / 255 + 1e-6
    weighted = np.einsum("mops,op->ms", hits, np.array(data["weights"]))
    scores, _, _ = result.method_scores("top1")
    assert weighted == pytest.approx(scores, abs=1e-12)


def test_the_classes_of_a_sample_are_named(make_result: Make) -> None:
    result = make_result({"ig": 1.0}, n=30, classes=7, class_names=[f"kind {i}" for i in range(7)])
    _, data = section(result)
    codes = np.frombuffer(base64.b64decode(data["codes"]), dtype="<u2").reshape(-1, 3)
    named = np.array(data["names"])[codes]
    for place, values in enumerate((result.scores.labels, result.scores.predicted, result.scores.targets)):
        assert named[:, place].tolist() == [f"kind {value}" for value in values]


def test_a_score_where_every_share_counts_alike(make_result: Make) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=30)
    result.settings["average"] = "shares"
    removed = len(result.fractions) - 1
    each = [0.0] + [1 / removed] * removed
    assert score_weights(result) == pytest.approx(np.array([[-w for w in each], each]))


def test_judges_and_fills_stand_beside_their_mean(make_views: Make) -> None:
    result = make_views([{"ig": 1.6, "random": 0.0}, {"ig": 0.4, "random": 0.0}], judges=["untouched"], n=40)
    html, data = section(result)
    assert re.findall(r"<option [^>]*>(mean over 2 fills|the untouched judge[^<]*)<", html) == [
        "mean over 2 fills",
        "the untouched judge with mean fill",
        "the untouched judge with noisy-linear fill",
    ]
    assert [(layer["most"], layer["bits"]) for layer in data["layers"]] == [(2, 2), (1, 1), (1, 1)]
    every = [curves_of(decoded(data, result, place)["top1"], result) for place in range(3)]
    assert every[0] == pytest.approx((every[1] + every[2]) / 2)
    assert (every[2] == result.view(1).scores.top1.mean(axis=3)).all()


def test_a_view_that_says_nothing_is_left_out_of_the_mean(make_views: Make) -> None:
    result = make_views([{"ig": 1.6, "random": 0.0}, {"ig": 0.0, "random": 0.0}], judges=["untouched"], n=40)
    for readout in ("top1", "top5", "probability", "logit"):
        result.scores[readout][:, :, :, 1] = 0
    html, data = section(result)
    assert ">mean over 1 of 2 fills<" in html
    assert data["layers"][0]["most"] == 1
    assert (decoded(data, result)["top1"] == decoded(data, result, 1)["top1"]).all()
    result = make_views([{"ig": 1.6, "random": 0.0}] * 2, judges=["untouched"], n=40)
    result.scores.top1[:, :, :, 1] = 1
    assert ">mean over 2 fills; answers over 1 of 2<" in section(result)[0]


def test_retrained_results_show_means_over_trainings(make_retrained: Make) -> None:
    result = make_retrained({"ig": 1.0, "random": 0.0}, repeats=5, n=40)
    html, data = section(result)
    assert "means over 5 trainings" in html
    assert (data["units"], data["layers"][0]["most"], data["layers"][0]["bits"]) == ("trainings", 5, 4)
    hits = curves_of(decoded(data, result)["top1"], result)
    assert hits == pytest.approx(result.scores.top1.mean(axis=3))


def test_more_repeats_than_a_byte_holds(make_result: Make) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=10, repeats=300)
    _, data = section(result)
    assert (data["layers"][0]["most"], data["layers"][0]["scale"], data["layers"][0]["bits"]) == (300, 255, 8)
    hits = curves_of(decoded(data, result)["top1"], result)
    assert np.abs(hits - result.scores.top1.mean(axis=3)).max() < 0.5 / 255 + 1e-9


def test_the_numbers_stay_within_their_budget(make_views: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    result = make_views([{"ig": 1.6, "random": 0.0}] * 4, n=300)
    html, data = section(result)
    assert (len(data["ids"]), len(data["layers"])) == (300, 5)
    whole = len(html)
    monkeypatch.setattr(explorer, "BUDGET", whole // 3)
    html, data = section(result)
    assert (len(data["ids"]), len(data["layers"])) == (300, 1)  # the mean alone, rather than fewer samples
    monkeypatch.setattr(explorer, "BUDGET", 3000)
    html, data = section(result)
    shown = len(data["ids"])
    assert 10 < shown < 100
    assert len(json.dumps([data["ids"], data["codes"], data["layers"]], separators=(",", ":"))) < 3000 + 200
    places = [result.ids.index(sample) for sample in data["ids"]]
    assert (places[0], places[-1]) == (0, 299)
    assert np.ptp(np.diff(places)) <= 1
    assert f"{shown} of 300 samples, evenly chosen" in html


def test_ten_thousand_samples_are_all_there(make_result: Make) -> None:
    methods = {f"m{place}": 1.5 - place / 5 for place in range(8)} | {"random": 0.0}
    html, data = section(make_result(methods, n=10_000))
    assert len(data["ids"]) == 10_000
    assert len(html) < BUDGET + 6000


def test_ids_count_towards_the_budget(make_result: Make) -> None:
    result = make_result({"ig": 1.0}, n=40, samples=0)
    result.ids[:] = [f"{place}{'<' * 60_000}" for place in range(40)]  # a < takes six bytes
    html, data = section(result)
    assert 0 < len(data["ids"]) < 9
    assert len(html) < BUDGET + 6000
    one = make_result({"ig": 1.0}, n=1, samples=0)
    one.ids[:] = ["x" * BUDGET]
    assert explorer_section(Material.of(one)) == ""


def test_samples_kept_for_pictures_are_always_there(make_result: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=300, samples=3)
    assert result.sheet is not None
    result.sheet.ids[:] = ["sample 7", "sample 150", "not there"]
    monkeypatch.setattr(explorer, "BUDGET", 1500)
    _, data = section(result)
    assert {data["ids"][int(place)]: kept for place, kept in data["kept"].items()} == {"sample 7": 0, "sample 150": 1}


def test_without_labels_nothing_is_right_or_wrong(make_result: Make) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=30)
    result.settings["labels"] = "model"
    html, data = section(result)
    assert data["labelled"] is False
    assert re.search(r'<label hidden>Intact input <select id="find-right">', html)


def test_hostile_text_stays_text(make_views: Make, tmp_path: Path) -> None:
    result = make_views(
        [{HOSTILE: 1.6, "random": 0.0}] * 2, judges=["untouched"], imputers=[HOSTILE, "$x ${y}"], n=30
    )
    result.ids[0] = HOSTILE
    result.classes[0] = HOSTILE
    page = Page(report(result, tmp_path / "x.html").read_text(encoding="utf8"))
    assert {tag for tag, _ in page.tags} <= TAGS
    data = page.data("samples-data")
    assert HOSTILE in data["ids"]
    assert HOSTILE in data["names"]
    assert not [text for attributes, text in page.scripts if attributes and "<" in text]
    assert f"the untouched judge with {HOSTILE} fill" in page.text


def test_the_script_reads_no_user_text_as_html() -> None:
    for file in ("explorer.js", "page.js"):
        text = (Path(explorer.__file__).parent / "assets" / file).read_text(encoding="utf8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text)
