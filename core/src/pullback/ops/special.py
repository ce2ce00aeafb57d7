"""Special functions: the error function, the gamma function, and related ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback import errors
from pullback._dispatch import op
from pullback._numerics import error_function, gamma_function
from pullback.dtypes import float32, float64, real_floating
from pullback.ops.arithmetic import clip, square
from pullback.ops.calculus import NAMESPACE, over, where
from pullback.ops.comparison import isnan
from pullback.ops.exponential import exp, log
from pullback.ops.precision import narrowed, widened, widest
from pullback.shapes import Shape, as_int, broadcast
from pullback.spec import ACCUMULATED, FEW_ULP
from pullback.tensor import Tensor

__all__ = ["digamma", "erf", "erfc", "erfinv", "lgamma", "polygamma", "xlogy"]


def _in_double(
    formula: Callable[..., Tensor],
    x: Tensor,
    single: Callable[..., Tensor] | None = None,
    **attributes: Any,
) -> Tensor:
    """A formula evaluated in float64, because its steps cancel; the result is rounded once.

    Where the device has no float64, `single` or the same formula is evaluated in float32.
    """
    wide = widest(x.device)
    if wide == float32 and single is not None:
        formula = single
    return formula(NAMESPACE, x.astype(wide), **attributes).astype(x.dtype)


# ACCUMULATED: exp of a rounded argument has x**2 times its relative error.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, public=False)
def bell(x: Tensor, /) -> Tensor:
    """The derivative of erf, 2 / sqrt(pi) * exp(-x**2).

    >>> pb.ops.bell([0.0, 40.0]).tolist()
    [1.128379225730896, 0.0]
    """
    # It is 0 from 40 on, where the square of 16-bit floats would be infinite.
    wide = clip(widened(x), -40, 40)
    return narrowed(exp(-square(wide)) * (2 / math.sqrt(math.pi)), x)


bell.vjp(x=lambda g, x, out: g * (clip(x, -40, 40) * -2 * out))


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def erf(x: Tensor, /) -> Tensor:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    >>> pb.erf([0.0, 1.0]).tolist()
    [0.0, 0.8427007794380188]
    """
    wide = widened(x)
    formula = error_function.erf if x.dtype == float64 else error_function.erf32
    return narrowed(formula(NAMESPACE, wide), x)


erf.vjp(x=lambda g, x: g * bell(x))


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def erfc(x: Tensor, /) -> Tensor:
    """The complementary error function 1 - erf(x), accurate where erf(x) is near 1.

    >>> pb.erfc([0.0, 5.0]).tolist()
    [1.0, 1.5374597704370953e-12]
    """
    return _in_double(error_function.erfc, x, error_function.erfc32)


erfc.vjp(x=lambda g, x: -g * bell(x))


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def erfinv(x: Tensor, /) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond.

    >>> pb.erfinv([0.0, 0.5, 1.0]).tolist()
    [0.0, 0.4769362807273865, inf]
    """
    return _in_double(error_function.erfinv, x)


erfinv.vjp(x=lambda g, out: over(g, bell(out)))


# The gamma ops are ACCUMULATED: below 0, the reflection formula makes them differences, whose
# relative error is unbounded near zeros. Above 0 there is one term, and the error is a few ulp.


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def lgamma(x: Tensor, /) -> Tensor:
    """The natural logarithm of |gamma(x)|; infinite at 0 and the negative integers.

    Near its zeros between negative integers, the error is a few ulp of 1.

    >>> pb.lgamma([1.0, 5.0]).tolist()
    [0.0, 3.1780538558959961]
    """
    return _in_double(gamma_function.lgamma, x)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def digamma(x: Tensor, /) -> Tensor:
    """The derivative of lgamma; NaN at the negative integers, -inf at 0 and inf at -0.0.

    Near its zeros between negative integers, the error is a few ulp of 1.

    >>> pb.digamma(1.0)
    Tensor(-0.5772157, shape=(), dtype=float32, device=cpu:0)
    """
    return _in_double(gamma_function.digamma, x)


def _order(shapes: tuple[Shape, ...], *, n: object) -> dict[str, object]:
    n = as_int(n, "a whole number n")
    if not 0 <= n <= 100:
        raise errors.InputValueError(f"polygamma: n must be in [0, 100], got {n}")
    return {"n": n}


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, normalize=_order)
def polygamma(x: Tensor, /, n: int) -> Tensor:
    """The derivative of order n of digamma; n = 1 is the trigamma function.

    At 0 and the negative integers it is infinite for odd n, and NaN for even n, since the signs of
    the two sides differ. Below 0 and for even n it is a difference: near its zeros the error is
    a few ulp of its terms.

    Raises:
        InputValueError: for n below 0 or above 100.

    >>> pb.polygamma(1.0, 1)
    Tensor(1.644934, shape=(), dtype=float32, device=cpu:0)
    """
    return _in_double(gamma_function.polygamma, x, n=n, short=x.dtype != widest(x.device))


lgamma.vjp(x=lambda g, x: g * digamma(x))
digamma.vjp(x=lambda g, x: g * polygamma(x, 1))
polygamma.vjp(x=lambda g, x, n: g * polygamma(x, n + 1))


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP)
def xlogy(x: Tensor, y: Tensor, /) -> Tensor:
    """x * log(y), and 0 where x is 0 and y is not NaN.

    >>> pb.xlogy([0.0, 2.0], [0.0, 1.0]).tolist()
    [0.0, 0.0]
    """
    absent = (x == 0) & ~isnan(y)
    return where(absent, 0, x * log(where(absent, 1, y)))


@xlogy.vjp("x")
def _(g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    # At x = 0 and y = 0 the slope would be infinite, for a term that is 0.
    absent = (x == 0) & (y <= 0)
    return g * log(where(absent, 1, y))


xlogy.vjp(y=lambda g, x, y: over(g * x, y))
