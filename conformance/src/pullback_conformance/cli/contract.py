"""The contract of an op in words: what its definition says of dtypes, shapes, gradients, kernels.

The reference is made of the same words. Names of code are in backticks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

from pullback import dtypes
from pullback.spec import OPS, Arity, Attribute, Op, Rule

#: What a kernel gets for an attribute, by the annotation; any other is what the annotation says.
FORMS = {
    "Axis": "an int, counted from the front; None where the op allows it",
    "JoinedAxes": "an int, counted from the front",
    "Axes": "a sorted tuple of ints, counted from the front; None for all axes",
    "ShapeLike": "a tuple of ints",
    "DTypeLike": "a public dtype; None where the dtype rule decides",
    "DeviceLike": "the result of Backend.native_device",
    "Sizes": "a tuple with an int for each axis of the window",
    "Padding": "a tuple with a pair (before, after) for each axis of the window",
    "DataFormat": "'channels_last' or 'channels_first'",
    "Key": "a tuple: an int, a slice or None for each axis, and ... last",
}
_ARITIES = {
    Arity.ONE: "an array",
    Arity.OPTIONAL: "an array or None",
    Arity.MANY: "a list of arrays",
}


def first_line(thing: object) -> str:
    """The first line of a docstring; nothing if there is none."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def lower(sentence: str) -> str:
    """A sentence as it continues after a colon."""
    return (sentence[:1].lower() + sentence[1:]).rstrip(".")


def kernel_signature(op: Op) -> str:
    """The call of a kernel: inputs by position, attributes by name.

    >>> from pullback.spec import OPS
    >>> kernel_signature(OPS["softmax"])
    'softmax(x, *, axis)'
    """
    inputs = [parameter.name for parameter in op.inputs]
    attributes = [attribute.name for attribute in op.attributes]
    return f"{op.name}({', '.join([*inputs, *(['*', *attributes] if attributes else [])])})"


def input_lines(op: Op) -> dict[str, str]:
    """For each input what a kernel gets."""
    return {parameter.name: _ARITIES[parameter.arity] for parameter in op.inputs}


def attribute_lines(op: Op) -> dict[str, str]:
    """For each attribute what a kernel gets."""
    return {attribute.name: _form(attribute) for attribute in op.attributes}


def _form(attribute: Attribute) -> str:
    return FORMS.get(attribute.form, attribute.form)


def shape_rule(op: Op) -> str:
    """The name of the shape rule and its description."""
    says = first_line(op.shape)
    return f"`{op.shape.__name__.lstrip('_')}`" + (f": {lower(says)}" if says else "")


def dtype_rule(op: Op) -> str:
    """The name of the dtype rule, if `pullback.dtypes` has it, and its description."""
    rule = op.dtype
    named = [name for name, value in vars(dtypes).items() if value is rule]
    function = rule.function
    made = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    says = lower(first_line(function))
    if "allowed" in made:
        says = f"{made['allowed']} inputs, promoted to one dtype"
        if made["lift"]:
            says += f"; integers and booleans are taken as {dtypes.DEFAULT_FLOAT}"
        if made["to"] is not None:
            says += f"; the result is {made['to']}"
    elif "classes" in made:
        result = made["result"]
        position = f"that of input {result + 1}" if isinstance(result, int) else str(result)
        says = f"each input its own dtype ({', '.join(made['classes'])}); the result has {position}"
    name = named[0].rstrip("_") if named else function.__name__.lstrip("_")
    shown = "" if name == "rule" else f"`{name}`"
    return ": ".join(part for part in (shown, says) if part)


def gradient(op: Op) -> str:
    """The kind of derivative of the op, and the arrays that it keeps."""
    if not op.differentiable:
        return "not differentiable"
    if not op.rules:
        return "through its body"
    arrays = {*(parameter.name for parameter in op.inputs), *op.outputs, *op.residuals}
    targets: dict[Rule | None, list[str]] = {}
    for target, rule in op.rules.items():
        targets.setdefault(rule, []).append(f"`{target}`")
    parts = []
    for shared, names in targets.items():
        if shared is None:
            parts.append(f"none in {', '.join(names)}")
            continue
        kept = ", ".join(f"`{need}`" for need in shared.needs if need in arrays)
        together = "one rule" if len(names) > 1 else "rule"
        parts.append(f"{together} for {', '.join(names)}, keeps {kept or 'no array'}")
    return "; ".join(parts)


def accuracy(op: Op) -> str:
    """The class of accuracy and its bound."""
    return f"{op.accuracy.name}: {op.accuracy.value}"


def definition(op: Op) -> str:
    """The file and line of the body, which defines results and residuals."""
    code = op.body.__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def body(op: Op) -> str:
    """The source of the body, and of the functions of its file that it calls.

    >>> from pullback.spec import OPS
    >>> print(body(OPS["square"]).splitlines()[-1])
        return x * x
    """
    where = f"# {definition(op)}\n"
    if op.primitive:
        return f"{where}# {op.name} is a primitive, which has no body: {op.why}"
    bodies = {one.body for one in OPS.values()}
    functions: list[FunctionType] = [op.body]
    for function in functions:  # which grows meanwhile
        functions += dict.fromkeys(
            called for called in _called(function) if called not in bodies | {*functions}
        )
    helpers = sorted(functions[1:], key=lambda helper: helper.__code__.co_firstlineno)
    return where + "\n\n".join(map(inspect.getsource, (op.body, *helpers))).rstrip()


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """The functions of its own file that a function names, bodies of ops among them."""
    codes = [function.__code__]
    for code in codes:
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
        for name in code.co_names:
            called = inspect.unwrap(function.__globals__.get(name, print))
            if inspect.isfunction(called) and called.__code__.co_filename == code.co_filename:
                yield called


def call(name: str, function: Callable[..., object]) -> str:
    """The signature as a caller writes it."""
    text = f"{name}{inspect.signature(function)}"
    # Annotations are strings, for they are not evaluated; defaults keep their quotes.
    return re.sub(r"""(: |-> )(['"])(.*?)\2(?=[,)= ]|$)""", r"\1\3", text)


def kind(op: Op) -> str:
    """Primitive or composite, and the tier."""
    return f"{'primitive' if op.primitive else 'composite'}, {op.tier} tier"


def plain(text: str) -> str:
    """The text without backticks, for a terminal."""
    return re.sub(r"`([^`]*)`", r"\1", text)
