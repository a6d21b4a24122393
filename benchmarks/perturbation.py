"""Perturbation consistency against a plain loop over the passes that keeps every probability: time and memory.

The loop draws noise for a whole batch from the global generator, keeps T x N x C probabilities and takes the
statistics at the end. Ours draws for each sample from its own stream and keeps sums. Random images of CIFAR size,
untrained networks: neither time nor memory depends on what they answer. Times are those of the process on one thread,
so that other work on the machine does not count; the two take turns.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch
from _common import Record, environment, parser

from roadworthy.labelfree.consistency import Consistency, perturbation_consistency
from roadworthy.labelfree.perturbation import Gaussian
from roadworthy.model.small_cnn import SmallCNN

SIGMA = 0.05


def loop(model: torch.nn.Module, images: torch.Tensor, passes: int) -> dict[str, np.ndarray]:
    """Keep every probability, then take the same statistics; returns all that it holds."""
    model.eval()
    with torch.no_grad():
        clean = np.concatenate([torch.softmax(model(part), 1).numpy() for part in images.split(256)])
        held = np.empty((passes, *clean.shape), dtype=np.float32)
        for number in range(passes):
            start = 0
            for part in images.split(256):
                noisy = (part + SIGMA * torch.randn_like(part)).clamp(0, 1)
                held[number, start : start + len(part)] = torch.softmax(model(noisy), 1).numpy()
                start += len(part)
    answers = held.argmax(axis=2)
    votes = np.stack([(answers == label).sum(axis=0) for label in range(clean.shape[1])], axis=1)
    top = held.max(axis=2)
    return {
        "probabilities": held,
        "clean": clean,
        "agreement": (answers == clean.argmax(axis=1)).sum(axis=0),
        "mode_count": votes.max(axis=1),
        "mode": votes.argmax(axis=1),
        "mean": held.mean(axis=0),
        "variance": held.var(axis=0).sum(axis=1),
        "entropy": -(held * np.log(held + 1e-30)).sum(axis=2).mean(axis=0),
        "confidence": top.mean(axis=0),
        "confidence_variance": top.var(axis=0),
    }


def ours(model: torch.nn.Module, images: torch.Tensor, passes: int) -> Consistency:
    """Run the same with sums."""
    noise = Gaussian(strength=SIGMA, scale=1, valid_range=(0, 1))
    return perturbation_consistency(model, images, perturbation=noise, passes=passes, features=None)


def kept(found: Consistency) -> int:
    """Return the bytes of all arrays that a result holds."""
    arrays = [value for value in vars(found).values() if isinstance(value, np.ndarray)]
    return sum(array.nbytes for array in [*arrays, found.clean.probabilities])


def peak(call: Callable[[], object]) -> int:
    """Return the largest number of bytes that Python and NumPy held at a time; what torch holds is not in it."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def alternate(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the processor seconds of each contender in each round; a first call of each is not timed."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-1, rounds):
        for name, call in contenders.items():
            start = time.process_time()
            call()
            if number >= 0:
                seconds[name].append(time.process_time() - start)
    return seconds


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--images", type=int, default=10_000, help="images whose memory is measured")
    options.add_argument("--timed", type=int, default=2_000, help="images in one timed call")
    options.add_argument("--passes", type=int, default=30)
    chosen = options.parse_args()
    passes = chosen.passes
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(max(chosen.images, chosen.timed), 3, 32, 32, generator=generator)
    record = Record("perturbation")
    record.line(environment("torch", "numpy"))
    record.line(f"images 3 x 32 x 32, T = {passes}, median of {chosen.rounds} rounds; reference: the plain loop")
    measure_time(record, images[: chosen.timed], passes, chosen.rounds)
    measure_memory(record, images[: chosen.images], passes)
    if chosen.save:
        record.save()


def measure_time(record: Record, images: torch.Tensor, passes: int, rounds: int) -> None:
    n = len(images)
    models = {
        "small CNN, 10 classes": SmallCNN(3, 10, (16, 32, 64)),
        "MLP 3072-256-10": torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(3072, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
        ),
    }
    for name, model in models.items():
        calls = {"ours": lambda m=model: ours(m, images, passes), "loop": lambda m=model: loop(m, images, passes)}
        seconds = alternate(calls, rounds)
        ratios = [theirs / mine for mine, theirs in zip(seconds["ours"], seconds["loop"], strict=True)]
        mine, theirs = statistics.median(seconds["ours"]), statistics.median(seconds["loop"])
        record.ratio(name, mine / n, theirs / n, n=n, note=f"from {min(ratios):.2f} to {max(ratios):.2f} x")


def measure_memory(record: Record, images: torch.Tensor, passes: int) -> None:
    for classes in (10, 100):
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3072, classes))
        mine, theirs = ours(model, images, passes), loop(model, images, passes)
        small, large = kept(mine), sum(array.nbytes for array in theirs.values())
        sizes = f"{small / 1e6:.2f} MB, reference {large / 1e6:.2f} MB, {large / small:.1f} x less"
        record.line(f"kept, {len(images)} images, {classes} classes: {sizes}")
        low, high = (peak(lambda m=model, f=call: f(m, images, passes)) for call in (ours, loop))
        record.line(
            f"peak in Python and NumPy, {classes} classes: {low / 1e6:.2f} MB, reference {high / 1e6:.2f} MB, "
            f"{high / low:.1f} x less"
        )


if __name__ == "__main__":
    main()
