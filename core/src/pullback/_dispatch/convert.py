"""Converts the inputs of an op to tensors: host data, numbers, mixed dtypes and devices."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._dispatch.arguments import wrap_op_error
from pullback._dispatch.host_data import (
    SCALAR_TYPES,
    Numbers,
    cast_host,
    host_array,
    leaf_types,
    leaves,
    numbers_of,
)
from pullback._dispatch.recording import LOCAL, RECORDING, may_record
from pullback._masked import Masked
from pullback._operators import OPERATORS
from pullback._symbols import HostNumber
from pullback.casting import number
from pullback.devices import Device, as_device
from pullback.dtypes import DType, Operand
from pullback.spec import Arity, Op
from pullback.tensor import Tensor, wrap

CACHED_SCALARS = 4096


def as_tensor(value: object) -> Tensor | None:
    """The tensor of a tensor or a Variable; None for host data."""
    if type(value) is Tensor:
        return value
    read = getattr(type(value), "__pullback_tensor__", None)
    return None if read is None else read(value)


def read(value: Any) -> Any:
    """The tensor of a Variable or a similar object; any other value as it is."""
    reader = getattr(type(value), "__pullback_tensor__", None)
    return value if reader is None else reader(value)


def read_whole(value: Any) -> Any:
    """The same for an op that makes views: they are views of what was read, such as a Variable."""
    found = read(value)
    if found is value:
        return value
    part = found.__copy__()
    part._base = weakref.ref(value)
    return part


def is_cached(value: Any) -> bool:
    """Returns whether a Python number can be a key.

    nan != nan and 0.0 == -0.0, so nan and -0.0 cannot: all but the objects `math.nan` and `np.nan`,
    which are found by their identity.

    Nor can a complex number with a part that is zero: 1 + 0j == 1 - 0j, on two sides of a cut.
    """
    kind = type(value)
    if kind is complex:
        return bool(value.real and value.imag and value == value)
    if value != 0:
        return bool(value == value) or value is math.nan or value is np.nan
    return kind is not float or math.copysign(1.0, value) > 0


def constant(value: Any, dtype: DType, device: Device) -> Tensor:
    """A 0-d tensor for a Python scalar; made once per device.

    Raises:
        ConversionError: when the dtype cannot hold the value.
        DTypeError: when the device does not hold the dtype.
    """
    kind: Any = type(value)
    if kind is complex:
        cached = value == value
        kind = math.copysign(1.0, value.real), math.copysign(1.0, value.imag)
    elif kind is HostNumber:
        if value.host is None:
            return constant(value.value, dtype, device)
        captured: Tensor = value.host.number_as_tensor(value, dtype)
        return captured
    else:
        cached = is_cached(value)
    key = (value, kind, dtype)
    if cached:
        known: Tensor | None = device.constants.get(key)
        if known is not None:
            return known
    if dtype not in device.backend.dtypes:
        raise errors.DTypeError(device.backend.unsupported_dtype_message(dtype))
    try:
        with np.errstate(over="ignore"):
            array = number(value, dtype)
    except (OverflowError, ValueError):
        raise errors.ConversionError(
            f"{value} is out of range for {dtype}; convert the tensor with x.astype(...) first"
        ) from None
    except TypeError:
        raise errors.ConversionError(f"cannot convert {value!r} to {dtype}") from None
    tensor = wrap(device.backend.from_host(array, device.native, copy=True), device)
    if cached:
        if len(device.constants) >= CACHED_SCALARS:
            device.constants.clear()
        device.constants[key] = tensor
    return tensor


# ---------------------------------------------------------------------------------------------
# Host data.


def _first_tensor(value: object) -> Tensor | None:
    """The first tensor in nested lists."""
    if leaf_types(value) <= SCALAR_TYPES:
        return None
    for leaf in leaves(value):
        tensor = as_tensor(leaf)
        if tensor is not None:
            return tensor
    return None


def from_host(
    value: object, dtype: DType | None = None, device: Device | None = None, *, copy: bool = True
) -> Tensor:
    """A tensor with the values of host data.

    Raises:
        ConversionError: for values that are not an array of numbers.
        DTypeError: when the device's backend does not hold the dtype.
    """
    if isinstance(value, (list, tuple)):
        if type(value) is Masked:
            value.reject()
        tensor = _first_tensor(value)
        if tensor is not None:
            return _stack(value, tensor.device, dtype, device)
    device = as_device(None) if device is None else device
    if type(value) is np.ndarray and dtype is None and value.dtype in device.backend.dtypes:
        return wrap(device.backend.from_host(value, device.native, copy=copy), device)
    if type(value) in SCALAR_TYPES:
        if dtype is None and type(value) is int:
            cached = _integer(value, device)
        else:
            cached = constant(value, dtype or dtypes.promote([type(value)]), device)
        # The caller may watch or assign to its handle; the cached one serves every other number.
        return wrap(cached._array, device)
    if type(value) is HostNumber:
        return constant(value, dtype or dtypes.promote([type(value.value)]), device)
    array = host_array(value)
    if dtype is not None and array.dtype != dtype:
        array = cast_host(value, array, dtype)
        copy = False
    backend = device.backend
    if array.dtype not in backend.dtypes and array.dtype not in backend.storage_dtypes:
        raise errors.DTypeError(backend.unsupported_dtype_message(array.dtype))
    return wrap(backend.from_host(array, device.native, copy=copy), device)


def _stack(
    value: Sequence[object], beside: Device, dtype: DType | None, device: Device | None
) -> Tensor:
    """Nested lists with tensors among them, side by side: gradients flow into these."""
    parts = [
        # Numbers and lists of them stay weak beside tensors.
        item
        if type(item) in SCALAR_TYPES or numbers_of(item) is not None
        else from_any(item, None, _device_of(item) or beside)
        for item in value
    ]
    return from_any(OPERATORS.stack(parts), dtype, device)


def _device_of(value: object) -> Device | None:
    tensor = as_tensor(value)
    return None if tensor is None else tensor.device


def _integer(value: int, device: Device) -> Tensor:
    # int32 unless the value does not fit: never a wrong number.
    for dtype in (dtypes.DEFAULT_INT, dtypes.int64, dtypes.uint64):
        info = np.iinfo(dtype)
        if info.min <= value <= info.max:
            return constant(value, dtype, device)
    raise errors.ConversionError(
        f"{value} is out of every integer dtype's range; write it as a float"
    )


def from_any(value: object, dtype: DType | None = None, device: Device | None = None) -> Tensor:
    """A tensor from a tensor, a variable or host data, on `device` if given."""
    tensor = value if type(value) is Tensor else as_tensor(value)
    if tensor is None:
        return from_host(value, dtype, device)
    if dtype is not None and tensor.dtype != dtype:
        tensor = OPERATORS.astype(tensor, dtype)
    if device is not None and tensor._device is not device:
        tensor = OPERATORS.to_device(tensor, device)
    return tensor


def as_number(value: Any, name: str, instead: str) -> Any:
    """The number in an array of one element; other values as they are.

    Args:
        value: a number, or an array, tensor or variable of one element.
        name: the name of the argument.
        instead: what to write for a gradient.

    Raises:
        TapeError: for a float that a tape records, whose gradient would be lost.
    """
    if not hasattr(value, "dtype"):
        return value
    x = from_any(value)
    if may_record(x._node) and dtypes.kind(x.dtype) in (dtypes.FLOAT, dtypes.CMPLX):
        raise errors.TapeError(
            f"{name} is a tensor that a tape records, and its gradient would be lost: the op takes "
            f"a number; write {instead}, or x.item() for a constant"
        )
    return x.item()


def from_any_beside(value: object, x: Tensor) -> Tensor:
    """A tensor of a value beside x: host data go to its device, lists of numbers are weak."""
    numbers = numbers_of(value)
    if numbers is not None:
        dtype = dtypes.promote((x.dtype, numbers.type))
        if numbers.fit(dtype):
            return from_host(numbers.as_dtype(dtype), None, x.device, copy=False)
    return from_any(value, None, None if as_tensor(value) is not None else x.device)


def as_tensors(values: Sequence[object]) -> list[Tensor]:
    """Tensors of all values; host data go to where the first tensor among them is."""
    tensors = [as_tensor(value) for value in values]
    device = next((tensor.device for tensor in tensors if tensor is not None), None)
    return [
        from_host(value, None, device) if tensor is None else tensor
        for value, tensor in zip(values, tensors, strict=True)
    ]


# ---------------------------------------------------------------------------------------------
# The inputs of one op.


def _flatten(op: Op, values: tuple[Any, ...]) -> list[Any]:
    flat: list[Any] = []
    for parameter, value in zip(op.inputs, values, strict=True):
        if parameter.arity is Arity.MANY:
            if any(item is None for item in value):
                raise errors.InputTypeError(f"{parameter.name} holds None in place of a tensor")
            flat.extend(value)
        else:
            if value is ... and op.missing:
                raise errors.InputTypeError(f"{parameter.name} is missing; {op.missing}")
            if value is None and parameter.arity is Arity.ONE:
                raise errors.InputTypeError(f"{parameter.name} is missing, got None")
            flat.append(value)
    return flat


def sequences(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of the inputs with every sequence as a list.

    Raises:
        InputTypeError: for a single value in place of a sequence.
    """
    listed = list(values)
    for i, parameter in enumerate(op.inputs):
        if parameter.arity is Arity.MANY and not isinstance(listed[i], (list, tuple)):
            try:
                listed[i] = list(listed[i])
            except TypeError:
                raise errors.InputTypeError(
                    f"{op.name}: {parameter.name} is a sequence of tensors, "
                    f"got {type(listed[i]).__name__}"
                ) from None
    return tuple(listed)


def sequence_lengths(op: Op, values: tuple[Any, ...]) -> tuple[int | None, ...]:
    """The number of tensors in each input that is a sequence; None for the others."""
    return tuple(
        len(value) if parameter.arity is Arity.MANY else None
        for parameter, value in zip(op.inputs, values, strict=True)
    )


def flatten(inputs: Iterable[Any]) -> list[Any]:
    """The inputs of a call one by one, with those of a sequence in its place."""
    return [x for value in inputs for x in (value if type(value) is list else (value,))]


def unflatten(flat: list[Any], lengths: tuple[int | None, ...]) -> list[Any]:
    """The flat list grouped as the op's inputs are."""
    result: list[Any] = []
    position = 0
    for length in lengths:
        if length is None:
            result.append(flat[position])
            position += 1
        else:
            result.append(flat[position : position + length])
            position += length
    return result


def align_inputs(op: Op, values: tuple[Any, ...]) -> tuple[list[Any], Device]:
    """The op's inputs, flattened, as tensors of the dtypes that its rule decides, on one device.

    Raises:
        DeviceError: for tensors on different devices.
        DTypeError: for dtypes that the op does not take.
        ConversionError: for host data that are not an array.
    """
    try:
        return _aligned(op, _flatten(op, values))
    except errors.PullbackError as error:
        raise wrap_op_error(op, error) from error.__cause__


def alike(op: Op, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """Two inputs in the dtypes that `align_inputs` has found before for such a call.

    Inputs on two devices, and those of dtypes that are new to the op, stay as they are.

    Raises:
        PullbackError: for a conversion that fails, such as for lack of memory.
    """
    device = x1._device
    if x2._device is not device:
        return x1, x2
    public = device.backend.public_dtypes
    operands = public[x1._array.dtype], public[x2._array.dtype]
    resolved = op.resolutions.get(operands)
    if resolved is None:
        return x1, x2
    # `op.resolutions` has dtypes that `astype` has checked.
    try:
        if operands[0] != resolved[0]:
            x1 = OPERATORS.convert(x1, resolved[0])
        if operands[1] != resolved[1]:
            x2 = OPERATORS.convert(x2, resolved[1])
    except errors.PullbackError as error:
        raise wrap_op_error(op, error) from error.__cause__
    return x1, x2


def reject_traced(*devices: Device) -> None:
    """Raises the error for a tensor that outlived the trace of a captured function.

    Raises:
        CaptureError: if one of the devices is that of a trace that has ended.
    """
    for device in devices:
        reason = device.backend.unusable()
        if reason is not None:
            raise errors.CaptureError(reason)


def _lifted(flat: list[Any]) -> list[Any]:
    """The inputs with the tensors among them in the trace that runs in this thread, if one does."""
    capture = LOCAL.state.capture
    if capture is None:
        return flat
    tensors = [as_tensor(value) for value in flat]
    return [
        value if tensor is None else capture.lift(tensor)
        for value, tensor in zip(flat, tensors, strict=True)
    ]


def _on_one_device(flat: list[Any]) -> list[Any] | None:
    """The inputs with the tensors among them on a device that stands for the others; or None."""
    tensors = [as_tensor(value) for value in flat]
    for device in {tensor._device for tensor in tensors if tensor is not None}:
        lifted = [None if tensor is None else device.lift(tensor) for tensor in tensors]
        # A batch of what is on the device stays where it is, and then another one is that of all.
        if all(
            tensor is None or (x is not None and x._device is device)
            for x, tensor in zip(lifted, tensors, strict=True)
        ):
            return [
                value if tensor is None else tensor
                for value, tensor in zip(flat, lifted, strict=True)
            ]
    return None


def _aligned(op: Op, flat: list[Any]) -> tuple[list[Any], Device]:
    if not flat:
        return flat, as_device(None)
    if RECORDING.count:
        flat = _lifted(flat)
    device: Device | None = None
    operands: list[Operand | None] = []
    hosts: list[int] = []
    for i, value in enumerate(flat):
        kind = type(value)
        if kind is not Tensor:
            if value is None or kind in SCALAR_TYPES:
                operands.append(None if value is None else kind)
                continue
            if kind is HostNumber:
                operands.append(type(value.value))
                continue
            tensor = as_tensor(value)
            if tensor is None:
                operands.append(None)
                hosts.append(i)
                continue
            flat[i] = value = tensor
        if device is None:
            device = value._device
        elif value._device is not device:
            lifted = _on_one_device(flat)
            if lifted is not None:
                return _aligned(op, lifted)
            reject_traced(device, value._device)
            raise errors.DeviceError(
                f"tensors on {device} and {value._device}; move one with x.to('{device}')"
            )
        operands.append(device.backend.public_dtypes[value._array.dtype])
    if device is None:
        device = as_device(None)
    lists = _convert_hosts(op, flat, hosts, operands, device) if hosts else {}
    key = tuple(operands)
    resolved = op.resolutions.get(key)
    known = resolved is not None
    if resolved is None:
        resolved = op.dtype(key).inputs
    for i, dtype in enumerate(resolved):
        if operands[i] is dtype:
            continue
        value = flat[i]
        if type(value) is Tensor:
            if operands[i] != dtype:
                flat[i] = OPERATORS.astype(value, dtype)
        elif dtype is None:
            continue
        elif i in lists:
            flat[i] = from_host(lists[i].as_dtype(dtype), None, device, copy=False)
        else:
            flat[i] = constant(value, dtype, device)
    if not known:
        # Not before: `astype` has checked the dtypes now, and shorter ways convert without it.
        op.resolutions[key] = resolved
    return flat, device


def _convert_hosts(
    op: Op,
    flat: list[Any],
    hosts: Sequence[int],
    operands: list[Operand | None],
    device: Device,
) -> dict[int, Numbers]:
    """Converts the host data among the inputs, and sets their operands.

    Lists of Python numbers beside a tensor or an array are weak, as a number is: their operand is
    the type of the numbers, and they are left to be converted to the dtype that the rule decides.

    Returns:
        The lists that are left, by position.
    """
    lists = {i: numbers for i in hosts if (numbers := numbers_of(flat[i])) is not None}
    for i in hosts:
        if i not in lists:
            flat[i] = from_host(flat[i], None, device)
            operands[i] = flat[i].dtype
    is_alone = all(operand is None or isinstance(operand, type) for operand in operands)
    for i, numbers in lists.items():
        operands[i] = numbers.type
    resolved = () if is_alone else op.dtype(tuple(operands)).inputs
    for i, numbers in [*lists.items()]:
        dtype = None if is_alone else resolved[i]
        if dtype is None or not numbers.fit(dtype):
            # Data with the dtype that they have alone.
            del lists[i]
            flat[i] = from_host(flat[i], None, device)
            operands[i] = flat[i].dtype
    return lists
