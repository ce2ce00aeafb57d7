"""Runs a ufunc of NumPy's on tensors: `__array_ufunc__`."""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from pullback import dtypes, errors
from pullback._numpy.host import (
    is_one_of,
    is_recorded,
    on_host,
    read_variables,
    reject_writing,
    tensors_of,
)
from pullback._numpy.table import Unsupported
from pullback._operators import OPERATORS
from pullback.ops import arithmetic, cumulative, reductions
from pullback.ops.comparison import isinf, isnan
from pullback.ops.complex import conj
from pullback.ops.conversion import asarray
from pullback.ops.data_types import astype
from pullback.ops.linalg.linear_algebra import matmul
from pullback.ops.manipulation import reshape
from pullback.ops.rounding import signbit, trunc
from pullback.ops.selection import where
from pullback.tensor import TensorLike

Function = Callable[..., Any]


def _op(name: str) -> Function:
    function: Function = vars(OPERATORS)[name]
    return function


#: Ops with NumPy's name and meaning.
_SAME_NAMES = """
    add subtract multiply divide floor_divide remainder negative positive sign exp log log2
    log10 log1p expm1 sqrt square reciprocal sin cos tan sinh cosh tanh hypot logaddexp maximum
    minimum floor ceil trunc cbrt exp2 fmod frexp heaviside ldexp logaddexp2 copysign nextafter
    isfinite isinf isnan logical_and logical_or logical_not logical_xor bitwise_and
    bitwise_or bitwise_xor equal not_equal less less_equal greater greater_equal matmul vecdot gcd
    lcm
"""

#: Ops of NumPy's meaning under the array API standard's name.
_RENAMED = {
    "absolute": "abs", "fabs": "abs", "power": "pow", "conjugate": "conj", "rint": "round",
    "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctan2": "atan2", "arctanh": "atanh", "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift", "right_shift": "bitwise_right_shift",
}  # fmt: skip


def _fmax(x1: TensorLike, x2: TensorLike) -> Any:
    return where(isnan(x1), x2, where(isnan(x2), x1, arithmetic.maximum(x1, x2)))


def _fmin(x1: TensorLike, x2: TensorLike) -> Any:
    return where(isnan(x1), x2, where(isnan(x2), x1, arithmetic.minimum(x1, x2)))


def _modf(x: TensorLike) -> tuple[Any, Any]:
    whole = trunc(x)
    return where(isinf(x), 0 * whole if not asarray(x).ndim else 0, x - whole), whole


def _float_power(x1: TensorLike, x2: TensorLike) -> Any:
    return arithmetic.pow(_wide(x1), _wide(x2))


def _signbit(x: TensorLike) -> Any:
    x = asarray(x)
    if dtypes.is_floating(x.dtype):
        return signbit(x)
    # NumPy takes booleans and integers as floats.
    return x != x if x.dtype == dtypes.bool_ else x < 0


def _wide(x: TensorLike) -> Any:
    x = asarray(x)
    return astype(x, dtypes.complex128 if dtypes.is_complex(x.dtype) else dtypes.float64)


def _matvec(x1: TensorLike, x2: TensorLike) -> Any:
    return matmul(x1, asarray(x2)[..., None])[..., 0]


def _vecmat(x1: TensorLike, x2: TensorLike) -> Any:
    return matmul(conj(asarray(x1))[..., None, :], x2)[..., 0, :]


#: By NumPy's name.
UFUNCS: dict[str, Function] = {
    **{name: _op(name) for name in _SAME_NAMES.split()},
    **{name: _op(ours) for name, ours in _RENAMED.items()},
    "deg2rad": lambda x: x * (pi / 180),
    "degrees": lambda x: x * (180 / pi),
    "divmod": lambda x1, x2: (arithmetic.floor_divide(x1, x2), arithmetic.remainder(x1, x2)),
    "float_power": _float_power,
    "fmax": _fmax,
    "fmin": _fmin,
    "matvec": _matvec,
    "modf": _modf,
    "rad2deg": lambda x: x * (180 / pi),
    "radians": lambda x: x * (pi / 180),
    "signbit": _signbit,
    "vecmat": _vecmat,
}

_REDUCE: dict[str, Function] = {
    "add": reductions.sum,
    "logaddexp": reductions.logsumexp,
    "logical_and": reductions.all,
    "logical_or": reductions.any,
    "maximum": reductions.max,
    "minimum": reductions.min,
    "multiply": reductions.prod,
}
_ACCUMULATE: dict[str, Function] = {
    "add": cumulative.cumulative_sum,
    "logaddexp": cumulative.cumulative_logsumexp,
    "maximum": cumulative.cumulative_max,
    "minimum": cumulative.cumulative_min,
    "multiply": cumulative.cumulative_prod,
}

#: What an argument must be to change nothing.
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "casting": ("same_kind", "safe", "unsafe"),
    "order": ("K", "C", "A"),
    "subok": (True, False),
    "where": (True,),
    "out": (None,),
}


def run_ufunc(ufunc: Any, method: str, inputs: Any, kwargs: Any) -> Any:
    """Runs `ufunc(*inputs, **kwargs)`, or a method of it, with a tensor among the inputs.

    Raises:
        TapeError: for what has no equivalent, if a tape records one of the tensors.
        InputTypeError: for what would write into a tensor.
    """
    if not all(_is_known(one) for one in inputs):
        return NotImplemented
    plain = method == "__call__"
    name = ufunc.__name__ if plain else f"{ufunc.__name__}.{method}"
    named = {}
    if kwargs or not plain:
        inputs, kwargs = read_variables(inputs), read_variables(kwargs)
        reject_writing(name, inputs, kwargs)
        if method == "at" and any(True for _ in tensors_of(inputs[0])):
            raise errors.InputTypeError(
                f"np.{name} would write into a tensor, whose buffer does not change; "
                f"write pb.scatter_add, or x[indices] += values"
            )
        named = {key: value for key, value in kwargs.items() if not _is_harmless(key, value)}
    # Those of other libraries may have the names of NumPy's, and other meanings.
    is_numpys = getattr(np, ufunc.__name__, None) is ufunc
    own = _method(ufunc.__name__, method, len(inputs), named) if is_numpys else None
    if own is not None:
        try:
            return own(*inputs, **named)
        except errors.DTypeError:
            # NumPy takes more dtypes, such as booleans for numbers.
            if is_recorded(read_variables(inputs)):
                raise
    argument = f"{next(iter(named))}=" if named else None
    inputs = read_variables(inputs)
    call = getattr(ufunc, method)
    library = "np." if is_numpys else "the ufunc "
    return on_host(name, call, inputs, kwargs, argument=argument, library=library)


def called(name: str, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """The result of the ufunc with NumPy's name `name`.

    Raises:
        Unsupported: for an argument that has no equivalent.
    """
    named = {key: value for key, value in kwargs.items() if not _is_harmless(key, value)}
    own = _method(name, "__call__", len(inputs), named)
    if own is None:
        raise Unsupported(f"{next(iter(named))}=")
    return own(*inputs, **named)


def _is_harmless(name: str, value: object) -> bool:
    if name == "out" and type(value) is tuple:
        return all(one is None for one in value)
    # NumPy's mark for what was not given is no value.
    return type(value).__name__ == "_NoValueType" or is_one_of(value, _HARMLESS.get(name, ()))


def _method(name: str, method: str, count: int, named: dict[str, Any]) -> Function | None:
    """The function of ops for a method of a ufunc; None if there is none with such arguments."""
    function = UFUNCS.get(name)
    if method == "__call__" and function is not None:
        if not named:
            return function
        return _typed(function) if [*named] == ["dtype"] else None
    if method == "outer" and function is not None and count == 2 and not named:
        return _outer(function)
    if method == "reduce" and name in _REDUCE:
        accepted = {"axis", "keepdims"} | ({"dtype"} if name in ("add", "multiply") else set())
        return _along(_REDUCE[name]) if {*named} <= accepted else None
    if method == "accumulate" and name in _ACCUMULATE:
        accepted = {"axis"} | ({"dtype"} if name in ("add", "multiply") else set())
        return _along(_ACCUMULATE[name]) if {*named} <= accepted else None
    return None


def _typed(function: Function) -> Function:
    def call(*inputs: Any, dtype: Any) -> Any:
        return (
            function(*inputs)
            if dtype is None
            else function(*[asarray(x, dtype=dtype) for x in inputs])
        )

    return call


def _outer(function: Function) -> Function:
    def call(x1: TensorLike, x2: TensorLike) -> Any:
        x1, x2 = asarray(x1), asarray(x2)
        return function(reshape(x1, (*x1.shape, *[1] * x2.ndim)), x2)

    return call


def _along(function: Function) -> Function:
    def call(x: TensorLike, axis: object = 0, **named: object) -> Any:
        return function(x, axis=axis, **named)

    return call


def _is_known(value: object) -> bool:
    """Returns whether a value leaves ufuncs to NumPy, or to us."""
    kind = type(value)
    if hasattr(kind, "__pullback_tensor__") or not hasattr(kind, "__array_ufunc__"):
        return True
    return kind.__array_ufunc__ is np.ndarray.__array_ufunc__


# From now on without the look-up of this module.
OPERATORS.numpy_ufunc = run_ufunc
