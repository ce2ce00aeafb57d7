"""Data with an index: arrays in memory and sequences, in order or shuffled."""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from pullback import errors
from pullback._tree import leaves, like
from pullback.data.elements import Element, from_foreign
from pullback.data.source import Cursor, Epoch, permutation


class Indexed(Protocol):
    """Elements by number."""

    size: int

    def at(self, index: Any) -> Element:
        """The element with a number."""


class Items:
    """The elements of a sequence of another library, by number."""

    def __init__(self, sequence: Any) -> None:
        self.sequence = sequence
        self.size = len(sequence)

    def at(self, index: Any) -> Element:
        """The element with a number."""
        return from_foreign(self.sequence[int(index)])


class Slices:
    """Arrays of one length, as elements by index."""

    def __init__(self, arrays: Any) -> None:
        arrays = _as_arrays(arrays)
        flat = leaves(arrays)
        if not flat:
            raise errors.InputValueError("from_tensor_slices needs at least one array, got none")
        for array in flat:
            if not array.shape:
                raise errors.ShapeError(
                    "from_tensor_slices takes slices along the first axis, got a 0-d value; "
                    "put it in a list"
                )
        sizes = sorted({len(array) for array in flat})
        if len(sizes) > 1:
            raise errors.ShapeError(
                f"from_tensor_slices: the first axes have the sizes {sizes}; there must be one "
                f"element of each array for every other"
            )
        self.arrays = arrays
        self.flat = flat
        self.size = sizes[0]

    def at(self, index: Any) -> Element:
        """The element at an index, or those at several, stacked."""
        return like(self.arrays, iter([array[index] for array in self.flat]))


def _as_arrays(value: Any) -> Any:
    """Host arrays in the structure that was given; a list is one array, a tuple are several."""
    if isinstance(value, tuple):
        items = [_as_arrays(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, dict):
        return {key: _as_arrays(item) for key, item in value.items()}
    try:
        array = np.asarray(value)
    except ValueError:
        raise errors.ConversionError(
            "nested lists of unequal lengths are no array; pad them to one length"
        ) from None
    if not isinstance(value, np.ndarray) and not hasattr(type(value), "__array__"):
        # Python numbers have the defaults that they have everywhere.
        narrow = {"f": "float32", "i": "int32", "c": "complex64"}.get(array.dtype.kind)
        if narrow is not None and (
            array.dtype.kind != "i" or (array.astype(narrow) == array).all()
        ):
            array = array.astype(narrow)
    return array


class IndexCursor(Cursor):
    """Elements in some order of their numbers."""

    def __init__(self, elements: Indexed, order: np.ndarray[Any, Any] | None = None) -> None:
        self.elements = elements
        self.order = order
        self.position = 0

    def next(self) -> Element:
        if self.position >= self.elements.size:
            raise StopIteration
        at = self.position
        self.position += 1
        return self.elements.at(at if self.order is None else self.order[at])

    def next_batch(self, count: int) -> tuple[Element, int]:
        if not isinstance(self.elements, Slices):
            return super().next_batch(count)
        begin = self.position
        end = min(begin + count, self.elements.size)
        if begin >= end:
            raise StopIteration
        self.position = end
        index = slice(begin, end) if self.order is None else self.order[begin:end]
        return self.elements.at(index), end - begin

    def skip(self, count: int) -> int:
        begin = self.position
        self.position = min(begin + count, self.elements.size)
        return self.position - begin

    def state(self) -> Mapping[str, Any]:
        return {"position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.position = int(state["position"])


def shuffled(elements: Indexed, seed: int, epoch: Epoch) -> IndexCursor:
    """The elements in random order, all orders alike."""
    return IndexCursor(elements, permutation(seed, epoch, elements.size))
