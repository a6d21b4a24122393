"""Ranks over epochs: the rule is followed to its edges, and noise alone is rarely called a rise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

from roadworthy.errors import DataError, InputError
from roadworthy.probe import EpochRanks, Scores, read_epochs, write_scores

STEPS = np.arange(1, 21)


def test_rank_five_rises_while_rank_one_stands_still() -> None:
    found = EpochRanks.of(STEPS, {5: 0.5 + STEPS / 100, 1: np.full(20, 0.4)})
    assert found.k == (1, 5)
    assert found.window == (11, 20)
    assert [trend.word for trend in found.trends] == ["stands still", "rises"]
    assert found.trends[1].change == pytest.approx(0.09)
    assert found.sentence.startswith(
        "Rank-5 rises while rank-1 stands still: over epochs 11 to 20 rank-1 changes by +0.0 points, rank-5 by +9.0 "
        "points."
    )


@pytest.mark.parametrize(
    ("one", "five", "words"),
    [
        (STEPS / 100, STEPS / 100, ["rises", "rises"]),
        (0.5 - STEPS / 100, 0.9 + 0 * STEPS, ["falls", "stands still"]),
        (0.5 + 0.0009 * STEPS, 0.9 + 0 * STEPS, ["stands still", "stands still"]),
        (0.5 + 0.2 * (STEPS % 2), 0.9 + 0 * STEPS, ["stands still", "stands still"]),
    ],
)
def test_other_courses(one: np.ndarray, five: np.ndarray, words: list[str]) -> None:
    found = EpochRanks.of(STEPS, {1: one, 5: five})
    assert [trend.word for trend in found.trends] == words
    assert "while" not in found.sentence
    assert found.sentence.startswith(f"Rank-1 {words[0]}; rank-5 {words[1]}: over epochs 11 to 20")


def test_a_large_change_by_chance_cannot_be_told() -> None:
    shares = np.array([0.1, 0.5, 0.2, 0.6, 0.3])
    found = EpochRanks.of([1, 2, 3, 4, 5], {1: shares})
    assert kendalltau(np.arange(5), shares).pvalue > 0.05
    assert found.trends[0].word == "cannot be told"


def test_one_odd_epoch_is_no_rise() -> None:
    five = np.full(20, 0.8)
    five[-1] = 1.0
    assert EpochRanks.of(STEPS, {1: np.full(20, 0.4), 5: five}).trends[1].word == "stands still"


def test_noise_alone_is_rarely_a_rise() -> None:
    rng = np.random.default_rng(0)
    called = [
        EpochRanks.of(STEPS, {1: rng.normal(0.5, 0.02, 20).clip(0, 1)}).trends[0].word in ("rises", "falls")
        for _ in range(300)
    ]
    assert np.mean(called) <= 0.07


def test_order_of_the_rows_changes_nothing_and_few_epochs_say_so() -> None:
    rng = np.random.default_rng(0)
    shares = rng.uniform(size=20)
    order = rng.permutation(20)
    one, other = EpochRanks.of(STEPS, {1: shares}), EpochRanks.of(STEPS[order], {1: shares[order]})
    assert one.as_dict() == other.as_dict()
    few = EpochRanks.of([1, 2, 3, 4], {1: [0.1, 0.2, 0.3, 0.4]})
    assert few.trends == ()
    assert few.sentence == "4 epochs are too few to tell how the ranks move; 5 are needed."
    assert EpochRanks.of(range(5), {1: np.linspace(0, 1, 5)}).trends[0].word == "rises"
    assert EpochRanks.of(range(6), {1: np.linspace(0, 1, 6)}).window == (1, 5)
    json.dumps(one.as_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("epochs", "accuracy", "message"),
    [
        ([1, 1], {1: [0.1, 0.2]}, "some come twice"),
        ([1, 2], {1: [0.1, 20]}, "shares from 0 to 1; of percentages"),
        ([1, 2], {1: [0.1, np.nan]}, "shares from 0 to 1"),
        ([1, 2], {1: [0.1]}, "for 2 epochs"),
        ([], {1: []}, "0 epochs"),
        ([1.5, 2], {1: [0.1, 0.2]}, "epochs"),
    ],
)
def test_what_cannot_be_used_is_named(epochs: list, accuracy: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EpochRanks.of(epochs, accuracy)


@pytest.mark.parametrize("header", ["epoch,rank1,rank5", "Epoch,Rank-1,rank_5,loss", "epoch,top1,top5"])
def test_tables_are_read(tmp_path: Path, header: str) -> None:
    lines = [f"{epoch},{epoch / 100},{epoch / 50}{',1' * (header.count(',') - 2)}" for epoch in range(1, 8)]
    (tmp_path / "a.csv").write_text("\n".join([header, *lines]))
    found = read_epochs(tmp_path / "a.csv")
    assert found.k == (1, 5)
    np.testing.assert_allclose(found.table["rank5"], np.arange(1, 8) / 50)


def test_files_that_hold_no_epochs(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        read_epochs(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("epoch,loss\n1,2\n")
    with pytest.raises(DataError, match="expected 'epoch', 'rank1' and 'rank5'"):
        read_epochs(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("key,training,epoch,top1\na,first,1,.5\nb,second,1,.6\n")
    with pytest.raises(InputError, match=r"several trainings \('first', 'second'\)"):
        read_epochs(tmp_path / "c.csv")
    for name in ("second", "b"):
        assert read_epochs(tmp_path / "c.csv", training=name).accuracy.tolist() == [[0.6]]
    with pytest.raises(InputError, match="Unknown training 'seconds'. Did you mean 'second'"):
        read_epochs(tmp_path / "c.csv", training="seconds")
    (tmp_path / "d.csv").write_text("epoch,rank1\n1,high\n")
    with pytest.raises(InputError, match=r"d\.csv: "):
        read_epochs(tmp_path / "d.csv")
    (tmp_path / "e").mkdir()
    with pytest.raises(DataError, match="no file of scores with an epoch in its name"):
        read_epochs(tmp_path / "e")


def test_a_folder_of_scores(tmp_path: Path) -> None:
    labels = np.arange(60) % 6
    for epoch in range(1, 8):
        scores = np.zeros((60, 6))
        scores[np.arange(60), labels] = np.arange(60) < 8 * epoch
        scores[:, 0] += 0.5
        write_scores(Scores.of(scores, labels), tmp_path / f"run2-epoch-{epoch:02d}.npz")
    (tmp_path / "notes.txt").write_text("9")
    found = read_epochs(tmp_path)
    assert found.epochs.tolist() == list(range(1, 8))
    assert found.k == (1, 5)
    right = [((np.arange(60) < 8 * epoch) | (labels == 0)).mean() for epoch in range(1, 8)]
    np.testing.assert_allclose(found.accuracy[:, 0], right)
