"""Peak memory is set by ``max_batch``, not by the number of steps (field report 17)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import resource, sys
import torch
from roadworthy.attribution import Settings, attribute
torch.set_num_threads(1)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 4))
images = torch.rand(4, 3, 224, 224, generator=torch.Generator().manual_seed(0))
attribute(net, images, "ig", settings=Settings(ig_steps=int(sys.argv[1])), max_batch=32)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_peak_memory_of_integrated_gradients_does_not_grow_with_the_steps() -> None:
    peaks = {}
    for steps in (16, 512):
        run = subprocess.run(
            [sys.executable, "-c", CODE, str(steps)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        peaks[steps] = int(run.stdout)
    # 4 x 512 steps stacked would be 1.2 GB of inputs alone
    assert peaks[512] < 1.1 * peaks[16], peaks
