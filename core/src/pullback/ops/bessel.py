"""Modified Bessel functions of the first kind, I_0 and I_1, and their derivatives."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback._numerics import bessel
from pullback.dtypes import real_floating
from pullback.ops.arithmetic import sign
from pullback.ops.calculus import NAMESPACE
from pullback.ops.precision import widest
from pullback.shapes import Shape, as_int, broadcast
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["i0", "i0e", "i1", "i1e"]


def _order(shapes: tuple[Shape, ...], *, n: object, scaled: bool) -> dict[str, object]:
    n = as_int(n, "a whole number n")
    if not 0 <= n <= 16:
        raise errors.InputValueError(f"the order n must be in [0, 16], got {n}")
    return {"n": n, "scaled": scaled}


# ACCUMULATED: of orders above 1, the recurrence upwards takes differences.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, normalize=_order, public=False)
def bessel_i(x: Tensor, /, n: int, *, scaled: bool = False) -> Tensor:
    """The modified Bessel function I_n(x) of the first kind; times exp(-|x|) if `scaled`.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6. The derivative takes
    the order n + 1; that of 16 is the last.

    Raises:
        InputValueError: for n below 0 or above 16.

    >>> pb.ops.bessel_i([0.0, 1.0], 0).tolist()
    [1.0, 1.2660658359527588]
    """
    wide = x.astype(widest(x.device))
    found: Tensor = bessel.bessel_i(NAMESPACE, wide, n=n, scaled=scaled)
    return found.astype(x.dtype)


@bessel_i.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, n: int, scaled: bool) -> Tensor:
    # DLMF 10.29.2; I_-1 is I_1.
    after = bessel_i(x, n + 1, scaled=scaled)
    slope = after if n == 0 else (after + bessel_i(x, n - 1, scaled=scaled)) * 0.5
    return g * (slope - sign(x) * out if scaled else slope)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def i0(x: Tensor, /) -> Tensor:
    """The modified Bessel function of the first kind and order 0.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.

    >>> pb.i0([0.0, 1.0]).tolist()
    [1.0, 1.2660658359527588]
    """
    return bessel_i(x, 0)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def i0e(x: Tensor, /) -> Tensor:
    """exp(-|x|) times `i0`, which does not overflow.

    >>> pb.i0e([0.0, 1000.0]).tolist()
    [1.0, 0.012617240659892559]
    """
    return bessel_i(x, 0, scaled=True)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def i1(x: Tensor, /) -> Tensor:
    """The modified Bessel function of the first kind and order 1.

    Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 9.6.

    >>> pb.i1([0.0, 1.0]).tolist()
    [0.0, 0.5651590824127197]
    """
    return bessel_i(x, 1)


@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED)
def i1e(x: Tensor, /) -> Tensor:
    """exp(-|x|) times `i1`, which does not overflow.

    >>> pb.i1e([0.0, 1000.0]).tolist()
    [0.0, 0.01261093080043793]
    """
    return bessel_i(x, 1, scaled=True)
