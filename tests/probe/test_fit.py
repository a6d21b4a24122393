"""A probe end to end: honest rows, classes that one part lacks, and what was fitted before is known again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from roadworthy.data import load_data
from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.probe import load_classifier, model_scores, probe_features, rank_k, read_features, score_features


def planted(n: int = 400, classes: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return (rng.normal(size=(n, 8)) + 4 * np.eye(classes, 8)[y]).astype(np.float32), y


def written(path: Path, x: np.ndarray, y: np.ndarray, names: list[str]) -> Path:
    with h5py.File(path, "w") as file:
        file["features"], file["labels"], file["label_names"] = x, y, names
    return path


def test_a_file_and_its_arrays_give_the_same(tmp_path: Path) -> None:
    x, y = planted()
    names = list("abcdef")
    one = probe_features(written(tmp_path / "a.h5", x, y, names))
    other = probe_features(x, y, label_names=names)
    assert one.scores.scores.tobytes() == other.scores.scores.tobytes()
    assert one.as_dict() == other.as_dict()
    assert one.rank.n == 100
    assert one.scores.ids == tuple(map(str, range(300, 400)))
    assert one.rank.accuracy[0] > 0.9
    assert not one.notes
    assert json.loads(json.dumps(one.as_dict(), allow_nan=False))["fitted"]["rows"] == 300


def test_the_answer_of_nearest_means_is_near() -> None:
    x, y = planted(n=800)
    found = probe_features(x, y)
    means = np.stack([x[:600][y[:600] == label].mean(axis=0) for label in range(6)])
    nearest = ((x[600:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert found.rank.accuracy[0] == pytest.approx((nearest == y[600:]).mean(), abs=0.02)


def test_labels_by_chance_give_chance() -> None:
    x, y = planted(n=1200)
    found = probe_features(x, np.random.default_rng(9).permutation(y), k=(1, 3))
    assert found.rank.low[0] < 1 / 6 < found.rank.high[0]
    assert found.rank.low[1] < 1 / 2 < found.rank.high[1]


def test_scored_rows_change_nothing_of_the_fit() -> None:
    x, y = planted()
    changed = x.copy()
    changed[300:] += 100
    one, other = probe_features(x, y, c="cross-validated"), probe_features(changed, y, c="cross-validated")
    assert one.classifier.weight.tobytes() == other.classifier.weight.tobytes()
    assert one.classifier.tried == other.classifier.tried


def test_a_file_sorted_by_class_is_named_with_the_way_out() -> None:
    x, y = planted()
    order = np.argsort(y, kind="stable")
    with pytest.warns(RoadworthyWarning, match="the rows are sorted by class, and .* order='stratified'"):
        found = probe_features(x[order], y[order])
    absent = found.as_dict()["fitted"]["absent"]
    assert absent == ["5"]
    rows = int((y == 5).sum())
    assert f"{rows} of 100 scored rows are of these classes" in found.notes[0]
    assert "1 of 6 classes ('5') never occur among the first 300 rows" in found.notes[0]
    assert found.rank.class_accuracy[5, 0] == 0
    assert found.rank.class_n[0] == 0
    assert "no sample of" in found.notes[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert probe_features(x[order], y[order], order="stratified").rank.accuracy[0] > 0.9


def test_an_unseen_class_shares_the_last_places() -> None:
    x, y = planted(classes=4)
    labels = np.where(np.arange(400) < 300, y % 3, 3)  # all scored rows are of a class never fitted
    with pytest.warns(RoadworthyWarning, match="100 of 100 scored rows are of these classes"):
        found = probe_features(x, labels, k=(1, 3, 4))
    assert found.rank.accuracy.tolist() == [0, 0, 1]


def test_the_seed_decides_and_the_row_order_of_a_file_matters() -> None:
    x, y = planted()
    one, same, other = (probe_features(x, y, order="stratified", seed=seed) for seed in (1, 1, 2))
    assert one.as_dict() == same.as_dict()
    assert one.parting.test.tolist() != other.parting.test.tolist()


def test_a_stored_classifier_scores_new_rows_and_knows_the_old(tmp_path: Path) -> None:
    x, y = planted()
    names = list("abcdef")
    found = probe_features(x, y, label_names=names)
    stored = load_classifier(found.classifier.save(tmp_path / "c.safetensors"))
    new = written(tmp_path / "new.h5", x[300:], y[300:], names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = score_features(stored, new)
    assert scores.scores.tobytes() == found.scores.scores.tobytes()
    with pytest.warns(RoadworthyWarning, match="300 of 400 rows are among those"):
        again = score_features(stored, written(tmp_path / "all.h5", x, y, names))
    assert "300 of 400" in again.notes[0]
    # classes in another order, and fewer of them
    turned = written(tmp_path / "turned.h5", x[300:], 5 - y[300:], names[::-1])
    assert score_features(stored, turned).labels.tolist() == y[300:].tolist()
    with pytest.raises(InputError, match="knows no class 'g'; it knows 'a'"):
        score_features(stored, written(tmp_path / "other.h5", x, y, ["g", *"bcdef"]))


def test_a_model_on_samples() -> None:
    data = load_data("digits")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    said = model_scores(net, data.test, label_names=data.classes, max_batch=100)
    np.testing.assert_allclose(said.scores, net(data.test.images).detach().numpy(), atol=1e-5)
    assert said.ids == tuple(data.test.ids)
    assert rank_k(said.scores, said.labels).n == 359
    with pytest.raises(InputError, match="3 class names"):
        model_scores(net, data.test, label_names=["a", "b", "c"])


def test_labels_come_once(tmp_path: Path) -> None:
    x, y = planted()
    with pytest.raises(InputError, match="an array of features came without"):
        probe_features(x)
    held = read_features(written(tmp_path / "a.h5", x, y, list("abcdef")))
    with pytest.raises(InputError, match="brings its own"):
        probe_features(held, y)
