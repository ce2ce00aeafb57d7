"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from pullback import errors
from pullback._dispatch import op
from pullback.dtypes import UNSIGNED, real, real_floating
from pullback.ops.arithmetic import abs, clip, maximum, minimum
from pullback.ops.exponential import exp, expm1, log1p
from pullback.ops.joining import part
from pullback.ops.precision import narrowed, widened
from pullback.ops.selection import where
from pullback.ops.slicing import strided_slice
from pullback.ops.special import erfc
from pullback.ops.trigonometric import tanh
from pullback.shapes import Axis, Shape, broadcast, first
from pullback.spec import ACCUMULATED, EXACT, FEW_ULP, ROUNDED
from pullback.tensor import Tensor

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "leaky_relu",
    "log_sigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
]

# Piecewise linear -----------------------------------------------------------------------------


@op(shape=first, dtype=real, accuracy=EXACT)
def relu(x: Tensor, /) -> Tensor:
    """The rectified linear unit max(x, 0) (Nair and Hinton, 2010). Its gradient at 0 is 0.

    >>> pb.relu([-1.0, 2.0]).tolist()
    [0.0, 2.0]
    """
    return maximum(x, 0)


@op(shape=broadcast, dtype=real, accuracy=EXACT, public=False)
def relu_gradient(g: Tensor, out: Tensor, /) -> Tensor:
    """The gradient of `relu`, from its result `out`: g where out is positive, else 0.

    >>> pb.ops.relu_gradient([3.0, 4.0], [0.0, 2.0]).tolist()
    [0.0, 4.0]
    """
    return where(out > 0, g, 0)


relu.vjp(x=lambda g, out: relu_gradient(g, out))
relu_gradient.vjp(g=lambda h, out: relu_gradient(h, out), out=None)


@op(shape=first, dtype=real, accuracy=EXACT)
def relu6(x: Tensor, /) -> Tensor:
    """min(max(x, 0), 6) (Krizhevsky, 2010, Convolutional Deep Belief Networks on CIFAR-10).

    >>> pb.relu6([-1.0, 2.0, 7.0]).tolist()
    [0.0, 2.0, 6.0]
    """
    return minimum(maximum(x, 0), 6)


relu6.vjp(x=lambda g, out: where((out > 0) & (out < 6), g, 0))


@op(shape=first, dtype=real_floating, accuracy=ROUNDED)
def leaky_relu(x: Tensor, /, *, negative_slope: float = 0.01) -> Tensor:
    """x where it is positive, negative_slope * x elsewhere (Maas et al., 2013).

    >>> pb.leaky_relu([-2.0, 2.0], negative_slope=0.5).tolist()
    [-1.0, 2.0]
    """
    wide = widened(x)  # the slope itself would be rounded to 16 bits
    return narrowed(where(wide > 0, wide, wide * negative_slope), x)


@op(shape=broadcast, dtype=real_floating, accuracy=ROUNDED, public=False)
def leaky_relu_gradient(g: Tensor, x: Tensor, /, *, negative_slope: float) -> Tensor:
    """The gradient of `leaky_relu` at x: g where x is positive, else negative_slope * g.

    >>> pb.ops.leaky_relu_gradient([3.0, 4.0], [-1.0, 2.0], negative_slope=0.5).tolist()
    [1.5, 4.0]
    """
    wide = widened(g)
    return narrowed(where(x > 0, wide, wide * negative_slope), x)


leaky_relu.vjp(
    x=lambda g, x, negative_slope: leaky_relu_gradient(g, x, negative_slope=negative_slope)
)
leaky_relu_gradient.vjp(
    g=lambda h, x, negative_slope: leaky_relu_gradient(h, x, negative_slope=negative_slope),
    x=None,
)


@op(shape=broadcast, dtype=real_floating, accuracy=ROUNDED)
def prelu(x: Tensor, negative_slope: Tensor, /) -> Tensor:
    """x where it is positive, negative_slope * x elsewhere, with a learned slope (He et al., 2015).

    >>> pb.prelu([[-2.0, 2.0], [-4.0, 3.0]], [0.5, 0.1]).tolist()
    [[-1.0, 2.0], [-2.0, 3.0]]
    """
    return where(x > 0, x, x * negative_slope)


prelu.vjp(
    x=lambda g, x, negative_slope: where(x > 0, g, g * negative_slope),
    negative_slope=lambda g, x: g * minimum(x, 0),
)


@op(shape=first, dtype=real, accuracy=EXACT)
def hard_tanh(x: Tensor, /) -> Tensor:
    """min(max(x, -1), 1) (Collobert, 2004).

    >>> pb.hard_tanh([-2.0, 0.5, 2.0]).tolist()
    [-1.0, 0.5, 1.0]
    """
    return minimum(x if x.dtype in UNSIGNED else maximum(x, -1), 1)


hard_tanh.vjp(x=lambda g, x: where(abs(x) < 1, g, 0))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def hard_sigmoid(x: Tensor, /) -> Tensor:
    """relu6(x + 3) / 6, a piecewise linear sigmoid (Howard et al., 2019).

    >>> pb.hard_sigmoid([-4.0, 0.0, 4.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    wide = widened(x)
    return narrowed(relu6(wide + 3) / 6, x)


hard_sigmoid.vjp(x=lambda g, x: where(abs(x) < 3, g / 6, 0))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def hard_silu(x: Tensor, /) -> Tensor:
    """x * relu6(x + 3) / 6, the hard swish of MobileNetV3 (Howard et al., 2019).

    >>> pb.hard_silu([-4.0, 3.0]).tolist()
    [-0.0, 3.0]
    """
    wide = widened(x)
    # Below -3 the other factor is 0, and -inf * 0 would be NaN.
    return narrowed(maximum(wide, -3) * (relu6(wide + 3) / 6), x)


hard_silu.vjp(x=lambda g, x: where(x < 3, where(x > -3, g * (x / 3 + 0.5), 0), g))


# Exponential linear units ---------------------------------------------------------------------
# exp and expm1 get min(x, 0): elements that `where` does not select must not overflow, or their
# gradient is 0 * inf.


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def elu(x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere (Clevert et al., 2016).

    >>> pb.elu([-1e9, 2.0]).tolist()
    [-1.0, 2.0]
    """
    wide = widened(x)
    return narrowed(where(wide > 0, wide, expm1(minimum(wide, 0)) * alpha), x)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP, public=False)
def elu_gradient(g: Tensor, x: Tensor, /, *, alpha: float) -> Tensor:
    """The gradient of `elu` at x: g where x is positive, else alpha * exp(x) * g.

    >>> pb.ops.elu_gradient([3.0, 4.0], [0.0, 2.0], alpha=0.5).tolist()
    [1.5, 4.0]
    """
    wide = widened(g)
    below = wide * alpha * exp(minimum(widened(x), 0))
    return narrowed(where(x > 0, wide, below), x)


elu.vjp(x=lambda g, x, alpha: elu_gradient(g, x, alpha=alpha))
elu_gradient.vjp(
    g=lambda h, x, alpha: elu_gradient(h, x, alpha=alpha),
    x=lambda h, g, x, alpha: where(x > 0, 0, elu_gradient(h * g, x, alpha=alpha)),
)


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def celu(x: Tensor, /, *, alpha: float = 1.0) -> Tensor:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere (Barron, 2017).

    >>> pb.celu([-1e9, 2.0], alpha=0.5).tolist()
    [-0.5, 2.0]
    """
    wide = widened(x)
    return narrowed(where(wide > 0, wide, expm1(minimum(wide, 0) / alpha) * alpha), x)


celu.vjp(x=lambda g, x, alpha: where(x > 0, g, g * exp(minimum(x, 0) / alpha)))

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def selu(x: Tensor, /) -> Tensor:
    """The scaled exponential linear unit of self-normalizing networks (Klambauer et al., 2017).

    >>> print(f"{pb.selu(1.0):.4f}")
    1.0507
    """
    wide = widened(x)
    below = expm1(minimum(wide, 0)) * (_SELU_SCALE * _SELU_ALPHA)
    return narrowed(where(wide > 0, wide * _SELU_SCALE, below), x)


selu.vjp(x=lambda g, x: elu_gradient(g * _SELU_SCALE, x, alpha=_SELU_ALPHA))


# Sigmoids -------------------------------------------------------------------------------------


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def sigmoid(x: Tensor, /) -> Tensor:
    """The logistic function 1 / (1 + exp(-x)), accurate to a few ulp on both sides.

    >>> pb.sigmoid([-1e4, 0.0, 1e4]).tolist()
    [0.0, 0.5, 1.0]
    """
    wide = widened(x)
    e = exp(-abs(wide))  # never overflows, and is accurate for very negative x
    return narrowed(where(wide < 0, e, 1) / (e + 1), x)


@op(shape=broadcast, dtype=real_floating, accuracy=FEW_ULP, public=False)
def sigmoid_gradient(g: Tensor, out: Tensor, /) -> Tensor:
    """The gradient of `sigmoid`, g * out * (1 - out), from its result `out`.

    >>> pb.ops.sigmoid_gradient([4.0, 4.0], [0.5, 1.0]).tolist()
    [1.0, 0.0]
    """
    g, y = widened(g), widened(out)
    return narrowed(g * (y * (1 - y)), out)


sigmoid.vjp(x=lambda g, out: sigmoid_gradient(g, out))
sigmoid_gradient.vjp(
    g=lambda h, out: sigmoid_gradient(h, out), out=lambda h, g, out: h * (g * (1 - 2 * out))
)


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def softplus(x: Tensor, /) -> Tensor:
    """log(1 + exp(x)), a smooth max(x, 0), without overflow (Dugas et al., 2001).

    >>> pb.softplus([-1e4, 1e4]).tolist()
    [0.0, 10000.0]
    """
    wide = widened(x)
    return narrowed(maximum(wide, 0) + log1p(exp(-abs(wide))), x)


softplus.vjp(x=lambda g, x: g * sigmoid(x))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def log_sigmoid(x: Tensor, /) -> Tensor:
    """log(1 / (1 + exp(-x))) = -softplus(-x).

    >>> pb.log_sigmoid([-1e4, 1e4]).tolist()
    [-10000.0, 0.0]
    """
    wide = widened(x)
    return narrowed(-(maximum(-wide, 0) + log1p(exp(-abs(wide)))), x)


log_sigmoid.vjp(x=lambda g, x: g * sigmoid(-x))


#: A sigmoid is 0 or 1 in every dtype beyond this; its factors are clipped, since 0 * inf is NaN.
_FAR = 1000


#: Below, a float32 sigmoid is subnormal and has lost digits, which x times it would show.
_SUBNORMAL = -80


def _far_left(x: Tensor) -> Tensor:
    """x * exp(x) for x below `_SUBNORMAL`, rounded to a subnormal number only once."""
    x = clip(x, -_FAR, _SUBNORMAL)
    half = exp(x * 0.5)
    return half * x * half


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def silu(x: Tensor, /) -> Tensor:
    """x * sigmoid(x), also called swish (Elfwing et al., 2018; Ramachandran et al., 2017).

    >>> pb.silu(0.0).tolist()
    0.0
    """
    wide = widened(x)
    near = maximum(wide, -_FAR) * sigmoid(wide)
    return narrowed(where(wide < _SUBNORMAL, _far_left(wide), near), x)


def _gradient(g: Tensor, x: Tensor, slope: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """g times the slope of silu or mish at x, from x and sigmoid(x).

    Far to the left both are x * exp(x), whose slope is rounded to a subnormal number only once.
    """
    # exp(-_FAR) is 0 in every dtype.
    half = exp(clip(widened(x), -2 * _FAR, _SUBNORMAL) * 0.5)
    g, wide = widened(g), clip(widened(x), -_FAR, _FAR)
    near = g * slope(wide, sigmoid(wide))
    return narrowed(where(wide < _SUBNORMAL, g * half * (wide + 1) * half, near), x)


# ACCUMULATED: the terms cancel where the derivative changes its sign.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, public=False)
def silu_gradient(g: Tensor, x: Tensor, /) -> Tensor:
    """The gradient of `silu` at x, from the gradient g of its result.

    >>> pb.ops.silu_gradient(2.0, 0.0).item()
    1.0
    """
    return _gradient(g, x, lambda wide, s: s * (wide * (1 - s) + 1))


silu.vjp(x=lambda g, x: silu_gradient(g, x))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def mish(x: Tensor, /) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019).

    >>> pb.mish(0.0).tolist()
    0.0
    """
    wide = widened(x)
    near = maximum(wide, -_FAR) * tanh(softplus(wide))
    return narrowed(where(wide < _SUBNORMAL, _far_left(wide), near), x)


# ACCUMULATED: the terms cancel where the derivative changes its sign.
@op(shape=broadcast, dtype=real_floating, accuracy=ACCUMULATED, public=False)
def mish_gradient(g: Tensor, x: Tensor, /) -> Tensor:
    """The gradient of `mish` at x, from the gradient g of its result.

    >>> pb.ops.mish_gradient(2.0, 0.0).tolist()
    1.2000000476837158
    """

    def slope(wide: Tensor, s: Tensor) -> Tensor:
        t = tanh(softplus(wide))
        return t + wide * s * (1 - t * t)

    return _gradient(g, x, slope)


mish.vjp(x=lambda g, x: mish_gradient(g, x))


@op(shape=first, dtype=real_floating, accuracy=FEW_ULP)
def softsign(x: Tensor, /) -> Tensor:
    """x / (1 + |x|) (Glorot and Bengio, 2010).

    >>> pb.softsign([-1.0, 3.0]).tolist()
    [-0.5, 0.75]
    """
    wide = widened(x)
    return narrowed(wide / (abs(wide) + 1), x)


@softsign.vjp("x")
def _(g: Tensor, x: Tensor) -> Tensor:
    below = abs(x) + 1
    return g / below / below


# Gated units ----------------------------------------------------------------------------------

_ROOT_HALF = math.sqrt(0.5)
_TANH_SLOPE = math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715


def _approximation(
    shapes: tuple[Shape, ...], *, approximate: bool | Literal["none", "tanh"]
) -> dict[str, object]:
    if approximate in (False, "none"):
        return {"approximate": False}
    if approximate in (True, "tanh"):
        return {"approximate": True}
    raise errors.InputValueError(
        f'approximate must be False (or "none") or True (or "tanh"), got {approximate!r}'
    )


# ACCUMULATED: erfc and tanh of a rounded argument have x**2 times its relative error.
@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED, normalize=_approximation)
def gelu(x: Tensor, /, *, approximate: bool | Literal["none", "tanh"] = False) -> Tensor:
    """x times the standard normal cumulative distribution (Hendrycks and Gimpel, 2016).

    Args:
        x: real floating values.
        approximate: True or "tanh" for 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))).

    Raises:
        InputValueError: for an unknown approximation.

    >>> print(f"{pb.gelu(1.0):.4f} {pb.gelu(1.0, approximate=True):.4f}")
    0.8413 0.8412
    """
    wide = widened(x)
    if approximate:
        # (1 + tanh(z)) / 2 is sigmoid(2 z), which is accurate for very negative z.
        inner = wide * (wide * wide * _TANH_CUBIC + 1) * (2 * _TANH_SLOPE)
        return narrowed(maximum(wide, -_FAR) * sigmoid(inner), x)
    return narrowed(maximum(wide, -_FAR) * 0.5 * erfc(wide * -_ROOT_HALF), x)


# ACCUMULATED: as for gelu, and the terms cancel where the derivative changes its sign.
@op(
    shape=broadcast,
    dtype=real_floating,
    accuracy=ACCUMULATED,
    normalize=_approximation,
    public=False,
)
def gelu_gradient(
    g: Tensor, x: Tensor, /, *, approximate: bool | Literal["none", "tanh"] = False
) -> Tensor:
    """The gradient of `gelu` at x, from the gradient g of its result.

    >>> print(f"{pb.ops.gelu_gradient(2.0, 0.0).item():.4f}")
    1.0000
    """
    # Beyond these bounds the derivative is 0 or 1; the products have to stay finite.
    g, wide = widened(g), clip(widened(x), -100, 100)
    if approximate:
        square = wide * wide
        s = sigmoid(wide * (square * _TANH_CUBIC + 1) * (2 * _TANH_SLOPE))
        slope = (square * (3 * _TANH_CUBIC) + 1) * (2 * _TANH_SLOPE)
        return narrowed(g * (s + wide * slope * s * (1 - s)), x)
    density = exp(wide * wide * -0.5) * (_TANH_SLOPE * 0.5)
    return narrowed(g * (erfc(wide * -_ROOT_HALF) * 0.5 + wide * density), x)


gelu.vjp(x=lambda g, x, approximate: gelu_gradient(g, x, approximate=approximate))


def _halves(x: Shape, axis: int, **_: object) -> Shape:
    """The shape with half the size along the axis."""
    if x[axis] % 2:
        raise errors.ShapeError(f"axis {axis} of shape {x} must have an even size")
    return (*x[:axis], x[axis] // 2, *x[axis + 1 :])


@op(shape=_halves, dtype=real_floating, accuracy=FEW_ULP)
def glu(x: Tensor, /, axis: Axis = -1) -> Tensor:
    """The gated linear unit a * sigmoid(b), for a and b the halves of x (Dauphin et al., 2017).

    Raises:
        ShapeError: if the size of `axis` is odd.

    >>> pb.glu([2.0, 4.0, 0.0, 0.0]).tolist()
    [1.0, 2.0]
    """
    half = _halves(x.shape, axis)[axis]
    a: Tensor = strided_slice(x, key=part(axis, 0, half))
    return a * sigmoid(strided_slice(x, key=part(axis, half, 2 * half)))
