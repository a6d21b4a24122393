from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from roadworthy.errors import InputError, SolverError
from roadworthy.imputation import Outcome, Solution, solve, solvers
from roadworthy.imputation.operator import defect

FAST = ("multigrid", "multigrid-torch")


def exact_by_hand(image: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Fill by a dense solve of equations written out unit by unit: an oracle that shares no code."""
    height, width = removed.shape
    places = [tuple(place) for place in np.argwhere(removed)]
    matrix, right = np.zeros((len(places), len(places))), np.zeros((len(places), len(image)))
    for row, (y, x) in enumerate(places):
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                ny, nx = y + dy, x + dx
                if (dy, dx) == (0, 0) or not (0 <= ny < height and 0 <= nx < width):
                    continue
                weight = 1 / 12 if dy and dx else 1 / 6
                matrix[row, row] += weight
                if removed[ny, nx]:
                    matrix[row, places.index((ny, nx))] -= weight
                else:
                    right[row] += weight * image[:, ny, nx]
    filled = image.astype(np.float64)
    filled[:, removed] = np.linalg.solve(matrix, right).T
    return filled


def smooth_mask(height: int, width: int, share: float, seed: int, grain: float = 8.0) -> np.ndarray:
    field = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal((height, width)), grain)
    removed = np.zeros(field.size, dtype=bool)
    removed[np.argsort(-field, axis=None)[: int(share * field.size)]] = True
    return removed.reshape(height, width)


@pytest.mark.parametrize("solver", ["direct", *FAST])
def test_all_exact_cases(shared: Path, solver: str) -> None:
    cases = np.load(shared / "data" / "imputation" / "exact.npz", allow_pickle=False)
    names = sorted({key.split("/")[0] for key in cases})
    assert len(names) == 36
    for name in names:
        image, removed = torch.from_numpy(cases[f"{name}/image"]), torch.from_numpy(cases[f"{name}/removed"])
        filled = solve(image[None], removed[None], solver=solver).filled[0].numpy()
        assert np.abs(filled - cases[f"{name}/filled"]).max() <= 1e-4, name
        assert np.array_equal(filled[:, ~removed.numpy()], image.numpy()[:, ~removed.numpy()])


@pytest.mark.parametrize("solver", ["direct", *FAST])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.95])
def test_against_equations_written_by_hand(solver: str, share: float) -> None:
    rng = np.random.default_rng(11)
    image, removed = rng.random((2, 9, 7)), rng.random((9, 7)) < share
    tensor = torch.from_numpy(image)[None]
    filled = solve(tensor, torch.from_numpy(removed)[None], solver=solver).filled
    assert np.abs(filled[0].numpy() - exact_by_hand(image, removed)).max() <= (1e-12 if solver == "direct" else 1e-4)


@pytest.mark.parametrize("solver", FAST)
@pytest.mark.parametrize("grain", [3.0, 8.0, 30.0])
def test_large_smooth_holes_are_within_the_tolerance(solver: str, grain: float) -> None:
    rng = np.random.default_rng(13)
    image = torch.from_numpy(rng.random((1, 1, 192, 160), dtype=np.float32))
    removed = torch.from_numpy(smooth_mask(192, 160, 0.9, 14, grain))[None]
    exact = solve(image, removed, solver="direct").filled
    solution = solve(image, removed, solver=solver)
    assert (solution.filled - exact).abs().max() <= 1e-4
    assert solution.cycles.max() <= 6


def awkward_masks() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(17)
    masks = {name: np.ones((96, 80), dtype=bool) for name in ("two corners", "lines", "grid", "border", "one kept")}
    masks["two corners"][0, 0] = masks["two corners"][-1, -1] = False
    masks["lines"][::16] = False
    masks["grid"][::9] = masks["grid"][:, ::7] = False
    masks["border"][[0, -1]] = masks["border"][:, [0, -1]] = False
    masks["one kept"][40, 33] = False
    masks["stripes"] = np.tile(np.arange(80) % 2 == 1, (96, 1))
    masks["scattered 1 % kept"] = rng.random((96, 80)) < 0.99
    masks["one removed"] = np.zeros((96, 80), dtype=bool)
    masks["one removed"][0, 79] = True
    return masks


@pytest.mark.parametrize("solver", FAST)
@pytest.mark.parametrize("name", sorted(awkward_masks()))
def test_awkward_masks(solver: str, name: str) -> None:
    removed = torch.from_numpy(awkward_masks()[name])[None]
    image = torch.linspace(0, 1, 96 * 80).view(1, 1, 96, 80).sin()
    exact = solve(image.double(), removed, solver="direct").filled
    assert (solve(image, removed, solver=solver).filled - exact).abs().max() <= 1e-4


@pytest.mark.parametrize("solver", FAST)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 2), (1, 2, 1, 301), (1, 1, 301, 1), (1, 1, 2, 257), (2, 3, 5, 3), (1, 1, 40, 41)]
)
def test_thin_and_odd_shapes(solver: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(19)
    images = torch.from_numpy(rng.random(shape))
    removed = torch.from_numpy(rng.random((shape[0], *shape[2:])) < 0.9)
    removed[:, 0, 0] = False
    removed[:, -1, -1] = True
    exact = solve(images, removed, solver="direct").filled
    assert (solve(images, removed, solver=solver).filled - exact).abs().max() <= 1e-4


@pytest.mark.parametrize("solver", FAST)
def test_a_long_hole_in_a_series_is_a_straight_line(solver: str) -> None:
    series = torch.zeros(1, 1, 1000)
    series[0, 0, -1] = 1
    removed = torch.ones(1, 1000, dtype=torch.bool)
    removed[0, [0, -1]] = False
    line = torch.linspace(0, 1, 1000)
    assert (solve(series, removed, solver=solver).filled[0, 0] - line).abs().max() <= 1e-4


@pytest.mark.parametrize("solver", FAST)
def test_an_affine_image_is_reproduced_inside_its_border(solver: str) -> None:
    y, x = torch.meshgrid(torch.arange(60.0), torch.arange(70.0), indexing="ij")
    image = (3 * y - 2 * x + 5).expand(1, 1, 60, 70)
    removed = torch.ones(1, 60, 70, dtype=torch.bool)
    removed[:, [0, -1]] = False
    removed[:, :, [0, -1]] = False
    spread = image.max() - image.min()
    assert (solve(image, removed, solver=solver).filled - image).abs().max() <= 1e-4 * spread


def test_an_image_too_large_for_one_residual_is_refreshed() -> None:
    height, width = 520, 530
    image = torch.rand(1, 1, height, width, generator=torch.Generator().manual_seed(3))
    removed = torch.from_numpy(smooth_mask(height, width, 0.9, 5, 25.0))[None]
    slow = solve(image, removed, solver="multigrid-torch", tolerance=1e-6).filled
    fast = solve(image, removed).filled
    assert (slow - fast).abs().max() <= 1e-4
    assert defect(fast, removed).abs().max() <= 1e-4


@pytest.mark.parametrize("solver", FAST)
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (255.0, 0.0), (1e-4, 0.0), (1.0, 1000.0), (1e30, -1e29)])
def test_the_tolerance_is_a_share_of_the_range(solver: str, scale: float, shift: float) -> None:
    rng = np.random.default_rng(23)
    images = torch.from_numpy(rng.random((1, 2, 30, 31)) * scale + shift)
    removed = torch.from_numpy(rng.random((1, 30, 31)) < 0.8)
    exact = solve(images, removed, solver="direct").filled
    assert (solve(images, removed, solver=solver).filled - exact).abs().max() <= 1e-4 * scale


@pytest.mark.parametrize("solver", FAST)
def test_a_range_that_overflows_float64_is_filled_within_it(solver: str) -> None:
    images = torch.tensor([[[[-1.5e308, 0.0, 1.5e308]]]], dtype=torch.float64)
    removed = torch.tensor([[[False, True, False]]])
    assert abs(solve(images, removed, solver=solver).filled[0, 0, 0, 1].item()) <= 3e304


@pytest.mark.parametrize("solver", FAST)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtype_in_is_dtype_out_and_kept_units_are_bit_equal(solver: str, dtype: torch.dtype) -> None:
    images = torch.rand(2, 3, 17, 12, generator=torch.Generator().manual_seed(5)).to(dtype)
    removed = torch.rand(2, 17, 12, generator=torch.Generator().manual_seed(6)) < 0.5
    filled = solve(images, removed, solver=solver).filled
    assert filled.dtype == dtype
    kept = (~removed)[:, None].expand_as(images)
    assert torch.equal(filled[kept], images[kept])


@pytest.mark.parametrize("solver", FAST)
def test_a_mask_for_each_channel_is_as_many_images_of_one_channel(solver: str) -> None:
    images = torch.rand(2, 3, 20, 14, generator=torch.Generator().manual_seed(7))
    removed = torch.rand(2, 3, 20, 14, generator=torch.Generator().manual_seed(8)) < 0.6
    together = solve(images, removed, solver=solver).filled
    apart = solve(images.view(6, 1, 20, 14), removed.view(6, 20, 14), solver=solver).filled
    assert torch.allclose(together, apart.view_as(images), rtol=0, atol=1e-6)


def test_any_batch_size_order_and_number_of_threads_give_the_same_bits() -> None:
    rng = np.random.default_rng(29)
    images = torch.from_numpy(rng.random((7, 3, 40, 33), dtype=np.float32))
    removed = torch.from_numpy(np.stack([smooth_mask(40, 33, share, 3, 4.0) for share in np.linspace(0, 0.97, 7)]))
    whole = solve(images, removed).filled
    single = torch.cat([solve(images[i : i + 1], removed[i : i + 1]).filled for i in range(7)])
    backwards = solve(images.flip(0), removed.flip(0)).filled.flip(0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        spread = solve(images, removed).filled
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(whole, single)
    assert torch.equal(whole, backwards)
    assert torch.equal(whole, spread)


def test_the_torch_solver_does_not_mix_images() -> None:
    rng = np.random.default_rng(29)
    images = torch.from_numpy(rng.random((5, 3, 40, 33), dtype=np.float32))
    removed = torch.from_numpy(np.stack([smooth_mask(40, 33, share, 3, 4.0) for share in np.linspace(0, 0.97, 5)]))
    whole = solve(images, removed, solver="multigrid-torch").filled
    single = torch.cat(
        [solve(images[i : i + 1], removed[i : i + 1], solver="multigrid-torch").filled for i in range(5)]
    )
    assert torch.allclose(whole, single, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", FAST)
def test_a_warm_start_gives_the_same_answer(solver: str) -> None:
    rng = np.random.default_rng(31)
    images = torch.from_numpy(rng.random((2, 3, 64, 48), dtype=np.float32))
    field = ndimage.gaussian_filter(rng.standard_normal((2, 64, 48)), (0, 5, 5))
    smaller, larger = (torch.from_numpy(field > np.quantile(field, 1 - p)) for p in (0.5, 0.7))
    before = solve(images, smaller, solver=solver).filled
    warm = solve(images, larger, solver=solver, previous=before).filled
    exact = solve(images, larger, solver="direct").filled
    assert (warm - exact).abs().max() <= 1e-4
    assert torch.equal(before, solve(images, smaller, solver=solver).filled)  # the start was not changed


@pytest.mark.parametrize("solver", FAST)
def test_starting_from_the_answer_takes_one_cycle(solver: str) -> None:
    images = torch.rand(1, 2, 48, 48, generator=torch.Generator().manual_seed(9))
    removed = torch.from_numpy(smooth_mask(48, 48, 0.7, 1, 5.0))[None]
    answer = solve(images, removed, solver=solver, tolerance=1e-6).filled
    assert solve(images, removed, solver=solver, previous=answer).cycles.max() == 1


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_properties(data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 24)), data.draw(st.integers(1, 24))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    images = rng.standard_normal((2, 2, height, width)).astype(data.draw(st.sampled_from([np.float32, np.float64])))
    removed = rng.random((2, height, width)) < data.draw(st.floats(0, 1))
    removed[:, rng.integers(height), rng.integers(width)] = False
    before = images.copy(), removed.copy()
    solver = data.draw(st.sampled_from(FAST))
    filled = solve(torch.from_numpy(images), torch.from_numpy(removed), solver=solver).filled.numpy()
    for image, mask, fill in zip(images, removed, filled, strict=True):
        for channel, values in zip(image, fill, strict=True):
            assert np.array_equal(values[~mask], channel[~mask])
            assert values.min() >= channel[~mask].min()
            assert values.max() <= channel[~mask].max()
    assert np.array_equal(images, before[0])
    assert np.array_equal(removed, before[1])
    flipped = solve(
        torch.from_numpy(images[:, :, ::-1].copy()), torch.from_numpy(removed[:, ::-1].copy()), solver=solver
    )
    spread = images.max() - images.min()
    assert np.abs(flipped.filled.numpy()[:, :, ::-1] - filled).max() <= 2e-4 * spread


@pytest.mark.parametrize("solver", FAST)
def test_a_rough_answer_is_within_the_kept_values_too(solver: str) -> None:
    generator = torch.Generator().manual_seed(37)
    images = (torch.rand(20, 1, 24, 24, generator=generator) < 0.5).float()
    removed = torch.rand(20, 24, 24, generator=generator) < 0.7
    filled = solve(images, removed, solver=solver, tolerance=10.0).filled
    assert filled.min() >= 0
    assert filled.max() <= 1


@pytest.mark.parametrize("solver", ["direct", *FAST])
def test_everything_removed_is_singular(solver: str) -> None:
    images, removed = torch.rand(3, 2, 4, 4), torch.zeros(3, 4, 4, dtype=torch.bool)
    removed[1] = True
    with pytest.raises(SolverError, match=r"singular in 1 of 3 images \(index 1\).*every unit is removed.*mean="):
        solve(images, removed, solver=solver)
    solution = solve(images, removed, solver=solver, throw=False)
    assert solution.outcomes.tolist() == [[0, 0], [Outcome.SINGULAR] * 2, [0, 0]]
    assert solution.filled[1].isnan().all()
    assert torch.equal(solution.filled[0], images[0])


@pytest.mark.parametrize("solver", ["direct", *FAST])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_kept_value_that_is_not_finite_names_the_image(solver: str, dtype: torch.dtype, value: float) -> None:
    images, removed = torch.rand(4, 2, 5, 5).to(dtype), torch.zeros(4, 5, 5, dtype=torch.bool)
    removed[:, 2, 2] = True
    images[2, 1, 0, 0] = value
    with pytest.raises(SolverError, match=r"nonfinite_input in 1 of 4 images \(index 2\).*NaN or infinite"):
        solve(images, removed, solver=solver)
    solution = solve(images, removed, solver=solver, throw=False)
    assert solution.outcomes.tolist() == [[0, 0], [0, 0], [0, Outcome.NONFINITE_INPUT], [0, 0]]
    assert solution.filled[3].isfinite().all()
    assert solution.filled[2, 1, 2, 2].isnan()


@pytest.mark.parametrize("solver", ["direct", *FAST])
def test_removed_values_are_not_read(solver: str) -> None:
    images, removed = torch.rand(1, 2, 6, 6), torch.zeros(1, 6, 6, dtype=torch.bool)
    removed[:, 2:4, 2:4] = True
    expected = solve(images, removed, solver=solver).filled
    images[:, :, 2:4, 2:4] = float("nan")
    assert torch.equal(solve(images, removed, solver=solver).filled, expected)


@pytest.mark.parametrize("solver", FAST)
def test_too_few_cycles_is_an_outcome_with_the_last_iterate(solver: str) -> None:
    images = torch.rand(2, 1, 64, 64, generator=torch.Generator().manual_seed(2))
    removed = torch.from_numpy(smooth_mask(64, 64, 0.9, 2))[None].repeat(2, 1, 1)
    removed[0] = False
    with pytest.raises(
        SolverError, match=r"max_cycles in 1 of 2 images \(index 1\) \(after 1 cycles.*raise max_cycles"
    ):
        solve(images, removed, solver=solver, max_cycles=1)
    solution = solve(images, removed, solver=solver, max_cycles=1, throw=False)
    assert solution.outcomes.tolist() == [[0], [Outcome.MAX_CYCLES]]
    assert solution.corrections[1, 0] > 1e-4
    assert solution.filled.isfinite().all()


def test_wrong_settings_are_refused() -> None:
    images, removed = torch.rand(1, 1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool)
    with pytest.raises(InputError, match="tolerance: got 0"):
        solve(images, removed, tolerance=0)
    with pytest.raises(InputError, match="max_cycles: got 0"):
        solve(images, removed, max_cycles=0)
    with pytest.raises(InputError, match=r"Did you mean 'multigrid'"):
        solve(images, removed, solver="multigird")
    with pytest.raises(InputError, match=r"previous: shape \(1, 1, 4, 5\)"):
        solve(images, removed, previous=torch.rand(1, 1, 4, 5))


def test_a_callable_is_a_solver() -> None:
    calls = []

    def counted(*args: object, **settings: object) -> Solution:
        calls.append(settings)
        return solvers["direct"](*args, **settings)

    solve(torch.rand(1, 1, 4, 4), torch.zeros(1, 4, 4, dtype=torch.bool), solver=counted, tolerance=0.5)
    assert calls == [{"tolerance": 0.5, "max_cycles": 60, "previous": None}]


def test_gradients_and_strides_do_not_matter() -> None:
    images = torch.rand(2, 8, 9, 3).movedim(-1, 1).requires_grad_()
    removed = torch.rand(2, 9, 8).transpose(1, 2) < 0.5
    removed[:, 0, 0] = False
    filled = solve(images, removed).filled
    assert torch.equal(filled, solve(images.detach().contiguous(), removed.contiguous()).filled)
    assert not filled.requires_grad
