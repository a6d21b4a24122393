"""Scores of one block of samples, and a folder that keeps finished blocks so that a stopped run goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.evaluation.result import READOUTS
from roadworthy.evaluation.result_files import in_one_step
from roadworthy.provenance import ids_hash

_PER_SAMPLE = ("labels", "targets", "predicted", "tied", "constant")


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
        dropped: ids left out because a map was not finite.
        sheet: arrays of the samples kept for pictures; empty if this block has none.
        gaps: absolute completeness gaps per method that has them.
    """

    ids: list[str]
    scores: dict[str, np.ndarray]
    labels: np.ndarray
    targets: np.ndarray
    predicted: np.ndarray
    tied: np.ndarray
    constant: np.ndarray
    dropped: list[str] = field(default_factory=list)
    sheet: dict[str, np.ndarray] = field(default_factory=dict)
    gaps: dict[str, np.ndarray] = field(default_factory=dict)


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
        self.folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(key, indent=1, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        head = self.folder / "run.json"
        if head.exists():
            found = json.loads(head.read_text(encoding="utf8"))
            if found.get("digest") != digest:
                changed = [name for name in key if found.get("key", {}).get(name) != json.loads(text)[name]]
                raise InputError(
                    f"{self.folder} holds an unfinished run with other settings ({', '.join(changed) or 'unknown'}); "
                    "finish it with those, choose another folder, or delete this one"
                )
        else:
            whole = json.dumps({"digest": digest, "key": json.loads(text)}, indent=1)
            in_one_step(head, lambda file: file.write_text(whole, encoding="utf8"))

    def read(self, index: int, kept_as: list[str]) -> BlockScores | None:
        """Return the block if it was finished under this key (ids and what else it depends on), else None."""
        path = self._path(index, kept_as)
        if path is None or not path.exists():
            return None
        with np.load(path, allow_pickle=False) as arrays:
            return BlockScores(
                ids=arrays["ids"].tolist(),
                dropped=arrays["dropped"].tolist(),
                scores={readout: arrays[readout] for readout in READOUTS},
                sheet={name[6:]: arrays[name] for name in arrays.files if name.startswith("sheet/")},
                gaps={name[4:]: arrays[name] for name in arrays.files if name.startswith("gap/")},
                **{name: arrays[name] for name in _PER_SAMPLE},
            )

    def write(self, index: int, kept_as: list[str], block: BlockScores) -> None:
        """Keep a finished block."""
        path = self._path(index, kept_as)
        if path is None:
            return
        arrays: dict[str, Any] = {
            "ids": np.array(block.ids, dtype=str),
            "dropped": np.array(block.dropped, dtype=str),
            **block.scores,
            **{name: getattr(block, name) for name in _PER_SAMPLE},
            **{f"sheet/{name}": array for name, array in block.sheet.items()},
            **{f"gap/{name}": array for name, array in block.gaps.items()},
        }
        in_one_step(path, lambda file: np.savez(file, **arrays))

    def _path(self, index: int, kept_as: list[str]) -> Path | None:
        return None if self.folder is None else self.folder / f"block-{index:06d}-{ids_hash(kept_as)}.npz"


def joined(blocks: list[BlockScores]) -> BlockScores:
    """Put blocks together in order."""
    names = sorted({name for block in blocks for name in block.gaps})
    with_sheet = [block.sheet for block in blocks if block.sheet]
    return BlockScores(
        ids=[sample for block in blocks for sample in block.ids],
        dropped=[sample for block in blocks for sample in block.dropped],
        scores={
            readout: np.concatenate([block.scores[readout] for block in blocks], axis=-1) for readout in READOUTS
        },
        sheet={name: np.concatenate([part[name] for part in with_sheet]) for name in with_sheet[0]}
        if with_sheet
        else {},
        gaps={name: np.concatenate([block.gaps[name] for block in blocks if name in block.gaps]) for name in names},
        **{name: np.concatenate([getattr(block, name) for block in blocks], axis=-1) for name in _PER_SAMPLE},
    )
