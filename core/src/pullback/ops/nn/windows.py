"""Sliding windows: strides, padding, dilation, and the resulting sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import product
from typing import Any, Literal, TypeAlias, TypeVar

from pullback import errors
from pullback.ops.manipulation import permute_dims
from pullback.ops.padding import pad
from pullback.ops.slicing import strided_place, strided_slice
from pullback.shapes import Pads, Shape, as_int, output_sizes
from pullback.tensor import Tensor

__all__: list[str] = []

# The types for callers; bodies, rules and kernels get tuples, so one type cannot serve both.
#: One number for all spatial dimensions, or one per dimension.
Sizes: TypeAlias = Any
#: "valid", "same" or "causal"; or one number, or (before, after) per spatial dimension.
Padding: TypeAlias = Any
DataFormat: TypeAlias = Literal["channels_last", "channels_first"]


R = TypeVar("R")

#: The largest number for one spatial dimension: work grows with it.
_LARGEST = 2**31 - 1


def sizes(value: object, count: int, name: str) -> Shape:
    """`count` positive integers, from one integer or a sequence.

    Raises:
        ShapeError: for the wrong number of integers, or one below 1.
        InputTypeError: for other types.
    """
    if isinstance(value, (bytes, Mapping, Set)):
        raise errors.InputTypeError(
            f"{name} must be an integer or a sequence of integers, got {value!r}"
        )
    canonical = (
        tuple(as_int(size, f"an integer in {name}") for size in value)
        if isinstance(value, Iterable)
        else (as_int(value, f"an integer or a sequence for {name}"),) * count
    )
    if len(canonical) != count or not all(1 <= size <= _LARGEST for size in canonical):
        raise errors.ShapeError(
            f"{name} must be from 1 to {_LARGEST}, one number or one for each of {count} spatial "
            f"dimensions, got {value!r}"
        )
    return canonical


def pads(padding: object, spatial: Shape, window: Shape, strides: Shape, dilation: Shape) -> Pads:
    """(before, after) for each spatial dimension.

    "same" gives ceil(size / stride) windows, with an odd element at the end; "causal" pads in front
    only, so that no output depends on a later input.

    Raises:
        InputValueError: for an unknown name.
        ShapeError: for the wrong number of pads, or negative ones.
    """
    if isinstance(padding, str):
        word = padding.lower()
        if word == "valid":
            return ((0, 0),) * len(spatial)
        reach = [step * (width - 1) for width, step in zip(window, dilation, strict=True)]
        if word == "causal":
            return tuple((amount, 0) for amount in reach)
        if word == "same":
            total = [
                max(0, (-(-size // stride) - 1) * stride + amount + 1 - size)
                for size, stride, amount in zip(spatial, strides, reach, strict=True)
            ]
            return tuple((amount // 2, amount - amount // 2) for amount in total)
        raise errors.InputValueError(
            f'padding must be "valid", "same", "causal" or pairs of numbers, got {padding!r}'
        )
    entries = list(padding) if isinstance(padding, Iterable) else [padding] * len(spatial)
    pairs = tuple(
        (as_int(entry[0], "an integer pad"), as_int(entry[1], "an integer pad"))
        if isinstance(entry, Sequence) and len(entry) == 2
        else (as_int(entry, "an integer pad, or a pair"),) * 2
        for entry in entries
    )
    if len(pairs) != len(spatial) or any(min(pair) < 0 for pair in pairs):
        raise errors.ShapeError(
            f"padding needs one pair of numbers that are not negative for each of {len(spatial)} "
            f"spatial dimensions, got {padding!r}"
        )
    return pairs


def check_format(data_format: object) -> None:
    """Raises InputValueError for an unknown `data_format`."""
    if data_format not in ("channels_last", "channels_first"):
        raise errors.InputValueError(
            f'data_format must be "channels_last" or "channels_first", got {data_format!r}'
        )


def channels_last(x: Tensor, data_format: str) -> Tensor:
    """x with the channels moved last."""
    if data_format == "channels_last":
        return x
    return permute_dims(x, (0, *range(2, x.ndim), 1))


def channels_back(x: Tensor, data_format: str) -> Tensor:
    """x, whose channels are last, in the requested format."""
    if data_format == "channels_last":
        return x
    return permute_dims(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def canonical_windows(
    spatial: Shape, window: object, strides: object, padding: object, dilation: object
) -> tuple[Shape, Shape, Pads, Shape]:
    """The canonical (window, strides, padding, dilation) for images of `spatial` sizes."""
    count = len(spatial)
    window = sizes(window, count, "window")
    strides = sizes(strides, count, "strides")
    dilation = sizes(dilation, count, "dilation")
    return window, strides, pads(padding, spatial, window, strides, dilation), dilation


def taps(
    x: Tensor, window: Shape, strides: Shape, padding: Pads, dilation: Shape, fill: float = 0
) -> list[Tensor]:
    """The elements of channels-last x at each position in the windows, row-major."""
    out = output_sizes(x.shape[1:-1], window, strides, padding, dilation)
    if any(any(pair) for pair in padding):
        x = pad(x, ((0, 0), *padding, (0, 0)), constant_values=fill)
    return [strided_slice(x, key=key) for key in _keys(x.shape[0], out, window, strides, dilation)]


def untap(
    parts: Sequence[Tensor],
    shape: Shape,
    window: Shape,
    strides: Any,
    padding: Any,
    dilation: Any,
) -> Any:
    """The transpose of `taps`: adds every part to zeros of `shape` at its position."""
    out = parts[0].shape[1:-1]
    padded = [size + low + high for size, (low, high) in zip(shape[1:-1], padding, strict=True)]
    padded_shape = (shape[0], *padded, shape[-1])
    total = None
    for key, part in zip(_keys(shape[0], out, window, strides, dilation), parts, strict=True):
        placed = strided_place(part, shape=padded_shape, key=key)
        total = placed if total is None else total + placed
    assert total is not None, "a window has at least one element"
    inner = [slice(low, low + size, 1) for size, (low, _) in zip(shape[1:-1], padding, strict=True)]
    return strided_slice(total, key=(slice(0, shape[0], 1), *inner, ...))


def _keys(batch: int, out: Shape, window: Shape, strides: Shape, dilation: Shape) -> Iterator[Any]:
    for tap in product(*map(range, window)):
        yield (
            slice(0, batch, 1),
            *[
                slice(i * step, i * step + (count - 1) * stride + 1, stride)
                if count
                else slice(0, 0, 1)
                for i, step, count, stride in zip(tap, dilation, out, strides, strict=True)
            ],
            ...,
        )


def spread(g: Tensor, strides: Shape) -> Tensor:
    """g, which has elements, with strides - 1 zeros between those of each spatial dimension."""
    if all(stride == 1 for stride in strides):
        return g
    spatial = [(n - 1) * stride + 1 for n, stride in zip(g.shape[1:-1], strides, strict=True)]
    key = [slice(0, size, stride) for size, stride in zip(spatial, strides, strict=True)]
    shape = (g.shape[0], *spatial, g.shape[-1])
    return strided_place(g, shape=shape, key=(slice(0, g.shape[0], 1), *key, ...))
