"""The ops of fused kernels: what each computes for one element, as functions in CUDA C++.

They compute what CuPy's own functions do, and the expressions of `kernels` are used as they are.
16-bit floats are computed in float, and each op rounds its result to the dtype of its array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback.casting import HALF, compute_dtype
from pullback.dtypes import DType
from pullback_cupy.compile import CUDA_NAMES, EXPRESSIONS

__all__ = ["CONTRACTED", "FUSIBLE", "SAME_NAME", "Unsupported", "function"]

#: CUDA's functions that have the names of ops.
SAME_NAME = (
    "exp", "expm1", "log", "log10", "log1p", "log2", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sqrt", "floor", "ceil", "trunc",
)  # fmt: skip

#: CUDA's functions of float64 whose code is another one without contraction (fmad), with which CuPy
#: compiles them; `test_sources` compares the code of all.
CONTRACTED = frozenset(("acos", "acosh", "asinh", "atanh", "log", "log10", "log1p", "log2"))

#: Of floats `a` and `b`, which are wide. The result is rounded to their dtype.
_FLOATS = {
    **{name: f"{name}(a)" for name in SAME_NAME},
    "abs": "fabs(a)",
    "add": "a + b",
    "atan2": "atan2(a, b)",
    "copysign": "copysign(a, b)",
    "divide": "a / b",
    "hypot": "hypot(a, b)",
    "maximum": "isnan(a) || isnan(b) ? W(NOT_A_NUMBER) : max(a, b)",
    "minimum": "isnan(a) || isnan(b) ? W(NOT_A_NUMBER) : min(a, b)",
    "multiply": "a * b",
    "negative": "-a",
    "positive": "a",
    "reciprocal": "1 / a",
    "sign": "a < 0 || a > 0 ? copysign(W(1), a) : a - a",
    "square": "a * a",
    "subtract": "a - b",
}
#: Of integers `a` and `b`, and of these without a sign, `p` and `q`, whose overflow is defined.
_INTEGERS = {
    "abs": "a > 0 ? p : -p",
    "add": "p + q",
    "ceil": "a",
    "floor": "a",
    # Division by 0 gives 0, and the lowest number divided by -1 is itself.
    "floor_divide": "b == 0 ? T(0) : b == T(-1) && T(-1) < 0 ? T(-p)"
    " : T(a / b - ((a < 0) != (b < 0) && a % b != 0))",
    "maximum": "a > b ? a : b",
    "minimum": "a < b ? a : b",
    "multiply": "p * q",
    "negative": "-p",
    "positive": "a",
    "remainder": "b == 0 || (b == T(-1) && T(-1) < 0) ? T(0)"
    " : T(a % b + ((a < 0) != (b < 0) && a % b != 0 ? b : T(0)))",
    "round": "a",
    "sign": "(a > 0) - (a < 0)",
    "square": "p * p",
    "subtract": "p - q",
    "trunc": "a",
}
_INTEGERS["integer_floor_divide"] = _INTEGERS["floor_divide"]
#: Of integers and booleans.
_BITS = {
    "bitwise_and": "a & b",
    "bitwise_or": "a | b",
    "bitwise_xor": "a ^ b",
}
_BOOLEANS = {
    "bitwise_invert": "!a",
    "logical_and": "a && b",
    "logical_not": "!a",
    "logical_or": "a || b",
    "logical_xor": "a != b",
}
#: Of any numbers: booleans.
_COMPARISONS = {
    "equal": "a == b",
    "greater": "a > b",
    "greater_equal": "a >= b",
    "less": "a < b",
    "less_equal": "a <= b",
    "not_equal": "a != b",
}
_TESTS = {
    "isfinite": "isfinite(a)",
    "isinf": "isinf(a)",
    "isnan": "isnan(a)",
    "signbit": "signbit(a)",
}
#: Ops whose kernels are expressions of `kernels`, by the name there, for floats.
_OWN = (
    "absolute_error", "celu", "elu", "erf", "erfc", "floor_divide", "hard_sigmoid", "hard_silu",
    "hard_tanh", "hinge_loss", "huber_loss", "leaky_relu", "log_cosh_loss", "log_sigmoid", "mish",
    "prelu", "relu", "relu6", "relu_gradient", "remainder", "round", "selu",
    "sigmoid", "sigmoid_cross_entropy_with_logits", "sigmoid_gradient", "silu", "silu_gradient",
    "softplus", "softsign", "squared_error",
)  # fmt: skip
#: Of those with an attribute `approximate`, the two names.
_APPROXIMATE = {
    "gelu": ("gelu", "gelu_tanh"),
    "gelu_gradient": ("gelu_gradient", "gelu_gradient_tanh"),
}
_ATTRIBUTES = {
    "celu": "alpha",
    "elu": "alpha",
    "huber_loss": "delta",
    "leaky_relu": "negative_slope",
}

#: The ops that regions may have; `broadcast_to` only of a number, and `sum` at the end.
FUSIBLE = frozenset({
    *_FLOATS, *_INTEGERS, *_BITS, *_BOOLEANS, *_COMPARISONS, *_TESTS, *_OWN, *_APPROXIMATE,
    "astype", "broadcast_to", "sum", "where",
})  # fmt: skip


class Unsupported(Exception):
    """A region has something that fused kernels do not take."""


def function(
    op: str, inputs: tuple[DType, ...], result: DType, attributes: Mapping[str, Any]
) -> tuple[str, str, tuple[str, ...]]:
    """A function for one element of an op.

    Returns:
        Its name, its text, and the numbers that it takes after the elements.

    Raises:
        Unsupported: if there is none for these dtypes.
    """
    if any(dtype.name not in CUDA_NAMES for dtype in (*inputs, result)):
        raise Unsupported
    kinds = {_kind(dtype) for dtype in inputs}
    if op == "where":
        condition, *others = inputs
        if condition.kind != "b" or others != [result, result]:
            raise Unsupported
        return _plain(op, inputs, result, "x0 ? x1 : x2")
    if op == "astype":
        [source] = inputs
        if _rounds_twice(source, result):
            raise Unsupported
        wide = "float(x0)" if source in HALF else "x0"
        return _plain(op, inputs, result, f"float({wide})" if result in HALF else wide)
    if len(set(inputs)) > 1 or not kinds:
        raise Unsupported
    [kind], dtype = kinds, inputs[0]
    if op in _COMPARISONS or (op in _TESTS and kind == "f"):
        return _plain(op, inputs, result, (_COMPARISONS | _TESTS)[op], letters=True)
    if kind == "f" and op in _FLOATS and not (op in CONTRACTED and dtype.name == "float64"):
        return _plain(op, inputs, result, _FLOATS[op], letters=True)
    if kind == "i" and op in (known := _INTEGERS | _BITS):
        return _plain(op, inputs, result, known[op], letters=True)
    if kind == "b" and op in (known := _BOOLEANS | _BITS):
        return _plain(op, inputs, result, known[op], letters=True)
    if kind == "f" and result == dtype and (op in _OWN or op in _APPROXIMATE):
        return _own(op, dtype, attributes)
    raise Unsupported


def _plain(
    op: str, inputs: tuple[DType, ...], result: DType, expression: str, *, letters: bool = False
) -> tuple[str, str, tuple[str, ...]]:
    """A function of an expression in the elements, or in the letters of the tables above."""
    types = [CUDA_NAMES[dtype.name] for dtype in inputs]
    parameters = ", ".join(f"const {type_} x{k}" for k, type_ in enumerate(types))
    lines = _letters(inputs[0], len(inputs)) if letters else ""
    to = CUDA_NAMES[result.name]
    name = "_".join((op, *(dtype.name for dtype in inputs), result.name))
    body = f"{lines}  return ({to})({expression});\n"
    return name, f"__device__ inline {to} {name}({parameters}) {{\n{body}}}\n", ()


def _letters(dtype: DType, count: int) -> str:
    """The definitions of T and W, of `a` and `b`, and for integers of `p` and `q`."""
    wide = CUDA_NAMES[compute_dtype(dtype).name]
    lines = f"  typedef {CUDA_NAMES[dtype.name]} T;\n  typedef {wide} W;\n"
    for k in range(count):
        lines += f"  const W {'ab'[k]} = W(x{k});\n"
        if _kind(dtype) == "i":
            bits = "u64" if dtype.itemsize == 8 else "unsigned int"
            lines += f"  const {bits} {'pq'[k]} = x{k};\n"
    return lines


def _own(op: str, dtype: DType, attributes: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """The expression of the kernel of an op of this backend as a function."""
    key = _APPROXIMATE[op][bool(attributes["approximate"])] if op in _APPROXIMATE else op
    inputs, _, operation = EXPRESSIONS[key]
    numbers: tuple[str, ...] = ()
    if op in _ATTRIBUTES:
        number = float(attributes[_ATTRIBUTES[op]])
        if not math.isfinite(number):
            raise Unsupported
        numbers = (repr(number),)
    elif attributes and op not in _APPROXIMATE:
        raise Unsupported
    parameters = ", ".join(
        f"const {part.strip().replace('float64 ', 'double ')}" for part in inputs.split(",")
    )
    name, type_ = f"{key}_{dtype.name}", CUDA_NAMES[dtype.name]
    parameters = parameters.replace("const T ", f"const {type_} ")
    text = (
        f"__device__ inline {type_} {name}({parameters}) {{\n  typedef {type_} T;\n  T y;\n"
        f"  {operation};\n  return y;\n}}\n"
    )
    return name, text, numbers


def _kind(dtype: DType) -> str:
    """The letter of floats, "f", of integers, "i", or of booleans, "b"."""
    return {"b": "b", "i": "i", "u": "i"}.get(dtype.kind, "f")


def _rounds_twice(source: DType, result: DType) -> bool:
    """Returns whether a conversion by way of float32 would be another one than the op's."""
    if source.name == "float64":
        return result in HALF
    # float32 holds all integers in the range of float16.
    return result.name == "bfloat16" and source.kind in "iu" and source.itemsize > 2
