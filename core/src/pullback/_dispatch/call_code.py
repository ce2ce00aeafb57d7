"""Writes the code of an op's public function, specialized to its signature.

An op with a fixed number of inputs, an op of one sequence of tensors and an op that makes a tensor
on a device have specialized code. Every other op, and every call that is not the common case (mixed
dtypes, host data, a composite without a kernel), goes through `pullback._dispatch.general`. Both do
the same; specialized code only saves the loops. `print(pb.add.source)` shows it.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from weakref import ref

from pullback import shapes
from pullback._codegen.source import Source, tuple_of
from pullback._dispatch import general, general_vjp, vjp_code
from pullback._dispatch.arguments import PLAIN, REQUIRED, asked_dtypes, raise_explained
from pullback._dispatch.convert import SCALAR_TYPES, read, read_whole
from pullback._dispatch.plan import keyed_by_first
from pullback._dispatch.recording import CONSTANT, LOCAL, RECORDING, Node, Output, reachable
from pullback._dispatch.results import refuse
from pullback._views import base_of
from pullback.devices import as_device
from pullback.dtypes import as_dtype, is_floating
from pullback.spec import Arity, Attribute, Input, Op
from pullback.tensor import Tensor

_CANONICAL_FORMS = {
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
        "_CONSTANT": CONSTANT,
        "_RECORDING": RECORDING,
        "_LOCAL": LOCAL,
        "_reachable": reachable,
        "_read": read_whole if op.view else read,
        "_align": general.align,
        "_general": general.call,
        "_record": general_vjp.record,
        "_raise_explained": raise_explained,
        "_refuse": refuse,
        "_unbroadcast": vjp_code.unbroadcast,
        "_normal_axis": shapes.normal_axis,
        "_normal_axes": shapes.normal_axes,
        "_as_shape": shapes.as_shape,
        "_as_dtype": as_dtype,
        "_as_device": as_device,
        "_Output": Output,
        "_weak": ref,
        "_base_of": base_of,
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


def call_source(op: Op, names: dict[str, Any] | None = None) -> Source:
    """The public function of an op, with `names` as its globals."""
    source = Source(op.body.__name__, _signature(op), names)
    if op.fixed:
        _write_fixed(source, op)
    elif op.creates:
        _write_creation(source, op)
    elif _is_one_sequence(op):
        _write_sequence(source, op)
    else:
        source.line(_general(op))
    return source


# ---------------------------------------------------------------------------------------------
# The three forms of a call.


def _write_fixed(source: Source, op: Op) -> None:
    """The call of an op with a fixed number of inputs."""
    arrays = [f"_a{i}" for i in range(len(op.inputs))]
    tracked = " or ".join(_present(one, f"{one.name}._node is not None") for one in op.inputs)
    _write_tensors(source, op)
    _write_arrays(source, op)
    _write_look_up(source, "_key", _general(op))
    _write_detour(source, op, tracked)
    _write_kernel_call(source, op, arrays, _inputs(op))
    if op.simple:
        _write_adoption(source, "_out")
        _write_tensor(source, "_result", "_out", op)
        _write_recording(source, op, tracked, ["_result"], ["_out"])
        source.line("return _result")
    else:
        _write_several_results(source, op, tracked)


def _write_creation(source: Source, op: Op) -> None:
    """The call of an op without inputs, which makes its result on the device it is told."""
    with source.block("try:"):
        source.line("_device = device = _as_device(device)")
        _write_canonical(source, op, [])
    _write_failure(source, op, "()")
    _write_look_up(source, tuple_of(asked_dtypes(op)), _general(op))
    keywords = [f"{a.name}={a.name}" for a in op.attributes if a.form != "DeviceLike"]
    source.write(f"""
        try:
            _out = _kernel({", ".join([*keywords, "device=_device.native"])})
    """)
    _write_failure(source, op, "()")
    _write_tensor(source, "_result", "_out", op)
    source.write("""
        _result._node = _CONSTANT if _RECORDING.count else None
        return _result
    """)


def _is_one_sequence(op: Op) -> bool:
    single = len(op.outputs) + len(op.residuals) == 1
    return [one.arity for one in op.inputs] == [Arity.MANY] and op.dtype.uniform and single


def _write_sequence(source: Source, op: Op) -> None:
    """The call of an op on one sequence of tensors."""
    x = op.inputs[0].name
    inputs = f"(list({x}),)"
    source.write(f"""
        if type({x}) not in _SEQUENCES or not {x} or type({x}[0]) is not _Tensor:
            {_general(op)}
        _device = {x}[0]._device
        _a0 = {x}[0]._array
        _key = _a0.dtype
        _arrays, _tracked = [], False
        for _t in {x}:
            if type(_t) is not _Tensor or _t._device is not _device or _t._array.dtype is not _key:
                {_general(op)}
            _arrays.append(_t._array)
            if _t._node is not None:
                _tracked = True
    """)
    _write_look_up(source, "_key", _general(op))
    _write_detour(source, op, "_tracked")
    _write_kernel_call(source, op, ["_arrays"], inputs)
    _write_adoption(source, "_out")
    _write_tensor(source, "_result", "_out", op)
    source.write(f"""
        if _RECORDING.count:
            _result._node = _CONSTANT
            if _tracked:
                _record(_OP, [list({x})], [_result], [], {_attributes(op)}, _device)
        else:
            _result._node = None
        return _result
    """)


# ---------------------------------------------------------------------------------------------
# Their parts, in the order of a call.


def _write_tensors(source: Source, op: Op) -> None:
    """Every input is a tensor, or is made one."""
    inputs = [one.name for one in op.inputs]
    foreign = " or ".join(_present(one, f"type({one.name}) is not _Tensor") for one in op.inputs)
    align = f"{', '.join(inputs)}{',' * (len(inputs) == 1)} = _align(_OP, {_inputs(op)})"
    with source.block(f"if {foreign}:"):
        if len(inputs) == 2 and op.dtype.uniform and op.inputs[1].arity is Arity.ONE:
            x1, x2 = inputs
            _write_number(source, "if", x2, x1, "", align)
            _write_number(source, "elif", x1, x2, ", True", align)
            source.write(f"""
                else:
                    {x1} = {x1} if type({x1}) is _Tensor else _read({x1})
                    {x2} = {x2} if type({x2}) is _Tensor else _read({x2})
                    if {foreign}:
                        {align}
            """)
            return
        for x in inputs:
            source.write(f"""
                if type({x}) is not _Tensor:
                    {x} = _read({x})
            """)
        source.write(f"""
            if {foreign}:
                {align}
        """)


def _write_number(source: Source, word: str, number: str, x: str, side: str, align: str) -> None:
    """A tensor and a Python number, over and over: `align` left the number as a tensor.

    On the left a number has a key of its own (`side`): a rule may look at the first input alone.
    The device comes before the dtype: those of two libraries are not to be compared.
    """
    key = f"({number}, type({number}), {x}._device, {x}._array.dtype{side})"
    source.write(f"""
        {word} type({number}) in _numbers:
            if type({x}) is not _Tensor:
                {x} = _read({x})
            _number = _scalars.get({key}) if type({x}) is _Tensor else None
            if _number is not None:
                {number} = _number
            else:
                {align}
    """)


def _write_arrays(source: Source, op: Op) -> None:
    """The arrays of the inputs, all on one device; and the key of the kernel."""
    first, *others = op.inputs
    source.write(f"""
        _device = {first.name}._device
        _a0 = {first.name}._array
        _key = _a0.dtype
    """)
    keys = ["_key"]
    for i, one in enumerate(others, 1):
        x = one.name
        apart = f"{x}._device is not _device"
        if op.dtype.uniform:
            apart += f" or _a{i}.dtype is not _key"
        if one.arity is Arity.OPTIONAL:
            source.write(f"""
                if {x} is None:
                    _a{i} = None
                else:
                    _a{i} = {x}._array
                    if {apart}:
                        {_general(op)}
            """)
            keys.append(f"None if _a{i} is None else _a{i}.dtype")
        else:
            source.write(f"""
                _a{i} = {x}._array
                if {apart}:
                    {_general(op)}
            """)
            keys.append(f"_a{i}.dtype")
    if not keyed_by_first(op):
        source.line(f"_key = {tuple_of(keys)}")


def _write_look_up(source: Source, key: str, general: str) -> None:
    """The kernel for a key of the op's table."""
    source.write(f"""
        try:
            _kernel = _device.tables[_INDEX][{key}]
        except LookupError:
            {general}
    """)


def _write_detour(source: Source, op: Op, tracked: str) -> None:
    """A kernel without a rule: while a tape listens, the body is what can be differentiated."""
    if op.differentiable and not op.primitive and not op.rules:
        source.write(f"""
            if _RECORDING.count and ({tracked}):
                {_general(op)}
        """)


def _write_kernel_call(source: Source, op: Op, arrays: list[str], inputs: str) -> None:
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    with source.block("try:"):
        _write_canonical(source, op, arrays)
        source.line(f"_out = _kernel({', '.join(arrays + keywords)})")
    _write_failure(source, op, inputs)


def _write_canonical(source: Source, op: Op, arrays: list[str]) -> None:
    """The attributes in their canonical form."""
    for attribute in op.attributes:
        line = _CANONICAL_FORMS.get(attribute.form, "").format(attribute.name)
        test = _test_of_form(attribute)
        if line and test:
            with source.block(f"if {test}:"):
                source.line(line)
        elif line:
            source.line(line)
    if op.normalize is None:
        return
    given = [_shape_of(one, array) for one, array in zip(op.inputs, arrays, strict=True)]
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    if isinstance(op.normalize, shapes.Checked):
        source.line(f"_check({', '.join([*given, *keywords])})")
    else:
        source.line(f"_canonical = _normalize({', '.join([tuple_of(given), *keywords])})")
        source.lines(f"{a.name} = _canonical[{a.name!r}]" for a in op.attributes)


def _test_of_form(attribute: Attribute) -> str:
    """A quick test for values that may not be canonical; "" if every value may not be."""
    name, form = attribute.name, attribute.form
    tests = [f"{name} is not None"] if attribute.optional or form not in REQUIRED else []
    if form in PLAIN:
        # The type that nearly every call gives.
        tests.append(f"type({name}) is not {form}")
    return " and ".join(tests)


def _shape_of(one: Input, array: str) -> str:
    if one.arity is Arity.OPTIONAL:
        return f"None if {array} is None else tuple({array}.shape)"
    if one.arity is Arity.MANY:
        return f"[tuple(_a.shape) for _a in {array}]"
    return f"tuple({array}.shape)"


def _write_failure(source: Source, op: Op, inputs: str) -> None:
    source.write(f"""
        except Exception as _error:
            _raise_explained(_OP, _error, {inputs}, {_attributes(op)})
    """)


def _write_adoption(source: Source, result: str) -> None:
    """A kernel may return something else than an array, such as a NumPy scalar: an array of it."""
    source.write(f"""
        if type({result}) is not type(_a0):
            try:
                {result} = _device.backend.native({result})
            except Exception as _error:
                _refuse(_OP, _device, _kernel, {result}, _error)
    """)


def _write_tensor(source: Source, tensor: str, array: str, op: Op) -> None:
    x = op.inputs[0].name if op.view else ""
    base = x and f"_weak({x}) if {x}._base is None else _base_of({x})"
    source.write(f"""
        {tensor} = _Tensor()
        {tensor}._array = {array}
        {tensor}._device = _device
        {tensor}._base = {base or None}
    """)


def _write_recording(
    source: Source, op: Op, tracked: str, tensors: list[str], results: list[str]
) -> None:
    """The node of each result."""
    nodes = [f"{tensor}._node" for tensor in tensors]
    every = " = ".join(nodes)
    recorded = op.rules or (op.simple and op.primitive)
    with source.block("if _RECORDING.count:"):
        if op.differentiable and recorded:
            arguments = ", ".join(_recorded(op, results))
            source.write(f"""
                if {tracked}:
                    {", ".join(nodes)} = _OP.record({arguments})
                else:
                    {every} = _CONSTANT
            """)
        else:
            source.line(f"{every} = _CONSTANT")
    source.write(f"""
        else:
            {every} = None
    """)


def _recorded(op: Op, results: list[str]) -> list[str]:
    """The arguments of `op.record`."""
    nodes = [
        f"None if {one.name} is None else {one.name}._node"
        if one.arity is Arity.OPTIONAL
        else f"{one.name}._node"
        for one in op.inputs
    ]
    arrays = [f"_a{i}" for i in range(len(nodes))]
    return [*nodes, *arrays, *results, "_device", *(a.name for a in op.attributes)]


def _write_several_results(source: Source, op: Op, tracked: str) -> None:
    """Several results, or residuals behind them, from what the kernel returned."""
    count = len(op.outputs) + len(op.residuals)
    results = [f"_r{i}" for i in range(count)]
    tensors = [f"_t{i}" for i in range(len(op.outputs))]
    source.write(f"""
        if not isinstance(_out, _SEQUENCES) or len(_out) != {count}:
            {_general(op)}
        {", ".join(results)} = _out
    """)
    for result in results:
        _write_adoption(source, result)
    for tensor, result in zip(tensors, results, strict=False):
        _write_tensor(source, tensor, result, op)
    _write_recording(source, op, tracked, tensors, results)
    source.line(f"return _named({tuple_of(tensors)})" if len(tensors) > 1 else "return _t0")


# ---------------------------------------------------------------------------------------------
# Expressions.


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


def _inputs(op: Op) -> str:
    return tuple_of([one.name for one in op.inputs])


def _attributes(op: Op) -> str:
    return "{" + ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes) + "}"


def _general(op: Op) -> str:
    return f"return _general(_OP, {_inputs(op)}, {_attributes(op)})"


def _present(one: Input, test: str) -> str:
    """A test of an input that may be absent."""
    return f"({one.name} is not None and {test})" if one.arity is Arity.OPTIONAL else test
