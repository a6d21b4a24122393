"""Noisy linear imputation against the usual way: SciPy ``lil_matrix`` assembly and ``spsolve``, image by image.

    python benchmarks/imputation.py                 # CPU
    python benchmarks/imputation.py --device cuda   # the same cases on a GPU
    python benchmarks/imputation.py --memory        # resident memory at 3 x 655 x 1280

Needs torch, NumPy, SciPy and numba. The images are smooth random fields with fine grain, one mask an image.
"""

from __future__ import annotations

import resource
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from _common import Record, alternate, environment, parser
from scipy import ndimage, sparse
from scipy.sparse.linalg import spsolve

from roadworthy.imputation import solve

CASES = [
    (size, kind, share)
    for size in ((3, 224, 224), (3, 32, 32))
    for kind in ("random", "smooth")
    for share in (0.5, 0.9)
]
WEIGHTS = [((dy, dx), 1 / 12 if dy and dx else 1 / 6) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]


def usual_way(image: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Fill one image as the published code does: equations over removed units, all channels in one solve."""
    channels, height, width = image.shape
    y, x = np.nonzero(removed)
    count = len(y)
    number = np.zeros(removed.shape, dtype=int)
    number[y, x] = np.arange(count)
    matrix = sparse.lil_matrix((count, count))
    right = np.zeros((count, channels))
    total = np.ones(count)
    for (dy, dx), weight in WEIGHTS:
        inside = (y + dy >= 0) & (y + dy < height) & (x + dx >= 0) & (x + dx < width)
        total[~inside] -= weight
        rows = np.flatnonzero(inside)
        ny, nx = y[rows] + dy, x[rows] + dx
        unknown = removed[ny, nx]
        matrix[rows[unknown], number[ny[unknown], nx[unknown]]] = -weight
        right[rows[~unknown]] += weight * image[:, ny[~unknown], nx[~unknown]].T
    matrix[np.arange(count), np.arange(count)] = total
    filled = image.copy()
    filled[:, y, x] = spsolve(matrix.tocsc(), right).reshape(count, channels).T
    return filled


def make_images(count: int, size: tuple[int, int, int], seed: int) -> np.ndarray:
    """Draw smooth fields with fine grain in [0, 1], float32 (N, C, H, W)."""
    rng = np.random.default_rng(seed)
    fields = rng.standard_normal((count, *size))
    smooth = ndimage.gaussian_filter(fields, (0, 0, size[1] / 16, size[2] / 16))
    smooth /= smooth.std(axis=(2, 3), keepdims=True)
    return np.clip(0.5 + 0.2 * smooth + 0.05 * fields, 0, 1).astype(np.float32)


def make_masks(count: int, size: tuple[int, int, int], kind: str, share: float, seed: int) -> np.ndarray:
    """Remove exactly floor(share x units) units of each image: scattered ones, or the top of a smooth field."""
    rng = np.random.default_rng(seed)
    field = rng.standard_normal((count, *size[1:]))
    if kind == "smooth":
        field = ndimage.gaussian_filter(field, (0, size[1] / 28, size[2] / 28))
    order = np.argsort(-field.reshape(count, -1), axis=1)
    removed = np.zeros((count, order.shape[1]), dtype=bool)
    np.put_along_axis(removed, order[:, : int(share * order.shape[1] + 1e-9)], True, axis=1)
    return removed.reshape(field.shape)


def run_case(record: Record, case: tuple, options: object) -> None:
    size, kind, share = case
    small = size[1] < 100
    device = options.device
    count = options.images or {("cpu", False): 8, ("cpu", True): 64}.get((device, small), 2048 if small else 256)
    reference_count = 8 if small else 2
    distinct = min(count, 64)
    images, removed = make_images(distinct, size, 5), make_masks(distinct, size, kind, share, 6)
    again = [np.resize(array, (count, *array.shape[1:])) for array in (images, removed)]
    tensors = torch.from_numpy(again[0]).to(device), torch.from_numpy(again[1]).to(device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
        medians = alternate(
            {
                "ours": lambda: solve(*tensors),
                "usual": lambda: [
                    usual_way(images[i].astype(np.float64), removed[i]) for i in range(reference_count)
                ],
            },
            rounds=options.rounds,
            wait=torch.cuda.synchronize if device == "cuda" else lambda: None,
        )
        exact = [usual_way(images[i].astype(np.float64), removed[i]) for i in range(reference_count)]
    solution = solve(*tensors)
    error = np.abs(solution.filled[:reference_count].cpu().numpy() - np.stack(exact)).max()
    what = f"{kind} {share:.0%} {'x'.join(map(str, size))} {device}"
    ours = medians["ours"] / count
    note = f"max error {error:.1e}, {solution.cycles.max()} cycles, {1 / ours:,.0f} images/s"
    record.ratio(what, ours, medians["usual"] / reference_count, n=count, note=note)


class _Peak(threading.Thread):
    """Samples the resident memory of the process until stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.top = self.now()
        self.stopped = threading.Event()

    @staticmethod
    def now() -> int:
        try:
            fields = Path("/proc/self/statm").read_text(encoding="utf8").split()
        except OSError:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return int(fields[1]) * resource.getpagesize()

    def run(self) -> None:
        while not self.stopped.is_set():
            self.top = max(self.top, self.now())
            time.sleep(0.001)


def memory(record: Record) -> None:
    """Measure resident memory above the input at 3 x 655 x 1280, 50 % removed, and the error on a crop."""
    size = (3, 655, 1280)
    images, removed = make_images(1, size, 5), make_masks(1, size, "smooth", 0.5, 6)
    solve(torch.rand(1, 3, 8, 8), torch.rand(1, 8, 8) > 0.5)  # compiled code is not the solver's memory
    tensors = torch.from_numpy(images), torch.from_numpy(removed)
    peak = _Peak()
    before = peak.now()
    peak.start()
    start = time.perf_counter()
    solve(*tensors)
    seconds = time.perf_counter() - start
    peak.stopped.set()
    peak.join()
    crop = (slice(None), slice(200, 328), slice(500, 660))
    image, mask = images[0][crop], removed[0][crop[1:]]
    exact = usual_way(image.astype(np.float64), mask)
    got = solve(torch.from_numpy(image)[None], torch.from_numpy(mask)[None]).filled[0].numpy()
    record.line(
        f"3x655x1280, 50 % removed: {(peak.top - before) / 2**20:.0f} MiB resident above the input "
        f"(reach: under 1 GB), {seconds:.2f} s; a crop of 128 x 160: max error {np.abs(got - exact).max():.1e}"
    )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--images", type=int, default=0, help="images in a batch; by default set by the case")
    options.add_argument("--threads", type=int, default=1, help="CPU threads of the solver; the usual way has one")
    options.add_argument("--memory", action="store_true", help="measure memory only")
    options = options.parse_args()
    torch.set_num_threads(options.threads)
    record = Record("imputation_memory" if options.memory else f"imputation_{options.device}")
    record.line(environment("torch", "numpy", "scipy", "numba") + f", solver threads {options.threads}")
    if options.device == "cuda":
        record.line(f"{torch.cuda.get_device_name()}")
    record.line(f"medians of {options.rounds} alternating rounds; reference: lil_matrix + spsolve, image by image")
    if options.memory:
        memory(record)
    else:
        for case in CASES:
            run_case(record, case, options)
    if options.save:
        print(f"written to {record.save().name}")


if __name__ == "__main__":
    main()
