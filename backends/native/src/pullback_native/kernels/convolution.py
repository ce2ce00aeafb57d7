"""Convolution over one or two spatial dimensions, without groups or of each channel by itself.

The loops read windows where they lie in the image: NumPy's kernel gathers them into a matrix for
BLAS. Input gradients are convolutions too: at stride 1 of g with the flipped kernel, at larger
strides one for each position that an input can have under the stride. Images whose channels are
first are read as those with the channels last: `plain` copies them, as NumPy's kernel does.

All that follows from shapes is worked out once: the functions that end in `_for` return the kernel
for arrays of some shapes, and keep it. A kernel returns None where NumPy's has to do the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, TypeAlias

import numpy as np

from pullback.plugins.kind import Kind
from pullback.plugins.records import Kernel
from pullback.shapes import output_sizes
from pullback_native import _native
from pullback_native.kernels import depthwise
from pullback_native.kernels.windows import Padding, pair, windows
from pullback_native.loops import (
    FLOAT32,
    LOOPS,
    Array,
    Sizes,
    empty,
    needs_numpy,
    plain,
    prepares,
    run,
)
from pullback_numpy.convolution import GRADIENT_PARTS
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

_CONV, _KERNEL_GRADIENT = LOOPS["conv"], LOOPS["conv_kernel_gradient"]
#: Multiplications a nanosecond, on one thread.
_SPEED = 50
#: Pixels of the output that make a block: its band of the input stays in the second-level cache.
_PIXELS = 256
_ROOM = "a part of the image"
#: The number of shapes for which a kernel is kept.
_SHAPES = 512

_Shape: TypeAlias = tuple[int, ...]
#: A kernel for arrays of some shapes.
_Ready: TypeAlias = Callable[[Array, Array], Array | None]
#: That of the convolution: the third array has the strips of the second.
_Conv: TypeAlias = Callable[..., Array | None]


def _supports(x: Array, other: Array, groups: int, data_format: str) -> bool:
    """Returns whether the loops take these arrays."""
    return (
        data_format == "channels_last"
        and groups == 1
        and x.ndim <= 4
        and x.dtype == other.dtype == FLOAT32
        and x.size * other.size > 0
    )


def _is_product(window: _Shape, strides: _Shape, padding: Padding) -> bool:
    """Returns whether every output is made of one pixel, at the same position."""
    return prod(window) == 1 and prod(strides) == 1 and not any(map(any, padding))


def _plan(
    shape: _Shape, out: Sequence[int], window: _Shape, features: int,
    strides: _Shape, padding: Padding, dilation: _Shape,
) -> tuple[int, float, Sizes]:  # fmt: skip
    """The number of blocks, the nanoseconds for each, and the sizes for the loops."""
    sizes = windows(shape, out, window, strides, padding)
    rows, columns = shape[0] * sizes["out_height"], out[-1]
    cost = columns * (prod(window) * shape[-1] * features / _SPEED + 10)
    blocks = -(-rows // max(1, _PIXELS // columns))
    if rows * cost > 1e5:
        blocks += blocks % 2  # two threads are done at the same time
    step = -(-rows // blocks)
    sizes["dilation_height"], sizes["dilation_width"] = pair(dilation)
    sizes["features"], sizes["rows"], sizes["block_rows"] = features, rows, step
    return -(-rows // step), step * cost, sizes


def _by_numpy(name: str, *inputs: Array, **attributes: Any) -> Array:
    result: Array = NUMPY_KERNELS[name](*inputs, **attributes)
    return result


def _moved(x: Array, kernel: Array, groups: int, data_format: str) -> bool:
    """Returns whether the loops take these arrays with the channels of the image moved."""
    return data_format == "channels_first" and _supports(x, kernel, groups, "channels_last")


def _has_groups(x: Array, other: Array, channels: int, groups: int, data_format: str) -> bool:
    """Returns whether the loops for single channels take these arrays."""
    return (
        groups > 1
        and data_format == "channels_last"
        and depthwise.takes(x, other, channels, groups)
    )


def _last(x: Array) -> Array:
    """An image whose channels are first, as a view with the channels last."""
    return x.transpose(0, *range(2, x.ndim), 1)


def _first(x: Array) -> Array:
    """An image whose channels are last, as a view with the channels first."""
    return x.transpose(0, x.ndim - 1, *range(1, x.ndim - 1))


# ---------------------------------------------------------------------------------------------
# The convolution.


def _conv(
    x: Array, kernel: Array, *, strides: _Shape, padding: Padding, dilation: _Shape, groups: int,
    data_format: str,
) -> Array:  # fmt: skip
    if _supports(x, kernel, groups, data_format):
        y = _conv_for(x.shape, kernel.shape, strides, padding, dilation)(x, kernel)
        if y is not None:
            return y
    elif _moved(x, kernel, groups, data_format):
        y = _conv(
            _last(x), kernel, strides=strides, padding=padding, dilation=dilation, groups=1,
            data_format="channels_last",
        )  # fmt: skip
        return _first(y)
    elif _has_groups(x, kernel, x.shape[-1], groups, data_format):
        y = depthwise.conv(x, kernel, strides, padding, dilation)
        if y is not None:
            return y
    return _by_numpy(
        "conv", x, kernel, strides=strides, padding=padding, dilation=dilation, groups=groups,
        data_format=data_format,
    )  # fmt: skip


@lru_cache(_SHAPES)
def _conv_for(
    shape: _Shape, kernel_shape: _Shape, strides: _Shape, padding: Padding, dilation: _Shape
) -> _Conv:
    *window, channels, features = kernel_shape
    if _is_product(tuple(window), strides, padding):
        matrix = channels, features

        def product(x: Array, kernel: Array, strips: Array | None = None) -> Array:
            x, kernel = plain(x), kernel.reshape(matrix)
            if strips is None:
                return _native.matmul(x, kernel)
            return _native.matmul_by_strips(strips, x, kernel)

        return product
    out = output_sizes(shape[1:-1], tuple(window), strides, padding, dilation)
    results = shape[0], *out, features
    if not prod(results):
        return lambda x, kernel, strips=None: empty(results)
    blocks, cost, sizes = _plan(shape, out, tuple(window), features, strides, padding, dilation)

    def conv(x: Array, kernel: Array, strips: Array | None = None) -> Array | None:
        y = empty(results)
        status = run(
            _CONV, blocks, 1, cost, sizes, x=plain(x), kernel=plain(kernel), strips=strips, y=y
        )
        return None if needs_numpy(status, _ROOM) else y

    return conv


# ---------------------------------------------------------------------------------------------
# The gradient of the input.


def _conv_input_gradient(
    g: Array, kernel: Array, *, input_shape: _Shape, strides: _Shape, padding: Padding,
    dilation: _Shape, groups: int, data_format: str,
) -> Array:  # fmt: skip
    if _supports(g, kernel, groups, data_format) and 0 not in input_shape:
        ready = _input_gradient_for(g.shape, kernel.shape, input_shape, strides, padding, dilation)
        dx = None if ready is None else ready(g, kernel)
        if dx is not None:
            return dx
    elif _moved(g, kernel, groups, data_format):
        n, channels, *sizes = input_shape
        dx = _conv_input_gradient(
            _last(g), kernel, input_shape=(n, *sizes, channels), strides=strides, padding=padding,
            dilation=dilation, groups=1, data_format="channels_last",
        )  # fmt: skip
        return _first(dx)
    elif 0 not in input_shape and _has_groups(g, kernel, input_shape[-1], groups, data_format):
        dx = depthwise.input_gradient(g, kernel, input_shape, strides, padding, dilation)
        if dx is not None:
            return dx
    return _by_numpy(
        "conv_input_gradient", g, kernel, input_shape=input_shape, strides=strides,
        padding=padding, dilation=dilation, groups=groups, data_format=data_format,
    )  # fmt: skip


@lru_cache(_SHAPES)
def _input_gradient_for(
    shape: _Shape, kernel_shape: _Shape, input_shape: _Shape, strides: _Shape, padding: Padding,
    dilation: _Shape,
) -> _Ready | None:  # fmt: skip
    *window, channels, features = kernel_shape
    if _is_product(tuple(window), strides, padding):
        matrix = channels, features
        return lambda g, kernel: _native.matmul(plain(g), kernel.reshape(matrix).T)
    if any(s > 1 and d > 1 for s, d in zip(strides, dilation, strict=True)):
        return None
    sizes = input_shape[1:-1]
    if prod(strides) == 1:
        begins = (0,) * len(window)
        return _at_stride_for(shape, kernel_shape, sizes, begins, strides, padding, dilation)
    parts: list[tuple[tuple[slice, ...], tuple[slice, ...], _Ready]] = []
    covered = 0
    for positions in product(*map(range, strides)):
        # Inputs at these positions meet the taps at the same positions, and no others.
        taps = tuple(slice(p, None, s) for p, s in zip(positions, strides, strict=True))
        begins = tuple(
            (p - low) % s for p, s, (low, _) in zip(positions, strides, padding, strict=True)
        )
        inputs = tuple(slice(b, None, s) for b, s in zip(begins, strides, strict=True))
        widths, lengths = _lengths(taps, tuple(window)), _lengths(inputs, sizes)
        if prod(widths) and prod(lengths):
            part = _at_stride_for(
                shape, (*widths, channels, features), lengths, begins, strides, padding, dilation
            )
            parts.append((taps, (slice(None), *inputs), part))
            covered += prod(lengths)

    def gradient(g: Array, kernel: Array) -> Array | None:
        dx = empty(input_shape)
        if covered < prod(sizes):
            dx.fill(0)
        for taps, inputs, part in parts:
            found = part(g, kernel[taps])
            if found is None:
                return None
            dx[inputs] = found
        return dx

    return gradient


def _lengths(slices: Sequence[slice], sizes: _Shape) -> _Shape:
    """The shape of what slices take of an array with these sizes."""
    return tuple(len(range(*s.indices(size))) for s, size in zip(slices, sizes, strict=True))


def _at_stride_for(
    shape: _Shape, taps_shape: _Shape, sizes: _Shape, begins: _Shape, strides: _Shape,
    padding: Padding, dilation: _Shape,
) -> _Ready:  # fmt: skip
    """The gradient at every stride-th input from `begins` on: a convolution of g at stride 1."""
    *window, channels, features = taps_shape
    around, cuts = [], []
    for length, size, begin, width, stride, step, (low, _) in zip(
        shape[1:-1], sizes, begins, window, strides, dilation, padding, strict=True
    ):
        reach = step * (width - 1)
        # The first of these inputs lies under the first tap of this output, and of none before.
        first = (begin + low) // stride
        before, after = reach - first, first + size - length
        # Outputs that none of these inputs lies under are left out.
        cuts.append(slice(max(0, -before), length - max(0, -after)))
        around.append((max(0, before), max(0, after)))
    kept = shape[0], *_lengths(cuts, shape[1:-1]), shape[-1]
    if not prod(kept):
        results = shape[0], *sizes, channels
        return lambda g, taps: np.zeros(results, FLOAT32)
    flip = (slice(None, None, -1),) * len(window)
    conv = _conv_for(
        kept, (*window, features, channels), (1,) * len(window), tuple(around), dilation
    )
    if kept == shape:
        return lambda g, taps: conv(g, taps[flip].swapaxes(-1, -2))
    cut = (slice(None), *cuts)
    return lambda g, taps: conv(g[cut], taps[flip].swapaxes(-1, -2))


# ---------------------------------------------------------------------------------------------
# The gradient of the kernel.


def _conv_kernel_gradient(
    x: Array, g: Array, *, kernel_shape: _Shape, strides: _Shape, padding: Padding,
    dilation: _Shape, groups: int, data_format: str,
) -> Array:  # fmt: skip
    if _supports(x, g, groups, data_format) and 0 not in kernel_shape:
        ready = _kernel_gradient_for(x.shape, g.shape, kernel_shape, strides, padding, dilation)
        dkernel = ready(x, g)
        if dkernel is not None:
            return dkernel
    elif _moved(x, g, groups, data_format):
        return _conv_kernel_gradient(
            _last(x), _last(g), kernel_shape=kernel_shape, strides=strides, padding=padding,
            dilation=dilation, groups=1, data_format="channels_last",
        )  # fmt: skip
    elif 0 not in kernel_shape and _has_groups(x, g, x.shape[-1], groups, data_format):
        dkernel = depthwise.kernel_gradient(x, g, kernel_shape, strides, padding, dilation)
        if dkernel is not None:
            return dkernel
    return _by_numpy(
        "conv_kernel_gradient", x, g, kernel_shape=kernel_shape, strides=strides,
        padding=padding, dilation=dilation, groups=groups, data_format=data_format,
    )  # fmt: skip


@lru_cache(_SHAPES)
def _kernel_gradient_for(
    shape: _Shape, g_shape: _Shape, kernel_shape: _Shape, strides: _Shape, padding: Padding,
    dilation: _Shape,
) -> _Ready:  # fmt: skip
    *window, channels, features = kernel_shape
    if _is_product(tuple(window), strides, padding):

        def by_product(x: Array, g: Array) -> Array:
            left, right = plain(x).reshape(-1, channels), plain(g).reshape(-1, features)
            return _native.matmul(left.T, right).reshape(kernel_shape)

        return by_product
    blocks, cost, sizes = _plan(
        shape, g_shape[1:-1], tuple(window), features, strides, padding, dilation
    )
    parts = min(GRADIENT_PARTS, blocks)
    of_parts, cost = (parts, *kernel_shape), cost * blocks / parts

    def gradient(x: Array, g: Array) -> Array | None:
        sums = empty(of_parts)
        status = run(
            _KERNEL_GRADIENT, parts, 1, cost, sizes, x=plain(x), g=plain(g), sums=sums, parts=parts
        )
        if needs_numpy(status, _ROOM):
            return None
        total: Array = sums[0]
        for part in sums[1:]:
            total += part
        return total

    return gradient


# ---------------------------------------------------------------------------------------------
# Kernels that are ready for the shapes of a program: without the tests, and the look-up by shapes.


def _ready_kernel(kernel: Kernel, ready: _Ready | None) -> Kernel | None:
    """A kernel that does what `ready` does, and calls `kernel` where that returns None."""
    if ready is None:
        return None

    def prepared(x: Array, other: Array, **attributes: Any) -> Array:
        found = ready(x, other)
        return kernel(x, other, **attributes) if found is None else found

    return prepared


def _takes(kinds: Sequence[Kind], attributes: Mapping[str, Any], *more: _Shape) -> bool:
    """Returns whether the loops take arrays of these kinds."""
    return (
        attributes["data_format"] == "channels_last"
        and attributes["groups"] == 1
        and len(kinds[0].shape) <= 4
        and all(kind.dtype == FLOAT32 for kind in kinds)
        and all(prod(shape) for shape in (*(kind.shape for kind in kinds), *more))
    )


def _geometry(attributes: Mapping[str, Any]) -> tuple[_Shape, Padding, _Shape]:
    return attributes["strides"], attributes["padding"], attributes["dilation"]


@prepares(_conv)
def _prepare_conv(kinds: Sequence[Kind], attributes: Mapping[str, Any]) -> Kernel | None:
    if not _takes(kinds, attributes):
        return None
    x, kernel = (kind.shape for kind in kinds)
    return _ready_kernel(_conv, _conv_for(x, kernel, *_geometry(attributes)))


def by_strips(kinds: Sequence[Kind], attributes: Mapping[str, Any]) -> tuple[Kernel, int] | None:
    """The kernel of a convolution by strips of its kernel, which come first, and its pixels.

    None if the loops do not take arrays of these kinds.
    """
    if not _takes(kinds, attributes):
        return None
    x, kernel = (kind.shape for kind in kinds)
    strides, padding, dilation = _geometry(attributes)
    conv = _conv_for(x, kernel, strides, padding, dilation)

    def kept(strips: Array, x: Array, kernel: Array, **attributes: Any) -> Array:
        y = conv(x, kernel, strips)
        return _conv(x, kernel, **attributes) if y is None else y

    return kept, x[0] * prod(output_sizes(x[1:-1], kernel[:-2], strides, padding, dilation))


@prepares(_conv_input_gradient)
def _prepare_input_gradient(kinds: Sequence[Kind], attributes: Mapping[str, Any]) -> Kernel | None:
    shape = attributes["input_shape"]
    if not _takes(kinds, attributes, shape):
        return None
    g, kernel = (kind.shape for kind in kinds)
    ready = _input_gradient_for(g, kernel, shape, *_geometry(attributes))
    return _ready_kernel(_conv_input_gradient, ready)


@prepares(_conv_kernel_gradient)
def _prepare_kernel_gradient(kinds: Sequence[Kind], attributes: Mapping[str, Any]) -> Kernel | None:
    shape = attributes["kernel_shape"]
    if not _takes(kinds, attributes, shape):
        return None
    x, g = (kind.shape for kind in kinds)
    ready = _kernel_gradient_for(x, g, shape, *_geometry(attributes))
    return _ready_kernel(_conv_kernel_gradient, ready)


KERNELS: dict[str, Kernel] = {
    "conv": _conv,
    "conv_input_gradient": _conv_input_gradient,
    "conv_kernel_gradient": _conv_kernel_gradient,
}
