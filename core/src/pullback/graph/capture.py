"""A backend that runs another one's kernels and records the calls as a graph.

Whatever is made of ops can be traced by giving it tensors on a trace's device: dispatch looks its
kernels up there, as it would on any device. The arrays of a trace hold real values: it computes
what it records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from operator import is_not
from typing import Any, TypeVar

import numpy as np

from pullback._dispatch.fallback import kernel_of
from pullback._dispatch.plan import table_of, widens
from pullback._dispatch.results import native_arrays
from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import DType
from pullback.graph.graph import Argument, Call, Entry, Graph, Operand, Value
from pullback.plugins.backend import Backend
from pullback.plugins.records import Kernel, Native
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

R = TypeVar("R")


class Traced:
    """A native array on a trace's device, and the value that it is in the graph."""

    __slots__ = ("__weakref__", "array", "dtype", "shape", "value")

    def __init__(self, array: Native, value: Value) -> None:
        self.array = array
        self.value = value
        self.shape = value.shape
        self.dtype = value.dtype


class TracedDevice(Device):
    """The device of a captured function's trace: for the function, equal to the real one."""

    __slots__ = ("real",)

    real: Device

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.real

    # Tables have entries of their own for each of the two.
    __hash__ = Device.__hash__


class _Tables(dict[int, "_Table"]):
    """The tables of a trace, by the index of the op; each begins with the first call of the op.

    Specialized code finds what records the kernel there, as it finds the kernel on other devices:
    the first call of an op in a trace does not take the general path either.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __missing__(self, index: int) -> _Table:
        if index not in _OPS:
            _OPS.update((op.index, op) for op in OPS.values())
        table = self[index] = _Table(self._trace, _OPS[index])
        return table


class _Table(dict[Any, Kernel]):
    """The kernels of an op in a trace, which record their calls, by the key of specialized code.

    Only for keys that the table of the real device has: what is converted before has none.
    """

    __slots__ = ("_trace", "op")

    def __init__(self, trace: Trace, op: Op) -> None:
        self._trace = trace
        self.op = op

    def __missing__(self, key: Any) -> Kernel:
        op, trace = self.op, self._trace
        kernel = None
        if key in table_of(op, trace._real_device) and not widens(op):
            first = key[0] if type(key) is tuple and op.inputs else key
            native = bool(op.inputs) and first is not None
            kernel = trace.kernel(op.name, trace.public_dtypes[first] if native else None)
        if kernel is None:
            raise KeyError(key)
        self[key] = kernel
        return kernel


#: The ops by their index.
_OPS: dict[int, Op] = {}
#: The framework's ops whose results have shapes that do not depend on values, as far as is known.
_FIXED: set[Op] = set()


class Trace(Backend):
    """Records the kernels that are called on tensors of `trace.device`.

    Dispatch resolves, keys and checks the calls there as everywhere; this backend is below it. A
    kernel's results become arrays here already (`native_arrays`), because the graph has to know
    which of them `emit` must convert at each run.

    Args:
        device: the device whose kernels run.
    """

    keeps_bodies = False

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._real_device = device
        self._real = real = device.backend
        self.dtypes, self.storage_dtypes = real.dtypes, real.storage_dtypes
        self.public_dtypes = real.public_dtypes
        self._inputs: list[Entry] = []
        self._calls: list[Call] = []
        #: How many calls have been recorded, also those that are a part of others.
        self._count = 0
        self._constants: dict[str, Native] = {}
        #: False if values were read: the recorded calls may then depend on them.
        self.sound = True
        self.device = traced = self._new_device(device)
        traced.backend = self
        traced.kind, traced.index, traced.native = device.kind, device.index, device.native
        traced.tables = self._tables = _Tables(self)  # type: ignore[assignment]
        traced.constants = {}
        traced._str = str(device)

    def _new_device(self, real: Device) -> Device:
        """A device for the trace, in place of a real one."""
        return Device()

    # Making a graph -------------------------------------------------------------------------------

    def input(self, array: Native, name: str) -> Traced:
        """An input of the graph, on the trace's device; arguments are counted from 0."""
        value = Value(name, tuple(array.shape), array.dtype)
        self._inputs.append(Argument(value, len(self._inputs)))
        return self._new(array, value)

    def argument(self, array: Native, name: str) -> Tensor:
        """An input of the graph as a tensor."""
        return wrap(self.input(array, name), self.device)

    def graph(self, outputs: Sequence[Value]) -> Graph:
        """The graph of the recorded calls, with these outputs."""
        return Graph(
            self._real_device,
            tuple(self._inputs),
            tuple(self._calls),
            tuple(outputs),
            dict(self._constants),
        )

    def close(self) -> None:
        """Forgets the numbers that ops keep as tensors of this device for calls to come."""
        for table in self._tables.values():
            scalars = table.op.scalars
            for key in list(scalars) if scalars else ():
                if key[2] is self.device:
                    scalars.pop(key, None)

    # What dispatch asks of a backend --------------------------------------------------------------

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel of the real device, wrapped to record each call."""
        op = OPS[op_name]
        kernel = kernel_of(self._real_device, op, dtype)
        return None if kernel is None else partial(self._run, op, kernel)

    def _run(
        self, op: Op, kernel: Kernel, /, *inputs: Traced | list[Traced] | None, **attributes: Any
    ) -> Traced | tuple[Traced, ...]:
        native = [x.array if type(x) is Traced else each(_array, x) for x in inputs]
        plain, symbolic = self._attributes(attributes)
        result = self._call(kernel, native, plain)
        arrays = native_arrays(op, self._real_device, kernel, native, result)
        several = isinstance(result, (tuple, list))
        foreign = tuple(map(is_not, arrays, result if several else (result,)))
        if several and len(arrays) == 1:
            kernel = partial(_only_result, kernel)
        if op not in _FIXED and _depends_on_values(op, inputs, plain):
            self._looked_at(f"calls {op.name}, whose shape depends on values")
        results = self._values(arrays, several=several)
        operands = tuple([x.value if type(x) is Traced else operand_of(x) for x in inputs])
        self._calls.append(Call(op, kernel, operands, symbolic, results, foreign, self._origin()))
        traced = tuple(map(self._new, arrays, results))
        return traced if several else traced[0]

    def _values(self, arrays: Sequence[Native], *, several: bool) -> tuple[Value, ...]:
        """The values of the results of a call."""
        name = f"v{self._count}"
        self._count += 1
        if not several:
            (array,) = arrays
            return (Value(name, tuple(array.shape), array.dtype),)
        return tuple([Value(f"{name}_{i}", tuple(x.shape), x.dtype) for i, x in enumerate(arrays)])

    def inline(self, graph: Graph, inputs: Sequence[Traced]) -> list[Traced]:
        """Records the calls of another graph; returns its outputs."""
        values = {
            source.value.name: traced for source, traced in zip(graph.inputs, inputs, strict=True)
        }
        values.update({name: self._constant(array) for name, array in graph.constants.items()})

        def value_of(value: Value) -> Any:
            return values[value.name]

        for call in graph.calls:
            operands = [each(value_of, operand) for operand in call.inputs]
            results = self._run(call.op, call.kernel, *operands, **call.attributes)
            several = results if isinstance(results, tuple) else (results,)
            for value, traced in zip(call.results, several, strict=True):
                values[value.name] = traced
        return [values[value.name] for value in graph.outputs]

    def _call(self, kernel: Kernel, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
        return kernel(*inputs, **attributes)

    def _attributes(
        self, attributes: dict[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The attributes as the kernel gets them, and as the graph has them."""
        return attributes, attributes

    def _origin(self) -> str:
        """The line of the program that makes a call."""
        return ""

    def _looked_at(self, reason: str) -> None:
        """Says that what is recorded afterwards may depend on values."""
        self.sound = False

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Traced:
        """A constant of the graph."""
        return self._constant(self._real.from_host(array, device, copy=copy))

    def _constant(self, native: Native) -> Traced:
        name = f"c{len(self._constants)}"
        self._constants[name] = native
        return self._new(native, Value(name, tuple(native.shape), native.dtype))

    def _new(self, array: Native, value: Value) -> Traced:
        return Traced(array, value)

    def beside(self, arrays: Sequence[Native]) -> list[Traced]:
        """Makes constants of arrays from beside the trace, which then stands for no other run."""
        self.sound = False
        return [self._constant(array) for array in arrays]

    def to_host(self, array: Traced) -> np.ndarray[Any, Any]:
        """The values; what is recorded afterwards may depend on them."""
        self._looked_at("looks at the values of a tensor")
        return self._real.to_host(array.array)

    def native(self, value: Traced) -> Traced:
        """The value itself: results became arrays when the call was recorded."""
        return value


def _only_result(kernel: Kernel, /, *inputs: Any, **attributes: Any) -> Any:
    """The result of a kernel that returns it in a tuple."""
    return kernel(*inputs, **attributes)[0]


def operand_of(value: Traced | list[Traced] | None) -> Operand:
    """An input of a call, as the graph has it."""
    if isinstance(value, list):
        return tuple(item.value for item in value)
    return None if value is None else value.value


def _depends_on_values(
    op: Op, inputs: Sequence[Traced | list[Traced] | None], attributes: Mapping[str, object]
) -> bool:
    """Returns whether the shapes of the results depend on the values of the inputs."""
    shapes = op.shape(*(each(_shape, value) for value in inputs), **attributes)
    depends = shapes is None or (isinstance(shapes, list) and None in shapes)
    if op.own and op.in_table and not depends:
        _FIXED.add(op)
    return depends


def _shape(value: Traced) -> tuple[int, ...]:
    return tuple(value.shape)


def _array(value: Traced) -> Native:
    return value.array
