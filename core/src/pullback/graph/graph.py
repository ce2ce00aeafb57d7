"""A graph: a list of kernel calls on named values, which passes rewrite and `emit` prints.

A graph is functional: every value is made once, by an input, a constant or a call, and no call has
an effect. It is made of ops of the op table, at the level at which the device has kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pullback import errors
from pullback._dispatch.arguments import is_from_signal_handler
from pullback._once import kept_property
from pullback._tree import each
from pullback.devices import Device
from pullback.dtypes import DType, DTypeRule, Resolution
from pullback.plugins.records import Kernel, Native
from pullback.shapes import Shape, broadcast
from pullback.spec import EXACT, ROUNDED, Arity, Attribute, Input, Op, Tier

#: What changes outside of a graph when it has run: a function, and its arguments.
Effect: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...]]"


class NotTraceableError(TypeError):
    """A value or a record that a graph cannot represent."""


class InvalidGraphError(ValueError):
    """A graph that breaks a rule of `check`."""


class Value:
    """An array in a graph: its name, unique in the graph, its shape and its native dtype."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, shape: Shape, dtype: Any) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{self.name}: {dtype_name(self.dtype)}{list(self.shape)}"


class Entry:
    """A value that comes from outside at each run. Subclasses say from where."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


class Argument(Entry):
    """An argument of the function that the graph stands for, by its position."""

    __slots__ = ("position",)

    def __init__(self, value: Value, position: int) -> None:
        self.value = value
        self.position = position


class State(Entry):
    """The value of a variable, or of another object with an `_array`."""

    __slots__ = ("owner",)

    def __init__(self, value: Value, owner: Any) -> None:
        self.value = value
        self.owner = owner


class AttributeEntry(Entry):
    """The tensor in an attribute of an object, such as the counts of a metric."""

    __slots__ = ("name", "owner")

    def __init__(self, value: Value, owner: Any, name: str) -> None:
        self.value = value
        self.owner = owner
        self.name = name


class Handle(Entry):
    """A tensor that the function did not get as an argument: whatever it holds at the run."""

    __slots__ = ("tensor",)

    def __init__(self, value: Value, tensor: Any) -> None:
        self.value = value
        self.tensor = tensor


class HostArray(Entry):
    """A Python number that the host computes at each run, as an array.

    `number` is its name among the numbers of the program.
    """

    __slots__ = ("dtype", "number")

    def __init__(self, value: Value, number: str, dtype: Any) -> None:
        self.value = value
        self.number = number
        self.dtype = dtype


class Draw(Entry):
    """The key of random numbers, or their counter: two ints that a generator gives at each run.

    They are attributes of calls, never arrays; the input of the key comes first.
    """

    __slots__ = ("generator", "part", "words")

    def __init__(self, value: Value, generator: Any, words: int, part: str) -> None:
        self.value = value
        self.generator = generator
        self.words = words
        self.part = part


#: An input of a call: a value, None for an absent one, a tuple for a sequence of them.
Operand: TypeAlias = "Value | tuple[Value, ...] | None"


class _Fields(NamedTuple):
    op: Op
    kernel: Kernel
    inputs: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    #: A value for each output of the op, then one for each residual.
    results: tuple[Value, ...]
    #: For each result, whether the kernel returns something that `backend.native` makes an array.
    foreign: tuple[bool, ...]
    #: The line of the program that made the call: "train.py:12".
    origin: str = ""


class Call(_Fields):
    """A call of a kernel.

    `attributes` are canonical, as kernels get them. An attribute that is known only at a run is
    the Value of an input.
    """

    @property
    def ignores_layout(self) -> bool:
        """True if the bits of the result do not depend on the memory layout of the inputs.

        They do for sums, which add in the order of the layout, and for approximations, whose
        loops take a vector at a time and the rest one by one.
        """
        return self.op.shape is broadcast and self.op.accuracy in (EXACT, ROUNDED)

    @kept_property
    def values(self) -> tuple[Value, ...]:
        """The values that the call reads, in order; a value that is read twice comes twice."""
        found: list[Value] = []
        for operand in (*self.inputs, *self.attributes.values()):
            if type(operand) is Value:
                found.append(operand)
            elif type(operand) is tuple:
                found += [value for value in operand if type(value) is Value]
        return tuple(found)

    @property
    def graphs(self) -> dict[str, Graph]:
        """The graphs among the attributes, which branches and loops have."""
        found: dict[str, Graph] = {}
        for name, value in self.attributes.items():
            if isinstance(value, Graph):
                found[name] = value
            elif isinstance(value, tuple) and value and isinstance(value[0], Graph):
                found.update({f"{name}[{i}]": graph for i, graph in enumerate(value)})
        return found

    def __str__(self) -> str:
        arguments = [_operand_text(operand) for operand in self.inputs]
        nested = {name.partition("[")[0] for name in self.graphs}
        arguments += [
            f"{name}={_operand_text(v)}"
            for name, v in self.attributes.items()
            if name not in nested
        ]
        results = ", ".join(map(repr, self.results))
        text = f"{results} = {self.op.name}({', '.join(arguments)})"
        if isinstance(self.op, GraphOp):
            explain = getattr(self.kernel, "explain", None)
            text += f"  # {explain()}" if explain is not None else ""
            text += "".join(f"\n  {line}" for line in self.op.lines(self))
        return text


class Graph(NamedTuple):
    """Calls in the order in which they run, on one device.

    >>> from pullback.graph.trace import Trace
    >>> x = pb.asarray([1.0, 2.0])
    >>> trace = Trace(x.device)
    >>> y = pb.exp(trace.argument(x._array, "x"))
    >>> print(trace.graph([y._array.value]))
    graph on cpu:0
      input x: float32[2]
      v0: float32[2] = exp(x)
      return v0
    """

    device: Device
    inputs: tuple[Entry, ...]
    calls: tuple[Call, ...]
    outputs: tuple[Value, ...]
    #: The arrays of constants by the name of their value.
    constants: Mapping[str, Native] = MappingProxyType({})
    #: Inputs that stand for something outside, as the value of a variable does, each with its value
    #: after the run. A backward pass has none; the program of a training step has.
    writes: tuple[tuple[Entry, Value], ...] = ()
    #: Functions that are called when the writes are done, each with its arguments. Values among
    #: them are outputs.
    after: tuple[Effect, ...] = ()

    @property
    def ends(self) -> tuple[Value, ...]:
        """The values that a run gives: the outputs, what is written, what is used afterwards."""
        used = (v for _, arguments in self.after for v in arguments if isinstance(v, Value))
        return (*self.outputs, *(value for _, value in self.writes), *used)

    def __str__(self) -> str:
        lines = [f"graph on {self.device}"]
        lines += [f"  {_origin(source)} {source.value!r}{_named(source)}" for source in self.inputs]
        lines += [f"  constant {self._constant(name)}" for name in self.constants]
        lines += [f"  {line}" for call in self.calls for line in str(call).splitlines()]
        lines += [f"  write {value.name} to {target.value.name}" for target, value in self.writes]
        lines.append("  return " + ", ".join(value.name for value in self.outputs))
        return "\n".join(lines)

    def _constant(self, name: str) -> str:
        array = self.constants[name]
        text = repr(Value(name, tuple(array.shape), array.dtype))
        if array.shape:
            return text
        number = self.device.backend.item(array)
        return f"{text} = {f'{number:.7g}' if type(number) is float else number}"


class GraphOp(Op):
    """An op that only graphs call: a fused kernel, or a call of graphs, such as a branch.

    It has no place in the op table: no kernels, no body, no values for which it could be folded.

    Args:
        name: its name.
        inputs: its inputs.
        attributes: its attributes, graphs among them.
        results: the shape and dtype of each result, from the attributes of a call.
        outputs: the number of results.
        why: why it has no body.
        function: the public function: it takes tensors and attributes, and returns tensors.
        update: whether no values make it fail.
    """

    __slots__ = ()

    in_table = False

    def __init__(
        self,
        name: str,
        inputs: tuple[Input, ...],
        attributes: tuple[Attribute, ...],
        results: Callable[..., list[tuple[Shape, DType]]],
        outputs: int,
        why: str,
        function: Callable[..., Any] | None = None,
        *,
        update: bool = False,
    ) -> None:
        def shape(*_: object, **attributes: Any) -> Any:
            return [shape for shape, _ in results(**attributes)]

        def dtype(_: object, **attributes: Any) -> Resolution:
            return Resolution((), tuple(dtype for _, dtype in results(**attributes)))

        def body(*_: object, **__: object) -> None:
            """A call of graphs."""

        super().__init__(
            name=name,
            body=body,  # type: ignore[arg-type]
            inputs=inputs,
            attributes=attributes,
            shape=shape,
            dtype=DTypeRule(dtype),
            accuracy=EXACT,
            tier=Tier.CORE,
            primitive=why,
            differentiable=True,
            public=False,
            outputs=tuple(f"out{i}" for i in range(outputs)),
            update=update,
            family="control",
            index=-1,
        )
        self.function = function

    def failure(self, error: Exception) -> Exception:
        """The error of a failed call; what its graphs call has explained its own failure."""
        return error

    def check(self, call: Call, check: Callable[[Graph], None]) -> None:
        """Tests that a call has what the op needs.

        Args:
            call: the call.
            check: tests a graph.

        Raises:
            InvalidGraphError: if it has not.
        """

    def lines(self, call: Call) -> Iterator[str]:
        """The lines below a call in the text of a graph."""
        for name, graph in call.graphs.items():
            yield f"{name}:"
            yield from str(graph).splitlines()[1:]


class Fused(GraphOp):
    """The op of a call whose kernel does all calls of a graph."""

    __slots__ = ("graph",)

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        names = [entry.value.name for entry in graph.inputs]
        inputs = tuple(Input(name, Arity.ONE) for name in names)
        kinds = kinds_of(graph, graph.outputs)
        # Elementwise calls of shapes that the trace has seen do not fail for values.
        super().__init__("fused", inputs, (), lambda: kinds, len(kinds), "A kernel.", update=True)

    def failure(self, error: Exception) -> Exception:
        """The failure of the kernel, with the names of what it computes."""
        if is_from_signal_handler(error):
            return error
        names = ", ".join(dict.fromkeys(each.op.name for each in self.graph.calls))
        short = isinstance(error, MemoryError)
        kind = errors.OutOfMemoryError if short else errors.BackendError
        return kind(f"the fused kernel of {names} failed: {error}")

    def check(self, call: Call, check: Callable[[Graph], None]) -> None:
        """Tests the region, and that a call has its inputs and results."""
        check(self.graph)
        if tuple(entry.value for entry in self.graph.inputs) != call.inputs or (
            self.graph.outputs != call.results
        ):
            raise InvalidGraphError(f"{call} has other inputs or results than its region")

    def lines(self, call: Call) -> Iterator[str]:
        """The calls that the kernel does."""
        yield from map(str, self.graph.calls)


class _StopGradient(GraphOp):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            "stop_gradient", (Input("x", Arity.ONE),), (), list, 1, "It computes nothing."
        )
        self.shape = broadcast
        self.dtype = DTypeRule(lambda operands, **_: Resolution(operands, operands))


class _Barrier(GraphOp):
    __slots__ = ()

    def __init__(self) -> None:
        inputs = Input("x", Arity.ONE), Input("after", Arity.ONE)
        why = "It is x, for calls that come after another one."
        super().__init__("barrier", inputs, (), list, 1, why, lambda x, after: x)
        self.shape = lambda x, after: x
        self.dtype = DTypeRule(lambda operands, **_: Resolution(operands, operands[:1]))


#: An array that is read again when another one is there: no pass may join the calls on it with
#: those on the array itself, or do them earlier.
BARRIER = _Barrier()
#: Says in a graph that no gradient flows back; `pullback._autodiff.functional` has its function.
STOP_GRADIENT = _StopGradient()


def kinds_of(graph: Graph, values: Sequence[Value]) -> list[tuple[Shape, DType]]:
    """The shapes and dtypes of values."""
    public = graph.device.backend.public_dtypes
    return [(value.shape, public[value.dtype]) for value in values]


def _origin(source: Entry) -> str:
    kind = type(source)
    return (
        "input"
        if kind in (Entry, Argument)
        else f"input ({kind.__name__.lower().removesuffix('array')})"
    )


def _named(source: Entry) -> str:
    """The name of the variable, or of another owner, of an input, as a comment."""
    name = getattr(source.owner, "name", None) if isinstance(source, State) else None
    return f"  # {name}" if isinstance(name, str) else ""


def _operand_text(operand: Any) -> str:
    if isinstance(operand, Value):
        return operand.name
    if isinstance(operand, tuple) and any(isinstance(part, Value) for part in operand):
        return f"[{', '.join(map(_operand_text, operand))}]"
    if isinstance(operand, np.dtype):
        return operand.name
    return repr(operand)


def dtype_name(dtype: Any) -> str:
    """The name of a native dtype, without that of its library; of a type, such as int, its own."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def frozen(value: Any) -> Any:
    """A key that is equal for values which a rule cannot tell apart: 1 is not True, -0.0 not 0.0.

    Raises:
        NotTraceableError: for values that have no such key.
    """
    kind = type(value)
    if value is None or value is ... or kind in (bool, int, str) or isinstance(value, np.dtype):
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind in (tuple, list):
        return kind, *map(frozen, value)
    if kind is slice:
        return kind, frozen(value.start), frozen(value.stop), frozen(value.step)
    raise NotTraceableError(f"{kind.__name__} has no key that tells equal values apart")


def check(graph: Graph) -> None:
    """Tests every rule that passes and `emit` rely on; for tests.

    Raises:
        InvalidGraphError: for a value that is made twice or used before it is made, a constant or
            a result of another kind than its value says, a call that does not fit its op.
    """
    known: dict[str, Value | None] = {}
    for source in graph.inputs:
        _make(known, source.value)
    for name, array in graph.constants.items():
        if name in known:
            raise InvalidGraphError(f"{name} is an input and a constant")
        known[name] = None
        if array.dtype not in graph.device.backend.public_dtypes:
            raise InvalidGraphError(f"the constant {name} has a dtype of another backend")
    for call in graph.calls:
        for value in call.values:
            _use(known, value, graph.constants)
        _check_call(graph.device, call)
        for value in call.results:
            _make(known, value)
    for value in graph.ends:
        _use(known, value, graph.constants)
    for target, value in graph.writes:
        if target not in graph.inputs:
            raise InvalidGraphError(f"{target} is written but is not an input of the graph")
        if (target.value.shape, target.value.dtype) != (value.shape, value.dtype):
            raise InvalidGraphError(
                f"{value} is written to {target.value}, which is of another kind"
            )


def _make(known: dict[str, Value | None], value: Value) -> None:
    if value.name in known:
        raise InvalidGraphError(f"{value.name} is made twice")
    if not value.name.isidentifier():
        raise InvalidGraphError(f"{value.name!r} is not a name of Python")
    if re.fullmatch(r"k\d+", value.name):
        raise InvalidGraphError(f"{value.name!r} is a name that `emit` gives to constants")
    known[value.name] = value


def _use(known: dict[str, Value | None], value: Value, constants: Mapping[str, Native]) -> None:
    if value.name not in known:
        raise InvalidGraphError(f"{value.name} is used before it is made")
    before = known[value.name]
    if before is None:
        array = constants[value.name]
        if (tuple(array.shape), array.dtype) != (value.shape, value.dtype):
            raise InvalidGraphError(f"the constant {value} is an array of another kind")
        known[value.name] = value
    elif before is not value:
        raise InvalidGraphError(f"{value.name} names two values")


def _check_call(device: Device, call: Call) -> None:
    op = call.op
    if len(call.inputs) != len(op.inputs):
        raise InvalidGraphError(f"{call} has {len(call.inputs)} inputs, the op {len(op.inputs)}")
    for parameter, operand in zip(op.inputs, call.inputs, strict=True):
        kind = {Arity.ONE: Value, Arity.MANY: tuple}.get(parameter.arity, (Value, type(None)))
        if not isinstance(operand, kind):
            raise InvalidGraphError(f"{call}: the input {parameter.name} is {operand!r}")
    if not {*call.attributes} <= {attribute.name for attribute in op.attributes}:
        raise InvalidGraphError(f"{call} has attributes that the op does not have")
    symbols = [value for value in call.attributes.values() if isinstance(value, Value)]
    for name, value in call.attributes.items():
        if not isinstance(value, Value) and name != "device" and op.in_table:
            frozen(value)
    for graph in call.graphs.values():
        if graph.device is not device or graph.writes or graph.after:
            raise InvalidGraphError(f"{call} has a graph with effects, or on another device")
        check(graph)
    if isinstance(op, GraphOp):
        op.check(call, check)
    if len(call.results) != len(op.outputs) + len(op.residuals) or len(call.foreign) != len(
        call.results
    ):
        raise InvalidGraphError(f"{call} does not have a result for each output and residual")
    if not symbols:
        _check_rules(device, call)


def _check_rules(device: Device, call: Call) -> None:
    """Compares the results with what the op's rules say of them."""
    op, public = call.op, device.backend.public_dtypes
    given = [each(attrgetter("shape"), operand) for operand in call.inputs]
    shapes = op.shape(*given, **call.attributes)
    dtypes = op.dtype(tuple(_dtypes(call.inputs, public)), **call.attributes).outputs
    if len(dtypes) != len(op.outputs):
        raise InvalidGraphError(f"{call}: the op's rule gives {len(dtypes)} results")
    listed = shapes if isinstance(shapes, list) else [shapes] * len(dtypes)
    for value, shape, dtype in zip(call.results, listed, dtypes, strict=False):
        if shape is not None and tuple(shape) != value.shape:
            raise InvalidGraphError(f"{call}: the op's rule gives the shape {tuple(shape)}")
        if public[value.dtype] != dtype:
            raise InvalidGraphError(f"{call}: the op's rule gives the dtype {dtype}")


def _dtypes(operands: Iterable[Operand], public: Mapping[Any, DType]) -> Iterator[DType | None]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from (public[value.dtype] for value in operand)
        else:
            yield None if operand is None else public[operand.dtype]
