"""The figure of ranks over epochs shows every rank and the sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from roadworthy.probe import EpochRanks
from roadworthy.report.figures import save_figure
from roadworthy.report.rank_epochs import rank_epochs_figure

STEPS = np.arange(1, 11)


def test_the_figure_shows_the_shares(tmp_path: Path) -> None:
    ranks = EpochRanks.of(STEPS, {1: np.full(10, 0.4), 5: 0.5 + STEPS / 50, 10: np.full(10, 1.0)})
    figure = rank_epochs_figure(ranks)
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["rank-1", "rank-5", "rank-10"]
    for place, line in enumerate(axes.lines):
        np.testing.assert_array_equal(line.get_xdata(), ranks.epochs)
        np.testing.assert_array_equal(line.get_ydata(), ranks.accuracy[:, place])
    assert figure._suptitle.get_text().replace("\n", " ") == ranks.sentence
    written = save_figure(figure, tmp_path / "ranks")
    assert all(path.stat().st_size > 1000 for path in written.values())


def test_a_single_epoch_can_be_drawn(tmp_path: Path) -> None:
    save_figure(rank_epochs_figure(EpochRanks.of([3], {1: [0.5]})), tmp_path / "one")


def test_torch_is_never_loaded() -> None:
    code = "import sys, roadworthy.report.rank_epochs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
