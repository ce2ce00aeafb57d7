"""Data in memory: one element for each index of the first axis, in order or shuffled."""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pullback import errors
from pullback.data.source import Cursor, Element, Epoch, bits, permutation
from pullback.structure import leaves, like


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


class SliceCursor(Cursor):
    """The elements of `slices` in some order of their indices."""

    def __init__(self, slices: Slices, order: np.ndarray[Any, Any] | None = None) -> None:
        self.slices = slices
        self.order = order
        self.position = 0

    def next(self) -> Element:
        if self.position >= self.slices.size:
            raise StopIteration
        at = self.position
        self.position += 1
        return self.slices.at(at if self.order is None else self.order[at])

    def next_batch(self, count: int) -> tuple[Element, int]:
        begin = self.position
        end = min(begin + count, self.slices.size)
        if begin >= end:
            raise StopIteration
        self.position = end
        index = slice(begin, end) if self.order is None else self.order[begin:end]
        return self.slices.at(index), end - begin

    def state(self) -> Mapping[str, Any]:
        return {"position": self.position}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.position = int(state["position"])


def shuffled(slices: Slices, seed: int, epoch: Epoch) -> SliceCursor:
    """The elements in random order, all orders alike."""
    return SliceCursor(slices, permutation(seed, epoch, slices.size))


class BufferCursor(Cursor):
    """Elements of any cursor, each drawn from a buffer of those that come next.

    Its position is how many elements it has given: to go there again it reads them again, so that
    nothing of the data is in a checkpoint.
    """

    def __init__(self, source: Cursor, size: int, seed: int, epoch: Epoch) -> None:
        self.source = source
        self.size = size
        self.bits = bits(seed, epoch, "buffer")
        self.buffer: list[Element] = []
        self.given = 0
        self.drained = False

    def next(self) -> Element:
        while len(self.buffer) < self.size and not self.drained:
            try:
                self.buffer.append(self.source.next())
            except StopIteration:
                self.drained = True
        if not self.buffer:
            raise StopIteration
        chosen = int(self.bits.random_raw()) % len(self.buffer)
        self.given += 1
        # The last one takes the place of the one drawn: no element is moved twice.
        self.buffer[chosen], self.buffer[-1] = self.buffer[-1], self.buffer[chosen]
        return self.buffer.pop()

    def state(self) -> Mapping[str, Any]:
        return {"given": self.given}

    def restore(self, state: Mapping[str, Any]) -> None:
        for _ in range(int(state["given"])):
            self.next()

    def close(self) -> None:
        self.source.close()
