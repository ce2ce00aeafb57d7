"""Adaptive and global pooling."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import from_any
from pullback._once import remembered
from pullback.dtypes import real, real_floating
from pullback.ops.indexing import take
from pullback.ops.joining import stack
from pullback.ops.manipulation import reshape
from pullback.ops.nn.pooling import avg_pool, max_pool
from pullback.ops.nn.windows import DataFormat, Sizes, check_format
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, mean
from pullback.shapes import Shape, as_int, channels_of, image_shape, reduced, spatial_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["adaptive_avg_pool", "adaptive_max_pool", "global_avg_pool", "global_max_pool"]

#: The largest size along one dimension: each element needs ops of its own.
_LARGEST = 65536
#: Elements of windows that pooling takes; of larger ones a reduction has fewer passes.
_FEW = 32


def _adapted(x: Shape, *, output_size: Shape, data_format: str) -> Shape:
    """The shape with the requested spatial sizes."""
    check_format(data_format)
    if len(x) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {x}"
        )
    spatial = spatial_of(x, data_format)
    if not all(spatial):
        raise errors.ShapeError(f"images need pixels to be pooled, got shape {x}")
    entries = (
        output_size if isinstance(output_size, (tuple, list)) else [output_size] * len(spatial)
    )
    if len(entries) != len(spatial):
        raise errors.ShapeError(
            f"output_size needs one number or one for each of {len(spatial)} spatial dimensions, "
            f"got {output_size!r}"
        )
    out = tuple(
        size if entry is None else as_int(entry, "an integer output size")
        for size, entry in zip(spatial, entries, strict=True)
    )
    asked = [size for size, entry in zip(out, entries, strict=True) if entry is not None]
    if not all(1 <= size <= _LARGEST for size in asked):
        raise errors.ShapeError(f"output_size must be from 1 to {_LARGEST}, got {output_size!r}")
    return image_shape(x[0], out, channels_of(x, data_format), data_format)


@remembered
def _way(x: Shape, *, output_size: Shape, data_format: str) -> tuple[Shape, ...]:
    """The sizes of the result, and what makes it in one step: nothing, where several are needed.

    A shape and axes to reduce where large windows tile the image; window and strides, twice, where
    windows are alike.
    """
    shape = _adapted(x, output_size=output_size, data_format=data_format)
    out, spatial = spatial_of(shape, data_format), spatial_of(x, data_format)
    rest = [s % n if s >= n else s for s, n in zip(spatial, out, strict=True)]
    if not any(rest) and math.prod(spatial) > _FEW * math.prod(out):
        first = 1 if data_format == "channels_last" else 2
        sizes = [m for s, n in zip(spatial, out, strict=True) for m in (n, s // n)]
        apart = (*x[:first], *sizes, *x[first + len(out) :])
        return out, apart, tuple(range(first + 1, first + len(sizes), 2))
    if all(s >= n and one <= 1 for s, n, one in zip(spatial, out, rest, strict=True)):
        # Windows are alike, and equally far apart: two of them share one element at most.
        window = tuple([s // n + s % n for s, n in zip(spatial, out, strict=True)])
        strides = tuple([s // n for s, n in zip(spatial, out, strict=True)])
        return out, window, strides, strides
    return (out,)


@remembered
def _windows(sizes: Shape) -> tuple[list[range], list[int] | None, bool]:
    """The windows along a dimension, where to take their elements, and whether they are alike.

    Shorter windows end in copies of their last element; nothing is taken of windows that tile.
    """
    size, count = sizes
    windows = [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
    widths = [*map(len, windows)]
    width = builtins.max(widths)
    places = [
        builtins.min(place, window[-1])
        for window in windows
        for place in range(window.start, window.start + width)
    ]
    return windows, None if len(places) == size else places, width == builtins.min(widths)


def _adapt(
    x: Tensor,
    pool: Callable[..., Tensor],
    reduce: Callable[..., Tensor],
    output_size: Shape,
    data_format: str,
) -> Tensor:
    out, *way = _way(x.shape, output_size=output_size, data_format=data_format)
    if len(way) == 2:
        apart, axes = way
        return reduce(reshape(x, apart), axis=axes)
    if way:
        window, strides, _ = way
        return pool(x, window, strides=strides, data_format=data_format)
    # A window is a product of intervals, so one spatial dimension is pooled after the other.
    for axis, count in enumerate(out, start=1 if data_format == "channels_last" else 2):
        windows, places, are_alike = _windows((x.shape[axis], count))
        if are_alike or reduce is max:  # a copy is no larger
            if places is not None:
                x = take(x, from_any(places).to(x.device), axis=axis)
            split = (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
            x = reduce(reshape(x, split), axis=axis + 1)
            continue
        lead = (slice(None),) * axis
        parts = [x[(*lead, slice(window.start, window.stop))] for window in windows]
        x = stack([reduce(part, axis=axis) for part in parts], axis=axis)
    return x


@op(shape=_adapted, dtype=real_floating, accuracy=ACCUMULATED)
def adaptive_avg_pool(
    x: Tensor, output_size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor:
    """Average pooling to `output_size` (He et al., 2014).

    Along a size s, window i of n is [floor(i s / n), ceil((i + 1) s / n)).

    Args:
        x: images (batch, *spatial, channels).
        output_size: the spatial sizes of the result, one number or one per spatial dimension.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for the wrong number of sizes.

    >>> pb.adaptive_avg_pool(pb.reshape([1.0, 2.0, 3.0], (1, 3, 1)), output_size=2).tolist()
    [[[1.5], [2.5]]]
    """
    return narrowed(_adapt(widened(x), avg_pool, mean, output_size, data_format), x)


@op(shape=_adapted, dtype=real, accuracy=EXACT)
def adaptive_max_pool(
    x: Tensor, output_size: Sizes, *, data_format: DataFormat = "channels_last"
) -> Tensor:
    """Max pooling to `output_size` (He et al., 2014).

    Of equal elements of a window the first gets the gradient, or all share it, the last one more
    than others: that depends on the sizes.

    Args:
        x: images (batch, *spatial, channels).
        output_size: the spatial sizes of the result, one number or one per spatial dimension.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for the wrong number of sizes.

    >>> pb.adaptive_max_pool(pb.reshape([1.0, 2.0, 3.0], (1, 3, 1)), output_size=2).tolist()
    [[[2.0], [3.0]]]
    """
    return _adapt(x, max_pool, max, output_size, data_format)


# Whole images ---------------------------------------------------------------------------------


def _of_whole(x: Shape, *, keepdims: bool, data_format: str) -> Shape:
    """One element per image and channel, with spatial sizes 1 if they are kept."""
    return reduced(x, _spatial_axes(x, data_format), keepdims)


def _spatial_axes(x: Shape, data_format: str) -> Shape:
    check_format(data_format)
    if len(x) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {x}"
        )
    first = 1 if data_format == "channels_last" else 2
    return tuple(range(first, first + len(x) - 2))


@op(shape=_of_whole, dtype=real_floating, accuracy=ACCUMULATED)
def global_avg_pool(
    x: Tensor, *, keepdims: bool = False, data_format: DataFormat = "channels_last"
) -> Tensor:
    """Global average pooling: the mean of each channel of each image (Lin et al., 2013).

    Args:
        x: images (batch, *spatial, channels).
        keepdims: True to keep spatial dimensions with size 1.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: if x is not a batch of images.

    >>> pb.global_avg_pool(pb.reshape([1.0, 2.0, 3.0], (1, 3, 1))).tolist()
    [[2.0]]
    """
    return mean(x, axis=_spatial_axes(x.shape, data_format), keepdims=keepdims)


@op(shape=_of_whole, dtype=real, accuracy=EXACT)
def global_max_pool(
    x: Tensor, *, keepdims: bool = False, data_format: DataFormat = "channels_last"
) -> Tensor:
    """Global max pooling: the maximum of each channel of each image. Ties share the gradient.

    Args:
        x: images (batch, *spatial, channels).
        keepdims: True to keep spatial dimensions with size 1.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: if x is not a batch of images.

    >>> pb.global_max_pool(pb.reshape([1.0, 3.0, 2.0], (1, 3, 1))).tolist()
    [[3.0]]
    """
    return max(x, axis=_spatial_axes(x.shape, data_format), keepdims=keepdims)
