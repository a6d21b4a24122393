"""What jobs leave beside their records: weights and maps, where they lie, and whether they are still whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from roadworthy.errors import RoadworthyWarning
from roadworthy.sweep.job import Job
from roadworthy.sweep.store import Store

_ROWS = 256  # of maps that are read at a time


def weights_path(folder: Path, key: str) -> Path:
    """Return where the weights of a training are kept."""
    return folder / "models" / f"{key}.safetensors"


def maps_path(folder: Path, spec: Mapping[str, Any], family: str, split: str) -> Path:
    """Return where maps are kept: one store for each family and split, for all that they follow from."""
    about = {name: spec["maps"][name] for name in ("base", "settings", "target", "seed")}
    about |= {name: spec[name] for name in ("version", "data", "model")}
    text = json.dumps(about, sort_keys=True)
    key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return folder / "maps" / key / f"{quote(family, safe='')}-{split}.zarr"


def withdraw_lost(jobs: Iterable[Job], store: Store, *, thorough: bool = False) -> None:
    """Let finished jobs whose weights or maps are gone or unreadable be done again, where others need them.

    Args:
        jobs: of the sweep.
        store: its records.
        thorough: read all of the maps, whose checksums then tell what is damaged.

    Warns:
        RoadworthyWarning: for each of them.
    """
    known = {job.key: job for job in jobs}
    there = store.finished()
    needed = {key for job in known.values() if job.key not in there for key in job.needs}
    for key in sorted(needed & there & known.keys()):
        path, whole = _product(known[key], store.folder, thorough)
        if whole:
            continue
        with contextlib.suppress(FileNotFoundError):
            aside = store.folder / "damaged" / f"{path.name}.{secrets.token_hex(4)}"
            aside.parent.mkdir(exist_ok=True)
            path.rename(aside)
        store.withdraw(key)
        what = f"{path.relative_to(store.folder)}, which others need, is gone or cannot be read"
        warnings.warn(f"{known[key]}: {what}; it is done again", RoadworthyWarning, stacklevel=2)


def _product(job: Job, folder: Path, thorough: bool) -> tuple[Path, bool]:
    if job.kind == "maps":
        path = maps_path(folder, job.spec, job.spec["family"], job.spec["split"])
        return path, _holds(path, job.spec["sources"], thorough)
    path = weights_path(folder, job.key)
    return path, _is_weights(path)


def _is_weights(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            return True
    except (OSError, SafetensorError):
        return False


def _holds(path: Path, sources: Iterable[str], thorough: bool) -> bool:
    from roadworthy.attribution import open_maps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RoadworthyWarning)  # a store that is not complete
            found = open_maps(path)
        ids = found.ids or []
        if not ids or not all(ids) or any(len(found[source]) != len(ids) for source in sources):
            return False
        for source in sources if thorough else ():
            for start in range(0, len(ids), _ROWS):
                found[source][start : start + _ROWS]
        return True
    except Exception:  # whatever a damaged store raises: it is made anew
        return False
