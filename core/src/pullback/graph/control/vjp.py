"""Gradients of branches and loops: calls of graphs themselves, so that every order is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pullback._dispatch.general_vjp import pull_back
from pullback._dispatch.recording import CONSTANT
from pullback.dtypes import is_complex, is_floating
from pullback.graph.call_graph import run_ops
from pullback.graph.control.branches import traced_branches
from pullback.graph.control.call import DERIVATIVES, zeros_like
from pullback.graph.control.loops import traced_scan
from pullback.graph.graph import Graph
from pullback.ops.joining import concat
from pullback.ops.manipulation import expand_dims
from pullback.tensor import Tensor, wrap


def pulled(
    graph: Graph,
    inputs: Sequence[Tensor],
    sources: Sequence[int],
    cotangents: Mapping[int, Tensor],
    begun: Mapping[int, Tensor],
    same: Mapping[int, int] = MappingProxyType({}),
) -> list[Tensor | None]:
    """The cotangents of inputs of a graph, from those of its outputs by position.

    Those of `begun`, by position too, are added to, in the order of the graph's ops. None is
    returned where nothing was added. Inputs of `same` are the same tensor as another input, which
    has their cotangent.
    """
    outputs = [i for i in cotangents if is_floating(cotangents[i].dtype)]
    if not outputs or not sources:
        return [None] * len(sources)
    # The conjugate of a cotangent would be another array.
    first = [i for i in sources if i in begun and not is_complex(begun[i].dtype)]

    def run(given: list[Tensor]) -> list[Tensor]:
        for position, other in same.items():
            given[position] = given[other]
        results = run_ops(graph, given)
        # An output that depends on no source may be a tensor that no tape has seen.
        return [given[i] for i in first] + [
            wrap(results[i]._array, results[i]._device, results[i]._node or CONSTANT)
            for i in outputs
        ]

    parts = [begun[i] for i in first] + [cotangents[i] for i in outputs]
    found = pull_back(run, inputs, sources, parts)
    for place, i in enumerate(sources):
        g = found[place]
        if g is not None and i in begun:
            is_same = g._array is begun[i]._array
            found[place] = None if is_same else g if i in first else begun[i] + g
    return found


def _branches(name: str) -> Callable[..., list[Tensor | None]]:
    def derivative(
        inputs: list[Any],
        attributes: Mapping[str, Any],
        _: list[Tensor],
        cotangents: dict[int, Tensor],
        wanted: list[bool],
        begun: Callable[[Sequence[int]], dict[int, Tensor]],
    ) -> list[Tensor | None]:
        choice, operands = inputs
        wanted_here = [i for i, is_wanted in enumerate(wanted[1:]) if is_wanted]
        same = _shared(operands, wanted_here)
        sources = [i for i in wanted_here if i not in same]
        before = {i - 1: g for i, g in begun([i + 1 for i in sources]).items()}
        connected: set[int] = set()

        def branch(graph: Graph) -> Callable[[], list[Tensor]]:
            def run() -> list[Tensor]:
                found = pulled(graph, operands, sources, cotangents, before, same)
                connected.update(i for i, g in zip(sources, found, strict=True) if g is not None)
                return [
                    (before[i] if i in before else zeros_like(operands[i])) if g is None else g
                    for i, g in zip(sources, found, strict=True)
                ]

            return run

        functions = {
            f"the gradient of branches[{i}]": branch(graph)
            for i, graph in enumerate(attributes["branches"])
        }
        parts = traced_branches(name, choice, functions)
        result: list[Tensor | None] = [None] * len(wanted)
        for position, part in zip(sources, parts, strict=True):
            is_there = position in connected or position in before
            result[position + 1] = part if is_there else None
        return result

    return derivative


def _scan(
    inputs: list[Any],
    attributes: Mapping[str, Any],
    results: list[Tensor],
    cotangents: dict[int, Tensor],
    wanted: list[bool],
    begun: Callable[[Sequence[int]], dict[int, Tensor]],
) -> list[Tensor | None]:
    consts, init, xs = inputs
    body, carries, length = attributes["body"], attributes["carries"], attributes["length"]
    before = results[len(results) - attributes["saved"] :]
    first = len(consts) + carries
    # A carry may depend on what is wanted without being wanted itself.
    moving = [i for i in range(carries - attributes["states"]) if is_floating(init[i].dtype)]
    held = [i for i in range(len(consts)) if wanted[i]]
    elements = [i for i in range(len(xs)) if wanted[first + i]]
    sources = [*held, *(len(consts) + i for i in moving), *(first + i for i in elements)]
    rows = [i for i in cotangents if i >= carries]
    through = [*xs, *before, *(cotangents[i] for i in rows)]
    #: The cotangents of the carry and the sums of those of constants, as far as they are there.
    outer = {i: cotangents[i] for i in moving if i in cotangents}
    sums = begun(held)
    connected = set(sums)

    def back(
        outer: Mapping[int, Tensor],
        sums: Mapping[int, Tensor],
        x: Sequence[Tensor],
        same: Mapping[int, int],
    ) -> tuple[dict[int, Tensor], dict[int, Tensor], list[Tensor]]:
        """Goes back through a step."""
        element, now = x[: len(xs)], x[len(xs) : len(xs) + carries]
        g = {**outer, **dict(zip(rows, x[len(xs) + carries :], strict=True))}
        values = [*consts, *now, *element]
        asked = [i for i in sources if i not in same]
        pulls = zip(asked, pulled(body, values, asked, g, sums, same), strict=True)
        found = {i: part for i, part in pulls if part is not None}
        connected.update(found)
        return (
            {i: found[len(consts) + i] for i in moving if len(consts) + i in found},
            {**sums, **{i: found[i] for i in held if i in found}},
            [found[first + i] if first + i in found else zeros_like(element[i]) for i in elements],
        )

    def step(carry: list[Tensor], x: list[Tensor]) -> tuple[list[Any], list[Any]]:
        given = dict(zip(moving, carry, strict=False))
        totals = dict(zip(held, carry[len(moving) :], strict=True))
        given, totals, parts = back(given, totals, x, {})
        now = x[len(xs) : len(xs) + carries]
        return [
            *(given[i] if i in given else zeros_like(now[i]) for i in moving),
            *totals.values(),
        ], parts

    order = [*range(length)] if attributes["reverse"] else [*range(length - 1, -1, -1)]
    shared = _shared([*consts, *init], [i for i in sources if wanted[i]])
    #: The cotangents of elements, by the index of the first one.
    pieces: dict[int, list[Tensor]] = {}

    def apart(index: int, same: Mapping[int, int]) -> None:
        """Goes back through a step beside the loop."""
        nonlocal outer, sums
        outer, sums, parts = back(outer, sums, [x[index] for x in through], same)
        pieces[index] = [expand_dims(part, 0) for part in parts]

    # The last step, where carries are not used behind it: they have no cotangent, not zeros. The
    # first one, where one tensor is a carry and a constant: its parts are added up there.
    if len(outer) < len(moving) and order:
        index = order.pop(0)
        apart(index, {} if order else shared)
    last = order.pop() if shared and order else None
    if order:
        # What -0 is added to stays what it is, -0 too.
        start = [outer[i] if i in outer else zeros_like(init[i]) for i in moving]
        start += [sums[i] if i in sums else zeros_like(consts[i], -0.0) for i in held]
        low, high = min(order), max(order) + 1
        reverse = not attributes["reverse"]
        what = "the gradient of pb.scan"
        middle = [x if high - low == length else x[low:high] for x in through]
        carry, pieces[low] = traced_scan(what, step, start, middle, high - low, reverse)
        outer = {i: g for i, g in zip(moving, carry, strict=False) if len(consts) + i in connected}
        sums = {i: g for i, g in zip(held, carry[len(moving) :], strict=True) if i in connected}
    if last is not None:
        apart(last, shared)
    result: list[Tensor | None] = [None] * len(wanted)
    for i in moving:
        if wanted[len(consts) + i]:
            result[len(consts) + i] = outer.get(i)
    for i in held:
        result[i] = sums.get(i)
    for place, i in enumerate(elements):
        if first + i in connected:
            parts = [pieces[index][place] for index in sorted(pieces)]
            whole = concat(parts) if len(parts) > 1 else parts[0]
            # Op by op, each row is added to zeros in the place of the others: -0 becomes 0.
            result[first + i] = whole + 0.0 if length > 1 else whole
    return result


def _shared(inputs: Sequence[Tensor], sources: Sequence[int]) -> dict[int, int]:
    """The positions of tensors that are given twice, each with its first position."""
    found: dict[Any, int] = {}
    firsts = {i: found.setdefault(inputs[i]._node, i) for i in sources if i < len(inputs)}
    return {i: other for i, other in firsts.items() if i != other}


DERIVATIVES.update({"cond": _branches("cond"), "switch": _branches("switch"), "scan": _scan})
