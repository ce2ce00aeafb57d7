"""Resizing of images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import from_any
from pullback._once import remembered
from pullback.dtypes import real_floating
from pullback.ops.calculus import calling
from pullback.ops.indexing import segment_sum, take
from pullback.ops.manipulation import reshape
from pullback.ops.nn.windows import DataFormat, Sizes, check_format, sizes
from pullback.ops.precision import narrowed, widened
from pullback.shapes import Shape, ShapeLike, as_shape, channels_of, image_shape, spatial_of
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["resize"]


def resized(x: Shape, *, size: Shape, data_format: str, **_: object) -> Shape:
    """The shape with the requested spatial sizes."""
    return image_shape(x[0], size, channels_of(x, data_format), data_format)


def sizes_of_images(x: Shape, size: object, data_format: object) -> Shape:
    """The requested spatial sizes of images.

    Raises:
        InputValueError: for an unknown `data_format`.
        ShapeError: for what has no pixels.
    """
    check_format(data_format)
    if len(x) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {x}"
        )
    spatial = spatial_of(x, str(data_format))
    if 0 in spatial:
        raise errors.ShapeError(f"images of shape {x} have no pixels to resize")
    return sizes(tuple(size) if isinstance(size, Iterable) else size, len(spatial), "size")


@remembered
def _canonical(
    shapes: tuple[Shape, ...], *, size: Any, method: str, data_format: str
) -> dict[str, object]:
    (x,) = shapes
    new = sizes_of_images(x, size, data_format)
    if method not in ("nearest", "bilinear"):
        raise errors.InputValueError(f'method must be "nearest" or "bilinear", got {method!r}')
    return {"size": new, "method": method, "data_format": data_format}


# ACCUMULATED: a weighted sum of neighbors that may cancel.
@op(shape=resized, dtype=real_floating, accuracy=ACCUMULATED, normalize=_canonical)
def resize(
    x: Tensor,
    size: Sizes,
    *,
    method: Literal["nearest", "bilinear"] = "bilinear",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """Images resized by nearest-neighbor or bilinear interpolation.

    Pixels are areas with centers at half-integers: the center of pixel i of m lies at
    (i + 0.5) * n / m - 0.5 of n. There is no antialiasing.

    Args:
        x: images (batch, *spatial, channels).
        size: the spatial sizes of the result, one number or one per spatial dimension.
        method: "nearest", or "bilinear": linear along every spatial dimension.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for the wrong number of sizes, sizes below 1, or images without pixels.
        InputValueError: for an unknown method.

    >>> x = pb.reshape([0.0, 4.0], (1, 2, 1))
    >>> pb.resize(x, size=4).tolist()
    [[[0.0], [1.0], [3.0], [4.0]]]
    >>> pb.resize(x, size=4, method="nearest").tolist()
    [[[0.0], [0.0], [4.0], [4.0]]]
    """
    y = widened(x)
    for axis, old, count in _changes(x.shape, size, data_format):
        below, above, weight = _neighbors(y, axis, old, count, method)
        low = take(y, below, axis=axis)
        y = low if weight is None else low * (1 - weight) + take(y, above, axis=axis) * weight
    return narrowed(y, x)


def _changes(shape: Shape, size: Shape, data_format: str) -> list[tuple[int, int, int]]:
    """The axes whose sizes change, with the sizes before and after."""
    first = 1 if data_format == "channels_last" else 2
    sizes = zip(shape[first:], size, strict=False)
    return [(first + i, old, count) for i, (old, count) in enumerate(sizes) if old != count]


def _neighbors(
    like: Tensor, axis: int, old: int, count: int, method: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """For each pixel of the result those below and above its center, and the latter's weight.

    The weight broadcasts along the axis; for the nearest pixel there is none.
    """
    if method == "nearest":
        nearest = _indices([(2 * i + 1) * old // (2 * count) for i in range(count)], like)
        return nearest, nearest, None
    centers = [max((i + 0.5) * old / count - 0.5, 0.0) for i in range(count)]
    below = [min(int(center), old - 1) for center in centers]
    above = [min(index + 1, old - 1) for index in below]
    shape = tuple(count if i == axis else 1 for i in range(like.ndim))
    fractions = [center - index for center, index in zip(centers, below, strict=True)]
    weight = reshape(from_any(fractions, like.dtype, like.device), shape)
    return _indices(below, like), _indices(above, like), weight


def _indices(indices: list[int], like: Tensor) -> Tensor:
    return from_any(indices).to(like.device)


def _of_images(g: Shape, *, input_shape: Shape, **_: object) -> Shape:
    """The shape of the images."""
    return input_shape


def _canonical_gradient(
    shapes: tuple[Shape, ...], *, input_shape: Shape, **attributes: Any
) -> dict[str, object]:
    canonical = _canonical((input_shape,), **attributes)
    expected = resized(input_shape, **canonical)  # type: ignore[arg-type]
    if shapes[0] != expected:
        raise errors.ShapeError(
            f"resizing images {input_shape} gives {expected}, so a gradient cannot have shape "
            f"{shapes[0]}"
        )
    return {"input_shape": input_shape, **canonical}


# ACCUMULATED: a pixel may be in many weighted sums.
@op(
    shape=_of_images,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_canonical_gradient,
    public=False,
)
def resize_gradient(
    g: Tensor,
    size: Sizes,
    *,
    input_shape: ShapeLike,
    method: Literal["nearest", "bilinear"] = "bilinear",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The gradient of `resize` with respect to its images.

    Args:
        g: the gradient with respect to the result (batch, *size, channels).
        size: as for `resize`.
        input_shape: the shape of the images.
        method: as for `resize`.
        data_format: as for `resize`.

    Raises:
        ShapeError: if g does not have the shape of the result of `resize`.

    >>> g = pb.reshape([1.0, 1.0, 1.0, 1.0], (1, 4, 1))
    >>> pb.ops.resize_gradient(g, 4, input_shape=(1, 2, 1)).tolist()
    [[[2.0], [2.0]]]
    """
    images, dx = as_shape(input_shape), widened(g)
    for axis, old, count in _changes(images, size, data_format):
        below, above, weight = _neighbors(dx, axis, old, count, method)
        if weight is None:
            dx = segment_sum(dx, below, old, axis=axis)
            continue
        low, high = dx * (1 - weight), dx * weight
        dx = segment_sum(low, below, old, axis=axis) + segment_sum(high, above, old, axis=axis)
    return narrowed(dx, g)


resize.vjp(x=calling(resize_gradient, ..., input_shape="x_shape"))
resize_gradient.vjp(g=calling(resize, ...))
