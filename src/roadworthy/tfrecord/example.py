"""``tf.train.Example``: named lists of bytes, floats or integers, as protobuf messages built here.

The message type is made from descriptors at first use, in a pool of its own, so that it meets no other definition of
the same name. In it, a packed list of floats is declared as bytes: on the wire they are one, and the values become
an array without a Python object each. A list that was written unpacked is read by a second, literal definition.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from roadworthy.errors import DataError, InputError
from roadworthy.tfrecord.extra import protobuf

Value: TypeAlias = list[bytes] | np.ndarray
"""What a feature decodes to: a list of bytes, a float32 array or an int64 array, of one axis."""

_INT64 = (-(2**63), 2**63 - 1)


def encode(features: Mapping[str, Any]) -> bytes:
    """Encode features as a ``tf.train.Example``; the same features give the same bytes.

    Args:
        features: names to values. ``bytes`` or a sequence of them make a bytes list; integers and booleans an int64
            list; floats, also float64, a float32 list. A scalar is a list of one; arrays are taken in row-major
            order. An empty Python list is a bytes list: for others pass an empty array.

    Raises:
        InputError: a value of another kind, or an integer beyond 64 bits.
        MissingExtraError: protobuf is not installed.

    Example:
        >>> record = encode({"label": 3, "image": b"...", "map": np.array([0.5, -1.0])})
        >>> {name: list(value) for name, value in sorted(decode(record).items())}
        {'image': [b'...'], 'label': [np.int64(3)], 'map': [np.float32(0.5), np.float32(-1.0)]}
    """
    message = _example(packed_floats="bytes")()
    for name, value in features.items():
        if not isinstance(name, str):
            raise InputError(f"features: the name {name!r} is a {type(name).__name__}, expected a string")
        _put(message.features.feature[name], name, value)
    encoded: bytes = message.SerializeToString(deterministic=True)
    return encoded


def decode(record: bytes, names: Iterable[str] | None = None, *, where: str = "record") -> dict[str, Value]:
    """Decode a ``tf.train.Example``.

    Args:
        record: the data of a record.
        names: features to decode; those that are absent are left out. All by default.
        where: what to call the record in messages.

    Returns:
        Name -> list of bytes, float32 array (read-only) or int64 array. A feature without a value is left out.

    Raises:
        DataError: it is no such message.
        MissingExtraError: protobuf is not installed.

    Example:
        >>> decode(encode({"a": [1, 2], "b": b"x"}), ["a", "c"])
        {'a': array([1, 2])}
    """
    message = _example(packed_floats="bytes")
    try:
        features = message.FromString(record).features.feature
    except Exception as error:  # DecodeError of protobuf, or RuntimeError where the message nests too deeply
        raise DataError(f"{where}: is no tf.train.Example: {error}") from error
    found: dict[str, Value] = {}
    for name in features if names is None else names:
        if name not in features:
            continue
        feature = features[name]
        kind = feature.WhichOneof("kind")
        if kind == "bytes_list":
            found[name] = list(feature.bytes_list.value)
        elif kind == "int64_list":
            found[name] = np.array(list(feature.int64_list.value), dtype=np.int64)
        elif kind == "float_list":
            found[name] = _floats(feature.float_list, record, name, where)
    return found


def _floats(values: Any, record: bytes, name: str, where: str) -> np.ndarray:
    chunks = values.value
    size = len(chunks[0]) if len(chunks) == 1 else 0
    # tag and length of one packed chunk, and nothing else: what was written unpacked is an unknown field here
    if values.ByteSize() == (1 + max(1, (size.bit_length() + 6) // 7) + size if len(chunks) == 1 else 0):
        packed = chunks[0] if size else b""
        if size % 4:
            raise DataError(f"{where}: the float list {name!r} has {size} bytes, expected a multiple of 4")
        return np.frombuffer(packed, dtype="<f4").astype(np.float32, copy=False)
    try:
        literal = _example(packed_floats="floats").FromString(record)
    except Exception as error:
        raise DataError(f"{where}: is no tf.train.Example: {error}") from error
    return np.array(list(literal.features.feature[name].float_list.value), dtype=np.float32)


def _put(feature: Any, name: str, value: Any) -> None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = [value]
    if isinstance(value, Sequence) and all(isinstance(part, (bytes, bytearray, memoryview)) for part in value):
        feature.bytes_list.value.extend(bytes(part) for part in value)
        feature.bytes_list.SetInParent()
        return
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        if array.size and array.max() > _INT64[1]:
            raise InputError(f"features: {name!r} has the value {array.max()}, which does not fit into 64 bits")
        feature.int64_list.value.extend(array.astype(np.int64).reshape(-1).tolist())
        feature.int64_list.SetInParent()
    elif array.dtype.kind == "f":
        feature.float_list.SetInParent()
        if array.size:
            feature.float_list.value.append(np.ascontiguousarray(array, dtype="<f4").tobytes())
    else:
        raise InputError(
            f"features: {name!r} is a {type(value).__name__} ({array.dtype}), expected bytes, integers or floats; "
            "encode text first"
        )


@functools.cache
def _example(*, packed_floats: str) -> Any:
    """Build the message class; ``packed_floats`` is "bytes" for the fast definition, "floats" for the literal one."""
    descriptors, pools, factory = protobuf()
    kinds = descriptors.FieldDescriptorProto
    file = descriptors.FileDescriptorProto(
        name="roadworthy_example.proto", package="roadworthy.example", syntax="proto3"
    )

    def message(parent: Any, name: str) -> Any:
        made = parent.add()
        made.name = name
        return made

    def field(owner: Any, name: str, number: int, kind: int, *, many: bool = False, of: str = "") -> Any:
        made = owner.field.add(
            name=name, number=number, type=kind, label=kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        )
        if of:
            made.type_name = f".roadworthy.example.{of}"
        return made

    float_kind = kinds.TYPE_BYTES if packed_floats == "bytes" else kinds.TYPE_FLOAT
    lists = {"BytesList": kinds.TYPE_BYTES, "FloatList": float_kind, "Int64List": kinds.TYPE_INT64}
    for name, kind in lists.items():
        field(message(file.message_type, name), "value", 1, kind, many=True)
    feature = message(file.message_type, "Feature")
    feature.oneof_decl.add(name="kind")
    for number, (name, of) in enumerate(zip(("bytes_list", "float_list", "int64_list"), lists, strict=True), 1):
        field(feature, name, number, kinds.TYPE_MESSAGE, of=of).oneof_index = 0
    features = message(file.message_type, "Features")
    entry = message(features.nested_type, "FeatureEntry")
    entry.options.map_entry = True
    field(entry, "key", 1, kinds.TYPE_STRING)
    field(entry, "value", 2, kinds.TYPE_MESSAGE, of="Feature")
    field(features, "feature", 1, kinds.TYPE_MESSAGE, many=True, of="Features.FeatureEntry")
    field(message(file.message_type, "Example"), "features", 1, kinds.TYPE_MESSAGE, of="Features")
    pool = pools.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return factory.GetMessageClass(pool.FindMessageTypeByName("roadworthy.example.Example"))
