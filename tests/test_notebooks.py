"""The example notebooks run from top to bottom, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_small_and_without_outputs(path: Path) -> None:
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    assert cells[0]["cell_type"] == "markdown"
    for cell in cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert path.stat().st_size < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pages = [page.name for page in tmp_path.rglob("*.html")]
    assert pages in (["report.html"], ["labelfree.html"])


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2
