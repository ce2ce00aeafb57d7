"""The backward pass: cotangents travel from targets to sources, through the latest op first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, Protocol

from pullback import errors
from pullback._dispatch.recording import LOCAL, Leaf, Node, Output, followed, unfollowed
from pullback._symbols import TRACES
from pullback.spec import Op
from pullback.tensor import Tensor

Interval = tuple[int, int]
#: The nodes that wait for their turn, each with its cotangent so far, by serial number. The numbers
#: are negated: a heap gives the smallest first, and the latest op comes first.
_Waiting = dict[int, list[Any]]
#: What bounds a backward pass: the needed nodes or None for all, the leaves and the intervals of
#: the tape.
_Reach = tuple[set[Node] | None, Collection[Node], list[Interval]]

_serial = attrgetter("serial")


class Sink(Protocol):
    """A function that begins something with gradients while the backward pass goes on."""

    @property
    def key(self) -> tuple[object, ...]:
        """Sinks with equal keys do the same with gradients of the same shapes and dtypes."""

    def __call__(self, gradients: Sequence[Tensor | None], /) -> list[Tensor]: ...


def needed_nodes(
    targets: Sequence[Node | None],
    sources: set[Node],
    own: Collection[Node],
    intervals: list[Interval],
) -> set[Node]:
    """The nodes on paths from `sources` to `targets` that a tape can see.

    Args:
        targets: the nodes at which the paths end.
        sources: the nodes at which they begin.
        own: the leaves that the tape has made; it does not look behind them.
        intervals: the serial numbers between which the tape recorded.
    """
    #: Each node with its parents, and each leaf of another tape with the node behind it.
    seen: dict[Node, list[Node]] = {}
    origins: dict[Node, Node] = {}
    stack = [node for node in targets if node is not None]
    while stack:
        node = stack.pop()
        if type(node) is Leaf and node not in own:
            origin = behind_foreign_leaves(node, own)
            if origin is None:
                continue
            origins[node] = origin
            node = origin
        if node in seen:
            continue
        if node.op is not None and node not in own:
            serial = node.serial
            if not any(begin <= serial < end for begin, end in intervals):
                continue
        seen[node] = [] if node in own else [one for one in node.parents if one is not None]
        stack.extend(seen[node])
    needed: set[Node] = set()
    # Inputs are older than what is made of them.
    for node in sorted(seen, key=_serial):
        if node in sources or any(origins.get(one, one) in needed for one in seen[node]):
            needed.add(node)
    needed.update(leaf for leaf, origin in origins.items() if origin in needed)
    return needed


def behind_foreign_leaves(node: Node | None, own: Collection[Node]) -> Node | None:
    """The node that a tape sees where leaves of other tapes stand in front of it.

    They do not belong to its record: a leaf that another thread has made since is younger by its
    serial number than the results computed from the tensor before.
    """
    while type(node) is Leaf and node not in own:
        parents = node.parents
        # Behind the value of a variable are leaves of several tapes, at most one of them its own.
        own_leaves = parents if len(parents) < 2 else [one for one in parents if one in own]
        node = own_leaves[0] if own_leaves else None
    return node


def live_origin(node: Node | None) -> Node | None:
    """The node that a new leaf stands on: leaves that no live tape owns are skipped."""
    while isinstance(node, Leaf):
        if node.saved is None:
            # A variable's value, with the leaves of several tapes behind it.
            if any(leaf.saved.live for leaf in node.parents if leaf is not None):
                return node
            return None
        if node.saved.live:
            return node
        node = node.origin
    return node


def backpropagate(
    cotangents: Iterable[tuple[Node, Any]],
    needed: set[Node] | None,
    sources: Collection[Node],
    own: Collection[Node],
    intervals: list[Interval],
    release: bool,
) -> dict[Node, Any]:
    """Carries cotangents from targets back to `sources`.

    Nodes wait in a heap by serial number: inputs are older than what is made of them, so a node
    comes out when all of its cotangent has arrived.

    Args:
        cotangents: the node of each target, and its cotangent.
        needed: the nodes to pass through; None for all that the tape can see.
        sources: the nodes whose cotangents are wanted.
        own: the leaves that the tape has made; it does not look behind them.
        intervals: the serial numbers between which the tape recorded.
        release: whether nodes are released as the pass goes on.

    Returns:
        The cotangent of each source that was reached.

    Raises:
        TapeError: when an earlier backward pass has released the graph.
    """
    if TRACES.count and LOCAL.state.follower is not None:
        with unfollowed():
            return backpropagate(cotangents, needed, sources, own, intervals, release)
    collected: dict[Node, Any] = {}
    heap: list[int] = []
    waiting: _Waiting = {}
    reach = needed, own, intervals
    _admit(cotangents, waiting, heap, collected, reach)

    def take(node: Node) -> Any:
        """Returns what has arrived at a node so far; it counts as not arrived from now on."""
        if type(node) is Leaf and node not in own:
            origin = behind_foreign_leaves(node, own)
            if origin is None:
                return None
            node = origin
        entry = waiting.pop(-node.serial, None)
        return collected.pop(node, None) if entry is None else entry[1]

    while heap:
        entry = waiting.pop(heappop(heap), None)
        if entry is None:
            continue  # it was taken, and has come out
        node, g = entry
        if node in sources:
            collected[node] = g
            if node in own:
                continue
        op = node.op
        if op is not None:
            if node.saved is None:
                raise _released()
            if type(op) is Op and (op.own or not TRACES.count):
                cotangents = op.vjp(node, g, needed)
            elif not TRACES.count:
                cotangents = op.vjp(node, g, needed, take)
            else:
                more = () if type(op) is Op else (take,)
                with followed():
                    cotangents = [*op.vjp(node, g, needed, *more)]
            _admit(cotangents, waiting, heap, collected, reach)
            if release:
                # What the rules needed goes while the pass goes on.
                node.saved = None
                node.parents = ()
        elif type(node) is Output:
            _merge(node, g, waiting, heap, reach)
    return collected


def _admit(
    cotangents: Iterable[tuple[Node, Any]],
    waiting: _Waiting,
    heap: list[int],
    collected: dict[Node, Any],
    reach: _Reach,
) -> None:
    """Adds up the cotangents of each node; a node that the pass meets for the first time waits."""
    needed, own, intervals = reach
    for node, part in cotangents:
        if type(node) is Leaf and node not in own:
            origin = behind_foreign_leaves(node, own)
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
                # Nothing lies behind it: it need not wait.
                collected[node] = collected[node] + part if node in collected else part
                continue
        else:
            for begin, end in intervals:
                if begin <= -key < end:
                    break
            else:
                if node in own:
                    collected[node] = collected[node] + part if node in collected else part
                continue
        waiting[key] = [node, part]
        heappush(heap, key)


def _merge(output: Output, g: Any, waiting: _Waiting, heap: list[int], reach: _Reach) -> None:
    """The cotangents of the several results of an op come together in a dict by position."""
    whole = output.parents[0]
    assert whole is not None
    key = -whole.serial
    needed, _, intervals = reach
    if needed is None and not any(begin <= -key < end for begin, end in intervals):
        return
    if key not in waiting:
        waiting[key] = [whole, {output.saved: g}]
        heappush(heap, key)
        return
    by_position = waiting[key][1]
    have = by_position.get(output.saved)
    by_position[output.saved] = g if have is None else have + g


def _released() -> errors.TapeError:
    return errors.TapeError(
        "the gradient() of another tape has released this part of the graph; "
        "make that tape with persistent=True"
    )
