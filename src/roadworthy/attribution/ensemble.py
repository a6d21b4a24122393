"""Mean, mean of squares and variance of noisy maps, from one pass over shared samples with running sums.

The noisy copies belong to the sample's id, so all bases and all members see the same ones. Work is the flat list of
(image, copy, path step); it is cut into chunks of ``max_batch`` gradients wherever a chunk ends, and only one
image's running moments are alive at a time. So memory depends on ``max_batch`` alone. Moments are Welford's with
Chan's pairwise merge, in float64: ``E[a^2] - E[a]^2`` (what captum's ``vargrad`` means) never cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from roadworthy.attribution.base import Block, Family, Job, input_gradients, methods
from roadworthy.attribution.settings import Settings
from roadworthy.rng import numpy_generator

NOISE = "attribution-noise"

Gradient = Callable[[Job, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Path:
    """How gradients make one map: the weighted sum over points between a start and the (noisy) image.

    Attributes:
        alphas: positions on the way from start (0) to image (1), (K,); None draws one per copy, uniformly.
        weights: weights of the gradients there, (K,).
        start: "baseline", "zero", or None. With a start the sum is multiplied by image - start.
        samples: noisy copies.
        noise: standard deviation of their noise, in the settings' unit.
        gradient: what is summed.
    """

    alphas: np.ndarray | None
    weights: np.ndarray
    start: str | None
    samples: int
    noise: float
    gradient: Gradient = input_gradients


class Moments:
    """Running mean and sum of squared deviations of maps that come in groups."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: torch.Tensor | float = 0.0
        self.deviations: torch.Tensor | float = 0.0

    def add(self, maps: torch.Tensor) -> None:
        """Take in a group (g, ...) of maps."""
        maps = maps.double()
        count = len(maps)
        mean = maps.mean(0)
        deviations = (maps - mean).square().sum(0)
        total = self.count + count
        step = mean - self.mean
        self.mean = self.mean + step * (count / total)
        self.deviations = self.deviations + deviations + step.square() * (self.count * count / total)
        self.count = total

    def results(self) -> dict[str, torch.Tensor]:
        """Return mean, mean of squares and (biased) variance under their suffixes."""
        variance = torch.as_tensor(self.deviations / self.count)
        mean = torch.as_tensor(self.mean)
        return {"-sg": mean, "-sq": variance + mean.square(), "-var": variance}


def ensemble(job: Job, members: Collection[str], base: str, path: Path) -> Block:
    """Compute the members of one base's family that are asked for, in one pass.

    Args:
        job: the block of samples.
        members: of ``base``, ``base-sg``, ``base-sq``, ``base-var``.
        base: name of the base.
        path: how one map is made.

    Returns:
        A block with a float32 map of the images' shape for each member.
    """
    out = {name: np.empty(tuple(job.images.shape), dtype=np.float32) for name in members}
    clean = base in out
    copies = path.samples if len(out) > clean else 0
    moments = Moments()
    for image, first, maps in _finished(job, path, clean, copies):
        if clean and first == 0:
            out[base][image] = maps[0].cpu().numpy()
            maps, first = maps[1:], 1
        if len(maps):
            moments.add(maps)
        if copies and first + len(maps) == clean + copies:
            for suffix, result in moments.results().items():
                if base + suffix in out:
                    out[base + suffix][image] = result.cpu().numpy()
            moments = Moments()
    return Block(dict(out))


def _ends(job: Job, path: Path, clean: bool, copies: int) -> Iterator[tuple[torch.Tensor, float | None]]:
    """Yield, image by image, the path's end (the image, then its noisy copies) and a drawn position."""
    shape = tuple(job.images.shape[1:])
    for image, sample in zip(job.images, job.ids, strict=True):
        if clean:
            yield image, None
        if copies:
            spread = job.values.spread(image, path.noise)
            stream = numpy_generator(job.seed, NOISE, sample)
        for _ in range(copies):
            noise = torch.from_numpy(stream.standard_normal(shape, dtype=np.float32)).to(image.device)
            yield image + noise * spread, float(stream.random()) if path.alphas is None else None


def _finished(job: Job, path: Path, clean: bool, copies: int) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Yield (image, position of the first copy, maps of consecutive copies of that image) as they get complete."""
    steps, per_image = len(path.weights), clean + copies
    total, size, device = len(job.images) * per_image * steps, job.classifier.max_batch, job.images.device
    weights = torch.as_tensor(path.weights, dtype=torch.float32, device=device)
    source = _ends(job, path, clean, copies)
    start = _start(job, path)
    ends: list[torch.Tensor] = []
    drawn: list[float | None] = []
    carried: torch.Tensor | None = None
    done = 0  # copies that are complete
    for begin in range(0, total, size):
        flat = np.arange(begin, min(begin + size, total))
        copy, step = flat // steps - done, flat % steps
        while len(ends) <= copy[-1]:
            end, position = next(source)
            ends.append(end)
            drawn.append(position)
        stacked = torch.stack(ends)
        alphas = _alphas(path, drawn, copy, step, stacked)
        rows = torch.from_numpy(copy).to(device)
        points = stacked[rows]
        if start is not None:
            points = start + alphas * (points - start)
        owners = torch.from_numpy((done + copy) // per_image).to(job.targets.device)
        gradients = path.gradient(job, points, job.targets[owners]).float()
        counts = np.bincount(copy).tolist()
        sums = _sum_by_copy(gradients, weights[torch.from_numpy(step).to(device)], counts)
        if carried is not None:
            sums[0] += carried
        complete = len(ends) if step[-1] == steps - 1 else len(ends) - 1
        carried = None if complete == len(ends) else sums[-1]
        maps = sums[:complete] if start is None else sums[:complete] * (stacked[:complete] - start)
        yield from _by_image(maps, done, per_image)
        done += complete
        ends, drawn = ends[complete:], drawn[complete:]


def _sum_by_copy(gradients: torch.Tensor, weights: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """Sum weighted gradients (b, ...) of consecutive copies; sum by sum, so that no copy touches another."""
    if len(counts) == len(gradients):
        return gradients * weights.view(-1, *[1] * (gradients.ndim - 1))
    groups = zip(weights.split(counts), gradients.flatten(1).split(counts), strict=True)
    return torch.stack([part @ values for part, values in groups]).view(len(counts), *gradients.shape[1:])


def _start(job: Job, path: Path) -> torch.Tensor | None:
    if path.start is None:
        return None
    return torch.zeros((), device=job.images.device) if path.start == "zero" else job.values.start(job.images[0])


def _alphas(
    path: Path, drawn: list[float | None], copy: np.ndarray, step: np.ndarray, like: torch.Tensor
) -> torch.Tensor:
    if path.alphas is None:
        values = np.array([1.0 if position is None else position for position in drawn])[copy]
    else:
        values = path.alphas[step]
    return torch.as_tensor(values, dtype=torch.float32, device=like.device).view(-1, *[1] * (like.ndim - 1))


def _by_image(maps: torch.Tensor, done: int, per_image: int) -> Iterator[tuple[int, int, torch.Tensor]]:
    begin = 0
    while begin < len(maps):
        image, first = divmod(done + begin, per_image)
        length = min(per_image - first, len(maps) - begin)
        yield image, first, maps[begin : begin + length]
        begin += length


def register_family(
    base: str,
    compute: Callable[[Job, Collection[str]], Block],
    *,
    title: str,
    steps: Callable[[Settings], int] = lambda settings: 1,
) -> None:
    """Register a base and the three ensembles of it."""

    def cost(settings: Settings, members: Collection[str]) -> int:
        clean = base in members
        return steps(settings) * (clean + settings.samples * (len(members) > clean))

    family = Family(base, compute, cost=cost)
    methods.add(base, family, title)
    methods.add(f"{base}-sg", family, f"{base}: mean over noisy copies (SmoothGrad)")
    methods.add(f"{base}-sq", family, f"{base}: mean of squares over noisy copies (SmoothGrad squared)")
    methods.add(f"{base}-var", family, f"{base}: variance over noisy copies (VarGrad)")


ONE = np.ones(1)
