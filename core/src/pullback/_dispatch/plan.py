"""The plan of a call: everything about it that does not depend on the values of its inputs.

`resolve` is the only code that makes attributes canonical and looks kernels up, and `Plan.run` the
only one that calls a kernel and makes arrays of what it returns. Specialized code (`call_code`) is
the text of both for one op; the tables in which it looks are filled here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pullback import dtypes
from pullback._dispatch.arguments import (
    canonicalize,
    dtype_attributes,
    raise_explained,
    unsupported_dtype,
)
from pullback._dispatch.bodies import body_as_kernel
from pullback._dispatch.choice import in_table, kernel_of
from pullback._dispatch.convert import flatten
from pullback._dispatch.recording import RECORDING
from pullback._dispatch.results import native_arrays
from pullback._dispatch.warned import run_unwarned
from pullback.devices import Device, as_device
from pullback.dtypes import DType, Operands, accumulating
from pullback.plugins.records import Kernel, Native, leaves_out_residuals, takes
from pullback.shapes import Shape
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

#: An input of an op as a tensor; None if it is absent, a list for a sequence.
Aligned: TypeAlias = "Tensor | list[Tensor] | None"


class Plan:
    """A resolved call, which can be run again on arrays of the same shapes and dtypes.

    Args:
        op: the op.
        device: the device that the call runs on.
        kernel: the kernel; None if the body has to be run.
        attributes: the attributes in their canonical form.
        guard: `device.backend.changes` when the kernel was found: a plan is good for as long as
            they are equal.
    """

    __slots__ = ("_checked", "_count", "_keywords", "attributes", "device", "guard", "kernel", "op")

    def __init__(
        self,
        op: Op,
        device: Device,
        kernel: Kernel | None,
        attributes: Mapping[str, Any],
        guard: int,
    ) -> None:
        self.op = op
        self.device = device
        self.kernel = kernel
        self.attributes = attributes
        self.guard = guard
        self._keywords = attributes
        if "device" in attributes:
            self._keywords = {**attributes, "device": device.native}
        self._count = len(op.outputs) + len(op.residuals)
        #: True when all that the kernel returned has been looked at once.
        self._checked = False

    def run(self, inputs: Sequence[Any], *, residuals: bool = True) -> Sequence[Native]:
        """Calls the kernel.

        Args:
            inputs: native arrays; None for an input that is absent, a list for a sequence.
            residuals: whether they are asked for; without, a kernel that can leaves them out.

        Returns:
            native arrays, the residuals last. The first run checks them in full; later ones
            check types, as specialized code does.

        Raises:
            PullbackError: for what the kernel raises, as the op explains it.
        """
        kernel, keywords, count = self.kernel, self._keywords, self._count
        assert kernel is not None
        if not residuals and leaves_out_residuals(self.op, kernel):
            keywords, count = {**keywords, "residuals": False}, len(self.op.outputs)
        try:
            try:
                result = kernel(*inputs, **keywords)
            except RuntimeWarning:
                result = run_unwarned(kernel, *inputs, **keywords)
        except Exception as error:
            tensors = tuple(self._tensors(value) for value in inputs)
            raise_explained(self.op, error, tensors, self.attributes)
        if self._checked:
            kind = type(inputs[0])
            if type(result) is kind:
                if count == 1:
                    return (result,)
            elif isinstance(result, (tuple, list)) and len(result) == count:
                for array in result:
                    if type(array) is not kind:
                        break
                else:
                    return result
        arrays = native_arrays(self.op, self.device, kernel, inputs, result, count)
        self._checked = len(inputs) > 0
        return arrays

    def shapes(self, inputs: Sequence[Any]) -> list[Shape | None]:
        """The shapes of the results, by the op's rule; None for one that depends on the data.

        Args:
            inputs: the shapes of the inputs.
        """
        shapes = self.op.shape(*inputs, **self.attributes)
        return [*shapes] if isinstance(shapes, list) else [shapes]

    def dtypes(self, operands: Operands) -> tuple[DType, ...]:
        """The dtypes of the results, by the op's rule.

        Args:
            operands: the dtypes of the inputs, as the rule gets them.
        """
        return self.op.dtype(operands, **self.attributes).outputs

    def _tensors(self, value: Native | list[Native] | None) -> Aligned:
        if isinstance(value, list):
            return [wrap(array, self.device) for array in value]
        return None if value is None else wrap(value, self.device)


def resolve(
    op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], device: Device | None = None
) -> Plan:
    """The plan of a call.

    Args:
        op: the op.
        inputs: the inputs as `convert.align_inputs` makes them: tensors of the dtypes that the
            kernel gets, all on one device; None for one that is absent, a list for a sequence.
        attributes: every attribute by name.
        device: the device of the inputs; for an op without inputs its attributes have it.

    Raises:
        PullbackError: for attributes that the op does not take.
        DTypeError: if the device does not support a dtype among the attributes.
    """
    try:
        canonical = canonicalize(op, inputs, attributes)
    except Exception as error:
        raise_explained(op, error, tuple(inputs), attributes)
    if "device" in canonical:
        requested: Device = canonical["device"]
        device = requested
        unsupported = unsupported_dtype(op, requested, canonical)
        if unsupported is not None:
            raise unsupported
    first: Tensor | None = inputs[0] if op.fixed else _first(inputs)
    if device is None:
        device = as_device(None) if first is None else first._device
    # Before the look-up: a kernel that comes meanwhile makes the plan stale.
    guard = device.backend.changes
    kernel = _find(op, device, first, inputs, canonical)
    return Plan(op, device, kernel, canonical, guard)


def arrays_of(inputs: Sequence[Any]) -> list[Any]:
    """The native arrays of aligned inputs, as `Plan.run` takes them."""
    # Not `each`, which takes a fifth of a microsecond: many calls come here.
    return [
        [tensor._array for tensor in value]
        if type(value) is list
        else (None if value is None else value._array)
        for value in inputs
    ]


def widens(op: Op) -> bool:
    """True if the kernel gets a dtype that is not the caller's: sums have another default."""
    return op.dtype is accumulating and dtypes.DEFAULT_INT is not dtypes.int32


def keyed_by_first(op: Op) -> bool:
    """True if the dtype of the first input alone is the key of a kernel in the op's table."""
    return op.dtype.uniform or len(op.inputs) == 1


def _find(
    op: Op,
    device: Device,
    first: Tensor | None,
    inputs: Sequence[Any],
    attributes: Mapping[str, Any],
) -> Kernel | None:
    """The kernel, or None. From now on specialized code finds it too, or the body in its place."""
    # Before the look-up: what changes meanwhile brings a new one.
    table = table_of(op, device)
    kernel = kernel_of(device, op, None if first is None else first.dtype)
    found = kernel
    if kernel is None:
        # Specialized code calls the body like a kernel; whoever has a plan runs the body itself.
        kernel = body_as_kernel(op, device) if device.backend.keeps_bodies else None
        if kernel is None:
            return None
    elif widens(op):
        assert first is not None
        found = kernel = _widened(kernel, dtypes.accumulated(first.dtype))
    else:
        kernel = in_table(op, device, kernel)
        if kernel is None:
            return found
    key: object
    if first is None:
        key = tuple(attributes[name] for name in dtype_attributes(op))
    elif keyed_by_first(op):
        key = first._array.dtype
    else:
        key = tuple(None if tensor is None else tensor._array.dtype for tensor in flatten(inputs))
    table[key] = kernel
    return found


def table_of(op: Op, device: Device) -> dict[Any, Any]:
    """The table of an op on a device: native dtypes to what specialized code calls for them."""
    try:
        return device.tables[op.index]
    except IndexError:
        device.tables += [{} for _ in range(len(device.tables), op.index + 1)]
        return device.tables[op.index]


def keep_conversion(op: Op, values: Sequence[Any], known: Sequence[Any]) -> None:
    """Has specialized code find a kernel for tensors of a dtype that the op converts.

    It converts the arrays, and serves calls that nothing records: a tape needs the conversion as an
    op of its own, so that the gradient has the dtype of what was given.

    Args:
        op: an op whose inputs are single tensors.
        values: the inputs.
        known: the same inputs, converted.
    """
    first = values[0]
    if type(first) is not Tensor or not keyed_by_first(op):
        return
    device, key = first._device, first._array.dtype
    backend = device.backend
    if device.tables is not backend.tables or not backend.keeps_bodies or backend.changes < 0:
        return
    # Before the look-up, as in `_find`.
    table = table_of(op, device)
    if key in table or any(type(x) is not Tensor or x._array.dtype is not key for x in values):
        return
    kernel = table.get(known[0]._array.dtype)
    convert = kernel_of(device, OPS["astype"], first.dtype)
    if kernel is None or convert is None:
        return
    if takes(kernel, str(first.dtype), str(known[0].dtype)):
        table[key] = Converting(_unrecorded(kernel) if op.differentiable else kernel)
    else:
        table[key] = Converting(_converting(kernel, convert, [x.dtype for x in known]))


class Converting(functools.partial[Any]):
    """A kernel in a table for inputs of dtypes that the op converts: no trace records its calls."""


def _unrecorded(kernel: Kernel) -> Kernel:
    """A kernel that declines while recorded."""

    def unrecorded(*inputs: Any, **attributes: Any) -> Any:
        return NotImplemented if RECORDING.count else kernel(*inputs, **attributes)

    return unrecorded


def _converting(kernel: Kernel, convert: Kernel, wanted: Sequence[DType]) -> Kernel:
    """A kernel that gets arrays of these dtypes, for arrays of another; it declines while recorded.

    The general call does what it declines, and has the errors of the op.
    """

    def converting(*inputs: Any, **attributes: Any) -> Any:
        if RECORDING.count:
            return NotImplemented
        try:
            arrays = [convert(x, dtype=dtype) for x, dtype in zip(inputs, wanted, strict=True)]
            return kernel(*arrays, **attributes)
        except Exception:
            return NotImplemented

    return converting


def _widened(kernel: Kernel, wide: DType) -> Kernel:
    """A kernel of a sum that has another default than int32, which kernels take by themselves."""

    def widened(*inputs: Any, dtype: DType | None, **attributes: Any) -> Any:
        return kernel(*inputs, dtype=wide if dtype is None else dtype, **attributes)

    return widened


def _first(inputs: Sequence[Any]) -> Tensor | None:
    for value in inputs:
        if value is not None and type(value) is not list:
            tensor: Tensor = value
            return tensor
        if value:
            return _first(value)
    return None
