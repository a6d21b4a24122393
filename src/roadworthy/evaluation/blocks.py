"""Scores of one block of samples, and a folder that keeps finished blocks so that a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.evaluation.result import READOUTS
from roadworthy.evaluation.result_checks import DEPTH, depths
from roadworthy.files import replacing
from roadworthy.provenance import ids_hash

_SHOWN = 60  # characters of a setting in a message
_PER_SAMPLE = ("labels", "targets", "predicted", "tied", "constant", "smoothness")


@dataclass
class BlockScores:
    """What is kept of a block.

    Attributes:
        ids: ids of the b samples that were scored.
        scores: for each readout, an array [method, order, fraction, repeat, sample]; fraction 0 is the intact image.
        labels: int64 (b,).
        targets: int64 (b,).
        predicted: int64 (b,).
        tied: float64 (M, b), share of tied units of each map.
        constant: bool (M, b).
        smoothness: float64 (M, b), correlation of neighbouring units of each map.
        dropped: ids left out because a map was not finite.
        sheet: arrays of the samples kept for pictures; empty if this block has none.
        gaps: absolute completeness gaps per method that has them.
        classes: number of classes the model has.
        notes: warnings that scoring the block gave, by what they are about.
    """

    ids: list[str]
    scores: dict[str, np.ndarray]
    labels: np.ndarray
    targets: np.ndarray
    predicted: np.ndarray
    tied: np.ndarray
    constant: np.ndarray
    smoothness: np.ndarray
    dropped: list[str] = field(default_factory=list)
    sheet: dict[str, np.ndarray] = field(default_factory=dict)
    gaps: dict[str, np.ndarray] = field(default_factory=dict)
    classes: int = 0
    notes: dict[str, str] = field(default_factory=dict)


class BlockStore:
    """Finished blocks in a folder; a block counts only once its file is whole.

    Args:
        folder: where blocks are kept; None keeps nothing.
        key: everything the scores depend on, JSON-serialisable.

    Raises:
        InputError: the folder holds blocks of another run.
    """

    def __init__(self, folder: str | Path | None, key: dict[str, Any]) -> None:
        self.folder = None if folder is None else Path(folder).expanduser()
        if self.folder is None:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"checkpoint: {self.folder} is a file, expected a folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(key, indent=1, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        head = self.folder / "run.json"
        if head.exists():
            found = _read_json(head)
            if found.get("digest") != digest:
                there, here = found.get("key", {}), json.loads(text)
                changed = [
                    f"{name} is {_short(there.get(name))} there and {_short(here[name])} here"
                    for name in key
                    if there.get(name) != here[name]
                ]
                raise InputError(
                    f"{self.folder} holds a run with other settings ({'; '.join(changed) or 'unknown'}); give those "
                    "again, choose another folder (--out), or delete this one"
                )
        else:
            whole = json.dumps({"digest": digest, "key": json.loads(text)}, indent=1)
            with replacing(head) as beside:
                beside.write_text(whole, encoding="utf8")

    def read(self, index: int, kept_as: list[str]) -> BlockScores | None:
        """Return the block if it was finished under this key (ids and what else it depends on), else None."""
        path = self._path(index, kept_as)
        if path is None or not path.exists():
            return None
        try:
            return _read_block(path)
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile):
            return None  # damaged from outside: score the block again

    def write(self, index: int, kept_as: list[str], block: BlockScores) -> None:
        """Keep a finished block."""
        path = self._path(index, kept_as)
        if path is None:
            return
        arrays: dict[str, Any] = {
            "about": np.array(json.dumps({"classes": block.classes, "notes": block.notes})),
            "ids": np.array(block.ids, dtype=str),
            "dropped": np.array(block.dropped, dtype=str),
            **block.scores,
            **{name: getattr(block, name) for name in _PER_SAMPLE},
            **{f"sheet/{name}": array for name, array in block.sheet.items()},
            **{f"gap/{name}": array for name, array in block.gaps.items()},
        }
        with replacing(path) as beside:
            np.savez(beside, **arrays)

    def kept(self, name: str, kept_as: list[str], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was found before about the same blocks, or make it and keep it.

        Args:
            name: what it is.
            kept_as: what it follows from beside the key.
            make: returns it, JSON-serialisable.
        """
        if self.folder is None:
            return make()
        path = self.folder / f"{name}-{ids_hash(kept_as)}.json"
        try:
            found = json.loads(path.read_text(encoding="utf8"))
            if isinstance(found, dict) and max(depths(found)) <= DEPTH:
                return found
        except (OSError, ValueError, RecursionError):
            pass
        found = make()  # it is not there, or damaged from outside
        with replacing(path) as beside:
            beside.write_text(json.dumps(found), encoding="utf8")
        return found

    def _path(self, index: int, kept_as: list[str]) -> Path | None:
        return None if self.folder is None else self.folder / f"block-{index:06d}-{ids_hash(kept_as)}.npz"


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read ({error}); delete the folder {path.parent} to start over"
        ) from error
    if not isinstance(found, dict) or not isinstance(found.get("key"), dict):
        raise InputError(f"{path}: is not what a run wrote; delete the folder {path.parent} to start over")
    return found


def _read_block(path: Path) -> BlockScores:
    with np.load(path, allow_pickle=False) as arrays:
        about: dict[str, Any] = {name: arrays[name] for name in _PER_SAMPLE}
        about |= json.loads(str(arrays["about"]))
        ids = arrays["ids"].tolist()
        lengths = {arrays[name].shape[-1] for name in (*READOUTS, *_PER_SAMPLE)}
        if lengths != {len(ids)}:
            raise ValueError(f"arrays of {lengths} samples for {len(ids)} ids")
        return BlockScores(
            ids=ids,
            dropped=arrays["dropped"].tolist(),
            scores={readout: arrays[readout] for readout in READOUTS},
            sheet={name[6:]: arrays[name] for name in arrays.files if name.startswith("sheet/")},
            gaps={name[4:]: arrays[name] for name in arrays.files if name.startswith("gap/")},
            **about,
        )


def joined(blocks: list[BlockScores]) -> BlockScores:
    """Put blocks together in order."""
    names = sorted({name for block in blocks for name in block.gaps})
    with_sheet = [block.sheet for block in blocks if block.sheet]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks], axis=-1) for name in _PER_SAMPLE
    }
    return BlockScores(
        classes=max(block.classes for block in blocks),
        ids=[sample for block in blocks for sample in block.ids],
        dropped=[sample for block in blocks for sample in block.dropped],
        scores={
            readout: np.concatenate([block.scores[readout] for block in blocks], axis=-1) for readout in READOUTS
        },
        sheet={name: np.concatenate([part[name] for part in with_sheet]) for name in with_sheet[0]}
        if with_sheet
        else {},
        gaps={name: np.concatenate([block.gaps[name] for block in blocks if name in block.gaps]) for name in names},
        **arrays,
    )
