"""Preparing a degraded training epoch (noisy-linear, 50 % removed) against imputing each image in the loader.

Reference: the usual way. A data set whose ``__getitem__`` ranks one map, assembles the neighbour system of its mask
in a scipy lil_matrix, solves it with spsolve and adds noise, read by a torch DataLoader in batches of 64. It is timed
on a few images; both are stated per image. Then: what feeding costs in a later epoch, as a share of the training it
feeds.

    python benchmarks/degraded_epoch.py --data parquet:PATH
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch
from _common import Record, environment, parser
from scipy.ndimage import gaussian_filter

import roadworthy as rw
from imputation import usual_way
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.imputation import resolve_imputer
from roadworthy.model import fit, load_recipe, untrained
from roadworthy.model.feed import Feed
from roadworthy.records import Data, Split
from roadworthy.rng import torch_generator

SHARE = 0.5
BATCH = 64


class UsualWay(torch.utils.data.Dataset):
    """Imputes an image when it is asked for."""

    def __init__(self, split: Split, maps: np.ndarray) -> None:
        self.images, self.labels, self.maps = split.images.numpy(), split.labels, maps
        self.generator = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        image, values = self.images[row], self.maps[row].ravel()
        removed = np.zeros(values.size, dtype=bool)
        removed[np.argsort(-values)[: int(SHARE * values.size)]] = True
        removed = removed.reshape(image.shape[1:])
        filled = usual_way(image, removed) + removed * 0.01 * self.generator.normal(size=image.shape)
        return torch.from_numpy(filled.astype(np.float32)), int(self.labels[row])


def smooth_maps(n: int, height: int, width: int) -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(n, height, width))
    return gaussian_filter(noise, (0, 1, 1)).astype(np.float32)


def degraded(data: Data, split: Split, maps: np.ndarray) -> Split:
    filler = Filler(resolve_imputer("noisy-linear"), torch.tensor(data.mean), 0, torch.device("cpu"))
    degrader = Degrader(Strategy.of("roar", imputer="noisy-linear"), filler)
    return degrader.split(split, Treatment.of("maps", "morf", SHARE), MapRows("maps", maps, split.ids))


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--data", default="planted-colour:n=5000,test=100,size=32", help="data set")
    options.add_argument("--n", type=int, default=4000, help="images of this package's epoch")
    options.add_argument("--reference", type=int, default=128, help="images of the reference")
    args = options.parse_args()
    torch.set_num_threads(1)
    record = Record("degraded_epoch")
    record.line(environment("torch", "numpy", "scipy", "numba"))
    loaded = rw.load_data(args.data)
    split = loaded.train.take(args.n)
    data = Data(loaded.name, split, loaded.test, loaded.classes)
    maps = smooth_maps(len(split), *split.shape[1:])
    few = split.subset(range(args.reference))
    _ = split.images, degraded(data, few, maps[: args.reference]).images  # read, and kernels compiled
    seconds: dict[str, list[float]] = {"ours": [], "reference": []}
    for _ in range(args.rounds):
        begin = time.perf_counter()
        for _ in torch.utils.data.DataLoader(UsualWay(few, maps), batch_size=BATCH):
            pass
        seconds["reference"].append((time.perf_counter() - begin) / len(few))
        begin = time.perf_counter()
        images = degraded(data, split, maps).images
        seconds["ours"].append((time.perf_counter() - begin) / len(images))
    ours, reference = (statistics.median(seconds[name]) for name in ("ours", "reference"))
    shape = "x".join(map(str, split.shape))
    record.ratio(
        f"degraded epoch {shape}, 50 %", ours, reference, n=len(split), note=f"reference n={len(few)}, reach 15"
    )
    later(record, data, split, maps)
    if args.save:
        record.save()


def later(record: Record, data: Data, split: Split, maps: np.ndarray) -> None:
    """Compare what a later epoch costs to feed with the training it feeds."""
    recipe = load_recipe("fast-cifar", epochs=2, warmup_epochs=0)
    train = degraded(data, split, maps)
    history = fit(untrained("small-cnn", data, seed=0), train, recipe=recipe)
    whole = history.seconds[1]
    for what, memory in (("held in memory", 2 * 1024**3), ("too large for memory, degraded every epoch", 1 << 20)):
        feed = Feed(train if memory > 1 << 20 else degraded(data, split, maps), memory)
        begin = time.perf_counter()
        for _ in feed.epoch(recipe, torch_generator(0, "order")):
            pass
        fed = time.perf_counter() - begin
        record.line(
            f"feeding a later epoch, {what}: {fed:.3f} s, {fed / whole:.1%} of the {whole:.2f} s that its training "
            f"takes (small-cnn, fast-cifar, n={len(train)}; reach: under 10 %)"
        )


if __name__ == "__main__":
    main()
