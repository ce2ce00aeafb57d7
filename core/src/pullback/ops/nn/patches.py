"""Windows of images as an axis each, and their sum back into images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._once import remembered
from pullback.dtypes import numeric, same
from pullback.ops.creation import zeros
from pullback.ops.joining import stack, unstack
from pullback.ops.manipulation import permute_dims, reshape
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    canonical_windows,
    channels_back,
    channels_last,
    check_format,
    sizes,
    taps,
    untap,
)
from pullback.ops.precision import narrowed, widened
from pullback.shapes import Pads, Shape, channels_of, image_shape, output_sizes, size_of, spatial_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["fold", "unfold"]


@remembered
def _windowed(
    shapes: tuple[Shape, ...], *, window: object, strides: object, padding: object,
    dilation: object, data_format: str,
) -> dict[str, Any]:  # fmt: skip
    check_format(data_format)
    (x,) = shapes
    if len(x) < 3:
        raise errors.ShapeError(
            f"images need a batch, one or more spatial dimensions and channels; got shape {x}"
        )
    window, strides, pairs, dilation = canonical_windows(
        spatial_of(x, data_format), window, strides, padding, dilation
    )
    steps = {"strides": strides, "padding": pairs, "dilation": dilation}
    return {"window": window, **steps, "data_format": data_format}


def _unfolded(
    x: Shape, *, window: Shape, strides: Shape, padding: Pads, dilation: Shape, data_format: str
) -> Shape:
    """The places of the windows, then their elements; the channels stay where they are."""
    out = output_sizes(spatial_of(x, data_format), window, strides, padding, dilation)
    channels = channels_of(x, data_format)
    if data_format == "channels_last":
        return (x[0], *out, *window, channels)
    return (x[0], channels, *window, *out)


@op(shape=_unfolded, dtype=same, accuracy=EXACT, normalize=_windowed)
def unfold(
    x: Tensor,
    window: Sizes,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The windows of images, which a convolution multiplies with its kernel ("im2col").

    Args:
        x: images (batch, *spatial, channels).
        window: the size of the windows, one number or one per spatial dimension.
        strides: the steps between windows.
        padding: as for `conv`, with zeros.
        dilation: the steps between elements of a window.
        data_format: "channels_last" or "channels_first".

    Returns:
        A tensor (batch, *out, *window, channels), or (batch, channels, *window, *out) with the
        channels first, whose `reshape` to (batch, -1, windows) PyTorch's function has.

    Raises:
        ShapeError: for sizes that do not fit the images.

    >>> x = pb.reshape(pb.arange(4), (1, 4, 1))
    >>> pb.unfold(x, 2)[0, :, :, 0].tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    images = channels_last(x, data_format)
    parts = stack(taps(images, window, strides, padding, dilation), axis=-2)
    shape = (*parts.shape[:-2], *window, parts.shape[-1])
    return _channels_back(reshape(parts, shape), data_format)


def _channels_back(patches: Tensor, data_format: str) -> Tensor:
    if data_format == "channels_last":
        return patches
    count = (patches.ndim - 2) // 2
    out, window = range(1, 1 + count), range(1 + count, 1 + 2 * count)
    return permute_dims(patches, (0, patches.ndim - 1, *window, *out))


def _channels_last(patches: Tensor, data_format: str) -> Tensor:
    if data_format == "channels_last":
        return patches
    count = (patches.ndim - 2) // 2
    window, out = range(2, 2 + count), range(2 + count, 2 + 2 * count)
    return permute_dims(patches, (0, *out, *window, 1))


def _parts_of(patches: Shape, data_format: str) -> tuple[Shape, Shape, int]:
    """The number of windows, their size, and the channels."""
    count = (len(patches) - 2) // 2
    if data_format == "channels_last":
        return patches[1 : 1 + count], patches[1 + count : -1], patches[-1]
    return patches[2 + count :], patches[2 : 2 + count], patches[1]


def _folding(
    shapes: tuple[Shape, ...], *, size: Any, strides: object, padding: object, dilation: object,
    data_format: str,
) -> dict[str, Any]:  # fmt: skip
    check_format(data_format)
    (patches,) = shapes
    if len(patches) < 4 or len(patches) % 2:
        raise errors.ShapeError(
            f"patches must be (batch, *out, *window, channels), got shape {patches}"
        )
    out, window, channels = _parts_of(patches, data_format)
    size = sizes(tuple(size) if isinstance(size, Iterable) else size, len(out), "size")
    images = image_shape(patches[0], size, channels, data_format)
    how = _windowed(
        (images,), window=window, strides=strides, padding=padding, dilation=dilation,
        data_format=data_format,
    )  # fmt: skip
    expected = _unfolded(images, **how)
    if patches != expected:
        raise errors.ShapeError(
            f"images of shape {images} have windows of shape {expected}, not {patches}"
        )
    return {"size": size, **{name: how[name] for name in how if name != "window"}}


def _folded(patches: Shape, *, size: Shape, data_format: str, **_: object) -> Shape:
    """Images of the requested sizes."""
    return image_shape(patches[0], size, _parts_of(patches, data_format)[2], data_format)


@op(shape=_folded, dtype=numeric, accuracy=ACCUMULATED, normalize=_folding)
def fold(
    patches: Tensor,
    size: Sizes,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The sum of windows in images: the transpose of `unfold` ("col2im").

    Args:
        patches: windows (batch, *out, *window, channels), in the form that `unfold` gives.
        size: the spatial sizes of the images, one number or one per spatial dimension.
        strides: as for `unfold`.
        padding: as for `unfold`; what lies in it is left out.
        dilation: as for `unfold`.
        data_format: as for `unfold`.

    Returns:
        Images (batch, *size, channels).

    Raises:
        ShapeError: for windows that images of these sizes do not have.

    >>> pb.fold(pb.ones((1, 3, 2, 1)), 4).tolist()
    [[[1.0], [2.0], [2.0], [1.0]]]
    """
    parts = widened(_channels_last(patches, data_format))
    count = (parts.ndim - 2) // 2
    window = parts.shape[1 + count : -1]
    flat = (*parts.shape[: 1 + count], size_of(window), parts.shape[-1])
    shape = (parts.shape[0], *size, parts.shape[-1])
    y = untap(unstack(reshape(parts, flat), axis=-2), shape, window, strides, padding, dilation)
    return narrowed(channels_back(y, data_format), patches)


@unfold.vjp("x")
def _(
    g: Tensor, x_shape: Shape, strides: Shape, padding: Pads, dilation: Shape,
    data_format: DataFormat,
) -> Tensor:  # fmt: skip
    size = spatial_of(tuple(x_shape), data_format)
    if not all(size):
        return zeros(tuple(x_shape), dtype=g.dtype, device=g.device)
    return fold(
        g, size, strides=strides, padding=padding, dilation=dilation, data_format=data_format
    )


@fold.vjp("patches")
def _(
    g: Tensor, patches_shape: Shape, strides: Shape, padding: Pads, dilation: Shape,
    data_format: DataFormat,
) -> Tensor:  # fmt: skip
    window = _parts_of(tuple(patches_shape), data_format)[1]
    return unfold(
        g, window, strides=strides, padding=padding, dilation=dilation, data_format=data_format
    )
