"""A pass that fuses calls: groups of elementwise calls become one call each.

A group has calls of one iteration space, the shape of their results: each reads what another one
makes, or an array that another one reads. Reductions over all, the leading or the trailing axes
end a group. Calls that work on rows, such as softmax over the last axis, join what they read and
what reads them. Which ops are taken says the backend (`fusible`), which also makes the kernel
(`fuse`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from pullback._once import kept_property
from pullback.graph.emit import emit
from pullback.graph.graph import Argument, Call, Fused, Graph, Value
from pullback.plugins.backend import Backend
from pullback.plugins.records import Fuser, Kernel
from pullback.shapes import Shape, broadcast_shapes, reduce, reduced, size_of
from pullback.spec import Op

_Axis: TypeAlias = int | Sequence[int] | None
#: The number of calls that one kernel takes at most.
LARGEST_REGION = 48
#: Groups are of calls among so many in a row: looking for them takes as long as the cube of that.
WINDOW = 512


def fuse(graph: Graph, fusers: Iterable[Fuser] | None = None) -> Graph:
    """The graph with a call of a fused kernel in place of each group of calls that has one.

    Args:
        graph: the graph.
        fusers: who makes fused kernels; those of the graph's backend if None.
    """
    for fuser in graph.device.backend.fusers() if fusers is None else fusers:
        if any(call.op.name in fuser.ops for call in graph.calls):
            calls = [call for part in _windows(graph) for call in _fused(part, fuser)]
            if len(calls) < len(graph.calls):
                graph = graph._replace(calls=tuple(calls))
    return graph


def _windows(graph: Graph) -> list[Graph]:
    """The graph in parts of some calls each, whose outputs are what is read after them."""
    alive = dict.fromkeys(graph.ends)
    parts = []
    for last in range(len(graph.calls), 0, -WINDOW):
        calls = graph.calls[max(0, last - WINDOW) : last]
        parts.append(graph._replace(calls=calls, outputs=tuple(alive), writes=(), after=()))
        alive.update(dict.fromkeys(_read(calls)))
    return parts[::-1]


def _fused(graph: Graph, fuser: Fuser) -> Sequence[Call]:
    """The calls of a graph, with those of fused kernels."""
    regions: dict[int, Call] = {}
    users = _Users(graph)
    groups = _Groups(graph, fuser)
    for members in groups.of(range(len(graph.calls))):
        for positions, call in _fused_calls(graph, users, fuser, groups, members):
            regions.update(dict.fromkeys(positions, call))
    return _ordered(graph, regions) if regions else graph.calls


class Region(Graph):
    """The calls of a group as a graph of their own, as `fuse` of a backend gets them."""

    @kept_property
    def _run(self) -> Kernel:
        return emit(self, "region")

    def op_by_op(self, *inputs: Any) -> Any:
        """A kernel that calls those of the region one after the other."""
        results = self._run(*inputs)
        return results if len(results) > 1 else results[0]


# Groups ------------------------------------------------------------------------------------------


class _Group:
    """Calls that become one. Calls are bits of `mask`, and the members in their order."""

    __slots__ = ("mask", "members", "split")

    def __init__(self, i: int, split: Shape | None) -> None:
        self.mask = 1 << i
        self.members = [i]
        #: How reductions and rows split the iteration space; None without any.
        self.split = split


class _Groups:
    """The groups of a graph in the making: at first each call is one by itself.

    `ancestors` has for each call the calls before it on which its group depends, with all members
    of their groups. A group may take in another one if no path leaves it and comes back.
    """

    def __init__(self, graph: Graph, fuser: Fuser) -> None:
        self._calls = graph.calls
        producers = {value: i for i, call in enumerate(graph.calls) for value in call.results}
        #: The ancestors of each call where no group has two.
        self._alone: list[int] = []
        ordered = 0
        for k, call in enumerate(graph.calls):
            above = ordered if call.op.is_ordered else 0
            for i in {producers[value] for value in call.values if value in producers}:
                above |= 1 << i | self._alone[i]
            self._alone.append(above)
            if call.op.is_ordered:
                ordered = above | 1 << k
        self._producers = producers
        self._constants = graph.constants
        self._spaces = [_space(call, graph.device.backend, fuser) for call in graph.calls]
        self._ancestors: list[int] = []
        self._readers: dict[Value, list[int]] = {}
        self._of: list[_Group | None] = []

    def of(self, among: Iterable[int]) -> list[list[int]]:
        """The groups of two calls or more among these, by their positions in the graph.

        Calls over rows come last: others form the groups that they would form without them.
        """
        self._ancestors = self._alone.copy()
        self._readers = {}
        self._of = [None] * len(self._calls)
        members = (i for i in among if self._spaces[i] is not None)
        for i in sorted(members, key=lambda i: takes_rows(self._calls[i].op)):
            self._place(i)
        groups = dict.fromkeys(group for group in self._of if group is not None)
        return [sorted(each.members) for each in groups if len(each.members) > 1]

    def _place(self, i: int) -> None:
        """Joins a call to what it reads, to others that read the same, and to its readers."""
        space = self._spaces[i]
        if space is None:
            return
        self._of[i] = _Group(i, space[1])
        for value in dict.fromkeys(self._calls[i].values):
            if value.shape != space[0][0] or value.name in self._constants:
                continue
            readers = self._readers.setdefault(value, [])
            producer = self._producers.get(value)
            if producer is not None and self._calls[producer].op.copies_elements:
                continue
            for near in readers if producer is None else [producer, *readers]:
                self._join(near, i)
            readers.append(i)
        for value in self._calls[i].results:
            for reader in self._readers.get(value, ()):
                self._join(reader, i)

    def _join(self, near: int, i: int) -> None:
        a, b = self._of[near], self._of[i]
        near_space, space = self._spaces[near], self._spaces[i]
        if a is None or b is None or a is b or near_space is None or space is None:
            return
        if near_space[0] != space[0] or len(a.members) + len(b.members) > LARGEST_REGION:
            return
        if None not in (a.split, b.split) and a.split != b.split:
            return
        if self._comes_back(a, b) or self._comes_back(b, a):
            return
        a.mask |= b.mask
        a.members += b.members
        a.split = a.split or b.split
        above = a.mask
        for member in a.members:
            above |= self._ancestors[member]
        for member in b.members:
            self._of[member] = a
        for k, ancestors in enumerate(self._ancestors):
            if ancestors & a.mask or a.mask >> k & 1:
                self._ancestors[k] = ancestors | above

    def _comes_back(self, a: _Group, b: _Group) -> bool:
        """Returns whether b depends on a through what is in neither, or through a reduction.

        What a call over rows gives for each row is a reduction too.
        """
        for member in b.members:
            for value in self._calls[member].values:
                i = self._producers.get(value)
                if i is None:
                    continue
                if a.mask >> i & 1:
                    call = self._calls[i]
                    if call.op.shape is reduce or value.shape != call.results[0].shape:
                        return True
                elif not b.mask >> i & 1 and self._ancestors[i] & a.mask:
                    return True
        return False


def _space(
    call: Call, backend: Backend, fuser: Fuser
) -> tuple[tuple[Shape, Any], Shape | None] | None:
    """The iteration space of a call with its dtype, and how it is split; None for no member."""
    values = [operand for operand in call.inputs if isinstance(operand, Value)]
    if call.op.name not in fuser.ops or call.op.copies_elements or not values:
        return None
    on_rows = takes_rows(call.op)
    absent = call.inputs.count(None) if on_rows else 0  # such as a scale
    if len(values) + absent < len(call.inputs) or any(
        isinstance(value, Value) for value in call.attributes.values()
    ):
        return None
    entries = backend.kernels_for(call.op.name)
    if not any(e.kernel is call.kernel and e.priority <= fuser.priority for e in entries):
        return None
    dtypes = [value.dtype for value in (*call.results, *values)]
    dtype = next((dtype for dtype in dtypes if _kind(backend, dtype) != "b"), dtypes[0])
    if call.op.shape is reduce:
        shape = values[0].shape
        split = _split(shape, call.attributes.get("axis"))
        return None if split is None or len(values) > 1 else ((shape, dtype), split)
    shape = call.results[0].shape
    shapes, split = [shape], None
    if on_rows:
        axes = _axes(shape, call.attributes["axis"])
        split = _split(shape, axes)
        if split is None or split[2] > 1 or values[0].shape != shape:
            return None
        shapes.append(reduced(shape, axes, True))
    if any(value.shape not in shapes for value in call.results):
        return None
    rest = {value.shape for value in values} - {shape, ()}
    if any(len(x) > len(shape) or broadcast_shapes(x, shape) != shape for x in rest):
        return None
    return (shape, dtype), split


def takes_rows(op: Op) -> bool:
    """Returns whether an op takes the elements along an axis together, as softmax does."""
    return op.shape is not reduce and any(one.name == "axis" for one in op.attributes)


def _kind(backend: Backend, dtype: Any) -> str:
    return backend.public_dtypes[dtype].kind


def _split(shape: Shape, axis: _Axis) -> Shape | None:
    """The sizes before, of and after the axes of a reduction; None for axes in the middle."""
    axes = _axes(shape, axis)
    if not axes or list(axes) != list(range(axes[0], axes[-1] + 1)):
        return None
    before, after = size_of(shape[: axes[0]]), size_of(shape[axes[-1] + 1 :])
    if before > 1 and after > 1:
        return None
    return before, size_of(shape[axes[0] : axes[-1] + 1]), after


def _axes(shape: Shape, axis: _Axis) -> Shape:
    """All axes for None, as a tuple."""
    if axis is None:
        return tuple(range(len(shape)))
    return (axis,) if isinstance(axis, int) else tuple(axis)


# Regions -----------------------------------------------------------------------------------------


class _Users:
    """Who reads the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.ends = set(graph.ends)
        self.readers: dict[Value, set[int]] = {}
        self.makers: dict[Value, Call] = {}
        for i, call in enumerate(graph.calls):
            for value in call.values:
                self.readers.setdefault(value, set()).add(i)
            self.makers.update(dict.fromkeys(call.results, call))


def _fused_calls(
    graph: Graph, users: _Users, fuser: Fuser, groups: _Groups, members: Sequence[int]
) -> Iterator[tuple[Sequence[int], Call]]:
    """The calls of fused kernels for a group.

    Where the backend has none, the group is tried without its calls over rows, then without its
    reductions, and then in halves.
    """
    if len(members) < 2:
        return
    region = _region(graph, users, fuser, members)
    try:
        kernel = fuser.fuse(region)
    except Exception as error:
        warn_once(
            ("fuse", fuser.source),
            f"fuse of {fuser.source!r} raised {type(error).__name__}: {error}; captured functions "
            f"run without its fused kernels",
        )
        return
    if kernel is None:
        for part in _parts(graph, groups, members):
            yield from _fused_calls(graph, users, fuser, groups, part)
        return
    inputs = tuple(entry.value for entry in region.inputs)
    foreign = (False,) * len(region.outputs)
    yield members, Call(Fused(region), kernel, inputs, {}, region.outputs, foreign)


def _parts(graph: Graph, groups: _Groups, members: Sequence[int]) -> list[Sequence[int]]:
    """The parts to try of a group that has no kernel as a whole."""
    rest = [i for i in members if not takes_rows(graph.calls[i].op)]
    if len(rest) < len(members):  # which may leave several groups
        return list(groups.of(rest))
    rest = [i for i in members if graph.calls[i].op.shape is not reduce]
    half = len(members) // 2
    return [rest] if len(rest) < len(members) else [members[:half], members[half:]]


def _region(graph: Graph, users: _Users, fuser: Fuser, members: Sequence[int]) -> Region:
    """The calls of a group as a graph of their own, with the numbers that they repeat."""
    calls = [graph.calls[i] for i in members]
    made = {value for call in calls for value in call.results}
    repeats: list[Call] = []
    for value in _read(calls):
        maker = users.makers.get(value)
        if value not in made and maker is not None and _repeats_a_number(maker, fuser):
            repeats.append(maker)
            made.update(maker.results)
    calls = [*repeats, *calls]
    read = [value for value in dict.fromkeys(_read(calls)) if value not in made]
    inside = set(members)
    outputs = [
        value
        for i in members
        for value in graph.calls[i].results
        if value in users.ends or not users.readers.get(value, set()) <= inside
    ]
    inputs = [value for value in read if value.name not in graph.constants]
    return Region(
        graph.device,
        tuple(Argument(value, i) for i, value in enumerate(inputs)),
        tuple(calls),
        tuple(outputs),
        {v.name: graph.constants[v.name] for v in read if v.name in graph.constants},
    )


def _repeats_a_number(call: Call, fuser: Fuser) -> bool:
    sizes = [size_of(value.shape) for value in call.values]
    return call.op.name in fuser.ops and call.op.copies_elements and sizes == [1]


def _read(calls: Iterable[Call]) -> Iterator[Value]:
    for call in calls:
        yield from call.values


# Order -------------------------------------------------------------------------------------------


def _ordered(graph: Graph, regions: dict[int, Call]) -> list[Call]:
    """The calls with regions in place of their members, each after what it reads.

    A region comes where the first of its results is read, or where its last member was.
    """
    calls = [regions.get(i, call) for i, call in enumerate(graph.calls)]
    makers: dict[Value, int] = {}
    last: dict[int, int] = {}
    #: What a call of an op with an order comes after.
    after: dict[int, Call] = {}
    collective = None
    for i, call in enumerate(calls):
        if call.op.is_ordered:
            if collective is not None:
                after[id(call)] = collective
            collective = call
        makers.update(dict.fromkeys(call.results, i))
        last[id(call)] = i
    placed: set[int] = set()
    ordered: list[Call] = []
    for i, call in enumerate(calls):
        waiting = [call] if last[id(call)] == i else []
        while waiting:
            each = waiting[-1]
            if id(each) in placed:
                waiting.pop()
                continue
            before = [calls[makers[value]] for value in each.values if value in makers]
            before += [after[id(each)]] if id(each) in after else []
            before = [maker for maker in before if id(maker) not in placed]
            if before:
                waiting += before[::-1]
                continue
            placed.add(id(each))
            ordered.append(waiting.pop())
    alive = set(graph.ends)
    kept = []
    for call in reversed(ordered):
        # What repeats a number may be in regions only.
        if not call.op.copies_elements or not alive.isdisjoint(call.results):
            kept.append(call)
            alive.update(call.values)
    return kept[::-1]


# Warnings -----------------------------------------------------------------------------------------


#: The hooks that were warned of: the source, and the op where it matters.
WARNED: set[tuple[str, ...]] = set()


def warn_once(key: tuple[str, ...], message: str) -> None:
    """Warns that a hook failed, unless it was warned of before.

    Args:
        key: the name of the hook, and of the backend, pack or op that it failed for.
        message: the warning.
    """
    if key not in WARNED:
        WARNED.add(key)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
