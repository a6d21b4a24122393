"""The label-free page: whole, escaped, without requests, and true to the record."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.result import LabelFree
from roadworthy.markup import number
from roadworthy.report.labelfree import labelfree_report, reliability_figure

HOSTILE = '<script>window.pwned=1</script>"&'


def _helpers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("report_pages", Path(__file__).parents[1] / "report_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


Page = _helpers().Page


@pytest.fixture(scope="module")
def found() -> LabelFree:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(140, 1, 6, 6, generator=generator)
    labels = (x[:, 0, :, :3].mean((1, 2)) < x[:, 0, :, 3:].mean((1, 2))).long()

    def model(batch: torch.Tensor) -> torch.Tensor:
        return 20 * torch.stack([batch[:, 0, :, :3].mean((1, 2)), batch[:, 0, :, 3:].mean((1, 2))], 1)

    return rw.labelfree(
        model,
        x[:60],
        source=(x[60:], labels[60:]),
        passes=6,
        corruptions=["noise"],
        classes=(HOSTILE, "right"),
        ids=[f"{HOSTILE}{k}" for k in range(60)],
    )


@pytest.fixture(scope="module")
def page(found: LabelFree, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    path = labelfree_report(found, tmp_path_factory.mktemp("page") / "deep" / "page.html", title=HOSTILE)
    text = path.read_text(encoding="utf8")
    parsed = Page(text)
    return text, parsed


def test_nothing_a_user_named_becomes_markup(page: tuple[str, Page]) -> None:
    _, parsed = page
    assert len(parsed.scripts) == 4
    assert not [script for attributes, script in parsed.scripts if not attributes and "pwned" in script]
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert HOSTILE in parsed.text


def test_nothing_is_fetched_and_only_its_scripts_run(page: tuple[str, Page]) -> None:
    text, parsed = page
    for _, attributes in parsed.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    for attributes, script in parsed.scripts:
        if not attributes:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"sha256-{digest}" in policy[1]


def test_the_verdict_and_its_numbers_stand_there(found: LabelFree, page: tuple[str, Page]) -> None:
    _, parsed = page
    words = " ".join(parsed.text.split())
    for sentence in found.verdict:
        assert " ".join(sentence.split()) in words
    for name in (*found.estimates["estimator"], *found.gates["name"]):
        assert name in words
    chart = json.loads(parsed.scripts[0][1])["curves"]
    assert chart[0]["y"] == found.record["curve"]["reliability"]
    assert len(chart) == 1 + len(found.record["described"])


def test_links_lead_somewhere(page: tuple[str, Page]) -> None:
    _, parsed = page
    known = {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}
    for _, attributes in parsed.tags:
        target = attributes.get("href", "")
        if target.startswith("#"):
            assert target[1:] in known


def test_every_kind_of_result_has_a_page(found: LabelFree, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.random(80)
    bare = rw.labelfree(data=Outputs.of(p))
    refused = rw.labelfree(data=Outputs.of([[0.9, 0.1]] * 80), source=Outputs.of(p, labels=(p > 0.5).astype(int)))
    trained = rw.labelfree(
        data=Outputs.of(p, features=p[:, None]),
        source=Outputs.of(p, labels=(p > 0.5).astype(int), features=p[:, None]),
        train=Outputs.of(p, labels=(p > 0.5).astype(int), features=p[:, None]),
    )
    for name, result in (("bare", bare), ("refused", refused), ("trained", trained)):
        text = labelfree_report(result, tmp_path / f"{name}.html").read_text(encoding="utf8")
        assert "None" not in re.sub(r"<script.*?</script>|base64,[^\"]*", "", text, flags=re.S)
        assert (
            "nan" not in re.sub(r"<script.*?</script>|<style.*?</style>|base64,[^\"]*", "", text, flags=re.S).split()
        )
    baseline = trained.record["discrepancy"]["classes"][0]["baseline_correlation"]  # the last page
    assert f"says by itself: {number(baseline)}" in text
    assert ">midpoint</th>" in text
    with pytest.raises(InputError, match="nothing was perturbed"):
        reliability_figure(bare)
    with pytest.raises(InputError, match="is a folder"):
        labelfree_report(found, tmp_path)


def test_a_saved_result_gives_the_same_page(found: LabelFree, tmp_path: Path) -> None:
    kept = replace(found, pictures=None)
    kept.save(tmp_path / "run")
    one = labelfree_report(kept, tmp_path / "one.html").read_text(encoding="utf8")
    other = labelfree_report(tmp_path / "run", tmp_path / "other.html").read_text(encoding="utf8")
    strip = lambda text: re.sub(r"<img class=\"static\"[^>]*>|made by.*|\(\d+\.\d MB", "", text)  # noqa: E731
    assert strip(one) == strip(other)


def test_the_report_knows_its_kind(found: LabelFree, tmp_path: Path) -> None:
    assert rw.report(found, tmp_path / "a.html").read_text(encoding="utf8").count("Accuracy without labels") > 0
    found.save(tmp_path / "run")
    assert rw.report(tmp_path / "run", tmp_path / "b.html").exists()
