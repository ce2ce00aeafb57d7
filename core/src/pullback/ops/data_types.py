"""Data types: conversion, promotion and limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_bool
from pullback._dispatch.convert import as_tensor, from_any, from_host
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.symbolic import FUNCTIONS
from pullback._operators import OPERATORS
from pullback.devices import DeviceLike
from pullback.dtypes import DType, DTypeLike, Operand, Operands, Resolution, as_dtype, uniform
from pullback.ops.complex import real
from pullback.ops.conversion import any_dtype, to_device
from pullback.plugins.backend import Backend
from pullback.shapes import Shape, first
from pullback.spec import EXACT
from pullback.tensor import Tensor, TensorLike

__all__ = ["astype", "bitcast", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]


@uniform
def _converted(operands: Operands, dtype: DType | None = None, **_: object) -> Resolution:
    """The requested dtype, or that of x."""
    inputs = any_dtype(operands).inputs
    assert inputs[0] is not None
    return Resolution(inputs, (inputs[0] if dtype is None else dtype,))


@op(
    shape=first,
    dtype=_converted,
    accuracy=EXACT,
    name="astype",
    primitive="No other op converts between dtypes.",
)
def _convert(x: Tensor, /, dtype: DTypeLike) -> Tensor:
    """The elements of x as another dtype, rounded to the nearest, or towards zero for integers."""


@_convert.vjp("x")
def _(g: Tensor, x_dtype: DType) -> Tensor | None:
    return cotangent_of(g, x_dtype) if dtypes.is_floating(x_dtype) else None


def cotangent_of(g: Tensor, dtype: DType) -> Tensor:
    """The cotangent of a floating tensor, from that of its values in another dtype."""
    if dtypes.is_complex(g.dtype) and not dtypes.is_complex(dtype):
        g = real(g)
    return astype(g, dtype)


def astype(
    x: TensorLike, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor:
    """The elements of x as another dtype, in a tensor of the same shape (array API standard).

    Floating values go to integers by truncation. Gradients flow between floating dtypes; an integer
    result has none.

    Args:
        x: a tensor of any shape and dtype.
        dtype: the dtype of the result.
        copy: False returns x itself if nothing changes.
        device: the device of the result; that of x if not given.

    Raises:
        DTypeError: for a complex x and a real dtype, which would drop the imaginary part, for a
            dtype that the backend does not support, and for one that stores values (`float8_e5m2`,
            `int4` and their kin) from or to another one than float32.

    >>> pb.astype([1.7, -1.7], pb.int32).tolist()
    [1, -1]
    """
    dtype = as_dtype(dtype)
    try:
        tensor = from_any(x)
    except errors.SymbolicError as error:
        return _symbolic(error, astype, x, dtype, {} if device is None else {"device": device})
    if device is not None:
        tensor = to_device(tensor, device)
    source = as_dtype(tensor.dtype)
    if source is dtype or source == dtype:
        return tensor.__copy__() if as_bool(copy, "copy") else tensor
    if not dtypes.BOOL <= dtypes.kind(source) < dtypes.CMPLX:
        _check_source(source, dtype)
    if dtype not in tensor.device.backend.dtypes:
        _check_storage(source, dtype, tensor.device.backend)
    return _convert(tensor, dtype)


def _symbolic(
    error: errors.SymbolicError,
    function: Callable[..., Tensor],
    x: TensorLike,
    dtype: DType,
    keywords: dict[str, object],
) -> Tensor:
    """The symbolic tensor that a function of one gives; the error where there is none."""
    if error.apply is None:
        raise error
    kept: Tensor = error.apply(function, (x, dtype), keywords)
    return kept


def _check_source(source: DType, dtype: DType) -> None:
    """Checks the conversion of a complex tensor, or of one that stores values."""
    if dtypes.is_complex(source):
        if dtypes.kind(dtype) in (dtypes.INT, dtypes.FLOAT):
            raise errors.DTypeError(
                f"astype: {source} to {dtype} would drop the imaginary part; "
                f"take pb.real(x) or pb.abs(x)"
            )
    elif dtype != dtypes.float32:
        raise errors.DTypeError(
            f"astype: {source} is converted to float32 only; write "
            f"x.astype(pb.float32).astype(pb.{dtype})"
        )


def _check_storage(source: DType, dtype: DType, backend: Backend) -> None:
    """Checks the conversion to a dtype that the backend does not compute with."""
    if not backend.holds(dtype):
        raise errors.DTypeError(f"astype: {backend.unsupported_dtype_message(dtype)}")
    if source != dtypes.float32:
        raise errors.DTypeError(
            f"astype: {dtype} is converted from float32 only; write "
            f"x.astype(pb.float32).astype(pb.{dtype})"
        )


OPERATORS.astype = FUNCTIONS["astype"] = astype
OPERATORS.convert = _convert


# ---------------------------------------------------------------------------------------------
# Bits.


def _of_bits(x: Shape, *, parts: int, whole: int, **_: object) -> Shape:
    """An axis more for the parts of an element, or one less where several make one."""
    if whole > 1:
        if x[-1:] != (whole,):
            raise errors.ShapeError(
                f"{whole} elements make one, so the last axis must have {whole}; got shape {x}"
            )
        return x[:-1]
    return (*x, parts) if parts > 1 else x


def _sizes(shapes: tuple[Shape, ...], *, dtype: object, **sizes: Any) -> dict[str, object]:
    """The attributes, checked: a kernel would take others."""
    parts, whole = sizes["parts"], sizes["whole"]
    if type(parts) is not int or type(whole) is not int or parts < 1 or min(parts, whole) != 1:
        raise errors.InputValueError(f"parts and whole must be 1 and at least 1, got {sizes}")
    _of_bits(*shapes, **sizes)
    return {"dtype": dtype, **sizes}


@uniform
def _requested(
    operands: Operands, dtype: DType | None = None, parts: int = 1, whole: int = 1
) -> Resolution:
    """The requested dtype, or that of x; both hold real numbers."""
    inputs, (source,) = dtypes.real(operands)
    if dtype is None:
        return Resolution(inputs, (source,))
    (target,) = dtypes.real((dtype,)).outputs
    if source.itemsize * whole != target.itemsize * parts:
        raise errors.DTypeError(
            f"{whole} of {source} do not make {parts} of {target}; write pb.bitcast(x, pb.{target})"
        )
    return Resolution(inputs, (target,))


@op(
    shape=_of_bits,
    dtype=_requested,
    accuracy=EXACT,
    differentiable=False,
    normalize=_sizes,
    name="bitcast",
)
def _reinterpret(x: Tensor, /, *, dtype: DTypeLike, parts: int, whole: int) -> Tensor:
    """The bits of x as numbers of another dtype."""
    # On the host: arithmetic shows the values of numbers, and not the bits of a NaN.
    host = np.asarray(x.numpy(), order="C")
    found = (host[..., None] if parts > 1 else host).view(dtype)
    return from_host(found[..., 0] if whole > 1 else found, None, x.device)


def bitcast(x: TensorLike, dtype: DTypeLike, /) -> Tensor:
    """The bits of x as numbers of another dtype, of the same size or not.

    There is no gradient; `astype` converts values, and has one.

    Args:
        x: a tensor of integers or real floats, of any shape.
        dtype: a dtype of integers or real floats.

    Returns:
        A tensor of the shape of x where both dtypes have one size. An element of x that has the
        bits of several becomes a last axis of them, the lowest bits first; a last axis of exactly
        the elements that have the bits of one becomes that.

    Raises:
        DTypeError: for booleans, complex numbers and dtypes for storage.
        ShapeError: for a last axis that does not make one element.

    >>> pb.bitcast([1.0, -0.0], pb.int32).tolist()
    [1065353216, -2147483648]
    >>> pb.bitcast(pb.asarray([258, 3], dtype="uint16"), pb.uint8).tolist()
    [[2, 1], [3, 0]]
    """
    dtype = as_dtype(dtype)
    try:
        tensor = x if type(x) is Tensor else from_any(x)
    except errors.SymbolicError as error:
        return _symbolic(error, bitcast, x, dtype, {})
    parts, whole = _parts_of(tensor.dtype, dtype)
    return _reinterpret(tensor, dtype=dtype, parts=parts, whole=whole)


@functools.lru_cache(maxsize=256)
def _parts_of(source: DType, target: DType) -> tuple[int, int]:
    """Returns how many elements of the target have the bits of one, and how many make one.

    Raises:
        DTypeError: for a dtype whose bits no other can read.
    """
    for one in (source, target):
        if not dtypes.BOOL < dtypes.kind(one) < dtypes.CMPLX:
            raise errors.DTypeError(
                f"bitcast: integers and real floats have bits that another dtype can read, "
                f"{one} does not; convert with x.astype(...) first"
            )
    size, other = source.itemsize, target.itemsize
    return max(size // other, 1), max(other // size, 1)


# ---------------------------------------------------------------------------------------------
# Inspection.


def result_type(*arrays_and_dtypes: TensorLike | DTypeLike) -> DType:
    """The dtype of a result computed from all arguments (array API standard, type promotion).

    Args:
        arrays_and_dtypes: tensors, arrays, dtypes and Python numbers; numbers are weak: they take
            the others' dtype where its kind allows.

    Raises:
        DTypeError: for dtypes that do not promote to a common one.
        InputTypeError: without arguments, or for an argument without a dtype.

    >>> pb.result_type(pb.int32, pb.float32), pb.result_type(pb.float16, 1.0)
    (dtype('float32'), dtype('float16'))
    """
    if not arrays_and_dtypes:
        raise errors.InputTypeError("result_type needs at least one array, dtype or number")
    return dtypes.promote([_operand(value) for value in arrays_and_dtypes])


def _operand(value: Any) -> Operand:
    if type(value) in SCALAR_TYPES:
        return type(value)
    if isinstance(value, np.dtype | type | str):
        return as_dtype(value)
    tensor = as_tensor(value)
    if tensor is not None:
        return tensor.dtype
    if isinstance(value, list | tuple) or not hasattr(value, "dtype"):
        raise errors.InputTypeError(
            f"result_type: {type(value).__name__} has no dtype; give arrays, dtypes or numbers"
        )
    return as_dtype(value.dtype)


def can_cast(from_: DTypeLike | Tensor, to: DTypeLike, /) -> bool:
    """Returns whether `from_` promotes to `to` (array API standard).

    Args:
        from_: a dtype, or a tensor for its dtype.
        to: a dtype.

    >>> pb.can_cast(pb.int8, pb.int32), pb.can_cast(pb.float64, pb.float32)
    (True, False)
    """
    source = as_dtype(from_.dtype if hasattr(from_, "dtype") else from_)
    target = as_dtype(to)
    try:
        return dtypes.promote_types(source, target) == target
    except errors.DTypeError:
        return False


_KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (dtypes.bool_,),
    "signed integer": dtypes.SIGNED,
    "unsigned integer": dtypes.UNSIGNED,
    "integral": dtypes.INTEGER,
    "real floating": dtypes.REAL_FLOATING,
    "complex floating": dtypes.COMPLEX,
    "numeric": (*dtypes.INTEGER, *dtypes.FLOATING),
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Returns whether a dtype is of a kind (array API standard).

    Args:
        dtype: a dtype.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
            floating" or "numeric"; a dtype, to compare with; or a tuple, in which any may match.

    Raises:
        InputValueError: for an unknown kind.

    >>> pb.isdtype(pb.float32, "real floating"), pb.isdtype(pb.int8, ("bool", pb.int8))
    (True, True)
    """
    canonical = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(canonical, item) for item in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise errors.InputValueError(
                f"isdtype: unknown kind {kind!r}; use {', '.join(map(repr, _KINDS))}"
            )
        return canonical in _KINDS[kind]
    return canonical == as_dtype(kind)


class FloatInfo(NamedTuple):
    """The limits of a floating dtype; for a complex dtype, those of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IntInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


# Bits of the exponent and of the fraction (IEEE 754-2019, table 3.5); bfloat16 is a short float32.
_FORMATS: dict[DType, tuple[int, int]] = {
    dtypes.bfloat16: (8, 7),
    dtypes.float16: (5, 10),
    dtypes.float32: (8, 23),
    dtypes.float64: (11, 52),
}


def finfo(type: DTypeLike | Tensor, /) -> FloatInfo:
    """The limits of a floating dtype, as Python floats (array API standard).

    Raises:
        DTypeError: for a dtype that is not floating.

    >>> pb.finfo(pb.float32).eps
    1.1920928955078125e-07
    >>> pb.finfo(pb.bfloat16).max
    3.3895313892515355e+38
    """
    dtype = as_dtype(type.dtype if hasattr(type, "dtype") else type)
    real = dtypes.real_of(dtype)
    if real not in _FORMATS:
        raise errors.DTypeError(f"finfo: {dtype} is not a floating dtype; use iinfo for integers")
    exponent, fraction = _FORMATS[real]
    bias = 2 ** (exponent - 1) - 1
    largest = (2 - 2.0**-fraction) * 2.0**bias
    return FloatInfo(
        bits=1 + exponent + fraction,
        eps=2.0**-fraction,
        max=largest,
        min=-largest,
        smallest_normal=2.0 ** (1 - bias),
        dtype=real,
    )


def iinfo(type: DTypeLike | Tensor, /) -> IntInfo:
    """The limits of an integer dtype (array API standard).

    Raises:
        DTypeError: for a dtype that is not an integer dtype.

    >>> pb.iinfo(pb.int8)
    IntInfo(bits=8, max=127, min=-128, dtype=dtype('int8'))
    """
    dtype = as_dtype(type.dtype if hasattr(type, "dtype") else type)
    if dtype not in dtypes.INTEGER:
        raise errors.DTypeError(
            f"iinfo: {dtype} is not an integer dtype; use finfo for floating dtypes"
        )
    bits = 8 * dtype.itemsize
    if dtype in dtypes.UNSIGNED:
        return IntInfo(bits, 2**bits - 1, 0, dtype)
    return IntInfo(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dtype)
