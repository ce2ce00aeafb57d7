"""What comes in: datasets, whose order is set by a seed and whose position can be saved."""

from __future__ import annotations

from pullback.data.dataset import Dataset
from pullback.data.iterator import Iterator
from pullback.data.source import Cursor, Epoch

__all__ = ["Cursor", "Dataset", "Epoch", "Iterator"]
