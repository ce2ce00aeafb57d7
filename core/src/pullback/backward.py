"""The walk back through the graph: cotangents from targets to sources, latest op first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from pullback import errors
from pullback.dispatch.recording import Node, Output

Span = tuple[int, int]

_serial = attrgetter("serial")


def needed_nodes(
    targets: Sequence[Node | None], sources: set[Node], own: Collection[Node], spans: list[Span]
) -> set[Node]:
    """The nodes on paths from `sources` to `targets` that a tape can see.

    Args:
        targets: where the paths end.
        sources: where they begin.
        own: the marks that the tape has made; nothing behind them is its own.
        spans: the spans of serial numbers in which the tape listened.
    """
    seen: set[Node] = set()
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        if node.op is not None:
            serial = node.serial
            if not any(begin <= serial < end for begin, end in spans):
                continue
        seen.add(node)
        if node not in own:
            stack.extend(node.parents)
    needed: set[Node] = set()
    # Inputs are older than what is made of them.
    for node in sorted(seen, key=_serial):
        if node in sources:
            needed.add(node)
        elif node not in own:
            for parent in node.parents:
                if parent in needed:
                    needed.add(node)
                    break
    return needed


def walk(
    parents: Sequence[Node | None],
    parts: Sequence[Any],
    needed: set[Node] | None,
    sources: Collection[Node],
    own: Collection[Node],
    spans: list[Span],
    release: bool,
) -> dict[Node, Any]:
    """Pulls cotangents back to `sources`.

    Nodes wait in a heap by serial number: inputs are older than what is made of them, so a node's
    turn comes when all of its cotangent has arrived.

    Args:
        parents: the nodes of the targets.
        parts: the cotangent of each target.
        needed: the nodes to pass through; None for all that the tape can see.
        sources: the nodes whose cotangents are wanted.
        own: the marks that the tape has made; nothing behind them is its own.
        spans: the spans of serial numbers in which the tape listened.
        release: whether nodes are let go as they have been passed.

    Returns:
        The cotangent of each source that was reached.

    Raises:
        TapeError: when the graph has been let go by an earlier walk.
    """
    low, high = spans[0] if len(spans) == 1 else (0, 0)
    found: dict[Node, Any] = {}
    heap: list[int] = []
    #: By serial number, negated as the heap wants it: the node, and its cotangent so far.
    waiting: dict[int, list[Any]] = {}
    while True:
        for parent, part in zip(parents, parts):  # noqa: B905 - on the hot path
            if part is None or parent is None:
                continue
            key = -parent.serial
            if key in waiting:
                entry = waiting[key]
                entry[1] = entry[1] + part
                continue
            if needed is not None:
                if parent not in needed:
                    continue
            elif (
                parent.op is not None
                and not low <= -key < high
                and not any(begin <= -key < end for begin, end in spans)
            ):
                continue
            waiting[key] = [parent, part]
            heappush(heap, key)
        if not heap:
            return found
        node, g = waiting.pop(heappop(heap))
        if node in sources:
            found[node] = g
        op = node.op
        parents = node.parents
        if op is not None:
            if node.saved is None:
                raise errors.TapeError(
                    "this part of the graph has been let go by the gradient() of another tape; "
                    "make that one with persistent=True"
                )
            parts = op.pull(node, g, needed)
            if release:
                # What the rules needed goes while the walk goes on.
                node.saved = None
                node.parents = ()
        elif type(node) is Output:
            # The cotangents of the several results of an op come together in a dict.
            whole = node.parents[0]
            assert whole is not None
            key = -whole.serial
            if key not in waiting:
                waiting[key] = [whole, {node.saved: g}]
                heappush(heap, key)
            else:
                by_position = waiting[key][1]
                have = by_position.get(node.saved)
                by_position[node.saved] = g if have is None else have + g
            parents = ()
        elif node in own:
            parents = ()
        else:
            parts = (g,) * len(parents)
