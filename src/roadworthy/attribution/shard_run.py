"""Maps made and written as the ROAR benchmark's shards; a run that was interrupted goes on where it was."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from roadworthy.attribution.explainer import Explainer
from roadworthy.attribution.requests import Methods, Request
from roadworthy.attribution.samples import Samples, blocks
from roadworthy.attribution.shards import InputShard, input_shards, record, roar_names
from roadworthy.attribution.store import by_family, difference, run_key
from roadworthy.errors import DataError, InputError
from roadworthy.files import replacing
from roadworthy.records import Split
from roadworthy.tfrecord import Appender

_STATE = ".roadworthy-shards.json"


def attribute_to_shards(
    model: Callable[..., Any],
    split: Split,
    methods: Methods,
    folder: str | Path,
    *,
    block: int = 32,
    target: Literal["predicted", "label"] = "predicted",
    **options: Any,
) -> list[Path]:
    """Compute maps of a split and write them as the ROAR benchmark's shards, one output shard per input shard.

    The files are ``FOLDER/METHOD/SHARD``, see :mod:`roadworthy.attribution.shards`. A file appears under its name
    when it is complete. Stopped at any moment, the same call goes on behind the last whole block.

    Args:
        model: as for :func:`attribute`.
        split: of a ``tfrecord:`` data set, or another whose source has encoded images and ids ``SHARD:ROW``.
        methods: as for :func:`attribute`.
        folder: where the methods' folders go; several splits may go into one.
        block: samples computed and written together, which is what is lost at most by an interruption.
        target: ``"predicted"`` or ``"label"``.
        options: the further keywords of :func:`attribute`: ``seed``, ``max_batch``, ``normalize``, ``settings``,
            ``mean``, ``output``, ``layout``, ``device``, ``progress``.

    Returns:
        The files of all methods and shards.

    Raises:
        InputError: a split without shards, or arguments that cannot be used.
        DataError: the folder holds maps made with another model or other settings, or of a file that has changed.
    """
    if not isinstance(block, int) or block < 1:
        raise InputError(f"block: got {block!r}, expected an integer of at least 1")
    if target not in ("predicted", "label"):
        raise InputError(f"target: got {target!r}, expected 'predicted' or 'label'")
    explainer = Explainer(model, methods, **options)
    shards = input_shards(split)
    run = _Run(Path(folder), explainer, split, block=block, target=target)
    return [path for shard in shards for path in run.shard(shard)]


class _Run:
    """One call of :func:`attribute_to_shards`."""

    def __init__(self, folder: Path, explainer: Explainer, split: Split, *, block: int, target: str) -> None:
        self.folder, self.explainer, self.split = folder, explainer, split
        self.block, self.target = block, target
        key = {**run_key(explainer, split.shape[0], target), "block": block}
        path = folder / _STATE
        self.state: dict[str, Any] = {"key": key, "methods": {}, "stamps": {}}
        if path.exists():
            self.state = json.loads(path.read_text(encoding="utf8"))
        self._check("settings", self.state["key"], key)
        for request in explainer.requests:
            given = explainer.settings_of(request)
            self._check(f"method {request.name!r}", self.state["methods"].setdefault(request.name, given), given)

    def _check(self, what: str, stored: Any, given: Any) -> None:
        given = json.loads(json.dumps(given))
        stored = json.loads(json.dumps(stored))
        if stored != given:
            raise DataError(
                f"{self.folder} holds shards made in another way: {difference(what, stored, given)}. Choose another "
                "folder, or delete this one."
            )

    def shard(self, shard: InputShard) -> list[Path]:
        """Make the files of one input shard, unless they are there."""
        paths = {
            request.name: self.folder / roar_names(request.name).folder / shard.name
            for request in self.explainer.requests
        }
        self._note(shard, any(path.exists() for path in paths.values()))
        waiting = [request for request in self.explainer.requests if not paths[request.name].exists()]
        self.explainer.tick((len(paths) - len(waiting)) * len(shard.indices))
        if waiting:
            with contextlib.ExitStack() as stack:
                files = {
                    request.name: stack.enter_context(Appender(paths[request.name], self._whole_blocks))
                    for request in waiting
                }
                self._fill(shard, waiting, files)
                for file in files.values():
                    file.finish()
        return list(paths.values())

    def _whole_blocks(self, count: int) -> int:
        return count - count % self.block

    def _note(self, shard: InputShard, begun: bool) -> None:
        """Remember the state of the input file that the maps are made from."""
        stamp = None
        if shard.path is not None:
            status = os.stat(shard.path)
            stamp = [status.st_size, status.st_mtime_ns]
        # a shard of which another part was taken, as by another number of samples, is another shard
        given = {"file": stamp, "n": len(shard.indices), "first": self._first(shard)}
        stored = self.state["stamps"].get(shard.name)
        if stored is not None and stored != given:
            raise DataError(
                f"{self.folder}: {shard.name} has changed since its maps were begun "
                f"({difference('it', stored, given)}). Choose another folder, or delete this one."
            )
        if stored is None and begun:
            raise DataError(f"{self.folder}: {shard.name} is there, but was not written by this package's run")
        self.state["stamps"][shard.name] = given
        with replacing(self.folder / _STATE) as beside:
            beside.write_text(json.dumps(self.state), encoding="utf8")

    def _first(self, shard: InputShard) -> str | None:
        return str(self.split.source.ids[int(shard.indices[0])]) if len(shard.indices) else None

    def _fill(self, shard: InputShard, waiting: list[Request], files: dict[str, Appender]) -> None:
        if not len(shard.indices):
            return
        part = Split(self.split.source, self.split.name, shard.indices)
        index_of = {str(self.split.source.ids[index]): index for index in shard.indices.tolist()}
        start = 0
        for samples in blocks(part, self.block, target=self.target):
            end = start + len(samples.ids)
            missing = [request for request in waiting if files[request.name].count < end]
            self.explainer.tick((len(waiting) - len(missing)) * len(samples.ids))
            self._block(samples, missing, files, index_of)
            start = end

    def _block(
        self, samples: Samples, missing: list[Request], files: dict[str, Appender], index_of: dict[str, int]
    ) -> None:
        if not missing:
            return
        samples = dataclasses.replace(samples, logits=self.explainer.scores(samples))
        for together in by_family(missing):  # a slow family must not cost what the quick ones have done
            found = self.explainer.explain(samples, only=together)
            for request in together:
                file, maps = files[request.name], found.maps[request.name]
                for place, sample in enumerate(samples.ids):
                    explained = int(found.targets[place])
                    file.append(record(request.name, maps[place], self.split, index_of[sample], explained))
                file.flush()
