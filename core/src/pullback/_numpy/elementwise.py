"""NumPy's functions, beside its ufuncs, that act on each element."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, pi
from typing import Any

from pullback import dtypes, errors
from pullback._numpy.table import FUNCTIONS, Unsupported, routed
from pullback.dtypes import DTypeLike
from pullback.ops import arithmetic, complex, data_types, reductions, rounding, trigonometric
from pullback.ops.arithmetic import abs
from pullback.ops.comparison import equal, isfinite, isnan, not_equal
from pullback.ops.conversion import asarray
from pullback.ops.creation import full_like
from pullback.ops.indexing import take
from pullback.ops.searching import nonzero, searchsorted
from pullback.ops.selection import where
from pullback.shapes import as_int
from pullback.tensor import Tensor, TensorLike

#: Powers of ten above are infinite.
_MOST_DECIMALS = 308


@routed("clip")
def _(
    a: TensorLike,
    a_min: TensorLike | None = None,
    a_max: TensorLike | None = None,
    min: TensorLike | None = None,
    max: TensorLike | None = None,
) -> Any:
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    return arithmetic.clip(a, low, high)


@routed("round", "around")
def _(a: TensorLike, decimals: int = 0) -> Any:
    decimals = as_int(decimals, "an integer for decimals")
    if not decimals:
        return rounding.round(a)
    if abs(decimals) > _MOST_DECIMALS:
        raise errors.InputValueError(f"decimals: at most {_MOST_DECIMALS}, got {decimals}")
    a = asarray(a)
    factor = 10.0 ** abs(decimals)
    if not (dtypes.is_floating(a.dtype) or dtypes.is_complex(a.dtype)):
        if decimals > 0:
            return rounding.round(a)
        return (rounding.round(a.astype("float64") / factor) * factor).astype(a.dtype)
    if decimals < 0:
        return rounding.round(a / factor) * factor
    return rounding.round(a * factor) / factor


@routed("fix")
def _(x: TensorLike) -> Any:
    return rounding.trunc(x)


@routed("astype")
def _(x: TensorLike, dtype: DTypeLike) -> Any:
    return data_types.astype(x, dtype)


@routed("copy")
def _(a: TensorLike) -> Any:
    return asarray(a, copy=True)


@routed("real")
def _(val: TensorLike) -> Any:
    return asarray(val).real


@routed("imag")
def _(val: TensorLike) -> Any:
    return asarray(val).imag


@routed("angle")
def _(z: TensorLike, deg: bool = False) -> Any:
    z = asarray(z)
    if not dtypes.is_floating(z.dtype) and not dtypes.is_complex(z.dtype):
        z = data_types.astype(z, dtypes.DEFAULT_FLOAT)
    if dtypes.is_complex(z.dtype):
        turned = complex.angle(z)
    else:
        turned = where(isnan(z), z, where(rounding.signbit(z), full_like(z, pi), 0))
    return turned * (180 / pi) if deg else turned


@routed("real_if_close")
def _(a: TensorLike, tol: float | None = None) -> Any:
    a = asarray(a)
    if dtypes.is_complex(a.dtype):
        raise Unsupported("complex values, which are kept or not by their size")
    return a


@routed("nan_to_num")
def _(
    x: TensorLike, nan: TensorLike = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    x = asarray(x)
    if not dtypes.is_floating(x.dtype):
        return x
    if dtypes.is_complex(x.dtype):
        real, imag = complex.complex_parts(x)
        return complex.complex(
            _numbers(real, nan, posinf, neginf), _numbers(imag, nan, posinf, neginf)
        )
    return _numbers(x, nan, posinf, neginf)


def _numbers(x: Tensor, nan: TensorLike, posinf: float | None, neginf: float | None) -> Any:
    limits = data_types.finfo(x.dtype)
    x = where(isnan(x), nan, x)
    x = where(equal(x, inf), limits.max if posinf is None else posinf, x)
    return where(equal(x, -inf), limits.min if neginf is None else neginf, x)


@routed("sinc")
def _(x: TensorLike) -> Any:
    # `where` twice: the derivative does not divide by 0 either.
    y = pi * asarray(x)
    zero = equal(y, 0)
    safe = where(zero, 1, y)
    return where(zero, 1 - y * y / 6, trigonometric.sin(safe) / safe)


@routed("where")
def _(condition: TensorLike, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    return where(not_equal(condition, 0), x, y)


@routed("select")
def _(
    condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: TensorLike = 0
) -> Any:
    result = default
    for condition, choice in zip(condlist[::-1], choicelist[::-1], strict=True):
        result = where(condition, choice, result)
    return result


@routed("interp")
def _(
    x: TensorLike,
    xp: TensorLike,
    fp: TensorLike,
    left: TensorLike | None = None,
    right: TensorLike | None = None,
) -> Any:
    # The digits of lists are those of the tensors beside them.
    known = [one for one in (x, xp, fp) if not isinstance(one, (list, tuple))]
    dtype = data_types.result_type(*known)
    x, xp, fp = [asarray(one, dtype=dtype) for one in (x, xp, fp)]
    after = arithmetic.clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    x0, x1 = take(xp, after - 1), take(xp, after)
    y0, y1 = take(fp, after - 1), take(fp, after)
    inside = y0 + (x - x0) * ((y1 - y0) / (x1 - x0))
    inside = where(x < xp[0], fp[0] if left is None else left, inside)
    return where(x > xp[-1], fp[-1] if right is None else right, inside)


# Comparisons.


@routed("isclose")
def _(
    a: TensorLike,
    b: TensorLike,
    rtol: TensorLike = 1e-5,
    atol: TensorLike = 1e-8,
    equal_nan: bool = False,
) -> Any:
    a, b = asarray(a), asarray(b)
    within = abs(a - b) <= atol + rtol * abs(b)
    close = where(isfinite(a) & isfinite(b), within, a == b)
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@routed("allclose")
def _(
    a: TensorLike,
    b: TensorLike,
    rtol: TensorLike = 1e-5,
    atol: TensorLike = 1e-8,
    equal_nan: bool = False,
) -> bool:
    return bool(reductions.all(FUNCTIONS["isclose"](a, b, rtol, atol, equal_nan)))


@routed("array_equal")
def _(a1: TensorLike, a2: TensorLike, equal_nan: bool = False) -> bool:
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return False
    same = a1 == a2
    if equal_nan and dtypes.is_floating(a1.dtype) and dtypes.is_floating(a2.dtype):
        same = same | (isnan(a1) & isnan(a2))
    return bool(reductions.all(same))


@routed("isneginf")
def _(x: TensorLike) -> Any:
    return asarray(x) == -inf


@routed("isposinf")
def _(x: TensorLike) -> Any:
    return asarray(x) == inf


@routed("isreal")
def _(x: TensorLike) -> Any:
    return asarray(x).imag == 0


@routed("iscomplex")
def _(x: TensorLike) -> Any:
    return asarray(x).imag != 0
