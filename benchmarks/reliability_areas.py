"""Areas under reliability curves of networks of known standing: the table in ``roadworthy.labelfree.curve``.

Small networks on digits, half of them held out, Gaussian noise of a tenth of the pixels' range, three seeds each:
untrained ones, trained ones, the trained ones with the passes of other samples, and one that says one class of
everything.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from _common import Record, environment, parser
from sklearn.datasets import load_digits

from roadworthy.labelfree import agreement_curve

NOISE, PASSES = 0.1, 30


def network() -> torch.nn.Sequential:
    """Return a network of one hidden layer."""
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 10))


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    """Fit by Adam, in batches of 64."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()


@torch.no_grad()
def asked(model: torch.nn.Module, x: torch.Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return mean probabilities and shares of passes of each class, clean classes and clean confidences."""
    soft, hard = torch.zeros(len(x), 10), torch.zeros(len(x), 10)
    for _ in range(PASSES):
        p = model(x + NOISE * torch.randn(x.shape)).softmax(1)
        soft += p / PASSES
        hard += torch.nn.functional.one_hot(p.argmax(1), 10) / PASSES
    clean = model(x).softmax(1)
    return soft.numpy(), hard.numpy(), clean.argmax(1).numpy(), clean.max(1).values.numpy()


def areas(soft: np.ndarray, hard: np.ndarray, predicted: np.ndarray, confidence: np.ndarray) -> list[float]:
    """Return the areas: soft by clean confidence, soft by itself, hard by clean confidence."""
    own = soft[np.arange(len(soft)), predicted]
    pairs = ((soft, confidence), (soft, own), (hard, confidence))
    return [agreement_curve(shares, predicted, scores, draws=0).area for shares, scores in pairs]


def main() -> None:
    """Print and keep the table."""
    options = parser((__doc__ or "").splitlines()[0])
    chosen = options.parse_args()
    record, began = Record("reliability_areas"), time.process_time()
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    half = len(x) // 2
    found: dict[str, list[list[float]]] = {}
    accuracies = []
    for seed in range(3):
        torch.manual_seed(seed)
        held_out, model = x[half:], network()
        found.setdefault("untrained", []).append(areas(*asked(model, held_out)))
        train(model, x[:half], y[:half], 15)
        accuracies.append(float((model(held_out).argmax(1) == y[half:]).float().mean()))
        soft, hard, predicted, confidence = asked(model, held_out)
        found.setdefault("trained", []).append(areas(soft, hard, predicted, confidence))
        turned = np.roll(np.arange(len(soft)), len(soft) // 2)
        found.setdefault("trained, passes of other samples", []).append(
            areas(soft[turned], hard[turned], predicted, confidence)
        )
        one = network()
        train(one, x[:half], torch.zeros_like(y[:half]), 4)
        found.setdefault("one class for everything", []).append(areas(*asked(one, held_out)))
    record.line(environment("roadworthy", "numpy", "torch"))
    record.line(
        f"{len(x) - half} test images, noise of sd {NOISE}, {PASSES} passes, 3 seeds; accuracy of the trained "
        f"{min(accuracies):.2f} to {max(accuracies):.2f}"
    )
    record.line(f"{'area':<34} {'soft, clean confidence':>24} {'soft, itself':>18} {'hard, clean confidence':>24}")
    for name, rows in found.items():
        low, high = np.min(rows, axis=0), np.max(rows, axis=0)
        cells = [f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)]
        record.line(f"{name:<34} {cells[0]:>24} {cells[1]:>18} {cells[2]:>24}")
    record.line(f"{time.process_time() - began:.0f} CPU seconds")
    if chosen.save:
        record.save()


if __name__ == "__main__":
    main()
