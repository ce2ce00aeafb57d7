"""Creation of tensors: filled, evenly spaced, and like other tensors."""

from __future__ import annotations

import sys
from typing import Any

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.arguments import rename
from pullback._dispatch.convert import as_number, from_any
from pullback._dispatch.symbolic import takes_symbols
from pullback._hints import answer_calls
from pullback.devices import Device, DeviceLike, as_device
from pullback.dtypes import DType, DTypeLike, Operands, Resolution, as_dtype
from pullback.ops import late
from pullback.ops.precision import widest
from pullback.shapes import Shape, ShapeLike, as_int, shape_attribute
from pullback.spec import EXACT, FEW_ULP
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "arange",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _as_asked(operands: Operands, dtype: DType, **_: object) -> Resolution:
    """The requested dtype."""
    return Resolution((), (dtype,))


# ---------------------------------------------------------------------------------------------
# Filled.


def _default_dtype(
    shapes: tuple[Shape, ...], *, fill_value: Any, dtype: DType | None, **rest: object
) -> dict[str, object]:
    if type(fill_value) not in (bool, int, float, complex):
        fill_value, dtype = _python_number(fill_value, dtype)
    if dtype is None:
        dtype = dtypes.promote([type(fill_value)])
        if dtype == dtypes.DEFAULT_INT and not -(2**31) <= fill_value < 2**31:
            # As in asarray, a larger dtype if the default one is too small for the number.
            dtype = dtypes.int64 if fill_value < 2**63 else dtypes.uint64
    elif type(fill_value) is int and 0 <= fill_value <= 1:
        return {"fill_value": fill_value, "dtype": dtype, **rest}
    kind = dtypes.kind(dtype)
    if type(fill_value) is complex and kind != dtypes.CMPLX:
        raise errors.DTypeError(
            f"{fill_value} cannot be converted to {dtype}; leave the dtype out, or use complex64"
        )
    if kind == dtypes.INT:
        bits = 8 * dtype.itemsize
        unsigned = dtype in dtypes.UNSIGNED
        low, high = (0, 2**bits) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if not low <= fill_value < high:
            raise errors.ConversionError(f"{fill_value} is out of range for {dtype}")
    return {"fill_value": fill_value, "dtype": dtype, **rest}


def _python_number(value: TensorLike, dtype: DType | None) -> tuple[Any, DType]:
    tensor = from_any(value)
    number = as_number(tensor, "fill_value", "pb.broadcast_to(x, shape)")
    return number, tensor.dtype if dtype is None else dtype


@op(
    shape=shape_attribute,
    dtype=_as_asked,
    accuracy=EXACT,
    differentiable=False,
    normalize=_default_dtype,
    primitive="No other op makes an array without an input array.",
)
def full(
    shape: ShapeLike,
    fill_value: bool | int | float | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor with every element `fill_value` (array API standard).

    Args:
        shape: the size of each axis.
        fill_value: a Python number, or a tensor of one element that no tape records.
        dtype: the dtype; the default one of the number's kind if not given.
        device: the device of the tensor; the active device if not given.

    Raises:
        ShapeError: for negative sizes.
        ConversionError: for an integer outside the range of the dtype.
        TapeError: for a tensor that a tape records; `broadcast_to` passes its gradient on.

    >>> pb.full((2,), 7).tolist()
    [7, 7]
    """


def zeros(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros (array API standard); of the default dtype if none is given.

    >>> pb.zeros((2, 3)).shape
    (2, 3)
    """
    return _filled("zeros", shape, 0, dtype, device)


def ones(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones (array API standard); of the default dtype if none is given.

    >>> pb.ones(2, dtype=pb.int32).tolist()
    [1, 1]
    """
    return _filled("ones", shape, 1, dtype, device)


def empty(
    shape: ShapeLike, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor with unspecified values (array API standard). They are zeros.

    Buffers are immutable: none can be filled later, so there is nothing to gain from other values.

    >>> pb.empty((2, 3)).shape
    (2, 3)
    """
    return _filled("empty", shape, 0, dtype, device)


@takes_symbols
def full_like(
    x: TensorLike,
    /,
    fill_value: bool | int | float | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor with every element `fill_value`, with the shape, dtype and device of x.

    Array API standard.

    >>> pb.full_like([1.0, 2.0], 7).tolist()
    [7.0, 7.0]
    """
    return _filled_like("full_like", x, fill_value, dtype, device)


@takes_symbols
def zeros_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of zeros, with the shape, dtype and device of x (array API standard).

    >>> pb.zeros_like([1, 2]).tolist()
    [0, 0]
    """
    return _filled_like("zeros_like", x, 0, dtype, device)


@takes_symbols
def ones_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor of ones, with the shape, dtype and device of x (array API standard).

    >>> pb.ones_like([1, 2]).tolist()
    [1, 1]
    """
    return _filled_like("ones_like", x, 1, dtype, device)


@takes_symbols
def empty_like(
    x: TensorLike, /, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """A tensor with unspecified values, with the shape, dtype and device of x.

    Array API standard. The values are zeros, as those of `empty`.

    >>> pb.empty_like([1, 2]).shape
    (2,)
    """
    return _filled_like("empty_like", x, 0, dtype, device)


def _filled(
    name: str,
    shape: ShapeLike,
    value: bool | int | float | complex,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
) -> Tensor:
    """`full`, whose errors name the function that was called."""
    try:
        return full(
            shape, value, dtype=dtypes.DEFAULT_FLOAT if dtype is None else dtype, device=device
        )
    except errors.PullbackError as error:
        raise rename(error, name) from error.__cause__


def _filled_like(
    name: str,
    x: TensorLike,
    value: bool | int | float | complex,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
) -> Tensor:
    if type(x) is not Tensor:
        x = from_any(x)
    dtype = x.dtype if dtype is None else dtype
    return _filled(name, x.shape, value, dtype, x._device if device is None else device)


# ---------------------------------------------------------------------------------------------
# Evenly spaced.


def _length(start: float, stop: float, step: float) -> int:
    if type(start) is type(stop) is type(step) is int:
        return max(0, -((start - stop) // step))
    # The ceiling of the quotient, in double precision; Python's // rounds down.
    count = (stop - start) / step
    if count != count or count in (float("inf"), float("-inf")):
        raise errors.InputValueError(
            f"arange({start}, {stop}, {step}) has no finite length; give finite numbers"
        )
    whole = int(count)
    return max(0, whole + (count > whole))


def _count(*, start: Any, stop: Any, step: Any, **_: object) -> Shape:
    """A vector of one element for each step before stop."""
    return (_length(start, stop, step),)


def _steps(
    shapes: tuple[Shape, ...],
    *,
    start: Any,
    stop: Any,
    step: Any,
    dtype: DType | None,
    device: Device | None,
) -> dict[str, object]:
    if stop is None:
        start, stop = 0, start
    kinds = {type(start), type(stop), type(step)}
    if not kinds <= {int, float}:
        start, stop, step = map(_real_number, (start, stop, step))
        kinds = {type(start), type(stop), type(step)}
    if step == 0:
        raise errors.InputValueError("the step must not be 0")
    if dtype is None:
        dtype = dtypes.DEFAULT_FLOAT if float in kinds else dtypes.DEFAULT_INT
        if float not in kinds and not (abs(start) <= 2**31 and abs(stop) <= 2**31):
            dtype = dtypes.int64
    if dtypes.kind(dtype) not in (dtypes.INT, dtypes.FLOAT):
        raise errors.DTypeError(
            f"dtype must be of integers or real floats, got {dtype}; write "
            f"pb.arange(...).astype('{dtype}')"
        )
    if _length(start, stop, step) >= 2**63:
        raise errors.InputValueError(
            f"too many elements from {start} to {stop} by {step}; use a larger step"
        )
    return {"start": start, "stop": stop, "step": step, "dtype": dtype, "device": device}


def _real_number(value: Any) -> int | float:
    number = as_number(value, "an argument", "start + step * pb.arange(n)")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise errors.InputTypeError(f"arguments must be real numbers, got {value!r}")
    return number


@op(
    shape=_count,
    dtype=_as_asked,
    accuracy=FEW_ULP,
    differentiable=False,
    normalize=_steps,
    primitive="No other op gives positions; a cumulative sum of ones rounds as it counts.",
)
def arange(
    start: int | float,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """The numbers start, start + step, ... below stop (array API standard).

    There are ceil((stop - start) / step) elements, computed in double precision; none if negative.

    Args:
        start: the first element; with one argument, the end: counting starts at 0.
        stop: the end of the half-open interval.
        step: the spacing; may be negative.
        dtype: the dtype; int32 if not given and all arguments are integers, else float32.
        device: the device of the tensor; the active device if not given.

    Raises:
        InputValueError: for a step of 0.

    >>> pb.arange(5).tolist(), pb.arange(5, 0, -2).tolist()
    ([0, 1, 2, 3, 4], [5, 3, 1])
    """


def _number(value: Any) -> float | complex:
    number = as_number(
        value, "linspace: start or stop", "start + (stop - start) * pb.linspace(0, 1, num)"
    )
    if not isinstance(number, (int, float, complex)):
        raise errors.InputTypeError(f"linspace: start and stop must be numbers, got {value!r}")
    try:
        return number if isinstance(number, complex) else float(number)
    except OverflowError:
        raise errors.InputValueError(
            "linspace: start and stop must be finite, and in the range of floats"
        ) from None


def _ends_there(last: complex, stop: complex, dtype: DType, wide: DType) -> bool:
    """True if the last value needs no correction, whether or not a product is rounded by itself.

    An error in the last digit of float64 is none in a narrower dtype, for a small integer.
    """
    narrow = wide == dtypes.float64 and dtypes.kind(dtype) == dtypes.FLOAT and dtype != wide
    return narrow and last == stop and abs(stop) <= 256 and stop == round(stop.real)


def linspace(
    start: int | float | complex,
    stop: int | float | complex,
    /,
    num: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` evenly spaced values from start to stop (array API standard).

    Args:
        start: the first value.
        stop: the last value; with endpoint=False, the value after the last one.
        num: the number of values.
        dtype: the dtype; float32 (complex64 for complex ends) if not given.
        device: the device of the tensor; the active device if not given.
        endpoint: False to leave stop out.

    Raises:
        InputValueError: for a negative num.

    >>> pb.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    num = as_int(num, "an integer number of values")
    if num < 0:
        raise errors.InputValueError(f"linspace: num must not be negative, got {num}")
    spaces = num - 1 if endpoint else num
    start, stop = _number(start), _number(stop)
    span = stop - start
    if dtype is None:
        dtype = dtypes.DEFAULT_COMPLEX if isinstance(span, complex) else dtypes.DEFAULT_FLOAT
    dtype = as_dtype(dtype)
    device = as_device(device)
    # In double precision if the device has it; rounded once.
    wide = widest(device)
    step = span / max(spaces, 1)
    if not isinstance(step, complex) and num > 1 and 1e-300 < abs(step) < 1e300 / num:
        # Products at once, which are those below; the half is what rounding cannot move.
        values = arange(0, (num - 0.5) * step, step, dtype=wide, device=device)
    else:
        counts = arange(num, dtype=wide, device=device)
        if isinstance(span, complex) and dtypes.complex_of(wide) in device.backend.dtypes:
            counts = counts.astype(dtypes.complex_of(wide))
        values = counts * step
    # 0 is what it is without a sum, unless it is -0.
    if start or isinstance(span, complex) or not span > 0:
        values = values + start
    if endpoint and num > 1 and not _ends_there(start + spaces * step, stop, dtype, wide):
        # Rounding must not move the last value.
        values = late.strided_update(values, stop, key=(spaces, ...))
    if dtypes.kind(dtype) == dtypes.INT:
        values = late.floor(values)
    return values.astype(dtype)


answer_calls(sys.modules[__name__])
