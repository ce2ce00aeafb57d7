"""Optimizer steps in NumPy: in place on fresh memory, a cache-sized piece at a time.

A step is a dozen cheap passes. Over a large parameter each would stream through memory; over pieces
that stay in the second-level cache only the first and the last do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy.kernels.precision import SHORT, wide

#: Elements of a piece: four float32 arrays of this size fit a second-level cache.
_PIECE = 1 << 15


def _flat(x: Any) -> Any:
    return np.ascontiguousarray(x).reshape(-1)


def _pieces(size: int) -> Any:
    return [slice(i, i + _PIECE) for i in range(0, size, _PIECE)]


def _sgd(p: Any, g: Any, rate: Any, *, weight_decay: float) -> Any:
    if p.dtype in SHORT or g.dtype != p.dtype or weight_decay:
        w, h = wide(p), wide(g)
        if weight_decay:
            h = h + w * w.dtype.type(weight_decay)
        return (w - h * rate).astype(p.dtype, copy=False)
    y = np.multiply(g, rate, out=np.empty(p.shape, p.dtype))
    return np.subtract(p, y, out=y)


def _momentum(
    p: Any, g: Any, velocity: Any, rate: Any, *, momentum: float, nesterov: bool,
    weight_decay: float,
) -> Any:  # fmt: skip
    new_p, new_v = np.empty(p.shape, p.dtype), np.empty(velocity.shape, velocity.dtype)
    flat = [_flat(a) for a in (p, g, velocity)]
    out_p, out_v = new_p.reshape(-1), new_v.reshape(-1)
    for piece in _pieces(out_p.size):
        w, h, v = (wide(a[piece]) for a in flat)
        if weight_decay:
            h = h + w * w.dtype.type(weight_decay)
        v = v * v.dtype.type(momentum)
        v += h
        out_v[piece] = v
        step = v * v.dtype.type(momentum) + h if nesterov else v
        out_p[piece] = w - step * rate
    return new_p, new_v


def _adam(
    p: Any, g: Any, m: Any, v: Any, rate: Any, step: Any, *, beta1: float, beta2: float,
    epsilon: float, weight_decay: float,
) -> Any:  # fmt: skip
    new = [np.empty(a.shape, a.dtype) for a in (p, m, v)]
    flat = [_flat(a) for a in (p, g, m, v)]
    out_p, out_m, out_v = (a.reshape(-1) for a in new)
    count = float(step)
    # p - rate (m / c1) / (sqrt(v / c2) + epsilon), with the constants drawn together.
    scale = float(rate) / (1 - beta1**count)
    root_scale = 1 / np.sqrt(1 - beta2**count)
    for piece in _pieces(out_p.size):
        w, h, first, second = (wide(a[piece]) for a in flat)
        number = w.dtype.type
        square = np.multiply(h, h)
        square -= second
        square *= number(1 - beta2)
        square += second
        out_v[piece] = square
        mean = np.subtract(h, first)
        mean *= number(1 - beta1)
        mean += first
        out_m[piece] = mean
        np.sqrt(square, out=square)
        square *= number(root_scale)
        square += number(epsilon)
        mean *= number(scale)
        np.divide(mean, square, out=mean)
        if weight_decay:
            mean += w * number(weight_decay * float(rate))
        np.subtract(w, mean, out=mean)
        out_p[piece] = mean
    return tuple(new)


KERNELS: dict[str, Kernel] = {
    "adam_update": _adam,
    "momentum_update": _momentum,
    "sgd_update": _sgd,
}
