"""Softmax and its logarithm."""

from __future__ import annotations

from pullback import errors
from pullback._dispatch import op
from pullback.dtypes import real_floating
from pullback.ops.exponential import exp, log
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import max, sum
from pullback.shapes import Axis, JoinedAxes, Shape, checked, first
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

__all__ = ["log_softmax", "softmax"]


def _of_one_shape(g: Shape, out: Shape, *, axis: int) -> Shape:
    """The common shape."""
    if g != out:
        raise errors.ShapeError(f"g must have the shape of the result {out}, got {g}")
    return out


# ACCUMULATED: exp turns the rounding of x - max into a relative error of as many ulp as x is below
# the maximum.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def softmax(x: Tensor, /, axis: JoinedAxes = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along axis, or several, without overflow; -inf gives 0.

    A slice of -inf only gives NaN.

    >>> pb.softmax([1e4, 1e4, float("-inf")]).tolist()
    [0.5, 0.5, 0.0]
    >>> pb.softmax([[0.0, 0.0], [0.0, 0.0]], axis=(0, 1)).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """
    wide = widened(x)
    if not wide.size:
        return narrowed(wide, x)  # an empty axis has no maximum
    powers = exp(wide - max(wide, axis=axis, keepdims=True))
    return narrowed(powers / sum(powers, axis=axis, keepdims=True), x)


@op(
    shape=_of_one_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=checked(_of_one_shape),
    public=False,
)
def softmax_gradient(g: Tensor, out: Tensor, /, *, axis: Axis = -1) -> Tensor:
    """The gradient of `softmax`, out * (g - sum(g * out)), from its result `out`.

    >>> pb.ops.softmax_gradient([1.0, 0.0], [0.5, 0.5]).tolist()
    [0.25, -0.25]
    """
    g, y = widened(g), widened(out)
    return narrowed(y * (g - sum(g * y, axis=axis, keepdims=True)), out)


softmax.vjp(x=lambda g, out, axis: softmax_gradient(g, out, axis=axis))


@softmax_gradient.vjp("g")
def _(h: Tensor, out: Tensor, *, axis: int) -> Tensor:
    return softmax_gradient(h, out, axis=axis)


@softmax_gradient.vjp("out")
def _(h: Tensor, g: Tensor, out: Tensor, *, axis: int) -> Tensor:
    g_mean, h_mean = sum(g * out, axis=axis, keepdims=True), sum(h * out, axis=axis, keepdims=True)
    return h * (g - g_mean) - g * h_mean


# ACCUMULATED: x - log(sum(exp(x))) may cancel.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def log_softmax(x: Tensor, /, axis: JoinedAxes = -1) -> Tensor:
    """x - log(sum(exp(x))) along axis, or several, without overflow.

    >>> pb.log_softmax([1e4, -1e4]).tolist()
    [0.0, -20000.0]
    """
    wide = widened(x)
    if not wide.size:
        return narrowed(wide, x)
    shifted = wide - max(wide, axis=axis, keepdims=True)
    return narrowed(shifted - log(sum(exp(shifted), axis=axis, keepdims=True)), x)


@op(
    shape=_of_one_shape,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=checked(_of_one_shape),
    public=False,
)
def log_softmax_gradient(g: Tensor, out: Tensor, /, *, axis: Axis = -1) -> Tensor:
    """The gradient of `log_softmax`, g - exp(out) * sum(g), from its result `out`.

    >>> pb.ops.log_softmax_gradient([1.0, 0.0], [0.0, float("-inf")]).tolist()
    [0.0, 0.0]
    """
    g, y = widened(g), widened(out)
    return narrowed(g - exp(y) * sum(g, axis=axis, keepdims=True), out)


log_softmax.vjp(x=lambda g, out, axis: log_softmax_gradient(g, out, axis=axis))


@log_softmax_gradient.vjp("g")
def _(h: Tensor, out: Tensor, *, axis: int) -> Tensor:
    return h - sum(h * exp(out), axis=axis, keepdims=True)


@log_softmax_gradient.vjp("out")
def _(h: Tensor, g: Tensor, out: Tensor, *, axis: int) -> Tensor:
    return -h * exp(out) * sum(g, axis=axis, keepdims=True)
