"""Products of small integers, added up in int32: the arithmetic of quantized networks."""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors, shapes
from pullback._dispatch import op
from pullback.dtypes import Operands, Resolution, float32, float64, int32, int64
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.nn.convolution import by_taps, canonical_convolution, conv, conv_shape
from pullback.ops.nn.windows import (
    DataFormat,
    Padding,
    Sizes,
    channels_back,
    channels_last,
)
from pullback.ops.precision import places_on, widest
from pullback.ops.rounding import round
from pullback.shapes import size_of
from pullback.spec import EXACT
from pullback.tensor import Tensor

__all__ = ["integer_conv", "integer_matmul"]

#: The bits of the largest numbers of each dtype.
_BITS = {dtypes.int8: 7, dtypes.uint8: 8, dtypes.int16: 15}


def _small(operands: Operands, **_: object) -> Resolution:
    """int8, uint8 and int16, each input in its own; the result is int32."""
    found = [dtypes.promote([one]) if isinstance(one, type) else one for one in operands]
    for dtype in found:
        if dtype not in _BITS:
            raise errors.DTypeError(
                f"integer products take int8, uint8 and int16, got {dtype}; write matmul or conv "
                f"for other dtypes"
            )
    return Resolution(tuple(found), (int32,))


def _exact(x1: Tensor, x2: Tensor, terms: int) -> dtypes.DType | None:
    """The float dtype for a sum of so many products, which is exact; None if the device has none.

    What float64 holds goes by int64 into int32, as it wraps around.
    """
    # The largest number of int8 is -2**7.
    bits = _BITS[x1.dtype] + _BITS[x2.dtype]
    if terms << bits <= 1 << 24:
        return float32
    exact = terms << bits <= 1 << 53 and {float64, int64} <= x1.device.backend.dtypes.keys()
    return float64 if exact else None


@op(shape=shapes.matmul, dtype=_small, accuracy=EXACT, differentiable=False)
def integer_matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The matrix product of small integers in int32 (ONNX's MatMulInteger).

    `matmul` of int8 gives int8, in which nearly every sum overflows. A sum that int32 does not hold
    wraps around.

    Args:
        x1: int8, uint8 or int16, (..., n, k). For a zero point write `x1.astype("int16") - zero`.
        x2: the same, (..., k, m); the axes in front broadcast, and vectors are as in `matmul`.

    Raises:
        DTypeError: for other dtypes.
        ShapeError: for 0-d inputs, inner sizes that differ, stacks that do not broadcast.

    >>> x = pb.asarray([[100, 100]], dtype="int8")
    >>> pb.integer_matmul(x, x.mT).tolist()
    [[20000]]
    """
    dtype = _exact(x1, x2, x1.shape[-1])
    if dtype is None:
        return matmul(x1.astype(int32), x2.astype(int32))
    return _whole(matmul(x1.astype(dtype), x2.astype(dtype)))


def _whole(y: Tensor) -> Tensor:
    return y.astype(int32 if y.dtype == float32 else int64).astype(int32)


@op(
    shape=conv_shape,
    dtype=_small,
    accuracy=EXACT,
    normalize=canonical_convolution,
    differentiable=False,
)
def integer_conv(
    x: Tensor,
    kernel: Tensor,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The convolution of images of small integers in int32 (ONNX's ConvInteger).

    Args:
        x: images of int8, uint8 or int16 (batch, *spatial, channels). For a zero point write
            `x.astype("int16") - zero`; padding is 0 then.
        kernel: the same dtypes, (*window, channels // groups, filters).
        strides: as for `conv`.
        padding: as for `conv`.
        dilation: as for `conv`.
        groups: as for `conv`.
        data_format: as for `conv`.

    Raises:
        DTypeError: for other dtypes.
        ShapeError: for shapes that do not fit.

    >>> x = pb.full((1, 3, 1), 100, dtype="int8")
    >>> pb.integer_conv(x, pb.full((2, 1, 1), 100, dtype="int8")).tolist()
    [[[20000], [20000]]]
    """
    how: Any = {"strides": strides, "padding": padding, "dilation": dilation, "groups": groups}
    if _exact(x, kernel, size_of(kernel.shape[:-1])) is None:
        images = channels_last(x, data_format).astype(int32)
        return channels_back(by_taps(images, kernel.astype(int32), **how), data_format)
    # Libraries convolve float32 by ways that round, and float64 too: the nearest integer is it.
    precise = widest(x.device)
    y = conv(x.astype(precise), kernel.astype(precise), **how, data_format=data_format)
    return round(y).astype(places_on(x.device)).astype(int32)
