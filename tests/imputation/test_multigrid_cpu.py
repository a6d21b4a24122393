from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from roadworthy.imputation import kernels_multigrid, multigrid_cpu, solve
from roadworthy.imputation.multigrid import chebyshev_steps


def test_no_cache_directory_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def njit(**options: Any) -> Any:
        seen.append(options.get("cache", False))
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(kernels_multigrid, "njit", njit)
    assert kernels_multigrid._compile().__name__ == "solve_batch"
    assert seen == [True, False]


def test_a_cache_that_cannot_be_written_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = kernels_multigrid.solve_batch, []

    def full_disk(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("no space left on device")
        real(*arguments)

    images, removed = torch.rand(1, 1, 8, 8), torch.zeros(1, 8, 8, dtype=torch.bool)
    removed[0, 3, 3] = True
    expected = solve(images, removed).filled
    monkeypatch.setattr(kernels_multigrid, "solve_batch", full_disk)
    assert torch.equal(solve(images, removed).filled, expected)
    assert len(calls) == 2


def test_planes_do_not_overlap_and_rows_are_separated() -> None:
    for height, width in ((1, 1), (1, 300), (7, 5), (224, 224), (655, 1280)):
        levels, total = multigrid_cpu._geometry(height, width)
        assert levels[0, :2].tolist() == [height, width]
        assert levels[-1, :2].max() <= 2
        for rows, columns, stride, _, size in levels:
            assert stride > columns
            assert size >= (rows + 2) * stride
        ends = levels[:, 3] + levels[:, 4]
        assert (levels[1:, 3] >= ends[:-1]).all()
        assert ends[-1] < total
    assert total < 2 * 655 * 1280  # linear in units


def test_the_steps_shrink_oscillating_errors() -> None:
    steps = chebyshev_steps(0.2, 1.5, 3).astype(np.float64)
    eigenvalues = np.linspace(2 / 3, 4 / 3, 200)
    assert np.abs(np.prod(1 - np.outer(eigenvalues, steps), axis=1)).max() < 0.2
    whole = np.abs(np.prod(1 - np.outer(np.linspace(0.2, 1.5, 200), steps), axis=1)).max()
    assert whole == pytest.approx(1 / np.cosh(3 * np.arccosh(1.7 / 1.3)), rel=1e-6)


def test_importing_the_stage_is_light() -> None:
    code = "import sys, roadworthy.imputation; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert "torch" in loaded
    assert not loaded & {"numba", "captum", "torchvision", "zarr", "pyarrow", "plotly", "pydantic", "sklearn"}
