"""A backend that runs another one's kernels and records the calls as a graph.

Whatever is made of ops can be traced by giving it tensors on a trace's device: dispatch looks its
kernels up there, as it would on any device. The arrays of a trace hold real values: it computes
what it records.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import is_not
from typing import Any, NoReturn, TypeVar

import numpy as np

from pullback import errors
from pullback._batching.arrays import batches_on
from pullback._codegen.lines import line_of_program
from pullback._dispatch.bodies import run_body
from pullback._dispatch.choice import kernel_of
from pullback._dispatch.plan import Converting, table_of, widens
from pullback._dispatch.recording import LOCAL, paused, uncaptured, unseen
from pullback._dispatch.results import native_arrays
from pullback._symbols import Break, DrawnInt
from pullback._tree import each
from pullback.devices import Device, StandIn
from pullback.dtypes import DType
from pullback.graph.graph import (
    BARRIER,
    STOP_GRADIENT,
    Argument,
    Call,
    Entry,
    Graph,
    Operand,
    Value,
)
from pullback.graph.passes.simplify import body_of
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

    Only for keys that the table of the real device has: what is converted before has none, or a
    kernel that converts. In a graph conversions are calls of their own.
    """

    __slots__ = ("_trace", "op")

    def __init__(self, trace: Trace, op: Op) -> None:
        self._trace = trace
        self.op = op

    def __missing__(self, key: Any) -> Kernel:
        op, trace = self.op, self._trace
        kernel = None
        found = table_of(op, trace._real_device).get(key)
        if found is not None and type(found) is not Converting and not widens(op):
            first = key[0] if type(key) is tuple and op.inputs else key
            native = bool(op.inputs) and first is not None
            kernel = trace.kernel(op.name, trace.public_dtypes[first] if native else None)
        if kernel is None:
            raise KeyError(key)
        self[key] = kernel
        return kernel


#: The number of elements up to which a value computed from constants becomes a constant.
LARGEST_CONSTANT = 1 << 14
#: Whether the only result of a kernel is made an array of.
_NATIVE, _FOREIGN = (False,), (True,)
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
        self.public_dtypes, self.named_dtypes = real.public_dtypes, real.named_dtypes
        self._inputs: list[Entry] = []
        self._calls: list[Call] = []
        #: How many calls have been recorded, also those that are a part of others.
        self._count = 0
        self._constants: dict[str, Native] = {}
        self._numbers = itertools.count()
        #: False if values were read: the recorded calls may then depend on them.
        self.sound = True
        self.device = traced = StandIn()
        traced.real = device
        traced.backend = self
        traced.kind, traced.index, traced.native = device.kind, device.index, device.native
        traced.tables = self._tables = _Tables(self)  # type: ignore[assignment]
        traced.constants = {}
        traced._str = str(device)

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
        devices: list[Device] = [self.device]
        for device in devices:  # `vmap` in the trace has devices of its own, one above another
            devices += batches_on(device)
        ops = [table.op for table in self._tables.values()] if len(devices) == 1 else OPS.values()
        of_trace = set(map(id, devices))  # a device of a trace is equal to the real one
        for op in ops:
            if op.scalars:
                for key in [*op.scalars]:
                    if id(key[0]) in of_trace or (len(key) > 2 and id(key[2]) in of_trace):
                        op.scalars.pop(key, None)

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
        plain, symbolic = self._attributes(attributes) if attributes else (attributes, attributes)
        result = self._call(kernel, native, plain)
        arrays = native_arrays(op, self._real_device, kernel, native, result)
        if op not in _FIXED and _depends_on_values(op, inputs, plain):
            self._looked_at(
                f"calls {op.name}, whose shape depends on values",
                "for x[mask] with a mask that stays the same, index by its positions, "
                "positions = np.flatnonzero(mask) outside of the function; else use "
                "pb.where(mask, x, 0)",
            )
        operands = tuple([x.value if type(x) is Traced else operand_of(x) for x in inputs])
        name = f"v{self._count}"
        self._count += 1
        if type(result) is not tuple and type(result) is not list:
            (array,) = arrays
            values: tuple[Value, ...] = (Value(name, tuple(array.shape), array.dtype),)
            foreign: tuple[bool, ...] = _FOREIGN if array is not result else _NATIVE
        else:
            values = _values(name, arrays)
            foreign = tuple(map(is_not, arrays, result))
            if len(arrays) == 1:
                kernel = partial(_only_result, kernel)
        if self._is_constant(op, operands, attributes, values):
            self._constants.update(zip([value.name for value in values], arrays, strict=True))
        else:
            call = Call(op, kernel, operands, symbolic, values, foreign, self._origin())
            self._calls.append(call)
        if type(result) is not tuple and type(result) is not list:
            return self._new(arrays[0], values[0])
        return tuple(map(self._new, arrays, values))

    def _is_constant(
        self,
        op: Op,
        operands: Sequence[Operand],
        attributes: Mapping[str, Any],
        results: Sequence[Value],
    ) -> bool:
        """Returns whether a call depends on constants only, so that small results are, too."""
        constants = self._constants
        for operand in operands:
            for value in operand if type(operand) is tuple else (operand,):
                if type(value) is not Value or value.name not in constants:
                    return False
        # What only graphs call may be Python, which is called at each run.
        return (
            op.in_table
            and not op.is_ordered
            and DrawnInt not in map(type, attributes.values())
            and all(math.prod(value.shape) <= LARGEST_CONSTANT for value in results)
        )

    def fresh(self) -> int:
        """Returns a number that the name of no value has."""
        return next(self._numbers)

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

    def _looked_at(self, reason: str, _: str = "") -> None:
        """Says that what is recorded afterwards may depend on values."""
        self.sound = False

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Traced:
        """A constant of the graph."""
        return self._constant(self._real.from_host(array, device, copy=copy))

    def _constant(self, native: Native) -> Traced:
        name = f"c{next(self._numbers)}"
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


class FunctionTrace(Trace):
    """The trace of a captured function: it knows lines of the program, bodies and drawn numbers.

    It knows nothing of state: `pullback.graph.capture` has that.

    Args:
        device: the device on which the function runs.
        name: the function's name, for messages.
        capture: what lifts tensors from outside into the trace.
    """

    def __init__(self, device: Device, name: str, capture: Any) -> None:
        super().__init__(device)
        self.function_name = name
        self._capture = capture
        #: What ended the trace early, also if the function has caught it.
        self.broken: Break | None = None
        #: Whether the function has returned.
        self.ended = False
        #: What was traced, if arrays are to be taken out of it after the trace.
        self.traced: list[weakref.ref[Traced]] | None = None
        #: In a function that is called again: what it reads in place of what was there before, by
        #: the values in the graph, and the array that has to be there first.
        self._renewed: dict[Value, Traced] | None = None
        self._after: Traced | None = None

    def enter(self, kind: Callable[..., Any], letter: str, array: Native, *more: object) -> Traced:
        """An input of another kind than an argument."""
        value = Value(f"{letter}{len(self._inputs)}", tuple(array.shape), array.dtype)
        self._inputs.append(kind(value, *more))
        return self._new(array, value)

    def constant(self, tensor: Tensor) -> Tensor:
        """A constant of the graph with the value of a tensor of the real device."""
        return wrap(self._constant(tensor._array), self.device)

    def mark_constant(self, array: Traced) -> Any:
        """The array as one through which no gradient flows, for a graph to be differentiated."""
        return self._run(STOP_GRADIENT, _unchanged, array)

    def forget(self) -> None:
        """Releases the arrays of the trace."""
        self._inputs, self._calls, self._constants = [], [], {}
        self.device.constants = {}
        self._tables.clear()  # whose kernels are of this trace

    def resume(self, graph: Graph) -> None:
        """Goes on behind the calls of a graph that it has recorded."""
        self._inputs, self._calls = list(graph.inputs), list(graph.calls)
        self._constants = dict(graph.constants)
        self.ended, self.broken = False, None

    def _new(self, array: Native, value: Value) -> Traced:
        traced = Traced(array, value)
        if self._renewed is not None:
            self._renewed[value] = traced
        if self.traced is not None:
            self.traced.append(weakref.ref(traced))
        return traced

    @contextmanager
    def renewing(self, after: Traced) -> Iterator[None]:
        """Has the calls of a block be others than those before, when an array is there."""
        before = self._renewed, self._after
        self._renewed, self._after = {}, after
        try:
            yield
        finally:
            self._renewed, self._after = before

    def _renew(self, traced: Traced) -> Traced:
        """The array that is read in place of one from before the block."""
        renewed, after = self._renewed, self._after
        if renewed is None or traced is after or traced.value.name in self._constants:
            return traced
        if traced.value not in renewed:
            self._renewed = None
            array: Any = self._run(BARRIER, _first, traced, after)
            self._renewed = renewed
            renewed[traced.value] = renewed[array.value] = array
        return renewed[traced.value]

    def unusable(self) -> str | None:
        """Says of a tensor that outlived its trace what it is."""
        if not self.ended:
            return None
        return (
            f"this tensor belongs to the trace of the captured function {self.function_name!r} and "
            f"has no values outside of it; return it from the function instead of keeping it in a "
            f"list, an attribute or a global"
        )

    def kernel(self, op_name: str, dtype: DType | None) -> Kernel | None:
        """The kernel of the real device; for a composite with a rule its body is one."""
        kernel = super().kernel(op_name, dtype)
        if kernel is not None:
            return kernel
        op = OPS[op_name]
        places = any(attribute.form == "DeviceLike" for attribute in op.attributes)
        if op.rules and not op.primitive and not places:
            return partial(unseen(self._run_body) if op.own else self._run_body, op)
        return None

    def _run_body(self, op: Op, /, *inputs: Any, **attributes: Any) -> Any:
        """Records a composite as one call with the calls of its body inside."""
        inputs = tuple(each(self._renew, x) for x in inputs)
        begin = len(self._calls)
        tensors = [each(lambda traced: wrap(traced, self.device), x) for x in inputs]
        state = LOCAL.state
        # Of a branch that has only tensors of this trace, which the call lifts afterwards.
        inner, state.capture = state.capture, self._capture
        try:
            with paused():
                result = run_body(op, tensors, attributes)
        finally:
            state.capture = inner
        several = not isinstance(result, Tensor)
        found = map(self._capture.lift, result if several else [result])
        results = [tensor._array for tensor in found]
        operands = tuple(map(operand_of, inputs))
        values = [traced.value for traced in results]
        if all(value.name in self._constants for value in values):
            return tuple(results) if several else results[0]
        whole = Graph(self._real_device, (), (), (), self._constants)
        body = body_of(whole, self._calls[begin:], operands, values)
        if body is not None:
            arrays = [traced.array for traced in results]
            made = _values(f"v{self._count}", arrays)
            self._count += 1
            plain = (False,) * len(made)
            call = Call(op, body, operands, attributes, made, plain, self._origin())
            self._calls[begin:] = [call]
            results = list(map(self._new, arrays, made))
        return tuple(results) if several else results[0]

    def _run(
        self, op: Op, kernel: Kernel, /, *inputs: Any, **attributes: Any
    ) -> Traced | tuple[Traced, ...]:
        if self.ended:
            self._check_running()
        if self._renewed is not None:
            inputs = tuple(each(self._renew, x) for x in inputs)
        if not op.own:  # its rules are followed
            return Trace._run(self, op, kernel, *inputs, **attributes)
        with uncaptured():
            return Trace._run(self, op, kernel, *inputs, **attributes)

    def _call(self, kernel: Kernel, inputs: list[Any], attributes: Mapping[str, Any]) -> Any:
        if LOCAL.state.capture is None:
            return kernel(*inputs, **attributes)
        # Kernels may go through the host.
        with uncaptured():
            return kernel(*inputs, **attributes)

    def _attributes(
        self, attributes: dict[str, Any]
    ) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        if DrawnInt not in map(type, attributes.values()):
            return attributes, attributes
        drawn = {name: v for name, v in attributes.items() if type(v) is DrawnInt}
        plain = {name: int(value) for name, value in drawn.items()}
        symbols = {name: value.symbol for name, value in drawn.items()}
        return {**attributes, **plain}, {**attributes, **symbols}

    def _origin(self) -> str:
        return line_of_program()

    def _looked_at(self, reason: str, way_out: str = "") -> None:
        self._check_running()
        self.stop(reason, way_out)

    def from_host(self, array: np.ndarray[Any, Any], device: object, *, copy: bool) -> Traced:
        """A constant of the graph."""
        self._check_running()
        return super().from_host(array, device, copy=copy)

    def to_dlpack(self, array: object, **kwargs: object) -> Any:
        """Ends the trace."""
        self._looked_at("hands a tensor to another library")

    def from_dlpack(self, value: object, device: object, *, copy: bool | None) -> Traced:
        """A constant of the graph."""
        return self._constant(self._real.from_dlpack(value, device, copy=copy))

    def _check_running(self) -> None:
        leaked = self.unusable()
        if leaked is not None:
            raise errors.CaptureError(leaked)

    def stop(self, reason: str, way_out: str) -> NoReturn:
        """Ends the trace."""
        self.broken = error = Break(reason, way_out)
        raise error


def _unchanged(x: Native) -> Native:
    return x


def _first(x: Native, _: Native) -> Native:
    return x


def _only_result(kernel: Kernel, /, *inputs: Any, **attributes: Any) -> Any:
    """The result of a kernel that returns it in a tuple."""
    return kernel(*inputs, **attributes)[0]


def operand_of(value: Traced | list[Traced] | None) -> Operand:
    """An input of a call, as the graph has it."""
    if isinstance(value, list):
        return tuple(item.value for item in value)
    return None if value is None else value.value


def _values(name: str, arrays: Sequence[Native]) -> tuple[Value, ...]:
    """The values of the results of a call."""
    return tuple([Value(f"{name}_{i}", tuple(x.shape), x.dtype) for i, x in enumerate(arrays)])


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
