"""The trace of a function inside the trace of another one, such as a branch of `cond`.

What the function reads from outside (tensors of the enclosing trace, variables, tensors of the real
device) becomes further inputs of its graph, which the enclosing trace gives to the call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np

from pullback._autodiff.tape import GradientTape
from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    Tapes,
    capturing,
    tapes,
    uncaptured,
)
from pullback._symbols import Break
from pullback._tree import leaves
from pullback.devices import Device
from pullback.dtypes import is_floating
from pullback.graph.capture import Capture, Held
from pullback.graph.control.call import own_gradient, shortened
from pullback.graph.control.structures import tensors
from pullback.graph.graph import Argument, Entry, Graph, Value
from pullback.graph.trace import Traced
from pullback.ops.creation import full
from pullback.plugins.records import Native
from pullback.tensor import Tensor, wrap

#: To this order gradients of gradients are traced that call functions with a gradient of their own.
DEEPEST = 2


class Outside(NamedTuple):
    """Something that a function reads from outside, as an input of its graph."""

    #: Equal for what two functions read alike.
    key: Any
    #: In the enclosing trace.
    tensor: Tensor
    #: In the graph of the function.
    value: Value
    #: The variable that was read; None for a tensor.
    variable: Any


class Section(NamedTuple):
    """A function that was traced: its graph, and what the call of it needs."""

    graph: Graph
    #: What the function returned, with tensors of the ended trace: for its structure and kinds.
    result: Any
    #: The first inputs are the arguments; these come behind them, in order.
    outside: tuple[Outside, ...]
    #: The variables that were written; their values are the last outputs.
    written: tuple[Any, ...]


class OnlyOutside(Break):
    """Ends the trace of a step or branch for what only a whole function may do.

    The steps of a loop of known length can be traced one by one instead.
    """


class InnerCapture(Capture):
    """The capture of a function in another one.

    Args:
        parent: the capture that runs now.
        what: the function, for messages: "a branch of pb.cond".
        zeros: whether it computes with zeros in place of the values of the enclosing trace.
    """

    def __init__(self, parent: Capture, what: str, *, zeros: bool = False) -> None:
        super().__init__(parent.real_device, parent.function_name)
        self.parent: Capture = parent
        # One program has the guards and numbers of both.
        self.guards, self.places, self.numbers = parent.guards, parent.places, parent.numbers
        self._ambient = parent._ambient
        self.what = what
        self.outside_inputs: list[Outside] = []
        #: The number of arguments of the graph.
        self.arguments = 0
        #: The number of gradients of functions with their own, one in another, that are traced.
        self.depth: int = getattr(parent, "depth", 0)
        self._zeros = zeros
        self._inner: dict[Any, Traced] = {}
        self._alive: list[Any] = []
        state = LOCAL.state
        self._tapes = Tapes(state.tapes, state.recording, state.oldest_serial)
        #: Whether a tape of an enclosing trace records.
        self.recorded: bool = state.recording or getattr(parent, "recorded", False)

    @property
    def is_differentiated(self) -> bool:
        """True if a tape of an enclosing trace records the call."""
        return self.recorded

    # What the function reads from outside --------------------------------------------------------

    def example(self, array: Native) -> Native:
        """The array to trace with, in place of one of the enclosing trace."""
        if not self._zeros:
            return array
        device = self.real_device
        dtype = device.backend.public_dtypes[array.dtype]
        with uncaptured():
            zeros: Native = full(tuple(array.shape), 0, dtype=dtype, device=device)._array
        return zeros

    def argument(self, array: Native) -> Tensor:
        """The next argument of the graph, with the values of an array or zeros."""
        self.arguments += 1
        return self.trace.argument(self.example(array), f"x{self.arguments - 1}")

    def is_outside(self, device: Device) -> bool:
        """Returns whether a tensor on a device has to be lifted: also one of an enclosing trace."""
        return super().is_outside(device) or self._is_of_parent(device)

    def _is_of_parent(self, device: Device) -> bool:
        capture: Any = self
        while isinstance(capture, InnerCapture):
            capture = capture.parent
            if device is capture.device:
                return True
        return False

    def lift(self, tensor: Tensor) -> Tensor:
        """A tensor from outside, on the trace's device."""
        if tensor._device.stands_on(self.device):
            return tensor
        with self._in_parent():
            outer = self.parent.lift(tensor)
        key = id(outer._array.value), id(outer._node)
        traced = self._inner.get(key)
        if traced is None:
            if outer._array.value.name in self.parent.trace._constants and outer._node in (
                None,
                CONSTANT,
            ):
                traced = self.trace._constant(outer._array.array)
            else:
                traced = self._read_outside(key, outer, None)
            self._inner[key] = traced
            self._alive.append((outer._array, outer._node))
        # A tape in the function may have begun to watch the tensor.
        return wrap(traced, self.device, tensor._node)

    def _read_outside(self, key: Any, outer: Tensor, variable: object) -> Traced:
        array = self.example(outer._array.array)
        value = Value(f"o{len(self.outside_inputs)}", tuple(array.shape), array.dtype)
        kept = wrap(outer._array, outer._device, outer._node)
        self.outside_inputs.append(Outside(key, kept, value, variable))
        return Traced(array, value)

    def _hold(self, variable: Any) -> Held:
        held = self.variables.get(id(variable))
        if held is None:
            with self._in_parent():
                outer = variable.__pullback_tensor__()
            # Two variables with one value are two inputs: one of them may be written.
            traced = self._read_outside(("variable", id(variable)), outer, variable)
            source = None
            held = self.variables[id(variable)] = Held(variable, source, traced)
        return held

    def read(self, variable: Any) -> Tensor:
        """The value of a variable at this point of the function."""
        tensor = super().read(variable)
        # As op by op: no gradient flows through what a variable was assigned.
        return self.stop_gradient(tensor) if self._hold(variable).written else tensor

    def write(self, variable: Any, value: Tensor) -> None:
        """Has the call set a variable."""
        if self.recorded and variable._watched:
            self._only(
                f"assigns a trainable variable in {self.what}, while a tape records",
                "return the value, and assign it after the call",
            )
        super().write(variable, value)

    def traced_device(self, device: Device) -> Device:
        """The trace's device for the real one."""
        return self.device if self._is_of_parent(device) else super().traced_device(device)

    # What only a whole function may do ------------------------------------------------------------

    def number(self, function: Callable[..., Any], *arguments: object) -> Any:
        """The number that a function of other numbers gives at each run."""
        return self.parent.number(function, *arguments)

    def get(self, state: HostState) -> Any:
        """The value of a host state at this point of the function."""
        with self._in_parent():
            value = self.parent.get(state)
        return self.lift(value) if type(value) is Tensor else value

    def _only(self, reason: str, way_out: str) -> NoReturn:
        self.trace.broken = error = OnlyOutside(reason, way_out)
        raise error

    def _only_outside(self, *_: object, **__: object) -> NoReturn:
        self._only(
            f"changes an optimizer, a metric or other state, or prints, in {self.what}",
            "return the values, and do it after that",
        )

    set = effect = when = _only_outside

    def reserve(self, generator: object, words: int) -> NoReturn:
        """Ends the trace: how much is drawn would depend on values."""
        self._only(
            f"draws random numbers in {self.what}",
            "draw before, for all steps at once, and use the numbers as an operand or as xs",
        )

    def custom_gradient(
        self, name: str
    ) -> Callable[[Callable[..., Any], list[Tensor]], Any] | None:
        """Returns what calls a function with its own gradient, if the graph is differentiated."""
        if not self.recorded:
            return None
        if LOCAL.state.runs:
            self._only(
                f"calls {name}, which has a gradient of its own, inside of pb.vmap in {self.what}, "
                f"while a tape records",
                "use pb.where for the choice, or Python's for for the loop",
            )
        return functools.partial(_with_own_gradient, self, name)

    @contextmanager
    def _in_parent(self) -> Iterator[None]:
        """Does something as the enclosing trace does it, for its tapes."""
        state = LOCAL.state
        state.capture = self.parent
        try:
            with tapes(self._tapes):
                yield
        finally:
            state.capture = self


def section(
    parent: Capture, what: str, f: Callable[..., Any], arguments: Sequence[Native]
) -> Section:
    """Traces a function of tensors in a trace.

    The values of the arguments are examples. A function that raises for them is traced with zeros:
    it may be a branch that is not taken, or a loop without steps.

    Args:
        parent: the capture that runs now.
        what: the function, for messages.
        f: takes a tensor for each argument, and returns a structure of tensors.
        arguments: native arrays of the arguments.
    """
    try:
        return _section(InnerCapture(parent, what), f, arguments)
    except Exception as error:
        try:
            return _section(InnerCapture(parent, what, zeros=True), f, arguments)
        except Exception:
            raise error from None


def _section(capture: InnerCapture, f: Callable[..., Any], arguments: Sequence[Native]) -> Section:
    handles = [capture.argument(x) for x in arguments]
    # What is computed with the examples may be a branch that no run takes: it does not warn.
    with capture.running(), np.errstate(all="ignore"):
        result = tensors(f(*handles))
        outputs = [capture.lift(tensor) for tensor in leaves(result)]
    held = capture.written
    graph = capture.trace.graph(
        [tensor._array.value for tensor in outputs] + [h.now.value for h in held]
    )
    inputs: tuple[Entry, ...] = graph.inputs + tuple(
        Argument(entry.value, capture.arguments + i)
        for i, entry in enumerate(capture.outside_inputs)
    )
    written = tuple(h.place for h in held)
    outside = tuple(capture.outside_inputs)
    return Section(graph._replace(inputs=inputs), result, outside, written)


def joined(sections: Sequence[Section], explicit: int) -> tuple[list[Outside], list[Graph]]:
    """Gives graphs of sections the same inputs: the arguments, and what any of them reads.

    Returns:
        What they read, and the graphs.
    """
    together: dict[Any, Outside] = {}
    for each in sections:
        for entry in each.outside:
            together.setdefault(entry.key, entry)
    graphs = []
    for each in sections:
        own = {entry.key: entry.value for entry in each.outside}
        values = [
            own.get(key) or Value(f"unused{i}", entry.value.shape, entry.value.dtype)
            for i, (key, entry) in enumerate(together.items())
        ]
        inputs = each.graph.inputs[:explicit] + tuple(
            Argument(value, explicit + i) for i, value in enumerate(values)
        )
        graphs.append(each.graph._replace(inputs=inputs))
    return list(together.values()), graphs


def _with_own_gradient(
    capture: InnerCapture, name: str, rule_of: Callable[..., Any], given: Sequence[Tensor]
) -> tuple[Any, list[Tensor]]:
    """Traces a function with a gradient of its own, and records the call of it.

    Args:
        capture: that of the function in which it is called.
        name: its name, for messages.
        rule_of: calls it with tensors: see `pullback._autodiff.custom_gradient.RuleCall`.
        given: the tensors that it is called with.

    Returns:
        The rule, with the structure of the results, and the results.
    """
    rules: list[tuple[Any, list[Tensor | None]]] = []
    count = len(given)
    # A gradient function may call its own function, for derivatives of every order.
    is_last = capture.depth >= DEEPEST

    def both(*tensors: Tensor) -> list[Tensor]:
        rule = rule_of(tensors)
        inner: Any = capturing()
        cotangents = {}
        for i, tensor in enumerate(rule.outputs):
            if is_floating(tensor.dtype):
                with uncaptured():
                    ones = full(tensor.shape, 1, dtype=tensor.dtype, device=capture.real_device)
                cotangents[i] = inner.argument(ones._array)
        gradients: list[Tensor | None] = []
        if not is_last:
            inner.depth += 1
            # A tape may record it later.
            with GradientTape(watch_accessed_variables=False):
                gradients = rule.gradients(cotangents)
            inner.depth -= 1
        rules.append((rule, gradients))
        return [*rule.outputs, *(part for part in gradients if part is not None)]

    arrays = [tensor._array.array for tensor in map(capture.lift, given)]
    found = section(capture, f"{name} in {capture.what}", both, arrays)
    rule, gradients = rules[-1]
    outside, outputs = found.outside, found.graph.outputs
    results, parts = len(rule.outputs), len(found.result)
    own, rest = found.graph.inputs[:count], found.graph.inputs[count:]
    seeds, more = rest[: len(rest) - len(outside)], rest[len(rest) - len(outside) :]
    body = _from_arguments(found.graph, (*own, *more), (*outputs[:results], *outputs[parts:]))
    backward = _from_arguments(found.graph, (*own, *more, *seeds), outputs[results:parts])
    places = {id(entry.variable): count + i for i, entry in enumerate(outside)}
    of_gradients = [*range(count), *(places[id(variable)] for variable in rule.variables)]
    deep = (
        f"computes a derivative of {name}, which has a gradient of its own, of an order above "
        f"{DEEPEST}, in {capture.what}"
    )
    values = own_gradient(
        [*given, *(entry.tensor for entry in outside)],
        body=shortened(capture, body),
        backward=None if is_last else shortened(capture, backward),
        gradients=tuple(
            i for i, part in zip(of_gradients, gradients, strict=False) if part is not None
        ),
        unruled=tuple(places[id(variable)] for variable in rule.unruled),
        error=deep if is_last else rule.error,
    )
    for variable, value in zip(found.written, values[results:], strict=True):
        capture.write(variable, value)
    return rule, values[:results]


def _from_arguments(graph: Graph, entries: Sequence[Entry], outputs: Sequence[Value]) -> Graph:
    """A graph with other inputs and outputs: the inputs are arguments in this order."""
    inputs = tuple(Argument(entry.value, i) for i, entry in enumerate(entries))
    return graph._replace(inputs=inputs, outputs=tuple(outputs))
