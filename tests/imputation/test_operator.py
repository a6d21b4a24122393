from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError
from roadworthy.imputation.direct import assemble
from roadworthy.imputation.operator import as_system, defect, neighbour_sums, over_channels


def test_weights_of_an_inner_unit_an_edge_and_a_corner() -> None:
    weights = neighbour_sums(torch.ones(1, 1, 4, 5, dtype=torch.float64))[0, 0]
    assert weights[1, 1].item() == pytest.approx(1)
    assert weights[0, 2].item() == pytest.approx(8 / 12)
    assert weights[0, 0].item() == pytest.approx(5 / 12)


def test_each_weight_by_hand() -> None:
    image = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    image[0, 0] = torch.tensor([[1, 10, 100], [1000, 5, 10000], [1e5, 1e6, 1e7]])
    expected = (1 + 100 + 1e5 + 1e7) / 12 + (10 + 1000 + 10000 + 1e6) / 6
    assert neighbour_sums(image)[0, 0, 1, 1].item() == pytest.approx(expected, rel=1e-15)


def test_the_matrix_is_the_operator() -> None:
    rng = np.random.default_rng(7)
    removed, image = rng.random((5, 6)) < 0.6, rng.random((5, 6))
    matrix, known = assemble(removed)
    ours = matrix @ image[removed] - known @ np.where(removed, 0, image).ravel()
    tensor, mask = torch.from_numpy(image)[None, None], torch.from_numpy(removed)[None]
    weights = neighbour_sums(torch.ones(1, 1, 5, 6, dtype=torch.float64))[0, 0].numpy()
    theirs = defect(tensor, mask)[0, 0].numpy() * weights
    np.testing.assert_allclose(ours, theirs[removed], atol=1e-14)
    assert abs(matrix - matrix.T).max() == 0


def test_masks_without_channels_broadcast() -> None:
    assert over_channels(torch.zeros(2, 3, 7), torch.zeros(2, 7, dtype=torch.bool)).shape == (2, 1, 7)
    assert over_channels(torch.zeros(2, 7), torch.zeros(2, 7, dtype=torch.bool)).shape == (2, 7)


def test_a_transposed_mask_is_refused_with_both_shapes() -> None:
    with pytest.raises(InputError, match=r"\(2, 6, 4\).*\(2, 3, 4, 6\).*\(2, 4, 6\)"):
        over_channels(torch.zeros(2, 3, 4, 6), torch.zeros(2, 6, 4, dtype=torch.bool))


def test_a_mask_of_numbers_is_refused() -> None:
    with pytest.raises(InputError, match=r"torch\.float32.*torch\.bool"):
        over_channels(torch.zeros(2, 3, 4, 6), torch.zeros(2, 4, 6))


@pytest.mark.parametrize("shape", [(3, 5), (0, 3, 4, 4), (1, 2, 3, 4, 5)])
def test_what_is_no_batch_of_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=str(shape)[1:-1]):
        as_system(torch.zeros(shape), torch.zeros(shape, dtype=torch.bool))


def test_integer_images_are_refused() -> None:
    with pytest.raises(InputError, match=r"torch\.uint8.*floating"):
        as_system(torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.zeros(1, 2, 2, dtype=torch.bool))
