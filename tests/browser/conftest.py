"""Pages of every kind in a real browser: Debian's Chromium, driven by Playwright, nothing downloaded."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest
import torch

import roadworthy as rw
from roadworthy.evaluation import Result
from roadworthy.evaluation.concordance import concordance_of
from roadworthy.report import report
from roadworthy.report.concordance_page import write_concordance
from roadworthy.report.imputers import imputers_report

HERE = Path(__file__).parent
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
HOSTILE = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "ひとつのとても長い名前" * 12,
    "\u202eשלום עולם\u202c מפה",
    "a" * 200,
    "random",
)
DESKTOP = {"width": 1280, "height": 900}


def _loaded(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"browser_{Path(file).stem}", HERE.parent / "report" / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_planted, _audits = _loaded("conftest.py"), _loaded("report_audits.py")
KINDS = ("default", "road", "roar", "labelfree", "agreement", "compare", "imputers", "hostile")
STRENGTHS = _planted.STRENGTHS
make_result, make_retrained = _planted.make_result, _planted.make_retrained
Make = Callable[..., Result]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a running Chromium, or skip."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not here (Debian's package chromium)")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield chromium
        chromium.close()


@dataclass
class Opened:
    """A page in the browser, and all that it should not have done."""

    page: Any
    faults: list[str] = field(default_factory=list)


def opened(browser: Any, path: Path, **options: Any) -> Opened:
    """Open a file in a window of its own, which notes all that a page should not do."""
    settings = {"viewport": DESKTOP, "color_scheme": "light", "reduced_motion": "reduce"} | options
    one = Opened(browser.new_context(**settings).new_page())
    one.page.set_default_timeout(20_000)
    own = path.as_uri()

    def asked(request: Any) -> None:
        if request.url.split("#")[0] != own and not request.url.startswith(("data:", "blob:")):  # the file itself
            one.faults.append(f"request: {request.url}")

    def dialog(shown: Any) -> None:
        one.faults.append(f"dialog: {shown.message}")
        shown.dismiss()

    one.page.on("console", lambda said: one.faults.append(f"console: {said.text}"))
    one.page.on("pageerror", lambda error: one.faults.append(f"error: {error}"))
    one.page.on("dialog", dialog)
    one.page.on("request", asked)
    one.page.goto(own)
    return one


def closed(one: Opened) -> None:
    """Close it; it may not have complained, nor asked for anything."""
    pwned = one.page.evaluate("typeof window.pwned")
    one.page.context.close()
    assert one.faults == []
    assert pwned == "undefined"


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Opened]]:
    """Return a function that opens a file for one test."""
    visits = []

    def open_(path: Path, **options: Any) -> Opened:
        visits.append(opened(browser, path, **options))
        return visits[-1]

    yield open_
    for one in visits:
        closed(one)


@pytest.fixture(scope="module", params=KINDS)
def shown(request: pytest.FixtureRequest, browser: Any, pages: Kinds) -> Iterator[Any]:
    """Return the open page of each kind, one for all tests of a file."""
    one = opened(browser, pages[request.param])
    yield one.page
    closed(one)


class Kinds:
    """Makes the page of a kind once, when it is first asked for."""

    def __init__(self, folder: Path, make: Make, retrained: Make) -> None:
        self.folder, self.make, self.retrained = folder, make, retrained
        self.made: dict[str, Path] = {}

    def __getitem__(self, kind: str) -> Path:
        if kind not in self.made:
            self.made[kind] = getattr(self, f"_{kind}")(self.folder / f"{kind}.html")
        return self.made[kind]

    def _default(self, path: Path) -> Path:
        """The strategy of ``evaluate`` itself, with both its fills and real pictures."""
        images = 0.2 * torch.rand(40, 1, 12, 12, generator=torch.Generator().manual_seed(3))
        labels = torch.arange(40) % 2
        for image, label in zip(images, labels.tolist(), strict=True):
            image[:, :, 6 * label : 6 * label + 6] += 0.5

        def model(batch: torch.Tensor) -> torch.Tensor:
            return 20 * torch.stack([batch[:, 0, :, :6].mean((1, 2)), batch[:, 0, :, 6:].mean((1, 2))], 1)

        options = {"mean": 0.3, "audit": "off", "seed": 0}  # the audits take ten times as long
        return report(rw.evaluate(model, images, labels, ["ig", "grad", "random"], **options), path)

    def _road(self, path: Path) -> Path:
        """With every audit that a page can show."""
        result = self.make(warnings=["3 maps of gradcam are constant"], n=120, size=24)
        leakage = _audits.made_leakage(result, ["mean", "noisy-linear"], {"gradcam": 0.9}, unsure=["grad"])
        gate = _audits.made_gate(result, {"gradcam": 0.4})
        patches = _audits.made_patches(dict.fromkeys(result.methods, 0.3))
        result.audit = {"leakage": leakage, "gate": gate, "idsds": patches}
        return report(result, path)

    def _roar(self, path: Path) -> Path:
        """Of a sweep that is not finished: what is there is shown as ever, what is missing above it."""
        missing = [f"ig, morf, 50 %, repeat {place}" for place in range(20)]
        failed = ["2 of 40 trainings failed: ig, morf, 30 %: RuntimeError: out of memory"]
        return report(self.retrained(missing=[*failed, *missing]), path)

    def _labelfree(self, path: Path) -> Path:
        images = torch.rand(100, 1, 6, 6, generator=torch.Generator().manual_seed(0))
        labels = (images[:, 0, :, :3].mean((1, 2)) < images[:, 0, :, 3:].mean((1, 2))).long()

        def model(batch: torch.Tensor) -> torch.Tensor:
            return 20 * torch.stack([batch[:, 0, :, :3].mean((1, 2)), batch[:, 0, :, 3:].mean((1, 2))], 1)

        options = {"passes": 4, "corruptions": ["noise"], "classes": (HOSTILE[0], HOSTILE[3])}
        ids = [f"{HOSTILE[place % 6]}{place}" for place in range(40)]
        return report(rw.labelfree(model, images[:40], source=(images[40:], labels[40:]), ids=ids, **options), path)

    def _agreement(self, path: Path) -> Path:
        other = self.make({name: -value for name, value in STRENGTHS.items()}, samples=0, n=80)
        runs = {HOSTILE[0]: self.make(samples=0, n=80), HOSTILE[3]: other, "again": other}
        return write_concordance(concordance_of(runs, draws=50), path)

    def _compare(self, path: Path) -> Path:
        weaker = {name: value / 2 for name, value in STRENGTHS.items()}
        runs = {"old": self.make(samples=0, n=80), HOSTILE[1]: self.make(weaker, samples=0, n=80)}
        return report(rw.compare(runs), path)

    def _imputers(self, path: Path) -> Path:
        names = (
            "fraction",
            "predictor_error",
            "predictor_low",
            "predictor_high",
            "base",
            "rmse",
            "rmse_low",
            "rmse_high",
        )
        numbers = dict(zip((*names, "ms"), (0.3, 0.2, 0.1, 0.31, 0.3, 0.12, 0.11, 0.13, 0.02), strict=True))
        found = pd.DataFrame([{"imputer": name} | numbers for name in HOSTILE[:4]])
        verdicts = {name: f"{name}: hides what was removed" for name in HOSTILE[:4]}
        found.attrs = {"n": 24, "masks": "random", "seed": 0, "effort": "quick", "verdicts": verdicts}
        return imputers_report(found, {HOSTILE[0]: {HOSTILE[1]: 1}}, path)

    def _hostile(self, path: Path) -> Path:
        planted = {name: 1.5 - place / 4 for place, name in enumerate(HOSTILE)}
        result = self.make(planted, class_names=[*HOSTILE, *HOSTILE[:4]], warnings=HOSTILE, n=60)
        assert result.sheet is not None
        result.ids[:3] = result.sheet.ids[:3] = HOSTILE[:3]
        result.settings |= {"strategy": HOSTILE[1], "imputer": HOSTILE[0], HOSTILE[1]: {HOSTILE[2]: HOSTILE[3]}}
        result.provenance["device"] = HOSTILE[1]
        return report(result, path, title=f"{HOSTILE[1]} {HOSTILE[3]}")


@pytest.fixture(scope="session")
def pages(
    tmp_path_factory: pytest.TempPathFactory,
    make_result: Make,
    make_retrained: Make,
) -> Kinds:
    """Return the pages by kind."""
    return Kinds(tmp_path_factory.mktemp("pages"), make_result, make_retrained)
