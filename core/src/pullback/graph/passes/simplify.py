"""Passes over graphs: each takes a graph and returns one that gives the same bits with fewer calls.

The passes know ops by their definitions, and no op by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeAlias

from pullback._once import kept_property
from pullback._tree import leaves
from pullback.dtypes import is_complex
from pullback.graph.emit import emit
from pullback.graph.graph import Argument, Call, Graph, NotTraceableError, Value, frozen
from pullback.shapes import broadcast
from pullback.spec import EXACT

#: What gives the values that a call computes, where they need not be computed; else None.
Rule: TypeAlias = Callable[[Call], "Sequence[Value] | None"]


def simplify(graph: Graph, *, any_layout: bool = False) -> Graph:
    """The graph after all passes, in their order, and once more where they may find more.

    Args:
        graph: the graph.
        any_layout: whether the memory layout of what it computes may be another one.
    """
    while True:
        graph = _without(graph, _identity, _Alike())
        shorter = drop_identity_elements(graph, any_layout=any_layout)
        # Calls that were made unlike by an identity element are found alike the second time.
        if len(shorter.calls) == len(graph.calls):
            return drop_dead(shorter)
        graph = drop_dead(shorter)


def drop_identity_elements(graph: Graph, *, any_layout: bool = False) -> Graph:
    """Calls with the identity element of their op, such as products with 1, are left out.

    The gradient of a sum has them: its cotangent is ones, broadcast and multiplied. The result may
    have another memory layout than the other input, and a sum of it would then add in another
    order. So the call stays where its layout comes to a call whose bits depend on layouts, and
    where it leaves the graph, unless it may have any layout there.
    """
    if not graph.constants:
        return graph
    filled = _Filled(graph)
    by_layout: set[Value] | None = None

    def rule(call: Call) -> Sequence[Value] | None:
        nonlocal by_layout
        filled.learn(call)
        unchanged = filled.unchanged_input(call)
        if unchanged is None:
            return None
        if by_layout is None:
            by_layout = _read_by_layout(graph, any_layout=any_layout)
        return None if call.results[0] in by_layout and not filled.is_alike(call) else (unchanged,)

    return _without(graph, rule)


def _read_by_layout(graph: Graph, *, any_layout: bool) -> set[Value]:
    """The values whose memory layout the bits of a result depend on."""
    found: set[Value] = set() if any_layout else set(graph.ends)
    for call in reversed(graph.calls):
        # Elementwise kernels hand the layout of their inputs on.
        if not call.ignores_layout or not found.isdisjoint(call.results):
            found.update(call.values)
    return found


def _without(graph: Graph, *rules: Rule) -> Graph:
    """The graph without the calls for which a rule has the values: the first that has any."""
    same: dict[Value, Value] = {}
    calls = []
    for call in graph.calls:
        if same:
            call = with_inputs(call, same)
        for rule in rules:
            values = rule(call)
            if values is not None:
                same.update(zip(call.results, values, strict=True))
                break
        else:
            calls.append(call)
    return with_ends(graph._replace(calls=tuple(calls)), same) if same else graph


# Rules --------------------------------------------------------------------------------------------


class _Alike:
    """Finds an earlier call of the same op, with equal attributes, on the same values."""

    def __init__(self) -> None:
        self._calls: dict[Any, list[Call]] = {}

    def __call__(self, call: Call) -> Sequence[Value] | None:
        """The results of such a call."""
        if call.op.is_ordered:
            return None
        before = self._calls.setdefault((call.op, call.inputs), [])
        if before:
            try:
                key = frozen((*call.attributes.items(),))
                for one in before:
                    if frozen((*one.attributes.items(),)) == key:
                        return one.results
            except NotTraceableError:
                return None
        before.append(call)
        return None


def _identity(call: Call) -> Sequence[Value] | None:
    """The first input of a call, if the result is nothing else."""
    when = call.op.identity_when
    if when is None or any(isinstance(value, Value) for value in call.attributes.values()):
        return None
    operand = call.inputs[0]
    if not isinstance(operand, Value):
        return None
    return (operand,) if when(operand.shape, **call.attributes) else None


class _Filled:
    """Finds the values of a graph whose elements are all equal to one number."""

    def __init__(self, graph: Graph) -> None:
        self._backend = graph.device.backend
        self._constants = graph.constants
        self._sources: dict[str, str] = {}
        self._known: dict[tuple[str, int], bool] = {}
        #: The results of elementwise calls, which are new arrays and no views.
        self._computed: set[Value] = set()

    def learn(self, call: Call) -> None:
        """Follows a value to the one that its elements are copied from.

        That may be a constant where the value itself is too large to be one.
        """
        if call.op.shape is broadcast and call.op.accuracy is not EXACT:
            self._computed.update(call.results)
        if call.op.copies_elements:
            value = call.inputs[0]
            assert isinstance(value, Value)
            self._sources[call.results[0].name] = self._sources.get(value.name, value.name)

    def unchanged_input(self, call: Call) -> Value | None:
        """The input that is the result, because the other one is the op's identity element.

        None for complex numbers: 1 times infinity is infinity + NaN i there.
        """
        element = call.op.identity_element
        if element is None:
            return None
        x1, x2 = call.values
        for neutral, unchanged in ((x1, x2), (x2, x1)):
            if (
                self._sources.get(neutral.name, neutral.name) in self._constants
                and neutral.shape in ((), unchanged.shape)
                and not is_complex(self._backend.public_dtypes[x1.dtype])
                and self._is_filled(neutral, element)
            ):
                return unchanged
        return None

    def is_alike(self, call: Call) -> bool:
        """Returns whether the result has the layout of the other input of an identity element.

        Elementwise kernels lay results out as their inputs are laid out, but for views.
        """
        x1, x2 = call.values
        return (x1 in self._computed and not x2.shape) or (x2 in self._computed and not x1.shape)

    def _is_filled(self, value: Value, number: int) -> bool:
        key = self._sources.get(value.name, value.name), number
        known = self._known.get(key)
        if known is None:
            array = self._backend.to_host(self._constants[key[0]])
            known = self._known[key] = bool((array == number).all())
        return known


def drop_dead(graph: Graph) -> Graph:
    """Calls and constants on which no output and no write depends are left out."""
    alive = set(graph.ends)
    calls = []
    for call in reversed(graph.calls):
        if call.op.is_ordered or not alive.isdisjoint(call.results):
            calls.append(call)
            alive.update(call.values)
    names = {value.name for value in alive}
    constants = {name: array for name, array in graph.constants.items() if name in names}
    return graph._replace(calls=tuple(calls[::-1]), constants=constants)


def with_inputs(call: Call, same: Mapping[Value, Value]) -> Call:
    """The call with each value of `same` replaced."""
    if not same or same.keys().isdisjoint(call.values):
        return call
    inputs = tuple(
        tuple(same.get(value, value) for value in operand)
        if isinstance(operand, tuple)
        else None
        if operand is None
        else same.get(operand, operand)
        for operand in call.inputs
    )
    return call._replace(inputs=inputs)


def with_ends(graph: Graph, same: Mapping[Value, Value]) -> Graph:
    """The graph with each value of `same` replaced where the graph ends."""
    return graph._replace(
        outputs=tuple(same.get(value, value) for value in graph.outputs),
        writes=tuple((target, same.get(value, value)) for target, value in graph.writes),
        after=tuple(
            (function, tuple(same.get(a, a) if isinstance(a, Value) else a for a in arguments))
            for function, arguments in graph.after
        ),
    )


# Composites without a kernel ----------------------------------------------------------------------

# One call, with the calls of its body inside: where gradients flow through a graph later, as those
# of a loop do, a composite has its rule, as op by op, and not the derivative of its body.
# What runs has the calls of the body.


class Body:
    """The kernel of such a call.

    Args:
        graph: the graph of the body.
        positions: for each input of the graph, its position among those of the call.
    """

    def __init__(self, graph: Graph, positions: Sequence[int]) -> None:
        self.graph = graph
        self._positions = positions

    @kept_property
    def _run(self) -> FunctionType:
        return emit(self.graph)

    def __call__(self, *inputs: Any, **_: object) -> Any:
        """Returns the native arrays of the results."""
        results = self._run(*self.given(inputs))
        return results[0] if len(results) == 1 else results

    def renamed(self, fresh: Callable[[], int], same: dict[Value, Value]) -> Body:
        """Returns the kernel for a graph whose values have other names."""
        return Body(renamed(self.graph, fresh, same), self._positions)

    def given(self, inputs: Sequence[Any]) -> list[Any]:
        """Returns what the graph gets of the inputs of a call."""
        flat = leaves([*inputs])
        return [flat[i] for i in self._positions]


def body_of(
    whole: Graph, calls: Sequence[Call], inputs: Sequence[Any], outputs: Sequence[Value]
) -> Body | None:
    """The kernel of a composite; None where its body reads more than its inputs and constants.

    Args:
        whole: a graph with the constants that the body may read.
        calls: those of the body.
        inputs: the operands of the composite.
        outputs: its results.
    """
    flat = leaves([*inputs])
    made = {*flat, *(value for call in calls for value in call.results)}
    read = {value for call in calls for value in call.values}.union(outputs) - made
    if any(value.name not in whole.constants for value in read):
        return None
    entries = tuple(Argument(value, i) for i, value in enumerate(dict.fromkeys(flat)))
    constants = {value.name: whole.constants[value.name] for value in read}
    graph = Graph(whole.device, entries, tuple(calls), tuple(outputs), constants)
    return Body(graph, [flat.index(entry.value) for entry in entries])


def renamed(
    graph: Graph, fresh: Callable[[], int], same: dict[Value, Value] | None = None
) -> Graph:
    """The graph with other names for its values, so that its calls may stand in another graph.

    Args:
        graph: a graph of arguments, constants and calls.
        fresh: gives a number that no name of the other graph has.
        same: the values that have other names already.
    """
    same = {} if same is None else same
    made = [entry.value for entry in graph.inputs]
    made += [value for call in graph.calls for value in call.results]
    for value in made:
        same.setdefault(value, Value(f"b{fresh()}", value.shape, value.dtype))
    constants = {name: (f"c{fresh()}", array) for name, array in graph.constants.items()}
    for value in {value for call in graph.calls for value in call.values}.union(graph.outputs):
        if value.name in constants:
            same.setdefault(value, Value(constants[value.name][0], value.shape, value.dtype))

    def of(call: Call) -> Call:
        if type(call.kernel) is Body:
            call = call._replace(kernel=call.kernel.renamed(fresh, same))
        results = tuple(same[value] for value in call.results)
        return with_inputs(call, same)._replace(results=results)

    return with_ends(graph, same)._replace(
        inputs=tuple(Argument(same[entry.value], i) for i, entry in enumerate(graph.inputs)),
        calls=tuple(map(of, graph.calls)),
        constants=dict(constants.values()),
    )


def lowered(graph: Graph) -> Graph:
    """The graph with the calls of bodies in place of composites, simplified."""
    if not any(type(call.kernel) is Body for call in graph.calls):
        return graph
    calls: list[Call] = []
    constants = dict(graph.constants)
    same: dict[Value, Value] = {}

    def add(call: Call) -> None:
        call = with_inputs(call, same)
        if type(call.kernel) is not Body:
            calls.append(call)
            return
        body = call.kernel.graph
        constants.update(body.constants)
        given = call.kernel.given(call.inputs)
        same.update(zip((entry.value for entry in body.inputs), given, strict=True))
        for inner in body.calls:
            add(inner)
        results = [same.get(value, value) for value in body.outputs]
        same.update(zip(call.results, results, strict=True))

    for call in graph.calls:
        add(call)
    graph = graph._replace(calls=tuple(calls), constants=constants)
    return simplify(with_ends(graph, same))
