"""A whole ROAD run on CIFAR-10: 8 methods' saved maps, 7 shares, both orders, against imputing image by image.

Reference: the usual way. For each method, order and share, each image's mask is assembled into a scipy lil_matrix and
solved by spsolve, noise is added, and batches of 64 go through the same network. It is timed on a few images, before
and after this package's run on all of them; both are stated per degraded copy.

    python benchmarks/road_run.py --data parquet:PATH              # 1,000 images
    python benchmarks/road_run.py --data parquet:PATH --memory     # peak memory at 1,000 and at 10,000 images
    python benchmarks/road_run.py --data parquet:PATH --audit      # what the leakage audit adds at its default size
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import zarr
from _common import Record, environment, parser
from scipy.ndimage import gaussian_filter

import roadworthy as rw
from imputation import usual_way
from roadworthy.attribution import open_maps
from roadworthy.records import Split

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
METHODS = 8


def saved_maps(folder: Path, n: int, height: int, width: int) -> Path:
    """Write maps of growing smoothness, as real methods have, to a zarr group."""
    path = folder / "maps.zarr"
    group = zarr.open_group(str(path), mode="w")
    for method in range(METHODS):
        array = group.create_array(
            f"m{method}", shape=(n, height, width), chunks=(64, height, width), dtype="float32"
        )
        generator = np.random.default_rng(method)
        for start in range(0, n, 1000):
            noise = generator.normal(size=(min(1000, n - start), height, width))
            array[start : start + len(noise)] = gaussian_filter(noise, (0, method / 3, method / 3)).astype(np.float32)
    return path


def reference_seconds_per_copy(model: torch.nn.Module, images: torch.Tensor, maps: dict[str, np.ndarray]) -> float:
    """Time the usual way on these images, all methods, orders and shares."""
    pixels = images.numpy()
    units = pixels.shape[2] * pixels.shape[3]
    generator = np.random.default_rng(0)
    begin, copies = time.perf_counter(), 0
    for array in maps.values():
        for sign in (-1, 1):
            order = np.argsort(sign * array.reshape(len(array), -1), axis=1)
            for share in SHARES:
                batch = []
                for row, image in enumerate(pixels):
                    removed = np.zeros(units, dtype=bool)
                    removed[order[row, : int(share * units)]] = True
                    removed = removed.reshape(image.shape[1:])
                    filled = usual_way(image, removed)
                    batch.append(filled + removed * 0.01 * generator.normal(size=image.shape))
                with torch.no_grad():
                    for start in range(0, len(batch), 64):
                        model(torch.from_numpy(np.stack(batch[start : start + 64]).astype(np.float32))).argmax(dim=1)
                copies += len(batch)
    return (time.perf_counter() - begin) / copies


def run(
    model: torch.nn.Module, split: Split, maps: object, mean: tuple[float, ...], audit: str = "off"
) -> rw.evaluation.Result:
    return rw.evaluate(
        model, split, None, maps, strategy="road", fractions=SHARES, mean=mean, intact_check="warn", audit=audit
    )


def speed(args: argparse.Namespace) -> list[str]:
    data = rw.load_data(args.data)
    model = rw.load_model(args.model, data)
    split = data.test.take(args.n)
    few = split.subset(range(args.reference))
    with tempfile.TemporaryDirectory() as folder:
        path = saved_maps(Path(folder), len(split), *split.shape[1:])
        maps = open_maps(path)
        run(model, few, {name: maps[name][: len(few)] for name in maps}, data.mean)  # warm-up: compiles the kernels
        ours, reference, forward = [], [], []
        for _ in range(args.rounds):
            part = {name: maps[name][: len(few)] for name in maps}
            reference.append(reference_seconds_per_copy(model, few.images, part))
            copies = len(split) * METHODS * 2 * len(SHARES)
            begin = time.perf_counter()
            result = run(model, split, {name: maps[name] for name in maps}, data.mean)
            ours.append((time.perf_counter() - begin) / copies)
            begin = time.perf_counter()
            with torch.no_grad():
                for start in range(0, 4096, 256):
                    model(split.images[start % len(split) :][:256])
            forward.append((time.perf_counter() - begin) / 4096)
    a, b = statistics.median(reference), statistics.median(ours)
    return [
        f"whole ROAD run: n = {len(split)} images, {METHODS} maps, {len(SHARES)} shares, 2 orders",
        f"network {args.model}, intact accuracy {result.intact_accuracy:.3f}",
        f"medians of {args.rounds} rounds; the reference on {len(few)} images a round",
        f"reference  {a * 1e3:.3f} ms per copy ({_spread(reference)})",
        f"roadworthy {b * 1e3:.3f} ms per copy ({_spread(ours)})",
        f"of which the network, in batches of 256: {statistics.median(forward) * 1e3:.3f} ms",
        f"ratio {a / b:.1f} (reach: 10)",
    ]


def _spread(seconds: list[float]) -> str:
    return f"{min(seconds) * 1e3:.3f} to {max(seconds) * 1e3:.3f} ms"


def audit(args: argparse.Namespace) -> list[str]:
    data = rw.load_data(args.data)
    model = rw.load_model(args.model, data)
    split = data.test.take(args.n)
    with tempfile.TemporaryDirectory() as folder:
        maps = open_maps(saved_maps(Path(folder), len(split), *split.shape[1:]))
        seconds: dict[str, list[float]] = {"off": [], "quick": []}
        for round_ in range(args.rounds + 1):  # the first warms up
            for effort, taken in seconds.items():
                begin = time.process_time()
                run(model, split, {name: maps[name] for name in maps}, data.mean, effort)
                if round_:
                    taken.append(time.process_time() - begin)
    off, quick = (statistics.median(taken) for taken in seconds.values())
    spread = {name: f"{min(taken):.1f} to {max(taken):.1f} s" for name, taken in seconds.items()}
    return [
        f"leakage audit: n = {len(split)} images, {METHODS} maps, {len(SHARES)} shares, 2 orders, one fill",
        f"medians of {args.rounds} alternating rounds, CPU time; load of the machine {os.getloadavg()[1]:.1f}",
        f"without the audit {off:.1f} s ({spread['off']})",
        f"with it           {quick:.1f} s ({spread['quick']})",
        f"added {quick / off - 1:+.1%} (reach: under 15 %)",
    ]


def memory(args: argparse.Namespace) -> list[str]:
    peaks = {}
    for n in (1_000, 10_000):
        child = [sys.executable, __file__, "--data", args.data, "--model", args.model, "--child", str(n)]
        done = subprocess.run(child, capture_output=True, text=True, check=True)
        peaks[n] = int(done.stdout.split()[-1])
    lines = [f"peak resident memory of the same run at {n} images: {peak / 1024:.0f} MB" for n, peak in peaks.items()]
    return [*lines, f"growth {peaks[10_000] / peaks[1_000] - 1:+.1%} (reach: within 15 %)"]


def child(args: argparse.Namespace) -> None:
    data = rw.load_data(args.data)
    model = rw.load_model(args.model, data)
    split = data.test.take(args.child)
    with tempfile.TemporaryDirectory() as folder:
        path = saved_maps(Path(folder), len(split), *split.shape[1:])
        run(model, split, dict(open_maps(path)), data.mean)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--data", default="planted-colour:n=2000,test=10000,size=32", help="data set")
    options.add_argument("--model", default="small-cnn")
    options.add_argument("--n", type=int, default=1000)
    options.add_argument("--reference", type=int, default=10, help="images the reference is timed on in a round")
    options.add_argument("--threads", type=int, default=1, help="torch threads of both sides (default 1)")
    options.add_argument("--memory", action="store_true", help="measure memory only")
    options.add_argument("--audit", action="store_true", help="measure what the leakage audit adds only")
    options.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    options.set_defaults(rounds=3)
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    if args.child:
        child(args)
        return
    chosen = memory if args.memory else audit if args.audit else speed
    name = chosen.__name__ if chosen is not speed else f"{args.threads}_threads"
    record = Record(f"road_run_{name}")
    record.line(environment("roadworthy", "torch", "numba", "numpy", "scipy") + f", {args.threads} torch threads")
    for line in chosen(args):
        record.line(line)
    if args.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
