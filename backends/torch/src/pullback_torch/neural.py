"""Convolution, softmax, normalization and attention by torch's own functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from pullback.casting import casts_to_float32
from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import Shape, as_shape
from pullback.spec import OPS


def _astype(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype)


# torch rounds 16-bit floats between the steps of one function.
widened: Callable[[torch.Tensor], torch.Tensor]
narrowed: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
widened, narrowed = casts_to_float32((torch.float16, torch.bfloat16), torch.float32, _astype)


# Convolution: torch has channels first, in images and in kernels --------------------------------


def _first(x: torch.Tensor, options: Any) -> torch.Tensor:
    # Only GPUs have hardware for 16-bit floats.
    x = widened(x) if x.device.type == "cpu" else x
    return torch.movedim(x, -1, 1) if options["data_format"] == "channels_last" else x


def _back(x: torch.Tensor, dtype: torch.dtype, options: Any) -> torch.Tensor:
    y = torch.movedim(x, 1, -1) if options["data_format"] == "channels_last" else x
    return y.to(dtype)


def _padded(x: torch.Tensor, padding: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Pads axes with zeros before and after; a negative number removes elements."""
    ends = [end for pair in reversed(padding) for end in pair]
    return functional.pad(x, ends) if any(ends) else x


def _turned(kernel: torch.Tensor) -> torch.Tensor:
    """(*window, channels, filters) as (filters, channels, *window)."""
    kernel = widened(kernel) if kernel.device.type == "cpu" else kernel
    return torch.movedim(kernel, (-1, -2), (0, 1))


def _exactly(function: Any, *arrays: torch.Tensor, options: Any, **more: Any) -> Any:
    """Convolutions of float32 in float32, with the same result each time."""
    strides, dilation, groups = options["strides"], options["dilation"], options["groups"]
    with torch.backends.cudnn.flags(deterministic=True, allow_tf32=False):
        return function(*arrays, None, strides, [0], dilation, False, [0], groups, **more)


@may_decline
def _conv(x: torch.Tensor, kernel: torch.Tensor, **options: Any) -> torch.Tensor:
    if x.ndim > 5:
        return NotImplemented  # torch has none of more than three dimensions
    shape = as_shape(OPS["conv"].shape(x.shape, kernel.shape, **options))
    if 0 in (*shape, *x.shape, *kernel.shape):
        return x.new_zeros(shape)
    images = _padded(_first(x, options), options["padding"])
    y = _exactly(torch.convolution, images, _turned(kernel), options=options)
    return _back(y, x.dtype, options)


def _gradients(
    g: torch.Tensor, x: torch.Tensor, kernel: torch.Tensor, options: Any, *wanted: bool
) -> Any:
    """The gradients of the padded images and of the kernel, channels first."""
    arrays = _first(g, options), _padded(_first(x, options), options["padding"]), _turned(kernel)
    backward = torch.ops.aten.convolution_backward
    return _exactly(backward, *arrays, options=options, output_mask=(*wanted, False))[:2]


@may_decline
def _conv_input_gradient(
    g: torch.Tensor, kernel: torch.Tensor, *, input_shape: Shape, **options: Any
) -> torch.Tensor:
    if g.ndim > 5:
        return NotImplemented
    if 0 in (*g.shape, *kernel.shape):
        return g.new_zeros(input_shape)
    images = g.new_empty(1).expand(input_shape)  # only its shape counts
    dx, _ = _gradients(g, images, kernel, options, True, False)
    dx = _padded(dx, [(-before, -after) for before, after in options["padding"]])
    return _back(dx, g.dtype, options)


@may_decline
def _conv_kernel_gradient(
    x: torch.Tensor, g: torch.Tensor, *, kernel_shape: Shape, **options: Any
) -> torch.Tensor:
    if g.ndim > 5:
        return NotImplemented
    if 0 in (*x.shape, *g.shape):
        return x.new_zeros(kernel_shape)
    _, dk = _gradients(g, x, x.new_empty(1).expand(kernel_shape), options, False, True)
    return torch.movedim(dk, (0, 1), (-1, -2)).to(x.dtype)


# Softmax and normalization --------------------------------------------------------------------


def _softmax(x: torch.Tensor, *, axis: int) -> torch.Tensor:
    return narrowed(torch.softmax(widened(x), axis), x)


def _log_softmax(x: torch.Tensor, *, axis: int) -> torch.Tensor:
    return narrowed(torch.log_softmax(widened(x), axis), x)


def _layer_norm(
    x: torch.Tensor,
    scale: torch.Tensor | None,
    offset: torch.Tensor | None,
    *,
    axis: Shape | None,
    epsilon: float,
) -> tuple[torch.Tensor, ...]:
    axes = tuple(range(x.ndim)) if axis is None else axis
    # torch normalizes the last axes, at least one: one of size 1 is added.
    last = tuple(range(-len(axes), 0))
    y = torch.movedim(widened(x), axes, last)[..., None]
    shape = y.shape[x.ndim - len(axes) :]
    weight, bias = (None if p is None else widened(p)[..., None] for p in (scale, offset))
    results = torch.native_layer_norm(y, shape, weight, bias, epsilon)
    y, center, spread = (torch.movedim(result[..., 0], last, axes) for result in results)
    if not x.numel():
        # The mean of no elements is NaN, which torch does not fill in.
        center, spread = torch.full_like(center, torch.nan), torch.full_like(spread, torch.nan)
    return y.to(x.dtype), center, spread


# Attention --------------------------------------------------------------------------------------


@may_decline
def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    is_causal: bool,
    scale: float,
    softcap: float | None = None,
    window: Any = None,
    residuals: bool = True,
) -> torch.Tensor:
    """torch's fused attention, which has no residuals to give, where it serves the call."""
    masked = mask is not None or (is_causal and query.shape[-2] != key.shape[-2])
    changed = softcap is not None or window is not None
    if residuals or masked or changed or query.ndim < 3 or key.shape[-3] != query.shape[-3]:
        return NotImplemented
    q, k, v = widened(query), widened(key), widened(value)
    y = functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=scale)
    return narrowed(y, query)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "scaled_dot_product_attention": _attention,
    "softmax": _softmax,
}
