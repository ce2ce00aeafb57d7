"""Recording and the vjp of an op in general: for calls without specialized code."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pullback._dispatch.bodies import run_body
from pullback._dispatch.convert import flatten, sequence_lengths, unflatten
from pullback._dispatch.recording import HOOKS, LOCAL, Leaf, Node, Output, reachable
from pullback._operators import OPERATORS
from pullback.devices import Device
from pullback.dtypes import is_floating
from pullback.spec import Op, Rule
from pullback.tensor import Tensor, wrap


def record(
    op: Op,
    inputs: list[Any],
    outputs: list[Tensor],
    residuals: list[Any],
    attributes: Mapping[str, Any],
    device: Device,
) -> None:
    """Gives the outputs a node, which saves what the rules of the tracked inputs ask for."""
    state = LOCAL.state
    if not state.recording:
        return
    if op.fixed:
        nodes = [None if value is None else value._node for value in inputs]
        arrays = [None if value is None else value._array for value in inputs]
        results = [tensor._array for tensor in outputs] + residuals
        others = [attributes[attribute.name] for attribute in op.attributes]
        recorded = op.record(*nodes, *arrays, *results, device, *others)
        new_nodes = recorded if len(outputs) > 1 else [recorded]
        for tensor, node in zip(outputs, new_nodes, strict=True):
            tensor._node = node
        return
    oldest = state.oldest_serial
    parents: list[Node | None] = []
    needs: dict[str, None] = {}
    for parameter, value in zip(op.inputs, inputs, strict=True):
        rule = op.rules.get(parameter.name)
        nodes = [
            None
            if rule is None or tensor is None or tensor._node is None
            else reachable(tensor._node, oldest)
            for tensor in (value if type(value) is list else (value,))
        ]
        parents += nodes
        if rule is not None and any(nodes):
            needs.update(dict.fromkeys(rule.needs))
    if not needs and not any(parents):
        return
    if op.residuals:
        # In higher orders a residual has a cotangent of its own, which only the body can pull back.
        needs.update(dict.fromkeys([parameter.name for parameter in op.inputs]))
    needs.pop("wanted", None)
    node = Node()
    node.serial = state.next_serial()
    node.op = op
    node.parents = tuple(parents)
    node.device = device
    # The nodes of the results, by position: this node must not keep them alive.
    nodes_of_results: dict[int, weakref.ref[Node]] = {}
    kinds = [(tensor.shape, tensor.dtype) for tensor in outputs]
    sources = _sources(op)
    values = inputs, [tensor._array for tensor in outputs] + residuals, attributes
    saved = {need: _saved(*sources[need], values) for need in needs}
    node.saved = (sequence_lengths(op, tuple(inputs)), saved, kinds, attributes, nodes_of_results)
    if len(outputs) == 1 and not residuals:
        outputs[0]._node = node
        return
    for position, tensor in enumerate(outputs):
        if is_floating(kinds[position][1]):
            tensor._node = output = Output(state.next_serial(), node, position)
            nodes_of_results[position] = weakref.ref(output)


@functools.cache
def _sources(op: Op) -> dict[str, tuple[int, Any, str]]:
    """For each value that a rule may name, the arguments `group, key, part` of `_saved`."""
    sources: dict[str, tuple[int, Any, str]] = {}
    for i, name in enumerate((*op.outputs, *op.residuals)):
        sources[name] = (1, i, "")
    # An input may be named as a result is, such as the `out` of a gradient's op: it goes first.
    for i, parameter in enumerate(op.inputs):
        sources[parameter.name] = (0, i, "_array")
        sources[f"{parameter.name}_shape"] = (0, i, "shape")
        sources[f"{parameter.name}_dtype"] = (0, i, "dtype")
    for attribute in op.attributes:
        sources[attribute.name] = (2, attribute.name, "")
    return sources


def _saved(group: int, key: Any, part: str, values: tuple[Any, ...]) -> Any:
    """A value that a node saves: of the inputs, results (residuals last) or attributes."""
    value = values[group][key]
    if not part or value is None:
        return value
    if type(value) is list:
        return [getattr(tensor, part) for tensor in value]
    return getattr(value, part)


def vjp(
    node: Node, g: Tensor | dict[int, Tensor], needed: Collection[Node] | None
) -> list[tuple[Node, Tensor]]:
    """The cotangents of a node's inputs, each with its node, from those of its results.

    Args:
        node: a node that `record` made.
        g: the cotangent of the result; for several results, or residuals, a dict by position.
        needed: the nodes whose cotangents are needed; None for all.
    """
    op = node.op
    assert isinstance(op, Op)
    lengths, saved, outputs, attributes, nodes_of_results = node.saved
    device = node.device
    names = [parameter.name for parameter in op.inputs]
    parents = unflatten(list(node.parents), lengths)
    nodes: dict[str, Any] = dict(zip(names, parents, strict=True))
    if isinstance(g, dict):
        nodes = {**_output_nodes(op, node, nodes_of_results), **nodes}
        if any(position >= len(outputs) for position in g):
            return pairs(node, _vjp_of_body(op, saved, nodes, attributes, g, lengths, device))
        parts = tuple(
            g[position] if position in g else OPERATORS.full(shape, 0, dtype=dtype, device=device)
            for position, (shape, dtype) in enumerate(outputs)
        )
        cotangent: Tensor | tuple[Tensor, ...] = parts if len(parts) > 1 else parts[0]
    else:
        cotangent = g
        nodes.setdefault(op.outputs[0], node)
    wanted = {
        name: any(
            n is not None and (needed is None or n in needed)
            for n in (value if isinstance(value, list) else [value])
        )
        for name, value in zip(names, parents, strict=True)
    }

    def need(rule: Rule, name: str) -> Any:
        if name == "wanted":
            return tuple(wanted[target] for target in rule.targets)
        return _restore(saved[name], nodes[name], device) if name in nodes else saved[name]

    results: dict[str, Any] = {}
    for name in names:
        rule = op.rules.get(name)
        if rule is None or not wanted[name] or name in results:
            continue
        split = rule.function.__code__.co_argcount - 1
        values = [need(rule, each) for each in rule.needs]
        named = dict(zip(rule.needs[split:], values[split:], strict=True))
        result = rule.function(cotangent, *values[:split], **named)
        results.update(
            zip(rule.targets, result, strict=True) if rule.joint else {rule.targets[0]: result}
        )
    flat: list[Tensor | None] = []
    for name, length in zip(names, lengths, strict=True):
        value = results.get(name)
        if length is None:
            flat.append(value)
        else:
            flat += [None] * length if value is None else list(value)
    return pairs(node, flat)


def by_rules(
    op: Op,
    inputs: Sequence[Any],
    results: Sequence[Tensor],
    attributes: Mapping[str, Any],
    g: dict[int, Tensor],
) -> list[Tensor | None]:
    """The cotangents of an op's inputs by its rules, for a call that has no node.

    Args:
        op: the op.
        inputs: its inputs; None for one that is absent, a list for a sequence.
        results: its results, the residuals last.
        attributes: in canonical form.
        g: the cotangents of the results by position.
    """
    lengths = sequence_lengths(op, tuple(inputs))
    outputs = results[: len(op.outputs)]
    needs = {need for rule in op.rules.values() if rule is not None for need in rule.needs}
    needs = needs.union([parameter.name for parameter in op.inputs]) - {"wanted"}
    sources = _sources(op)
    values = inputs, [tensor._array for tensor in results], attributes
    node = Node()
    node.serial = -1
    node.op = op
    node.parents = tuple(None if tensor is None else Leaf(-1) for tensor in flatten(inputs))
    node.device = results[0]._device
    kinds = [(tensor.shape, tensor.dtype) for tensor in outputs]
    saved = {need: _saved(*sources[need], values) for need in needs}
    node.saved = (lengths, saved, kinds, attributes, {})
    found = dict(vjp(node, g[0] if len(results) == 1 else g, None))
    return [None if end is None else found.get(end) for end in node.parents]


def pairs(node: Node, flat: Sequence[Tensor | None]) -> list[tuple[Node, Tensor]]:
    """The cotangents that are not None, each with the node of its input."""
    return [
        (parent, part)
        for parent, part in zip(node.parents, flat, strict=True)
        if parent is not None and part is not None
    ]


def _restore(value: Any, node: Any, device: Device) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [wrap(array, device, n) for array, n in zip(value, node, strict=True)]
    return wrap(value, device, node)


def _output_nodes(
    op: Op, node: Node, nodes_of_results: dict[int, weakref.ref[Node]]
) -> dict[str, Node]:
    # Results and residuals as the rules see them: for a tape further out, each is a result of
    # `node` again, and the very tensor that the caller has as long as there is one.
    next_serial = LOCAL.state.next_serial
    nodes: dict[str, Node] = {}
    for position, name in enumerate((*op.outputs, *op.residuals)):
        output = nodes_of_results[position]() if position in nodes_of_results else None
        nodes[name] = Output(next_serial(), node, position) if output is None else output
    return nodes


def _vjp_of_body(
    op: Op,
    saved: dict[str, Any],
    nodes: dict[str, Any],
    attributes: Mapping[str, Any],
    g: dict[int, Tensor],
    lengths: tuple[int | None, ...],
    device: Device,
) -> list[Tensor | None]:
    """The cotangents through the body: the rule knows nothing of a residual's cotangent."""
    flat: list[Any] = []
    for parameter in op.inputs:
        value = _restore(saved[parameter.name], nodes[parameter.name], device)
        flat += value if isinstance(value, list) else [value]
    present = [i for i, value in enumerate(flat) if value is not None and is_floating(value.dtype)]

    def run(given: list[Any]) -> list[Tensor]:
        result = run_body(op, unflatten(given, lengths), attributes)
        return [result[position] for position in g]

    pulled = dict(zip(present, pull_back(run, flat, present, [*g.values()]), strict=True))
    return [pulled.get(i) for i in range(len(flat))]


def pull_back(
    function: Callable[[list[Any]], list[Tensor]],
    inputs: Sequence[Any],
    sources: Sequence[int],
    cotangents: list[Tensor],
) -> list[Tensor | None]:
    """The cotangents of some inputs of a function, from those of all its results.

    Args:
        function: takes a list of inputs, and is made of ops.
        inputs: the inputs.
        sources: the positions of those that are differentiated.
        cotangents: the cotangents of the results.
    """

    def run(*values: Tensor) -> list[Tensor]:
        given = list(inputs)
        for position, value in zip(sources, values, strict=True):
            given[position] = value
        return function(given)

    return HOOKS.vjp(run, [inputs[i] for i in sources], cotangents)
