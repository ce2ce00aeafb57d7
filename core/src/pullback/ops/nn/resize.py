"""Resizing of images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import from_any
from pullback.dtypes import real_floating
from pullback.ops.indexing import take
from pullback.ops.manipulation import reshape
from pullback.ops.nn.windows import DataFormat, Sizes, check_format, sizes
from pullback.ops.precision import narrowed, widened
from pullback.shapes import Shape, channels_of, image_shape, spatial_of
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["resize"]


def _resized(x: Shape, *, size: Shape, data_format: str, **_: object) -> Shape:
    """The shape with the requested spatial sizes."""
    return image_shape(x[0], size, channels_of(x, data_format), data_format)


def _canonical(
    shapes: tuple[Shape, ...], *, size: Any, method: str, data_format: str
) -> dict[str, object]:
    check_format(data_format)
    (x,) = shapes
    if len(x) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {x}"
        )
    if method not in ("nearest", "bilinear"):
        raise errors.InputValueError(f'method must be "nearest" or "bilinear", got {method!r}')
    spatial = spatial_of(x, data_format)
    if 0 in spatial:
        raise errors.ShapeError(f"images of shape {x} have no pixels to resize")
    return {
        "size": sizes(tuple(size) if isinstance(size, Iterable) else size, len(spatial), "size"),
        "method": method,
        "data_format": data_format,
    }


# ACCUMULATED: a weighted sum of neighbors that may cancel.
@op(shape=_resized, dtype=real_floating, accuracy=ACCUMULATED, normalize=_canonical)
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
    first = 1 if data_format == "channels_last" else 2
    y = widened(x)
    for axis, count in enumerate(size, start=first):
        old = y.shape[axis]
        if old == count:
            continue
        if method == "nearest":
            nearest = [(2 * i + 1) * old // (2 * count) for i in range(count)]
            y = take(y, _indices(nearest, y), axis=axis)
            continue
        centers = [max((i + 0.5) * old / count - 0.5, 0.0) for i in range(count)]
        below = [min(int(center), old - 1) for center in centers]
        above = [min(index + 1, old - 1) for index in below]
        shape = tuple(count if i == axis else 1 for i in range(y.ndim))
        fractions = [center - index for center, index in zip(centers, below, strict=True)]
        weight = reshape(from_any(fractions, y.dtype, y.device), shape)
        low = take(y, _indices(below, y), axis=axis)
        high = take(y, _indices(above, y), axis=axis)
        y = low * (1 - weight) + high * weight
    return narrowed(y, x)


def _indices(indices: list[int], like: Tensor) -> Tensor:
    return from_any(indices).to(like.device)
