"""The kernel to blame when an op fails that is made of others: one that fails its own samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial

from pullback import dtypes
from pullback._autodiff.tape import GradientTape
from pullback._tree import each, leaves
from pullback.graph.trace import Trace
from pullback.spec import Op
from pullback.tensor import Tensor
from pullback_conformance.case import Case, as_tuple
from pullback_conformance.report import Failure


def used(case: Case) -> list[Op]:
    """The ops whose kernels run in a call and its gradient, in the order of their first call."""
    trace = Trace(case.device)
    inputs = [each(partial(_traced, trace), value) for value in case.tensors()]
    tensors = [x for x in leaves(inputs) if isinstance(x, Tensor)]
    watched = [x for x in tensors if dtypes.is_floating(x.dtype)]
    try:
        with GradientTape() as tape:
            tape.watch(watched)
            outputs = as_tuple(case.call(inputs))
        targets = [x for x in outputs if dtypes.is_floating(x.dtype)]
        if watched and targets:
            tape.gradient(targets, watched)
    except Exception:
        pass  # the calls until then are recorded
    finally:
        trace.close()
    return list(dict.fromkeys(call.op for call in trace.graph([]).calls))


def culprit(case: Case, fails: Callable[[Op], bool], *, by_value: bool) -> str:
    """The name of the op to blame for a failure of another one; empty if it is its own.

    Args:
        case: the case that failed.
        fails: whether an op fails its own samples.
        by_value: whether the result itself is wrong, which only a kernel of the op explains if it
            has one.
    """
    op = case.op
    own = op.primitive or bool(case.device.backend.kernels_for(op.name))
    if own and by_value:
        return ""
    return _first(other for other in used(case) if other is not op and fails(other))


def settled(failures: Iterable[Failure], measured: Collection[str]) -> list[Failure]:
    """The failures of a run, with causes only where they explain something.

    An op that has no failure of its own, other than declared ones, explains none of others. Two ops
    that are each to blame for the other, by their gradients, both have failures of their own.

    Args:
        failures: the failures of all ops.
        measured: the ops of the run; what is known of others is that they fail their samples.
    """
    every = list(failures)
    own = {one.op for one in every if not one.cause and not one.needs}
    blamed: dict[str, set[str]] = {}
    for one in every:
        if one.cause:
            blamed.setdefault(one.op, set()).add(one.cause)

    def explains(cause: str, op: str) -> bool:
        return (cause in own or cause not in measured) and op not in _beyond(cause, blamed)

    return [
        replace(one, cause="") if one.cause and not explains(one.cause, one.op) else one
        for one in every
    ]


def _beyond(op: str, blamed: dict[str, set[str]]) -> set[str]:
    """The ops that are blamed for an op, and those that are blamed for them."""
    found: set[str] = set()
    waiting = [op]
    while waiting:
        causes = blamed.get(waiting.pop(), set()) - found
        found |= causes
        waiting += causes
    return found


def _first(ops: Iterable[Op]) -> str:
    return next((op.name for op in ops), "")


def _traced(trace: Trace, value: object) -> object:
    return trace.argument(value._array, "x") if isinstance(value, Tensor) else value
