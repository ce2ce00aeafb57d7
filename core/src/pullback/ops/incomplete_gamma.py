"""The incomplete gamma functions: distribution functions of gamma, chi-squared and Poisson."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback._numerics import incomplete_gamma, incomplete_gamma_slope
from pullback.dtypes import real_floating
from pullback.ops.calculus import NAMESPACE
from pullback.ops.exponential import log
from pullback.ops.precision import widest
from pullback.ops.special import digamma, polygamma
from pullback.shapes import Shape, broadcast
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["gammainc", "gammaincc"]


# ACCUMULATED: the exponential of a logarithm that grows with a.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, public=False)
def gamma_density(a: Tensor, x: Tensor, /) -> Tensor:
    """x**(a - 1) * exp(-x) / gamma(a): the derivative of `gammainc` by x.

    >>> pb.ops.gamma_density(1.0, [0.0, 1000.0]).tolist()
    [1.0, 0.0]
    """
    wide = widest(x.device)
    found: Tensor = incomplete_gamma.density(NAMESPACE, a.astype(wide), x.astype(wide))
    return found.astype(x.dtype)


gamma_density.vjp(
    a=lambda g, a, x, out: g * out * (log(x) - digamma(a)),
    x=lambda g, a, x, out: g * out * ((a - 1) / x - 1),
)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, public=False)
def regularized_gamma(a: Tensor, x: Tensor, /, *, upper: bool) -> Tensor:
    """`gammaincc(a, x)` if `upper`, else `gammainc(a, x)`.

    >>> pb.ops.regularized_gamma(1.0, [0.0], upper=True).tolist()
    [1.0]
    """
    wide = widest(x.device)
    found: Tensor = incomplete_gamma.regularized(
        NAMESPACE, a.astype(wide), x.astype(wide), upper=upper
    )
    return found.astype(x.dtype)


def _first_or_second(shapes: tuple[Shape, ...], *, order: object) -> dict[str, object]:
    if order not in (1, 2):
        raise errors.InputValueError(f"the order of the derivative must be 1 or 2, got {order!r}")
    return {"order": order}


# ACCUMULATED, as the density.
@op(
    shape=broadcast,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_first_or_second,
    public=False,
)
def gamma_order_slope(a: Tensor, x: Tensor, /, *, order: int = 1) -> Tensor:
    """The derivative of `gammainc` by a, or the second; those of `gammaincc` with the other sign.

    >>> pb.ops.gamma_order_slope([1.0, 1.0], [0.0, 1000.0]).tolist()
    [0.0, 0.0]
    """
    wide = widest(x.device)
    found: Tensor = incomplete_gamma_slope.slope_by_order(
        NAMESPACE, a.astype(wide), x.astype(wide), order=order
    )
    return found.astype(x.dtype)


@gamma_order_slope.vjp("a")
def _(g: Tensor, a: Tensor, x: Tensor, order: int) -> Tensor:
    if order == 2:
        raise errors.NotDifferentiableError(
            "gammainc and gammaincc, and numbers of random.gamma, have no third derivative by a; "
            "pass pb.stop_gradient(a) where a needs none"
        )
    return g * gamma_order_slope(a, x, order=2)


@gamma_order_slope.vjp("x")
def _(g: Tensor, a: Tensor, x: Tensor, order: int) -> Tensor:
    rate = log(x) - digamma(a)
    slope = rate if order == 1 else rate * rate - polygamma(a, 1)
    return g * gamma_density(a, x) * slope


regularized_gamma.vjp(
    a=lambda g, a, x, upper: (-g if upper else g) * gamma_order_slope(a, x),
    x=lambda g, a, x, upper: (-g if upper else g) * gamma_density(a, x),
)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def gammainc(a: Tensor, x: Tensor, /) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x), from 0 at x = 0 to 1.

    It is the integral of t**(a - 1) exp(-t) from 0 to x, over gamma(a): the distribution function
    of the gamma distribution with shape a. NaN for negative a or x. It has gradients by both,
    to the second order by a.

    NIST's Digital Library of Mathematical Functions, 8.2.4.

    Args:
        a: real floats; integers count as such.
        x: the same; both broadcast.

    Raises:
        NotDifferentiableError: by a tape, for the third derivative by a.

    >>> pb.gammainc(2.0, [0.0, 1.0, 100.0]).tolist()
    [0.0, 0.2642411291599274, 1.0]
    """
    return regularized_gamma(a, x, upper=False)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def gammaincc(a: Tensor, x: Tensor, /) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), exact where small.

    NaN for negative a or x. It has gradients by both, to the second order by a.

    NIST's Digital Library of Mathematical Functions, 8.2.4.

    Args:
        a: real floats; integers count as such.
        x: the same; both broadcast.

    Raises:
        NotDifferentiableError: by a tape, for the third derivative by a.

    >>> pb.gammaincc(2.0, [0.0, 1.0, 100.0]).tolist()
    [1.0, 0.7357588410377502, 3.757276735781044e-42]
    """
    return regularized_gamma(a, x, upper=True)
