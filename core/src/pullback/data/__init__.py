"""Datasets, whose order is decided by a seed and whose position can be saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback import _hints
from pullback._foreign_names.objects import DATASET
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


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.data")
    _hints.answer_calls(Dataset)
    _hints.answer_attributes(Dataset, DATASET)
