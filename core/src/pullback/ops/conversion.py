"""Conversion to tensors, from host data and other libraries, and between devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.convert import as_tensor, from_any, from_host
from pullback._dispatch.recording import CONSTANT, RECORDING, capturing
from pullback._operators import OPERATORS
from pullback.devices import Device, DeviceLike, as_device
from pullback.dtypes import STORAGE, DType, DTypeLike, Operands, Resolution, as_dtype, same, uniform
from pullback.plugins.backend import Backend
from pullback.shapes import first
from pullback.spec import EXACT
from pullback.strings import is_text
from pullback.tensor import Tensor, TensorLike, wrap

__all__ = ["asarray", "from_dlpack", "to_device"]

_ON_HOST = (np.ndarray, np.generic, list, tuple, int, float, complex)
# The device kinds by their numbers in the DLPack specification.
_DLPACK_KINDS = {1: "cpu", 2: "gpu", 3: "cpu", 10: "gpu", 11: "cpu", 13: "gpu"}


def asarray(
    obj: TensorLike,
    /,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor with the values of `obj` (array API standard).

    NumPy arrays keep their dtype. Python numbers and nested lists of them get the default dtype of
    their kind: float32, int32 (a wider one for values that need it), complex64. Lists may hold
    tensors, which are stacked: gradients flow into them. For strings there is
    `pullback.StringTensor`.

    Args:
        obj: a tensor, a variable, an array of NumPy or any library, a number, nested sequences.
        dtype: the dtype; `obj`'s if not given.
        device: where the tensor is; where `obj` is, if it is on a device, else the active device.
        copy: True always gives a tensor of its own; False never copies and raises where it would
            have to; without it, tensors are taken as they are and host data are copied.

    Raises:
        ConversionError: for an object that is not an array of numbers.
        InputValueError: with copy=False, if the conversion needs a copy.

    >>> pb.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    >>> x = np.ones(2)
    >>> pb.asarray(x).dtype
    dtype('float64')
    """
    dtype = None if dtype is None else as_dtype(dtype)
    device = None if device is None else as_device(device)
    tensor = as_tensor(obj)
    if tensor is not None:
        if copy is False and dtype is not None and tensor.dtype != dtype:
            raise _needs_copy(f"a {tensor.dtype} tensor cannot become a {dtype} tensor")
        if copy is False and device is not None and tensor.device is not device:
            raise _needs_copy(f"a tensor on {tensor.device} cannot move to {device}")
        result = from_any(tensor, dtype, device)
        return result.__copy__() if copy and result is obj else result
    if _is_elsewhere(obj):
        return asarray(from_dlpack(obj, copy=copy), dtype=dtype, device=device, copy=copy)
    if copy is False:
        return _shared(obj, dtype, as_device(device))
    try:
        return from_host(obj, dtype, device)
    except errors.ConversionError:
        if is_text(obj):
            raise errors.ConversionError(
                "strings are not an array of numbers; hold them in a pb.StringTensor(...), or "
                "convert numerals first: np.asarray(strings, 'float32')"
            ) from None
        # What NumPy has no dtype for, such as bfloat16 of other libraries.
        if not (hasattr(obj, "__dlpack__") and hasattr(obj, "__dlpack_device__")):
            raise
    taken = from_dlpack(obj, copy=True)
    return from_any(taken, dtype, as_device(None) if device is None else device)


OPERATORS.asarray = asarray


def _needs_copy(why: str) -> errors.InputValueError:
    return errors.InputValueError(f"asarray: {why} without a copy; drop copy=False")


def _is_elsewhere(obj: object) -> bool:
    """Returns whether another library's object is not on the host, out of NumPy's reach."""
    if isinstance(obj, _ON_HOST):
        return False
    return (
        hasattr(obj, "__dlpack_device__")
        and _DLPACK_KINDS.get(int(obj.__dlpack_device__()[0])) != "cpu"
    )


def _shared(obj: Any, dtype: DType | None, device: Device) -> Tensor:
    if not hasattr(obj, "__array__") and not hasattr(obj, "__dlpack__"):
        raise _needs_copy(f"{type(obj).__name__} cannot become a tensor")
    array = np.asarray(obj)
    if dtype is not None and array.dtype != dtype:
        raise _needs_copy(f"a {array.dtype} array cannot become a {dtype} tensor")
    if device.kind != "cpu":
        raise _needs_copy(f"a host array cannot become a tensor on {device}")
    return from_host(array, None, device, copy=False)


def from_dlpack(x: Any, /, *, device: DeviceLike | None = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of another library's array (array API standard, DLPack).

    Memory is shared if the backend can share it. The other library must then not change it: buffers
    are immutable here, and results computed from them are not updated.

    Args:
        x: an object with `__dlpack__` and `__dlpack_device__`.
        device: where the tensor is; where x is, if not given: of several backends there, that of
            the active device.
        copy: True always copies; False raises where sharing is impossible.

    Raises:
        InputTypeError: for an object that does not support DLPack.
        DeviceError: if no installed backend has the device of x.
        ExchangeError: if the other library does not hand x over, or no backend can take it.

    >>> pb.from_dlpack(np.ones(2, np.float32)).tolist()
    [1.0, 1.0]
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise errors.InputTypeError(
            f"from_dlpack: {type(x).__name__} does not support DLPack; use pb.asarray"
        )
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    number, index = x.__dlpack_device__()
    kind = _DLPACK_KINDS.get(int(number))
    if kind is None:
        raise errors.DeviceError(
            f"from_dlpack: no installed backend has devices of DLPack type {number}"
        )
    place = (kind, int(index) if kind == "gpu" else 0)
    target = _taker(place) if device is None else as_device(device)
    if target is None or (target.kind, target.index) != place:
        source = as_device("{}:{}".format(*place))
        target = source if target is None else target
    else:
        # x is already on the requested device; that device's backend takes it.
        source = target
    if target is not source and copy is False:
        raise errors.InputValueError(
            f"from_dlpack: moving an array from {source} to {target} needs a copy; drop copy=False"
        )
    try:
        array = source.backend.from_dlpack(x, source.native, copy=copy)
    except errors.PullbackError:
        raise
    except Exception as error:
        name = f"{type(x).__module__}.{type(x).__qualname__}"
        raise errors.ExchangeError(
            f"from_dlpack: {source} cannot take {name}: {error}; "
            f"detach, convert or copy it in its own library first"
        ) from error
    return to_device(wrap(array, source), target)


def _taker(place: tuple[str, int]) -> Device | None:
    """The active device, if it is at a place, and its backend takes arrays of other libraries."""
    active = as_device(None)
    takes = type(active.backend).from_dlpack is not Backend.from_dlpack
    return active if takes and (active.kind, active.index) == place else None


# ---------------------------------------------------------------------------------------------
# Moves between devices.


@uniform
def any_dtype(operands: Operands, **_: object) -> Resolution:
    """The dtype of the only input, which may be one for storage."""
    (operand,) = operands
    if operand in STORAGE:
        assert isinstance(operand, np.dtype)
        return Resolution((operand,), (operand,))
    return same(operands)


@op(shape=first, dtype=any_dtype, accuracy=EXACT, name="to_device")
def _move(
    x: Tensor, /, *, device: DeviceLike | None = None, source: DeviceLike | None = None
) -> Tensor:
    """x on `device`; its gradient goes back to `source`, the device of x."""
    source, target = as_device(source), as_device(device)
    if not target.backend.holds(x.dtype):
        message = target.backend.unsupported_dtype_message(x.dtype)
        raise errors.DTypeError(f"{message}; convert the tensor with x.astype(...) first")
    backend = source.backend
    if target.backend is backend:
        array = backend.copy_to_device(x._array, target.native)
    else:
        array = target.backend.from_host(x.numpy(), target.native, copy=True)
    return wrap(array, target, CONSTANT if RECORDING.count else None)


_move.vjp(x=lambda g, source: to_device(g, source))


def to_device(x: TensorLike, device: DeviceLike, /) -> Tensor:
    """x on another device; x itself if it is on that device already.

    Gradients flow back through the move. Between devices of different backends, values go through
    the host.

    Args:
        x: a tensor of any shape and dtype.
        device: a device or its name.

    Raises:
        DeviceError: for an unknown device name.
        DTypeError: if the target's backend does not support x's dtype.

    >>> pb.to_device([1.0, 2.0], "cpu").device
    device('cpu:0')
    """
    target = as_device(device)
    tensor = as_tensor(x)
    if tensor is None:
        return from_host(x, None, target)
    if tensor._device is target or tensor._device.stands_on(target):
        return tensor
    lifted = target.lift(tensor)
    if lifted is not None:
        return lifted
    capture = capturing()
    if capture is not None:
        capture.traced_device(target)
        return capture.lift(tensor)
    return _move(tensor, device=target, source=tensor._device)


OPERATORS.to_device = to_device
