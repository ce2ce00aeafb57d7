"""Calls of functions with a gradient of their own, in branches and steps that are differentiated.

The gradient of a branch is that of its ops. Such a function is one call among them, of two graphs:
that of its results, and that of its gradients, which begins with the ops of the first one. What
runs has the ops of the first one in place of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback import errors
from pullback._dispatch.recording import paused, reject_use
from pullback.dtypes import is_floating
from pullback.graph.call_graph import run_ops
from pullback.graph.control.call import (
    DERIVATIVES,
    OPS_OF,
    Contract,
    attach,
    capture_now,
    define,
    is_tracked,
    kinds_in,
    kinds_of_body,
    lifted,
    record_call,
    zeros_like,
)
from pullback.graph.graph import Call, InvalidGraphError
from pullback.graph.passes.simplify import Body, renamed
from pullback.spec import Arity
from pullback.tensor import Tensor

_NAME = "own_gradient"
_ADVICE = "call it without pb.function, or use pb.where for the choice"


def own_gradient(operands: Sequence[Tensor], **attributes: Any) -> list[Tensor]:
    """Calls such a function.

    Args:
        operands: the tensors of its arguments, and what it reads from outside.
        attributes: `body`, the graph of its results; `backward`, that of its gradients, whose
            inputs are the operands, and a cotangent for each floating result, or None where it was
            not traced; `gradients`, the operand of each gradient; `unruled`, the operands for which
            it has none, and `error`, what is wrong with asking for one.
    """
    capture, body = capture_now(), attributes["body"]
    if capture is None:
        with paused():
            results = run_ops(body, operands, operands[0]._device if operands else None)
        if is_tracked([operands]):
            attach(OPS_OF[_NAME](len(results)), [operands], attributes, results)
        return results
    kernel = Body(renamed(body, capture.trace.fresh), range(len(operands)))
    return record_call(
        capture, _NAME, kernel, lifted(capture, [operands]), attributes, len(body.outputs)
    )


def _contract(call: Call) -> Contract:
    operands: Any = call.inputs[0]
    given, results = kinds_in(operands), kinds_in(call.results)
    public = call.graphs["body"].device.backend.public_dtypes
    seeds = [kind for kind in results if is_floating(public[kind[1]])]
    places, backward = call.attributes["gradients"], call.attributes["backward"]
    if backward is None:
        return {"body": (given, results)}
    if not all(type(i) is int and 0 <= i < len(given) for i in places):
        raise InvalidGraphError(f"{call}: gradients has {places}, which are not operands")
    gradients = [given[i] for i in places]
    return {
        "body": (given, results),
        "backward": ([*given, *seeds][: len(backward.inputs)], gradients),
    }


def _derivative(
    inputs: list[Any],
    attributes: Mapping[str, Any],
    results: list[Tensor],
    cotangents: dict[int, Tensor],
    wanted: list[bool],
    _: Callable[[Sequence[int]], dict[int, Tensor]],
) -> list[Tensor | None]:
    (operands,) = inputs
    backward = attributes["backward"]
    if backward is None:
        reject_use(attributes["error"], _ADVICE)
        raise errors.NotDifferentiableError(f"a captured function {attributes['error']}; {_ADVICE}")
    if any(wanted[i] for i in attributes["unruled"]):
        raise errors.TapeError(attributes["error"])
    given = [
        cotangents[i] if i in cotangents else zeros_like(result)
        for i, result in enumerate(results)
        if is_floating(result.dtype)
    ]
    # The values of variables that it assigns come last, and have no gradient.
    parts = run_ops(backward, [*operands, *given][: len(backward.inputs)])
    found = dict(zip(attributes["gradients"], parts, strict=True))
    return [found.get(i) if is_wanted else None for i, is_wanted in enumerate(wanted)]


define(
    _NAME,
    {"operands": Arity.MANY},
    ["body", "backward", "gradients", "unruled", "error"],
    kinds_of_body,
    own_gradient,
    "Its gradient is that of a graph.",
    _contract,
)
DERIVATIVES[_NAME] = _derivative
