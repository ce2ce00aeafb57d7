"""The bodies of composite ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pullback import errors
from pullback._dispatch.arguments import (
    explain,
    is_from_signal_handler,
    raise_explained,
    wrap_op_error,
)
from pullback._dispatch.recording import RECORDING, is_outside, paused, uncaptured
from pullback._symbols import TRACES
from pullback.devices import Device
from pullback.plugins.backend import Backend
from pullback.plugins.records import Kernel, Native
from pullback.spec import Arity, Op
from pullback.tensor import Tensor, wrap


def run_body(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The results of the op's body, for aligned inputs and canonical attributes."""
    if op.primitive:
        raise errors.MissingKernelError(
            f"{op.name}: a primitive has no body to fall back on: {op.why}"
        )
    code = op.body.__code__
    try:
        # The inputs of the framework's own ops come first, as a test sees.
        if op.own and code.co_posonlyargcount <= len(inputs) <= code.co_argcount:
            return op.body(*inputs, **attributes)
        keywords = dict(attributes)
        for parameter, value in zip(op.inputs, inputs, strict=True):
            keywords[parameter.name] = value
        positional = [keywords.pop(name) for name in code.co_varnames[: code.co_posonlyargcount]]
        return op.body(*positional, **keywords)
    except Exception as error:
        _raise_explained(op, error, tuple(inputs), attributes)


def _raise_explained(
    op: Op, error: Exception, inputs: tuple[Any, ...], attributes: Mapping[str, Any]
) -> NoReturn:
    """Raises an error of a body as the op explains it."""
    if getattr(error, "op", None) == op.name or is_from_signal_handler(error):
        raise error
    # The op that the caller named explains its shapes better than one inside its body.
    explained = explain(op, inputs, attributes)
    if explained is not None:
        raise explained.with_traceback(error.__traceback__) from error.__cause__
    if isinstance(error, errors.PullbackError):
        named = wrap_op_error(op, error)
        raise named.with_traceback(error.__traceback__) from error.__cause__
    try:
        raise_explained(op, error, inputs, attributes)
    except errors.PullbackError as last:
        last.op = op.name
        raise


def is_one_sequence(op: Op) -> bool:
    """Returns whether specialized code calls an op: on one sequence of tensors, for one result."""
    single = len(op.outputs) + len(op.residuals) == 1
    return [x.arity for x in op.inputs] == [Arity.MANY] and op.dtype.uniform and single


def body_as_kernel(op: Op, device: Device) -> Kernel | None:
    """The body of a composite as specialized code calls kernels: with arrays, and for arrays.

    A tape does not see the calls inside: the op's rule is recorded.

    Args:
        op: an op without a kernel on the device.
        device: a real one, not that of a trace.

    Returns:
        The kernel; None where the body needs the general call: that knows which of several devices
        the arrays are on, as their tables are one.
    """
    backend = device.backend
    if drives_several(backend):
        return None
    body, count = op.body, len(op.inputs)
    places = any(attribute.form == "DeviceLike" for attribute in op.attributes)
    called = op.fixed or is_one_sequence(op)
    if op.primitive or not called or places or body.__code__.co_argcount < count:
        return None

    def tensor_of(array: Native | list[Native] | None) -> Any:
        if isinstance(array, list):
            return [wrap(one, device) for one in array]
        return None if array is None else wrap(array, device)

    def run(arrays: tuple[Native, ...], attributes: dict[str, Any]) -> Any:
        tensors = [*map(tensor_of, arrays)]
        try:
            return body(*tensors, **attributes)
        except Exception as error:
            _raise_explained(op, error, tuple(tensors), attributes)

    def kernel(*arrays: Native, **attributes: Any) -> Any:
        if not RECORDING.count:
            result = run(arrays, attributes)
        elif TRACES.count and is_outside(device):
            # In a captured function its result on tensors from outside is not taken.
            with uncaptured(), paused():
                result = run(arrays, attributes)
        else:
            with paused():
                result = run(arrays, attributes)
        return result._array if type(result) is Tensor else [part._array for part in result]

    return kernel


def drives_several(backend: Backend) -> bool:
    """True for a backend of several devices, whose kernels are in the same tables."""
    return sum(map(backend.device_count, backend.kinds)) > 1


def without_residuals(op: Op, result: Any) -> Any:
    """The result of a body without its residuals."""
    if not op.residuals:
        return result
    outputs = result[: len(op.outputs)]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
