"""float16 and float32, converted by passes over bits.

NumPy converts float16 a number at a time, in software: 2 ns to float32, 5 ns back, and each ufunc
does both. A pass of arithmetic over a block in the cache takes 0.1 ns a number, so that conversions
made of passes take 0.4 and 1.1 ns, with the same results. ml_dtypes' conversions of bfloat16 are
fast enough, but its functions convert one by one, too.

A sum, difference, product, quotient or square root of 16-bit floats that is rounded to float32 and
then to 16 bits is the correctly rounded one: of p = 11 digits (or 8), float32 has q = 24, and
rounding twice is innocuous where q >= 2 p + 2 (Figueroa, "When is double rounding innocuous?",
1995). Rounding, the larger of two numbers and comparisons are exact in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback.casting import HALF
from pullback.dtypes import float16, float32
from pullback_numpy import threads
from pullback_numpy.typing import Array

#: Fewer numbers are done before the calls of the passes have begun.
FEW = 16384

_FLOAT, _INT, _UINT = np.float32, np.int32, np.uint32
#: The least normal float16, as often as a piece has elements: `np.maximum` is slow with a number.
_LEAST = np.full(2 * threads.PIECE, 2.0**-14, _FLOAT)
#: The bits of the smallest infinity and above it the NaNs, positive and negative.
_POSITIVE, _NEGATIVE = 0x7C00, 0xFC00


def astype(x: Any, dtype: Any) -> Array:
    """A new array with the values of x as `dtype`; not from more than float32 to bfloat16."""
    write = _CONVERSIONS.get((x.dtype, dtype)) if x.size >= FEW else None
    if write is None:
        # In the order of strides, what is repeated along the last axis would come first.
        converted: Array = x.astype(dtype, order="C" if 0 in x.strides else "K")
        return converted
    y = np.empty(x.shape, dtype)
    source, target = x.reshape(-1), y.reshape(-1)
    threads.over(lambda piece: write(source[piece], target[piece]), x.size)
    return y


def widened(x: Array) -> Array:
    """x, as float32 if it holds 16-bit floats."""
    return astype(x, float32) if x.dtype in HALF else x


def narrowed(y: Any, like: Any) -> Array:
    """y in the dtype of `like`: the inverse of `widened`, with one rounding."""
    x: Array = y if y.dtype == like.dtype else astype(y, like.dtype)
    return x


def widen(x: Array, y: Array) -> None:
    """Writes 16-bit floats x into y of float32: at most two pieces in a row, y contiguous."""
    if (
        x.dtype != float16
        or x.size < FEW
        or x.view(np.int16).max() >= _POSITIVE
        or x.view(np.uint16).max() >= _NEGATIVE
    ):
        y[...] = x
        return
    # The sign is repeated through the upper bits. Exponents of float16 are 112 less.
    bits = np.left_shift(x.view(np.int16), 13, out=y.view(_INT), dtype=_INT)
    bits &= _INT(-0x70002000)
    y *= _FLOAT(2.0**112)


def narrow(y: Array, x: Array) -> None:
    """Writes y of float32 into 16-bit floats x: at most two pieces in a row, y contiguous."""
    if x.dtype != float16 or x.size < FEW:
        x[...] = y
        return
    size = np.abs(y)
    largest = np.maximum.reduce(size)
    if largest != largest:
        x[...] = y  # with NaN
        return
    if largest >= 65520:
        np.clip(size, 0, 65536, out=size)  # one binary place above all that is finite: infinity
    # Beside the power of two that is 13 binary places larger, but not less than that of the least
    # normal number, the sum keeps the digits that float16 has, rounded to the nearest even.
    digits = size.view(_INT)
    power = np.bitwise_and(digits, _INT(0x7F800000))
    np.maximum(power.view(_FLOAT), _LEAST[: power.size], out=power.view(_FLOAT))
    power += _INT(13 << 23)
    size += power.view(_FLOAT)
    digits -= power
    power >>= 13
    digits += power
    sign = power.view(_UINT)
    np.right_shift(y.view(_UINT), 16, out=sign)
    sign &= _UINT(0x8000)
    digits += power
    bits = x.view(np.int16)
    bits[...] = digits
    bits += np.int16(0x0800)  # the bias of exponents, modulo 2**16


_CONVERSIONS = {(float16, float32): widen, (float32, float16): narrow}


def positive(x: Array) -> Any:
    """x > 0 for 16-bit floats."""
    bits = x.view(np.int16)
    return np.greater(bits, 0) & np.less_equal(bits, _infinity(x))


def has_negative_nan(x: Array) -> bool:
    """Returns True if one of some 16-bit floats is a NaN with the sign bit."""
    return bool(x.size) and int(x.view(np.uint16).max()) > 0x8000 + _infinity(x)


def _infinity(x: Array) -> int:
    return _POSITIVE if x.dtype == float16 else 0x7F80


def by_float32(function: Callable[..., Any], dtype: Any = None) -> Callable[..., Any]:
    """An elementwise kernel of 16-bit floats: `function` of float32, in pieces.

    Args:
        function: a kernel for float32 and, where arrays are small, for 16-bit floats.
        dtype: that of the results, where it is not that of the inputs.
    """

    def kernel(*inputs: Array | None, **attributes: Any) -> Any:
        if max(array.size for array in inputs if array is not None) < FEW:
            return function(*inputs, **attributes)
        shape = np.broadcast_shapes(*(array.shape for array in inputs if array is not None))
        first: Any = inputs[0]
        axes = _order(first) if first.shape == shape else None
        if axes is not None:
            # In the order in which the elements lie: else each copy would jump through memory.
            inputs = tuple(array if array is None else _lined(array, axes) for array in inputs)
            shape = tuple([shape[axis] for axis in axes])
        y = np.empty(shape, first.dtype if dtype is None else dtype)
        sources = [_flat(array, shape) for array in inputs]
        target = y.reshape(-1)

        def work(piece: slice) -> None:
            wide = [
                array[piece] if array is not None and array.ndim else array for array in sources
            ]
            for i, array in enumerate(wide):
                if array is not None and array.ndim:
                    room = np.empty(array.shape, _FLOAT)
                    widen(array, room)
                    wide[i] = room
            result = function(*wide, **attributes)
            if dtype is None:
                narrow(result, target[piece])
            else:
                target[piece] = result

        threads.over(work, y.size)
        return y if axes is None else y.transpose(np.argsort(axes))

    return kernel


def _order(x: Array) -> tuple[int, ...] | None:
    """The order of axes in which the elements of x lie without gaps, if it is not their own."""
    if x.ndim < 2 or x.flags.c_contiguous:
        return None
    axes = tuple(sorted(range(x.ndim), key=lambda axis: -x.strides[axis]))
    return axes if x.transpose(axes).flags.c_contiguous else None


def _lined(x: Array, axes: tuple[int, ...]) -> Array:
    """x with its axes in another order, as many as a result has."""
    if x.size == 1:
        return x
    return x.reshape((1,) * (len(axes) - x.ndim) + x.shape).transpose(axes)


def _flat(array: Array | None, shape: tuple[int, ...]) -> Array | None:
    """The elements for a result of this shape in a row; one number as float32."""
    if array is None:
        return None
    if array.size == 1:
        return array.reshape(()).astype(_FLOAT)
    return np.broadcast_to(array, shape).reshape(-1)
