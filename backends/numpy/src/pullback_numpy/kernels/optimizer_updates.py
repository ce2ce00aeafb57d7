"""Optimizer steps in NumPy: in place on fresh memory, a cache-sized piece at a time.

A step is a dozen cheap passes. Over a large parameter each would stream through memory; over pieces
that stay in the second-level cache only the first and the last do.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.backend import Kernel
from pullback_numpy import threads
from pullback_numpy.kernels.precision import SHORT, wide


def _flat(x: Any) -> Any:
    return np.ascontiguousarray(x).reshape(-1)


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

    def work(piece: slice) -> None:
        w, h, v = (wide(a[piece]) for a in flat)
        if weight_decay:
            h = h + w * w.dtype.type(weight_decay)
        v = v * v.dtype.type(momentum)
        v += h
        out_v[piece] = v
        step = v * v.dtype.type(momentum) + h if nesterov else v
        out_p[piece] = w - step * rate

    threads.over(work, out_p.size)
    return new_p, new_v


def _adam(
    p: Any, g: Any, m: Any, v: Any, rate: Any, step: Any, *, beta1: float, beta2: float,
    epsilon: float, weight_decay: float,
) -> Any:  # fmt: skip
    new = [np.empty(a.shape, a.dtype) for a in (p, m, v)]
    flat = [_flat(a) for a in (p, g, m, v)]
    out_p, out_m, out_v = (a.reshape(-1) for a in new)
    count, speed = float(step), float(rate)
    # rate (m / c1) / (sqrt(v / c2) + epsilon), with the constants drawn together.
    root = math.sqrt(1 - beta2**count)
    number = (np.float64 if p.dtype == np.float64 else np.float32) if p.size else float
    share1, share2, scale, least, decay = map(
        number,
        (1 - beta1, 1 - beta2, speed * root / (1 - beta1**count), epsilon * root,
         weight_decay * speed),
    )  # fmt: skip

    def work(piece: slice) -> None:
        w, h, first, second = (wide(a[piece]) for a in flat)
        square = _room(out_v[piece], h)
        np.multiply(h, h, out=square)
        square -= second
        square *= share2
        square += second
        mean = _room(out_m[piece], h)
        np.subtract(h, first, out=mean)
        mean *= share1
        mean += first
        change = np.sqrt(square)
        change += least
        np.divide(mean, change, out=change)
        change *= scale
        if weight_decay:
            change += w * decay
        np.subtract(w, change, out=out_p[piece], casting="same_kind")
        if square.dtype != out_v.dtype:
            out_v[piece] = square
        if mean.dtype != out_m.dtype:
            out_m[piece] = mean

    threads.over(work, out_p.size)
    return tuple(new)


def _room(out: Any, like: Any) -> Any:
    """The place of a result where it is stored as it is computed, else memory of its own."""
    return out if out.dtype == like.dtype else np.empty(out.shape, like.dtype)


KERNELS: dict[str, Kernel] = {
    "adam_update": _adam,
    "momentum_update": _momentum,
    "sgd_update": _sgd,
}
