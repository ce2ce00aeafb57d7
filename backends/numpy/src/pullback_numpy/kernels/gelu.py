"""GELU in NumPy: both forms and their gradients, in pieces that stay in the cache.

For float32 the normal distribution's tail is computed here, in 15 passes of arithmetic: erfc(z) =
exp(-z^2) t Q(t) with t = 1 / (1 + 0.4 z) and Q of degree 10, fitted to least relative error (6e-9)
over z >= 0. The kernel of erfc, accurate to a few ulp in every dtype, takes four times as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels import special
from pullback_numpy.pieces import bounded
from pullback_numpy.typing import Array

_SLOPE = 0.4
_TAIL = (
    0.2256758348,
    0.22567586,
    0.2076137318,
    0.1717392548,
    0.119008479,
    0.0839157727,
    -0.04689380554,
    0.137559563,
    -0.2355257377,
    0.1404460232,
    -0.02921498224,
)
_ROOT_HALF = math.sqrt(0.5)
#: Up to this many elements C's erfc, one by one, takes less time than the calls of NumPy.
_FEW = 128
_TANH_SLOPE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715


def _tail(size: Any) -> tuple[Any, Any]:
    """For |x|: the probability of a normal number above it, and exp(-x^2 / 2)."""
    falling = np.multiply(size, size)
    falling *= falling.dtype.type(-0.5)
    np.exp(falling, out=falling)
    if size.dtype != np.float32 or size.size <= _FEW:
        tail = special.KERNELS["erfc"](size.astype(np.float64, copy=False) * _ROOT_HALF) * 0.5
        return tail.astype(size.dtype, copy=False), falling
    t = np.multiply(size, np.float32(_SLOPE * _ROOT_HALF))
    t += np.float32(1)
    np.reciprocal(t, out=t)
    q = np.multiply(t, np.float32(_TAIL[-1]))
    for coefficient in _TAIL[-2::-1]:
        q += np.float32(coefficient)
        q *= t
    q *= falling
    q *= np.float32(0.5)
    return q, falling


def _exact(x: Array, y: Array) -> None:
    # x Phi(x) = max(x, 0) - |x| (1 - Phi(|x|)), which cancels on neither side.
    size = np.abs(x)
    tail, _ = _tail(size)
    tail *= bounded(size, size, most=100)  # from 38 on the tail is 0, and 0 * inf would be NaN
    np.subtract(bounded(x, size, 0), tail, out=y)


def _exact_slope(x: Array, y: Array) -> None:
    """Phi(x) + x phi(x)."""
    x = np.clip(x, -100, 100)  # where phi(x) is 0, and inf * 0 would be NaN
    tail, falling = _tail(np.abs(x))
    falling *= x
    falling *= x.dtype.type(_TANH_SLOPE * 0.5)
    falling -= np.copysign(tail, x, out=tail)
    # By the sign, as the tail's: -0.0 is not below 0.
    np.add(falling, np.logical_not(np.signbit(x)), out=y)


def _growth_of(x: Array, square: Array, out: Array) -> Any:
    """exp(-2 u) for u = sqrt(2 / pi) (x + 0.044715 x^3): sigmoid(2 u) is 1 / (1 + that)."""
    z = np.multiply(square, x.dtype.type(-2 * _TANH_SLOPE * _TANH_CUBIC), out=out)
    z -= x.dtype.type(2 * _TANH_SLOPE)
    z *= x
    return np.exp(z, out=z)


def _approximate(x: Array, y: Array) -> None:
    """x sigmoid(2 u); for x far below 0 the exponential is infinite and 1 / inf is 0."""
    square = np.multiply(x, x)
    growth = _growth_of(x, square, square)
    growth += growth.dtype.type(1)
    # There the result is 0, and inf / inf would be NaN.
    np.divide(np.clip(x, -100, np.inf, out=y), growth, out=y)
    lost = np.flatnonzero(np.isinf(growth)) if x.dtype == np.float32 else growth[:0]
    if lost.size:
        # The exponential is infinite sooner than the result is 0.
        wide = np.clip(x[lost], -100, 0).astype(np.float64)
        y[lost] = wide / (1 + _growth_of(wide, wide * wide, np.empty_like(wide)))


def _approximate_slope(x: Array, y: Array) -> None:
    """s + x s (1 - s) 2 u', for s = sigmoid(2 u)."""
    x = np.clip(x, -100, 100)  # where the slope is 0 or 1, and no product overflows
    square = np.multiply(x, x)
    s = _growth_of(x, square, y)
    s += s.dtype.type(1)
    np.reciprocal(s, out=s)
    square *= x.dtype.type(6 * _TANH_SLOPE * _TANH_CUBIC)
    square += x.dtype.type(2 * _TANH_SLOPE)
    square *= x
    # For large x, x^3 is large and 1 - s is 0.
    rest = np.subtract(s.dtype.type(1), s, out=x)
    rest *= s
    rest *= square
    s += rest


def _gelu(x: Array, *, approximate: bool) -> Array:
    w = np.ascontiguousarray(widened(x)).reshape(-1)
    y = np.empty(w.shape, w.dtype)
    piecewise = _approximate if approximate else _exact
    threads.over(lambda piece: piecewise(w[piece], y[piece]), w.size)
    return narrowed(y.reshape(x.shape), x)


def _gelu_gradient(g: Array, x: Array, *, approximate: bool) -> Array:
    if g.shape != x.shape:
        g, x = np.broadcast_arrays(g, x)
    w, h = (np.ascontiguousarray(widened(a)).reshape(-1) for a in (x, g))
    y = np.empty(w.shape, w.dtype)
    slope = _approximate_slope if approximate else _exact_slope

    def work(piece: slice) -> None:
        part = y[piece]
        slope(w[piece], part)
        part *= h[piece]

    threads.over(work, w.size)
    return narrowed(y.reshape(x.shape), x)


KERNELS: dict[str, Kernel] = {"gelu": _gelu, "gelu_gradient": _gelu_gradient}
