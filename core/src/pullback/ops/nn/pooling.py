"""Max and average pooling.

Images are (batch, *spatial, channels), or (batch, channels, *spatial) with
data_format="channels_first".
"""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._once import remembered
from pullback.dtypes import Operands, Resolution, int32, real, real_floating
from pullback.ops.calculus import calling
from pullback.ops.creation import full, ones, zeros
from pullback.ops.joining import stack
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    canonical_windows,
    channels_back,
    channels_last,
    check_format,
    taps,
    untap,
)
from pullback.ops.padding import pad
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.ops.searching import argmax
from pullback.ops.segments import identities
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
from pullback.tensor import Tensor

__all__ = ["avg_pool", "max_pool", "max_pool_gather"]


@remembered
def windowed(
    shapes: tuple[Shape, ...],
    *,
    window: object,
    strides: object,
    padding: object,
    data_format: str,
    dilation: object = 1,
    ceil_mode: object = False,
) -> dict[str, Any]:
    """The canonical attributes of pooling: `ceil_mode` has become padding.

    Raises:
        ShapeError: for sizes that do not fit the images.
        InputValueError: for an unknown word.
    """
    (shape,) = shapes
    check_format(data_format)
    if len(shape) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {shape}"
        )
    spatial = spatial_of(shape, data_format)
    if strides is None:
        strides = window
    sizes = canonical_windows(spatial, window, strides, padding, dilation)
    window, strides, padding, dilation = sizes
    if ceil_mode:
        padding = _ceiled(spatial, *sizes)
    steps = {"strides": strides, "padding": padding, "dilation": dilation}
    return {"window": window, **steps, "ceil_mode": False, "data_format": data_format}


def _ceiled(spatial: Shape, window: Shape, strides: Shape, padding: Pads, dilation: Shape) -> Pads:
    """The padding with what the last windows reach behind it, where elements are left over."""
    pairs = []
    for size, width, stride, (low, high), step in zip(
        spatial, window, strides, padding, dilation, strict=True
    ):
        reach = step * (width - 1) + 1
        left = (size + low + high - reach) % stride
        # A window that would begin in the padding behind is none.
        start = size + low + high - reach - left + stride
        more = stride - left if left and start >= 0 and start < size + low else 0
        pairs.append((low, high + more))
    return tuple(pairs)


@remembered
def _normalize_average(
    shapes: tuple[Shape, ...], *, count_include_pad: bool, ceil_mode: object = False, **given: Any
) -> dict[str, Any]:
    canonical = windowed(shapes, **given)
    if ceil_mode:
        ceiled = windowed(shapes, ceil_mode=True, **given)
        # What lies behind the padding is not counted, and no padding can say so.
        apart = count_include_pad and ceiled["padding"] != canonical["padding"]
        canonical = {**canonical, "ceil_mode": True} if apart else ceiled
    return {**canonical, "count_include_pad": bool(count_include_pad)}


def _normalize_gradient(
    shapes: tuple[Shape, ...], *, input_shape: Shape, **attributes: Any
) -> dict[str, Any]:
    normalize = _normalize_average if "count_include_pad" in attributes else windowed
    canonical = normalize((input_shape,), **attributes)
    expected = pooled(input_shape, **canonical)
    for shape in shapes:
        if shape != expected:
            raise errors.ShapeError(
                f"pooling images {input_shape} gives {expected}, so a gradient or indices cannot "
                f"have shape {shape}"
            )
    return {"input_shape": input_shape, **canonical}


def _normalize_gather(shapes: tuple[Shape, ...], **attributes: Any) -> dict[str, Any]:
    canonical = windowed(shapes[:1], **attributes)
    expected = pooled(shapes[0], **canonical)
    if shapes[1] != expected:
        raise errors.ShapeError(
            f"pooling images {shapes[0]} gives {expected}, so the indices cannot have shape "
            f"{shapes[1]}"
        )
    return canonical


def pooled(
    x: Shape,
    *_: Shape,
    window: Shape,
    strides: Shape,
    padding: Pads,
    dilation: Shape,
    ceil_mode: bool,
    data_format: str,
    **__: object,
) -> Shape:
    """One element per window."""
    spatial = spatial_of(x, data_format)
    if ceil_mode:
        padding = _ceiled(spatial, window, strides, padding, dilation)
    out = output_sizes(spatial, window, strides, padding, dilation)
    return image_shape(x[0], out, channels_of(x, data_format), data_format)


def _input_shape(*_: Shape, input_shape: Shape, **__: object) -> Shape:
    """The shape of the images, an attribute."""
    return input_shape


# Max pooling ------------------------------------------------------------------------------------


@op(shape=pooled, dtype=real, accuracy=EXACT, residuals=("indices",), normalize=windowed)
def max_pool(
    x: Tensor,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The maximum of every window (Riesenhuber and Poggio, 1999).

    Padding is never the maximum. The gradient goes to the first of several equal elements.

    Args:
        x: images (batch, *spatial, channels).
        window: the size of the windows, one number or one per spatial dimension.
        strides: the steps between windows; the size of the window if not given.
        padding: as for `conv`.
        dilation: the steps between elements of a window, one number or one per spatial dimension.
        ceil_mode: True for one more window where elements are left over at an end, as if there
            were more padding; none begins in padding.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> pb.max_pool(pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), window=2).tolist()
    [[[3.0], [2.0]]]
    """
    assert strides is not None
    images = channels_last(x, data_format)
    values = stack(taps(images, window, strides, padding, dilation, identities(x.dtype)[0]))
    indices = argmax(values, axis=0).astype(int32)
    return (  # type: ignore[return-value]
        channels_back(max(values, axis=0), data_format),
        channels_back(indices, data_format),
    )


def _values_and_indices(operands: Operands, **_: object) -> Resolution:
    """Real values, whose dtype the result has; indices in int32."""
    values = dtypes.real(operands[:1]).inputs[0]
    assert values is not None
    return Resolution((values, int32), (values,))


@op(
    shape=_input_shape,
    dtype=_values_and_indices,
    accuracy=ACCUMULATED,
    normalize=_normalize_gradient,
    public=False,
)
def max_pool_gradient(
    g: Tensor,
    indices: Tensor,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `max_pool` with respect to its images: g at the maxima.

    Args:
        g: the gradient with respect to the result (batch, *out, channels).
        indices: the int32 row-major index of each maximum in its window.
        input_shape: the shape of the images.
        window: as for `max_pool`.
        strides: as for `max_pool`.
        padding: as for `max_pool`.
        dilation: as for `max_pool`.
        ceil_mode: as for `max_pool`.
        data_format: as for `max_pool`.

    Raises:
        ShapeError: if g or indices do not have the shape of the result of `max_pool`.

    >>> g, indices = pb.ones((1, 2, 1)), pb.reshape([1, 0], (1, 2, 1))
    >>> pb.ops.max_pool_gradient(g, indices, input_shape=(1, 4, 1), window=2).tolist()
    [[[0.0], [1.0], [1.0], [0.0]]]
    """
    shape = channels_last_shape(input_shape, data_format)
    values, winners = widened(channels_last(g, data_format)), channels_last(indices, data_format)
    if not values.size:
        return zeros(input_shape, dtype=g.dtype, device=g.device)
    parts = [where(winners == i, values, 0) for i in range(size_of(window))]
    dx = untap(parts, shape, window, strides, padding, dilation)
    return narrowed(channels_back(dx, data_format), g)


@op(shape=pooled, dtype=_values_and_indices, accuracy=EXACT, normalize=_normalize_gather)
def max_pool_gather(
    x: Tensor,
    indices: Tensor,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The elements of images at the indices of `max_pool` of others; 0 in the padding.

    Args:
        x: images (batch, *spatial, channels).
        indices: int32 row-major indices into the windows (batch, *out, channels).
        window: as for `max_pool`.
        strides: as for `max_pool`.
        padding: as for `max_pool`.
        dilation: as for `max_pool`.
        ceil_mode: as for `max_pool`.
        data_format: as for `max_pool`.

    Raises:
        ShapeError: if indices do not have the shape of the result of `max_pool`.

    >>> x, indices = pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), pb.reshape([0, 1], (1, 2, 1))
    >>> pb.max_pool_gather(x, indices, window=2).tolist()
    [[[1.0], [0.0]]]
    """
    assert strides is not None
    chosen = channels_last(indices, data_format)
    y = zeros(chosen.shape, dtype=x.dtype, device=x.device)
    images = channels_last(x, data_format)
    for i, tap in enumerate(taps(images, window, strides, padding, dilation)):
        y = where(chosen == i, tap, y)
    return channels_back(y, data_format)


max_pool.vjp(x=calling(max_pool_gradient, ..., "indices", input_shape="x_shape"))
max_pool_gradient.vjp(g=calling(max_pool_gather, ..., "indices"), indices=None)
max_pool_gather.vjp(
    x=calling(max_pool_gradient, ..., "indices", input_shape="x_shape"), indices=None
)


# Average pooling --------------------------------------------------------------------------------


@op(shape=pooled, dtype=real_floating, accuracy=ACCUMULATED, normalize=_normalize_average)
def avg_pool(
    x: Tensor,
    window: Sizes,
    *,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The mean of every window (LeCun et al., 1989).

    Args:
        x: images (batch, *spatial, channels).
        window: the size of the windows, one number or one per spatial dimension.
        strides: the steps between windows; the size of the window if not given.
        padding: as for `conv`.
        dilation: the steps between elements of a window, one number or one per spatial dimension.
        ceil_mode: True for one more window where elements are left over at an end, as if there
            were more padding; none begins in padding.
        count_include_pad: True to count padding as zeros; False to leave it out. What
            `ceil_mode` reaches behind it is never counted. The mean of a window in the padding
            alone is 0.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> pb.avg_pool(pb.reshape([1.0, 3.0, 2.0, 0.0], (1, 4, 1)), window=2).tolist()
    [[[2.0], [1.0]]]
    """
    assert strides is not None
    images = widened(channels_last(x, data_format))
    around = padding
    if ceil_mode:
        around = _ceiled(images.shape[1:-1], window, strides, padding, dilation)
    total = sum(stack(taps(images, window, strides, around, dilation)), axis=0)
    y = total / _counts(images, window, strides, padding, dilation, around, count_include_pad)
    return narrowed(channels_back(y, data_format), x)


def _counts(
    images: Tensor, window: Shape, strides: Shape, padding: Pads, dilation: Shape, around: Pads,
    count_include_pad: bool,
) -> Tensor:  # fmt: skip
    """The number of elements in the mean of each window, at least 1."""
    shape = (1, *images.shape[1:-1], 1)
    counted = ones(shape, dtype=images.dtype, device=images.device)
    if count_include_pad:
        counted = pad(counted, ((0, 0), *padding, (0, 0)), constant_values=1)
        around = tuple(
            (0, high - counts) for (_, high), (_, counts) in zip(around, padding, strict=True)
        )
    counts = sum(stack(taps(counted, window, strides, around, dilation)), axis=0)
    return where(counts > 0, counts, 1)


@op(
    shape=_input_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_normalize_gradient,
    public=False,
)
def avg_pool_gradient(
    g: Tensor,
    *,
    input_shape: ShapeLike,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `avg_pool` with respect to its images: g spread over each window.

    Args:
        g: the gradient with respect to the result (batch, *out, channels).
        input_shape: the shape of the images.
        window: as for `avg_pool`.
        strides: as for `avg_pool`.
        padding: as for `avg_pool`.
        dilation: as for `avg_pool`.
        ceil_mode: as for `avg_pool`.
        count_include_pad: as for `avg_pool`.
        data_format: as for `avg_pool`.

    Raises:
        ShapeError: if g does not have the shape of the result of `avg_pool`.

    >>> g = pb.reshape([2.0, 4.0], (1, 2, 1))
    >>> pb.ops.avg_pool_gradient(g, input_shape=(1, 4, 1), window=2).tolist()
    [[[1.0], [1.0], [2.0], [2.0]]]
    """
    assert strides is not None
    shape = channels_last_shape(input_shape, data_format)
    values = widened(channels_last(g, data_format))
    if not values.size:
        return zeros(input_shape, dtype=g.dtype, device=g.device)
    images = full(shape, 0, dtype=values.dtype, device=g.device)
    around = _ceiled(shape[1:-1], window, strides, padding, dilation) if ceil_mode else padding
    share = values / _counts(images, window, strides, padding, dilation, around, count_include_pad)
    dx = untap([share] * size_of(window), shape, window, strides, around, dilation)
    return narrowed(channels_back(dx, data_format), g)


avg_pool.vjp(x=calling(avg_pool_gradient, ..., input_shape="x_shape"))
avg_pool_gradient.vjp(g=calling(avg_pool, ...))
