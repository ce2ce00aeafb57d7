"""The ops of control flow: their inputs, and what their graphs say of their results.

They are not in the op table: their attributes are graphs, and the number of their results differs
from call to call. What the field calls a branch or the body of a loop is a graph whose inputs are
all arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback.dtypes import DType, DTypeRule, Resolution
from pullback.graph.control.check import check_control
from pullback.graph.graph import Call, Graph, GraphOp
from pullback.shapes import Shape, broadcast
from pullback.spec import Arity, Attribute, Input, Op


class ControlKind(NamedTuple):
    """The ops of one name."""

    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    #: The shape and dtype of each result, from the attributes.
    results: Callable[..., list[tuple[Shape, DType]]]
    #: The public function: it takes tensors and attributes, and returns a list of tensors.
    function: Callable[..., Any]
    why: str


KINDS: dict[str, ControlKind] = {}


def define(
    name: str,
    inputs: dict[str, Arity],
    attributes: Sequence[str],
    results: Callable[..., list[tuple[Shape, DType]]],
    function: Callable[..., Any],
    why: str,
) -> None:
    """Defines the ops of a name."""
    KINDS[name] = ControlKind(
        tuple(Input(parameter, arity) for parameter, arity in inputs.items()),
        tuple(Attribute(attribute, "Any", False) for attribute in attributes),
        results,
        function,
        why,
    )


class ControlOp(GraphOp):
    """The op of a call of graphs, such as branches, for a number of results."""

    __slots__ = ()

    def check(self, call: Call, check: Callable[[Graph], None]) -> None:
        """Tests that the graphs fit the call, and each other."""
        if call.graphs:
            check_control(call)


@functools.cache
def control_op(name: str, outputs: int) -> ControlOp:
    """The op of a name with a number of outputs."""
    kind = KINDS[name]
    return ControlOp(
        name, kind.inputs, kind.attributes, kind.results, outputs, kind.why, kind.function
    )


def known_op(name: str, outputs: int) -> Op | None:
    """The op of a name that only graphs call; None for an unknown one."""
    if name == STOP_GRADIENT.name:
        return STOP_GRADIENT
    return control_op(name, outputs) if name in KINDS else None


class _StopGradient(GraphOp):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(
            "stop_gradient", (Input("x", Arity.ONE),), (), list, 1, "It computes nothing."
        )
        self.shape = broadcast
        self.dtype = DTypeRule(lambda operands, **_: Resolution(operands, operands))


#: Says in a graph that no gradient flows back; `pullback._autodiff.functional` has its function.
STOP_GRADIENT = _StopGradient()
