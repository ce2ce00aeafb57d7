"""Passes over graphs: each takes a graph and returns one that gives the same bits with fewer calls.

The passes know ops by their definitions; two ops, which make and take ones, they know by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from pullback.dtypes import is_complex
from pullback.graph.graph import Call, Graph, NotTraceableError, Operand, Value, frozen
from pullback.plugins.backend import Native

#: The number of elements up to which a value computed from constants becomes a constant.
LARGEST_CONSTANT = 1 << 14

# The ops that a pass knows by name: the cotangent of a sum is ones, broadcast and multiplied.
_PRODUCT, _BROADCAST = "multiply", "broadcast_to"


def simplify(graph: Graph) -> Graph:
    """The graph after all passes, in their order."""
    for simplification in PASSES:
        graph = simplification(graph)
    return graph


def common_subexpressions(graph: Graph) -> Graph:
    """Calls of one op with equal attributes on the same values become one call."""
    first: dict[Any, Call] = {}
    same: dict[Value, Value] = {}
    calls = []
    for call in graph.calls:
        call = _with_inputs(call, same)
        try:
            key = call.op, call.inputs, frozen(list(call.attributes.items()))
        except NotTraceableError:
            calls.append(call)
            continue
        before = first.setdefault(key, call)
        if before is call:
            calls.append(call)
        else:
            same.update(zip(call.results, before.results, strict=True))
    return _with_ends(graph._replace(calls=tuple(calls)), same)


def fold_constants(graph: Graph) -> Graph:
    """Runs the calls that depend on constants only; their results are constants, if small."""
    constants = dict(graph.constants)
    native = graph.device.backend.native
    calls = []
    for call in graph.calls:
        symbolic = any(isinstance(value, Value) for value in call.attributes.values())
        known = all(value.name in constants for value in call.values)
        small = all(math.prod(value.shape) <= LARGEST_CONSTANT for value in call.results)
        if not known or symbolic or not small:
            calls.append(call)
            continue
        arrays = call.kernel(
            *(_arrays(operand, constants) for operand in call.inputs), **call.attributes
        )
        for value, array, foreign in zip(
            call.results,
            arrays if len(call.results) > 1 else [arrays],
            call.foreign,
            strict=True,
        ):
            constants[value.name] = native(array) if foreign else array
    return graph._replace(calls=tuple(calls), constants=constants)


def _arrays(operand: Operand, constants: Mapping[str, Native]) -> Any:
    if isinstance(operand, tuple):
        return [constants[value.name] for value in operand]
    return None if operand is None else constants[operand.name]


def drop_identities(graph: Graph) -> Graph:
    """Calls whose result is their input are left out, such as a reshape to the same shape."""
    same: dict[Value, Value] = {}
    calls = []
    for call in graph.calls:
        call = _with_inputs(call, same)
        identity = _identity(call)
        if identity is None:
            calls.append(call)
        else:
            same[call.results[0]] = identity
    return _with_ends(graph._replace(calls=tuple(calls)), same)


def drop_products_with_one(graph: Graph) -> Graph:
    """Products with 1, as in the gradient of a sum, are left out.

    Such a product may have another memory layout than the other factor, and a sum of it would then
    add in another order. So it stays where a call reads it whose bits depend on layouts.
    """
    same: dict[Value, Value] = {}
    ones = _Ones(graph)
    by_layout = {value for call in graph.calls if not call.ignores_layout for value in call.values}
    calls = []
    for call in graph.calls:
        ones.learn(call)
        factor = None if call.results[0] in by_layout else ones.other_factor(call)
        if factor is None:
            calls.append(_with_inputs(call, same))
        else:
            same[call.results[0]] = same.get(factor, factor)
    return _with_ends(graph._replace(calls=tuple(calls)), same)


def _identity(call: Call) -> Value | None:
    """The first input of a call, if the result is nothing else."""
    when = call.op.identity_when
    if when is None or any(isinstance(value, Value) for value in call.attributes.values()):
        return None
    operand = call.inputs[0]
    if not isinstance(operand, Value):
        return None
    return operand if when(operand.shape, **call.attributes) else None


class _Ones:
    """Finds the values of a graph that are 1 at every element."""

    def __init__(self, graph: Graph) -> None:
        self._backend = graph.device.backend
        self._constants = graph.constants
        self._known: dict[str, bool] = {}

    def __contains__(self, value: Value) -> bool:
        known = self._known.get(value.name)
        if known is None:
            array = self._constants.get(value.name)
            known = array is not None and bool((self._backend.to_host(array) == 1).all())
            self._known[value.name] = known
        return known

    def learn(self, call: Call) -> None:
        """Ones that are broadcast are ones, also where they are too large to be a constant."""
        if call.op.name == _BROADCAST:
            value = call.inputs[0]
            assert isinstance(value, Value)
            self._known[call.results[0].name] = value in self

    def other_factor(self, call: Call) -> Value | None:
        """The factor that a product is equal to because the other one is 1.

        None for complex numbers: 1 times infinity is infinity + NaN i there.
        """
        if call.op.name != _PRODUCT:
            return None
        one, other = call.inputs
        assert isinstance(one, Value)
        assert isinstance(other, Value)
        if is_complex(self._backend.public_dtypes[one.dtype]):
            return None
        for factor, result in ((one, other), (other, one)):
            if factor.shape in ((), result.shape) and factor in self:
                return result
        return None


def drop_dead(graph: Graph) -> Graph:
    """Calls and constants on which no output and no write depends are left out."""
    alive = set(graph.ends)
    calls = []
    for call in reversed(graph.calls):
        if not alive.isdisjoint(call.results):
            calls.append(call)
            alive.update(call.values)
    names = {value.name for value in alive}
    constants = {name: array for name, array in graph.constants.items() if name in names}
    return graph._replace(calls=tuple(calls[::-1]), constants=constants)


#: The passes in their order.
PASSES: tuple[Callable[[Graph], Graph], ...] = (
    drop_identities,
    common_subexpressions,
    fold_constants,
    drop_products_with_one,
    drop_dead,
)


def _with_inputs(call: Call, same: Mapping[Value, Value]) -> Call:
    """The call with other values in the place of those that are gone."""
    if same.keys().isdisjoint(call.values):
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


def _with_ends(graph: Graph, same: Mapping[Value, Value]) -> Graph:
    """The graph with other outputs and writes in the place of those that are gone."""
    return graph._replace(
        outputs=tuple(same.get(value, value) for value in graph.outputs),
        writes=tuple((target, same.get(value, value)) for target, value in graph.writes),
    )
