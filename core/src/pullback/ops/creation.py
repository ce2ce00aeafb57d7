"""Tensors from nothing, and from host data."""

from __future__ import annotations

from typing import Any

from pullback import dtypes
from pullback.devices import DeviceLike
from pullback.dispatch import op, primitive
from pullback.dispatch.convert import from_any
from pullback.dtypes import DType, DTypeLike, Operands, Resolution
from pullback.shapes import Shape, ShapeLike, given
from pullback.spec import EXACT
from pullback.tensor import CALL, Tensor, TensorLike



def _as_asked(operands: Operands, dtype: DType, **_: Any) -> Resolution:
    return Resolution((), (dtype,))


def _default_dtype(
    shapes: tuple[Shape, ...], *, fill_value: Any, dtype: DType | None, **rest: Any
) -> dict[str, Any]:
    if dtype is None:
        dtype = dtypes.promote([type(fill_value)])
    return {"fill_value": fill_value, "dtype": dtype, **rest}


@op(shape=given, dtype=_as_asked, accuracy=EXACT, differentiable=False, normalize=_default_dtype)
def full(
    shape: ShapeLike,
    fill_value: bool | int | float | complex,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor:
    """A tensor of `shape` with every element `fill_value`.

    >>> pb.full((2,), 7).tolist()
    [7, 7]
    """
    return primitive()


def asarray(
    obj: TensorLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """x"""
    from pullback.devices import as_device
    return from_any(obj, None if dtype is None else dtypes.as_dtype(dtype), None if device is None else as_device(device))

CALL["asarray"] = asarray
