"""Compiles how ops are recorded and pulled back, when first needed: rules come after definitions.

Those with a fixed number of inputs are recorded by straight-line code; what has one result as well
is pulled back by it. All others go through `record` and `vjp` of `pullback._dispatch.general`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from pullback import shapes
from pullback._dispatch import general
from pullback._operators import OPERATORS
from pullback.spec import Arity, Op, Rule
from pullback.tensor import Tensor


def compiled(source: str, name: str, op: Op, names: dict[str, Any]) -> FunctionType:
    """The function `name` that the source defines, with `names` as its globals."""
    scope: dict[str, Any] = {}
    exec(compile(source, f"<pullback {op.name}>", "exec"), names, scope)
    function = scope[name]
    assert isinstance(function, FunctionType)
    return function


def tuple_of(items: list[str]) -> str:
    """The source of a tuple."""
    return "(" + "".join(f"{item}, " for item in items) + ")"


def install(op: Op, names: dict[str, Any]) -> None:
    """Sets `op.record` and `op.vjp` to what compiles them with the globals `names`."""
    op.record = _Recorder(op, names)
    op.vjp = _VjpCompiler(op, names)


class _Recorder:
    """Compiles `op.record` at its first call and steps aside."""

    def __init__(self, op: Op, names: dict[str, Any]) -> None:
        self.op, self.names = op, names

    def __call__(self, *args: Any) -> Any:
        self.op.record = compiled(_record_source(self.op), "record", self.op, self.names)
        return self.op.record(*args)


class _VjpCompiler:
    """Compiles `op.vjp` at its first call and steps aside."""

    def __init__(self, op: Op, names: dict[str, Any]) -> None:
        self.op, self.names = op, names

    def __call__(self, *args: Any) -> Any:
        op = self.op
        if op.simple:
            for i, rule in enumerate(_rules(op)):
                self.names[f"_rule{i}"] = rule.function
            op.vjp = compiled(_vjp_source(op), "vjp", op, self.names)
        else:
            op.vjp = general.vjp
        return op.vjp(*args)


def _rules(op: Op) -> list[Rule]:
    """The distinct rules, in the order of the inputs."""
    rules: list[Rule] = []
    for one in op.inputs:
        rule = op.rules.get(one.name)
        if rule is not None and rule not in rules:
            rules.append(rule)
    return rules


def layout(op: Op) -> dict[str, str]:
    """What a node saves: the name, and the condition under which it is needed."""
    position = {one.name: i for i, one in enumerate(op.inputs)}
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


def _record_source(op: Op) -> str:
    inputs = [one.name for one in op.inputs]
    results = [*op.outputs, *op.residuals]
    nodes = [f"n{i}" for i in range(len(inputs))]
    arrays = [f"a{i}" for i in range(len(inputs))]
    outputs = [f"r{i}" for i in range(len(results))]
    given = ", ".join([*nodes, *arrays, *outputs, "_d", *(a.name for a in op.attributes)])
    single = len(op.outputs) == 1
    lines = [
        f"def record({given}):",
        "    _state = _LOCAL.state",
        "    if not _state.recording:",
        f"        return {'None' if single else [None] * len(op.outputs)}",
        "    _oldest = _state.oldest_serial",
    ]
    live = []
    for i, name in enumerate(inputs):
        if op.rules.get(name) is None:
            lines.append(f"    n{i} = None")
            continue
        live.append(f"n{i} is None")
        lines += [
            f"    if n{i} is not None and n{i}.serial < _oldest:",
            f"        n{i} = _reachable(n{i}, _oldest)",
        ]
    lines += [
        f"    if {' and '.join(live) or 'True'}:",
        f"        return {'_CONSTANT' if single else tuple_of(['_CONSTANT'] * len(op.outputs))}",
        "    _node = _Node()",
        "    _node.serial = _state.next_serial()",
        "    _node.op = _OP",
        f"    _node.parents = {tuple_of(nodes)}",
        "    _node.device = _d",
    ]
    values = _kept(op)
    if op.simple:
        return "\n".join([*lines, f"    _node.saved = {tuple_of(list(values.values()))}",
                          "    return _node"])  # fmt: skip
    # What `general.vjp` takes apart: several results meet in it again.
    kinds = [f"(r{i}.shape, _d.backend.public_dtypes[r{i}.dtype])" for i in range(len(op.outputs))]
    kept = ", ".join(f"{need!r}: {value}" for need, value in values.items())
    attributes = ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes)
    lines += [
        f"    _kinds = {tuple_of(kinds)}",
        # What the results carry, by position: the node must not keep them alive.
        "    _marks = {}",
        f"    _node.saved = ({[None] * len(inputs)}, {{{kept}}}, _kinds, {{{attributes}}}, _marks)",
    ]
    for i in range(len(op.outputs)):
        lines += [
            f"    if _is_floating(_kinds[{i}][1]):",
            f"        o{i} = _Output(_state.next_serial(), _node, {i})",
            f"        _marks[{i}] = _weak(o{i})",
            "    else:",
            f"        o{i} = _CONSTANT",
        ]
    marks = [f"o{i}" for i in range(len(op.outputs))]
    return "\n".join([*lines, f"    return {marks[0] if single else tuple_of(marks)}"])


def _kept(op: Op) -> dict[str, str]:
    """What a node keeps, by the name that rules have for it: expressions, each with its condition.

    In higher orders a residual has a cotangent of its own, which only the body can pull back: for
    that it needs all inputs.
    """
    conditions = layout(op)
    if op.residuals:
        conditions = dict.fromkeys([*conditions, *(one.name for one in op.inputs)], "")
    always = {a.name for a in op.attributes}
    values = {}
    for need, condition in conditions.items():
        value = _saved_value(op, need)
        if condition and len(op.inputs) > 1 and need not in always:
            value = f"({value}) if {condition} else None"
        values[need] = value
    return values


def _saved_value(op: Op, need: str) -> str:
    for i, one in enumerate(op.inputs):
        absent = f"None if a{i} is None else " if one.arity is Arity.OPTIONAL else ""
        if need == one.name:
            return f"a{i}"
        if need == f"{one.name}_shape":
            return f"{absent}a{i}.shape"
        if need == f"{one.name}_dtype":
            return f"{absent}_d.backend.public_dtypes[a{i}.dtype]"
    results = [*op.outputs, *op.residuals]
    return f"r{results.index(need)}" if need in results else need


def _vjp_source(op: Op) -> str:
    inputs = [one.name for one in op.inputs]
    lines = ["def vjp(node, g, needed):"]
    kept = layout(op)
    if kept:
        lines.append(f"    {''.join(f's_{need}, ' for need in kept)}= node.saved")
    lines.append(f"    {''.join(f'n{i}, ' for i in range(len(inputs)))}= node.parents")
    several = sum(op.rules.get(name) is not None for name in inputs) > 1
    if several:
        lines.append("    parts = []")
    for number, rule in enumerate(_rules(op)):
        positions = [inputs.index(target) for target in rule.targets]
        wanted = [f"n{i} is not None and (needed is None or n{i} in needed)" for i in positions]
        lines.append(f"    if {' or '.join(wanted)}:")
        arguments = ["g"]
        for need in rule.needs:
            if need == "wanted":
                arguments.append(tuple_of(wanted))
            elif need in inputs or need == op.outputs[0]:
                node = f"n{inputs.index(need)}" if need in inputs else "node"
                lines += [
                    f"        if s_{need} is None:",
                    f"            t_{need} = None",
                    "        else:",
                    f"            t_{need} = _Tensor()",
                    f"            t_{need}._array = s_{need}",
                    f"            t_{need}._device = node.device",
                    f"            t_{need}._node = {node}",
                ]
                arguments.append(f"t_{need}")
            else:
                arguments.append(f"s_{need}")
        split = rule.function.__code__.co_argcount
        named = zip(rule.needs[split - 1 :], arguments[split:], strict=True)
        call = ", ".join(arguments[:split] + [f"{need}={value}" for need, value in named])
        results = ", ".join(f"r{i}" for i in positions)
        lines.append(f"        {results} = _rule{number}({call})")
        for i in positions:
            # A joint rule may give more than was asked for.
            asked = f"r{i} is not None"
            if rule.joint:
                asked += f" and n{i} is not None"
            lines.append(f"        if {asked}:")
            if op.shape is shapes.broadcast:
                lines += [
                    f"            if r{i}._array.shape != s_{inputs[i]}_shape:",
                    f"                r{i} = _unbroadcast(r{i}, s_{inputs[i]}_shape)",
                ]
            found = f"(n{i}, r{i})"
            lines.append(
                f"            parts.append({found})"
                if several
                else f"            return ({found},)"
            )
    lines.append("    return parts" if several else "    return ()")
    return "\n".join(lines)


def unbroadcast(g: Tensor, shape: Sequence[int]) -> Tensor:
    """Sums g over the axes along which an input of `shape` was broadcast."""
    extra = g.ndim - len(shape)
    if extra:
        g = OPERATORS.sum(g, axis=tuple(range(extra)))
    stretched = tuple(
        axis for axis, size in enumerate(shape) if size == 1 and g._array.shape[axis] != 1
    )
    return OPERATORS.sum(g, axis=stretched, keepdims=True) if stretched else g
