"""Compiles the code of an op: its call, its recording and its pullback, each for one signature.

An op of a fixed number of inputs, or of one sequence, gets straight-line code; every other op, and
every call that is not the common case (mixed dtypes, host data, a composite without a kernel), goes
through `pullback._dispatch.general`. Both do the same; the straight-line code only saves the loops.
"""

from __future__ import annotations

from functools import partial
from types import CodeType
from typing import Any
from weakref import ref

from pullback import shapes
from pullback._dispatch import general, vjp_code
from pullback._dispatch.arguments import PLAIN, REQUIRED, asked_dtypes, fail
from pullback._dispatch.convert import SCALAR_TYPES, read
from pullback._dispatch.recording import HEARD, LISTENING, LOCAL, Node, Output, reachable
from pullback._dispatch.results import refuse
from pullback._dispatch.vjp_code import compiled, tuple_of
from pullback.devices import as_device
from pullback.dtypes import as_dtype, is_floating
from pullback.spec import Arity, Attribute, Op
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
    names: dict[str, Any] = {
        "__name__": op.body.__module__,
        "_OP": op,
        "_INDEX": op.index,
        "_Tensor": Tensor,
        "_Node": Node,
        "_HEARD": HEARD,
        "_LISTENING": LISTENING,
        "_LOCAL": LOCAL,
        "_reachable": reachable,
        "_read": read,
        "_align": general.align,
        "_general": general.call,
        "_record": general.record,
        "_fail": fail,
        "_refuse": refuse,
        "_unbroadcast": vjp_code.unbroadcast,
        "_normal_axis": shapes.normal_axis,
        "_normal_axes": shapes.normal_axes,
        "_as_shape": shapes.as_shape,
        "_as_dtype": as_dtype,
        "_as_device": as_device,
        "_Output": Output,
        "_weak": ref,
        "_is_floating": is_floating,
        "_SEQUENCES": (tuple, list),
        **{f"_plain_{form}": function for form, function in PLAIN.items()},
        "_normalize": op.normalize,
        "_check": op.normalize.rule if isinstance(op.normalize, shapes.Checked) else None,
        "_scalars": op.scalars,
        "_numbers": SCALAR_TYPES,
    }

    def named(results: tuple[Tensor, ...]) -> Any:
        # The type of the results is made at the first call, which puts what makes them here.
        names["_named"] = make = partial(tuple.__new__, general.result_type(op))
        return make(results)

    names["_named"] = named
    return names


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


def forward(op: Op, names: dict[str, Any]) -> CodeType:
    """The code of the public function."""
    lines = _straight(op) if op.fixed else _creating(op) if op.creates else _listed(op)
    source = f"def {op.body.__name__}({_signature(op)}):\n" + "\n".join(
        f"    {line}" for line in lines
    )
    vjp_code.install(op, names)
    return compiled(source, op.body.__name__, op, names).__code__


def _attributes(op: Op) -> str:
    return "{" + ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes) + "}"


def _listed(op: Op) -> list[str]:
    """The call of an op on one sequence of tensors; of any other, through the general way."""
    everything = tuple_of([one.name for one in op.inputs])
    again = f"return _general(_OP, {everything}, {_attributes(op)})"
    if (
        [one.arity for one in op.inputs] != [Arity.MANY]
        or not op.dtype.uniform
        or len(op.outputs) + len(op.residuals) > 1
    ):
        return [again]
    x = op.inputs[0].name
    lines = [
        f"if type({x}) not in _SEQUENCES or not {x} or type({x}[0]) is not _Tensor:",
        f"    {again}",
        f"_d = {x}[0]._device",
        f"_a0 = {x}[0]._array",
        "_k = _a0.dtype",
        "_arrays, _tracked = [], False",
        f"for _t in {x}:",
        "    if type(_t) is not _Tensor or _t._device is not _d or _t._array.dtype is not _k:",
        f"        {again}",
        "    _arrays.append(_t._array)",
        "    if _t._node is not None:",
        "        _tracked = True",
        *_looked_up("_k", again),
    ]
    if op.differentiable and not op.primitive and not op.rules:
        lines += ["if _LISTENING.count and _tracked:", f"    {again}"]
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    return [
        *lines,
        "try:",
        *[f"    {line}" for line in _normalising(op, ["_arrays"])],
        f"    _out = _kernel({', '.join(['_arrays', *keywords])})",
        "except Exception as _error:",
        f"    _fail(_OP, _error, (list({x}), ), {_attributes(op)})",
        *_wrapped(),
        "if _LISTENING.count:",
        "    _t._node = _HEARD",
        "    if _tracked:",
        f"        _record(_OP, [list({x})], [_t], [], {_attributes(op)}, _d)",
        "else:",
        "    _t._node = None",
        "return _t",
    ]


def _looked_up(key: str, again: str) -> list[str]:
    """The kernel for a key of the op's table."""
    return [
        "try:",
        f"    _kernel = _d.tables[_INDEX][{key}]",
        "except LookupError:",
        f"    {again}",
    ]


def _adopted(result: str) -> list[str]:
    """What a kernel gave in place of an array, such as a NumPy scalar, as an array."""
    return [
        f"if type({result}) is not type(_a0):",
        "    try:",
        f"        {result} = _d.backend.native({result})",
        "    except Exception as _error:",
        f"        _refuse(_OP, _d, _kernel, {result}, _error)",
    ]


def _wrapped() -> list[str]:
    """A tensor of the one result."""
    return [
        *_adopted("_out"),
        "_t = _Tensor()",
        "_t._array = _out",
        "_t._device = _d",
    ]


def _straight(op: Op) -> list[str]:
    inputs = [one.name for one in op.inputs]
    optional = [one.arity is Arity.OPTIONAL for one in op.inputs]
    everything = tuple_of(inputs)
    again = f"return _general(_OP, {everything}, {_attributes(op)})"
    uniform = op.dtype.uniform

    foreign = [
        f"({x} is not None and type({x}) is not _Tensor)" if maybe else f"type({x}) is not _Tensor"
        for x, maybe in zip(inputs, optional, strict=True)
    ]
    align = f"{everything[1:-1]} = _align(_OP, {everything})"
    lines = [f"if {' or '.join(foreign)}:"]
    if len(inputs) == 2 and uniform and not any(optional):
        # A tensor and a Python number, over and over: `align` left the number as a tensor.
        x1, x2 = inputs
        for number, tensor, branch in ((x2, x1, "if"), (x1, x2, "elif")):
            # On the left it has a key of its own: a rule may look at the first input alone. The
            # device comes before the dtype: those of two libraries are not to be compared.
            key = [number, f"type({number})", f"{tensor}._device", f"{tensor}._array.dtype"]
            if number is x1:
                key.append("True")
            lines += [
                f"    {branch} type({number}) in _numbers:",
                f"        if type({tensor}) is not _Tensor:",
                f"            {tensor} = _read({tensor})",
                f"        _c = _scalars.get({tuple_of(key)}) "
                f"if type({tensor}) is _Tensor else None",
                "        if _c is not None:",
                f"            {number} = _c",
                "        else:",
                f"            {align}",
            ]
        lines += [
            "    else:",
            *(f"        {x} = {x} if type({x}) is _Tensor else _read({x})" for x in inputs),
            f"        if {' or '.join(foreign)}:",
            f"            {align}",
        ]
    else:
        for x in inputs:
            lines += [f"    if type({x}) is not _Tensor:", f"        {x} = _read({x})"]
        lines += [f"    if {' or '.join(foreign)}:", f"        {align}"]
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
        lines.append(f"_k = {tuple_of(keys)}")
    lines += _looked_up("_k", again)
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
    ]
    if not op.simple:
        return lines + _several(op, tracked)
    lines += [*_wrapped(), "if _LISTENING.count:"]
    if op.differentiable and (op.rules or op.primitive):
        lines += [
            f"    if {tracked}:",
            f"        _t._node = _OP.record({', '.join(_recorded(op, ['_out']))})",
            "    else:",
            "        _t._node = _HEARD",
        ]
    else:
        lines.append("    _t._node = _HEARD")
    lines += ["else:", "    _t._node = None", "return _t"]
    return lines


def _recorded(op: Op, results: list[str]) -> list[str]:
    """What `op.record` is given."""
    nodes = [
        f"None if {one.name} is None else {one.name}._node"
        if one.arity is Arity.OPTIONAL
        else f"{one.name}._node"
        for one in op.inputs
    ]
    arrays = [f"_a{i}" for i in range(len(nodes))]
    return [*nodes, *arrays, *results, "_d", *(a.name for a in op.attributes)]


def _several(op: Op, tracked: str) -> list[str]:
    """Several results, or residuals behind them, from what the kernel gave to what is returned."""
    inputs = tuple_of([one.name for one in op.inputs])
    count = len(op.outputs) + len(op.residuals)
    results = [f"_r{i}" for i in range(count)]
    tensors = [f"_t{i}" for i in range(len(op.outputs))]
    lines = [
        f"if not isinstance(_out, _SEQUENCES) or len(_out) != {count}:",
        f"    return _general(_OP, {inputs}, {_attributes(op)})",
        f"{', '.join(results)} = _out",
    ]
    for result in results:
        lines += _adopted(result)
    for tensor, result in zip(tensors, results, strict=False):
        lines += [f"{tensor} = _Tensor()", f"{tensor}._array = {result}", f"{tensor}._device = _d"]
    nodes = "".join(f"{tensor}._node = " for tensor in tensors)
    lines.append("if _LISTENING.count:")
    if op.differentiable and op.rules:
        targets = ", ".join(f"{tensor}._node" for tensor in tensors)
        lines += [
            f"    if {tracked}:",
            f"        {targets} = _OP.record({', '.join(_recorded(op, results))})",
            "    else:",
            f"        {nodes}_HEARD",
        ]
    else:
        lines.append(f"    {nodes}_HEARD")
    lines += ["else:", f"    {nodes}None"]
    result = f"_named({tuple_of(tensors)})" if len(tensors) > 1 else "_t0"
    return [*lines, f"return {result}"]


def _creating(op: Op) -> list[str]:
    """The call of an op without inputs, which makes its result where it is told to."""
    again = f"return _general(_OP, (), {_attributes(op)})"
    keywords = [f"{a.name}={a.name}" for a in op.attributes if a.form != "DeviceLike"]
    return [
        "try:",
        "    _d = device = _as_device(device)",
        *[f"    {line}" for line in _normalising(op, [])],
        "except Exception as _error:",
        f"    _fail(_OP, _error, (), {_attributes(op)})",
        *_looked_up(tuple_of(asked_dtypes(op)), again),
        "try:",
        f"    _out = _kernel({', '.join([*keywords, 'device=_d.native'])})",
        "except Exception as _error:",
        f"    _fail(_OP, _error, (), {_attributes(op)})",
        "_t = _Tensor()",
        "_t._array = _out",
        "_t._device = _d",
        "_t._node = _HEARD if _LISTENING.count else None",
        "return _t",
    ]


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
            else f"[tuple(_a.shape) for _a in {a}]" if one.arity is Arity.MANY
            else f"tuple({a}.shape)"
            for a, one in zip(arrays, op.inputs, strict=True)
        ]  # fmt: skip
        keywords = [f"{a.name}={a.name}" for a in op.attributes]
        if isinstance(op.normalize, shapes.Checked):
            lines.append(f"_check({', '.join([*inputs, *keywords])})")
        else:
            lines.append(f"_n = _normalize({', '.join([tuple_of(inputs), *keywords])})")
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
