"""The four integrated-gradients maps of a CIFAR ResNet-18, against captum with the same noise.

Reference: captum's IntegratedGradients once and NoiseTunnel three times (smoothgrad, smoothgrad_sq, vargrad), each
given the very noise that this package draws. Both run the same network with the same batch size, image by image, in
alternating order. Prints the ratio of the times, the largest difference of the maps, and n. On a CPU, times are those
of the process (other work on the machine does not count); wall time stands beside them.

    python benchmarks/integrated_gradients.py            # 50 steps, 15 noisy copies; minutes on one thread
    python benchmarks/integrated_gradients.py --quick    # the same at 10 steps and 4 copies; seconds
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from _common import Record, environment, parser
from captum.attr import IntegratedGradients, NoiseTunnel

import roadworthy as rw
from roadworthy.attribution.ensemble import NOISE
from roadworthy.forward import Classifier
from roadworthy.model.resnet_cifar import CifarResNet18
from roadworthy.rng import normal_fields

MEMBERS = {"ig-sg": "smoothgrad", "ig-sq": "smoothgrad_sq", "ig-var": "vargrad"}
NORMALIZE = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@dataclass(frozen=True)
class Task:
    """What both sides compute."""

    model: torch.nn.Module
    settings: rw.attribution.Settings
    batch: int
    device: torch.device


@contextlib.contextmanager
def given_noise(fields: torch.Tensor) -> Iterator[None]:
    """Let captum's NoiseTunnel draw these standard normal fields instead of new ones."""
    original = torch.normal
    torch.normal = lambda mean, std: mean + std * fields.to(std.device).reshape(std.shape)
    try:
        yield
    finally:
        torch.normal = original


def captum_maps(task: Task, image: torch.Tensor, target: int, sample: str) -> dict[str, np.ndarray]:
    settings = task.settings
    classifier = Classifier(task.model, normalize=NORMALIZE)
    image = image.to(task.device)
    common = {
        "baselines": torch.full_like(image, 0.5),
        "target": target,
        "n_steps": settings.ig_steps,
        "internal_batch_size": task.batch,
    }
    explainer = IntegratedGradients(classifier.forward)
    maps = {"ig": explainer.attribute(image, **common)}
    fields = torch.from_numpy(normal_fields(0, NOISE, [sample], (settings.samples, *image.shape[1:])))
    for name, kind in MEMBERS.items():
        with given_noise(fields):
            maps[name] = NoiseTunnel(explainer).attribute(
                image, nt_type=kind, nt_samples=settings.samples, stdevs=settings.noise * NORMALIZE[1][0], **common
            )
    return {name: values.detach().float().cpu().numpy() for name, values in maps.items()}


def own_maps(task: Task, image: torch.Tensor, target: int, sample: str) -> dict[str, np.ndarray]:
    return rw.attribute(
        task.model,
        image,
        ["ig", *MEMBERS],
        target=[target],
        ids=[sample],
        seed=0,
        max_batch=task.batch,
        normalize=NORMALIZE,
        settings=task.settings,
    )


def measure(task: Task, images: torch.Tensor, record: Record) -> None:
    names = ["ig", *MEMBERS]
    seconds: dict[str, list[float]] = {"captum": [], "own": []}
    wall = {"captum": 0.0, "own": 0.0}
    clock = time.process_time if task.device.type == "cpu" else time.perf_counter
    absolute, relative = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    sides = {"captum": captum_maps, "own": own_maps}
    for row in range(len(images)):
        found = {}
        for side in sorted(sides, reverse=bool(row % 2)):
            started, wall_started = clock(), time.perf_counter()
            found[side] = sides[side](task, images[row : row + 1], row % 10, str(row))
            seconds[side].append(clock() - started)
            wall[side] += time.perf_counter() - wall_started
        for name in names:
            difference = float(np.abs(found["own"][name] - found["captum"][name]).max())
            absolute[name] = max(absolute[name], difference)
            relative[name] = max(relative[name], difference / float(np.abs(found["captum"][name]).max()))
        ratio = seconds["captum"][-1] / seconds["own"][-1]
        record.line(
            f"image {row}: captum {seconds['captum'][-1]:.2f} s, own {seconds['own'][-1]:.2f} s, ratio {ratio:.2f}"
        )
    settings = task.settings
    record.line(
        f"n = {len(images)} images 3x32x32, {settings.ig_steps} steps, {settings.samples} noisy copies, batch "
        f"{task.batch}, {task.device}, {torch.get_num_threads()} thread(s); times of the process"
    )
    for name in names:
        record.line(
            f"{name:>7}: largest difference {absolute[name]:.2e}, relative to the map's maximum {relative[name]:.2e}"
        )
    record.line(
        f"ratio {sum(seconds['captum']) / sum(seconds['own']):.2f} (reach 2.5), by wall time "
        f"{wall['captum'] / wall['own']:.2f}; differences to reach 1e-4"
    )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--images", type=int, default=1, help="number of images (default 1)")
    options.add_argument("--batch", type=int, default=64, help="images in one pass, both sides (default 64)")
    options.add_argument("--quick", action="store_true", help="10 steps, 4 copies")
    options.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = rw.attribution.presets["road"]
    if arguments.quick:
        settings = replace(settings, ig_steps=10, samples=4)
    model = CifarResNet18(3, 10).to(device).eval()
    task = Task(model, settings, arguments.batch, device)
    images = torch.rand(arguments.images, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    own_maps(replace(task, settings=replace(settings, ig_steps=2, samples=1)), images[:1], 0, "warm-up")
    record = Record("integrated_gradients")
    record.line(environment("roadworthy", "torch", "captum"))
    measure(task, images, record)
    if arguments.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
