"""Samples of convolution, its gradients, and the transposed convolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import Sample, call, suite, wrong

Array: TypeAlias = Any


#: One size for all spatial dimensions, or one for each.
Sizes: TypeAlias = "int | Sequence[int]"
#: A rule, or the sizes around: one for both sides, or (before, after).
Padding: TypeAlias = "str | int | Sequence[int | tuple[int, int]]"


def tuple_of(value: object, count: int) -> tuple[Any, ...]:
    """One value for all spatial dimensions, or one for each."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def pads_of(
    padding: Padding,
    spatial: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> list[tuple[int, int]]:
    """(before, after) for each spatial dimension, as TensorFlow's documentation says."""
    if not isinstance(padding, str):
        return [p if isinstance(p, tuple) else (p, p) for p in tuple_of(padding, len(spatial))]
    result = []
    for size, width, stride, step in zip(spatial, window, strides, dilation, strict=True):
        span = step * (width - 1) + 1
        if padding.lower() == "valid":
            result.append((0, 0))
        elif padding.lower() == "causal":
            result.append((span - 1, 0))
        else:
            total = max(span - (size % stride or stride), 0)
            result.append((total // 2, total - total // 2))
    return result


def to_last(x: Array, data_format: str) -> Array:
    """Images with their channels last."""
    return x if data_format == "channels_last" else np.moveaxis(x, 1, -1)


def from_last(x: Array, data_format: str) -> Array:
    """Images in the format asked for."""
    return x if data_format == "channels_last" else np.moveaxis(x, -1, 1)


class _Layout:
    """Where the taps of a convolution meet padded images with channels last."""

    def __init__(
        self,
        images: Sequence[int],
        kernel: Sequence[int],
        *,
        strides: Sizes = 1,
        padding: Padding = "valid",
        dilation: Sizes = 1,
        groups: int = 1,
    ) -> None:
        *window, self.width, filters = kernel
        self.window = window
        self.share, self.groups = filters // groups, groups
        self.strides = tuple_of(strides, len(window))
        self.dilation = tuple_of(dilation, len(window))
        spatial = images[1:-1]
        self.pads = pads_of(padding, spatial, window, self.strides, self.dilation)
        self.padded = [n + low + high for n, (low, high) in zip(spatial, self.pads, strict=True)]
        self.out = [
            max(0, (n - step * (width - 1) - 1) // stride + 1)
            for n, width, stride, step in zip(
                self.padded, window, self.strides, self.dilation, strict=True
            )
        ]

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        """For each tap and group: the indices of its pixels, of their products, and a kernel."""
        if 0 in self.out:
            return
        for tap in product(*map(range, self.window)):
            at = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for n, s, t, d in zip(self.out, self.strides, tap, self.dilation, strict=True)
            ]
            for group in range(self.groups):
                inputs = slice(group * self.width, (group + 1) * self.width)
                columns = slice(group * self.share, (group + 1) * self.share)
                yield (..., *at, inputs), (..., columns), (*tap, slice(None), columns)

    def pad(self, x: Array) -> Array:
        """The images with their padding."""
        return np.pad(x, [(0, 0), *self.pads, (0, 0)])

    def inside(self, x: Array) -> Array:
        """The images without it."""
        cut = [slice(low, n - high) for n, (low, high) in zip(self.padded, self.pads, strict=True)]
        return x[(slice(None), *cut)]


def _conv(x: Array, kernel: Array, *, data_format: str = "channels_last", **how: Any) -> Array:
    x = to_last(x, data_format)
    layout = _Layout(x.shape, kernel.shape, **how)
    x = layout.pad(x)
    y = np.zeros((x.shape[0], *layout.out, kernel.shape[-1]), np.result_type(x, kernel))
    for pixels, products, weights in layout:
        y[products] += x[pixels] @ kernel[weights]
    return from_last(y, data_format)


def _input_gradient(
    g: Array, kernel: Array, *, input_shape: Any, data_format: str = "channels_last", **how: Any
) -> Array:
    g, shape = to_last(g, data_format), to_last(np.empty(input_shape), data_format).shape
    layout = _Layout(shape, kernel.shape, **how)
    dx = np.zeros((shape[0], *layout.padded, shape[-1]), np.result_type(g, kernel))
    for pixels, products, weights in layout:
        dx[pixels] += g[products] @ kernel[weights].T
    return from_last(layout.inside(dx), data_format)


def _kernel_gradient(
    x: Array, g: Array, *, kernel_shape: Any, data_format: str = "channels_last", **how: Any
) -> Array:
    x, g = to_last(x, data_format), to_last(g, data_format)
    layout = _Layout(x.shape, kernel_shape, **how)
    x, dk = layout.pad(x), np.zeros(kernel_shape, np.result_type(x, g))
    for pixels, products, weights in layout:
        axes = range(x.ndim - 1)
        dk[weights] += np.tensordot(x[pixels], g[products], (axes, axes))
    return dk


# (images, kernel, attributes): every kind of padding, stride, dilation, group and format.
_CASES: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    ((2, 5, 3), (3, 3, 4), {}),
    ((1, 6, 2), (2, 2, 3), {"padding": "causal", "dilation": 2}),
    ((2, 4, 5, 2), (3, 3, 2, 3), {"padding": "same"}),
    ((1, 5, 6, 2), (2, 3, 2, 3), {"padding": "SAME", "strides": 2}),
    ((1, 5, 4, 2), (3, 2, 2, 2), {"padding": ((2, 1), (0, 3)), "strides": (2, 1)}),
    ((1, 6, 6, 2), (2, 2, 2, 2), {"dilation": (2, 3), "padding": 1}),
    ((1, 4, 4, 4), (2, 2, 2, 6), {"groups": 2}),
    ((1, 4, 4, 3), (3, 3, 1, 6), {"groups": 3, "padding": "same"}),
    ((1, 3, 4, 2), (1, 1, 2, 3), {}),
    ((1, 3, 4, 2), (1, 1, 2, 3), {"strides": 2}),
    ((1, 3, 4, 6), (1, 1, 3, 4), {"groups": 2}),
    ((1, 2, 4, 4), (3, 3, 2, 3), {"padding": "same", "data_format": "channels_first"}),
    ((1, 4, 3, 4), (2, 2, 2, 2), {"groups": 2, "data_format": "channels_first"}),
    ((1, 3, 3, 4, 2), (2, 2, 2, 2, 2), {"strides": (1, 1, 2)}),
    ((1, 2, 2, 2), (1, 1, 2, 2), {"padding": 4}),
    # Several at once: where one changes what another means.
    ((1, 6, 5, 4), (2, 2, 2, 4), {"strides": 2, "dilation": 2, "groups": 2, "padding": 1}),
    (
        (1, 4, 7, 5),
        (2, 2, 2, 2),
        {"strides": (2, 1), "dilation": (1, 2), "groups": 2, "data_format": "channels_first"},
    ),
    (
        (1, 2, 5, 6),
        (3, 2, 2, 3),
        {"strides": 2, "dilation": (2, 1), "padding": "same", "data_format": "channels_first"},
    ),
    ((0, 4, 4, 2), (3, 3, 2, 3), {}),
    ((1, 2, 2, 2), (3, 3, 2, 3), {}),
    ((1, 3, 3, 0), (2, 2, 0, 3), {}),
    # Positions that no window has, between windows and behind the last, along one axis.
    ((2, 9, 2), (2, 2, 3), {"strides": 3}),
    ((1, 11, 4), (2, 2, 2), {"strides": 4, "dilation": 2, "groups": 2}),
)
# One image that is more than a block of a kernel, and not a whole number of them.
_LARGE: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
    ((1, 131, 67, 4), (3, 3, 4, 5), {}),
    ((1, 131, 67, 9), (3, 3, 1, 9), {"groups": 9, "padding": "same"}),
    ((1, 131, 67, 9), (3, 3, 1, 9), {"groups": 9, "strides": (1, 2)}),
    ((1, 67, 131, 6), (3, 2, 3, 4), {"groups": 2, "dilation": 2, "padding": 1}),
)


def _drawn(cases: Any, note: str) -> Iterator[tuple[Array, Array, Array, dict[str, Any]]]:
    """Images, kernel and cotangent of each case, and its attributes with a note."""
    for number, (images, kernel, how) in enumerate(cases):
        x, k = normal(*images, seed=number), normal(*kernel, seed=number + 1)
        g = normal(*_conv(x, k, **how).shape, seed=number + 2)
        yield x, k, g, {**how, "note": f"{note} {number}"}


def _large(*inputs: Array, note: str, **attributes: Any) -> Sample:
    return Sample(inputs, attributes, False, note=note, checks=("value",))


_DRAWN = tuple(_drawn(_CASES, "case"))
_WIDE = tuple(_drawn(_LARGE, "large image"))
_STEPS = "the reference takes one step at a time"

suite("conv", _conv, items=("x",), without={"large": _STEPS})(
    *(call(x, k, **how) for x, k, _, how in _DRAWN),
    *(_large(x, k, **how) for x, k, _, how in _WIDE),
    wrong(errors.ShapeError, normal(1, 4, 4, 3), normal(2, 2, 2, 3)),
    wrong(errors.ShapeError, normal(4, 3), normal(2, 3)),
    wrong(errors.ShapeError, normal(1, 4, 4, 2), normal(2, 2, 2)),
    wrong(errors.ShapeError, normal(1, 4, 4, 2), normal(2, 2, 1, 3), groups=2),
    wrong(errors.ShapeError, normal(1, 4, 2), normal(2, 2, 3), strides=0),
    wrong(errors.ShapeError, normal(1, 4, 2), normal(2, 2, 3), strides=(1, 1)),
    wrong(errors.ShapeError, normal(1, 4, 2), normal(2, 2, 3), padding=-1),
    wrong(errors.InputValueError, normal(1, 4, 2), normal(2, 2, 3), padding="full"),
    wrong(errors.InputTypeError, normal(1, 4, 2), normal(2, 2, 3), strides=1.5),
    wrong(errors.InputValueError, normal(1, 4, 2), normal(2, 2, 3), data_format="NHWC"),
)
suite("conv_input_gradient", _input_gradient, items=("g",), without={"sizes": _STEPS})(
    *(call(g, k, input_shape=x.shape, **how) for x, k, g, how in _DRAWN),
    *(_large(g, k, input_shape=x.shape, **how) for x, k, g, how in _WIDE),
    wrong(errors.ShapeError, normal(1, 4, 3), normal(2, 2, 3), input_shape=(1, 4, 2)),
)
suite("conv_kernel_gradient", _kernel_gradient, items=("x", "g"), without={"sizes": _STEPS})(
    *(call(x, g, kernel_shape=k.shape, **how) for x, k, g, how in _DRAWN),
    *(_large(x, g, kernel_shape=k.shape, **how) for x, k, g, how in _WIDE),
    wrong(errors.ShapeError, normal(1, 4, 2), normal(1, 4, 3), kernel_shape=(2, 2, 3)),
)


def _conv_transpose(
    x: Array,
    kernel: Array,
    *,
    strides: Sizes = 1,
    padding: Padding = "valid",
    output_padding: Sizes | None = None,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "channels_last",
) -> Array:
    x = to_last(x, data_format)
    count = x.ndim - 2
    strides, dilation = tuple_of(strides, count), tuple_of(dilation, count)
    extra = tuple_of(output_padding or 0, count)
    window, width = kernel.shape[:-2], kernel.shape[-2]
    span = [d * (w - 1) + 1 for w, d in zip(window, dilation, strict=True)]
    # Every input lays its copy of the kernel down; what lies in the padding is cut off.
    full = [(n - 1) * s + p for n, s, p in zip(x.shape[1:-1], strides, span, strict=True)]
    y = np.zeros((x.shape[0], *full, width * groups), np.result_type(x, kernel))
    share = x.shape[-1] // groups
    for place in product(*map(range, x.shape[1:-1])):
        for tap in product(*map(range, window)):
            at = [p * s + t * d for p, s, t, d in zip(place, strides, tap, dilation, strict=True)]
            for group in range(groups):
                inputs = slice(group * share, (group + 1) * share)
                part = x[(slice(None), *place, inputs)] @ kernel[tap][:, inputs].T
                y[(slice(None), *at, slice(group * width, (group + 1) * width))] += part
    for axis, (n, s, p, more) in enumerate(
        zip(x.shape[1:-1], strides, span, extra, strict=True), 1
    ):
        low, size = 0, y.shape[axis] + more
        if isinstance(padding, str):
            size = n * s + (max(p - s, 0) if padding == "valid" else 0) + more
            low = 0 if padding == "valid" else max(p - s, 0) // 2
        else:
            low, high = pads_of(padding, x.shape[1:-1], window, strides, dilation)[axis - 1]
            size -= low + high
        y = np.pad(y, [(0, size + low) if a == axis else (0, 0) for a in range(y.ndim)])
        y = np.take(y, range(low, low + size), axis)
    return from_last(y, data_format)


suite("conv_transpose", _conv_transpose, items=("x",), without={"large": _STEPS})(
    call(normal(2, 3, 3), normal(3, 4, 3)),
    call(normal(1, 3, 3), normal(2, 4, 3), strides=3),
    call(normal(1, 3, 4, 2), normal(3, 3, 5, 2), strides=2, padding="same"),
    call(normal(1, 3, 4, 2), normal(4, 2, 3, 2), strides=(2, 1), padding=1),
    call(normal(1, 3, 2), normal(3, 4, 2), strides=2, padding=((1, 1),), output_padding=1),
    call(normal(1, 2, 3, 2), normal(2, 2, 3, 2), strides=2, output_padding=1, note="of two axes"),
    call(normal(1, 2, 3, 2), normal(2, 2, 3, 2), strides=(2, 3), padding=1, output_padding=(1, 2)),
    call(normal(1, 3, 2), normal(2, 4, 2), dilation=2),
    call(normal(1, 3, 4), normal(2, 3, 4), groups=2, strides=2),
    call(normal(1, 2, 3, 3), normal(2, 2, 3, 2), data_format="channels_first"),
    call(normal(1, 3, 4), normal(2, 3, 4), groups=2, strides=2, dilation=2, padding=1),
    call(normal(0, 3, 3), normal(3, 4, 3), note="empty"),
    wrong(errors.ShapeError, normal(1, 3, 2), normal(2, 4, 3)),
    wrong(errors.InputValueError, normal(1, 3, 2), normal(2, 4, 2), data_format="NHWC"),
)
