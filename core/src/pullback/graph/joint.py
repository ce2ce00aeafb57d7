"""A captured function together with its backward pass, for tapes that record outside of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pullback import errors
from pullback._autodiff.functional import stop_gradient
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.recording import NO_TAPES, Leaf, tapes, uncaptured
from pullback._symbols import Apart
from pullback._tree import leaves
from pullback.dtypes import is_complex, is_floating
from pullback.graph.call_graph import CallGraph, Pass
from pullback.graph.capture import Capture
from pullback.graph.emit import emit
from pullback.graph.graph import STOP_GRADIENT, Argument, Call, Graph, Value
from pullback.graph.passes.simplify import drop_dead, lowered, simplify
from pullback.graph.signature import Part
from pullback.graph.trace import Traced
from pullback.plugins.records import Native
from pullback.tensor import Tensor, wrap

STOP_GRADIENT.function = stop_gradient


class JointTape(GradientTape):
    """The tape of a trace: it watches the variables that the tape outside watches."""

    __slots__ = ("outside", "read")

    def __init__(self, outside: GradientTape) -> None:
        super().__init__(persistent=True, watch_accessed_variables=False)
        self.outside = outside
        #: The variables that were read, by identity.
        self.read: dict[int, Any] = {}

    def leaf_of(self, variable: Any, wanted: bool) -> Leaf | None:
        """The leaf of a variable, if the tape outside has one."""
        watched = variable._watched and self.outside.watch_accessed_variables
        if not watched and id(variable) in self.outside._leaves:
            raise Apart("reads a variable that is watched by itself")
        self.read[id(variable)] = variable
        return super().leaf_of(variable, watched)

    def note_assigned(self, variable: object) -> None:
        """Notes nothing: this tape is asked for every gradient, and the tape outside for some."""

    def fall(self) -> None:
        """Says that only the trace will ask for gradients: other tapes may release their nodes."""
        del self.outside
        self.retire_token()


class Derivative(NamedTuple):
    """The backward pass of a function, as a trace has it."""

    #: The tensors of the result that have a gradient, by their position among all.
    positions: list[int]
    #: The variables and arguments to which gradients flow: the values of their inputs.
    sources: list[Value]
    variables: list[Any]
    #: The gradients of the sources; None where there is none.
    gradients: list[Value | None]
    asleep: Asleep
    #: The arguments among the sources, as parts of the signature.
    arguments: list[Part]
    #: Whether the tape outside watches variables as they are read.
    accessed: bool


def differentiated(
    capture: Capture, tape: JointTape, arguments: list[tuple[Part, Tensor, Any]], result: object
) -> Derivative:
    """Traces the backward pass of a function that has just been traced.

    Args:
        capture: the function's.
        tape: the tape that recorded the function in it.
        arguments: the arguments that the tape outside has recorded: as parts of the signature, as
            tensors of the trace, and their arrays.
        result: what the function returned.
    """
    sources: list[Any] = [tensor for _, tensor, _ in arguments]
    values = [array.value for _, _, array in arguments]
    variables = [tape._leaves[key][0] for key in tape.read if key in tape._leaves]
    for variable in variables:
        sources.append(variable)
        values.append(capture._hold(variable).source.value)
    targets, positions, cotangents = [], [], []
    for position, tensor in enumerate(x for x in leaves(result) if type(x) is Tensor):
        lifted = capture.lift(tensor)
        if is_complex(lifted.dtype):
            raise Apart("returns complex numbers")
        if is_floating(lifted.dtype) and lifted._node is not None:
            targets.append(lifted)
            positions.append(position)
            array: Traced = lifted._array
            cotangents.append(capture.trace.argument(array.array, f"g{position}"))
    count = len(targets)
    # A pass may go on from what has arrived at sources.
    arrays = [array for _, _, array in arguments] + [capture._hold(v).now for v in variables]
    for i, (source, array) in enumerate(zip(sources, arrays, strict=True)):
        targets.append(wrap(array, capture.device, tape._source_node(source)))
        cotangents.append(capture.trace.argument(array.array, f"b{i}"))
    asleep = Asleep(tape, targets, sources, cotangents, len(capture.trace._calls))
    gradients: list[Any] = [None] * len(sources)
    if count and sources:
        gradients = tape.gradient(targets[:count], sources, cotangents[:count])
    return Derivative(
        positions,
        values,
        variables,
        [None if g is None else g._array.value for g in gradients],
        asleep,
        [part for part, _, _ in arguments],
        tape.outside.watch_accessed_variables,
    )


class Joint:
    """The graphs of a function and its backward pass.

    Args:
        capture: the function's.
        outputs: the values of the tensors in the function's result.
        derivative: its backward pass.
    """

    def __init__(self, capture: Capture, outputs: list[Value], derivative: Derivative) -> None:
        asleep = derivative.asleep
        found = [g for g in derivative.gradients if g is not None]
        whole = lowered(simplify(capture.graph_of([*outputs, *found])))
        plain = outputs
        outputs = list(whole.outputs[: len(outputs)])
        found = list(whole.outputs[len(outputs) :])
        cotangents = {cotangent._array.value for cotangent in asleep.cotangents}
        backward, forward = _cut(whole, cotangents)
        made = {value for call in backward for value in call.results} | cotangents
        reads = [value for call in backward for value in call.values]
        residuals = [
            value
            for value in dict.fromkeys([*reads, *found])
            if value not in made and value.name not in whole.constants
        ]
        inputs = tuple(entry for entry in whole.inputs if entry.value not in cotangents)
        #: What the program runs: its outputs are those of the function, then what nodes save.
        self.saved = [*residuals, *(entry.value for entry in inputs)]
        self.graph = drop_dead(
            whole._replace(inputs=inputs, calls=tuple(forward), outputs=(*outputs, *self.saved))
        )
        asleep.fall(capture, self.saved)
        by_value = {entry.value: i for i, entry in enumerate(inputs)}
        self.derivative = derivative
        self.variables = derivative.variables
        self.positions = derivative.positions
        self.op = CallGraph(
            capture.function_name,
            drop_dead(asleep.graph._replace(inputs=inputs, outputs=tuple(plain))),
            derivative.positions,
            [by_value[value] for value in derivative.sources],
            len(residuals),
            asleep.derive,
            asleep.pass_of(
                whole._replace(outputs=tuple(found)),
                asleep.cotangents[: len(derivative.positions)],
                derivative.gradients,
            ),
            capture.custom,
        )


class Asleep:
    """A trace with its tape after the call: it has no arrays until they are wanted again.

    A tape outside may have cotangents of some results only. The backward pass for these is that of
    the tape, which visits what leads to these and nothing else: with zeros for the others it would
    give NaN where a result has an infinite derivative, and zeros where there is no gradient.

    Args:
        tape: the tape that recorded the function.
        targets: the results that have a gradient; behind them the sources, as tensors.
        sources: the tensors and variables to which gradients flow.
        cotangents: the cotangents of the targets, as tensors of the trace.
        calls: the number of calls before the backward pass.
    """

    def __init__(
        self,
        tape: JointTape,
        targets: list[Tensor],
        sources: list[Any],
        cotangents: list[Tensor],
        calls: int,
    ) -> None:
        self.cotangents = cotangents
        self._tape = tape
        self._targets = targets
        self._sources = sources
        self._calls = calls
        self._lock = threading.Lock()

    def fall(self, capture: Capture, saved: Sequence[Value]) -> None:
        """Takes the arrays out of what the tape and the functions of the user's still hold."""
        self._capture = capture
        #: The first position of each value: residuals may be inputs as well.
        self._saved = {value: i for i, value in reversed([*enumerate(saved)])}
        #: The calls of the function, with all inputs.
        self.graph = capture.trace.graph([])
        self.graph = self.graph._replace(calls=self.graph.calls[: self._calls])
        trace = capture.trace
        self._traced, trace.traced = trace.traced or [], None
        self._tape.fall()

    def release(self) -> None:
        """Releases the arrays of the trace, once they have been looked at."""
        for traced in filter(None, (reference() for reference in self._traced)):
            if traced.value.name not in self.graph.constants and hasattr(traced, "array"):
                del traced.array

    def derive(self, cotangents: Mapping[int, Native], saved: Sequence[Any]) -> Pass:
        """The backward pass for cotangents of some targets, by position.

        Args:
            cotangents: native arrays of the cotangents.
            saved: what the node of a run has saved.
        """
        capture = self._capture
        chosen = [self.cotangents[i] for i in cotangents]
        with self._lock, uncaptured(), tapes(NO_TAPES):
            try:
                self._wake(cotangents, saved)
                with capture.running():
                    found = self._tape.gradient(
                        [self._targets[i] for i in cotangents], self._sources, chosen
                    )
                    values = [None if g is None else capture.lift(g)._array.value for g in found]
                graph = capture.trace.graph([value for value in values if value is not None])
                if len(graph.inputs) > len(self.graph.inputs):
                    raise errors.NotDifferentiableError(
                        f"the gradient of {capture.function_name} reads or draws something for "
                        f"which its call lacks a value; call it without pb.function"
                    )
            finally:
                capture.forget()
                self.release()
        return self.pass_of(lowered(simplify(graph)), chosen, values)

    def _wake(self, cotangents: Mapping[int, Native], saved: Sequence[Any]) -> None:
        """Puts the arrays of a run into the trace."""
        own = {tensor._array.value: tensor._array for tensor in self.cotangents}
        entries = [entry for entry in self.graph.inputs if entry.value not in own]
        arrays = {entry.value.name: saved[self._saved[entry.value]] for entry in entries}
        self._capture.resume(self.graph, arrays)
        waiting = [traced for traced in (reference() for reference in self._traced) if traced]
        wanted = dict.fromkeys(traced.value for traced in waiting if traced.value not in own)
        made = {value for call in self.graph.calls for value in call.results}
        outputs = tuple(value for value in wanted if value in made)
        again = drop_dead(self.graph._replace(inputs=tuple(entries), outputs=outputs))
        arrays.update(zip((v.name for v in outputs), emit(again)(*arrays.values()), strict=True))
        arrays.update(self.graph.constants)
        arrays.update({self.cotangents[i]._array.value.name: g for i, g in cotangents.items()})
        for traced in waiting:
            if traced.value.name in arrays:
                traced.array = arrays[traced.value.name]

    def pass_of(
        self, graph: Graph, cotangents: Sequence[Tensor], gradients: Sequence[Value | None]
    ) -> Pass:
        """The calls of a graph that nodes have not saved the results of."""
        given = [tensor._array.value for tensor in cotangents]
        wanted = {*graph.outputs}
        calls: list[Call] = []
        for call in reversed(graph.calls):
            missing = [v for v in call.results if v in wanted and v not in self._saved]
            if missing:
                calls.append(call)
                wanted.update(call.values)
        made = {value for call in calls for value in call.results}
        reads = [v for v in self._saved if v in wanted and v not in made]
        return Pass(
            self._capture.function_name,
            drop_dead(
                Graph(
                    graph.device,
                    tuple(Argument(value, i) for i, value in enumerate([*reads, *given])),
                    tuple(calls[::-1]),
                    graph.outputs,
                    graph.constants,
                )
            ),
            [self._saved[value] for value in reads],
            [gradient is not None for gradient in gradients],
        )


def _cut(graph: Graph, cotangents: set[Value]) -> tuple[list[Call], list[Call]]:
    """The calls that depend on cotangents, and the others."""
    depends = set(cotangents)
    backward, forward = [], []
    for call in graph.calls:
        if depends.isdisjoint(call.values):
            forward.append(call)
        else:
            backward.append(call)
            depends.update(call.results)
    return backward, forward
