"""Writes how an op is recorded and how cotangents get from its result to its inputs.

Both are compiled at their first use: gradient rules come after definitions. An op with a fixed
number of inputs is recorded by specialized code; if it has one result as well, its vjp is
specialized code too. All others go through `record` and `vjp` of `pullback._dispatch.general_vjp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback import shapes
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch import general_vjp
from pullback._operators import OPERATORS
from pullback.spec import Arity, Op, Rule
from pullback.tensor import Tensor


def install(op: Op, names: dict[str, Any]) -> None:
    """Sets `op.record` and `op.vjp` to what compiles them with the globals `names`."""

    def record(*args: Any) -> Any:
        op.record = record_source(op, names).compile(f"record {op.name}")
        return op.record(*args)

    def vjp(*args: Any) -> Any:
        names.update((f"_rule{i}", rule.function) for i, rule in enumerate(_rules(op)))
        op.vjp = vjp_source(op, names).compile(f"vjp {op.name}")
        return op.vjp(*args)

    op.record, op.vjp = record, vjp if op.simple else general_vjp.vjp


def _rules(op: Op) -> list[Rule]:
    """The distinct rules, in the order of the inputs."""
    rules: list[Rule] = []
    for parameter in op.inputs:
        rule = op.rules.get(parameter.name)
        if rule is not None and rule not in rules:
            rules.append(rule)
    return rules


# ---------------------------------------------------------------------------------------------
# Recording.


def layout(op: Op) -> dict[str, str]:
    """The names of the values that a node saves, each with the condition under which it does."""
    position = {parameter.name: i for i, parameter in enumerate(op.inputs)}
    wanted: dict[str, list[str]] = {}
    for rule in _rules(op):
        tests = [f"n{position[target]} is not None" for target in rule.targets]
        for need in rule.needs:
            if need != "wanted":
                wanted.setdefault(need, []).extend(tests)
        if op.shape is shapes.broadcast:
            for target, test in zip(rule.targets, tests, strict=True):
                wanted.setdefault(f"{target}_shape", []).append(test)
    return {need: " or ".join(dict.fromkeys(tests)) for need, tests in wanted.items()}


def record_source(op: Op, names: dict[str, Any] | None = None) -> Source:
    """The function that makes the node of a call, with `names` as its globals.

    It gets the node and the array of each input, the array of each result, the device, and the
    attributes; it returns the node of each result.
    """
    count = len(op.outputs)
    single = count == 1
    nodes = [f"n{i}" for i in range(len(op.inputs))]
    arrays = [f"a{i}" for i in range(len(op.inputs))]
    results = [f"r{i}" for i in range(count + len(op.residuals))]
    attributes = [a.name for a in op.attributes]
    differentiable = [
        node
        for node, parameter in zip(nodes, op.inputs, strict=True)
        if op.rules.get(parameter.name) is not None
    ]
    source = Source("record", ", ".join([*nodes, *arrays, *results, "_device", *attributes]), names)
    source.write(f"""
        _state = _LOCAL.state
        if not _state.recording:
            return {"None" if single else [None] * count}
        _oldest = _state.oldest_serial
    """)
    for node in nodes:
        if node in differentiable:
            source.write(f"""
                if {node} is not None and {node}.serial < _oldest:
                    {node} = _reachable({node}, _oldest)
            """)
        else:
            source.line(f"{node} = None")
    source.write(f"""
        if {" and ".join(f"{node} is None" for node in differentiable) or "True"}:
            return {"_CONSTANT" if single else tuple_of(["_CONSTANT"] * count)}
        _node = _Node()
        _node.serial = _state.next_serial()
        _node.op = _OP
        _node.parents = {tuple_of(nodes)}
        _node.device = _device
    """)
    if op.simple:
        source.write(f"""
            _node.saved = {tuple_of(_saved(op).values())}
            return _node
        """)
    else:
        _write_outputs(source, op)
    return source


def _write_outputs(source: Source, op: Op) -> None:
    """Writes what an op with several results saves for `general_vjp.vjp`, and a node for each."""
    kinds = [
        f"(r{i}.shape, _device.backend.public_dtypes[r{i}.dtype])" for i in range(len(op.outputs))
    ]
    saved = ", ".join(f"{need!r}: {value}" for need, value in _saved(op).items())
    attributes = ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes)
    lengths = [None] * len(op.inputs)
    # The nodes of the results by position, as weak references: the node must not keep them alive.
    source.write(f"""
        _kinds = {tuple_of(kinds)}
        _outputs = {{}}
        _node.saved = ({lengths}, {{{saved}}}, _kinds, {{{attributes}}}, _outputs)
    """)
    for i in range(len(op.outputs)):
        source.write(f"""
            if _is_floating(_kinds[{i}][1]):
                o{i} = _Output(_state.next_serial(), _node, {i})
                _outputs[{i}] = _weak(o{i})
            else:
                o{i} = _CONSTANT
        """)
    outputs = [f"o{i}" for i in range(len(op.outputs))]
    source.line(f"return {outputs[0] if len(outputs) == 1 else tuple_of(outputs)}")


def _saved(op: Op) -> dict[str, str]:
    """The values that a node saves, by the names that rules have for them: expressions.

    In higher orders a residual has a cotangent of its own, which only the body can pull back: for
    that it needs all inputs.
    """
    conditions = layout(op)
    if op.residuals:
        conditions = dict.fromkeys([*conditions, *(parameter.name for parameter in op.inputs)], "")
    always = {a.name for a in op.attributes}
    values = {}
    for need, condition in conditions.items():
        value = _value(op, need)
        if condition and len(op.inputs) > 1 and need not in always:
            value = f"({value}) if {condition} else None"
        values[need] = value
    return values


def _value(op: Op, need: str) -> str:
    for i, parameter in enumerate(op.inputs):
        absent = f"None if a{i} is None else " if parameter.arity is Arity.OPTIONAL else ""
        if need == parameter.name:
            return f"a{i}"
        if need == f"{parameter.name}_shape":
            return f"{absent}a{i}.shape"
        if need == f"{parameter.name}_dtype":
            return f"{absent}_device.backend.public_dtypes[a{i}.dtype]"
    results = [*op.outputs, *op.residuals]
    return f"r{results.index(need)}" if need in results else need


# ---------------------------------------------------------------------------------------------
# The vector-Jacobian product.


def vjp_source(op: Op, names: dict[str, Any] | None = None) -> Source:
    """The function that gives the cotangents of the inputs, each with its node.

    It gets the node of the call, the cotangent of the result, and the nodes whose cotangents are
    needed (None for all of them).
    """
    source = Source("vjp", "node, g, needed", names)
    saved = layout(op)
    if saved:
        source.line(f"{tuple_of(f's_{need}' for need in saved)[1:-1]} = node.saved")
    source.line(f"{tuple_of(f'n{i}' for i in range(len(op.inputs)))[1:-1]} = node.parents")
    several = sum(op.rules.get(parameter.name) is not None for parameter in op.inputs) > 1
    if several:
        source.line("parts = []")
    for number, rule in enumerate(_rules(op)):
        _write_rule(source, op, rule, f"_rule{number}", "parts.append({})" if several else "")
    source.line("return parts" if several else "return ()")
    return source


def _write_rule(source: Source, op: Op, rule: Rule, function: str, add: str) -> None:
    """Writes the call of one rule; `add` is the text that collects a cotangent and its node."""
    inputs = [parameter.name for parameter in op.inputs]
    positions = [inputs.index(target) for target in rule.targets]
    wanted = [f"n{i} is not None and (needed is None or n{i} in needed)" for i in positions]
    with source.block(f"if {' or '.join(wanted)}:"):
        arguments = ["g"]
        for need in rule.needs:
            if need == "wanted":
                arguments.append(tuple_of(wanted))
            elif need in inputs or need == op.outputs[0]:
                node = f"n{inputs.index(need)}" if need in inputs else "node"
                _write_restored(source, need, node)
                arguments.append(f"t_{need}")
            else:
                arguments.append(f"s_{need}")
        split = rule.function.__code__.co_argcount
        keywords = zip(rule.needs[split - 1 :], arguments[split:], strict=True)
        call = ", ".join(arguments[:split] + [f"{need}={value}" for need, value in keywords])
        source.line(f"{', '.join(f'r{i}' for i in positions)} = {function}({call})")
        for i in positions:
            # A joint rule may return more than was asked for.
            test = f"r{i} is not None" + f" and n{i} is not None" * rule.joint
            with source.block(f"if {test}:"):
                if op.shape is shapes.broadcast:
                    source.write(f"""
                        if r{i}._array.shape != s_{inputs[i]}_shape:
                            r{i} = _unbroadcast(r{i}, s_{inputs[i]}_shape)
                    """)
                source.line((add or "return ({},)").format(f"(n{i}, r{i})"))


def _write_restored(source: Source, need: str, node: str) -> None:
    """Writes what makes a tensor of a saved array."""
    source.write(f"""
        if s_{need} is None:
            t_{need} = None
        else:
            t_{need} = _new_tensor()
            t_{need}._array = s_{need}
            t_{need}._device = node.device
            t_{need}._base = None
            t_{need}._node = {node}
    """)


def unbroadcast(g: Tensor, shape: Sequence[int]) -> Tensor:
    """Sums g over the axes along which an input of `shape` was broadcast."""
    extra = g.ndim - len(shape)
    if extra:
        g = OPERATORS.sum(g, axis=tuple(range(extra)))
    stretched = tuple(
        axis for axis, size in enumerate(shape) if size == 1 and g._array.shape[axis] != 1
    )
    return OPERATORS.sum(g, axis=stretched, keepdims=True) if stretched else g
