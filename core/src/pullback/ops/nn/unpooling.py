"""Max pooling with the places of the maxima, and its inverse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import general, op
from pullback._dispatch.convert import from_any
from pullback.dtypes import Operands, Resolution, int64, numeric
from pullback.ops.arithmetic import floor_divide, maximum, minimum, remainder
from pullback.ops.creation import zeros
from pullback.ops.indexing import index_dtype, put_along_axis
from pullback.ops.manipulation import reshape
from pullback.ops.nn.pooling import max_pool_gradient, pooled, windowed
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    channels_back,
    channels_last,
    check_format,
    sizes,
)
from pullback.ops.precision import places_on
from pullback.shapes import Pads, Shape, channels_of, image_shape, size_of, spatial_of
from pullback.spec import EXACT, OPS
from pullback.tensor import Tensor

__all__ = ["max_pool_with_indices", "max_unpool"]


def _twice(x: Shape, **attributes: Any) -> list[Shape]:
    """One element per window, twice."""
    return [pooled(x, **attributes)] * 2


def _with_places(operands: Operands, **_: object) -> Resolution:
    """Real values, whose dtype the values have; indices in int64."""
    inputs, (dtype,) = dtypes.real(operands)
    return Resolution(inputs, (dtype, int64))


@op(
    shape=_twice,
    dtype=_with_places,
    accuracy=EXACT,
    outputs=("values", "indices"),
    residuals=("in_windows",),
    normalize=windowed,
)
def max_pool_with_indices(
    x: Tensor,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> tuple[Tensor, Tensor]:
    """`max_pool`, and where in its image each maximum is.

    Args:
        x: as for `max_pool`.
        window: as for `max_pool`.
        strides: as for `max_pool`.
        padding: as for `max_pool`.
        dilation: as for `max_pool`.
        ceil_mode: as for `max_pool`.
        data_format: as for `max_pool`.

    Returns:
        The maxima, and their int64 indices into the pixels of an image in row-major order, which
        PyTorch's function has too: row * width + column. `max_unpool` takes them.

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> values, indices = pb.max_pool_with_indices(pb.reshape([1, 3, 2, 0], (1, 4, 1)), window=2)
    >>> values.tolist(), indices.tolist()
    ([[[3], [2]]], [[[1], [2]]])
    """
    assert strides is not None
    how = {"window": window, "strides": strides, "padding": padding, "dilation": dilation}
    given = {**how, "ceil_mode": ceil_mode, "data_format": data_format}
    values, found = general.call_with_residuals(OPS["max_pool"], (x,), given)
    spatial = spatial_of(x.shape, data_format)
    at = channels_last(found, data_format).astype(places_on(x.device))
    indices = channels_back(_places(at, spatial, **how), data_format)
    return values, indices, found  # type: ignore[return-value]


@max_pool_with_indices.vjp("x")
def _(
    g: tuple[Tensor, Tensor], in_windows: Tensor, x_shape: Shape, window: Shape, strides: Shape,
    padding: Pads, dilation: Shape, ceil_mode: bool, data_format: DataFormat,
) -> Tensor:  # fmt: skip
    return max_pool_gradient(
        g[0], in_windows, input_shape=tuple(x_shape), window=window, strides=strides,
        padding=padding, dilation=dilation, ceil_mode=ceil_mode, data_format=data_format,
    )  # fmt: skip


def _places(
    at: Tensor, spatial: Shape, *, window: Shape, strides: Shape, padding: Pads, dilation: Shape
) -> Tensor:
    """The indices into images, of indices into windows of theirs."""
    index, count = None, len(window)
    for axis, (size, step) in enumerate(zip(spatial, dilation, strict=True)):
        starts = [i * strides[axis] - padding[axis][0] for i in range(at.shape[1 + axis])]
        # Where nothing is larger than the padding, the first element of the image has the place.
        least = [start + step * -(min(start, 0) // step) for start in starts]
        tap = floor_divide(at, size_of(window[axis + 1 :]))
        tap = remainder(tap, window[axis]) if axis else tap
        shape = (len(starts), *[1] * (count - axis))
        place = maximum(tap * step + _along(starts, shape, at), _along(least, shape, at))
        place = minimum(place, max(size - 1, 0))
        index = place if index is None else index * size + place
    assert index is not None
    return index


def _along(values: list[int], shape: Shape, like: Tensor) -> Tensor:
    return reshape(from_any(values, places_on(like.device), like.device), shape)


def _into(shapes: tuple[Shape, ...], *, size: Any, data_format: str) -> dict[str, Any]:
    check_format(data_format)
    x, indices = shapes
    if len(x) < 3 or indices != x:
        raise errors.ShapeError(
            f"max_unpool takes images (batch, *spatial, channels) and indices of the same shape, "
            f"got {x} and {indices}"
        )
    given = tuple(size) if isinstance(size, Iterable) else size
    return {"size": sizes(given, len(x) - 2, "size"), "data_format": data_format}


def _unpooled(x: Shape, _indices: Shape, *, size: Shape, data_format: str) -> Shape:
    """Images of the requested sizes."""
    return image_shape(x[0], size, channels_of(x, data_format), data_format)


def _values_and_index(operands: Operands, **_: object) -> Resolution:
    """The dtype of x; indices in an integer dtype."""
    x, index = operands
    assert index is not None
    inputs, outputs = numeric((x,))
    return Resolution((*inputs, index_dtype(index)), outputs)


@op(shape=_unpooled, dtype=_values_and_index, accuracy=EXACT, normalize=_into)
def max_unpool(
    x: Tensor, indices: Tensor, size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor:
    """Zeros with values at the places that `max_pool_with_indices` found (Zeiler et al., 2011).

    If an index repeats in an image, one of its values is kept; the backend chooses which.

    Args:
        x: images (batch, *spatial, channels).
        indices: for each element its index into the pixels of the result in row-major order,
            integers in the shape of x.
        size: the spatial sizes of the result, one number or one per spatial dimension.
        data_format: "channels_last" or "channels_first".

    Returns:
        Images (batch, *size, channels).

    Raises:
        ShapeError: for indices of another shape, or the wrong number of sizes.
        IndexingError: for an index outside the image.

    >>> values, indices = pb.max_pool_with_indices(pb.reshape([1, 3, 2, 0], (1, 4, 1)), window=2)
    >>> pb.max_unpool(values, indices, 4).tolist()
    [[[0], [3], [2], [0]]]
    """
    values, places = channels_last(x, data_format), channels_last(indices, data_format)
    batch, *_, channels = values.shape
    flat = (batch, size_of(values.shape[1:-1]), channels)
    empty = zeros((batch, size_of(size), channels), dtype=x.dtype, device=x.device)
    y = put_along_axis(empty, reshape(places, flat), reshape(values, flat), axis=1)
    return channels_back(reshape(y, (batch, *size, channels)), data_format)
