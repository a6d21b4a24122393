"""Cluster consistency of 100,000 x 512 features: ours (fitted to a part, all assigned) against KMeans on all.

Features are those of the last hidden layer of a network trained on scikit-learn's digits, of noisy images; mode
shares fall with the network's confidence. Reference: scikit-learn's ``KMeans`` as it comes, fitted to each selected
part. A curve has one clustering for each distinct mode share, so few passes are taken: the ratio is per clustering.

    OMP_NUM_THREADS=1 python benchmarks/clustering.py
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
import torch
from _common import Record, environment, parser
from scipy.integrate import trapezoid
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from roadworthy.labelfree.as_described import as_described_from_counts
from roadworthy.labelfree.clustering import purity


@dataclass(frozen=True)
class Made:
    """Features of a network, the class it predicts, and passes of the commonest class."""

    features: np.ndarray
    predicted: np.ndarray
    mode_count: np.ndarray
    accuracy: float


@torch.no_grad()
def look(
    body: torch.nn.Module, head: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor, passes: int
) -> Made:
    features = torch.cat([body(part) for part in images.split(5000)])
    probabilities = head(features).softmax(1)
    predicted = probabilities.argmax(1)
    generator = torch.Generator().manual_seed(3)
    hits = (torch.rand(len(images), passes, generator=generator) < probabilities.max(1).values[:, None]).sum(1)
    return Made(
        features.numpy(),
        predicted.numpy(),
        torch.maximum(hits, passes - hits).numpy(),
        float((predicted == labels).float().mean()),
    )


def make(samples: int, width: int, passes: int, seed: int) -> Made:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
    images = (images / 16).float()
    body = torch.nn.Sequential(
        torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, width), torch.nn.ReLU()
    )
    head = torch.nn.Linear(width, 10)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], 1e-3)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(64):
            noisy = images[rows] + 0.2 * torch.randn(len(rows), 64)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(body(noisy)), labels[rows]).backward()
            optimizer.step()
    rows = torch.randint(len(images), (samples,))
    return look(body, head, images[rows] + 0.3 * torch.randn(samples, 64), labels[rows], passes)


def reference_curve(made: Made, passes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Completeness, rising, and reliability: the curve written out, with scikit-learn's KMeans on every part."""
    points = []
    for least in range(passes + 1):
        part = made.mode_count >= least
        if part.any() and (not points or part.mean() != points[-1][0]):
            labels = KMeans(10, random_state=seed).fit_predict(made.features[part])
            points.append((part.mean(), purity(labels, made.predicted[part], 10)))
    completeness, reliability = np.array(points[::-1]).T
    return completeness, reliability


def run(args: argparse.Namespace, record: Record) -> None:
    ratios = []
    for seed in range(args.rounds):
        made = make(args.samples, args.width, args.passes, seed)
        start = time.process_time()
        curve = as_described_from_counts(
            made.mode_count, args.passes, made.predicted, 10, features=made.features, seed=seed
        )
        ours = time.process_time() - start
        start = time.process_time()
        completeness, reliability = reference_curve(made, args.passes, seed)
        reference = time.process_time() - start
        parts, area = len(completeness), float(trapezoid(reliability, completeness))
        own = np.interp(completeness, curve.coverage[::-1], curve.reliability[::-1])
        note = (
            f"area {curve.area:.4f}, reference {area:.4f}, apart {abs(curve.area - area):.4f} (reach: .01); purity "
            f"apart {np.abs(own - reliability).max():.4f} at most"
        )
        ratios.append(
            record.ratio(
                f"network {seed}, accuracy {made.accuracy:.3f}",
                ours / parts,
                reference / parts,
                n=parts,
                unit="clustering",
                note=note,
            )
        )
    record.line(f"median {np.median(ratios):.1f} times faster (reach: 10)")


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.set_defaults(rounds=2)
    options.add_argument("--samples", type=int, default=100_000)
    options.add_argument("--width", type=int, default=512)
    options.add_argument("--passes", type=int, default=4, help="distinct mode shares, and so clusterings of a curve")
    args = options.parse_args()
    record = Record("clustering")
    record.line(environment("roadworthy", "numpy", "scikit-learn", "torch"))
    record.line(f"{args.samples} x {args.width} float32 features, 10 clusters; processor seconds, each network once")
    run(args, record)
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
