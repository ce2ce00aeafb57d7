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
from pullback.graph.graph import Graph, Value
from pullback.shapes import Shape, broadcast
from pullback.spec import EXACT, Arity, Attribute, Input, Op, Tier


class Kind(NamedTuple):
    """The ops of one name."""

    inputs: tuple[Input, ...]
    attributes: tuple[Attribute, ...]
    #: The shape and dtype of each result, from the attributes.
    results: Callable[..., list[tuple[Shape, DType]]]
    #: The public function: it takes tensors and attributes, and returns a list of tensors.
    function: Callable[..., Any]
    why: str


KINDS: dict[str, Kind] = {}


def kinds_of(graph: Graph, values: Sequence[Value]) -> list[tuple[Shape, DType]]:
    """The shapes and dtypes of values."""
    public = graph.device.backend.public_dtypes
    return [(value.shape, public[value.dtype]) for value in values]


def define(
    name: str,
    inputs: dict[str, Arity],
    attributes: Sequence[str],
    results: Callable[..., list[tuple[Shape, DType]]],
    function: Callable[..., Any],
    why: str,
) -> None:
    """Defines the ops of a name."""
    KINDS[name] = Kind(
        tuple(Input(parameter, arity) for parameter, arity in inputs.items()),
        tuple(Attribute(attribute, "Any", False) for attribute in attributes),
        results,
        function,
        why,
    )


@functools.cache
def control_op(name: str, outputs: int) -> Op:
    """The op of a name with a number of outputs."""
    kind = KINDS[name]

    def shape(*_: object, **attributes: Any) -> Any:
        return [shape for shape, _ in kind.results(**attributes)]

    def dtype(_: object, **attributes: Any) -> Resolution:
        return Resolution((), tuple(dtype for _, dtype in kind.results(**attributes)))

    return _op(name, kind.inputs, kind.attributes, shape, dtype, outputs, kind.function, kind.why)


def _op(
    name: str,
    inputs: tuple[Input, ...],
    attributes: tuple[Attribute, ...],
    shape: Callable[..., Any],
    dtype: Callable[..., Resolution],
    outputs: int,
    function: Callable[..., Any] | None,
    why: str,
) -> Op:
    def body(*_: object, **__: object) -> None:
        """A call of graphs."""

    op = Op(
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
        residuals=(),
        normalize=None,
        identity_when=None,
        identity_element=None,
        copies_elements=False,
        view=False,
        family="control",
        index=-1,
        fixed=False,
        creates=False,
        simple=False,
    )
    op.function = function
    return op


def known_op(name: str, outputs: int) -> Op | None:
    """The op of a name that is not in the op table; None for an unknown one."""
    if name == STOP_GRADIENT.name:
        return STOP_GRADIENT
    return control_op(name, outputs) if name in KINDS else None


#: Says in a graph that no gradient flows back; `pullback._autodiff.functional` has its function.
STOP_GRADIENT = _op(
    "stop_gradient",
    (Input("x", Arity.ONE),),
    (),
    broadcast,
    lambda operands, **_: Resolution(operands, operands),
    1,
    None,
    "It computes nothing.",
)
