"""Compiles the code of an op: its call, its recording and its pullback, each for one signature.

An op of one result and a fixed number of inputs gets straight-line code; every other op, and every
call that is not the common case (mixed dtypes, host data, a composite without a kernel), goes
through `pullback.dispatch.general`. Both do the same; the straight-line code only saves the loops.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

from pullback import shapes
from pullback.dispatch import general
from pullback.dispatch.convert import SCALAR_TYPES
from pullback.dispatch.normal import PLAIN, REQUIRED, fail
from pullback.dispatch.recording import HEARD, LISTENING, LOCAL, Node, reachable
from pullback.dtypes import as_dtype
from pullback.spec import Arity, Attribute, Op, Rule
from pullback.tensor import Tensor

_NORMAL_FORMS = {
    "Axis": "{0} = _normal_axis({0}, len(_a0.shape))",
    "Axes": "{0} = _normal_axes({0}, len(_a0.shape))",
    "ShapeLike": "{0} = _as_shape({0})",
    "DTypeLike": "{0} = _as_dtype({0})",
    **{form: "{0} = _plain_" + form + "({0}, {0!r})" for form in PLAIN},
}


def namespace(op: Op) -> dict[str, Any]:
    """The globals of an op's generated code."""
    return {
        "__name__": op.body.__module__,
        "_OP": op,
        "_INDEX": op.index,
        "_Tensor": Tensor,
        "_Node": Node,
        "_HEARD": HEARD,
        "_LISTENING": LISTENING,
        "_LOCAL": LOCAL,
        "_reachable": reachable,
        "_align": general.align,
        "_general": general.call,
        "_fail": fail,
        "_unbroadcast": general.unbroadcast,
        "_normal_axis": shapes.normal_axis,
        "_normal_axes": shapes.normal_axes,
        "_as_shape": shapes.as_shape,
        "_as_dtype": as_dtype,
        **{f"_plain_{form}": function for form, function in PLAIN.items()},
        "_normalize": op.normalize,
        "_scalars": op.scalars,
        "_numbers": SCALAR_TYPES,
    }


def _signature(op: Op) -> str:
    code = op.body.__code__
    names = code.co_varnames
    defaults = len(op.body.__defaults__ or ())
    parts: list[str] = []
    for i in range(code.co_argcount):
        # The values of the defaults are set on the function; the text only marks who has one.
        parts.append(names[i] + ("=None" if i >= code.co_argcount - defaults else ""))
        if i + 1 == code.co_posonlyargcount:
            parts.append("/")
    if code.co_kwonlyargcount:
        parts.append("*")
        keyword_defaults = op.body.__kwdefaults__ or {}
        for name in names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]:
            parts.append(name + ("=None" if name in keyword_defaults else ""))
    return ", ".join(parts)


def _compile(source: str, name: str, op: Op, names: dict[str, Any]) -> FunctionType:
    scope: dict[str, Any] = {}
    exec(compile(source, f"<pullback {op.name}>", "exec"), names, scope)
    function = scope[name]
    assert isinstance(function, FunctionType)
    return function


def forward(op: Op, names: dict[str, Any]) -> CodeType:
    """The code of the public function."""
    lines = _straight(op) if op.simple else _through_general(op)
    source = f"def {op.body.__name__}({_signature(op)}):\n" + "\n".join(
        f"    {line}" for line in lines
    )
    op.record = _Recorder(op, names)
    op.pull = _Puller(op, names)
    return _compile(source, op.body.__name__, op, names).__code__


def _attributes(op: Op) -> str:
    return "{" + ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes) + "}"


def _tuple(items: list[str]) -> str:
    return "(" + "".join(f"{item}, " for item in items) + ")"


def _through_general(op: Op) -> list[str]:
    inputs = _tuple([one.name for one in op.inputs])
    return [f"return _general(_OP, {inputs}, {_attributes(op)})"]


def _straight(op: Op) -> list[str]:
    inputs = [one.name for one in op.inputs]
    optional = [one.arity is Arity.OPTIONAL for one in op.inputs]
    everything = _tuple(inputs)
    again = f"return _general(_OP, {everything}, {_attributes(op)})"
    uniform = getattr(op.dtype, "uniform", False)

    foreign = [
        f"({x} is not None and type({x}) is not _Tensor)" if maybe else f"type({x}) is not _Tensor"
        for x, maybe in zip(inputs, optional, strict=True)
    ]
    lines = [f"if {' or '.join(foreign)}:"]
    if len(inputs) == 2 and uniform and not any(optional):
        # A tensor and a Python number, over and over: `align` left the number as a tensor.
        x1, x2 = inputs
        align = f"{everything[1:-1]} = _align(_OP, {everything})"
        for number, tensor, branch in ((x2, x1, "if"), (x1, x2, "elif")):
            # On the left it has a key of its own: a rule may look at the first input alone. The
            # device comes before the dtype: those of two libraries are not to be compared.
            key = [number, f"type({number})", f"{tensor}._device", f"{tensor}._array.dtype"]
            if number is x1:
                key.append("True")
            lines += [
                f"    {branch} type({tensor}) is _Tensor:",
                f"        _c = _scalars.get({_tuple(key)}) if type({number}) in _numbers else None",
                "        if _c is not None:",
                f"            {number} = _c",
                "        else:",
                f"            {align}",
            ]
        lines += ["    else:", f"        {align}"]
    else:
        lines.append(f"    {everything[1:-1]} = _align(_OP, {everything})")
    lines += [
        f"_d = {inputs[0]}._device",
        f"_a0 = {inputs[0]}._array",
        "_k = _a0.dtype",
    ]
    keys = ["_k"]
    for i, (x, maybe) in enumerate(zip(inputs, optional, strict=True)):
        if i == 0:
            continue
        apart = f"{x}._device is not _d"
        if uniform:
            apart += f" or _a{i}.dtype is not _k"
        if maybe:
            lines += [
                f"if {x} is None:",
                f"    _a{i} = None",
                "else:",
                f"    _a{i} = {x}._array",
                f"    if {apart}:",
                f"        {again}",
            ]
            keys.append(f"None if _a{i} is None else _a{i}.dtype")
        else:
            lines += [f"_a{i} = {x}._array", f"if {apart}:", f"    {again}"]
            keys.append(f"_a{i}.dtype")
    if not uniform and len(keys) > 1:
        lines.append(f"_k = {_tuple(keys)}")
    lines += [
        "try:",
        "    _kernel = _d.tables[_INDEX][_k]",
        "except LookupError:",
        f"    {again}",
    ]
    tracked = " or ".join(
        f"({x} is not None and {x}._node is not None)" if maybe else f"{x}._node is not None"
        for x, maybe in zip(inputs, optional, strict=True)
    )
    if op.differentiable and not op.primitive and not op.rules:
        # A kernel without a rule: while a tape listens, the body is what can be differentiated.
        lines += [f"if _LISTENING.count and ({tracked}):", f"    {again}"]
    arrays = [f"_a{i}" for i in range(len(inputs))]
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    lines.append("try:")
    lines += [f"    {line}" for line in _normalising(op, arrays)]
    lines += [
        f"    _out = _kernel({', '.join(arrays + keywords)})",
        "except Exception as _error:",
        f"    _fail(_OP, _error, {everything}, {_attributes(op)})",
        "if type(_out) is not type(_a0):",
        "    _out = _d.backend.native(_out)",
        "_t = _Tensor()",
        "_t._array = _out",
        "_t._device = _d",
        "if _LISTENING.count:",
    ]
    if op.differentiable and (op.rules or op.primitive):
        nodes = [
            f"None if {x} is None else {x}._node" if maybe else f"{x}._node"
            for x, maybe in zip(inputs, optional, strict=True)
        ]
        given = nodes + arrays + ["_out", "_d"] + [a.name for a in op.attributes]
        lines += [
            f"    if {tracked}:",
            f"        _t._node = _OP.record({', '.join(given)})",
            "    else:",
            "        _t._node = _HEARD",
        ]
    else:
        lines.append("    _t._node = _HEARD")
    lines += ["else:", "    _t._node = None", "return _t"]
    return lines


def _normalising(op: Op, arrays: list[str]) -> list[str]:
    lines: list[str] = []
    for attribute in op.attributes:
        line = _normal_form(attribute)
        test = _needs_normal_form(attribute)
        if line:
            lines += [f"if {test}:", f"    {line}"] if test else [line]
    if op.normalize is not None:
        inputs = [
            f"None if {a} is None else tuple({a}.shape)" if one.arity is Arity.OPTIONAL
            else f"tuple({a}.shape)"
            for a, one in zip(arrays, op.inputs, strict=True)
        ]  # fmt: skip
        keywords = "".join(f", {a.name}={a.name}" for a in op.attributes)
        lines.append(f"_n = _normalize({_tuple(inputs)}{keywords})")
        lines += [f"{a.name} = _n[{a.name!r}]" for a in op.attributes]
    return lines


def _normal_form(attribute: Attribute) -> str:
    return _NORMAL_FORMS.get(attribute.form, "").format(attribute.name)


def _needs_normal_form(attribute: Attribute) -> str:
    """A quick test for values that are to be brought into normal form; "" for every one."""
    name, form = attribute.name, attribute.form
    tests = [f"{name} is not None"] if attribute.optional or form not in REQUIRED else []
    if form in PLAIN:
        # The type that nearly every call gives.
        tests.append(f"type({name}) is not {form}")
    return " and ".join(tests)


# ---------------------------------------------------------------------------------------------
# Recording and pulling back, for ops with straight-line code. Both are compiled when they are
# first needed: rules are added after the op is defined.


class _Recorder:
    """Compiles `op.record` at its first call and steps aside."""

    def __init__(self, op: Op, names: dict[str, Any]) -> None:
        self.op, self.names = op, names

    def __call__(self, *args: Any) -> Any:
        self.op.record = _compile(_record_source(self.op), "record", self.op, self.names)
        return self.op.record(*args)


class _Puller:
    """Compiles `op.pull` at its first call and steps aside."""

    def __init__(self, op: Op, names: dict[str, Any]) -> None:
        self.op, self.names = op, names

    def __call__(self, *args: Any) -> Any:
        op = self.op
        if op.simple:
            for i, rule in enumerate(_rules(op)):
                self.names[f"_rule{i}"] = rule.function
            op.pull = _compile(_pull_source(op), "pull", op, self.names)
        else:
            op.pull = general.pull
        return op.pull(*args)


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
    nodes = [f"n{i}" for i in range(len(inputs))]
    arrays = [f"a{i}" for i in range(len(inputs))]
    attributes = [a.name for a in op.attributes]
    given = ", ".join(nodes + arrays + ["_out", "_d"] + attributes)
    lines = [
        f"def record({given}):",
        "    _state = _LOCAL.state",
        "    if not _state.recording:",
        "        return None",
        "    _low = _state.low",
    ]
    live = []
    for i, name in enumerate(inputs):
        if op.rules.get(name) is None:
            lines.append(f"    n{i} = None")
            continue
        live.append(f"n{i} is None")
        lines += [
            f"    if n{i} is not None and n{i}.serial < _low:",
            f"        n{i} = _reachable(n{i}, _low)",
        ]
    values = []
    for need, condition in layout(op).items():
        value = _saved_value(op, need)
        always = len(inputs) == 1 or need in attributes
        values.append(value if always else f"({value}) if {condition} else None")
    lines += [
        f"    if {' and '.join(live) or 'True'}:",
        "        return _HEARD",
        "    _node = _Node()",
        "    _node.serial = _state.tick()",
        "    _node.op = _OP",
        f"    _node.parents = {_tuple(nodes)}",
        f"    _node.saved = {_tuple(values)}",
        "    _node.device = _d",
        "    return _node",
    ]
    return "\n".join(lines)


def _saved_value(op: Op, need: str) -> str:
    for i, one in enumerate(op.inputs):
        absent = f"None if a{i} is None else " if one.arity is Arity.OPTIONAL else ""
        if need == one.name:
            return f"a{i}"
        if need == f"{one.name}_shape":
            return f"{absent}a{i}.shape"
        if need == f"{one.name}_dtype":
            return f"{absent}_d.backend.public_dtypes[a{i}.dtype]"
    return "_out" if need == op.outputs[0] else need


def _pull_source(op: Op) -> str:
    inputs = [one.name for one in op.inputs]
    lines = ["def pull(node, g, needed):"]
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
                arguments.append(_tuple(wanted))
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
