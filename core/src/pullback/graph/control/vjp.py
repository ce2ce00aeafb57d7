"""Gradients of branches and loops: calls of graphs themselves, so that every order is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback._dispatch.recording import CONSTANT, HOOKS
from pullback.dtypes import is_floating
from pullback.graph.call_graph import run_ops
from pullback.graph.control.branches import traced_branches
from pullback.graph.control.call import DERIVATIVES, zeros_like
from pullback.graph.control.loop_calls import traced_scan
from pullback.graph.graph import Graph
from pullback.tensor import Tensor, wrap


def pulled(
    graph: Graph,
    inputs: Sequence[Tensor],
    sources: Sequence[int],
    cotangents: Mapping[int, Tensor],
) -> list[Tensor | None]:
    """The cotangents of inputs of a graph, from those of its outputs by position."""
    outputs = [i for i in cotangents if is_floating(cotangents[i].dtype)]
    if not outputs or not sources:
        return [None] * len(sources)

    def run(*values: Tensor) -> list[Tensor]:
        given = list(inputs)
        for position, value in zip(sources, values, strict=True):
            given[position] = value
        results = run_ops(graph, given)
        # An output that depends on no source may be a tensor that no tape has seen.
        return [
            wrap(results[i]._array, results[i]._device, results[i]._node or CONSTANT)
            for i in outputs
        ]

    return HOOKS.vjp(run, [inputs[i] for i in sources], [cotangents[i] for i in outputs])


def _branches(name: str) -> Callable[..., list[Tensor | None]]:
    def derivative(
        inputs: list[Any],
        attributes: Mapping[str, Any],
        _: list[Tensor],
        cotangents: dict[int, Tensor],
        wanted: list[bool],
    ) -> list[Tensor | None]:
        choice, operands = inputs
        sources = [i for i, is_wanted in enumerate(wanted[1:]) if is_wanted]
        connected: set[int] = set()

        def branch(graph: Graph) -> Callable[[], list[Tensor]]:
            def run() -> list[Tensor]:
                found = pulled(graph, operands, sources, cotangents)
                connected.update(i for i, g in zip(sources, found, strict=True) if g is not None)
                return [
                    zeros_like(operands[i]) if g is None else g
                    for i, g in zip(sources, found, strict=True)
                ]

            return run

        functions = [branch(graph) for graph in attributes["branches"]]
        names = [f"the gradient of branches[{i}]" for i in range(len(functions))]
        parts = traced_branches(name, choice, functions, names)
        result: list[Tensor | None] = [None] * len(wanted)
        for position, part in zip(sources, parts, strict=True):
            result[position + 1] = part if position in connected else None
        return result

    return derivative


def _scan(
    inputs: list[Any],
    attributes: Mapping[str, Any],
    results: list[Tensor],
    cotangents: dict[int, Tensor],
    wanted: list[bool],
) -> list[Tensor | None]:
    consts, init, xs = inputs
    body, carries = attributes["body"], attributes["carries"]
    before = results[len(results) - attributes["saved"] :]
    first = len(consts) + carries
    # A carry may depend on what is wanted without being wanted itself.
    moving = [i for i in range(carries - attributes["states"]) if is_floating(init[i].dtype)]
    held = [i for i in range(len(consts)) if wanted[i]]
    elements = [i for i in range(len(xs)) if wanted[first + i]]
    sources = [*held, *(len(consts) + i for i in moving), *(first + i for i in elements)]
    rows = [i for i in cotangents if i >= carries]
    connected: set[int] = set()

    def step(carry: list[Tensor], x: list[Tensor]) -> tuple[list[Any], list[Any]]:
        outer, sums = carry[: len(moving)], carry[len(moving) :]
        element, now = x[: len(xs)], x[len(xs) : len(xs) + carries]
        g = dict(zip(moving, outer, strict=True))
        g.update(zip(rows, x[len(xs) + carries :], strict=True))
        values = [*consts, *now, *element]
        found = dict(zip(sources, pulled(body, values, sources, g), strict=True))
        connected.update(i for i, part in found.items() if part is not None)

        def part_of(i: int) -> Tensor:
            part = found[i]
            return zeros_like(values[i]) if part is None else part

        new_sums = [
            total if found[i] is None else total + found[i]
            for i, total in zip(held, sums, strict=True)
        ]
        return (
            [*(part_of(len(consts) + i) for i in moving), *new_sums],
            [part_of(first + i) for i in elements],
        )

    start = [cotangents[i] if i in cotangents else zeros_like(init[i]) for i in moving]
    start += [zeros_like(consts[i]) for i in held]
    through = [*xs, *before, *(cotangents[i] for i in rows)]
    length, reverse = attributes["length"], attributes["reverse"]
    what = "the gradient of pb.scan"
    last, parts = traced_scan(what, step, start, through, length, not reverse)
    result: list[Tensor | None] = [None] * len(wanted)
    for i, part in zip(moving, last, strict=False):
        if wanted[len(consts) + i]:
            result[len(consts) + i] = part
    for i, part in zip(held, last[len(moving) :], strict=True):
        result[i] = part if i in connected else None
    for i, part in zip(elements, parts, strict=True):
        result[first + i] = part if first + i in connected else None
    return result


DERIVATIVES.update({"cond": _branches("cond"), "switch": _branches("switch"), "scan": _scan})
