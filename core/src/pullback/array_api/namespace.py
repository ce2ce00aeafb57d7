"""Namespaces that are nearly the standard's: what they lack, and what can be made of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from pullback._numerics import ArrayNamespace
from pullback.plugins.records import Native

#: The functions of the standard that kernels call, by name.
FUNCTIONS = frozenset((
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "argsort",
    "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "broadcast_to", "ceil", "concat", "conj", "copysign", "cos", "cosh", "cumulative_prod",
    "cumulative_sum", "divide", "equal", "exp", "expm1", "flip", "floor", "floor_divide", "full",
    "greater", "greater_equal", "hypot", "imag", "isdtype", "isfinite", "isinf", "isnan", "less",
    "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "min", "minimum",
    "multiply", "negative", "nextafter", "nonzero", "not_equal", "permute_dims", "pow", "prod",
    "real", "reciprocal", "remainder", "reshape", "round", "searchsorted", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "stack", "subtract", "sum", "take", "tan", "tanh", "trunc",
    "where", "zeros", "zeros_like",
))  # fmt: skip
#: Other names that libraries have for functions and dtypes of the standard.
OTHER_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "bitwise_not",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "bool": "bool_",
    "concat": "concatenate",
    "conj": "conjugate",
    "permute_dims": "transpose",
    "pow": "power",
}


class Completed:
    """A namespace with functions that it lacks, made of those that it has.

    They give what the standard says for every value, but for the sign of NaN.
    """

    def __init__(self, xp: ArrayNamespace) -> None:
        self._xp = xp
        for name, other in OTHER_NAMES.items():
            if not hasattr(xp, name) and hasattr(xp, other):
                setattr(self, name, getattr(xp, other))
        for name, (needed, make) in MADE.items():
            if not hasattr(xp, name) and all(hasattr(self, one) for one in needed):
                setattr(self, name, make(self))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp, name)


def completed(xp: ArrayNamespace) -> Any:
    """The namespace itself if it has every function; else one that has what can be made."""
    return xp if all(hasattr(xp, name) for name in (*FUNCTIONS, "bool")) else Completed(xp)


def _isfinite(xp: ArrayNamespace) -> Callable[..., Any]:
    return lambda x: x - x == 0


def _isinf(xp: ArrayNamespace) -> Callable[..., Any]:
    def isinf(x: Any) -> Any:
        # Beside a NaN a part is infinite as the size is; that of finite parts may overflow.
        return ((x == x) & (x - x != 0)) | ((x != x) & (xp.abs(x) == float("inf")))

    return isinf


def _signbit(xp: ArrayNamespace) -> Callable[..., Any]:
    # Of zeros only the reciprocals have a sign that a comparison sees.
    return lambda x: (x < 0) | ((x == 0) & (1 / x < 0))


def _copysign(xp: ArrayNamespace) -> Callable[..., Any]:
    def copysign(x1: Native, x2: Native) -> Any:
        size = xp.abs(x1)
        return xp.where(xp.signbit(x2), -size, size)

    return copysign


def _trunc(xp: ArrayNamespace) -> Callable[..., Any]:
    return lambda x: xp.where(x < 0, xp.ceil(x), xp.floor(x))


def _astype(xp: ArrayNamespace) -> Callable[..., Any]:
    return lambda x, dtype, *, copy=True: x.astype(dtype)


def _matrix_transpose(xp: ArrayNamespace) -> Callable[..., Any]:
    return lambda x: xp.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _stack(xp: ArrayNamespace) -> Callable[..., Any]:
    def stack(arrays: Any, *, axis: int = 0) -> Any:
        shape = list(arrays[0].shape)
        shape.insert(axis % (len(shape) + 1), 1)
        return xp.concat([xp.reshape(x, tuple(shape)) for x in arrays], axis=axis)

    return stack


def _flip(xp: ArrayNamespace) -> Callable[..., Any]:
    return lambda x, *, axis: x[(slice(None),) * (axis % x.ndim) + (slice(None, None, -1),)]


#: For each function those that it is made of, and what makes it.
MADE: dict[str, tuple[tuple[str, ...], Callable[[Any], Callable[..., Any]]]] = {
    "astype": ((), _astype),
    "flip": ((), _flip),
    "isfinite": ((), _isfinite),
    "isinf": (("abs",), _isinf),
    "isnan": ((), lambda xp: lambda x: x != x),
    "logical_xor": (("not_equal",), lambda xp: xp.not_equal),
    "matrix_transpose": (("permute_dims",), _matrix_transpose),
    "negative": ((), lambda xp: lambda x: -x),
    "reciprocal": ((), lambda xp: lambda x: 1 / x),
    "signbit": ((), _signbit),
    "square": ((), lambda xp: lambda x: x * x),
    "stack": (("concat", "reshape"), _stack),
    "trunc": (("ceil", "floor", "where"), _trunc),
    "zeros_like": (("zeros",), lambda xp: lambda x: xp.zeros(x.shape, dtype=x.dtype)),
    # It is made of one that is made, so it comes after that.
    "copysign": (("abs", "where", "signbit"), _copysign),
}


def lacks(xp: ArrayNamespace, kernel: Callable[..., Any]) -> list[str]:
    """The functions of the standard that a kernel calls, and the namespace does not have.

    They are those that the code of the kernel names, and of the functions of this package that it
    calls.
    """
    called = {name for code in _codes(kernel, set()) for name in code.co_names}
    return sorted(name for name in called & FUNCTIONS if not hasattr(xp, name))


def _codes(function: object, seen: set[object]) -> Iterator[CodeType]:
    """The code of a function, and of the functions of pullback that it may call."""
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, FunctionType) or function in seen:
        return
    seen.add(function)
    if not function.__module__.startswith("pullback."):
        return  # a function of the namespace
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    yield from codes
    names = {name for code in codes for name in code.co_names}
    reached: list[object] = [cell.cell_contents for cell in function.__closure__ or ()]
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType) and value.__name__.startswith("pullback._numerics"):
            reached += [vars(value).get(other) for other in names]
        else:
            reached.append(value)
    for value in reached:
        yield from _codes(value, seen)
