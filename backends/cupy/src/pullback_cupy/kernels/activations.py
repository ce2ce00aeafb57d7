"""Activation functions and their gradients, each in one pass over memory."""

from __future__ import annotations

import math
from typing import Any

from pullback.plugins.records import Kernel
from pullback_cupy.compile import elementwise
from pullback_cupy.typing import Array

_SELU_SCALE, _SELU_BELOW = 1.0507009873554805, 1.0507009873554805 * 1.6732632423543772
_TANH_SLOPE, _TANH_CUBIC = math.sqrt(2 / math.pi), 0.044715
_ROOT_HALF, _ROOT_TAU = math.sqrt(0.5), math.sqrt(2 * math.pi)

# Expressions in `w`, which is x as a W: float for 16-bit floats. `within` lets NaN through.
_OF_ONE = {
    "hard_sigmoid": "within(w + 3, W(0), W(6)) / 6",
    "hard_silu": "w * (within(w + 3, W(0), W(6)) / 6)",
    "hard_tanh": "within(w, W(-1), W(1))",
    "log_sigmoid": "-softplus(-w)",
    "mish": "w * tanh(softplus(w))",
    "relu": "w < 0 ? W(0) : w",
    "relu6": "within(w, W(0), W(6))",
    "selu": f"w > 0 ? w * W({_SELU_SCALE!r}) : expm1(w) * W({_SELU_BELOW!r})",
    "sigmoid": "sigmoid(w)",
    "silu": "w * sigmoid(w)",
    "softplus": "softplus(w)",
    "softsign": "w / (fabs(w) + 1)",
}
_WITH_NUMBER = {
    "celu": ("alpha", "w > 0 ? w : expm1(w / W(a)) * W(a)"),
    "elu": ("alpha", "w > 0 ? w : expm1(w) * W(a)"),
    "leaky_relu": ("negative_slope", "w > 0 ? w : w * W(a)"),
}
# Gradients, of the cotangent `h` too; `w` is the result, or the input of silu.
_GRADIENTS = {
    "sigmoid_gradient": "h * (w * (1 - w))",
    # Where the sigmoid is 0 lest 0 * inf be NaN.
    "silu_gradient": "h * (sigmoid(w) * (within(w, W(-1000), W(1000)) * sigmoid(-w) + 1))",
}
_W = "typedef typename wide_of<T>::type W; const W w = W(x);"


def _of_one(name: str, expression: str) -> Kernel:
    compiled = elementwise(name, "T x", "T y", f"{_W} y = T({expression});")

    def kernel(x: Array) -> Array:
        return compiled(x)

    return kernel


def _gradient(name: str, expression: str) -> Kernel:
    compiled = elementwise(name, "T g, T x", "T y", f"{_W} const W h = W(g); y = T({expression});")

    def kernel(g: Array, x: Array) -> Array:
        return compiled(g, x)

    return kernel


def _with_number(name: str, attribute: str, expression: str) -> Kernel:
    compiled = elementwise(name, "T x, float64 a", "T y", f"{_W} y = T({expression});")

    def kernel(x: Array, **attributes: Any) -> Array:
        return compiled(x, attributes[attribute])

    return kernel


# GELU: x Phi(x), and its approximation x sigmoid(2 z) with z = sqrt(2 / pi) (x + 0.044715 x^3).

_Z = f"const W z = w * (w * w * W({_TANH_CUBIC!r}) + 1) * W({2 * _TANH_SLOPE!r});"
_SLOPE_OF_Z = f"(w * w * W({3 * _TANH_CUBIC!r}) + 1) * W({2 * _TANH_SLOPE!r})"
_BELOW = f"W(0.5) * erfc(w * W({-_ROOT_HALF!r}))"

_gelu_exact = elementwise("gelu", "T x", "T y", f"{_W} y = T(w * ({_BELOW}));")
_gelu_tanh = elementwise("gelu_tanh", "T x", "T y", f"{_W} {_Z} y = T(w * sigmoid(z));")
_gelu_gradient_exact = elementwise(
    "gelu_gradient", "T g, T x", "T y",
    f"{_W} y = T(W(g) * ({_BELOW} + w * exp(w * w * W(-0.5)) / W({_ROOT_TAU!r})));",
)  # fmt: skip
_gelu_gradient_tanh = elementwise(
    "gelu_gradient_tanh", "T g, T x", "T y",
    f"{_W} {_Z} const W s = sigmoid(z);"
    f" y = T(W(g) * (s + w * ({_SLOPE_OF_Z}) * s * (1 - s)));",
)  # fmt: skip


def _gelu(x: Array, *, approximate: bool) -> Array:
    return (_gelu_tanh if approximate else _gelu_exact)(x)


def _gelu_gradient(g: Array, x: Array, *, approximate: bool) -> Array:
    return (_gelu_gradient_tanh if approximate else _gelu_gradient_exact)(g, x)


_relu_gradient_of = elementwise("relu_gradient", "T g, T out", "T y", "y = out > T(0) ? g : T(0)")
_prelu_of = elementwise("prelu", "T x, T slope", "T y", f"{_W} y = w > 0 ? x : T(w * W(slope));")


def _relu_gradient(g: Array, out: Array) -> Array:
    return _relu_gradient_of(g, out)


def _prelu(x: Array, negative_slope: Array) -> Array:
    return _prelu_of(x, negative_slope)


KERNELS: dict[str, Kernel] = {
    **{name: _of_one(name, expression) for name, expression in _OF_ONE.items()},
    **{name: _with_number(name, *arguments) for name, arguments in _WITH_NUMBER.items()},
    **{name: _gradient(name, expression) for name, expression in _GRADIENTS.items()},
    "gelu": _gelu,
    "gelu_gradient": _gelu_gradient,
    "prelu": _prelu,
    "relu_gradient": _relu_gradient,
}
