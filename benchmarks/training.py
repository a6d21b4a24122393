"""Training on CIFAR-10 against the usual way: torchvision transforms in a DataLoader, same network, same optimiser.

Both train the same network for one epoch of the same number of images, batch size, augmentation (shift by up to 4
pixels, flip, normalisation) and SGD with Nesterov momentum. The reference applies RandomCrop, RandomHorizontalFlip,
ToTensor and Normalize to each PIL image, with the number of worker processes that is fastest here (all of
``--workers`` are tried first). This package lays images out channels-last where the recipe says so; the usual way
does not, so the reference is timed both ways.

    python benchmarks/training.py --data parquet:PATH --threads 2
    python benchmarks/training.py --data parquet:PATH --network resnet18-cifar --n 1024
    python benchmarks/training.py --data parquet:PATH --accuracy          # accuracy per second of fast-cifar
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from _common import Record, alternate, environment, parser
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import roadworthy as rw
from roadworthy.model import Recipe, fit, load_recipe, untrained
from roadworthy.records import Data, Split


class Pictures(Dataset):
    """PIL images with torchvision's transforms, one at a time."""

    def __init__(self, split: Split, data: Data, recipe: Recipe) -> None:
        pixels = (split.images * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
        self.pictures = [Image.fromarray(np.ascontiguousarray(image)) for image in pixels]
        self.labels = split.labels.tolist()
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(split.shape[1], padding=recipe.crop_padding),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(*data.normalize),
            ]
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
        return self.transform(self.pictures[row]), self.labels[row]


def usual_way(
    network: torch.nn.Module,
    loader: DataLoader,
    recipe: Recipe,
    layout: torch.memory_format = torch.contiguous_format,
) -> Callable[[], object]:
    """Return a call that trains one epoch as examples everywhere do."""
    network.to(memory_format=layout)
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.05, momentum=recipe.momentum, weight_decay=recipe.weight_decay, nesterov=True
    )
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=recipe.label_smoothing)

    def epoch() -> None:
        network.train()
        for images, labels in loader:
            optimizer.zero_grad()
            criterion(network(images.contiguous(memory_format=layout)), labels).backward()
            optimizer.step()

    return epoch


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def speed(args: argparse.Namespace, record: Record) -> None:
    data = rw.load_data(args.data)
    part = data.train.take(args.n)
    recipe = load_recipe(args.recipe, epochs=1, warmup_epochs=0, learning_rate=0.05, flip=True, crop_padding=4)
    network = untrained(args.network, data, normalize=None)
    pictures = Pictures(part, data, recipe)

    def loader(workers: int) -> DataLoader:
        return DataLoader(
            pictures, recipe.batch_size, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )

    tried = {}
    for workers in args.workers:
        epoch = usual_way(untrained(args.network, data, normalize=None), loader(workers), recipe)
        epoch()  # starts the workers
        tried[workers] = min(seconds(epoch) for _ in range(2))
    best = min(tried, key=lambda workers: tried[workers])
    pair = (part.images, part.labels)
    medians = alternate(
        {
            "roadworthy": lambda: fit(network, pair, recipe=recipe, normalize=data.normalize),
            "reference": usual_way(untrained(args.network, data, normalize=None), loader(best), recipe),
            "reference, channels last": usual_way(
                untrained(args.network, data, normalize=None), loader(best), recipe, torch.channels_last
            ),
        },
        rounds=args.rounds,
    )
    n = len(part)
    shown = ", ".join(f"{workers}: {n / spent:.0f}" for workers, spent in tried.items())
    record.line(f"{args.network}, recipe {args.recipe}, batches of {recipe.batch_size}, {n} images an epoch")
    record.line(f"reference in images/s by number of workers: {shown}; the best is taken")
    for name, spent in medians.items():
        record.line(f"{name:<26} {n / spent:8.0f} images/s")
    for name, note in (("reference", "(reach: 1.5)"), ("reference, channels last", "")):
        record.ratio(f"one epoch, {name}", medians["roadworthy"] / n, medians[name] / n, n=n, note=note)


def accuracy(args: argparse.Namespace, record: Record) -> None:
    """Train the whole recipe and score the last epoch on the test set, once per seed."""
    data = rw.load_data(args.data)
    recipe = load_recipe(args.recipe)
    data.train.images  # noqa: B018 (reading is not what is timed)
    scores, spent = [], []
    for seed in range(args.rounds):
        model = untrained(args.network, data, seed=seed)
        spent.append(seconds(lambda model=model, seed=seed: fit(model, data.train, recipe=recipe, seed=seed)))
        scores.append(rw.model.accuracy(model, data.test))
    record.line(
        f"{args.network}, recipe {args.recipe}: test accuracy {statistics.mean(scores):.4f} "
        f"({min(scores):.4f} to {max(scores):.4f}, n={args.rounds} seeds) after {statistics.median(spent):.0f} s "
        f"({recipe.epochs} epochs of {len(data.train)} images)"
    )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--data", default="planted-colour:n=4096,test=512,size=32", help="data set")
    options.add_argument("--network", default="small-cnn")
    options.add_argument("--recipe", default="fast-cifar")
    options.add_argument("--n", type=int, default=4096, help="images in an epoch")
    options.add_argument("--threads", type=int, default=2, help="torch threads of both sides (default 2)")
    options.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="worker processes to try")
    options.add_argument("--accuracy", action="store_true", help="accuracy per second of the whole recipe instead")
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    what = "accuracy" if args.accuracy else "speed"
    record = Record(f"training_{what}_{args.network}_{args.threads}_threads")
    record.line(environment("roadworthy", "torch", "torchvision", "pillow") + f", {args.threads} torch threads")
    (accuracy if args.accuracy else speed)(args, record)
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
