"""The walk back through the graph: cotangents from targets to sources, latest op first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any

from pullback import errors
from pullback._dispatch.recording import Leaf, Node, Output

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
    #: Each node with the nodes behind it, and each mark of another tape with what is behind that.
    seen: dict[Node, list[Node]] = {}
    marks: dict[Node, Node] = {}
    stack = [node for node in targets if node is not None]
    while stack:
        node = stack.pop()
        if type(node) is Leaf and node not in own:
            origin = past_marks(node, own)
            if origin is None:
                continue
            marks[node] = origin
            node = origin
        if node in seen:
            continue
        if node.op is not None:
            serial = node.serial
            if not any(begin <= serial < end for begin, end in spans):
                continue
        seen[node] = [] if node in own else [one for one in node.parents if one is not None]
        stack.extend(seen[node])
    needed: set[Node] = set()
    # Inputs are older than what is made of them.
    for node in sorted(seen, key=_serial):
        if node in sources or any(marks.get(one, one) in needed for one in seen[node]):
            needed.add(node)
    needed.update(mark for mark, origin in marks.items() if origin in needed)
    return needed


def past_marks(node: Node | None, own: Collection[Node]) -> Node | None:
    """What a tape sees where the marks of other tapes stand in front of it.

    They are no part of its record: one that another thread has made since is younger by its serial
    number than what was computed from the tensor before.
    """
    while type(node) is Leaf and node not in own:
        parents = node.parents
        # Behind the value of a variable are marks of several tapes, at most one of them of this.
        own_marks = parents if len(parents) < 2 else [one for one in parents if one in own]
        node = own_marks[0] if own_marks else None
    return node


def live_origin(node: Node | None) -> Node | None:
    """What a new mark on a tensor stands on: marks that no live tape owns are passed over."""
    while isinstance(node, Leaf):
        if node.saved is None:
            # A variable's value, with the marks of several tapes behind it.
            if any(mark.saved.live for mark in node.parents if mark is not None):
                return node
            return None
        if node.saved.live:
            return node
        node = node.origin
    return node


def walk(
    arrived: Iterable[tuple[Node, Any]],
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
        arrived: the node of each target, and its cotangent.
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
        for node, part in arrived:
            if type(node) is Leaf and node not in own:
                origin = past_marks(node, own)
                if origin is None:
                    continue
                node = origin
            key = -node.serial
            if key in waiting:
                entry = waiting[key]
                entry[1] = entry[1] + part
                continue
            if needed is not None:
                if node not in needed:
                    continue
            elif node.op is None:
                if node in own:
                    # Nothing behind it is to be visited: it need not wait its turn.
                    found[node] = found[node] + part if node in found else part
                    continue
            elif not low <= -key < high and not any(a <= -key < b for a, b in spans):
                continue
            waiting[key] = [node, part]
            heappush(heap, key)
        if not heap:
            return found
        node, g = waiting.pop(heappop(heap))
        if node in sources:
            found[node] = g
        op = node.op
        if op is not None:
            if node.saved is None:
                raise errors.TapeError(
                    "this part of the graph has been let go by the gradient() of another tape; "
                    "make that one with persistent=True"
                )
            arrived = op.vjp(node, g, needed)
            if release:
                # What the rules needed goes while the walk goes on.
                node.saved = None
                node.parents = ()
        elif type(node) is Output:
            _merge(node, g, waiting, heap)
            arrived = ()
        else:
            arrived = ()


def _merge(node: Output, g: Any, waiting: dict[int, list[Any]], heap: list[int]) -> None:
    """The cotangents of the several results of an op come together in a dict by position."""
    whole = node.parents[0]
    assert whole is not None
    key = -whole.serial
    if key not in waiting:
        waiting[key] = [whole, {node.saved: g}]
        heappush(heap, key)
        return
    by_position = waiting[key][1]
    have = by_position.get(node.saved)
    by_position[node.saved] = g if have is None else have + g
