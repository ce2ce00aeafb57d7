"""Compiles a backward pass: the comparison with other graphs, and the calls of the kernels.

A backward pass runs over a copy of the graph whose arrays are traced. What it calls is simplified
and printed behind the lines that compare a later graph with this one.

The names in the printed function: `n0`, `n1`, ... are nodes, the target's first; `m0`, ... the
leaves of the sources; `n1_x2` is what node `n1` kept as `x2`; `p0`, ... are parents that are
compared only; `k0`, ... constants; `v0`, ... results of kernels; `t0`, ... the returned tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeAlias

import numpy as np

from pullback._autodiff import seeds
from pullback._autodiff.backward import Interval, Sink, backpropagate
from pullback._codegen.source import Source
from pullback._dispatch.arguments import COMPARABLE
from pullback._dispatch.recording import Leaf, Node, Output
from pullback._dispatch.vjp_code import layout
from pullback.devices import Device
from pullback.dtypes import is_complex, is_floating
from pullback.graph.call_graph import CallGraph
from pullback.graph.emit import write_calls
from pullback.graph.graph import NotTraceableError, Value, frozen
from pullback.graph.passes.regions import fuse
from pullback.graph.passes.simplify import simplify
from pullback.graph.running import begin_early
from pullback.graph.trace import Trace, Traced
from pullback.ops.complex import conj
from pullback.plugins.records import Native
from pullback.spec import Op
from pullback.tensor import Tensor, new_tensor, wrap

#: The largest number of nodes of a graph that is compiled.
_LARGEST = 4000
#: The number of serial numbers in one comparison.
_CHAIN = 100

Gradients: TypeAlias = "list[Tensor | None]"


def trace(
    target: Tensor,
    seed: Native | None,
    leaves: Sequence[Any],
    own: Collection[Node],
    interval: Interval,
    release: bool,
    sink: Sink | None,
) -> tuple[Gradients | None, Callable[..., Gradients | None] | None]:
    """Runs a backward pass in a trace.

    Args:
        target: what is differentiated.
        seed: the array of its cotangent, of its shape and dtype; ones if None.
        leaves: the nodes of the sources.
        own: every leaf that the tape has made.
        interval: the serial numbers between which the tape recorded.
        release: whether nodes are released as the pass goes on.
        sink: what is done with the gradients as a part of the pass.

    Returns:
        the gradients, with the results of the sink behind them, and a function that computes them
        for graphs like this one. Both are None if the graph cannot be traced, the function alone
        if the trace could not stand for others.
    """
    if not is_floating(target.dtype):
        return None, None  # `backpropagate` raises the error
    recorded = Trace(target._device)
    try:
        comparison = _Comparison(target, seed, leaves, interval, recorded)
    except NotTraceableError:
        return None, None
    if release:
        comparison.release()
    value = Value("target", tuple(target._array.shape), target._array.dtype)
    if comparison.seed is None:
        cotangent = seeds.ones(wrap(Traced(target._array, value), recorded.device))
    else:
        cotangent = wrap(comparison.seed, recorded.device)
        cotangent = conj(cotangent) if is_complex(target.dtype) else cotangent
    start = [(comparison.target, cotangent)]
    cotangents = backpropagate(start, None, set(leaves), own, [interval], True)
    gradients = [seeds.finalize_gradient(cotangents.get(leaf)) for leaf in leaves]
    if sink is not None:
        gradients += sink(gradients)
    recorded.close()
    results = [None if gradient is None else gradient._array for gradient in gradients]
    compiled = None
    if recorded.sound:
        values = [None if result is None else result.value for result in results]
        compiled = comparison.compile(values)
    return [
        None if result is None else wrap(result.array, target._device) for result in results
    ], compiled


class _Comparison:
    """The lines that compare a graph with the one in a trace, and the copy of it in the trace."""

    def __init__(
        self,
        target: Tensor,
        seed: Native | None,
        leaves: Sequence[Any],
        interval: Interval,
        trace: Trace,
    ) -> None:
        self._device: Device = target._device
        self._trace = trace
        self._interval = interval
        self._leaves = {leaf: f"m{i}" for i, leaf in enumerate(leaves)}
        if len(self._leaves) != len(leaves) or None in self._leaves:
            raise NotTraceableError
        self._names: dict[Node, str] = {}
        self._copies: dict[Node, Node] = {}
        #: The values of the arrays that nodes kept, by the identity of the array.
        self._kept: dict[int, Value] = {}
        self._source = source = Source(
            "backward_pass",
            "target, seed, leaves, begin, end, release",
            {
                "new_tensor": new_tensor, "Output": Output, "Leaf": Leaf, "frozen": frozen,
                "device": self._device, "backend": self._device.backend,
            },
        )  # fmt: skip
        self.seed = None if seed is None else self._take_seed(seed)
        source.line("n0 = target._node")
        with source.block("try:"):
            source.line(f"{_targets(self._leaves.values())}= leaves")
            self._compare_all(target)
        # A node is released, or it has other lengths than expected.
        with source.block("except (TypeError, ValueError, KeyError, AttributeError):"):
            source.line("return None")
        for node in self._names:
            self._copies[node].parents = tuple(
                parent if parent is None or parent in self._leaves else self._copies[parent]
                for parent in node.parents
            )
        self.target = self._copies[next(iter(self._names))]

    def _take_seed(self, seed: Native) -> Traced:
        """The cotangent, whose shape and dtype are those of the target; a node may keep it too."""
        traced = self._trace.input(seed, "seed")
        self._kept[id(seed)] = traced.value
        return traced

    def release(self) -> None:
        """Releases the graph; its copy has what it kept."""
        for node in self._names:
            if type(node) is not Output:
                node.saved, node.parents = None, ()

    def compile(self, results: Sequence[Value | None]) -> FunctionType:
        """The function that compares, calls the kernels, and returns a tensor for each result."""
        source = self._source
        with source.block("if release:"):
            for node, name in self._names.items():
                if type(node) is not Output:
                    source.line(f"{name}.saved = None; {name}.parents = ()")
        outputs = [result for result in results if result is not None]
        graph = begin_early(fuse(simplify(self._trace.graph(outputs), any_layout=True)))
        texts = iter(write_calls(source, graph).outputs)
        tensors = []
        for i, result in enumerate(results):
            tensors.append("None" if result is None else f"t{i}")
            if result is not None:
                source.line(
                    f"t{i} = new_tensor()",
                    f"t{i}._array = {next(texts)}",
                    f"t{i}._device = device",
                    f"t{i}._node = t{i}._base = None",
                )
        source.line(f"return [{', '.join(tensors)}]")
        return source.compile()

    # Comparing ------------------------------------------------------------------------------------

    def _unless(self, condition: str) -> None:
        self._source.line(f"if not ({condition}):", "    return None")

    def _compare_all(self, target: Tensor) -> None:
        leaves, constant = self._leaves.values(), self._source.constant
        if len(leaves) == 2:
            self._unless(" is not ".join(leaves))
        elif len(leaves) > 2:
            self._unless(f"len({{{', '.join(leaves)}}}) == {len(leaves)}")
        # A source may be a tensor made on the way: the pass goes on behind it.
        self._unless(" and ".join(f"type({leaf}) is Leaf" for leaf in leaves))
        changes = self._device.backend.changes
        self._unless(f"target._device is device and backend.changes == {changes}")
        # The cotangent that everything begins with is made of these.
        shape, dtype = target._array.shape, target._array.dtype
        self._unless(
            f"target._array.shape == {constant(shape)} and target._array.dtype is {constant(dtype)}"
        )
        top = target._node
        assert top is not None
        self._names[top] = "n0"
        waiting = [top]
        while waiting:
            node = waiting.pop()
            self._compare(node, self._names[node], waiting)
            if len(self._names) > _LARGEST:
                raise NotTraceableError
        self._compare_order()

    def _compare_order(self) -> None:
        """Compares the order in which ops were called: cotangents are added in its reverse."""
        calls = [node for node in self._names if type(node) is not Output]
        calls.sort(key=attrgetter("serial"), reverse=True)
        serials = [f"{self._names[node]}.serial" for node in calls]
        last = "end"
        for i in range(0, len(serials), _CHAIN):
            part = serials[i : i + _CHAIN]
            self._unless(" > ".join([last, *part]))
            last = part[-1]
        self._unless(f"{last} >= begin")

    def _compare(self, node: Node, name: str, waiting: list[Node]) -> None:
        if isinstance(node, Leaf):
            raise NotTraceableError  # the leaf of another tape
        self._copies[node] = copy = Output(node.serial, node, 0) if type(node) is Output else Node()
        copy.serial, copy.op, copy.device = node.serial, node.op, self._trace.device
        if type(node) is Output:
            position = copy.saved = node.saved
            whole = node.parents[0]
            # The cotangents of residuals go through bodies.
            if whole is None:
                raise NotTraceableError
            recorded: object = whole.op
            if type(recorded) is not CallGraph and (
                type(recorded) is not Op or position >= len(recorded.outputs)
            ):
                raise NotTraceableError
            self._unless(f"type({name}) is Output and {name}.saved == {position}")
        else:
            copy.saved = self._compare_saved(node, name)
        self._compare_links(node, name, waiting)

    def _compare_saved(self, node: Node, name: str) -> tuple[Any, ...]:
        """Compares the op of a node, its device and what it keeps.

        Returns:
            the copy of what it keeps, with traced arrays.
        """
        op = node.op
        if not isinstance(op, (Op, CallGraph)):
            raise NotTraceableError
        if isinstance(op, Op) and not op.own:
            raise NotTraceableError
        begin, end = self._interval
        if node.device is not self._device or not begin <= node.serial < end or node.saved is None:
            raise NotTraceableError
        self._unless(f"{name}.op is {self._source.constant(op)} and {name}.device is device")
        if isinstance(op, CallGraph):
            return self._compare_call(op, node, name)
        return (self._compare_plain if op.simple else self._compare_full)(op, node, name)

    def _compare_links(self, node: Node, name: str, waiting: list[Node]) -> None:
        targets: list[str] = []
        known: list[str] = []
        for parent in node.parents:
            target = f"p{len(targets)}"
            if parent is None:
                known.append(f"{target} is None")
            elif parent in self._leaves:
                known.append(f"{target} is {self._leaves[parent]}")
            elif parent in self._names:
                known.append(f"{target} is {self._names[parent]}")
            else:
                target = self._names[parent] = f"n{len(self._names)}"
                waiting.append(parent)
            targets.append(target)
        self._source.line(f"{_targets(targets)}= {name}.parents")
        if known:
            self._unless(" and ".join(known))

    def _compare_call(self, op: CallGraph, node: Node, name: str) -> tuple[Any, ...]:
        """Compares what the node of a captured function keeps: its graph is a part of this one."""
        residuals = node.saved[: op.residuals]
        names = [f"{name}_{i}" for i in range(len(residuals))]
        self._source.line(f"{_targets(names)}*p0, = {name}.saved", "del p0")
        # The inputs behind them are for passes that the function does not have yet.
        return *map(self._compare_array, residuals, names), *node.saved[op.residuals :]

    def _compare_plain(self, op: Op, node: Node, name: str) -> tuple[Any, ...]:
        """Compares what a node of specialized code keeps: a value for each name of the layout."""
        needs = list(layout(op))
        if not needs:
            return ()
        names = [f"{name}_{need}" for need in needs]
        self._source.line(f"{_targets(names)}= {name}.saved")
        return tuple(map(self._compare_value, [op] * len(needs), needs, node.saved, names))

    def _compare_full(self, op: Op, node: Node, name: str) -> tuple[Any, ...]:
        """Compares what a node of the general path keeps."""
        constant = self._source.constant
        lengths, saved, outputs, attributes, _ = node.saved
        self._source.line(f"p0, {name}_saved, p1, p2, p3 = {name}.saved")
        self._unless(f"p0 == {constant(lengths)} and p1 == {constant(outputs)}")
        copied = {}
        for need, value in saved.items():
            variable = f"{name}_{need}"
            self._source.line(f"{variable} = {name}_saved[{need!r}]")
            copied[need] = self._compare_value(op, need, value, variable)
        self._source.line(f"del {name}_saved")
        return lengths, copied, outputs, attributes, {}

    def _compare_value(self, op: Op, need: str, value: Any, name: str) -> Any:
        arrays = {parameter.name for parameter in op.inputs} | {*op.outputs, *op.residuals}
        if need not in arrays:
            forms = {attribute.name: attribute.form for attribute in op.attributes}
            form = forms.get(need, "ShapeLike")  # `x_shape` and `x_dtype` are no attributes
            if form == "DeviceLike":
                raise NotTraceableError  # the rule goes to another device
            if value is None or type(value) is bool:
                self._unless(f"{name} is {value}")
            elif isinstance(value, np.dtype):  # as those of arrays, below
                self._unless(f"{name} is {self._source.constant(value)}")
            elif form in COMPARABLE and type(value) is float and (value == 0 or value != value):
                self._unless(f"{name}.hex() == {value.hex()!r}")
            elif form in COMPARABLE:
                self._unless(f"{name} == {self._source.constant(value)}")
            else:
                key = frozen(value)
                tests = list(_tests(name, value))
                if None in tests or len(tests) > _CHAIN:
                    tests = [f"frozen({name}) == {self._source.constant(key)}"]
                self._unless(" and ".join(map(str, tests)))
            return value
        if value is None:
            self._unless(f"{name} is None")
            return None
        if not isinstance(value, list):
            return self._compare_array(value, name)
        items = [f"{name}_{i}" for i in range(len(value))]
        self._source.line(f"{_targets(items)}= {name}", f"del {name}")
        return [self._compare_array(array, item) for array, item in zip(value, items, strict=True)]

    def _compare_array(self, array: Any, name: str) -> Traced:
        before = self._kept.get(id(array))
        if before is not None:
            # Kept twice, as the factors of x * x are: what is computed of it is computed once.
            self._unless(f"{name} is {before.name}")
            self._source.line(f"del {name}")
            return Traced(array, before)
        # NumPy may have several equal dtype objects: graphs with another object run op by op.
        constant = self._source.constant
        shape, dtype = constant(array.shape), constant(array.dtype)
        self._unless(f"{name}.shape == {shape} and {name}.dtype is {dtype}")
        traced = self._trace.input(array, name)
        self._kept[id(array)] = traced.value
        return traced


def _tests(text: str, value: Any) -> Iterator[str | None]:
    """Yields tests of an expression: its key is that of a value, as `frozen` has it.

    None for what only the key tells.
    """
    kind = type(value)
    if value is None or value is ... or kind is bool:
        yield f"{text} is {'...' if value is ... else value}"
    elif kind in (int, str):
        yield f"(p0 := {text}) == {value!r} and type(p0) is {kind.__name__}"
    elif kind in (tuple, list):
        yield f"type({text}) is {kind.__name__} and len({text}) == {len(value)}"
        for i, item in enumerate(value):
            yield from _tests(f"{text}[{i}]", item)
    elif kind is slice:
        yield f"type({text}) is slice"
        for part in ("start", "stop", "step"):
            yield from _tests(f"{text}.{part}", getattr(value, part))
    else:
        yield None


def _targets(names: Collection[str]) -> str:
    """The left side of an assignment that unpacks exactly as many values."""
    return "".join(f"{name}, " for name in names)
