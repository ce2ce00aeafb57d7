"""A captured function together with its backward pass, for tapes that record outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pullback._autodiff.functional import stop_gradient
from pullback._autodiff.tape import GradientTape
from pullback._dispatch.recording import Leaf
from pullback._symbols import Apart
from pullback.dtypes import is_complex, is_floating
from pullback.graph.call_graph import CallGraph
from pullback.graph.capture import Traced
from pullback.graph.control.op import STOP_GRADIENT
from pullback.graph.graph import Argument, Call, Graph, Value
from pullback.graph.passes.simplify import drop_dead, simplify
from pullback.graph.record import Recorder
from pullback.graph.signature import Part
from pullback.tensor import Tensor

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


class Derivative(NamedTuple):
    """The backward pass of a function, as a trace has it."""

    #: The tensors of the result that have a gradient, by their position among all.
    positions: list[int]
    #: The variables and arguments to which gradients flow: the values of their inputs.
    sources: list[Value]
    variables: list[Any]
    #: The gradients of the sources; None where there is none.
    gradients: list[Value | None]
    cotangents: set[Value]
    #: The arguments among the sources, as parts of the signature.
    arguments: list[Part]
    #: Whether the tape outside watches variables as they are read.
    accessed: bool


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors in what a function returned, in order."""
    if isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif type(value) is Tensor:
        yield value


def differentiated(
    recorder: Recorder, tape: JointTape, arguments: list[tuple[Part, Tensor, Any]], result: object
) -> Derivative:
    """Traces the backward pass of a function that has just been traced.

    Args:
        recorder: the trace.
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
        values.append(recorder._hold(variable).source.value)
    targets, positions, cotangents = [], [], []
    for position, tensor in enumerate(tensors_in(result)):
        lifted = recorder.lift(tensor)
        if is_complex(lifted.dtype):
            raise Apart("returns complex numbers")
        if is_floating(lifted.dtype) and lifted._node is not None:
            targets.append(lifted)
            positions.append(position)
            array: Traced = lifted._array
            cotangents.append(recorder.argument(array.array, f"g{position}"))
    gradients: list[Any] = [None] * len(sources)
    if targets and sources:
        gradients = tape.gradient(targets, sources, cotangents)
    return Derivative(
        positions,
        values,
        variables,
        [None if g is None else g._array.value for g in gradients],
        {tensor._array.value for tensor in cotangents},
        [part for part, _, _ in arguments],
        tape.outside.watch_accessed_variables,
    )


class Joint:
    """The graphs of a function and its backward pass.

    Args:
        recorder: the trace.
        outputs: the values of the tensors in the function's result.
        derivative: its backward pass.
    """

    def __init__(self, recorder: Recorder, outputs: list[Value], derivative: Derivative) -> None:
        found = [g for g in derivative.gradients if g is not None]
        whole = simplify(simplify(recorder.graph_of([*outputs, *found])))
        outputs = list(whole.outputs[: len(outputs)])
        found = list(whole.outputs[len(outputs) :])
        backward, forward = _cut(whole, derivative.cotangents)
        made = {value for call in backward for value in call.results} | derivative.cotangents
        reads = [value for call in backward for value in call.values]
        residuals = [
            value
            for value in dict.fromkeys([*reads, *found])
            if value not in made and value.name not in whole.constants
        ]
        inputs = tuple(entry for entry in whole.inputs if entry.value not in derivative.cotangents)
        #: What the program runs: its outputs are those of the function, then what nodes save.
        self.saved = [*residuals, *(entry.value for entry in inputs)]
        self.graph = drop_dead(
            whole._replace(inputs=inputs, calls=tuple(forward), outputs=(*outputs, *self.saved))
        )
        plain = drop_dead(self.graph._replace(outputs=tuple(outputs), writes=(), after=()))
        by_value = {entry.value: i for i, entry in enumerate(inputs)}
        cotangents = [
            next(v for v in derivative.cotangents if v.name == f"g{position}")
            for position in derivative.positions
        ]
        arguments = [Argument(value, i) for i, value in enumerate([*residuals, *cotangents])]
        pulled = drop_dead(
            Graph(whole.device, tuple(arguments), tuple(backward), tuple(found), whole.constants)
        )
        self.derivative = derivative
        self.variables = derivative.variables
        self.positions = derivative.positions
        self.op = CallGraph(
            recorder.function_name,
            plain,
            pulled,
            derivative.positions,
            [g is not None for g in derivative.gradients],
            [by_value[value] for value in derivative.sources],
            len(residuals),
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
