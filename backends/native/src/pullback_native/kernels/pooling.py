"""Max pooling over one or two spatial dimensions, channels last; the rest is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.plugins.backend import Kernel
from pullback.shapes import output_sizes
from pullback_native.loops import FLOAT32, LOOPS, empty, plain, run
from pullback_numpy.kernels import KERNELS as NUMPYS

_POOL, _GRADIENT = LOOPS["max_pool"], LOOPS["max_pool_gradient"]


def _numbers(shape: Any, window: Any, strides: Any, padding: Any) -> tuple[Any, tuple[int, ...]]:
    """The shape of the result, and what the loops are told; a line is an image one pixel high."""
    out = output_sizes(shape[1:-1], window, strides, padding, (1,) * len(window))
    one = (1,) * (2 - len(window))
    before = tuple(low for low, _ in padding)
    numbers = (
        *(*one, *shape[1:-1], shape[-1], *one, *out, *one, *window, *one, *strides),
        *((0,) * len(one) + before),
    )
    return (shape[0], *out, shape[-1]), numbers


def _max_pool(x: Any, *, data_format: str, **how: Any) -> Any:
    if data_format != "channels_last" or x.ndim > 4 or x.dtype != FLOAT32:
        return NUMPYS["max_pool"](x, data_format=data_format, **how)
    shape, numbers = _numbers(x.shape, **how)
    y, indices = empty(shape), np.empty(shape, np.int32)
    if y.size:
        columns = shape[-2] * shape[-1]
        taps = numbers[5] * numbers[6]
        run(_POOL, y.size // columns, 1 + 16384 // (columns * taps), 0.5 * columns * taps,
            (plain(x), y, indices), numbers, ())  # fmt: skip
    return y, indices


def _max_pool_gradient(
    g: Any, indices: Any, *, input_shape: Any, data_format: str, **how: Any
) -> Any:
    if data_format != "channels_last" or g.ndim > 4 or g.dtype != FLOAT32:
        return NUMPYS["max_pool_gradient"](
            g, indices, input_shape=input_shape, data_format=data_format, **how
        )
    _, numbers = _numbers(input_shape, **how)
    tiled = numbers[0:2] == (numbers[3] * numbers[5], numbers[4] * numbers[6])
    tiled = tiled and numbers[5:7] == numbers[7:9] and not any(map(any, how["padding"]))
    dx = empty(input_shape)
    if dx.size:
        run(_GRADIENT, input_shape[0], 1, 0.5 * dx[0].size,
            (plain(g), plain(indices), dx), (*numbers, tiled), ())  # fmt: skip
    return dx


KERNELS: dict[str, Kernel] = {
    "max_pool": _max_pool,
    "max_pool_gradient": _max_pool_gradient,
}
