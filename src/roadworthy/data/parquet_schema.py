"""What a Parquet file says about itself: which columns hold images and labels, and the names of the classes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from roadworthy.errors import DataError

OWN_KEY = "roadworthy"
"""Metadata of files this package wrote: JSON; ``ids`` names the column of sample ids."""

_IMAGE_NAMES = ("image", "img")
_LABEL_NAMES = ("label", "labels")


class Columns(NamedTuple):
    """Names of the columns that hold images and labels, and ids where the file says that one does."""

    image: str
    label: str
    id: str | None = None

    def named(self) -> tuple[str, ...]:
        """Return the names of those that are there."""
        return tuple(name for name in self if name is not None)


def columns_of(root: Path, files: Sequence[str]) -> Columns:
    """Find the image and the label column; all files must agree.

    Raises:
        DataError: a file is no Parquet file, a column is missing or of a type that holds no encoded image.
    """
    found: Columns | None = None
    for file in files:
        columns = _columns(root / file)
        if found is not None and columns != found:
            raise DataError(f"{root}: {files[0]} has the columns {found.named()}, {file} has {columns.named()}")
        found = columns
    assert found is not None
    return found


def class_names(path: Path) -> list[str] | None:
    """Return the class names in a file's metadata, or None.

    Read are ``classes`` (names separated by commas) and the features of Hugging Face's ``datasets``.
    """
    schema = _schema(path)
    metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in _items(schema)}
    if metadata.get("classes"):
        return [name.strip() for name in metadata["classes"].split(",")]
    try:
        features = json.loads(metadata.get("huggingface", ""))["info"]["features"]
        names = features[_columns(path).label]["names"]
    except (ValueError, LookupError, TypeError):  # no such block, or one of another form: labels stay numbers
        return None
    return [str(name) for name in names] if isinstance(names, list) and names else None


def _schema(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not a Parquet file that can be read: {error}") from error


def _items(schema: Any) -> list[tuple[bytes, bytes]]:
    return list((schema.metadata or {}).items())


def _columns(path: Path) -> Columns:
    import pyarrow as pa

    schema = _schema(path)
    image, label = (
        next((name for name in known if name in schema.names), None) for known in (_IMAGE_NAMES, _LABEL_NAMES)
    )
    if image is None or label is None:
        raise DataError(
            f"{path}: has the columns {schema.names}, expected 'image' (or 'img') and 'label' (or 'labels')"
        )
    kind = schema.field(image).type
    if pa.types.is_struct(kind):
        kind = next((kind.field(at).type for at in range(kind.num_fields) if kind.field(at).name == "bytes"), kind)
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise DataError(f"{path}: column {image!r} holds {kind}, expected encoded bytes or a struct with 'bytes'")
    ids = _own(schema).get("ids")
    if ids is not None and ids not in schema.names:
        raise DataError(f"{path}: its metadata name {ids!r} as the column of ids, but it has {schema.names}")
    return Columns(image, label, ids)


def _own(schema: Any) -> dict[str, Any]:
    """Return what this package noted when it wrote the file."""
    try:
        found = json.loads(dict(_items(schema)).get(OWN_KEY.encode(), b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
