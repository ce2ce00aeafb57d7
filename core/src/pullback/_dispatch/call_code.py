"""Writes the code of an op's public function, specialized to its signature.

An op with a fixed number of inputs, an op of one sequence of tensors and an op that makes a tensor
on a device have specialized code. Every other op, and every call that is not the common case (mixed
dtypes, host data, a composite without a kernel), goes through `pullback._dispatch.general`. Both do
the same; specialized code only saves the loops. `print(pb.add.source)` shows it.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any
from weakref import ref

from pullback import shapes
from pullback._codegen.source import Source, signature_of, tuple_of
from pullback._dispatch import general, general_vjp, vjp_code
from pullback._dispatch.arguments import (
    PLAIN,
    REQUIRED,
    as_accumulated,
    dtype_attributes,
    foreign_keywords,
    raise_explained,
)
from pullback._dispatch.bodies import is_one_sequence
from pullback._dispatch.convert import alike, read, read_whole
from pullback._dispatch.host_data import SCALAR_TYPES
from pullback._dispatch.plan import keyed_by_first
from pullback._dispatch.recording import (
    CONSTANT,
    LOCAL,
    RECORDING,
    Node,
    Output,
    is_outside,
    reachable,
)
from pullback._dispatch.results import reject
from pullback._hints import reject_keywords
from pullback._once import KEYS, key_of
from pullback._symbols import TRACES
from pullback._views import base_of
from pullback.devices import as_device
from pullback.dtypes import accumulating, as_dtype, is_floating
from pullback.spec import Arity, Attribute, Input, Op
from pullback.tensor import Tensor, new_tensor

_CANONICAL_FORMS = {
    "Axis": "{0} = _canonical_axis({0}, len(_a0.shape))",
    "Axes": "{0} = _canonical_axes({0}, len(_a0.shape))",
    "JoinedAxes": "{0} = _canonical_axis({0}, len(_a0.shape))",
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
        "_new_tensor": new_tensor,
        "_Node": Node,
        "_CONSTANT": CONSTANT,
        "_RECORDING": RECORDING,
        "_TRACES": TRACES,
        "_is_outside": is_outside,
        "_LOCAL": LOCAL,
        "_reachable": reachable,
        "_read": read_whole if op.view else read,
        "_align": general.align,
        "_alike": alike,
        "_general": general.call,
        "_record_body": general.record_body,
        "_record": general_vjp.record,
        "_raise_explained": raise_explained,
        "_reject": reject,
        "_reject_keywords": reject_keywords,
        "_unbroadcast": vjp_code.unbroadcast,
        "_canonical_axis": shapes.canonical_axis,
        "_canonical_axes": shapes.canonical_axes,
        "_as_shape": shapes.as_shape,
        "_as_dtype": as_dtype,
        "_as_accumulated": as_accumulated,
        "_as_device": as_device,
        "_Output": Output,
        "_weak": ref,
        "_base_of": base_of,
        "_is_floating": is_floating,
        "_SEQUENCES": (tuple, list),
        **{f"_plain_{form}": function for form, function in PLAIN.items()},
        "_normalize": op.normalize,
        "_kept": getattr(op.normalize, "kept", None),
        "_KEYS": KEYS,
        "_key_of": key_of,
        "_check": op.normalize.rule if isinstance(op.normalize, shapes.Checked) else None,
        "_scalars": op.scalars,
        "_forms": op.forms,
        "_number_forms": op.number_forms,
        "_find_form": general.find_form,
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
    foreign = foreign_keywords(op)
    signature = signature_of(op.body, foreign)
    if op.missing:
        for parameter in op.inputs[1:]:
            signature = signature.replace(f" {parameter.name},", f" {parameter.name}=...,")
    source = Source(op.body.__name__, signature, names)
    if foreign:
        with source.block(f"if {' or '.join(f'{name} is not ...' for name in foreign)}:"):
            given = ", ".join(f"{name}={name}" for name in foreign)
            source.line(f"_reject_keywords(_OP.body, {given})")
    if op.fixed:
        _write_fixed(source, op)
    elif op.creates:
        _write_creation(source, op)
    elif is_one_sequence(op):
        _write_sequence(source, op)
    else:
        source.line(_general(op))
    return source


# ---------------------------------------------------------------------------------------------
# The three forms of a call.


def _write_fixed(source: Source, op: Op) -> None:
    """Writes the call of an op with a fixed number of inputs."""
    arrays = [f"_a{i}" for i in range(len(op.inputs))]
    tracked = " or ".join(_present(x, f"{x.name}._node is not None") for x in op.inputs)
    _write_tensors(source, op)
    _write_arrays(source, op)
    _write_look_up(source, "_key", _general(op))
    if _draws(op):
        _write_lift(source, op)
    _write_detour(source, op, tracked)
    _write_kernel_call(source, op, arrays, _inputs(op))
    if op.simple:
        _write_native(source, op, "_out")
        _write_tensor(source, "_result", "_out", op)
        _write_recording(source, op, tracked, ["_result"], ["_out"])
        source.line("return _result")
    else:
        _write_several_results(source, op, tracked)


def _write_creation(source: Source, op: Op) -> None:
    """Writes the call of an op without inputs, which makes a tensor on a given device."""
    with source.block("try:"):
        source.line("_device = device = _as_device(device)")
        _write_canonical(source, op, [])
    _write_failure(source, op, "()")
    _write_lift(source, op)
    _write_look_up(source, tuple_of(dtype_attributes(op)), _general(op))
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


def _write_sequence(source: Source, op: Op) -> None:
    """Writes the call of an op on one sequence of tensors."""
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
    _write_native(source, op, "_out")
    _write_tensor(source, "_result", "_out", op)
    with source.block("if _RECORDING.count:"):
        _write_lift(source, op)
    source.write(f"""
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
    """Writes the conversion of inputs that are not tensors."""
    inputs = [x.name for x in op.inputs]
    foreign = " or ".join(_present(x, f"type({x.name}) is not _Tensor") for x in op.inputs)
    names = ", ".join(inputs) + "," * (len(inputs) == 1)
    align = f"{names} = _align(_OP, {_inputs(op)})"
    with source.block(f"if {foreign}:"):
        if len(inputs) == 2 and op.dtype.uniform and op.inputs[1].arity is Arity.ONE:
            x1, x2 = inputs
            _write_number(source, op, "if", x2, x1, "", align)
            _write_number(source, op, "elif", x1, x2, ", True", align)
            source.write(f"""
                else:
                    _t1 = {x1} if type({x1}) is _Tensor else _read({x1})
                    _t2 = {x2} if type({x2}) is _Tensor else _read({x2})
                    if type(_t1) is not _Tensor or type(_t2) is not _Tensor:
                        {align}
                    else:
                        {x1} = _t1
                        {x2} = _t2
            """)
            return
        if len(inputs) > 1:
            # As the caller has passed them: a call with symbolic tensors keeps variables.
            source.line(f"_given = {_inputs(op)}")
            align = f"{names} = _align(_OP, _given)"
        for x in inputs:
            # The test for all of them is one for the only one.
            other = f"if type({x}) is not _Tensor and type({x}) not in _numbers:"
            with source.block(other) if len(inputs) > 1 else nullcontext():
                source.line(f"{x} = _read({x})")
        source.write(f"""
            if {foreign}:
                {align}
        """)


def _write_number(
    source: Source, op: Op, word: str, number: str, x: str, side: str, align: str
) -> None:
    """Writes the look-up of a Python number beside a tensor, which `align` left in a table.

    On the left a number has a key of its own (`side`): a rule may look at the first input alone.
    The device comes before the dtype: those of two libraries are not to be compared. Zeros have a
    text as their key, because 0.0 == -0.0.
    """
    key = f"({number} or repr({number}), type({number}), {x}._device, {x}._array.dtype{side})"
    with source.block(f"{word} type({number}) in _numbers:"):
        source.write(f"""
            if type({x}) is not _Tensor:
                {x} = _read({x})
        """)
        if op.number_forms:
            _write_form(source, number, x, side)
        source.write(f"""
            _number = _scalars.get({key}) if type({x}) is _Tensor else None
            if _number is not None:
                {number} = _number
            else:
                {align}
        """)


def _write_form(source: Source, number: str, x: str, side: str) -> None:
    """Writes the call of what computes an op of one number in fewer steps.

    The type of the dtype comes before it: dtypes of two libraries are not to be compared.
    """
    key = f"({number}, type({number}), type({x}._array.dtype), {x}._array.dtype{side})"
    source.write(f"""
        if {number} in _number_forms and type({x}) is _Tensor:
            _form = _forms.get({key}) or _find_form(_OP, {number}, {x}{side})
            if _form is not None:
                return _form({x})
    """)


def _write_arrays(source: Source, op: Op) -> None:
    """Writes the arrays of the inputs, which must be on one device, and the key of the kernel."""
    first, *others = op.inputs
    source.write(f"""
        _device = {first.name}._device
        _a0 = {first.name}._array
        _key = _a0.dtype
    """)
    keys = ["_key"]
    for i, parameter in enumerate(others, 1):
        x = parameter.name
        apart = f"{x}._device is not _device"
        if op.dtype.uniform:
            apart += f" or _a{i}.dtype is not _key"
        if parameter.arity is Arity.OPTIONAL:
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
            source.line(f"_a{i} = {x}._array")
            with source.block(f"if {apart}:"):
                if len(op.inputs) == 2 and op.dtype.uniform and first.arity is Arity.ONE:
                    source.write(f"""
                        {first.name}, {x} = _alike(_OP, {first.name}, {x})
                        _a0, _a1 = {first.name}._array, {x}._array
                        _key = _a0.dtype
                        if {apart}:
                            {_general(op)}
                    """)
                else:
                    source.line(_general(op))
            keys.append(f"_a{i}.dtype")
    if not keyed_by_first(op):
        source.line(f"_key = {tuple_of(keys)}")


def _write_look_up(source: Source, key: str, general: str) -> None:
    """Writes the look-up of the kernel in the op's table."""
    source.write(f"""
        try:
            _kernel = _device.tables[_INDEX][{key}]
        except LookupError:
            {general}
    """)


def _write_lift(source: Source, op: Op) -> None:
    """Writes the test for a call of a captured function on tensors from outside its trace.

    The general call makes them tensors of the trace. Where nothing is recorded the test would cost
    a hundredth of a small call. So it is where a node is made, behind the kernel: that has computed
    in vain.
    """
    source.write(f"""
        if _TRACES.count and _is_outside(_device):
            {_general(op)}
    """)


def _draws(op: Op) -> bool:
    """Returns whether an op gets the state of a generator, which is none in a trace."""
    return any(attribute.name == "counter" for attribute in op.attributes)


def _write_detour(source: Source, op: Op, tracked: str) -> None:
    """Writes the call of the body in place of a kernel without a rule, while a tape records."""
    if op.differentiable and not op.primitive and not op.rules:
        call = _general(op, "_record_body" if op.fixed else "_general")
        source.write(f"""
            if _RECORDING.count and ({tracked}):
                {call}
        """)


def _write_kernel_call(source: Source, op: Op, arrays: list[str], inputs: str) -> None:
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    with source.block("try:"):
        _write_canonical(source, op, arrays)
        source.line(f"_out = _kernel({', '.join(arrays + keywords)})")
    _write_failure(source, op, inputs)


def _write_canonical(source: Source, op: Op, arrays: list[str]) -> None:
    """Writes what makes the attributes canonical."""
    for attribute in op.attributes:
        line = _CANONICAL_FORMS.get(attribute.form, "").format(attribute.name)
        if attribute.form == "DTypeLike" and op.dtype is accumulating:
            own = "_device.backend.public_dtypes[_key]"
            line = f"{attribute.name} = _as_accumulated({attribute.name}, {own})"
        test = _test_of_form(attribute)
        if line and test:
            with source.block(f"if {test}:"):
                source.line(line)
        elif line:
            source.line(line)
    if op.normalize is None:
        return
    input_shapes = [_shape_of(x, array) for x, array in zip(op.inputs, arrays, strict=True)]
    keywords = [f"{a.name}={a.name}" for a in op.attributes]
    if isinstance(op.normalize, shapes.Checked):
        source.line(f"_check({', '.join([*input_shapes, *keywords])})")
        return
    call = f"_canonical = _normalize({', '.join([tuple_of(input_shapes), *keywords])})"
    if hasattr(op.normalize, "kept"):
        names = [a.name for a in op.attributes]
        values = [f"{name} if type({name}) in _KEYS else _key_of({name})" for name in names]
        source.line(
            f"_canonical = _kept.get({tuple_of([*input_shapes, *map(repr, names), *values])})"
        )
        with source.block("if _canonical is None:"):
            source.line(call)
    else:
        source.line(call)
    source.lines(f"{a.name} = _canonical[{a.name!r}]" for a in op.attributes)


def _test_of_form(attribute: Attribute) -> str:
    """A quick test for values that may not be canonical; "" if every value may not be."""
    name, form = attribute.name, attribute.form
    tests = [f"{name} is not None"] if attribute.optional or form not in REQUIRED else []
    if form in PLAIN:
        # The type that nearly every call gives.
        tests.append(f"type({name}) is not {form}")
    return " and ".join(tests)


def _shape_of(x: Input, array: str) -> str:
    if x.arity is Arity.OPTIONAL:
        return f"None if {array} is None else tuple({array}.shape)"
    if x.arity is Arity.MANY:
        return f"[tuple(_a.shape) for _a in {array}]"
    return f"tuple({array}.shape)"


def _write_failure(source: Source, op: Op, inputs: str) -> None:
    several = f" or type({op.joined}) is not int" if op.joined else ""
    source.write(f"""
        except Exception as _error:
            if isinstance(_error, RuntimeWarning){several}:
                return _general(_OP, {inputs}, {_attributes(op)})
            _raise_explained(_OP, _error, {inputs}, {_attributes(op)})
    """)


def _write_native(source: Source, op: Op, result: str, *, residual: bool = False) -> None:
    """Writes the conversion of a result that is not an array, such as a NumPy scalar.

    A kernel that declines has returned NotImplemented, and None for a residual that is not wanted.
    """
    absent = f" and {result} is not None" * residual
    with source.block(f"if type({result}) is not type(_a0){absent}:"):
        if len(op.outputs) + len(op.residuals) == 1:
            source.write(f"""
                if {result} is NotImplemented:
                    {_general(op)}
            """)
        source.write(f"""
            try:
                {result} = _device.backend.native({result})
            except Exception as _error:
                _reject(_OP, _device, _kernel, {result}, _error)
        """)


def _write_tensor(source: Source, tensor: str, array: str, op: Op) -> None:
    x = op.inputs[0].name if op.view else ""
    base = x and f"_weak({x}) if {x}._base is None else _base_of({x})"
    source.write(f"""
        {tensor} = _new_tensor()
        {tensor}._array = {array}
        {tensor}._device = _device
        {tensor}._base = {base or None}
    """)


def _write_recording(
    source: Source, op: Op, tracked: str, tensors: list[str], results: list[str]
) -> None:
    """Writes what sets the node of each result."""
    nodes = [f"{tensor}._node" for tensor in tensors]
    every = " = ".join(nodes)
    recorded = op.rules or (op.simple and op.primitive)
    with source.block("if _RECORDING.count:"):
        if not _draws(op):
            _write_lift(source, op)
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
        f"None if {x.name} is None else {x.name}._node"
        if x.arity is Arity.OPTIONAL
        else f"{x.name}._node"
        for x in op.inputs
    ]
    arrays = [f"_a{i}" for i in range(len(nodes))]
    return [*nodes, *arrays, *results, "_device", *(a.name for a in op.attributes)]


def _write_several_results(source: Source, op: Op, tracked: str) -> None:
    """Writes the tensors of several results, or of results with residuals after them."""
    count = len(op.outputs) + len(op.residuals)
    results = [f"_r{i}" for i in range(count)]
    tensors = [f"_t{i}" for i in range(len(op.outputs))]
    source.write(f"""
        if not isinstance(_out, _SEQUENCES) or len(_out) != {count}:
            {_general(op)}
        {", ".join(results)} = _out
    """)
    for i, result in enumerate(results):
        _write_native(source, op, result, residual=i >= len(tensors))
    for tensor, result in zip(tensors, results, strict=False):
        _write_tensor(source, tensor, result, op)
    _write_recording(source, op, tracked, tensors, results)
    source.line(f"return _named({tuple_of(tensors)})" if len(tensors) > 1 else "return _t0")


# ---------------------------------------------------------------------------------------------
# Expressions.


def _inputs(op: Op) -> str:
    return tuple_of([x.name for x in op.inputs])


def _attributes(op: Op) -> str:
    return "{" + ", ".join(f"{a.name!r}: {a.name}" for a in op.attributes) + "}"


def _general(op: Op, function: str = "_general") -> str:
    return f"return {function}(_OP, {_inputs(op)}, {_attributes(op)})"


def _present(x: Input, test: str) -> str:
    """A test of an input that may be absent."""
    return f"({x.name} is not None and {test})" if x.arity is Arity.OPTIONAL else test
