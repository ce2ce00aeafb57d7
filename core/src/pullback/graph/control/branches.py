"""`cond` and `switch` where no value is known: a call with a graph for each branch in a trace.

Inside of `pb.vmap` items of a batch may take different branches, and all are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback._dispatch.recording import LOCAL
from pullback._tree import leaves, like
from pullback.dtypes import DType
from pullback.graph.call_graph import run_ops
from pullback.graph.control.call import (
    capture_now,
    code_of,
    define,
    lifted,
    one_or_all,
    record_call,
    shortened,
    the_capture,
)
from pullback.graph.control.structures import check_alike, tensors
from pullback.graph.control.subtrace import joined, section
from pullback.graph.graph import Graph, kinds_of
from pullback.ops.arithmetic import clip
from pullback.ops.comparison import equal
from pullback.ops.selection import where
from pullback.plugins.records import Native
from pullback.shapes import Shape
from pullback.spec import Arity
from pullback.tensor import Tensor

_ADVICE = "both must be alike: convert with x.astype(...), reshape, or return pb.zeros_like(x)"


def cond(pred: Tensor, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]) -> Any:
    """Calls one of two functions in a trace, by a boolean."""
    return branches("cond", pred, functions, operands, ("true_fn", "false_fn"))


def switch(
    index: Tensor, functions: Sequence[Callable[..., Any]], operands: tuple[Any, ...]
) -> Any:
    """Calls one of several functions in a trace, by a number."""
    names = [f"branches[{i}]" for i in range(len(functions))]
    return branches("switch", index, functions, operands, names)


def branches(
    name: str,
    choice: Tensor,
    functions: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    names: Sequence[str],
) -> Any:
    """Traces functions, and records the call of one of them.

    Args:
        name: the name of the op.
        choice: what it chooses by, in the trace.
        functions: the branches, which take the operands.
        operands: structures of tensors.
        names: the names of the branches, for messages.
    """
    results: list[Any] = []

    def of(f: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> list[Any]:
            # Each branch gets handles of its own, so that it may assign parts of its operands.
            result = tensors(f(*_own(operands)))
            results.append(result)
            return leaves(result)

        return run

    # A branch that raises is traced twice.
    found = traced_branches(name, choice, list(map(of, functions)), names, results)
    return like(results[0], iter(found))


def traced_branches(
    name: str,
    choice: Tensor,
    functions: Sequence[Callable[[], Any]],
    names: Sequence[str],
    structures: Sequence[Any] = (),
) -> list[Tensor]:
    """Traces functions without arguments, and records the call of one of them.

    Args:
        name: the name of the op.
        choice: what it chooses by, in the trace.
        functions: the branches; they return lists of tensors.
        names: the names of the branches, for messages.
        structures: what the branches returned, for messages, when they have been traced.
    """
    capture = the_capture()
    sections = [
        section(capture, f"{label} of pb.{name}", f, ())
        for f, label in zip(functions, names, strict=True)
    ]
    first, *rest = structures or [each.result for each in sections]
    for result, label in zip(rest, names[1:], strict=True):
        check_alike(f"pb.{name}", f"{names[0]} returns", first, f"and {label}", result, _ADVICE)
    outside, graphs = joined(sections, 0)
    # A branch that does not write a variable hands on what it was.
    written = {id(v): v for each in sections for v in each.written}
    count = len(sections[0].result)
    complete = []
    for graph, each in zip(graphs, sections, strict=True):
        own = dict(zip(map(id, each.written), graph.outputs[count:], strict=True))
        values = {
            id(entry.variable): source.value
            for entry, source in zip(outside, graph.inputs, strict=True)
            if entry.variable is not None
        }
        states = [own.get(key) or values[key] for key in written]
        complete.append(
            shortened(capture, graph._replace(outputs=(*graph.outputs[:count], *states)))
        )
    operands = [entry.tensor for entry in outside]
    results = CALLS[name](lifted(capture, [choice])[0], operands, branches=tuple(complete))
    for variable, value in zip(written.values(), results[count:], strict=True):
        capture.write(variable, value)
    found: list[Tensor] = results[:count]
    return found


def _own(structures: tuple[Any, ...]) -> tuple[Any, ...]:
    """Structures with new handles of their tensors, in the trace that runs now."""
    capture = LOCAL.state.capture
    assert capture is not None
    return tuple(
        like(
            structure,
            iter([capture.lift(x) if type(x) is Tensor else x for x in leaves(structure)]),
        )
        for structure in structures
    )


def nearest(index: int, count: int) -> int:
    """The number of the branch that `switch` takes: the first one below 0, the last one beyond."""
    return min(max(index, 0), count - 1)


def _first_if(pred: bool, count: int) -> int:
    return 0 if pred else count - 1


#: The number of the branch, from what is chosen by and the number of branches.
CHOSEN: dict[str, Callable[..., int]] = {"cond": _first_if, "switch": nearest}


class BranchKernel:
    """Runs one of several graphs."""

    def __init__(self, name: str, graphs: Sequence[Graph]) -> None:
        self._codes = [code_of(graph, "branch") for graph in graphs]
        self._chosen = CHOSEN[name]
        self._item = graphs[0].device.backend.item

    def __call__(self, choice: Native, operands: list[Native], **_: object) -> Any:
        """Returns the native arrays of the results."""
        code = self._codes[self._chosen(self._item(choice), len(self._codes))]
        return one_or_all(code(*operands))


def _call_of(name: str) -> Callable[..., Any]:
    """The function of an op that calls one of its graphs."""

    def call(choice: Tensor, operands: Sequence[Tensor], *, branches: tuple[Graph, ...]) -> Any:
        capture = capture_now()
        if capture is None:
            chosen = branches[CHOSEN[name](choice.item(), len(branches))]
            return run_ops(chosen, operands, choice._device)
        kernel, attributes = BranchKernel(name, branches), {"branches": branches}
        inputs = lifted(capture, [choice, operands])
        return record_call(capture, name, kernel, inputs, attributes, len(branches[0].outputs))

    return call


def _kinds(*, branches: tuple[Graph, ...]) -> list[tuple[Shape, DType]]:
    return kinds_of(branches[0], branches[0].outputs)


#: The functions that call graphs, by the name of the op.
CALLS = {name: _call_of(name) for name in CHOSEN}

for _name, _choice in (("cond", "pred"), ("switch", "index")):
    define(
        _name,
        {_choice: Arity.ONE, "operands": Arity.MANY},
        ["branches"],
        _kinds,
        CALLS[_name],
        "Which graph runs is known at the run alone.",
    )


# Inside of `pb.vmap` ------------------------------------------------------------------------------

_OF_ITEMS = "all of them return one structure, with the same shapes and dtypes"


def chosen(condition: Tensor, one: object, other: object) -> Any:
    """The values of one structure for the items where a condition holds, else of another one."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return like(one, iter([where(condition, x, y) for x, y in pairs]))


def switch_items(
    name: str, index: Tensor, functions: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """The results of several functions, for each item of the one that it chooses.

    All of them are called, as the items take different ones, and where values are not known.
    """
    results = [tensors(f(*operands)) for f in functions]
    index = clip(index, 0, len(results) - 1)
    found = results[0]
    for number, result in enumerate(results[1:], 1):
        before, after = "one function returns", "another one"
        check_alike(name, before, found, after, result, _OF_ITEMS)
        found = chosen(equal(index, number), result, found)
    return found
