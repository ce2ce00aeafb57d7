"""Losses of single elements, each in one pass; those over classes are in `softmax`."""

from __future__ import annotations

from pullback.plugins.records import Kernel
from pullback_cupy.compile import elementwise
from pullback_cupy.typing import Array

_TYPES = "typedef typename wide_of<T>::type W;"
_AWAY = f"{_TYPES} const W d = W(p) - W(t), size = fabs(d);"


def _pair(name: str, operation: str) -> Kernel:
    compiled = elementwise(name, "T p, T t", "T y", operation)

    def kernel(predictions: Array, targets: Array) -> Array:
        return compiled(predictions, targets)

    return kernel


_huber_of = elementwise(
    "huber_loss", "T p, T t, float64 delta", "T y",
    # Half a square up to delta, linear beyond; `near` stays below, so nothing overflows.
    f"{_AWAY} const W near = size > W(delta) ? W(delta) : size;"
    " y = T(near * near * W(0.5) + (size - near) * W(delta));",
)  # fmt: skip


def _huber_loss(predictions: Array, targets: Array, *, delta: float) -> Array:
    return _huber_of(predictions, targets, delta)


KERNELS: dict[str, Kernel] = {
    "absolute_error": _pair("absolute_error", f"{_AWAY} y = T(size);"),
    "hinge_loss": _pair(
        "hinge_loss",
        f"{_TYPES} const W loss = 1 - W(p) * W(t); y = T(loss < 0 ? W(0) : loss);",
    ),
    "huber_loss": _huber_loss,
    "log_cosh_loss": _pair(
        "log_cosh_loss",
        f"{_AWAY} const W lost = expm1(-size);"
        " y = T(size < 1 ? log1p(lost * lost / (2 * (lost + 1)))"
        " : size + log1p(lost * (lost + 2) * W(0.5)));",
    ),
    "sigmoid_cross_entropy_with_logits": _pair(
        "sigmoid_cross_entropy_with_logits",
        # |x| times the probability of the class that x speaks against: no terms cancel.
        f"{_TYPES} const W x = W(p), wrong = x > 0 ? 1 - W(t) : W(t);"
        " y = T((wrong == 0 ? W(0) : wrong * fabs(x)) + log1p(exp(-fabs(x))));",
    ),
    "squared_error": _pair("squared_error", f"{_AWAY} y = T(d * d);"),
}
