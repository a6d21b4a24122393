"""Code of a user, for ``mypy --strict``: every name of the front door, with the types it must have.

It is never run; tests/test_typed.py has mypy read it. ``assert_type`` fails where a type is another, ``Any`` too.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any, assert_type

import numpy as np
import pandas as pd
import torch

import roadworthy as rw
from roadworthy.errors import InputError
from roadworthy.evaluation import Result
from roadworthy.labelfree import LabelFree, Outputs, load_labelfree
from roadworthy.records import Data, Split

assert_type(rw.__version__, str)

data = rw.load_data("digits", size=8, seed=0)
assert_type(data, Data)
assert_type(data.train, Split)
model = rw.load_model("digits-cnn", data)
images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4)

maps = rw.attribute(model, images, methods=["ig", "random"], target="predicted", seed=0, max_batch=256)
for name, values in maps.items():
    assert_type(name, str)
    assert_type(values, np.ndarray)

result = rw.evaluate(model, images, labels, ["ig"], strategy="road", fractions=(0.1, 0.5), order="both")
assert_type(result, Result)
assert_type(result.table, pd.DataFrame)
assert_type(result.per_sample, pd.DataFrame)
assert_type(result.ranking(), pd.DataFrame)
assert_type(result.warnings, list[str])
assert_type(result.intact_accuracy, float)
assert_type(result.save("run"), Path)
assert_type(rw.load_result("run"), Result)

assert_type(rw.report(result, "report.html", title="mine"), Path)
assert_type(rw.report("run"), Path)

said = Outputs.of(np.zeros(4))
judged = rw.labelfree(model, images, source=(images, labels), reliability=0.9)
assert_type(judged, LabelFree)
assert_type(judged.accuracy, tuple[float, float, float])
assert_type(judged.estimates, pd.DataFrame)
assert_type(judged.gates, pd.DataFrame)
assert_type(judged.verdict, list[str])
assert_type(load_labelfree("run"), LabelFree)
assert_type(rw.report(judged), Path)

assert_type(rw.to_mlflow(result, experiment="explainers", report="report.html"), str)
rw.to_tensorboard(judged, "log", tag="mine", step=3)

features = rw.extract_features(model, data, "features.h5")
rw.probe_features(features)
rw.rank_k(np.zeros((4, 3)), np.zeros(4))
rw.topk_accuracy(np.zeros((4, 3)), np.zeros(4), k=(1, 5))
rw.compare(["run", "other"])

filled = rw.imputation.impute(
    images, torch.zeros(4, 8, 8, dtype=torch.bool), method="noisy-linear", noise=0.01, seed=0
)
assert_type(filled, torch.Tensor)

parts: list[ModuleType] = [rw.attribution, rw.data, rw.errors, rw.evaluation, rw.imputation, rw.model, rw.probe]
parts += [rw.comparison, rw.removal, rw.statistics, rw.sweep, rw.tracking, rw.labelfree, rw.report]
try:
    rw.load_data("nothing")
except InputError as error:
    assert_type(error, InputError)


def my_method(network: Any, batch: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return batch.sum(dim=1)


rw.evaluate(model, images, labels, {"mine": my_method, "ig": "ig", "saved": np.zeros((4, 8, 8))})
print(rw.no_such_name)  # type: ignore[attr-defined]
rw.evaluate(model, images, labels, stratgy="road")  # type: ignore[call-arg]
rw.labelfree(model, images, relability=0.9)  # type: ignore[call-arg]
