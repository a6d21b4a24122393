"""What ``roadworthy doctor`` looks at: packages, devices, memory, disk, and what is optional and missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import roadworthy

Status = Literal["ok", "note", "broken"]

# distribution, module, least version; as in pyproject.toml, which a test holds them against
NEEDED = (
    ("torch", "torch", "2.6"),
    ("torchvision", "torchvision", "0.21"),
    ("captum", "captum", "0.7"),
    ("numba", "numba", "0.60"),
    ("numpy", "numpy", "1.26"),
    ("scipy", "scipy", "1.12"),
    ("scikit-learn", "sklearn", "1.4"),
    ("pandas", "pandas", "2.2"),
    ("pyarrow", "pyarrow", "16"),
    ("zarr", "zarr", "3.0"),
    ("h5py", "h5py", "3.10"),
    ("safetensors", "safetensors", "0.4.3"),
    ("typer", "typer", "0.12.4"),
    ("rich", "rich", "13.7"),
    ("matplotlib", "matplotlib", "3.8"),
    ("plotly", "plotly", "5.22"),
    ("pillow", "PIL", "10.3"),
    ("pydantic", "pydantic", "2.7"),
    ("pyyaml", "yaml", "6.0"),
)
# extra: what it is for, and the distributions that make it, any one of a cell
OPTIONAL: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "timm": ("models of timm (timm:NAME)", (("timm",),)),
    "transformers": ("image classifiers of transformers (transformers:FOLDER)", (("transformers",),)),
    "zennit": ("attributors and composites of Zennit as methods", (("zennit",),)),
    "quantus": ("explain functions of Quantus as methods", (("quantus",),)),
    "ray": ("sweeps on a cluster", (("ray",),)),
    "tfrecord": ("TFRecord files", (("protobuf",), ("google-crc32c",))),
    "opencv": (
        "fills by inpainting (telea, navier-stokes)",
        (("opencv-python-headless", "opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless"),),
    ),
    "mlflow": ("results in MLflow (rw.to_mlflow)", (("mlflow", "mlflow-skinny"),)),
    "tensorboard": ("results in TensorBoard (rw.to_tensorboard)", (("tensorboard",),)),
}
_LITTLE = 2**30  # bytes of memory or disk below which runs are likely to stop
_GPU_FILES = ("/dev/nvidia0", "/dev/kfd")


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        part: packages, computing, devices, memory, disk, optional or data.
        name: of what.
        value: what was found, in words.
        status: ``"broken"`` where something needed does not work.
        way_out: what to do; empty where nothing is to be done.
    """

    part: str
    name: str
    value: str
    status: Status = "ok"
    way_out: str = ""


def checkup() -> list[Finding]:
    """Look at everything; nothing that is found broken stops the rest."""
    torch = _imported("torch")
    return [
        *_packages(),
        *(_computing(torch) if torch is not None else []),
        *(_devices(torch) if torch is not None else []),
        *_memory(),
        *_disk(),
        *_optional(),
        *_data(),
    ]


def as_record(findings: list[Finding]) -> dict[str, Any]:
    """Return the findings for JSON: whether all that is needed works, and each part by name."""
    parts: dict[str, dict[str, Any]] = {}
    for found in findings:
        row = asdict(found)
        parts.setdefault(row.pop("part"), {})[row.pop("name")] = row
    broken = [found for found in findings if found.status == "broken"]
    return {"ok": not broken, "broken": [f"{found.name}: {found.value}" for found in broken], **parts}


def _packages() -> list[Finding]:
    python = f"{platform.python_version()} on {platform.platform(terse=True)}"
    head = [Finding("packages", "roadworthy", roadworthy.__version__), Finding("packages", "python", python)]
    return head + [_package(*needed) for needed in NEEDED]


def _package(name: str, module: str, least: str) -> Finding:
    version = _version(name)
    install = f'pip install "{name}>={least}"'
    try:
        importlib.import_module(module)
    except Exception as error:  # a package of two halves that do not fit raises all kinds
        kind = "is missing" if version is None else f"{version}, which does not load"
        return Finding("packages", name, f"{kind} ({_line(error)})", "broken", install)
    if version is None:
        return Finding("packages", name, "there, of an unknown version", "note")
    if _numbers(version) < _numbers(least):
        return Finding("packages", name, f"{version}, older than {least}", "broken", install)
    return Finding("packages", name, version)


def _computing(torch: Any) -> list[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    set_to = os.environ.get("OMP_NUM_THREADS")
    threads = f"{torch.get_num_threads()}" + (f" (OMP_NUM_THREADS={set_to})" if set_to else "")
    return [
        Finding("computing", "cores", f"{cores} usable of {os.cpu_count()}"),
        Finding("computing", "threads of torch", threads),
        _cache_of_numba(),
    ]


def _cache_of_numba() -> Finding:
    name = "cache of compiled code"
    try:
        from roadworthy.imputation.kernels_multigrid import solve_batch

        path = solve_batch._cache.cache_path
    except Exception as error:
        way_out = "noisy-linear fills need numba: pip install --force-reinstall numba"
        return Finding("computing", name, f"cannot be asked for ({_line(error)})", "note", way_out)
    if path is None or not _writable(Path(path)):
        place = "no folder for it" if path is None else f"{path} cannot be written"
        way_out = "set NUMBA_CACHE_DIR to a folder that can be, or noisy-linear is compiled anew each time"
        return Finding("computing", name, place, "note", way_out)
    return Finding("computing", name, str(path))


def _devices(torch: Any) -> list[Finding]:
    found = [_device(torch, "cpu", platform.processor() or platform.machine())]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        device = f"cuda:{index}"
        try:
            free, total = torch.cuda.mem_get_info(index)
            words = f"{torch.cuda.get_device_name(index)}, {_gb(free)} of {_gb(total)} free"
        except RuntimeError as error:
            words = _line(error)
        found.append(_device(torch, device, words))
    if torch.backends.mps.is_available():
        found.append(_device(torch, "mps", "Apple GPU"))
    if len(found) == 1 and any(Path(file).exists() for file in _GPU_FILES):
        built = torch.version.cuda or torch.version.hip or "no GPU"
        way_out = "install the build of torch for your driver (pytorch.org), or update the driver"
        found.append(
            Finding("devices", "gpu", f"there, but torch (built for {built}) cannot use it", "note", way_out)
        )
    return found


def _device(torch: Any, device: str, words: str) -> Finding:
    """Multiply two small matrices there."""
    try:
        square = torch.arange(4.0, device=device).reshape(2, 2)
        right = (square @ square).tolist() == [[2.0, 3.0], [6.0, 11.0]]
        fault = "" if right else "computes wrong numbers"
    except Exception as error:
        fault = f"cannot compute ({_line(error)})"
    if not fault:
        return Finding("devices", device, f"{words}; computes" if words else "computes")
    way_out = "reinstall torch" if device == "cpu" else "--device cpu, or a build of torch that fits the driver"
    return Finding("devices", device, f"{words}; {fault}".strip("; "), "broken", way_out)


def _memory() -> list[Finding]:
    try:
        from roadworthy.evaluation.checks import free_memory

        free = free_memory()
    except Exception:  # it needs torch, of which more is said elsewhere
        free = None
    if free is None:
        return [Finding("memory", "free", "not told by this system")]
    if free < _LITTLE:
        return [Finding("memory", "free", _gb(free), "note", "close other programs, or take a smaller --max-batch")]
    return [Finding("memory", "free", _gb(free))]


def _disk() -> list[Finding]:
    cache = Path(os.environ.get("ROADWORTHY_CACHE") or Path.home() / ".cache" / "roadworthy")
    return [
        _folder("this folder", Path.cwd(), "note", "work where you may write, or give --out a folder where you may"),
        _folder("cache", cache, "broken", "set ROADWORTHY_CACHE to a folder that can be written"),
    ]


def _folder(name: str, path: Path, otherwise: Status, way_out: str) -> Finding:
    there = next(place for place in (path, *path.parents) if place.exists())
    free = shutil.disk_usage(there).free
    words = f"{path}, {_gb(free)} free"
    if not _writable(there):
        return Finding("disk", name, f"{words}, cannot be written", otherwise, way_out)
    if free < _LITTLE:
        return Finding("disk", name, words, "note", "make room: maps and results take gigabytes on large data")
    return Finding("disk", name, words)


def _writable(folder: Path) -> bool:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            return True
    except OSError:
        return False


def _optional() -> list[Finding]:
    found = []
    for extra, (purpose, wanted) in OPTIONAL.items():
        there = [next(((name, _version(name)) for name in names if _version(name)), None) for names in wanted]
        if all(there):
            words = ", ".join(f"{pair[0]} {pair[1]}" for pair in there if pair)
            found.append(Finding("optional", extra, f"{words}: {purpose}"))
        else:
            install = f'pip install "roadworthy[{extra}]"'
            found.append(Finding("optional", extra, f"missing: {purpose}", "note", install))
    return found


def _data() -> list[Finding]:
    try:
        from roadworthy.data.fashion_mnist import DEBIAN
    except Exception:  # of what it lacks more is said elsewhere
        return []
    if DEBIAN.is_dir():
        return [Finding("data", "fashion-mnist", str(DEBIAN))]
    way_out = "on Debian: apt install dataset-fashion-mnist; else it is downloaded on first use"
    return [Finding("data", "fashion-mnist", "not on this machine", "note", way_out)]


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except Exception:  # its line says what is wrong
        return None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers a version begins with; what comes after, such as ``+cpu``, does not count."""
    release = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in release[0].split(".")) if release else ()


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__
