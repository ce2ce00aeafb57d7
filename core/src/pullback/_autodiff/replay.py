"""The walk back as straight-line code: traced once for a graph, run for every later one like it.

A training loop builds the same graph at each step. When a graph of one form has been walked a few
times, the walk is traced down to the kernels that it calls, and compiled into a function that first
compares a graph with the one it was made for (the target's shape and dtype, ops and their order,
links, attributes, and the shape, dtype and device of every array), then calls the kernels on its
arrays. A graph that differs anywhere is walked; docs/architecture.md says why there is nothing else
that a rule can see. So is everything for which a trace could not stand: custom gradients and ops
from elsewhere, whose rules may be more than functions of their arguments; rules that look at
values; tapes that other tapes listen to.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

from pullback._autodiff import backward, seeds
from pullback._autodiff.backward import Span
from pullback._dispatch.recording import RECORDING, Leaf, Node, Output
from pullback._dispatch.vjp_code import layout
from pullback.devices import Device
from pullback.dtypes import is_floating
from pullback.graph.capture import NoTraceError, Trace, Traced, frozen
from pullback.spec import OPS, Op
from pullback.tensor import Tensor, wrap

#: How often a graph of one form is walked before its walk is compiled.
PATIENCE = 2
#: The largest number of nodes of a graph that is compiled.
_LARGEST = 4000
#: How many walks are kept for graphs that look alike from afar, and in all.
_ALIKE, _FORMS, _IN_ALL = 4, 4096, 256
#: How many numbers one comparison has.
_CHAIN = 100


#: Attributes that dispatch brings into one form, which can be compared as it is.
_NORMAL = frozenset({"Axis", "Axes", "ShapeLike", "DTypeLike", "bool", "int", "float", "str"})


class _Form:
    """Graphs that look alike from afar: the walks compiled for them, and how often none fitted."""

    __slots__ = ("built", "misses", "walks")

    def __init__(self) -> None:
        self.walks: list[Any] = []
        self.misses = 0
        self.built = 0


_forms: dict[tuple[Any, ...], _Form] = {}


def gradients(
    target: Any,
    marks: Sequence[Node | None],
    own: Collection[Node],
    span: Span,
    release: bool,
) -> list[Tensor | None] | None:
    """The gradient of a target with respect to each source; None where there is no code for it.

    Args:
        target: what the gradient is asked of.
        marks: the nodes at which the gradients of the sources are collected.
        own: every mark that the tape has made.
        span: the serial numbers between which the tape listened.
        release: whether nodes are let go as they have been passed.
    """
    if type(target) is not Tensor or RECORDING.count:
        return None
    node = target._node
    if type(node) is not Node and type(node) is not Output:
        return None
    low, high = span
    key = (node.op, node.serial - low, len(marks))
    form = _forms.get(key)
    if form is None:
        if len(_forms) >= _FORMS:
            _forms.clear()
        _forms[key] = _Form()
        return None
    for walk in form.walks:
        found: list[Tensor | None] | None = walk(target, marks, low, high, release)
        if found is not None:
            return found
    form.misses += 1
    if form.misses < PATIENCE or form.built > 2 * _ALIKE or set(marks) != own:
        return None
    form.built += 1
    return _traced(form, target, marks, own, span, release)


def _traced(
    form: _Form,
    target: Tensor,
    marks: Sequence[Any],
    own: Collection[Node],
    span: Span,
    release: bool,
) -> list[Tensor | None] | None:
    """Walks the graph in a trace, and keeps the walk."""
    if not is_floating(target.dtype):
        return None  # the walk says what is wrong with that
    trace = Trace(target._device, target._array)
    try:
        graph = _Graph(target, marks, span, trace)
    except NoTraceError:
        return None
    if release:
        graph.release()
    seed = seeds.ones(trace.tensor(target._array, "target"))
    wanted = set(marks)
    found = backward.walk([(graph.target, seed)], None, wanted, own, [span], True)
    parts = [seeds.leave(found.get(mark)) for mark in marks]
    # The trace and its device refer to each other: arrays are not to wait for the collector.
    trace.found.clear()
    # Numbers that met traced tensors are kept by ops for the next time, which does not come.
    for op in OPS.values():
        op.scalars.clear()
    results = [None if part is None else part._array for part in parts]
    if trace.sound and all(one is None or type(one) is Traced for one in results):
        if sum(len(one.walks) for one in _forms.values()) >= _IN_ALL:
            _forms.clear()
        names = [None if one is None else one.name for one in results]
        form.walks.insert(0, graph.compile(names))
        del form.walks[_ALIKE:]
    return [None if one is None else wrap(one.array, target._device) for one in results]


class _Graph:
    """A graph in a trace: its copy there, and the lines that compare another graph with it."""

    def __init__(self, target: Tensor, marks: Sequence[Any], span: Span, trace: Trace) -> None:
        self._device: Device = target._device
        self._trace = trace
        self._span = span
        self._marks = {mark: f"m{i}" for i, mark in enumerate(marks)}
        if len(self._marks) != len(marks) or None in self._marks:
            raise NoTraceError
        self._names: dict[Node, str] = {}
        self._copies: dict[Node, Node] = {}
        #: The globals of the code.
        self._scope: dict[str, Any] = {
            "Tensor": Tensor, "Output": Output, "Leaf": Leaf, "frozen": frozen,
            "device": target._device, "backend": target._device.backend,
            "native": target._device.backend.native,
        }  # fmt: skip
        self._arrays: list[str] = []
        #: The names of these by the identity of the array.
        self._kept: dict[int, str] = {}
        self.lines: list[str] = []
        if len(marks) > 1:
            self._unless(f"len({{{', '.join(self._marks.values())}}}) == {len(marks)}")
        # A source may be a tensor made on the way: the walk goes on behind it.
        self._unless(" and ".join(f"type({one}) is Leaf" for one in self._marks.values()))
        top = target._node
        backend = target._device.backend
        self._unless(f"target._device is device and backend.changes == {backend.changes}")
        # The cotangent that everything begins with is made of these.
        shape, dtype = target._array.shape, target._array.dtype
        self._unless(
            f"target._array.shape == {self._constant(shape)} "
            f"and target._array.dtype is {self._constant(dtype)}"
        )
        self._names[top] = "n0"
        waiting = [top]
        while waiting:
            node = waiting.pop()
            self._compare(node, self._names[node], waiting)
            if len(self._names) > _LARGEST:
                raise NoTraceError
        self._order()
        for node in self._names:
            self._copies[node].parents = tuple(
                None if one is None else one if one in self._marks else self._copies[one]
                for one in node.parents
            )
        self.target = self._copies[top]

    def _unless(self, condition: str) -> None:
        self.lines += [f"if not ({condition}):", "    return None"]

    def _order(self) -> None:
        """Compares the order in which ops were called: cotangents are added up in it, back."""
        calls = [node for node in self._names if type(node) is not Output]
        calls.sort(key=attrgetter("serial"), reverse=True)
        serials = [f"{self._names[node]}.serial" for node in calls]
        last = "high"
        for i in range(0, len(serials), _CHAIN):
            part = serials[i : i + _CHAIN]
            self._unless(" > ".join([last, *part]))
            last = part[-1]
        self._unless(f"{last} >= low")

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._scope)}"
        self._scope[name] = value
        return name

    # Comparing ------------------------------------------------------------------------------------

    def _compare(self, node: Node, name: str, waiting: list[Node]) -> None:
        if isinstance(node, Leaf):
            raise NoTraceError  # the mark of another tape
        self._copies[node] = copy = Output(node.serial, node, 0) if type(node) is Output else Node()
        copy.serial, copy.op, copy.device = node.serial, node.op, self._trace.device
        if type(node) is Output:
            position = copy.saved = node.saved
            whole = node.parents[0]
            # The cotangents of residuals go through bodies.
            if whole is None or type(whole.op) is not Op or position >= len(whole.op.outputs):
                raise NoTraceError
            self._unless(f"type({name}) is Output and {name}.saved == {position}")
        else:
            op = node.op
            if type(op) is not Op or not all(map(_is_ours, _functions(op))):
                raise NoTraceError
            low, high = self._span
            if node.device is not self._device or not low <= node.serial < high:
                raise NoTraceError
            if node.saved is None:
                raise NoTraceError
            self._unless(f"{name}.op is {self._constant(op)} and {name}.device is device")
            copy.saved = (self._plain if op.simple else self._full)(op, node, name)
        self._links(node, name, waiting)

    def _links(self, node: Node, name: str, waiting: list[Node]) -> None:
        targets: list[str] = []
        known: list[str] = []
        for parent in node.parents:
            here = f"p{len(targets)}"
            if parent is None:
                known.append(f"{here} is None")
            elif parent in self._marks:
                known.append(f"{here} is {self._marks[parent]}")
            elif parent in self._names:
                known.append(f"{here} is {self._names[parent]}")
            else:
                here = self._names[parent] = f"n{len(self._names)}"
                waiting.append(parent)
            targets.append(here)
        self.lines.append(f"{''.join(f'{one}, ' for one in targets)}= {name}.parents")
        if known:
            self._unless(" and ".join(known))

    def _plain(self, op: Op, node: Node, name: str) -> tuple[Any, ...]:
        """What a node of straight-line code keeps: a value for each name of the layout."""
        needs = list(layout(op))
        if not needs:
            return ()
        names = [f"{name}_{need}" for need in needs]
        self.lines.append(f"{''.join(f'{one}, ' for one in names)}= {name}.saved")
        return tuple(map(self._value, [op] * len(needs), needs, node.saved, names))

    def _full(self, op: Op, node: Node, name: str) -> tuple[Any, ...]:
        """What a node of the general path keeps."""
        lengths, saved, outputs, attributes, _ = node.saved
        self.lines.append(f"p0, {name}_saved, p1, p2, p3 = {name}.saved")
        self._unless(f"p0 == {self._constant(lengths)} and p1 == {self._constant(outputs)}")
        copied = {}
        for need, value in saved.items():
            here = f"{name}_{need}"
            self.lines.append(f"{here} = {name}_saved[{need!r}]")
            copied[need] = self._value(op, need, value, here)
        self.lines.append(f"del {name}_saved")
        return lengths, copied, outputs, attributes, {}

    def _value(self, op: Op, need: str, value: Any, name: str) -> Any:
        arrays = {one.name for one in op.inputs} | {*op.outputs, *op.residuals}
        if need not in arrays:
            form = next((one.form for one in op.attributes if one.name == need), "ShapeLike")
            if form == "DeviceLike":
                raise NoTraceError  # the rule goes to another device
            if value is None or type(value) is bool:
                self._unless(f"{name} is {value}")
            elif form in _NORMAL and type(value) is float and (value == 0 or value != value):
                self._unless(f"{name}.hex() == {value.hex()!r}")
            elif form in _NORMAL:
                self._unless(f"{name} == {self._constant(value)}")
            else:
                self._unless(f"frozen({name}) == {self._constant(frozen(value))}")
            return value
        if value is None:
            self._unless(f"{name} is None")
            return None
        if not isinstance(value, list):
            return self._array(value, name)
        items = [f"{name}_{i}" for i in range(len(value))]
        self.lines.append(f"{''.join(f'{one}, ' for one in items)}= {name}")
        self.lines.append(f"del {name}")
        return [self._array(one, item) for one, item in zip(value, items, strict=True)]

    def _array(self, array: Any, name: str) -> Traced:
        first = self._kept.get(id(array))
        if first is not None:
            # Kept twice, as the factors of x * x are: what is computed of it is computed once.
            self._unless(f"{name} is {first}")
            self.lines.append(f"del {name}")
            return Traced(array, first)
        self._kept[id(array)] = name
        # A dtype of NumPy's may be one of several equal objects: the others are walked.
        shape, dtype = self._constant(array.shape), self._constant(array.dtype)
        self._unless(f"{name}.shape == {shape} and {name}.dtype is {dtype}")
        self._arrays.append(name)
        return Traced(array, name)

    def release(self) -> None:
        """Lets the graph go; its copy has what it kept."""
        for node in self._names:
            if type(node) is not Output:
                node.saved, node.parents = None, ()

    # Calling --------------------------------------------------------------------------------------

    def compile(self, results: Sequence[str | None]) -> Any:
        """The function that compares, calls the kernels, and gives a tensor for each name."""
        lines = [
            "def walk(target, marks, low, high, release):",
            "    n0 = target._node",
            "    try:",
        ]
        lines.append(f"        {''.join(f'{one}, ' for one in self._marks.values())}= marks")
        lines += [f"        {line}" for line in self.lines]
        # Of other lengths than expected, or let go.
        lines += [
            "    except (TypeError, ValueError, KeyError, AttributeError):",
            "        return None",
        ]
        whole = [name for node, name in self._names.items() if type(node) is not Output]
        lines += ["    if release:"]
        lines += [f"        {one}.saved = None; {one}.parents = ()" for one in whole]
        same = self._same()
        results = [None if name is None else same.get(name, name) for name in results]
        lines += [f"    {line}" for line in self._calls(results, same)]
        found = []
        for i, name in enumerate(results):
            found.append("None" if name is None else f"t{i}")
            if name is not None:
                lines += [
                    f"    t{i} = Tensor()",
                    f"    t{i}._array = {name}",
                    f"    t{i}._device = device",
                    f"    t{i}._node = None",
                ]
        lines.append(f"    return [{', '.join(found)}]")
        exec(compile("\n".join(lines), "<pullback walk>", "exec"), self._scope)
        return self._scope.pop("walk")

    def _same(self) -> dict[str, str]:
        """The products with 1 that need not be computed, and what stands in their place.

        That lies otherwise in memory, it may be: where this could be seen, they are computed.
        """
        products = dict(self._trace.same)
        for call in self._trace.calls:
            if not call.by_element:
                for name in _flat(call.inputs):
                    products.pop(name, None)
        found: dict[str, str] = {}
        for product, factor in products.items():
            found[product] = found.get(factor, factor)  # made before it
        return found

    def _calls(self, results: Sequence[str | None], same: dict[str, str]) -> list[str]:
        """The calls that results depend on; each array is let go after its last use."""
        alive = {name for name in results if name is not None}
        lines: list[str] = []
        for call in reversed(self._trace.calls):
            if alive.isdisjoint(call.results):
                continue
            inputs = _renamed(call.inputs, same)
            used = dict.fromkeys(_flat(inputs))
            last = [one for one in used if one not in alive and one not in self._trace.constants]
            last += [one for one in call.results if one not in alive]
            if last:
                lines.append(f"del {', '.join(last)}")
            for result, foreign in zip(call.results, call.foreign, strict=True):
                if foreign:
                    lines.append(f"{result} = native({result})")
            arguments = [_text(one) for one in inputs]
            arguments += [f"{key}={self._literal(value)}" for key, value in call.attributes.items()]
            targets = ", ".join(call.results) + ("," if call.several else "")
            kernel = self._constant(call.kernel)
            lines.append(f"{targets} = {kernel}({', '.join(arguments)})")
            alive.update(used)
        self._scope.update({k: v for k, v in self._trace.constants.items() if k in alive})
        unused = [name for name in self._arrays if name not in alive]
        if unused:
            lines.append(f"del {', '.join(unused)}")
        return lines[::-1]

    def _literal(self, value: Any) -> str:
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        return self._constant(value)


def _functions(op: Op) -> list[Any]:
    return [op.body, *(rule.function for rule in op.rules.values() if rule is not None)]


def _is_ours(function: Any) -> bool:
    """Whether a body or rule is of this package: it is a function of what it names."""
    return str(function.__module__).startswith("pullback.")


def _flat(names: Any) -> list[str]:
    if isinstance(names, (list, tuple)):
        return [one for part in names for one in _flat(part)]
    return [] if names is None else [names]


def _renamed(names: Any, same: dict[str, str]) -> Any:
    if isinstance(names, (list, tuple)):
        return type(names)(_renamed(one, same) for one in names)
    return same.get(names, names)


def _text(names: Any) -> str:
    if isinstance(names, list):
        return f"[{', '.join(map(_text, names))}]"
    return str(names)
