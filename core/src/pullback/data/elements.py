"""Elements of datasets: arrays, tensors and strings, in tuples, lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback._dispatch.convert import from_any, host_array
from pullback._tree import leaves, like
from pullback.ops.joining import concat, stack
from pullback.strings import StringTensor, is_text
from pullback.tensor import Tensor

#: One element: arrays, tensors and strings, in tuples, lists and dicts.
Element: TypeAlias = Any

Array: TypeAlias = "np.ndarray[Any, Any]"


# ---------------------------------------------------------------------------------------------
# What comes in.


def from_foreign(value: Any) -> Element:
    """What another library or a generator gave, as an element.

    Arrays are copied, for whoever made them may fill them again. A list of numbers, strings or
    lists of them is an array; a list of anything else is a tuple.

    Raises:
        ConversionError: for objects that are no data.
    """
    if value is None or isinstance(value, (str, bytes, Tensor, StringTensor)):
        return value
    if isinstance(value, dict):
        return {key: from_foreign(item) for key, item in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and not _is_plain(value)):
        return _tuple_like(value, [from_foreign(item) for item in value])
    if hasattr(type(value), "__pullback_tensor__"):
        return from_any(value)
    if is_text(value):
        return np.array(value, dtype=object if _has_bytes(value) else None)
    try:
        return np.array(host_array(value))
    except (TypeError, ValueError, RuntimeError) as error:
        raise errors.ConversionError(
            f"an element holds {type(value).__name__}, which is no array, number or string: "
            f"{error}; turn it into one where it is made"
        ) from error


def _is_plain(value: Any) -> bool:
    """Whether a list is made of numbers and strings, and of lists of them."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(value, (bool, int, float, complex, str, bytes, np.generic))


def _has_bytes(value: Any) -> bool:
    # NumPy's own strings of bytes lose the zeros at their ends.
    if isinstance(value, (list, tuple)):
        return any(_has_bytes(item) for item in value)
    return isinstance(value, bytes)


def _tuple_like(structure: Any, items: list[Any]) -> Any:
    return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)


# ---------------------------------------------------------------------------------------------
# What goes out.


def as_tensors(element: Element) -> Element:
    """The element with tensors for its arrays; strings stay on the host."""
    return like(element, iter([_tensor(leaf) for leaf in leaves(element)]))


def _tensor(leaf: Any) -> Any:
    if type(leaf) is Tensor:
        return leaf
    if isinstance(leaf, (str, bytes)):
        return leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(leaf, StringTensor):
        return leaf
    if isinstance(leaf, np.ndarray) and leaf.dtype.kind in "USO":
        if not is_text(leaf):
            raise errors.ConversionError(
                "an array of Python objects is neither numbers nor strings; convert it first, "
                "such as with x.astype('float32')"
            )
        return StringTensor(leaf)
    return from_any(leaf)


def as_arrays(element: Element) -> Element:
    """The element with NumPy arrays for its tensors, for other processes and for files."""
    return like(element, iter([_array(leaf) for leaf in leaves(element)]))


def _array(leaf: Any) -> Any:
    if isinstance(leaf, (str, bytes)):
        return leaf.item() if isinstance(leaf, np.generic) else leaf
    if isinstance(leaf, StringTensor):
        return leaf.numpy()
    return leaf if isinstance(leaf, np.ndarray) else from_any(leaf).numpy()


# ---------------------------------------------------------------------------------------------
# Several as one.


def stacked(items: Sequence[Element]) -> Element:
    """Elements of one structure as one, with an axis in front of each leaf.

    Raises:
        ShapeError: when shapes or structures differ; names the fix.
    """
    return _by_leaf(items, _stack)


def joined(batches: Sequence[Element]) -> Element:
    """Stacked elements one after another."""
    return batches[0] if len(batches) == 1 else _by_leaf(batches, _join)


def _by_leaf(items: Sequence[Element], together: Callable[[tuple[Any, ...]], Any]) -> Element:
    rows = [leaves(item) for item in items]
    if len({len(row) for row in rows}) > 1:
        raise errors.ShapeError(
            f"a batch needs elements with the same parts, got some with "
            f"{' and some with '.join(map(str, sorted({len(row) for row in rows})))}"
        )
    return like(items[0], iter([together(column) for column in zip(*rows, strict=True)]))


def _stack(column: tuple[Any, ...]) -> Any:
    if any(type(leaf) is Tensor for leaf in column):
        return stack(list(column))
    if isinstance(column[0], (str, bytes)):
        return np.array(column, dtype=object)
    arrays = [np.asarray(leaf) for leaf in column]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise errors.ShapeError(
            f"a batch needs elements of one shape, got {' and '.join(map(str, shapes[:4]))}; "
            f"padded_batch fills the shorter ones up"
        )
    return np.stack(arrays)


def _join(column: tuple[Any, ...]) -> Any:
    if any(type(leaf) is Tensor for leaf in column):
        return concat(list(column))
    return np.concatenate([np.asarray(leaf) for leaf in column])


def padded(
    items: Sequence[Element],
    shapes: Sequence[Sequence[int | None]] | None,
    values: Sequence[Any] | Any,
) -> Element:
    """Elements stacked, each leaf filled up behind to one shape.

    Args:
        items: elements of one structure.
        shapes: one for each leaf; None in it, or for it, takes the longest of these elements.
        values: what is filled in: one, or one for each leaf; strings are filled with empty ones.

    Raises:
        ShapeError: when an element is longer than its shape, or ranks differ.
    """
    place = iter(range(len(leaves(items[0]))))

    def together(column: tuple[Any, ...]) -> Any:
        i = next(place)
        value = values[i] if isinstance(values, (list, tuple)) else values
        return _pad(column, None if shapes is None else shapes[i], value)

    return _by_leaf(items, together)


def _pad(column: tuple[Any, ...], wanted: Sequence[int | None] | None, value: Any) -> Any:
    if isinstance(column[0], (str, bytes)):
        return np.array(column, dtype=object)
    arrays = [_array(leaf) for leaf in column]
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
            f"padded_batch: an element of shape {tuple(longest)} does not go into {tuple(shape)}; "
            f"give None for a size that is to follow the longest element"
        )
    if arrays[0].dtype.kind in "USO":
        empty = type(arrays[0].flat[0])() if arrays[0].size else ""
        filled = np.full((len(arrays), *shape), empty, dtype=object)
    else:
        filled = np.full((len(arrays), *shape), value, dtype=np.result_type(*arrays))
    for i, array in enumerate(arrays):
        where: tuple[Any, ...] = (i, *[slice(n) for n in array.shape])
        filled[where] = array
    return filled


def parts(batch: Element) -> list[Element]:
    """The elements of a batch: the slices of its leaves along the first axis.

    Raises:
        ShapeError: when leaves have no first axis, or of different sizes.
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
