"""Inputs of an op converted as those of an earlier call of their kind, without the general path."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import wrap_op_error
from pullback._dispatch.convert import CACHED_SCALARS, constant, from_host, is_cached, read
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._operators import OPERATORS
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.spec import Op
from pullback.tensor import Tensor

#: NumPy's arrays, and the types of their elements, without subclasses of others.
_ARRAYS = frozenset({np.ndarray, *[dtype.type for dtype in dtypes.ALL if dtype.kind in "biufc"]})


def arrays_beside(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values with NumPy's arrays and scalars as tensors on the device of a tensor among them.

    What needs more than that, such as big-endian numbers, stays as it is.
    """
    device: Device | None = None
    arrays = False
    for value in values:
        if type(value) is Tensor:
            device = device or value._device
        elif type(value) in _ARRAYS:
            arrays = True
    if device is None or not arrays:
        return values
    known = device.backend.dtypes
    return tuple(
        [
            from_host(np.asarray(value), None, device)
            if type(value) in _ARRAYS and value.dtype in known
            else value
            for value in values
        ]
    )


def converted(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The inputs in the dtypes that `align_inputs` has found for such a call, numbers as tensors.

    Returns:
        None for a call that needs more, is the first of its kind, or has all of this.
    """
    device: Device | None = None
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is Tensor:
            if device is None:
                device = value._device
            elif value._device is not device:
                return None
            key.append(value._array.dtype)
        elif kind in SCALAR_TYPES:
            key.append(kind)
            key.append(value or repr(value))  # 0.0 == -0.0
        elif value is None:
            key.append(None)
        else:
            return None
    if device is None or op.view:
        return None
    # The device comes first: dtypes of two libraries are not to be compared.
    found = op.scalars.get((device, *key))
    if found is None:
        found = _conversions(op, values, device)
        if found is None:
            return None
        if all(type(value) not in SCALAR_TYPES or is_cached(value) for value in values):
            if len(op.scalars) >= CACHED_SCALARS:
                op.scalars.clear()
            op.scalars[device, *key] = found
    if not found:
        return None
    # `op.resolutions` has dtypes that `astype` has checked.
    try:
        return tuple(
            [
                value if x is None else x if type(x) is Tensor else OPERATORS.convert(value, x)
                for x, value in zip(found, values, strict=True)
            ]
        )
    except errors.PullbackError as error:
        raise wrap_op_error(op, error) from error.__cause__


def read_sequence(op: Op, values: tuple[Any, ...]) -> tuple[list[Tensor]] | None:
    """The inputs of an op of one sequence with its variables read, if the rest are tensors.

    Returns:
        None for other ops and values, and where all are tensors.
    """
    if len(values) != 1 or len(op.inputs) != 1 or type(values[0]) not in (list, tuple):
        return None
    tensors = [read(value) for value in values[0]]
    if {*map(type, tensors)} != {Tensor} or {*map(type, values[0])} == {Tensor}:
        return None
    return (tensors,)


def _conversions(
    op: Op, values: tuple[Any, ...], device: Device
) -> tuple[Tensor | DType | None, ...] | None:
    """For each input the tensor of a number, the dtype to convert a tensor to, or None.

    Nothing at all for inputs that specialized code takes as they are, or looks up by itself.
    """
    public = device.backend.public_dtypes
    operands = tuple(
        [
            None if x is None else public[x._array.dtype] if type(x) is Tensor else type(x)
            for x in values
        ]
    )
    resolved = op.resolutions.get(operands)
    if resolved is None:
        return None
    found: list[Tensor | DType | None] = []
    for value, operand, dtype in zip(values, operands, resolved, strict=True):
        if type(value) is Tensor or value is None:
            found.append(None if operand == dtype else dtype)
            continue
        try:
            found.append(constant(value, dtype, device))  # type: ignore[arg-type]
        except errors.PullbackError:
            return None  # `align_inputs` names the op in the error
    kinds = [type(x) for x in found if x is not None]
    if not kinds or (len(values) == 2 and kinds == [Tensor]):
        return ()
    return tuple(found)
