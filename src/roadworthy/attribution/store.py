"""Maps written to disk as they are made: a zarr 3 store that an interrupted run goes on with.

Layout: ``maps/NAME`` (percent-encoded), ``ids``, ``digests``, ``targets`` and ``per_sample/NAME/KEY`` grow block by
block; a block is one chunk, compressed and with a checksum (crc32c). A digest is a hash of a sample's values and of
the class that was asked for, so that maps are never taken for those of other samples with equal ids. Each array's
attribute ``finished`` is the number of rows that count. It is raised, in one atomic replacement of the metadata, only
after the rows before it are written; whatever a killed run left beyond it is written again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch

from roadworthy.attribution.base import methods as registered
from roadworthy.attribution.explainer import Explained, Explainer
from roadworthy.attribution.requests import Methods, Request
from roadworthy.attribution.room import warn_room
from roadworthy.attribution.samples import Images, Samples, blocks
from roadworthy.attribution.saved import DIGESTS, FORMAT, IDS, SavedMaps, missing_chunks, open_maps
from roadworthy.errors import DataError, InputError
from roadworthy.fingerprints import callable_fingerprint, model_fingerprint
from roadworthy.types import Ids


class MapStore:
    """A store of maps that grows in blocks.

    Args:
        path: folder of the store; made if it is not there.
        key: what the maps depend on, as JSON types; a store made with another key is refused.
        block: samples in a block, which is what is lost at most by an interruption.

    Raises:
        DataError: the folder holds something else, or maps made with another key.
    """

    def __init__(self, path: str | Path, key: dict[str, Any], *, block: int = 32) -> None:
        import zarr

        self.path = Path(path)
        if self.path.exists() and any(self.path.iterdir()) and not (self.path / "zarr.json").exists():
            raise DataError(f"{self.path} is not empty and holds no maps; choose another path")
        self.group: Any = zarr.open_group(str(self.path), mode="a")
        if "key" not in self.group.attrs:
            if any(self.group.members()):
                raise DataError(f"{self.path} is a zarr group of another kind; choose another path")
            head = {"format": FORMAT, "version": 1, "block": block, "key": json.dumps(key)}
            self.group = self.group.update_attributes(head)  # in one write: a full disk leaves none or all
        if self.group.attrs["format"] != FORMAT:
            raise DataError(f"{self.path} is a {self.group.attrs['format']!r}, not {FORMAT!r}; choose another path")
        attributes: dict[str, Any] = self.group.attrs.asdict()
        self.block = int(attributes["block"])
        self._check_key(json.loads(attributes["key"]), json.loads(json.dumps(key)))
        self._forget_damaged()

    def _forget_damaged(self) -> None:
        """Let maps of which files are missing count for nothing, so that they are made again."""
        for _, array in self.group["maps"].arrays() if "maps" in self.group else ():
            if missing_chunks(array):
                array.attrs.update({"finished": 0})

    def _check_key(self, stored: dict[str, Any], given: dict[str, Any]) -> None:
        different = [name for name in {**stored, **given} if stored.get(name) != given.get(name)]
        if different:
            found = "; ".join(difference(name, stored.get(name), given.get(name)) for name in different)
            raise DataError(
                f"{self.path} holds maps made in another way: {found}. Choose another path, or delete this folder; "
                f"open_maps({str(self.path)!r}) still reads it."
            )

    def finished(self, node: str) -> int:
        """Return how many rows of an array count; 0 if it is not there."""
        return int(self.group[node].attrs.get("finished", 0)) if node in self.group else 0

    def append(self, node: str, start: int, values: np.ndarray, **attributes: Any) -> None:
        """Write rows from ``start`` on and make them count.

        Args:
            node: path of the array in the store, encoded.
            start: position of the first row, a multiple of the block.
            values: (rows, ...).
            attributes: kept with the array, as JSON types.
        """
        if node not in self.group:
            self._create(node, values)
        array = self.group[node]
        if tuple(array.shape[1:]) != values.shape[1:]:
            raise DataError(
                f"{self.path}: {node} has samples of shape {tuple(array.shape[1:])}, these have {values.shape[1:]}; "
                "samples of a store have one shape"
            )
        end = start + len(values)
        if array.shape[0] < end:
            array.resize((end, *array.shape[1:]))
        array[start:end] = values
        array.attrs.update({**attributes, "finished": max(end, self.finished(node))})

    def _create(self, node: str, values: np.ndarray) -> None:
        from zarr.codecs import Crc32cCodec, ZstdCodec

        text = values.dtype.kind in "OUT"
        self.group.create_array(
            node,
            shape=(0, *values.shape[1:]),
            dtype="string" if text else values.dtype,
            chunks=(self.block, *values.shape[1:]),
            compressors=[ZstdCodec(level=1), Crc32cCodec()],
            fill_value="" if text else (np.nan if values.dtype.kind == "f" else -1),
        )

    def check_samples(self, start: int, ids: Sequence[str], digests: np.ndarray) -> None:
        """Hold a block's samples against those stored.

        Args:
            start: position of the block's first sample.
            ids: its sample ids.
            digests: int64 (n,), see :func:`sample_digests`.

        Raises:
            DataError: they differ, naming the first that does.
        """
        if start >= self.finished(IDS):
            return
        known = [str(sample) for sample in self.group[IDS][start : min(self.finished(IDS), start + len(ids))]]
        for place, (old, new) in enumerate(zip(known, ids, strict=False)):
            if old != new:
                raise DataError(
                    f"{self.path} holds maps of other samples: number {start + place} is {old!r} there and {new!r} "
                    "here. Choose another path, or delete this folder."
                )
        stored = np.asarray(self.group[DIGESTS][start : start + len(known)])
        changed = np.flatnonzero(stored != digests[: len(known)])
        if len(changed):
            raise DataError(
                f"{self.path}: {len(changed)} samples have changed since their maps were made, the first "
                f"{ids[int(changed[0])]!r}: they have other values, or another class to explain. Choose another "
                "path, or delete this folder."
            )

    def complete(self, n: int) -> None:
        """Note that all ``n`` samples are done."""
        if n < self.finished(IDS):
            more = self.finished(IDS)
            raise DataError(f"{self.path} holds maps of {more} samples, these are {n}; choose another path")
        self.group.attrs.update({"complete": True})


def difference(name: str, stored: Any, given: Any) -> str:
    """Say in what two settings differ: stored "there", given "here"."""
    if isinstance(stored, dict) and isinstance(given, dict):
        parts = [key for key in {**stored, **given} if stored.get(key) != given.get(key)]
        return "; ".join(difference(f"{name}.{key}", stored.get(key), given.get(key)) for key in parts)
    return f"{name} is {stored!r} there and {given!r} here"


def attribute_to_store(
    model: Callable[..., Any],
    images: Images,
    methods: Methods,
    path: str | Path,
    *,
    block: int = 32,
    labels: Any = None,
    target: Any = "predicted",
    ids: Ids | None = None,
    **options: Any,
) -> SavedMaps:
    """Compute maps and write them to a zarr store block by block; a run that was interrupted goes on where it was.

    Blocks that are finished are not computed again; methods that the store does not hold yet are added.

    Args:
        model: as for :func:`attribute`.
        images: as for :func:`attribute`; a Split or batches are read as they are needed.
        methods: as for :func:`attribute`.
        path: folder of the store, ``NAME.zarr``.
        block: samples in a block.
        labels: as for :func:`attribute`.
        target: as for :func:`attribute`.
        ids: as for :func:`attribute`.
        options: the further keywords of :func:`attribute`: ``seed``, ``max_batch``, ``normalize``, ``settings``,
            ``mean``, ``output``, ``layout``, ``device``, ``progress``.

    Returns:
        The store, opened with :func:`open_maps`.

    Raises:
        DataError: the store was made with another model, other settings or other samples; says which.

    Example:
        >>> import tempfile
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        >>> path = tempfile.mkdtemp() + "/maps.zarr"
        >>> maps = attribute_to_store(model, torch.rand(5, 1, 4, 4), ["grad"], path, block=2)
        >>> maps["grad"][3:].shape, maps.ids
        ((2, 1, 4, 4), ['0', '1', '2', '3', '4'])
    """
    if not isinstance(block, int) or block < 1:
        raise InputError(f"block: got {block!r}, expected an integer of at least 1")
    explainer = Explainer(model, methods, **options)
    store: MapStore | None = None
    size, start = _block_of(path, block), 0
    layout = explainer.classifier.layout
    for samples in blocks(images, size, labels=labels, target=target, ids=ids, layout=layout):
        if store is None:
            n = len(images) if isinstance(images, Sized) else len(samples.ids)
            warn_room(path, n, samples.images.shape[1:], len(explainer.requests))
            store = MapStore(path, run_key(explainer, samples.images.shape[1], target), block=block)
            store.group.attrs.update({"complete": False})
        _write_block(store, explainer, samples, start)
        start += len(samples.ids)
    assert store is not None  # blocks() refuses to yield nothing
    store.complete(start)
    return open_maps(path)


def _block_of(path: str | Path, block: int) -> int:
    """Return the block size that a store at ``path`` was made with, or the one wanted."""
    file = Path(path) / "zarr.json"
    if not file.exists():
        return block
    attributes = json.loads(file.read_text(encoding="utf8")).get("attributes", {})
    return int(attributes.get("block", block))


def run_key(explainer: Explainer, channels: int, target: Any) -> dict[str, Any]:
    """Return what maps depend on besides their method and their sample, as JSON types."""
    classifier = explainer.classifier
    values = explainer.resolved(channels)
    normalize, output = classifier.normalize, classifier.output
    return {
        "model": model_fingerprint(classifier.model),
        "settings": values.describe(),
        "seed": explainer.seed,
        "target": target if isinstance(target, str) else "given",  # the classes themselves are in the digests
        "normalize": None if normalize is None else [np.asarray(part, dtype=float).tolist() for part in normalize],
        "output": callable_fingerprint(output) if callable(output) else output,
        "layout": classifier.layout,
    }


def sample_digests(samples: Samples) -> np.ndarray:
    """Hash each sample's values and the class that was asked for, if one was; int64 (n,).

    Example:
        >>> one, other = (Samples(torch.zeros(2, 3), ["a", "b"], [0, last]) for last in (1, 2))
        >>> (sample_digests(one) == sample_digests(other)).tolist()
        [True, False]
    """
    images = np.ascontiguousarray(samples.images.cpu().numpy())
    classes = samples.labels if isinstance(samples.target, str) else samples.target
    if classes is None or (isinstance(samples.target, str) and samples.target != "label"):
        classes = torch.full((len(images),), -1)
    found = np.empty(len(images), dtype=np.int64)
    for row, (values, asked) in enumerate(zip(images, classes.tolist(), strict=True)):
        digest = hashlib.blake2b(f"{images.dtype}{values.shape}{asked}".encode(), digest_size=8)
        digest.update(values)
        found[row] = int.from_bytes(digest.digest(), "little", signed=True)
    return found


def _write_block(store: MapStore, explainer: Explainer, samples: Samples, start: int) -> None:
    end = start + len(samples.ids)
    digests = sample_digests(samples)
    store.check_samples(start, samples.ids, digests)
    waiting = [request for request in explainer.requests if store.finished(_node(request.name)) < end]
    for request in explainer.requests:
        _check_method(store, explainer, request)
    explainer.tick((len(explainer.requests) - len(waiting)) * len(samples.ids))
    if not waiting:
        return
    if samples.logits is None:
        logits = explainer.scores(samples)
        samples = dataclasses.replace(samples, logits=logits)
    store.append(DIGESTS, start, digests)
    for together in by_family(waiting):  # a slow family must not cost what the quick ones have done
        _append(store, explainer, explainer.explain(samples, only=together), together, samples, start)


def by_family(requests: list[Request]) -> list[list[Request]]:
    """Put requests that share work together."""
    groups: dict[str, list[Request]] = {}
    for request in requests:
        shared = registered[request.source].name if isinstance(request.source, str) else f"callable {request.name}"
        groups.setdefault(shared, []).append(request)
    return list(groups.values())


def _append(
    store: MapStore, explainer: Explainer, found: Explained, waiting: list[Request], samples: Samples, start: int
) -> None:
    for request in waiting:
        name = request.name
        for key, values in found.per_sample[name].items():
            store.append(f"per_sample/{quote(name, safe='')}/{quote(key, safe='')}", start, values)
    store.append("targets", start, found.targets)
    store.append(IDS, start, np.array(samples.ids, dtype=object))
    for request in waiting:  # last: a map's row counts once all that belongs to it is there
        about = {"method": explainer.settings_of(request), "notes": found.notes[request.name]}
        store.append(_node(request.name), start, found.maps[request.name], **json.loads(json.dumps(about)))


def _node(name: str) -> str:
    return f"maps/{quote(name, safe='')}"


def _check_method(store: MapStore, explainer: Explainer, request: Request) -> None:
    """The same name may stand for another method or callable than before."""
    node = _node(request.name)
    if node not in store.group:
        return
    stored = store.group[node].attrs.get("method", {})
    given = json.loads(json.dumps(explainer.settings_of(request)))
    if stored and stored != given:
        raise DataError(
            f"{store.path}: the maps {request.name!r} there are of another method: "
            f"{difference('it', stored, given)}. Give this one another name, or choose another path."
        )
