"""The incomplete gamma functions: distribution functions of gamma, chi-squared and Poisson."""

from __future__ import annotations

from typing import NoReturn

from pullback import errors
from pullback._dispatch import op
from pullback._numerics import incomplete_gamma
from pullback.dtypes import real_floating
from pullback.ops.calculus import NAMESPACE
from pullback.ops.exponential import log
from pullback.ops.precision import widest
from pullback.ops.special import digamma
from pullback.shapes import broadcast
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


def _refuse(g: Tensor) -> NoReturn:
    raise errors.NotDifferentiableError(
        "gammainc and gammaincc have a gradient by x alone; pass pb.stop_gradient(a) where a "
        "needs none"
    )


regularized_gamma.vjp(
    a=_refuse, x=lambda g, a, x, upper: (-g if upper else g) * gamma_density(a, x)
)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def gammainc(a: Tensor, x: Tensor, /) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x), from 0 at x = 0 to 1.

    It is the integral of t**(a - 1) exp(-t) from 0 to x, over gamma(a): the distribution function
    of the gamma distribution with shape a. NaN for negative a or x. The gradient goes to x alone.

    NIST's Digital Library of Mathematical Functions, 8.2.4.

    Args:
        a: real floats; integers count as such.
        x: the same; both broadcast.

    Raises:
        NotDifferentiableError: by a tape, for the gradient by a.

    >>> pb.gammainc(2.0, [0.0, 1.0, 100.0]).tolist()
    [0.0, 0.2642411291599274, 1.0]
    """
    return regularized_gamma(a, x, upper=False)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def gammaincc(a: Tensor, x: Tensor, /) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), exact where small.

    NaN for negative a or x. The gradient goes to x alone.

    NIST's Digital Library of Mathematical Functions, 8.2.4.

    Args:
        a: real floats; integers count as such.
        x: the same; both broadcast.

    Raises:
        NotDifferentiableError: by a tape, for the gradient by a.

    >>> pb.gammaincc(2.0, [0.0, 1.0, 100.0]).tolist()
    [1.0, 0.7357588410377502, 3.757276735781044e-42]
    """
    return regularized_gamma(a, x, upper=True)
