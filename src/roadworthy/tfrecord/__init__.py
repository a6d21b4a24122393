"""TFRecord files and ``tf.train.Example`` messages without TensorFlow (extra ``[tfrecord]``)."""

from __future__ import annotations

from roadworthy.tfrecord.example import Value, decode, encode
from roadworthy.tfrecord.framing import MAX_RECORD, read_records
from roadworthy.tfrecord.index import Column, Index, open_index
from roadworthy.tfrecord.shards import Shards, find_shards, is_tfrecord
from roadworthy.tfrecord.writing import Appender, record_writer

__all__ = [
    "MAX_RECORD",
    "Appender",
    "Column",
    "Index",
    "Shards",
    "Value",
    "decode",
    "encode",
    "find_shards",
    "is_tfrecord",
    "open_index",
    "read_records",
    "record_writer",
]
