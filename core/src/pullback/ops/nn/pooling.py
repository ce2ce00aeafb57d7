"""Pooling: the largest element, or the mean, of every window.

Images are (batch, *spatial, channels), or (batch, channels, *spatial) with
data_format="channels_first".
"""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, int32, real, real_floating
from pullback.ops.creation import full, ones, zeros
from pullback.ops.joining import stack
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    channels_back,
    channels_last,
    check_format,
    normal_windows,
    remembered,
    taps,
    untap,
)
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.searching import argmax
from pullback.ops.selection import where
from pullback.shapes import (
    Pads,
    Shape,
    ShapeLike,
    channels_last_shape,
    channels_of,
    image_shape,
    output_sizes,
    size_of,
    spatial_of,
)
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "avg_pool",
    "avg_pool_gradient",
    "max_pool",
    "max_pool_gather",
    "max_pool_gradient",
]


def _normal(
    shape: Shape, window: Any, strides: Any, padding: Any, data_format: Any
) -> dict[str, Any]:
    return {**_checked(shape, window, strides, padding, data_format)}


@remembered
def _checked(
    shape: Shape, window: Any, strides: Any, padding: Any, data_format: Any
) -> dict[str, Any]:
    check_format(data_format)
    if len(shape) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {shape}"
        )
    spatial = spatial_of(shape, data_format)
    given = window if strides is None else strides
    window, strides, padding, _ = normal_windows(spatial, window, given, padding, 1)
    return {
        "window": window,
        "strides": strides,
        "padding": padding,
        "data_format": data_format,
    }


def _normalize(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, Any]:
    rest = {k: attributes.pop(k) for k in ("count_include_pad",) if k in attributes}
    return _normal(shapes[0], **attributes) | rest


def _normalize_gradient(
    shapes: tuple[Shape, ...], *, input_shape: Shape, **attributes: Any
) -> dict[str, Any]:
    normal = _normalize((input_shape,), **attributes)
    expected = _pooled(input_shape, **normal)
    for shape in shapes:
        if shape != expected:
            raise errors.ShapeError(
                f"pooling images {input_shape} gives {expected}, so a gradient or indices cannot "
                f"have shape {shape}"
            )
    return {"input_shape": input_shape, **normal}


def _normalize_gather(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, Any]:
    normal = _normalize(shapes, **attributes)
    if shapes[1] != _pooled(shapes[0], **normal):
        raise errors.ShapeError(
            f"pooling images {shapes[0]} gives {_pooled(shapes[0], **normal)}, so the indices "
            f"cannot have shape {shapes[1]}"
        )
    return normal


def _pooled(
    x: Shape, *_: Shape, window: Shape, strides: Shape, padding: Pads, data_format: str, **__: Any
) -> Shape:
    """One element for each window."""
    one = (1,) * len(window)
    out = output_sizes(spatial_of(x, data_format), window, strides, padding, one)
    return image_shape(x[0], out, channels_of(x, data_format), data_format)


def _input_shape(*_: Shape, input_shape: Shape, **__: Any) -> Shape:
    """The shape of the images, which is given."""
    return input_shape


def _taps(x: Tensor, window: Any, strides: Any, padding: Any, fill: float = 0) -> list[Tensor]:
    return taps(x, window, strides, padding, (1,) * len(window), fill)


# The largest element ---------------------------------------------------------------------------


@op(
    shape=_pooled,
    dtype=real,
    accuracy=EXACT,
    residuals=("indices",),
    normalize=_normalize,
)
def max_pool(
    x: TensorLike,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The largest element of every window (Riesenhuber and Poggio, 1999). Padding never wins.

    The gradient goes to the first of several equal elements.

    Args:
        x: images (batch, *spatial, channels).
        window: the size of the windows, one number or one per spatial dimension.
        strides: steps from window to window; the window's size if not given.
        padding: as of `conv`.
        data_format: where the channels are.

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> pb.max_pool(pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), window=2).tolist()
    [[[3.0], [2.0]]]
    """
    images = channels_last(x, data_format)
    values = stack(_taps(images, window, strides, padding, _least(x.dtype)))
    indices = argmax(values, axis=0).astype(int32)
    return (  # type: ignore[return-value]
        channels_back(max(values, axis=0), data_format),
        channels_back(indices, data_format),
    )


def _least(dtype: dtypes.DType) -> float | int:
    if dtypes.is_floating(dtype):
        return float("-inf")
    return 0 if dtype in dtypes.UNSIGNED else -(1 << (8 * dtype.itemsize - 1))


@max_pool.vjp("x")
def _(g: Tensor, indices: Tensor, x_shape: Shape, window: Shape, strides: Shape, padding: Any,
      data_format: Any) -> Tensor:  # fmt: skip
    return max_pool_gradient(
        g, indices, input_shape=tuple(x_shape), window=window, strides=strides, padding=padding,
        data_format=data_format,
    )  # fmt: skip


def _values_and_indices(operands: Operands, **_: Any) -> Resolution:
    """Real values, whose dtype the result has; indices in int32."""
    values = dtypes.real(operands[:1]).inputs[0]
    assert values is not None
    return Resolution((values, int32), (values,))


@op(
    shape=_input_shape,
    dtype=_values_and_indices,
    accuracy=ACCUMULATED,
    normalize=_normalize_gradient,
)
def max_pool_gradient(
    g: TensorLike,
    indices: TensorLike,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `max_pool` with respect to its images: g where the largest elements were.

    Args:
        g: the gradient with respect to the result (batch, *out, channels).
        indices: int32, which element of its window each was, counted row-major.
        input_shape: the shape of the images.
        window: as of `max_pool`.
        strides: as of `max_pool`.
        padding: as of `max_pool`.
        data_format: as of `max_pool`.

    Raises:
        ShapeError: when g or indices are not what `max_pool` gives for these shapes.

    >>> g, indices = pb.ones((1, 2, 1)), pb.reshape([1, 0], (1, 2, 1))
    >>> pb.max_pool_gradient(g, indices, input_shape=(1, 4, 1), window=2).tolist()
    [[[0.0], [1.0], [1.0], [0.0]]]
    """
    shape = channels_last_shape(input_shape, data_format)
    values, at = channels_last(g, data_format), channels_last(indices, data_format)
    if not values.size:
        return zeros(input_shape, dtype=g.dtype, device=g.device)
    parts = [where(at == tap, values, 0) for tap in range(size_of(window))]
    dx = untap(parts, shape, window, strides, padding)
    return channels_back(dx, data_format)


@op(shape=_pooled, dtype=_values_and_indices, accuracy=EXACT, normalize=_normalize_gather)
def max_pool_gather(
    x: TensorLike,
    indices: TensorLike,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """What images hold at the places that `max_pool` chose in others; 0 in the padding.

    Args:
        x: images (batch, *spatial, channels).
        indices: int32, an element of each window, counted row-major (batch, *out, channels).
        window: as of `max_pool`.
        strides: as of `max_pool`.
        padding: as of `max_pool`.
        data_format: as of `max_pool`.

    Raises:
        ShapeError: when indices are not what `max_pool` gives for these shapes.

    >>> x, indices = pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), pb.reshape([0, 1], (1, 2, 1))
    >>> pb.max_pool_gather(x, indices, window=2).tolist()
    [[[1.0], [0.0]]]
    """
    at = channels_last(indices, data_format)
    y = zeros(at.shape, dtype=x.dtype, device=x.device)
    taken = _taps(channels_last(x, data_format), window, strides, padding)
    for place, values in enumerate(taken):
        y = where(at == place, values, y)
    return channels_back(y, data_format)


max_pool_gradient.vjp(
    g=lambda h, indices, window, strides, padding, data_format: max_pool_gather(
        h, indices, window=window, strides=strides, padding=padding, data_format=data_format
    ),
    indices=None,
)
max_pool_gather.vjp(
    x=lambda g, indices, x_shape, window, strides, padding, data_format: max_pool_gradient(
        g, indices, input_shape=tuple(x_shape), window=window, strides=strides, padding=padding,
        data_format=data_format,
    ),
    indices=None,
)  # fmt: skip


# The mean --------------------------------------------------------------------------------------


@op(shape=_pooled, dtype=real_floating, accuracy=ACCUMULATED, normalize=_normalize)
def avg_pool(
    x: TensorLike,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The mean of every window (LeCun et al., 1989).

    Args:
        x: images (batch, *spatial, channels).
        window: the size of the windows, one number or one per spatial dimension.
        strides: steps from window to window; the window's size if not given.
        padding: as of `conv`.
        count_include_pad: whether padding counts as zeros, or not at all.
        data_format: where the channels are.

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> pb.avg_pool(pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), window=2).tolist()
    [[[2.0], [1.0]]]
    """
    images = widened(channels_last(x, data_format))
    total = sum(stack(_taps(images, window, strides, padding)), axis=0)
    y = total / _counts(images, window, strides, padding, count_include_pad)
    return narrowed(channels_back(y, data_format), x)


def _counts(
    images: Tensor, window: Any, strides: Any, padding: Any, count_include_pad: bool
) -> Tensor:
    """How many elements each window's mean is over, at least 1."""
    shape = (1, *images.shape[1:-1], 1)
    counted = ones(shape, dtype=images.dtype, device=images.device)
    fill = 1 if count_include_pad else 0
    counts = sum(stack(_taps(counted, window, strides, padding, fill)), axis=0)
    return where(counts > 0, counts, 1)


@op(
    shape=_input_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_normalize_gradient,
)
def avg_pool_gradient(
    g: TensorLike,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `avg_pool` with respect to its images: g spread evenly over each window.

    Args:
        g: the gradient with respect to the result (batch, *out, channels).
        input_shape: the shape of the images.
        window: as of `avg_pool`.
        strides: as of `avg_pool`.
        padding: as of `avg_pool`.
        count_include_pad: as of `avg_pool`.
        data_format: as of `avg_pool`.

    Raises:
        ShapeError: when g is not what `avg_pool` gives for these shapes.

    >>> g = pb.reshape([2.0, 4.0], (1, 2, 1))
    >>> pb.avg_pool_gradient(g, input_shape=(1, 4, 1), window=2).tolist()
    [[[1.0], [1.0], [2.0], [2.0]]]
    """
    shape = channels_last_shape(input_shape, data_format)
    values = widened(channels_last(g, data_format))
    if not values.size:
        return zeros(input_shape, dtype=g.dtype, device=g.device)
    like = full(shape, 0, dtype=values.dtype, device=g.device)
    even = values / _counts(like, window, strides, padding, count_include_pad)
    dx = untap([even] * size_of(window), shape, window, strides, padding)
    return narrowed(channels_back(dx, data_format), g)


@avg_pool.vjp("x")
def _(g: Tensor, x_shape: Shape, window: Any, strides: Any, padding: Any, count_include_pad: bool,
      data_format: Any) -> Tensor:  # fmt: skip
    return avg_pool_gradient(
        g, input_shape=tuple(x_shape), window=window, strides=strides, padding=padding,
        count_include_pad=count_include_pad, data_format=data_format,
    )  # fmt: skip


avg_pool_gradient.vjp(
    g=lambda h, window, strides, padding, count_include_pad, data_format: avg_pool(
        h, window=window, strides=strides, padding=padding,
        count_include_pad=count_include_pad, data_format=data_format,
    )
)  # fmt: skip
