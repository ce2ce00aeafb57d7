"""Elements of datasets: arrays, tensors and strings, in tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.convert import from_any
from pullback._dispatch.host_data import host_array
from pullback._tree import leaves, like, mapped
from pullback.ops.joining import concat, stack
from pullback.strings import StringTensor, is_text
from pullback.tensor import Tensor

#: One element: arrays, tensors and strings, in tuples, lists and dicts.
Element: TypeAlias = Any

Array: TypeAlias = "np.ndarray[Any, Any]"
#: One part of an element.
Leaf: TypeAlias = "Tensor | StringTensor | Array | str | bytes"
#: The same leaf of several elements.
Column: TypeAlias = tuple[Any, ...]


# ---------------------------------------------------------------------------------------------
# Elements from other libraries.


def from_foreign(value: object) -> Element:
    """Converts a value from another library or a generator to an element.

    Arrays are copied, as whoever made them may fill them again. A list of numbers, strings or
    lists of them becomes an array, any other list a tuple.

    Raises:
        ConversionError: for objects that cannot be converted to arrays.
    """
    if value is None or isinstance(value, (str, bytes, Tensor, StringTensor)):
        return value
    if isinstance(value, dict):
        return {key: from_foreign(item) for key, item in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and not _is_plain(value)):
        return tuple_like(value, [from_foreign(item) for item in value])
    if hasattr(type(value), "__pullback_tensor__"):
        return from_any(value)
    if is_text(value):
        return np.array(value, dtype=object if _has_bytes(value) else None)
    try:
        return np.array(host_array(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise errors.ConversionError(
            f"an element must hold arrays, numbers or strings, got {type(value).__name__}: "
            f"{error}; convert it where it is made"
        ) from error


def _is_plain(value: object) -> bool:
    """True if a list holds only numbers, strings, and lists of them."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


def _has_bytes(value: object) -> bool:
    # NumPy's own strings of bytes lose the zeros at their ends.
    if isinstance(value, (list, tuple)):
        return any(_has_bytes(item) for item in value)
    return isinstance(value, bytes)


def tuple_like(structure: Element, items: list[Element]) -> Element:
    """Returns items as a tuple, named if `structure` is."""
    return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)


# ---------------------------------------------------------------------------------------------
# Tensors and arrays of elements.


def as_tensors(element: Element) -> Element:
    """Converts the arrays of an element to tensors; strings stay on the host."""
    return mapped(_tensor, element)


def _tensor(leaf: object) -> Tensor | StringTensor | str | bytes:
    if type(leaf) is Tensor:
        return leaf
    if isinstance(leaf, (str, bytes)):
        return leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(leaf, StringTensor):
        return leaf
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "USO":
        if not is_text(leaf):
            raise errors.ConversionError(
                "an array of Python objects holds neither numbers nor strings alone; give a column "
                "of a table for each kind, such as x['name'], or convert numbers with "
                "x.astype('float32')"
            )
        return StringTensor(leaf)
    return from_any(leaf)


def as_arrays(element: Element) -> Element:
    """Converts the tensors of an element to NumPy arrays, for other processes and for files."""
    return mapped(_array, element)


def _array(leaf: object) -> Any:
    if isinstance(leaf, (str, bytes)):
        return leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(leaf, StringTensor):
        return leaf.numpy()
    return leaf if isinstance(leaf, np.ndarray) else from_any(leaf).numpy()


# ---------------------------------------------------------------------------------------------
# Stacking.


def stacked(items: Sequence[Element]) -> Element:
    """Stacks elements of the same structure along a new first axis of each leaf.

    Raises:
        ShapeError: if shapes or structures differ; names the fix.
    """
    return _by_leaf(items, _stack)


def joined(batches: Sequence[Element]) -> Element:
    """Concatenates stacked elements."""
    return batches[0] if len(batches) == 1 else _by_leaf(batches, _join)


def _by_leaf(items: Sequence[Element], combine: Callable[[Column], Leaf]) -> Element:
    rows = [leaves(item) for item in items]
    if len({len(row) for row in rows}) > 1:
        raise errors.ShapeError(
            f"a batch needs elements with the same parts, got some with "
            f"{' and some with '.join(map(str, sorted({len(row) for row in rows})))}"
        )
    return like(items[0], iter([combine(column) for column in zip(*rows, strict=True)]))


def _stack(column: Column) -> Leaf:
    if any(type(leaf) is Tensor for leaf in column):
        return stack(list(column))
    if isinstance(column[0], (str, bytes)):
        return np.array([_array(leaf) for leaf in column], dtype=object)
    arrays = _of_one_dtype([_host(leaf) for leaf in column])
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise errors.ShapeError(
            f"a batch needs elements of one shape, got {' and '.join(map(str, shapes[:4]))}; "
            f"padded_batch pads the shorter ones"
        )
    return np.stack(arrays)


def _join(column: Column) -> Leaf:
    if any(type(leaf) is Tensor for leaf in column):
        return concat(list(column))
    return np.concatenate(_of_one_dtype([np.asarray(leaf) for leaf in column]))


def _host(leaf: object) -> Array:
    """A leaf as an array: a Python number has the default dtype of its kind, not NumPy's."""
    return host_array(leaf) if isinstance(leaf, (bool, int, float, complex)) else np.asarray(leaf)


def _of_one_dtype(arrays: list[Array]) -> list[Array]:
    """Arrays in the dtype that theirs promote to, as in an op: int32 and float32 give float32."""
    kinds = {array.dtype for array in arrays}
    if len(kinds) == 1 or any(dtype not in dtypes.ALL for dtype in kinds):
        return arrays
    dtype = dtypes.promote([array.dtype for array in arrays])
    return [array.astype(dtype, copy=False) for array in arrays]


def padded(
    items: Sequence[Element], shapes: Sequence[Sequence[int | None]] | None, values: object
) -> Element:
    """Pads each leaf of some elements at its end to one shape, and stacks them.

    Args:
        items: elements of the same structure.
        shapes: a shape for each leaf; None in a shape, or for it, is the longest of the elements.
        values: the padding value, or a list of one for each leaf; strings are padded with empty
            strings.

    Raises:
        ShapeError: if an element is larger than its shape, or ranks differ.
    """
    numbers = iter(range(len(leaves(items[0]))))

    def combine(column: Column) -> Leaf:
        i = next(numbers)
        value = values[i] if isinstance(values, (list, tuple)) else values
        return _pad(column, None if shapes is None else shapes[i], value)

    return _by_leaf(items, combine)


def _pad(column: Column, wanted: Sequence[int | None] | None, value: object) -> Leaf:
    if isinstance(column[0], (str, bytes)):
        return np.array([_array(leaf) for leaf in column], dtype=object)
    arrays = _of_one_dtype([_array(leaf) for leaf in column])
    if len({array.ndim for array in arrays}) > 1:
        ranks = sorted({array.ndim for array in arrays})
        raise errors.ShapeError(f"padded_batch needs elements of one rank, got {ranks}")
    longest = [max(sizes) for sizes in zip(*[array.shape for array in arrays], strict=True)]
    shape = (
        longest
        if wanted is None
        else [longest[i] if n is None else n for i, n in enumerate(wanted)]
    )
    if len(shape) != len(longest) or any(n < m for n, m in zip(shape, longest, strict=True)):
        raise errors.ShapeError(
            f"padded_batch: an element of shape {tuple(longest)} does not fit into {tuple(shape)}; "
            f"use None for a size that follows the longest element"
        )
    if arrays[0].dtype.kind in "USO":
        empty = type(arrays[0].flat[0])() if arrays[0].size else ""
        filled: Array = np.full((len(arrays), *shape), empty, dtype=object)
    else:
        fill = value
        filled = np.full((len(arrays), *shape), fill, dtype=np.result_type(*arrays))
    for i, array in enumerate(arrays):
        index: tuple[int | slice, ...] = (i, *[slice(n) for n in array.shape])
        filled[index] = array
    return filled


def parts(batch: Element) -> list[Element]:
    """Returns the elements of a batch: the slices of its leaves along the first axis.

    Raises:
        ShapeError: if leaves have no first axis, or first axes of different sizes.
    """
    flat = leaves(batch)
    sizes = {len(leaf) if getattr(leaf, "shape", ()) else None for leaf in flat}
    if len(sizes) != 1 or None in sizes:
        raise errors.ShapeError(
            f"unbatch takes elements whose parts have one size along the first axis, got the "
            f"shapes {[tuple(getattr(leaf, 'shape', ())) for leaf in flat]}"
        )
    (size,) = sizes
    assert size is not None
    return [like(batch, iter([leaf[i] for leaf in flat])) for i in range(size)]
