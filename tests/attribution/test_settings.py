"""Which settings each family of methods reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.attribution import Settings, attribute, methods
from roadworthy.attribution.settings import _READ_BY, read_by

ODD = Settings(
    ig_steps=3,
    ig_rule="uniform",
    baseline="black",
    samples=2,
    noise=0.3,
    noise_unit="pixel",
    guided_samples=3,
    guided_noise=0.4,
    gradcam_relu=True,
    shap_samples=3,
    shap_noise=0.2,
    occlusion_window=2,
    occlusion_stride=1,
    lrp_rule="epsilon",
    cells=3,
    lime_samples=15,
    kernel_shap_samples=15,
)


@pytest.mark.parametrize("method", sorted(methods))
def test_what_a_family_does_not_read_changes_nothing(method: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
        torch.nn.Linear(3, 4),
    ).eval()  # fmt: skip
    images = torch.rand(2, 1, 6, 6)
    family = methods[method].name
    read = read_by(ODD, family)
    one, two = (attribute(model, images, [method], settings=settings)[method] for settings in (ODD, read))
    assert np.array_equal(one, two)
    assert read_by(read, family) == read


def test_every_family_says_what_it_reads() -> None:
    families = {methods[name].name for name in methods}
    assert families == set(_READ_BY)
    assert read_by(ODD, "somebody's own") == ODD
