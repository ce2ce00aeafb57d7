"""Elements by number: arrays in memory and sequences, in order or shuffled."""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._tree import leaves, like
from pullback.data.elements import Element, from_foreign, tuple_like
from pullback.data.source import Cursor, Epoch, Position, permutation
from pullback.shapes import as_int

#: A number, or several.
Index: TypeAlias = "int | slice | np.ndarray[Any, Any]"


class Indexed(Protocol):
    """Elements by number."""

    size: int

    def at(self, index: Index) -> Element:
        """Returns the element with a number."""


def integers(*args: int) -> list[int]:
    """The integers of Python's `range` for these arguments.

    Raises:
        InputTypeError: for an argument that is not an integer.
        InputValueError: for no argument, more than three, a step of 0, or too many integers.
    """
    numbers = [as_int(arg, "an integer for a bound of the range") for arg in args]
    try:
        return list(range(*numbers))
    except (TypeError, ValueError, OverflowError) as error:
        raise errors.InputValueError(str(error)) from None


class SizedItems(Protocol):
    """A sequence, as far as it is used here."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> object: ...


class Items:
    """The elements of a sequence of another library, by number."""

    def __init__(self, sequence: SizedItems) -> None:
        self.sequence = sequence
        self.size = len(sequence)

    def at(self, index: Index) -> Element:
        """Returns the element with a number."""
        assert not isinstance(index, slice)
        return from_foreign(self.sequence[int(index)])


class Slices:
    """Arrays of one length, as elements by index."""

    def __init__(self, values: object) -> None:
        arrays = _as_arrays(values)
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
                f"from_tensor_slices: the first axes must have one size, got the sizes {sizes}; "
                f"pass arrays with the same number of elements"
            )
        self.arrays = arrays
        self.flat = flat
        self.size = sizes[0]

    def at(self, index: Index) -> Element:
        """Returns the element at an index, or those at several, stacked."""
        if type(index) is np.ndarray:
            picked = [array.take(index, 0) for array in self.flat]  # faster than array[index]
        else:
            picked = [array[index] for array in self.flat]
        return like(self.arrays, iter(picked))


def _as_arrays(value: object) -> Element:
    """Converts a structure to host arrays; a list is one array, a tuple several."""
    if isinstance(value, tuple):
        items = [_as_arrays(item) for item in value]
        return tuple_like(value, items)
    if isinstance(value, dict):
        return {key: _as_arrays(item) for key, item in value.items()}
    try:
        array = np.asarray(value)
    except ValueError:
        raise errors.ConversionError(
            "nested lists of unequal lengths cannot be an array; pad them to one length"
        ) from None
    if not isinstance(value, np.ndarray) and not hasattr(type(value), "__array__"):
        # Python numbers get the default dtypes, as everywhere.
        narrow = {
            "f": dtypes.DEFAULT_FLOAT,
            "i": dtypes.DEFAULT_INT,
            "c": dtypes.DEFAULT_COMPLEX,
        }.get(array.dtype.kind)
        if narrow is not None and (
            array.dtype.kind != "i" or (array.astype(narrow) == array).all()
        ):
            array = array.astype(narrow)
    return array


class IndexCursor(Cursor):
    """Elements in the order of their numbers, or in another."""

    def __init__(self, elements: Indexed, order: np.ndarray[Any, Any] | None = None) -> None:
        self.elements = elements
        self.order = order
        self.position = 0

    def next(self) -> Element:
        if self.position >= self.elements.size:
            raise StopIteration
        number = self.position
        self.position += 1
        return self.elements.at(number if self.order is None else int(self.order[number]))

    def next_batch(self, count: int) -> tuple[Element, int]:
        if not isinstance(self.elements, Slices):
            return super().next_batch(count)
        begin = self.position
        end = min(begin + count, self.elements.size)
        if begin >= end:
            raise StopIteration
        self.position = end
        index: Index = slice(begin, end) if self.order is None else self.order[begin:end]
        return self.elements.at(index), end - begin

    def skip(self, count: int) -> int:
        begin = self.position
        self.position = min(begin + count, self.elements.size)
        return self.position - begin

    def state(self) -> Position:
        return {"position": self.position}

    def restore(self, state: Position) -> None:
        self.position = int(state["position"])


def shuffled(elements: Indexed, seed: int, epoch: Epoch) -> IndexCursor:
    """Returns the elements in random order, all orders equally likely."""
    return IndexCursor(elements, permutation(seed, epoch, elements.size))
