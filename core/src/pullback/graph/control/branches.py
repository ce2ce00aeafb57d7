"""`cond` and `switch`: where no value is known, a call with a graph for each branch in a trace.

Inside of `pb.vmap` items of a batch may take different branches, and all are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback._dispatch.recording import LOCAL
from pullback._tree import leaves, like
from pullback.dtypes import DType
from pullback.graph.call_graph import run_ops
from pullback.graph.control.call import (
    Contract,
    capture_now,
    code_of,
    define,
    kinds_in,
    lifted,
    one_or_all,
    record_call,
    shortened,
    the_capture,
)
from pullback.graph.control.structures import check_alike, operands, tensors
from pullback.graph.control.subtrace import joined, section
from pullback.graph.eval_shape import has_shapes_alone
from pullback.graph.graph import Call, Graph, kinds_of
from pullback.ops.arithmetic import clip
from pullback.ops.comparison import equal
from pullback.ops.selection import where
from pullback.plugins.records import Kernel, Native
from pullback.shapes import Shape
from pullback.spec import Arity
from pullback.tensor import Tensor

_ADVICE = "both must be alike: convert with x.astype(...), reshape, or return pb.zeros_like(x)"


def choose(
    name: str,
    choice: bool | int | Tensor,
    functions: Mapping[str, Callable[..., Any]],
    given: Sequence[Any],
) -> Any:
    """Calls one of several functions, or where its number is not known records the call of one.

    Args:
        name: the name of the op.
        choice: what it chooses by; a tensor where the value is not known.
        functions: the branches, which take the operands, by their names for messages.
        given: the operands, which are structures of tensors.
    """
    branches = [*functions.values()]
    if not isinstance(choice, Tensor):
        return tensors(branches[CHOSEN[name](choice, len(branches))](*given))
    if LOCAL.state.runs or has_shapes_alone():
        return _of_items(name, choice, branches, given)
    results: list[Any] = []

    def of(f: Callable[..., Any]) -> Callable[[], list[Any]]:
        def run() -> list[Any]:
            # Each branch gets handles of its own, so that it may assign parts of its operands.
            result = tensors(f(*map(operands, given)))
            results.append(result)
            return leaves(result)

        return run

    # A branch that raises is traced twice.
    traced = {label: of(f) for label, f in functions.items()}
    found = traced_branches(name, choice, traced, results)
    return like(results[0], iter(found))


def traced_branches(
    name: str,
    choice: Tensor,
    functions: Mapping[str, Callable[[], Any]],
    structures: Sequence[Any] = (),
) -> list[Tensor]:
    """Traces functions without arguments, and records the call of one of them.

    Args:
        name: the name of the op.
        choice: what it chooses by, in the trace.
        functions: the branches, by their names for messages; they return lists of tensors.
        structures: what the branches returned, for messages, when they have been traced.
    """
    capture = the_capture()
    sections = [section(capture, f"{label} of pb.{name}", f, ()) for label, f in functions.items()]
    first, *rest = structures or [each.result for each in sections]
    own, *others = functions
    for result, label in zip(rest, others, strict=True):
        check_alike(f"pb.{name}", f"{own} returns", first, f"and {label}", result, _ADVICE)
    outside, graphs = joined(sections, 0)
    # A branch that does not write a variable hands on what it was.
    written = {id(v): v for each in sections for v in each.written}
    count = len(sections[0].result)
    complete = []
    for graph, each in zip(graphs, sections, strict=True):
        states = dict(zip(map(id, each.written), graph.outputs[count:], strict=True))
        before = {id(e.variable): i.value for e, i in zip(outside, graph.inputs, strict=True)}
        after = [states.get(key) or before[key] for key in written]
        whole = graph._replace(outputs=(*graph.outputs[:count], *after))
        complete.append(shortened(capture, whole))
    inputs = [entry.tensor for entry in outside]
    results = CALLS[name](lifted(capture, [choice])[0], inputs, branches=tuple(complete))
    for variable, value in zip(written.values(), results[count:], strict=True):
        capture.write(variable, value)
    found: list[Tensor] = results[:count]
    return found


def nearest(index: int, count: int) -> int:
    """The number of the branch that `switch` takes: the first one below 0, the last one beyond."""
    return min(max(index, 0), count - 1)


def _first_if(pred: bool, count: int) -> int:
    return 0 if pred else count - 1


#: The number of the branch, from what is chosen by and the number of branches.
CHOSEN: dict[str, Callable[..., int]] = {"cond": _first_if, "switch": nearest}


def _branch_kernel(name: str, graphs: Sequence[Graph]) -> Kernel:
    """Runs one of several graphs."""
    codes = [code_of(graph, "branch") for graph in graphs]
    number, item = CHOSEN[name], graphs[0].device.backend.item

    def run(choice: Native, operands: list[Native], **_: object) -> Any:
        return one_or_all(codes[number(item(choice), len(codes))](*operands))

    return run


def _call_of(name: str) -> Callable[..., Any]:
    """The function of an op that calls one of its graphs."""

    def call(choice: Tensor, operands: Sequence[Tensor], *, branches: tuple[Graph, ...]) -> Any:
        capture = capture_now()
        if capture is None:
            chosen = branches[CHOSEN[name](choice.item(), len(branches))]
            return run_ops(chosen, operands, choice._device)
        kernel, attributes = _branch_kernel(name, branches), {"branches": branches}
        inputs = lifted(capture, [choice, operands])
        return record_call(capture, name, kernel, inputs, attributes, len(branches[0].outputs))

    return call


def _kinds(*, branches: tuple[Graph, ...]) -> list[tuple[Shape, DType]]:
    return kinds_of(branches[0], branches[0].outputs)


def _contract(call: Call) -> Contract:
    operands: Any = call.inputs[1]
    return dict.fromkeys(call.graphs, (kinds_in(operands), kinds_in(call.results)))


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
        _contract,
    )


# Inside of `pb.vmap` ------------------------------------------------------------------------------

_OF_ITEMS = "all of them return one structure, with the same shapes and dtypes"


def chosen(condition: Tensor, one: object, other: object) -> Any:
    """The values of one structure for the items where a condition holds, else of another one."""
    pairs = zip(leaves(one), leaves(other), strict=True)
    return like(one, iter([where(condition, x, y) for x, y in pairs]))


def _of_items(
    name: str, choice: Tensor, functions: Sequence[Callable[..., Any]], given: Sequence[Any]
) -> Any:
    """The results of several functions, for each item of the one that it chooses.

    All of them are called, as the items take different ones, and where values are not known.
    """
    if name == "cond":
        choice, functions = choice.astype("int32"), functions[::-1]
    results = [tensors(f(*given)) for f in functions]
    index = clip(choice, 0, len(results) - 1)
    found = results[0]
    for number, result in enumerate(results[1:], 1):
        before, after = "one function returns", "another one"
        check_alike(f"pb.{name}", before, found, after, result, _OF_ITEMS)
        found = chosen(equal(index, number), result, found)
    return found
