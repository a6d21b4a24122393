"""No page states a number that was measured and that no committed run shows.

After each such statement stands a mark, ``<!-- from: FILE, FILE -->``: in the paragraph, list item or row of a table
itself, or, for a whole table, in a paragraph of its own below. Every number of the block must be in one of the files:
as it is, as a percentage, or rounded to as many digits as the page gives. A block whose numbers are all definitions,
defaults or citations is marked ``<!-- defined -->``, and single ones among measured ones ``<!-- from: FILE; defined:
N, N -->``. On the pages below a block that holds a fraction, a percentage or a multiple must have a mark. In a
docstring the file is named in the text that holds the table.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
# pages that state what was measured: there every number is accounted for
STRICT = [
    "README.md",
    "docs/audits.md",
    "docs/comparison.md",
    "docs/labelfree.md",
    "docs/limits.md",
    "docs/performance.md",
    "docs/rank_k.md",
    "docs/roar.md",
    "examples/road-paper/README.md",
]
DOCSTRINGS = {
    "src/roadworthy/labelfree/curve.py": "benchmarks/results/reliability_areas.txt",
    "src/roadworthy/statistics/bootstrap.py": "benchmarks/results/error_rates.txt",
    "src/roadworthy/statistics/concordance.py": "benchmarks/results/error_rates.txt",
    "src/roadworthy/statistics/repeats.py": "benchmarks/results/error_rates.txt",
}
MARK = re.compile(r"<!--\s+(?:from:\s+(?P<files>[^;>]+?)(?:;\s+defined:\s+(?P<given>[^>]+?))?|defined)\s+-->")
NUMBER = re.compile(r"(?<![\w.])[-−+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:e-?\d+)?(?![\w]|\.\d)")
MEASURED = re.compile(r"(?<![\w.\d])[-−]?0?\.\d+|\d+(?:\.\d+)? %|\d+(?:\.\d+)? times")


def blocks(text: str) -> list[str]:
    """Return paragraphs, list items and tables, without code; a mark alone belongs to the block before it."""
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    found: list[str] = []
    for part in re.split(r"\n\s*\n", text):
        if found and MARK.fullmatch(part.strip()):
            found[-1] += "\n" + part
        elif re.search(r"(?m)^\|.*<!--", part):  # rows that name their runs themselves
            found += part.split("\n")
        else:
            found += re.split(r"\n(?=\s*- )", part)
    return [block for block in found if block.strip() and not block.lstrip().startswith("#")]


def plain(block: str) -> str:
    """Leave out what is no statement: code in the line, targets of links, marks, dates and versions."""
    text = MARK.sub("", block)
    text = re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]+>", " ", text)
    return re.sub(r"\b(?:19|20)\d\d\b|\b\d+\.\d+\.\d+\b", " ", text)


def value_of(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-").lstrip("+"))


def numbers(text: str) -> list[str]:
    return [found for found in NUMBER.findall(text) if any(letter.isdigit() for letter in found)]


def shown(said: str, values: set[float]) -> bool:
    """Whether one of the values is the number that is said, to the digits that are said."""
    mantissa = said.replace(",", "").split("e")[0]
    digits = len(mantissa.partition(".")[2]) - (int(said.split("e")[1]) if "e" in said else 0)
    slack = 0.5 * 10.0**-digits * 1.001
    wanted = abs(value_of(said))
    scales = (1, 100, 0.01)
    return any(math.isclose(abs(value) * scale, wanted, abs_tol=slack) for value in values for scale in scales)


def unshown(block: str, files: list[str]) -> list[str]:
    values: set[float] = set()
    for name in files:
        text = (ROOT / name).read_text(encoding="utf8")
        values |= {
            value_of(found) for found in numbers(re.sub(r"[a-zA-Z]+(?=\d)|(?<=\d)(?=(?!e-?\d)[a-zA-Z%])", " ", text))
        }
    return [said for said in numbers(plain(block)) if not shown(said, values)]


@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_those_of_the_files_named(page: str) -> None:
    for block in blocks((ROOT / page).read_text(encoding="utf8")):
        mark = MARK.search(block)
        if mark is None or mark["files"] is None:
            continue
        files = re.split(r",\s+", mark["files"].strip())
        missing = [name for name in files if not (ROOT / name).is_file()]
        assert not missing, f"{page} names {missing}"
        given = re.split(r",\s+", (mark["given"] or "").strip())
        absent = [number for number in unshown(block, files) if number not in given]
        assert not absent, f"{page}: {', '.join(absent)} not in {', '.join(files)}:\n{block}"


@pytest.mark.parametrize("page", STRICT)
def test_every_measured_number_has_a_source(page: str) -> None:
    bare = [
        block
        for block in blocks((ROOT / page).read_text(encoding="utf8"))
        if MEASURED.search(plain(block)) and not MARK.search(block)
    ]
    assert not bare, f"{page}: neither <!-- from: FILE --> nor <!-- defined -->:\n\n" + "\n\n".join(bare)


@pytest.mark.parametrize("module", DOCSTRINGS)
def test_tables_in_docstrings_are_those_of_a_run(module: str) -> None:
    text = (ROOT / module).read_text(encoding="utf8").split('"""')[1]
    assert DOCSTRINGS[module] in text
    table = text[text.index("=====") : text.rindex("=====")]
    assert numbers(table)
    assert not unshown(re.sub(r"R = \d+", "", table), [DOCSTRINGS[module]])


def test_the_check_finds_a_number_that_no_run_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.txt").write_text("ratio 12.34, share 0.977, n=1,000 images, 39% of all\n", encoding="utf8")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert unshown("12.3 times, .977, 97.7 %, 1,000 images, .39 <!-- from: run.txt -->", ["run.txt"]) == []
    assert unshown("12.4 times and .976 of 1,001", ["run.txt"]) == ["12.4", ".976", "1,001"]
    assert blocks("a .5\n\n<!-- defined -->\n\n- b\n- c\n") == ["a .5\n<!-- defined -->", "- b", "- c\n"]
