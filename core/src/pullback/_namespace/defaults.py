"""The default dtypes of the namespace: float32 and int32, or float64 and int64."""

from __future__ import annotations

import os

from pullback import dtypes, errors
from pullback._autodiff import replay
from pullback.devices import forget_kernels
from pullback.dtypes import DType, DTypeLike
from pullback.spec import OPS

__all__ = ["default_dtype", "set_default_dtype"]

#: The default dtype, where a program sets none.
VARIABLE = "PULLBACK_DEFAULT_DTYPE"


def set_default_dtype(dtype: DTypeLike | None) -> None:
    """Sets the dtype of what is made of Python's floats, and of integers where floats are needed.

    It is float32 otherwise, with complex64 and int32. With float64 the defaults of complex numbers
    and integers are complex128 and int64. It holds in all threads; call it before others compute.
    The environment variable PULLBACK_DEFAULT_DTYPE does the same from outside.

    Args:
        dtype: float32 or float64; None for what the environment variable says, or float32.

    Raises:
        DTypeError: for another dtype.

    >>> pb.set_default_dtype("float64")
    >>> pb.zeros(2).dtype, pb.asarray(1).dtype, pb.asarray([1j]).dtype
    (dtype('float64'), dtype('int64'), dtype('complex128'))
    >>> pb.set_default_dtype(None)
    >>> pb.zeros(2).dtype
    dtype('float32')
    """
    name = os.environ.get(VARIABLE)
    if dtype is None and name:
        try:
            dtype = _checked(name)
        except errors.DTypeError as error:
            raise errors.DTypeError(f"{VARIABLE}={name}: {error}") from None
    dtypes.set_defaults(dtypes.float32 if dtype is None else _checked(dtype))
    # What is remembered by the types of Python's numbers was for the defaults before.
    for op in OPS.values():
        op.resolutions = {}
        op.scalars.clear()
    forget_kernels()
    replay.forget()


def default_dtype() -> DType:
    """Returns the default floating dtype, float32 or float64 (`set_default_dtype`).

    >>> pb.default_dtype()
    dtype('float32')
    """
    return dtypes.DEFAULT_FLOAT


def _checked(dtype: DTypeLike) -> DType:
    found = dtypes.as_dtype(dtype)
    if found not in (dtypes.float32, dtypes.float64):
        raise errors.DTypeError(
            f"the default dtype must be float32 or float64, got {found}; for 16-bit numbers use a "
            f"policy: with pb.layers.policy('mixed_bfloat16')"
        )
    return found


if os.environ.get(VARIABLE):
    set_default_dtype(None)
