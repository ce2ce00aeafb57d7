"""Programs of several calls, made by rules from the ops that a source of kernels fuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pullback import dtypes, errors
from pullback.graph.passes.regions import LARGEST_REGION, takes_rows
from pullback.shapes import Shape, reduce
from pullback.spec import OPS, Arity, Op
from pullback_conformance.case import Case, takes_no_attributes

#: A function of the inputs of the op, and of a row, a number and a column beside them.
Program = Callable[[Sequence[Any], Sequence[Any]], Any]
#: What stands beside arrays, in the order in which programs get them.
BESIDE = ("a row", "a number", "a column")


class Partners(NamedTuple):
    """The ops that a source fuses, by the ways in which a program can call them."""

    unary: tuple[Op, ...]
    binary: tuple[Op, ...]
    ternary: tuple[Op, ...]
    reductions: tuple[Op, ...]
    over_rows: tuple[Op, ...]
    copies: tuple[Op, ...]

    def turned(self, turn: int) -> Partners:
        """The same with other ops first."""
        return Partners(*(_turned(ops, turn) for ops in self))


def partners(names: Iterable[str]) -> Partners:
    """The ops of these names that programs can call, in the order of their names."""
    by_inputs: dict[int, list[Op]] = {1: [], 2: [], 3: []}
    reductions, over_rows, copies = [], [], []
    for op in (OPS[name] for name in sorted(names) if name in OPS):
        if takes_rows(op):
            if all(parameter.arity is Arity.OPTIONAL for parameter in op.inputs[1:]):
                over_rows.append(op)
            continue
        if any(parameter.arity is not Arity.ONE for parameter in op.inputs):
            continue
        if op.copies_elements:
            if [attribute.form for attribute in op.attributes] == ["ShapeLike"]:
                copies.append(op)
        elif op.shape is reduce:
            reductions.append(op)
        elif len(op.inputs) in by_inputs and takes_no_attributes(op):
            by_inputs[len(op.inputs)].append(op)
    kinds = (by_inputs[1], by_inputs[2], by_inputs[3], reductions, over_rows, copies)
    return Partners(*map(tuple, kinds))


def programs(case: Case, ops: Partners, shape: Shape) -> Iterator[tuple[str, Program]]:
    """Programs with calls of the op of a case and of others, each after its description.

    Args:
        case: its op is in each program; of a reduction at the end.
        ops: the others; the first ones are called.
        shape: the shape of the inputs.
    """
    op, names = case.op, [parameter.name for parameter in case.op.inputs]
    first = next((i for i, x in enumerate(case.inputs) if x.dtype in dtypes.FLOATING), 0)
    one, two = _functions(ops.unary), _functions(ops.binary)

    def call(x: Sequence[Any]) -> Any:
        return one[0](x[first]) if op.shape is reduce else case.call(list(x))

    def added(x: Sequence[Any]) -> Any:
        """The result and the input in a call that compares nothing."""
        results = (f(call(x), x[first]) for f in two)
        return next((y for y in results if y.dtype == x[first].dtype), call(x))

    def call_with(x: Sequence[Any], i: int, value: Any) -> Any:
        return call([*x[:i], value, *x[i + 1 :]])

    yield "a chain", lambda x, _: two[0](one[0](call(x)), x[first])
    yield ("several results", lambda x, _: (y := call(x), one[1](y), two[1](y, one[0](x[first]))))
    yield (
        "numbers in the program",
        lambda x, _: (two[0](call(x), 0.5), two[1](-1.0, call(x)), two[0](x[first], 0.0)),
    )
    yield "more calls than a region has", lambda x, _: _long(call(x), ops)

    def choice(f: Callable[..., Any]) -> Program:
        return lambda x, _: f(call(x), x[first], one[0](x[first]))

    def spread(f: Callable[..., Any]) -> Program:
        return lambda x, beside: two[0](call(x), f(beside[1], shape))

    def near(k: int) -> Program:
        return lambda x, beside: (two[0](call(x), beside[k]), two[1](beside[k], one[0](call(x))))

    def behind(i: int) -> Program:
        return lambda x, _: call_with(x, i, one[0](x[i]))

    def with_input(i: int, k: int) -> Program:
        return lambda x, beside: one[0](call_with(x, i, beside[k]))

    def by_rows(f: Callable[..., Any]) -> Program:
        return lambda x, _: (one[0](f(y := added(x), axis=-1)), one[1](y))

    def ended(f: Callable[..., Any], axis: int | None, keepdims: bool) -> Program:
        return lambda x, _: (f(added(x), axis=axis, keepdims=keepdims), one[0](x[first]))

    for f in _functions(ops.ternary, pad=False):
        yield "a choice by the result", choice(f)
    for f in _functions(ops.copies, pad=False):
        yield "a number as an array", spread(f)
    for f in _functions(ops.over_rows, pad=False):
        yield f"rows of the result in {f.__name__}", by_rows(f)
    for k, beside in enumerate(BESIDE):
        yield f"{beside} beside the result", near(k)
    if op.shape is not reduce:
        for i, name in enumerate(names):
            yield f"another result as {name}", behind(i)
            for k, beside in enumerate(BESIDE if len(names) > 1 else ()):
                yield f"{beside} as {name}", with_input(i, k)
    for end in (op,) if op.shape is reduce else ops.reductions:
        for axis in (None, *dict.fromkeys((0, len(shape) - 1) if shape else ())):
            for keepdims in (False, True):
                description = f"{end.name} of axis {axis}, keepdims={keepdims}"
                yield description, ended(end.function, axis, keepdims)


def _turned(ops: tuple[Op, ...], turn: int) -> tuple[Op, ...]:
    return ops[turn % len(ops) :] + ops[: turn % len(ops)] if ops else ()


def _functions(ops: Sequence[Op], *, pad: bool = True) -> list[Callable[..., Any]]:
    """The functions of the first two ops; without any, what leaves the program out."""
    found = [op.function for op in ops[:2]]
    if not pad:
        return found
    return [*found, *found, _absent, _absent][:2]


def _absent(*_: Any) -> Any:
    raise errors.InputValueError("the source fuses no such op")


def _long(value: Any, ops: Partners) -> list[Any]:
    values = [value]
    both = zip(itertools.cycle(ops.unary), itertools.cycle(ops.binary or ops.unary), strict=False)
    for unary, binary in itertools.islice(both, LARGEST_REGION):
        y = unary.function(values[-1])
        if ops.binary and len(values) % 3 == 0:
            z = binary.function(y, values[len(values) // 2])
            y = z if z.dtype == y.dtype else y  # not a comparison
        values.append(y)
    return values[-1 :: -len(values) // 3]
