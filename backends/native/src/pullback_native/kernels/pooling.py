"""Pooling over one or two spatial dimensions, channels last; the rest is NumPy's.

Of few elements it is `c/few_pooling.c`, which hands over what it does not do.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Unpack

import numpy as np

from pullback.plugins.records import Kernel, may_decline
from pullback.shapes import output_sizes, spatial_of
from pullback_native import _native
from pullback_native.kernels.declining import declining
from pullback_native.kernels.windows import Padding, windows
from pullback_native.loops import FLOAT32, LOOPS, Array, Sizes, empty, plain, run
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.kernels.pooling import with_pixels
from pullback_numpy.typing import PoolOptions

#: The loops take the channels of a pixel at once. Of fewer, and many pixels, NumPy's kernels take
#: a position in all windows at once, three to ten times as fast.
_FEW_CHANNELS, _MANY = 8, 4096
#: Up to so many elements channels that come first are moved to the end and back.
_FEW = 16384

_POOL, _GRADIENT, _MEAN = LOOPS["max_pool"], LOOPS["max_pool_gradient"], LOOPS["avg_pool"]
#: Larger windows are added in groups, by NumPy's kernel.
_MOST_TAPS = 256


@lru_cache(maxsize=256)
def _plan(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
    dilation: tuple[int, ...] = (),
) -> tuple[tuple[int, ...], Sizes, bool]:
    """The shape of the result, the sizes for the loops, and whether windows tile the image.

    They do where they cover it without gap or overlap.
    """
    out = output_sizes(shape[1:-1], window, strides, padding, (1,) * len(window))
    covered = tuple(size * width for size, width in zip(out, window, strict=True))
    tiled = covered == shape[1:-1] and window == strides and not any(map(any, padding))
    return (shape[0], *out, shape[-1]), windows(shape, out, window, strides, padding), tiled


def _is_flat(shape: tuple[int, ...]) -> bool:
    """Returns whether results of this shape have few channels, and many pixels."""
    return shape[-1] < _FEW_CHANNELS and prod(shape) > _MANY


def _channels_last(kernel: Kernel, x: Array, *indices: Array, **options: Any) -> Any:
    """Computes by a kernel for channels last with channels that come first."""
    rank = x.ndim
    last, back = (0, *range(2, rank), 1), (0, rank - 1, *range(1, rank - 1))
    if "input_shape" in options:
        options["input_shape"] = tuple([options["input_shape"][axis] for axis in last])
    inputs = [one.transpose(last) for one in (x, *indices)]
    found = kernel(*inputs, data_format="channels_last", **options)
    if isinstance(found, tuple):
        return tuple([one.transpose(back) for one in found])
    return found.transpose(back)


def _is_served(x: Array, options: PoolOptions) -> bool:
    """Returns whether there are loops for an array: they know no gaps in the windows."""
    dilation = options.get("dilation")
    is_dilated = dilation is not None and dilation.count(1) != len(dilation)
    return x.ndim <= 4 and x.dtype == FLOAT32 and not is_dilated


def _max_pool(
    x: Array, *, data_format: str, ceil_mode: bool = False, **options: Unpack[PoolOptions]
) -> tuple[Array, Array]:  # fmt: skip
    served = _is_served(x, options)
    if served and data_format != "channels_last" and x.size <= _FEW:
        moved: tuple[Array, Array] = _channels_last(_max_pool, x, **options)
        return moved
    if data_format != "channels_last" or not served:
        results: tuple[Array, Array] = NUMPY_KERNELS["max_pool"](
            x, data_format=data_format, **options
        )
        return results
    shape, sizes, _ = _plan(x.shape, **options)
    if _is_flat(shape):
        flat: tuple[Array, Array] = NUMPY_KERNELS["max_pool"](x, data_format=data_format, **options)
        return flat
    y, indices = empty(shape), np.empty(shape, np.int32)
    if y.size:
        columns = shape[-2] * shape[-1]
        taps = sizes["window_height"] * sizes["window_width"]
        run(_POOL, y.size // columns, 1 + 16384 // (columns * taps), 0.5 * columns * taps, sizes,
            x=plain(x), y=y, indices=indices)  # fmt: skip
    return y, indices


def _max_pool_gradient(
    g: Array, indices: Array, *, input_shape: tuple[int, ...], data_format: str,
    ceil_mode: bool = False, **options: Unpack[PoolOptions],
) -> Array:  # fmt: skip
    served = _is_served(g, options)
    if served and data_format != "channels_last" and prod(input_shape) <= _FEW:
        moved: Array = _channels_last(
            _max_pool_gradient, g, indices, input_shape=input_shape, **options
        )
        return moved
    if data_format != "channels_last" or not served:
        gradient: Array = NUMPY_KERNELS["max_pool_gradient"](
            g, indices, input_shape=input_shape, data_format=data_format, **options
        )
        return gradient
    _, sizes, tiled = _plan(input_shape, **options)
    apart = all(w <= s for w, s in zip(options["window"], options["strides"], strict=True))
    if apart and _is_flat(g.shape):
        flat: Array = NUMPY_KERNELS["max_pool_gradient"](
            g, indices, input_shape=input_shape, data_format=data_format, **options
        )
        return flat
    dx = empty(input_shape)
    if dx.size:
        run(_GRADIENT, input_shape[0], 1, 0.5 * dx[0].size, sizes,
            g=plain(g), indices=plain(indices), dx=dx,
            tiled=tiled)  # fmt: skip
    return dx


def _avg_pool(
    x: Array, *, data_format: str, count_include_pad: bool, ceil_mode: bool = False,
    **options: Unpack[PoolOptions],
) -> Any:  # fmt: skip
    if ceil_mode:
        return NotImplemented
    served = _is_served(x, options)
    if served and data_format != "channels_last" and x.size <= _FEW:
        return _channels_last(_avg_pool, x, count_include_pad=count_include_pad, **options)
    if data_format == "channels_last" and served:
        shape, sizes, _ = _plan(x.shape, **options)
        taps = prod(options["window"])
        # A window outside of the image has no mean but NumPy's.
        inside = all(
            low < width and high < width
            for (low, high), width in zip(options["padding"], options["window"], strict=True)
        )
        if inside and taps <= _MOST_TAPS and not _is_flat(shape) and x.size and prod(shape):
            y, columns = empty(shape), shape[-2] * shape[-1]
            run(_MEAN, y.size // columns, 1 + 16384 // (columns * taps), 0.2 * columns * taps,
                sizes, x=plain(x), y=y, counts_padding=count_include_pad)  # fmt: skip
            return y
    result: Array = NUMPY_KERNELS["avg_pool"](
        x, data_format=data_format, count_include_pad=count_include_pad, **options
    )
    return result


#: Elements of windows that tile an image, up to which they are pooled: a reduction takes larger.
_FEW_IN_TILES = 32


@lru_cache(maxsize=256)
def _adapted(shape: tuple[int, ...], output_size: Any, data_format: str) -> dict[str, Any] | None:
    """The options of pooling to these sizes; None if windows are not alike, or large tiles."""
    if len(shape) < 3 or data_format not in ("channels_last", "channels_first"):
        return None
    spatial = spatial_of(shape, data_format)
    sizes = output_size if isinstance(output_size, tuple) else (output_size,) * len(spatial)
    if len(sizes) != len(spatial) or any(n is not None and n < 1 for n in sizes):
        return None
    out = tuple([s if n is None else n for s, n in zip(spatial, sizes, strict=True)])
    rest = [s % n if n else 2 for s, n in zip(spatial, out, strict=True)]
    if any(s < n or one > 1 for s, n, one in zip(spatial, out, rest, strict=True)):
        return None
    if not any(rest) and prod(spatial) > _FEW_IN_TILES * prod(out):
        return None
    steps = tuple([s // n for s, n in zip(spatial, out, strict=True)])
    return {
        "window": tuple([step + one for step, one in zip(steps, rest, strict=True)]),
        "strides": steps,
        "padding": ((0, 0),) * len(steps),
        "dilation": (1,) * len(steps),
        "ceil_mode": False,
        "data_format": data_format,
    }


def _are_whole(sizes: Any) -> bool:
    """Returns whether sizes are integers: as keys, others may be equal to these."""
    if type(sizes) is not tuple:
        return type(sizes) is int
    return all(type(size) is int or size is None for size in sizes)


@may_decline
def _adaptive_avg_pool(x: Array, *, output_size: Any, data_format: str) -> Any:
    if not _are_whole(output_size):
        return NotImplemented
    options = _adapted(x.shape, output_size, data_format)
    if options is None:
        return NotImplemented
    return _native.avg_pool(x, count_include_pad=False, **options)


@may_decline
def _adaptive_max_pool(x: Array, *, output_size: Any, data_format: str) -> Any:
    if not _are_whole(output_size):
        return NotImplemented
    options = _adapted(x.shape, output_size, data_format)
    return NotImplemented if options is None else _native.max_pool(x, **options)[0]


#: What the compiled kernels hand calls over to, in place of NumPy's kernels.
FALLBACKS: dict[str, Kernel] = {
    "avg_pool": _avg_pool,
    "max_pool": _max_pool,
    "max_pool_gradient": _max_pool_gradient,
}
KERNELS: dict[str, Kernel] = {
    "adaptive_avg_pool": _adaptive_avg_pool,
    "adaptive_max_pool": _adaptive_max_pool,
    "avg_pool": declining("avg_pool"),
    "avg_pool_gradient": declining("avg_pool_gradient"),
    "max_pool_with_indices": with_pixels(_native.max_pool),
}
