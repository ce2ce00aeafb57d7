"""Datasets, whose order is decided by a seed and whose position can be saved."""

from __future__ import annotations

from pullback.data.dataset import Dataset
from pullback.data.example import Feature, decode_example, encode_example
from pullback.data.iterator import Iterator
from pullback.data.source import Cursor, Epoch
from pullback.data.tfrecord import TFRecordWriter

__all__ = [
    "Cursor",
    "Dataset",
    "Epoch",
    "Feature",
    "Iterator",
    "TFRecordWriter",
    "decode_example",
    "encode_example",
]
