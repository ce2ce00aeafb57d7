"""Softmax and its logarithm."""

from __future__ import annotations

from pullback.dispatch import op
from pullback.dtypes import real_floating
from pullback.ops.exponential import exp, log
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.shapes import Axis, first
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike

__all__ = ["log_softmax", "softmax"]


# ACCUMULATED: the difference x - max is rounded, and exp makes a relative error of that: as many
# ulp as x is below the maximum.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def softmax(x: TensorLike, /, *, axis: Axis = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along axis, safe for large x; -inf gives 0.

    A slice that is -inf throughout has no softmax: it gives NaN.

    >>> pb.softmax([1e4, 1e4, float("-inf")]).tolist()
    [0.5, 0.5, 0.0]
    """
    wide = widened(x)
    if not wide.size:
        return narrowed(wide, x)  # an empty axis has no maximum
    e = exp(wide - max(wide, axis=axis, keepdims=True))
    return narrowed(e / sum(e, axis=axis, keepdims=True), x)


@softmax.vjp("x")
def _(g: Tensor, out: Tensor, *, axis: int) -> Tensor:
    return out * (g - sum(g * out, axis=axis, keepdims=True))


# ACCUMULATED: x - log(sum(exp(x))) may cancel to anything near 0.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def log_softmax(x: TensorLike, /, *, axis: Axis = -1) -> Tensor:
    """x - log(sum(exp(x))) along axis, safe for large x.

    >>> pb.log_softmax([1e4, -1e4]).tolist()
    [0.0, -20000.0]
    """
    wide = widened(x)
    if not wide.size:
        return narrowed(wide, x)
    shifted = wide - max(wide, axis=axis, keepdims=True)
    return narrowed(shifted - log(sum(exp(shifted), axis=axis, keepdims=True)), x)


@log_softmax.vjp("x")
def _(g: Tensor, out: Tensor, *, axis: int) -> Tensor:
    return g - exp(out) * sum(g, axis=axis, keepdims=True)
