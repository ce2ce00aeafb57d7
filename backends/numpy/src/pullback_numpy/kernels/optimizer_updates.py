"""Optimizer steps in NumPy: in place on fresh memory, a cache-sized piece at a time.

A step is a dozen cheap passes. Over a large parameter each would stream through memory; over pieces
that stay in the second-level cache only the first and the last do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.casting import HALF
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.half import widened
from pullback_numpy.typing import Array


def _over(work: Callable[..., None], inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Calls work(*inputs, *outputs) with parts of the arrays until all of them are done."""
    size = outputs[0].size
    if size <= threads.PIECE:
        work(*inputs, *outputs)
        return
    flat = [np.ascontiguousarray(a).reshape(-1) for a in inputs]
    flat += [a.reshape(-1) for a in outputs]
    threads.over(lambda piece: work(*(a[piece] for a in flat)), size)


def _sgd(p: Array, g: Array, rate: Any, *, weight_decay: float) -> Any:
    if p.dtype in HALF or g.dtype != p.dtype or weight_decay:
        w, h = widened(p), widened(g)
        if weight_decay:
            h = h + w * w.dtype.type(weight_decay)
        return (w - h * rate).astype(p.dtype, copy=False)
    y = np.multiply(g, rate, out=np.empty(p.shape, p.dtype))
    return np.subtract(p, y, out=y)


def _momentum(
    p: Array, g: Array, velocity: Array, rate: Any, *, momentum: float, nesterov: bool,
    weight_decay: float,
) -> tuple[Array, ...]:  # fmt: skip
    new_p, new_v = np.empty(p.shape, p.dtype), np.empty(velocity.shape, velocity.dtype)
    factor = widened(velocity).dtype.type(momentum)

    def work(w: Array, h: Array, v: Array, out_p: Array, out_v: Array) -> None:
        w, h = widened(w), widened(h)
        if weight_decay:
            h = h + w * w.dtype.type(weight_decay)
        fresh = np.multiply(widened(v), factor, out=_room(out_v, h))
        fresh += h
        if fresh is not out_v:
            out_v[...] = fresh
        step = np.multiply(fresh, factor if nesterov else rate, out=np.empty(h.shape, h.dtype))
        if nesterov:
            step += h
            step *= rate
        np.subtract(w, step, out=out_p, casting="same_kind")

    _over(work, (p, g, velocity), (new_p, new_v))
    return new_p, new_v


def _corrections(beta1: float, beta2: float, count: float) -> tuple[float, float]:
    """The root of 1 - beta2^n and 1 - beta1^n; NaN if the step is negative or NaN."""
    if not count >= 0:
        return math.nan, math.nan
    return math.sqrt(1 - beta2**count), 1 - beta1**count


def _adam(
    p: Array, g: Array, m: Array, v: Array, rate: Any, step: Any, *, beta1: float, beta2: float,
    epsilon: float, weight_decay: float,
) -> tuple[Array, ...]:  # fmt: skip
    new = [np.empty(a.shape, a.dtype) for a in (p, m, v)]
    count, speed = float(step), float(rate)
    # rate (m / c1) / (sqrt(v / c2) + epsilon), with the constants combined.
    root, correction = _corrections(beta1, beta2, count)
    number = (np.float64 if p.dtype == np.float64 else np.float32) if p.size else float
    weight1, weight2, scale, least, decay = map(
        number,
        (1 - beta1, 1 - beta2, speed * root / correction if correction else speed * root * math.inf,
         epsilon * root, weight_decay * speed),
    )  # fmt: skip

    def work(
        w: Array, h: Array, first: Array, second: Array, out_p: Array, out_m: Array, out_v: Array
    ) -> None:  # fmt: skip
        w, h, first, second = widened(w), widened(h), widened(first), widened(second)
        square, mean = _room(out_v, h), _room(out_m, h)
        np.multiply(h, h, out=square)
        square -= second
        square *= weight2
        square += second
        np.subtract(h, first, out=mean)
        mean *= weight1
        mean += first
        change = np.sqrt(square, out=np.empty(h.shape, h.dtype))
        change += least
        np.divide(mean, change, out=change)
        change *= scale
        if weight_decay:
            change += w * decay
        np.subtract(w, change, out=out_p, casting="same_kind")
        if square is not out_v:
            out_v[...] = square
        if mean is not out_m:
            out_m[...] = mean

    _over(work, (p, g, m, v), new)
    return tuple(new)


def _room(out: Array, like: Array) -> Array:
    """The array of a result if it has the dtype of the computation, else a new array."""
    return out if out.dtype is like.dtype else np.empty(out.shape, like.dtype)


KERNELS: dict[str, Kernel] = {
    "adam_update": _adam,
    "momentum_update": _momentum,
    "sgd_update": _sgd,
}
