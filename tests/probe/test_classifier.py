"""The classifier: scikit-learn's answers, the conditions of an optimum, and bit-equal scores after a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.probe import LogisticClassifier, fit_classifier, load_classifier
from roadworthy.probe.classifier import STRENGTHS


def drawn(classes: int, n: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    x = rng.normal(size=(n, 5)) * [1, 10, 0.1, 1, 1] + rng.normal(size=(classes, 5))[y] * [1, 10, 0.1, 1, 1]
    return x.astype(np.float32), y


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("standardise", [True, False])
def test_the_probabilities_are_those_of_a_pipeline(classes: int, standardise: bool) -> None:
    x, y = drawn(classes)
    steps = [StandardScaler()] * standardise + [LogisticRegression(C=0.5, max_iter=1000, tol=1e-8)]
    expected = make_pipeline(*steps).fit(x.astype(float), y).predict_proba(x.astype(float))
    found = fit_classifier(x, y, [str(label) for label in range(classes)], c=0.5, standardise=standardise)
    np.testing.assert_allclose(softmax(found.scores(x), axis=1), expected, atol=2e-3)
    assert (found.c, found.standardised, found.note) == (0.5, standardise, "")


@pytest.mark.parametrize("classes", [3])
def test_the_gradient_of_the_penalised_loss_vanishes(classes: int) -> None:
    x, y = drawn(classes)
    found = fit_classifier(x, y, ["a", "b", "c"], c=2.0)
    z = (x - found.mean) / found.scale
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-6)
    residual = softmax(found.scores(x), axis=1) - np.eye(classes)[y]
    gradient = residual.T @ z + found.weight / 2.0
    assert np.abs(gradient).max() < 0.05
    assert np.abs(residual.sum(axis=0)).max() < 0.05


def test_classes_without_rows_are_never_answered() -> None:
    x, y = drawn(3)
    found = fit_classifier(x, 2 * y, list("abcdef"))
    scores = found.scores(x)
    assert np.isneginf(scores[:, [1, 3, 5]]).all()
    np.testing.assert_array_equal(scores[:, [0, 2, 4]], fit_classifier(x, y, list("abc")).scores(x))


def test_a_constant_feature_says_nothing() -> None:
    x, y = drawn(2)
    wide = np.hstack([x, np.full((len(x), 1), 0.1, np.float32)])
    found = fit_classifier(wide, y, ["a", "b"])
    assert found.scale[-1] == 1
    assert np.isfinite(found.scores(wide + 1e3)).all()
    np.testing.assert_allclose(found.scores(wide), fit_classifier(x, y, ["a", "b"]).scores(x), atol=1e-3)


def test_a_file_gives_bit_equal_scores(tmp_path: Path) -> None:
    x, y = drawn(4)
    names = ["cat", "Hündin", "c", "d", "never"]
    found = fit_classifier(x, y, names, c="cross-validated")
    again = load_classifier(found.save(tmp_path / "deep" / "c.safetensors"))
    assert found.scores(x).tobytes() == again.scores(x).tobytes()
    assert again.label_names == tuple(names)
    assert (again.c, again.tried, again.standardised) == (found.c, found.tried, True)
    np.testing.assert_array_equal(found.seen, again.seen)


def test_cross_validation_looks_at_these_rows_alone_and_takes_the_best() -> None:
    x, y = drawn(3)
    found = fit_classifier(x, y, ["a", "b", "c"], c="cross-validated", seed=4)
    assert [c for c, _ in found.tried] == list(STRENGTHS)
    best = max(share for _, share in found.tried)
    assert found.c == min(c for c, share in found.tried if share == best)
    assert found.tried == fit_classifier(x, y, ["a", "b", "c"], c="cross-validated", seed=4).tried
    assert found.tried != fit_classifier(x, y, ["a", "b", "c"], c="cross-validated", seed=5).tried
    # noise alone: no strength can look better than the commonest class by much
    rng = np.random.default_rng(1)
    noise = fit_classifier(rng.normal(size=(60, 40)), y[:60], ["a", "b", "c"], c="cross-validated")
    assert max(share for _, share in noise.tried) < 0.6
    rare = np.where(np.arange(120) == 0, 2, y % 2)  # one class with a single row: folds of two, some without it
    assert fit_classifier(x, rare, ["a", "b", "c"], c="cross-validated").tried
    with pytest.raises(InputError, match="every class has a single row"):
        fit_classifier(x[:3], np.arange(3), ["a", "b", "c"], c="cross-validated")


def test_a_fit_that_does_not_end_says_so() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 30)) * np.logspace(-4, 6, 30)
    y = rng.integers(2, size=300)
    with pytest.warns(RoadworthyWarning, match="still changing after 1000 steps; standardise"):
        found = fit_classifier(x, y, ["a", "b"], c=1e8, standardise=False)
    assert "still changing" in found.note


@pytest.mark.parametrize("c", [0, -1.0, np.inf, np.nan, True, "cv"])
def test_strengths_that_cannot_be_used(c) -> None:
    x, y = drawn(2)
    with pytest.raises(InputError, match="expected a number above 0, or 'cross-validated'"):
        fit_classifier(x, y, ["a", "b"], c=c)


def test_one_class_and_other_features_are_refused(tmp_path: Path) -> None:
    x, y = drawn(2)
    with pytest.raises(InputError, match="all of the class 'b'.*stratified"):
        fit_classifier(x, np.ones(120, int), ["a", "b"])
    found = fit_classifier(x, y, ["a", "b"])
    with pytest.raises(InputError, match=r"got shape \(120, 4\), expected \(N, 5\)"):
        found.scores(x[:, :4])
    with pytest.raises(InputError, match=r"ends in \.safetensors"):
        found.save(tmp_path / "c.pkl")


def test_files_that_hold_no_classifier(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    x, y = drawn(2)
    with pytest.raises(DataError, match="no such file"):
        load_classifier(tmp_path / "none.safetensors")
    (tmp_path / "text.safetensors").write_text("text")
    save_file({"weight": np.ones(2)}, tmp_path / "other.safetensors")
    for name in ("text", "other"):
        with pytest.raises(DataError, match="holds no classifier"):
            load_classifier(tmp_path / f"{name}.safetensors")
    fitted = fit_classifier(x, y, ["a", "b"])
    for changed in ({"bias": np.ones(3)}, {"present": np.array([0, 7])}, {"seen": np.ones(3)}):
        arrays = {name: getattr(fitted, name) for name in ("weight", "bias", "mean", "scale", "present", "seen")}
        wrong = LogisticClassifier(**{**arrays, **changed}, label_names=("a", "b"), c=1.0, standardised=True)
        with pytest.raises(DataError, match="do not fit the rest"):
            load_classifier(wrong.save(tmp_path / "wrong.safetensors"))
    assert json.dumps(fitted.tried) == "[]"
