"""Programs of a few calls as data, for a kernel pack that makes the calls without Python."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from pullback._dispatch.recording import CONSTANT, RECORDING
from pullback._settings import SETTINGS
from pullback._symbols import HostNumber
from pullback.graph.emit import ResultItems, ResultTensor, Returned, kernel_of, release_last_use
from pullback.graph.graph import Argument, Call, Fused, Graph, Handle, State, Value
from pullback.graph.host import Guard
from pullback.graph.signature import Signature
from pullback.plugins.records import Direct
from pullback.tensor import Tensor

#: What a pack is not asked for: more arrays, inputs of a call, or axes.
MOST, MOST_AXES = 24, 8
_TENSOR, _SAME, _OBJECT = range(3)
_CODE, _ITEM, _ATTRIBUTE, _ABSENT = range(4)
_TENSOR_RESULT, _TUPLE, _SAME_OBJECT = range(3)


class DirectProgram(NamedTuple):
    """A program as data: all that a call compares, reads, computes and returns.

    Arrays have places, from 0 on; constants have those below 0, from -1 on.
    """

    #: The code that does a call which is not as the others: it takes the same arguments.
    run: Callable[..., Any]
    #: The class of tensors, what counts tapes, the settings, and the node of a constant.
    outer: tuple[Any, ...]
    #: The settings that the program is made for: `now` is that of the settings if they hold.
    known: Any
    device: Any
    constants: tuple[Any, ...]
    #: How many places there are.
    places: int
    #: Of each argument its kind (0: a tensor, 1: the same object as an earlier argument, 2: an
    #: object), its place or the position of the earlier argument, the device or the object, the
    #: shape and the native dtype.
    arguments: tuple[tuple[Any, ...], ...]
    #: What must be the same object as before: a kind (0: the code of a function, 1: an item of a
    #: dict, 2: an attribute, 3: nothing under a key of a dict), the owner, the key, and the object.
    outside: tuple[tuple[Any, ...], ...]
    #: The place and the owner of each array that is read from the attribute `_array`.
    states: tuple[tuple[int, Any], ...]
    #: Of each call the kernel, the places of its operands, the names of the last ones or None, the
    #: place of its first result, the number of results, the places to release, and how many of the
    #: operands are a list, which is the only input then, or -1.
    calls: tuple[tuple[Any, ...], ...]
    #: The places of the results, and a kind: 0 for one tensor, 1 for a tuple of them, 2 for an
    #: object among the constants.
    results: tuple[int, ...]
    kind: int


class Unsuited(Exception):
    """A program that needs more than a `DirectProgram` has."""


def direct_program(
    graph: Graph,
    signature: Signature,
    names: Sequence[str],
    guards: Sequence[Guard],
    known: object,
    returned: Returned,
) -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
    """Makes what a call runs, from the program's code; None if nobody makes it.

    Args:
        graph: the graph that runs call by call; the program writes and draws nothing.
        signature: the arguments.
        names: the value in the graph of each tensor among them.
        guards: what must be as it was.
        known: the settings that it is made for.
        returned: what the function returned.
    """
    makers = [fuser.direct for fuser in graph.device.backend.fusers() if fuser.direct is not None]
    if not makers or signature.named:
        return None
    try:
        parts = _Parts(graph).of(signature, names, guards, returned)
    except Unsuited:
        return None
    outer = Tensor, RECORDING, SETTINGS, CONSTANT
    make: Direct = makers[0]
    return lambda run: make(*DirectProgram(run, outer, known, graph.device, *parts))


class _Parts:
    """The places of a graph's values, and what is made with them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places: dict[str, int] = {}
        self._constants: list[Any] = []

    def of(
        self,
        signature: Signature,
        names: Sequence[str],
        guards: Sequence[Guard],
        returned: Returned,
    ) -> tuple[Any, ...]:
        """The fields of the program from the constants on."""
        arguments = self._arguments(signature, names)
        states = tuple(filter(None, map(self._state, self._graph.inputs)))
        _, *released = release_last_use(self._graph)
        calls = tuple(map(self._call, self._graph.calls, released))
        results, kind = self._results(returned)
        outside = tuple(map(_outside, guards))
        if len(self._places) > MOST:
            raise Unsuited
        constants, places = tuple(self._constants), len(self._places)
        return constants, places, arguments, outside, states, calls, results, kind

    def _results(self, returned: Returned) -> tuple[tuple[int, ...], int]:
        result = returned.structure.items[0]
        # Those of the graph: of a call that a pass has left out it has another value.
        outputs = self._graph.outputs
        if type(result) is ResultTensor:
            return (self._operand(outputs[result.position]),), _TENSOR_RESULT
        if type(result) is HostNumber:
            raise Unsuited
        if type(result) is not ResultItems:
            return (self._constant(result),), _SAME_OBJECT
        items = result.items
        if type(result.template) is not tuple or {*map(type, items)} - {ResultTensor}:
            raise Unsuited
        return tuple(self._operand(outputs[x.position]) for x in items), _TUPLE

    def _arguments(self, signature: Signature, names: Sequence[str]) -> tuple[Any, ...]:
        arguments, tensors, positions = [], iter(names), {}
        for i, part in enumerate(signature.positional):
            if part.kind == "tensor":
                shape, dtype, device = part.key[:3]
                if len(shape) > MOST_AXES:
                    raise Unsuited
                positions[part.path] = i
                place = self._place(next(tensors))
                arguments.append((_TENSOR, place, device, tuple(shape), dtype))
            elif part.kind == "same" and part.form[1] in positions:
                arguments.append((_SAME, positions[part.form[1]], None, (), None))
            elif part.kind in ("constant", "object"):
                arguments.append((_OBJECT, 0, part.value, (), None))
            else:
                raise Unsuited
        return tuple(arguments)

    def _state(self, entry: object) -> tuple[int, Any] | None:
        if isinstance(entry, Argument):
            return None
        if isinstance(entry, State):
            return self._place(entry.value.name), entry.owner
        if isinstance(entry, Handle):
            return self._place(entry.value.name), entry.tensor
        raise Unsuited

    def _call(self, call: Call, released: Sequence[Value]) -> tuple[Any, ...]:
        inputs, listed = call.inputs, -1
        only: Any = inputs[0] if len(inputs) == 1 else None
        if type(only) is tuple:
            inputs, listed = only, len(only)
        operands = [
            *map(self._operand, inputs),
            *map(self._constant, call.attributes.values()),
        ]
        # Only ops of the framework are known to do nothing but compute.
        if (
            len(operands) > MOST
            or any(call.foreign)
            or not (
                type(call.op) is Fused
                or (call.op.own and call.op.in_table and not call.op.is_ordered)
            )
        ):
            raise Unsuited
        first, *_ = [self._place(value.name) for value in call.results]
        return (
            kernel_of(call), tuple(operands), tuple(call.attributes) or None, first,
            len(call.results), tuple(self._places[value.name] for value in released), listed,
        )  # fmt: skip

    def _operand(self, operand: object) -> int:
        if operand is None:
            return self._constant(None)
        if type(operand) is not Value:
            raise Unsuited
        if operand.name in self._graph.constants:
            return self._constant(self._graph.constants[operand.name])
        return self._place(operand.name)

    def _place(self, name: str) -> int:
        return self._places.setdefault(name, len(self._places))

    def _constant(self, value: object) -> int:
        if isinstance(value, Value):
            raise Unsuited
        self._constants.append(value)
        return -len(self._constants)


def _outside(guard: Guard) -> tuple[Any, ...]:
    """The test of a guard, if it is that something is the same object."""
    function, arguments, value, _ = guard
    if function is getattr and type(value) is CodeType and type(arguments[0]) is FunctionType:
        if arguments[1] == "__code__":
            return _CODE, arguments[0], None, value
    elif function is getattr and len(arguments) == 2:
        return _ATTRIBUTE, *arguments, value
    elif function is operator.contains and type(arguments[0]) is dict and value is False:
        return _ABSENT, *arguments, None
    owner = getattr(function, "__self__", None)
    if type(owner) is dict and function == owner.get and len(arguments) == 1 and value is not None:
        return _ITEM, owner, arguments[0], value
    raise Unsuited
