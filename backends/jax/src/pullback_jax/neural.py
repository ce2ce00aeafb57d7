"""Convolution, softmax, normalization, attention and LSTM, each compiled as one function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from pullback.casting import casts_to_float32
from pullback.plugins.records import Kernel
from pullback.shapes import Shape, as_shape
from pullback.spec import OPS


def _astype(x: jax.Array, dtype: Any) -> jax.Array:
    return x.astype(dtype)


widened: Callable[[jax.Array], jax.Array]
narrowed: Callable[[jax.Array, jax.Array], jax.Array]
widened, narrowed = casts_to_float32(
    (jnp.dtype("float16"), jnp.dtype("bfloat16")), jnp.dtype("float32"), _astype
)


def _compiled(*attributes: str) -> Callable[[Kernel], Kernel]:
    """Compiles a kernel, for each shape and each value of these attributes."""
    return functools.partial(jax.jit, static_argnames=attributes)


# Convolution -------------------------------------------------------------------------------------

_WINDOWS = ("strides", "padding", "dilation", "groups", "data_format")


def _convolution(x: jax.Array, kernel: jax.Array, options: Any) -> jax.Array:
    axes = "XYZ"[: x.ndim - 2]
    images = f"N{axes}C" if options["data_format"] == "channels_last" else f"NC{axes}"
    return lax.conv_general_dilated(
        x,
        kernel,
        options["strides"],
        options["padding"],
        rhs_dilation=options["dilation"],
        dimension_numbers=(images, f"{axes}IO", images),
        feature_group_count=options["groups"],
        precision=lax.Precision.HIGHEST,
    )


@_compiled(*_WINDOWS)
def _conv(x: jax.Array, kernel: jax.Array, **options: Any) -> jax.Array:
    shape = as_shape(OPS["conv"].shape(x.shape, kernel.shape, **options))
    if 0 in (*shape, *x.shape, *kernel.shape):
        return jnp.zeros(shape, x.dtype)
    return narrowed(_convolution(widened(x), widened(kernel), options), x)


def _transposed(function: Kernel, shape: Shape, g: jax.Array) -> jax.Array:
    """The transpose of a linear function of an array of `shape`, applied to g."""
    wide = widened(g)
    argument = jax.ShapeDtypeStruct(shape, wide.dtype)
    return narrowed(jax.linear_transpose(function, argument)(wide)[0], g)


@_compiled("input_shape", *_WINDOWS)
def _conv_input_gradient(
    g: jax.Array, kernel: jax.Array, *, input_shape: Shape, **options: Any
) -> jax.Array:
    if 0 in (*g.shape, *kernel.shape, *input_shape):
        return jnp.zeros(input_shape, g.dtype)
    window = widened(kernel)
    return _transposed(lambda x: _convolution(x, window, options), input_shape, g)


@_compiled("kernel_shape", *_WINDOWS)
def _conv_kernel_gradient(
    x: jax.Array, g: jax.Array, *, kernel_shape: Shape, **options: Any
) -> jax.Array:
    if 0 in (*g.shape, *x.shape, *kernel_shape):
        return jnp.zeros(kernel_shape, x.dtype)
    images = widened(x)
    return _transposed(lambda k: _convolution(images, k, options), kernel_shape, g)


# Softmax and normalization -----------------------------------------------------------------------


@_compiled("axis")
def _softmax(x: jax.Array, *, axis: int) -> jax.Array:
    if not x.size:
        return x
    wide = widened(x)
    powers = jnp.exp(wide - jnp.max(wide, axis, keepdims=True))
    return narrowed(powers / jnp.sum(powers, axis, keepdims=True), x)


@_compiled("axis", "epsilon")
def _layer_norm(
    x: jax.Array,
    scale: jax.Array | None,
    offset: jax.Array | None,
    *,
    axis: Shape | None,
    epsilon: float,
) -> tuple[jax.Array, ...]:
    wide = widened(x)
    center = jnp.mean(wide, axis, keepdims=True)
    centered = wide - center
    spread = 1 / jnp.sqrt(jnp.mean(centered * centered, axis, keepdims=True) + epsilon)
    axes = range(x.ndim) if axis is None else axis
    shape = tuple(size if i in axes else 1 for i, size in enumerate(x.shape))
    y = centered * spread
    if scale is not None:
        y = y * jnp.reshape(scale, shape)
    if offset is not None:
        y = y + jnp.reshape(offset, shape)
    return narrowed(y, x), center, spread


# Attention ---------------------------------------------------------------------------------------


def _matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def _shared(x: jax.Array, shared: jax.Array) -> jax.Array:
    """x with as many heads as `shared`, each with the rows of all heads that share it."""
    if x.ndim < 3 or x.shape[-3] == shared.shape[-3]:
        return x
    heads, group = shared.shape[-3], x.shape[-3] // max(shared.shape[-3], 1)
    return jnp.reshape(x, (*x.shape[:-3], heads, group * x.shape[-2], x.shape[-1]))


def _matmul_shared(x: jax.Array, shared: jax.Array) -> jax.Array:
    product = _matmul(_shared(x, shared), shared)
    return jnp.reshape(product, (*product.shape[:-3], *x.shape[-3:-1], product.shape[-1]))


@_compiled("is_causal", "scale", "softcap", "window")
def _attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array | None,
    *,
    is_causal: bool,
    scale: float,
    softcap: float | None = None,
    window: Any = None,
) -> tuple[jax.Array, jax.Array]:
    q, k, v = widened(query), widened(key), widened(value)
    scores = _matmul_shared(q * scale, jnp.matrix_transpose(k))
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    if window is not None:
        before, after = window
        apart = jnp.arange(scores.shape[-1]) - jnp.arange(scores.shape[-2])[:, None]
        near = (before is None or apart >= -before) & (after is None or apart <= after)
        scores = jnp.where(near, scores, -jnp.inf)
    if is_causal:
        scores = jnp.where(jnp.tri(*scores.shape[-2:], dtype=bool), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    largest = jnp.max(scores, -1, keepdims=True, initial=-jnp.inf)
    largest = jnp.where(largest == -jnp.inf, 0, largest)
    powers = jnp.exp(scores - largest)
    total = jnp.sum(powers, -1, keepdims=True)
    total = jnp.where(total == 0, 1, total)
    y = _matmul_shared(powers, v) / total
    return narrowed(y, query), largest + jnp.log(total)


# The long short-term memory ----------------------------------------------------------------------


def _steps(x: jax.Array) -> jax.Array:
    """Batch and time in the other order."""
    return jnp.swapaxes(x, 0, 1)


def _select(present: jax.Array | None, new: jax.Array, old: jax.Array) -> jax.Array:
    return new if present is None else jnp.where(present[:, None], new, old)


@_compiled("reverse")
def _lstm(
    x: jax.Array,
    initial_h: jax.Array,
    initial_c: jax.Array,
    kernel: jax.Array,
    recurrent_kernel: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array | None,
    *,
    reverse: bool,
) -> tuple[jax.Array, ...]:
    recurrent = widened(recurrent_kernel)
    projected = _matmul(widened(x), widened(kernel))
    if bias is not None:
        projected = projected + widened(bias)

    def step(state: Any, inputs: Any) -> Any:
        (h, c), (z, present) = state, inputs
        i, f, g, o = jnp.split(z + _matmul(h, recurrent), 4, axis=1)
        i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
        c_new = f * c + i * g
        h, c = _select(present, o * jnp.tanh(c_new), h), _select(present, c_new, c)
        return (h, c), (h, jnp.concatenate([i, f, g, o], 1), c)

    inputs = _steps(projected), None if mask is None else _steps(mask)
    start = widened(initial_h), widened(initial_c)
    (h, c), (out, gates, cells) = lax.scan(step, start, inputs, reverse=reverse)
    return (
        narrowed(_steps(out), x),
        narrowed(h, x),
        narrowed(c, x),
        _steps(gates),
        _steps(cells),
    )


def _before(states: jax.Array, initial: jax.Array, reverse: bool) -> jax.Array:
    """The state before each step."""
    if reverse:
        return jnp.concatenate([states, initial[:, None]], 1)[:, 1:]
    return jnp.concatenate([initial[:, None], states], 1)[:, :-1]


def _rows(x: jax.Array) -> jax.Array:
    """The last axis of a stack of matrices as rows; without -1, which needs a size above 0."""
    return jnp.reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


@_compiled("reverse")
def _lstm_gradient(
    x: jax.Array,
    initial_h: jax.Array,
    initial_c: jax.Array,
    kernel: jax.Array,
    recurrent_kernel: jax.Array,
    mask: jax.Array | None,
    out: jax.Array,
    gates: jax.Array,
    cells: jax.Array,
    out_g: jax.Array,
    h_g: jax.Array,
    c_g: jax.Array,
    *,
    reverse: bool,
) -> tuple[jax.Array, ...]:
    turned = widened(recurrent_kernel).T

    def step(state: Any, inputs: Any) -> Any:
        (dh, dc), (g_out, step_gates, cell, c_before, present) = state, inputs
        i, f, g, o = jnp.split(step_gates, 4, axis=1)
        dh = dh + g_out
        tanh_c = jnp.tanh(cell)
        dc_new = dc + dh * o * (1 - tanh_c * tanh_c)
        parts = (
            dc_new * g * (i * (1 - i)),
            dc_new * c_before * (f * (1 - f)),
            dc_new * i * (1 - g * g),
            dh * tanh_c * (o * (1 - o)),
        )
        dz = jnp.concatenate(parts, 1)
        dz = dz if present is None else jnp.where(present[:, None], dz, 0)
        return (_select(present, _matmul(dz, turned), dh), _select(present, dc_new * f, dc)), dz

    c_before = _before(cells, widened(initial_c), reverse)
    steps = [_steps(part) for part in (widened(out_g), gates, cells, c_before)]
    inputs = (*steps, None if mask is None else _steps(mask))
    start = widened(h_g), widened(c_g)
    (dh, dc), dz = lax.scan(step, start, inputs, reverse=not reverse)
    h_before = _steps(_before(widened(out), widened(initial_h), reverse))
    dx = _steps(_matmul(dz, widened(kernel).T))
    rows = _rows(dz)
    dkernel = _matmul(_rows(_steps(widened(x))).T, rows)
    drecurrent = _matmul(_rows(h_before).T, rows)
    gradients = (dx, dh, dc, dkernel, drecurrent, jnp.sum(rows, 0))
    return tuple(narrowed(gradient, x) for gradient in gradients)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
    "layer_norm": _layer_norm,
    "lstm": _lstm,
    "lstm_gradient": _lstm_gradient,
    "scaled_dot_product_attention": _attention,
    "softmax": _softmax,
}
