"""What a run leaves behind: which files, which of them are left alone, and that no ranking is worked out twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import roadworthy.evaluation.scoring as scoring_module
from roadworthy.errors import InputError
from roadworthy.evaluation import Result, load_result
from roadworthy.report import report, verdict, write_all, write_pictures
from roadworthy.report.facts import shown_readouts

Make = Callable[..., Result]
PICTURES = {"curves.svg", "curves.png", "sheet.svg", "sheet.png", "report.html"}


def test_everything_of_a_run_takes_one_ranking_a_readout(
    make_result: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = scoring_module.rank_methods
    monkeypatch.setattr(scoring_module, "rank_methods", lambda *a, **k: calls.append(1) or real(*a, **k))
    result = make_result({"ig": 1.0, "random": 0.0}, n=60, samples=1)
    write_all(result, tmp_path / "run")
    verdict(result)
    result.ranking()
    assert len(calls) == len(shown_readouts(result)) == 4
    crossed = make_result({"a": (2.0, 0.2), "b": (0.2, 2.0)}, n=60, samples=1)
    write_all(crossed, tmp_path / "crossed")
    assert len(calls) == 8 + 2  # where the orders contradict each other, each is ranked by itself once


def test_pictures_of_a_saved_run_leave_its_own_files_alone(make_result: Make, tmp_path: Path) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=40, samples=1)
    result.save(tmp_path)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    written = write_pictures(load_result(tmp_path), tmp_path)
    assert set(written) == PICTURES
    assert {path.name for path in tmp_path.iterdir()} == PICTURES | set(before)
    for name, (content, when) in before.items():
        assert ((tmp_path / name).read_bytes(), (tmp_path / name).stat().st_mtime_ns) == (content, when)
    direct = report(result, tmp_path / "direct" / "report.html")
    assert written["report.html"].read_bytes() == direct.read_bytes()


def test_pictures_of_a_run_without_samples_replace_older_ones(make_result: Make, tmp_path: Path) -> None:
    write_pictures(make_result(n=40, samples=1), tmp_path)
    written = write_pictures(make_result(n=40, samples=0), str(tmp_path))
    assert set(written) == {path.name for path in tmp_path.iterdir()} == PICTURES - {"sheet.svg", "sheet.png"}


def test_pictures_need_a_folder(make_result: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing.*no folder"):
        write_pictures(make_result(n=40, samples=0), tmp_path / "missing")
