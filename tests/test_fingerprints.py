"""Fingerprints: equal for the same computation, in any process; different wherever the computation is."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from roadworthy.fingerprints import array_hash, callable_fingerprint, model_fingerprint, pixels_hash, stated_model

SCALE = 2.0


class Net(nn.Module):
    def __init__(self, power: int = 1, order: tuple[str, ...] = ("a",)) -> None:
        super().__init__()
        self.power, self.order = power, order
        self.fc = nn.Linear(2, 2)
        with torch.no_grad():
            self.fc.weight.copy_(torch.eye(2))
            self.fc.bias.zero_()
        self.register_buffer("mean", torch.zeros(2), persistent=False)

    def forward(self, values: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        return self.fc(values) ** self.power / temperature


class Told(nn.Module):
    """Keeps a list, which counts because its text tells it."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.sizes = sizes

    def extra_repr(self) -> str:
        return f"sizes={self.sizes}"


def changed(weight: float) -> Net:
    net = Net()
    with torch.no_grad():
        net.fc.weight += weight
    return net


def scaled(factor: Any) -> Any:
    return lambda images: images * factor


def helper_scale(images: Any) -> Any:
    return images * SCALE


class Filler:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, images: Any) -> Any:
        return images * 0 + self.value

    def fill(self, images: Any) -> Any:
        return self(images)


def test_the_fingerprint_tells_models_apart_by_their_state() -> None:
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    assert model_fingerprint(first) == model_fingerprint(first)
    assert model_fingerprint(first) != model_fingerprint(second)
    second.load_state_dict(first.state_dict())
    assert model_fingerprint(first) == model_fingerprint(second)
    assert model_fingerprint(first.bfloat16()) != model_fingerprint(second)
    other = Net()
    other.mean += 1
    assert model_fingerprint(other) != model_fingerprint(Net()), "a buffer that the state leaves out"


def test_and_by_what_the_state_does_not_hold() -> None:
    same, padded = nn.Conv2d(3, 4, 3, padding=0), nn.Conv2d(3, 4, 3, padding=1)
    padded.load_state_dict(same.state_dict())
    assert model_fingerprint(same) != model_fingerprint(padded)
    nets = [Net(), Net(power=2), Net(order=("b",)), nn.Sequential(Net()), nn.Sequential(nn.Identity(), Net())]
    override = Net()
    override.forward = lambda values: values  # type: ignore[method-assign]
    assert len({model_fingerprint(net) for net in [*nets, override]}) == 6
    assert model_fingerprint(Told([1])) == model_fingerprint(Told([1])) != model_fingerprint(Told([2]))
    assert model_fingerprint(Net().train()) == model_fingerprint(Net().eval())


def test_two_classes_of_one_name_differ_by_their_forward() -> None:
    def make(sign: int) -> nn.Module:
        if sign > 0:

            class Local(nn.Module):
                def forward(self, values: torch.Tensor) -> torch.Tensor:
                    return values

        else:

            class Local(nn.Module):  # type: ignore[no-redef]
                def forward(self, values: torch.Tensor) -> torch.Tensor:
                    return -values

        return Local()

    assert repr(make(1)) == repr(make(-1))
    assert model_fingerprint(make(1)) == model_fingerprint(make(1)) != model_fingerprint(make(-1))


def test_a_traced_module_counts_with_its_graph() -> None:
    first, again, other = (torch.fx.symbolic_trace(net) for net in (Net(), Net(), Net(power=3)))
    assert model_fingerprint(first) == model_fingerprint(again) != model_fingerprint(other)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: net.forward,
        lambda net: functools.partial(net),
        lambda net: functools.partial(functools.partial(net.forward, temperature=1.0)),
        lambda net: lambda values: net(values),
        lambda net: Filler(net),
        lambda net: Filler({"models": [net]}).fill,
    ],
)
def test_a_callable_counts_with_the_model_behind_it(wrap: Any) -> None:
    assert model_fingerprint(wrap(Net())) == model_fingerprint(wrap(Net()))
    assert model_fingerprint(wrap(Net())) != model_fingerprint(wrap(changed(1e-3)))


def test_callables_differ_by_what_they_compute() -> None:
    one, two = (lambda images: images + 1), (lambda images: images + 2)
    distinct = [
        one,
        two,
        lambda images: images - 1,
        lambda images: [image + 1 for image in images],
        lambda images: [image + 2 for image in images],
        lambda images, by=1: images + by,
        lambda images, by=2: images + by,
        lambda images, *, by=2: images + by,
        scaled(1),
        scaled(2),
        scaled("1"),
        scaled([1, 2]),
        scaled((1, 2)),
        scaled({"a": 1}),
        scaled({1, 2}),
        scaled(np.zeros(3)),
        scaled(np.zeros(3, np.float32)),
        scaled(torch.zeros(3)),
        scaled(one),
        scaled(two),
        functools.partial(helper_scale),
        functools.partial(helper_scale, images=1),
        functools.lru_cache(helper_scale),
        Filler(1),
        Filler(2),
        Filler(1).fill,
        Net().forward,
        functools.partial(Net().forward, temperature=2.0),
        len,
        sum,
        "a".join,
        Filler,
    ]
    found = [callable_fingerprint(function) for function in distinct]
    assert len(set(found)) == len(distinct)
    assert found == [callable_fingerprint(function) for function in distinct]
    assert callable_fingerprint(scaled([1, 2])) == callable_fingerprint(scaled([1, 2]))
    assert callable_fingerprint(len).startswith("builtins:len:")
    assert callable_fingerprint(functools.partial(len)).startswith("builtins:len:")
    assert callable_fingerprint(Filler(1)).split(":")[1] == "Filler"


def test_globals_that_a_function_names_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls_helper(images: Any) -> Any:
        return helper_scale(images)

    before = callable_fingerprint(calls_helper)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert callable_fingerprint(calls_helper) != before


def test_what_refers_to_itself_comes_to_an_end() -> None:
    holder: list[Any] = [1]
    holder.append(holder)

    def recursive(depth: int) -> Any:
        return holder if depth == 0 else recursive(depth - 1)

    assert callable_fingerprint(recursive) == callable_fingerprint(recursive)
    deep: Any = 0
    for _ in range(5000):
        deep = [deep]
    assert callable_fingerprint(scaled(deep)) == callable_fingerprint(scaled(deep))


CODE = """
import torch
from roadworthy.fingerprints import callable_fingerprint, model_fingerprint
def fill(images, names=frozenset(("mean", "zero", "noise")), thing=object()):
    return images in {"some", "words", "of", "a", "set"}
print(callable_fingerprint(fill), model_fingerprint(torch.nn.MaxPool2d(2)), callable_fingerprint(torch.relu))
"""


def test_other_processes_find_the_same() -> None:
    found = set()
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", CODE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        found.add(run.stdout)
    assert len(found) == 1


def test_pixels_are_hashed_evenly_and_in_runs() -> None:
    from roadworthy.evaluation.retrained import as_split

    images = torch.rand(50, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(50)

    def of(changed: int | None = None, run: int = 1, limit: int | None = 10) -> str:
        values = images.clone()
        if changed is not None:
            values[changed] = 0
        split = as_split("x", values, labels)
        split.source.run = run  # type: ignore[attr-defined]
        return pixels_hash(split, limit)

    assert of() == of()
    assert of(changed=0) != of()
    assert of(changed=49) != of()
    assert of(changed=49, run=5) != of(run=5)
    assert of(changed=3) == of()  # between two that are looked at
    assert all(of(changed=row, limit=None) != of(limit=None) for row in range(50))


def test_arrays_are_hashed_by_value_shape_and_type() -> None:
    values = np.arange(600.0).reshape(300, 2)
    assert array_hash(values) == array_hash(np.asfortranarray(values))
    assert array_hash(values) != array_hash(values.reshape(600, 1))
    assert array_hash(values) != array_hash(values.astype(np.float32))
    changed = values.copy()
    changed[299, 1] += 1
    assert array_hash(values) != array_hash(changed)


def test_a_model_that_no_hash_can_be_taken_of_is_stated_by_its_class() -> None:
    class Strange:
        def __call__(self, images: object) -> object:
            return images

        def __reduce__(self) -> object:
            raise RuntimeError

        @property
        def __dict__(self) -> dict:  # type: ignore[override]
            raise RuntimeError("nothing to see")

    with pytest.raises(RuntimeError):
        model_fingerprint(Strange())
    assert stated_model(Strange()) == "Strange"
