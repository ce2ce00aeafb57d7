"""What networks spend their time in."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from pullback.backend import Kernel


def wide(x: Any) -> Any:
    """16-bit floats as float32: torch would round between steps."""
    return x.float() if x.dtype.itemsize == 2 else x


# Convolution: torch has images and kernels with their channels first --------------------------


def _wide_on_cpu(x: Any) -> Any:
    """16-bit floats as float32 where there is no hardware for them."""
    return wide(x) if x.device.type == "cpu" else x


def _first(x: Any, data_format: str) -> Any:
    return torch.movedim(x, -1, 1) if data_format == "channels_last" else x


def _back(x: Any, data_format: str) -> Any:
    return torch.movedim(x, 1, -1) if data_format == "channels_last" else x


def _padded(x: Any, padding: Any) -> Any:
    """x with the zeros around it, which may be more behind than in front."""
    ends = [end for pair in reversed(padding) for end in pair]
    return functional.pad(x, ends) if any(ends) else x


def _turned(kernel: Any) -> Any:
    """(*window, channels, filters) as (filters, channels, *window)."""
    return torch.movedim(kernel, (-1, -2), (0, 1))


def _exact(x: Any) -> Any:
    """Convolutions of float32 in float32, with the same result each time."""
    return torch.backends.cudnn.flags(deterministic=True, allow_tf32=False)


def _conv(
    x: Any, kernel: Any, *, strides: Any, padding: Any, dilation: Any, groups: int, data_format: str
) -> Any:
    images = _padded(_first(_wide_on_cpu(x), data_format), padding)
    window = zip(images.shape[2:], kernel.shape, strides, dilation, strict=False)
    out = [max(0, (n - step * (k - 1) - 1) // stride + 1) for n, k, stride, step in window]
    if not (math.prod(out) and images.numel() and kernel.numel()):
        y = images.new_zeros((x.shape[0], kernel.shape[-1], *out))
        return _back(y, data_format).to(x.dtype)
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[len(strides) - 1]
    with _exact(x):
        y = convolve(images, _turned(_wide_on_cpu(kernel)), None, strides, 0, dilation, groups)
    return _back(y, data_format).to(x.dtype)


def _gradients(
    g: Any, images: Any, kernel: Any, strides: Any, dilation: Any, groups: int, mask: list[bool]
) -> Any:
    with _exact(g):
        return torch.ops.aten.convolution_backward(
            g, images, kernel, None, strides, [0], dilation, False, [0], groups, [*mask, False]
        )


def _conv_input_gradient(
    g: Any, kernel: Any, *, input_shape: Any, strides: Any, padding: Any, dilation: Any,
    groups: int, data_format: str,
) -> Any:  # fmt: skip
    if not (g.numel() and kernel.numel()):
        return g.new_zeros(input_shape)
    y, weight = _first(_wide_on_cpu(g), data_format), _turned(_wide_on_cpu(kernel))
    shape = list(input_shape)
    if data_format == "channels_last":
        shape.insert(1, shape.pop())
    images = _padded(y.new_empty(1).expand(shape), padding)
    dx, _, _ = _gradients(y, images, weight, strides, dilation, groups, [True, False])
    for axis, (before, _) in enumerate(padding, start=2):
        dx = dx.narrow(axis, before, shape[axis])
    return _back(dx, data_format).to(g.dtype)


def _conv_kernel_gradient(
    x: Any, g: Any, *, kernel_shape: Any, strides: Any, padding: Any, dilation: Any,
    groups: int, data_format: str,
) -> Any:  # fmt: skip
    if not (x.numel() and g.numel()):
        return x.new_zeros(kernel_shape)
    images = _padded(_first(_wide_on_cpu(x), data_format), padding)
    y = _first(_wide_on_cpu(g), data_format)
    *window, channels, filters = kernel_shape
    weight = y.new_empty(1).expand(filters, channels, *window)
    _, dk, _ = _gradients(y, images, weight, strides, dilation, groups, [False, True])
    return torch.movedim(dk, (0, 1), (-1, -2)).to(x.dtype)


# Softmax and normalization --------------------------------------------------------------------


def _softmax(x: Any, *, axis: int) -> Any:
    return torch.softmax(wide(x), axis).to(x.dtype)


def _log_softmax(x: Any, *, axis: int) -> Any:
    return torch.log_softmax(wide(x), axis).to(x.dtype)


def _layer_norm(x: Any, scale: Any, offset: Any, *, axis: Any, epsilon: float) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else axis
    if not axes:
        # torch wants an axis: one element is its own mean.
        given = [one if one is None else one[..., None] for one in (x, scale, offset)]
        found = _layer_norm(*given, axis=(x.ndim,), epsilon=epsilon)
        return tuple(one[..., 0] for one in found)
    # torch normalizes the last axes.
    last = tuple(range(-len(axes), 0))
    y = torch.movedim(wide(x), axes, last)
    given = [None if one is None else wide(one) for one in (scale, offset)]
    found = torch.native_layer_norm(y, y.shape[-len(axes) :], *given, epsilon)
    y, center, spread = (torch.movedim(one, last, axes) for one in found)
    return y.to(x.dtype), center, spread


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "relu": torch.relu,
    "softmax": _softmax,
}
