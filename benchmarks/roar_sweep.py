"""A whole ROAR run on digits, 8 methods and 2 controls, 5 shares, 3 repeats, against a training script per point.

Reference: what one does without a tool. For every method, share (0 included) and repeat a script of its own loads the
data and the base model, makes the maps of both splits, degrades the images, trains with the same recipe and scores.
Some of the scripts are run, drawn evenly over the methods; all are taken to cost what those do on the mean. Stated
for scripts one after another (torch's own number of threads) and for two at a time (one thread each).

    python benchmarks/roar_sweep.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _common import Record, environment, parser

METHODS = ("grad", "ixg", "ig", "ig-sg", "ig-sq", "gb", "gradcam", "deeplift", "sobel", "random")
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
REPEATS = 3


def one_point(method: str, share: float, repeat: int, weights: str) -> None:
    """Be the script: everything from the start, for one point."""
    import numpy as np
    import torch

    import roadworthy as rw
    from roadworthy.model import fit, load_recipe, untrained

    data = rw.load_data("digits")
    base = rw.load_model("digits-cnn", data, weights=weights)
    splits = []
    for split in (data.train, data.test):
        images = split.images.clone()
        if share:
            maps = rw.attribute(base, images, [method], seed=repeat)[method]
            values = maps.reshape(len(images), -1, images.shape[2] * images.shape[3]).sum(axis=1)
            for row in range(len(images)):
                order = np.argsort(-values[row])[: int(share * values.shape[1])]
                for channel in range(images.shape[1]):
                    images[row, channel].view(-1)[torch.from_numpy(order.copy())] = data.mean[channel]
        splits.append((images, split.labels))
    model = untrained("digits-cnn", data, seed=repeat)
    fit(model, splits[0], recipe=load_recipe("digits"), seed=repeat)
    with torch.no_grad():
        print(float((model.eval()(splits[1][0]).argmax(1) == splits[1][1]).double().mean()))


def scripts(points: list[tuple[str, float, int]], weights: str, at_a_time: int, threads: str | None) -> float:
    """Run scripts and return the wall-clock seconds for all of them."""
    environ = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    environ |= {} if threads is None else {"OMP_NUM_THREADS": threads}
    begin = time.perf_counter()
    for start in range(0, len(points), at_a_time):
        running = [
            subprocess.Popen(
                [sys.executable, __file__, "--point", *map(str, point), weights],
                env=environ,
                stdout=subprocess.DEVNULL,
            )
            for point in points[start : start + at_a_time]
        ]
        if any(process.wait() for process in running):
            raise RuntimeError("a script of the reference failed")
    return time.perf_counter() - begin


def sweep(folder: Path, workers: int) -> float:
    """Run the sweep as its command does, and return the wall-clock seconds."""
    command = [
        sys.executable, "-m", "roadworthy", "roar", "--methods", ",".join(METHODS), "--repeats", str(REPEATS),
        "--fractions", ",".join(map(str, SHARES)), "--order", "morf", "--workers", str(workers), "--out", str(folder),
        "--set", "compare_road=false",
    ]  # fmt: skip
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--point", nargs=4, help=argparse.SUPPRESS)
    options.add_argument(
        "--scripts", type=int, default=10, help="scripts of the reference that are run, for each way"
    )
    args = options.parse_args()
    if args.point:
        method, share, repeat, weights = args.point
        one_point(method, float(share), int(repeat), weights)
        return
    cores = os.cpu_count() or 1
    record = Record("roar_sweep")
    record.line(environment("torch", "numpy"))
    points = [(method, share, repeat) for repeat in range(REPEATS) for share in (0.0, *SHARES) for method in METHODS]
    chosen = [points[(row * len(points)) // args.scripts + row % len(METHODS)] for row in range(args.scripts)]
    taken: dict[str, list[float]] = {"sweep": [], "one": [], "two": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            place = Path(folder) / str(number)
            taken["sweep"].append(sweep(place, cores))
            weights = str(next((place / "models").iterdir()))
            taken["one"].append(scripts(chosen, weights, 1, None) / len(chosen) * len(points))
            taken["two"].append(scripts(chosen, weights, 2, "1") / len(chosen) * len(points))
    ours = statistics.median(taken["sweep"])
    trainings = REPEATS * (1 + len(METHODS) * len(SHARES))
    record.line(
        f"roadworthy roar: {trainings} trainings in {ours:.0f} s on {cores} processes ({_spread(taken['sweep'])})"
    )
    shared = trainings / len(points)
    for name, what in (("one", "one after another"), ("two", "two at a time, one thread each")):
        reference = statistics.median(taken[name])
        record.line(
            f"{len(points)} scripts, {what}: {reference:.0f} s (from {len(chosen)} of them; {_spread(taken[name])}); "
            f"ratio {reference / ours:.1f} (reach: 2), {reference * shared / ours:.1f} if p = 0 were shared"
        )
    record.line(f"medians of {args.rounds} rounds")
    if args.save:
        record.save()


def _spread(seconds: list[float]) -> str:
    return f"{min(seconds):.0f} to {max(seconds):.0f} s"


if __name__ == "__main__":
    main()
