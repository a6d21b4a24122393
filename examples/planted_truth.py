"""Where the right answer is known: images whose relevant pixels were put there.

The oracle map marks those pixels, its inverse marks all others; random noise lies between, in both orders.

Run: python examples/planted_truth.py
"""

import numpy as np
import torch

import roadworthy as rw


def main() -> None:
    images = torch.from_numpy(0.2 * np.random.default_rng(0).random((64, 1, 16, 16), dtype=np.float32))
    labels = torch.arange(64) % 4
    for row, label in enumerate(labels.tolist()):
        top, left = 8 * (label // 2), 8 * (label % 2)
        images[row, :, top : top + 8, left : left + 8] += 0.8

    def model(x):
        quadrants = [x[:, :, i : i + 8, j : j + 8].mean((1, 2, 3)) for i in (0, 8) for j in (0, 8)]
        return 20 * torch.stack(quadrants, dim=1)

    oracle = images.mean(dim=1).numpy()
    noise = np.random.default_rng(1).random(oracle.shape)
    result = rw.evaluate(model, images, labels, {"oracle": oracle, "random": noise, "inverse": -oracle})
    print(result.ranking("probability")[["method", "score", "low", "high", "group"]].to_string(index=False))
    assert result.ranking("probability")["method"].tolist() == ["oracle", "random", "inverse"]


if __name__ == "__main__":
    main()
