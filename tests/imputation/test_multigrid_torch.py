from __future__ import annotations

import pytest
import torch

from roadworthy.imputation import multigrid_torch, solve


def problem(n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    images = torch.rand(n, 3, 33, 20, generator=generator)
    return images, torch.rand(n, 33, 20, generator=generator) < 0.7


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_convolution_is_the_sum_of_neighbours(dtype: torch.dtype) -> None:
    x = problem()[0].to(dtype)
    plain, convolved = multigrid_torch._sums(x), multigrid_torch._sums_by_convolution(x)
    assert convolved.dtype == dtype
    assert torch.allclose(plain, convolved, rtol=0, atol=1e-5)


def test_the_way_taken_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    images, removed = problem()
    exact = solve(images, removed, solver="direct").filled
    monkeypatch.setattr(multigrid_torch, "_sums", multigrid_torch._sums_by_convolution)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        filled = solve(images, removed, solver="multigrid-torch").filled
    assert filled.dtype == torch.float32
    assert (filled - exact).abs().max() <= 1e-4


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    images, removed = problem(5)
    removed[3] = True
    whole = solve(images, removed, solver="multigrid-torch", throw=False)
    monkeypatch.setattr(multigrid_torch, "_AT_ONCE", 2 * images[0].numel())
    parts = solve(images, removed, solver="multigrid-torch", throw=False)
    assert torch.allclose(whole.filled, parts.filled, rtol=0, atol=1e-6, equal_nan=True)
    assert (whole.outcomes == parts.outcomes).all()
    assert (whole.cycles == parts.cycles).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")
def test_on_a_gpu() -> None:
    images, removed = problem()
    exact = solve(images, removed, solver="direct").filled
    filled = solve(images.cuda(), removed.cuda()).filled
    assert filled.is_cuda
    assert (filled.cpu() - exact).abs().max() <= 1e-4
