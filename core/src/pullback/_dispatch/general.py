"""The general call of an op: the reference for the specialized code of `call_code`.

The four cases of an op, on a device:
  kernel                     call it, record one node
  no kernel, but a rule      run the body unrecorded, record one node
  no kernel, no rule         run the body and let the tape record the ops inside
  kernel, no rule            run the kernel; the body, if the result is to be differentiated
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from pullback import errors
from pullback._dispatch.arguments import canonicalize, dtype_remark, wrap_op_error
from pullback._dispatch.bodies import run_body, without_residuals
from pullback._dispatch.conversions import arrays_beside, converted, read_sequence
from pullback._dispatch.convert import (
    align_inputs,
    as_tensor,
    is_cached,
    sequence_lengths,
    sequences,
    unflatten,
)
from pullback._dispatch.general_vjp import record
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.plan import arrays_of, keep_conversion, resolve
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    RECORDING,
    Output,
    may_record,
    paused,
    unfollowed,
)
from pullback._operators import OPERATORS
from pullback._symbols import TRACES
from pullback._views import base_of
from pullback.devices import Device
from pullback.dtypes import is_floating
from pullback.shapes import canonical_axes, size_of
from pullback.spec import Arity, Op
from pullback.tensor import Tensor, wrap

_CACHED_SCALARS = 256
_HEAP_TYPE = 1 << 9
#: Types without methods of the user's.
_CLOSED: set[Any] = {Tensor, bool, int, float, complex, str, NoneType}


def align(op: Op, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an op without sequences, as tensors of the right dtypes on one device."""
    if not TRACES.count:
        values = arrays_beside(values)
        known = converted(op, values)
        if known is not None:
            return known
    tensors = []
    for parameter, value in zip(op.inputs, values, strict=True):
        tensor = None if value is None else as_tensor(value)
        if tensor is None and (value is not None or parameter.arity is not Arity.OPTIONAL):
            break
        tensors.append(tensor)
    else:
        # Tensors and variables: the caller compares dtypes and devices itself.
        return tuple(tensors)
    try:
        flat, _ = align_inputs(op, values)
    except errors.SymbolicError as error:
        return tuple([None if value is None else _Unaligned(value, error) for value in values])
    if len(values) == 2:
        left = type(values[0]) is Tensor
        tensor, scalar = values if left else values[::-1]
        if type(tensor) is Tensor and type(scalar) in SCALAR_TYPES:
            aligned = flat[1] if left else flat[0]
            # In a captured function a tensor from outside becomes one of the trace.
            alike = aligned.dtype == tensor.dtype and aligned._device is tensor._device
            if alike and is_cached(scalar):
                # Specialized code looks here before it calls.
                if len(op.scalars) >= _CACHED_SCALARS:
                    op.scalars.clear()
                number = scalar or repr(scalar)
                key = (number, type(scalar), tensor._device, tensor._array.dtype)
                op.scalars[key if left else (*key, True)] = aligned
    # A view of a number that is kept for other calls would not be written into.
    return tuple([tensor.__copy__() for tensor in flat]) if op.view else tuple(flat)


class _Unaligned:
    """An input of a call with symbolic tensors, for which specialized code finds no kernel.

    So it hands all inputs, and the attributes as the caller gave them, to the general call.
    """

    __slots__ = ("error", "value")
    dtype = _node = None
    shape = tables = ()

    def __init__(self, value: object, error: errors.SymbolicError) -> None:
        self.value = value
        self.error = error

    def __array__(self, *_: object) -> NoReturn:
        raise self.error


# What specialized code reads of any input.
_Unaligned._device = _Unaligned._array = _Unaligned  # type: ignore[attr-defined]


def find_form(op: Op, number: float, x: Tensor, *left: bool) -> Callable[[Tensor], Tensor] | None:
    """Returns what computes an op of a Python number and a tensor in fewer steps, or None.

    Args:
        op: an op with `number_forms`.
        number: one of the numbers there.
        x: the other input.
        left: True if the number is the first input, else nothing.
    """
    form = op.number_forms[number](type(number), x.dtype, bool(left))
    if form is not None:
        # Specialized code looks here before it asks.
        dtype = x._array.dtype
        op.forms[(number, type(number), type(dtype), dtype, *left)] = form
    return form


def call(op: Op, values: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
    """Calls an op.

    Args:
        op: the op.
        values: one per input, as the caller passed them.
        attributes: every attribute, as the caller passed it.
    """
    try:
        if TRACES.count:
            if is_closed(op, values, attributes):
                with unfollowed():
                    return _call(op, values, attributes)
        else:
            known = converted(op, values) if op.fixed else read_sequence(op, values)
            if known is not None:
                result = op.function(*known, **attributes)
                if op.fixed and not RECORDING.count:
                    keep_conversion(op, values, known)
                return result
        return _call(op, values, attributes)
    except errors.SymbolicError as error:
        if error.apply is None:
            raise
        given = tuple([v.value if type(v) is _Unaligned else v for v in values])
        return error.apply(op.function, given, attributes)


def record_body(op: Op, inputs: tuple[Any, ...], attributes: Mapping[str, Any]) -> Any:
    """Calls a composite without a rule, whose body is recorded, as `call` does.

    Args:
        op: an op with a fixed number of inputs.
        inputs: tensors on one device; None for an input that is absent.
        attributes: every attribute, as the caller passed it.
    """
    public = inputs[0]._device.backend.public_dtypes
    operands = tuple([None if x is None else public[x._array.dtype] for x in inputs])
    resolved = op.resolutions.get(operands)
    # What is converted, moved or put into a trace has its way in `call`, and errors are told there.
    if (
        TRACES.count
        or resolved is None
        or [*map(id, resolved)] != [*map(id, operands)]
        or "device" in attributes
        or (op.joined and type(attributes[op.joined]) is not int)
    ):
        return call(op, inputs, attributes)
    try:
        canonical = canonicalize(op, inputs, attributes)
    except Exception:
        return call(op, inputs, attributes)
    return _of_body(op, inputs, inputs, canonical)


def is_closed(op: Op, values: Iterable[Any], attributes: Mapping[str, Any]) -> bool:
    """Returns whether a call runs the framework's code alone: it gets no objects of the user's."""
    if not op.own:
        return False
    for value in (*values, *attributes.values()):
        if type(value) not in _CLOSED and not _is_closed(value):
            return False
    return True


def _is_closed(value: Any) -> bool:
    kind = type(value)
    if kind is tuple or kind is list:
        return all(map(_is_closed, value))
    # A class in Python may have methods of its own.
    number = issubclass(kind, (np.generic, np.dtype)) and not kind.__flags__ & _HEAP_TYPE
    if number or kind.__module__.startswith("pullback."):
        _CLOSED.add(kind)
    return kind in _CLOSED


def call_with_residuals(
    op: Op, values: tuple[Any, ...], attributes: Mapping[str, Any]
) -> list[Tensor]:
    """Calls an op that has residuals, and returns them behind its results, as its rules see them.

    Args:
        op: the op.
        values: one per input.
        attributes: in canonical form.
    """
    arrays: list[Any] = []
    result = _call(op, values, attributes, arrays)
    tensors = [result] if len(op.outputs) == 1 else [*result]
    node = next((tensor._node for tensor in tensors if type(tensor._node) is Output), None)
    for array in arrays:
        residual = wrap(array, tensors[0]._device)
        if node is not None and is_floating(residual.dtype):
            # For higher orders: a cotangent of it goes to the inputs through the body.
            whole = node.parents[0]
            assert whole is not None
            residual._node = Output(LOCAL.state.next_serial(), whole, len(tensors))
        tensors.append(residual)
    return tensors


def _call(
    op: Op,
    values: tuple[Any, ...],
    attributes: Mapping[str, Any],
    residuals: list[Any] | None = None,
) -> Any:
    if not op.simple:
        values = sequences(op, values)
    flat, device = align_inputs(op, values)
    inputs = flat if op.fixed else unflatten(flat, sequence_lengths(op, values))
    axes = attributes[op.joined] if op.joined else 0
    if axes is None or isinstance(axes, (tuple, list)):
        return _over_joined(op, flat[0], axes, attributes)
    plan = resolve(op, inputs, attributes, device)
    device, attributes = plan.device, plan.attributes

    tracked = RECORDING.count != 0 and any(t is not None and may_record(t._node) for t in flat)
    body_is_recorded = tracked and op.differentiable and not op.rules and not op.primitive
    arrays: Sequence[Any]
    if plan.kernel is not None and not body_is_recorded:
        # As in specialized code, so that the first call has the bits of those after it.
        demanded = RECORDING.count or residuals is not None or not device.backend.keeps_bodies
        arrays = plan.run(arrays_of(inputs), residuals=bool(demanded))
    elif op.primitive:
        raise _missing_kernel(op, device, dtype_remark(flat))
    elif (tracked or residuals is not None) and (op.rules or not op.differentiable):
        with paused():
            result = run_body(op, inputs, attributes)
        results = result if isinstance(result, (tuple, list)) else (result,)
        arrays = [tensor._array for tensor in results]
    else:
        return _of_body(op, inputs, flat, attributes)

    count = len(op.outputs)
    tensors = [wrap(array, device) for array in arrays[:count]]
    if residuals is not None:
        residuals += arrays[count:]
    if RECORDING.count:
        for tensor in tensors:
            tensor._node = CONSTANT
        if tracked and op.rules:
            record(op, inputs, tensors, [*arrays[count:]], attributes, device)
    if op.view:
        _mark(tensors, flat[0])
    return tensors[0] if count == 1 else named(op, tensors)


def _of_body(
    op: Op, inputs: Sequence[Any], flat: Sequence[Any], attributes: Mapping[str, Any]
) -> Any:
    """The results of the body, in which a tape sees each op; `flat` has the inputs one by one."""
    result = _new_handles(without_residuals(op, run_body(op, inputs, attributes)), flat)
    if op.view:
        _mark(result, flat[0])
    return result if len(op.outputs) == 1 else named(op, result)


def _over_joined(op: Op, x: Any, axes: Any, attributes: Mapping[str, Any]) -> Any:
    """The op along several axes: along one that has their elements."""
    try:
        chosen = canonical_axes(axes, x.ndim)
    except errors.PullbackError as error:
        raise wrap_op_error(op, error) from None
    chosen = tuple(range(x.ndim)) if chosen is None else chosen
    if len(chosen) == 1:
        return op.function(x, **{**attributes, op.joined: chosen[0]})
    order = (*[axis for axis in range(x.ndim) if axis not in chosen], *chosen)
    moved = OPERATORS.permute_dims(x, order)
    others = moved.shape[: x.ndim - len(chosen)]
    joined = OPERATORS.reshape(moved, (*others, size_of(moved.shape[len(others) :])))
    y = OPERATORS.reshape(op.function(joined, **{**attributes, op.joined: -1}), moved.shape)
    return OPERATORS.permute_dims(y, tuple([order.index(axis) for axis in range(x.ndim)]))


def named(op: Op, results: Sequence[Tensor]) -> Any:
    """Several results as a tuple with a name for each: `pb.linalg.qr(x).Q`."""
    return result_type(op)._make(results)


@functools.cache
def result_type(op: Op) -> Any:
    """The type of several results of an op."""
    words = op.name.strip("_").split("_")
    return namedtuple("".join(map(str.capitalize, words)) + "Result", op.outputs)


def _new_handles(result: Any, flat: Sequence[Tensor | None]) -> Any:
    """The result of a body, never the handle of an input: `x[0] = 1` changes x alone."""
    if isinstance(result, Tensor):
        if any(result is tensor for tensor in flat):
            return wrap(result._array, result._device, result._node)
        result._base = None
        return result
    return tuple(_new_handles(tensor, flat) for tensor in result)


def _mark(results: Any, x: Tensor) -> None:
    """Says of the results of an op that they are views of its input."""
    base = base_of(x)
    for tensor in (results,) if isinstance(results, Tensor) else results:
        tensor._base = base


def _missing_kernel(op: Op, device: Device, dtype: str) -> errors.MissingKernelError:
    error = errors.MissingKernelError(
        f"{op.name}: the backend {device.backend.name!r} has no kernel for this primitive of the "
        f"{op.tier} tier{dtype}; use another device, or a kernel pack"
    )
    error.tier = op.tier
    return error
