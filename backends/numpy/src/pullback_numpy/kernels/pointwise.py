"""Activations, their gradients and losses in NumPy, in few passes: elementwise, one call an op."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.plugins.records import Kernel, converts, may_decline
from pullback_numpy.kernels.activations import far_left_gradient
from pullback_numpy.kernels.elementwise import SMALL, clip, where
from pullback_numpy.pieces import bounded, fresh, in_pieces
from pullback_numpy.typing import Array

#: Below -_FAR, exp(x) is 0 in every dtype, and 0 * inf would be NaN.
_FAR = 1000


def _between(least: float, most: float) -> Kernel:
    def kernel(x: Array) -> Any:
        number = x.dtype.type
        # Unsigned integers are not below 0, and hold no negative bound.
        low = None if least < 0 and x.dtype.kind == "u" else np.asarray(number(least))
        return clip(x, low, np.asarray(number(most)))

    return kernel


def _hard_sigmoid(x: Array, y: Array) -> None:
    np.add(x, x.dtype.type(3), out=y)
    bounded(y, y, 0, 6)
    y /= x.dtype.type(6)


def _hard_silu(x: Array, y: Array) -> None:
    _hard_sigmoid(x, y)
    y *= bounded(x, fresh(x), -3)  # where y is 0, and 0 * inf would be NaN


def _softsign(x: Array, y: Array) -> None:
    np.abs(x, out=y)
    y += y.dtype.type(1)
    np.divide(x, y, out=y)


def _bell(x: Array, y: Array) -> None:
    np.multiply(x, x, out=y)
    np.negative(y, out=y)
    np.exp(y, out=y)
    y *= y.dtype.type(2 / math.sqrt(math.pi))


def _hard_shrink(x: Array, *, threshold: float) -> Any:
    def into(x: Array, y: Array) -> None:
        is_near = np.less_equal(np.abs(x, out=y), x.dtype.type(threshold))
        y[...] = where(is_near, np.zeros((), x.dtype), x)

    return in_pieces(into)(x)


def _leaky_relu_gradient(g: Array, x: Array, *, negative_slope: float) -> Any:
    def into(g: Array, x: Array, y: Array) -> None:
        np.multiply(g, g.dtype.type(negative_slope), out=y)
        y[...] = where(np.greater(x, x.dtype.type(0)), g, y)

    return in_pieces(into)(g, x)


def _elu_gradient(g: Array, x: Array, *, alpha: float) -> Any:
    def into(g: Array, x: Array, y: Array) -> None:
        bounded(x, y, most=0)
        np.exp(y, out=y)
        below = np.multiply(g, g.dtype.type(alpha), out=fresh(g))
        y *= below
        y[...] = where(np.greater(x, x.dtype.type(0)), g, y)

    return in_pieces(into)(g, x)


def _mish_gradient(g: Array, x: Array, y: Array) -> None:
    # n / (n + 2) + x 4 e (1 + e) / (n + 2)^2 with e = exp(x) and n = e (e + 2).
    # It is 1 from 40 on.
    e = bounded(x, fresh(x), most=40)
    np.exp(e, out=e)
    n = np.add(e, e.dtype.type(2), out=fresh(x))
    n *= e
    below = np.add(n, n.dtype.type(2), out=fresh(x))
    np.add(e, e.dtype.type(1), out=y)
    y *= e
    y *= y.dtype.type(4)
    y *= bounded(x, fresh(x), -_FAR, 40)
    y /= below
    y += n
    y /= below
    y *= g
    far_left_gradient(g, x, y)


def _squared_error(predictions: Array, targets: Array, y: Array) -> None:
    np.subtract(predictions, targets, out=y)
    y *= y


def _huber_loss(predictions: Array, targets: Array, *, delta: float) -> Any:
    def into(predictions: Array, targets: Array, y: Array) -> None:
        np.subtract(predictions, targets, out=y)
        np.abs(y, out=y)
        clipped = bounded(y, fresh(y), most=delta)
        y -= clipped
        y *= y.dtype.type(delta)
        clipped *= clipped
        clipped *= clipped.dtype.type(0.5)
        y += clipped

    return in_pieces(into)(predictions, targets)


def _sigmoid_cross_entropy(x: Array, labels: Array, y: Array) -> None:
    # |x| times the probability of the other side: no terms cancel.
    size = np.abs(x, out=fresh(x))
    wrong = where(np.greater(x, x.dtype.type(0)), 1 - labels, np.asarray(labels))
    np.negative(size, out=y)
    np.exp(y, out=y)
    np.log1p(y, out=y)
    # What is certain costs nothing, even infinitely far off.
    size[...] = where(np.equal(wrong, 0), np.zeros((), x.dtype), np.multiply(wrong, size))
    y += size


def _sum_of_powers(ufunc: Any, power: Any, unit: float) -> Kernel:
    """logaddexp or logaddexp2, which NumPy computes number by number."""

    def into(x1: Array, x2: Array, y: Array) -> None:
        away = np.subtract(x1, x2)
        np.abs(away, out=away)
        if np.isnan(np.maximum.reduce(away, axis=None)):
            away[x1 == x2] = 0  # of equal infinities
        np.negative(away, out=away)
        power(away, out=away)
        np.log1p(away, out=away)
        away *= away.dtype.type(unit)
        np.maximum(x1, x2, out=y)
        y += away

    many = in_pieces(into)

    def kernel(x1: Array, x2: Array) -> Any:
        few = max(x1.size, x2.size) < SMALL or not min(x1.size, x2.size)
        return ufunc(x1, x2) if few else many(x1, x2)

    return kernel


#: Up to so many elements passes of NumPy's over all of them take less than calls of ops.
_FEW = 1024


@may_decline
def _celu(x: Array, *, alpha: float) -> Any:
    if not x.ndim or x.size > _FEW or x.dtype.char not in "fd":
        return NotImplemented
    y = np.minimum(x, 0)
    y /= alpha
    np.expm1(y, out=y)
    y *= alpha
    return np.where(x > 0, x, y)


def _of_numbers(function: np.ufunc) -> Kernel:
    """A kernel of a function of truth values, which takes numbers as they are."""

    def kernel(*arrays: Array) -> Any:
        return function(*arrays)

    return converts(kernel)


KERNELS: dict[str, Kernel] = {
    **{
        name: _of_numbers(getattr(np, name))
        for name in ("logical_and", "logical_not", "logical_or", "logical_xor")
    },
    "bell": in_pieces(_bell),
    "celu": _celu,
    "elu_gradient": _elu_gradient,
    "hard_shrink": _hard_shrink,
    "hard_sigmoid": in_pieces(_hard_sigmoid),
    "hard_silu": in_pieces(_hard_silu),
    "hard_tanh": _between(-1, 1),
    "huber_loss": _huber_loss,
    "leaky_relu_gradient": _leaky_relu_gradient,
    "mish_gradient": in_pieces(_mish_gradient),
    "logaddexp": _sum_of_powers(np.logaddexp, np.exp, 1),
    "logaddexp2": _sum_of_powers(np.logaddexp2, np.exp2, 1 / math.log(2)),
    "relu6": _between(0, 6),
    "sigmoid_cross_entropy_with_logits": in_pieces(_sigmoid_cross_entropy),
    "softsign": in_pieces(_softsign),
    "squared_error": in_pieces(_squared_error),
}
