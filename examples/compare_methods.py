"""Compare attribution methods on real digits and print which can be told apart.

Run: python examples/compare_methods.py [FOLDER]
"""

import sys
from pathlib import Path

import roadworthy as rw


def edges(model, images, targets):
    """A method of one's own: how much a pixel differs from the one to its left; it never asks the model."""
    shifted = images.roll(1, dims=-1)
    return (images - shifted).abs().sum(dim=1)


def main(folder: Path) -> None:
    data = rw.load_data("digits")
    model = rw.load_model("digits-cnn", data)
    methods = {"ig": "ig", "ig-sg": "ig-sg", "gradcam": "gradcam", "edges": edges, "random": "random"}
    result = rw.evaluate(model, data.test.take(200), None, methods, classes=data.classes, mean=data.mean)

    print(result.ranking()[["method", "score", "low", "high", "rank", "group"]].to_string(index=False))
    print(result.pairwise().to_string(index=False))
    print(f"MoRF and LeRF: {result.agreement()}")
    for warning in result.warnings:
        print(f"note: {warning}")
    result.save(folder)
    print(f"report: {rw.report(result, folder / 'report.html')}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/compare_methods"))
