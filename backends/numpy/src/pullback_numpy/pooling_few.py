"""Pooling of few elements, with channels last or first: all windows at once, in a few calls.

The windows are a view of the image with their positions as its first axes, which one copy puts one
after the other: a reduction over them is one loop over rows. `pooling` has what takes many.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from pullback.shapes import Pads, output_sizes
from pullback_numpy.typing import Array, Sizes

_add: Any = np.add.reduce
_maximum: Any = np.maximum.reduce

#: Elements in all windows up to which these functions take less time than loops over blocks.
_FEW = 16384
#: Elements of a window, up to which a sum that adds them one by one is within its accuracy.
_FEW_TAPS = 64


class Plan(NamedTuple):
    """The places of the windows of images of one shape."""

    #: The shapes of the padded image, and of the result.
    padded: Sizes
    shape: Sizes
    #: The image inside of its padding; None without padding.
    inner: tuple[slice, ...] | None
    #: The shape of all windows, their positions first, and their strides in elements.
    windows: Sizes
    steps: Sizes
    #: True if windows do not overlap; if they cover the image besides.
    apart: bool
    tiled: bool


@lru_cache(maxsize=256)
def plan_of(
    image: Sizes, first: int, window: Sizes, strides: Sizes, padding: Pads, dilation: Sizes = ()
) -> Plan | None:
    """Returns the plan for images whose spatial axes begin at `first`; None if they are many."""
    rank, taps = len(window), prod(window)
    spatial = image[first : first + rank]
    dilation = dilation or (1,) * rank
    out = output_sizes(spatial, window, strides, padding, dilation)
    shape = (*image[:first], *out, *image[first + rank :])
    if not 0 < prod(shape) * taps <= _FEW or taps > _FEW_TAPS:
        return None
    wide = tuple([size + sum(pair) for size, pair in zip(spatial, padding, strict=True)])
    padded = (*image[:first], *wide, *image[first + rank :])
    inner = None
    if any(map(any, padding)):
        inner = (slice(None),) * first + tuple(
            [slice(low, low + size) for size, (low, _) in zip(spatial, padding, strict=True)]
        )
    steps = tuple([prod(padded[axis + 1 :]) for axis in range(len(padded))])
    places = steps[first : first + rank]
    apart_by = tuple([step * far for step, far in zip(places, dilation, strict=True)])
    moves = tuple([step * stride for step, stride in zip(places, strides, strict=True)])
    apart = all(d * (w - 1) < s for w, s, d in zip(window, strides, dilation, strict=True))
    covered = tuple([count * width for count, width in zip(out, window, strict=True)])
    return Plan(
        padded,
        shape,
        inner,
        (*window, *shape),
        (*apart_by, *steps[:first], *moves, *steps[first + rank :]),
        apart,
        apart and covered == wide and window == strides,
    )


@lru_cache(maxsize=64)
def _places(windows: Sizes, steps: Sizes, rank: int) -> tuple[Array, Array]:
    """The place in a padded image of each window's first element, and how far on the others are."""

    def places(sizes: Sizes, steps: Sizes) -> Array:
        found = np.zeros(sizes, np.intp)
        for axis, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            along = np.arange(size) * step
            found += along.reshape((-1,) + (1,) * (len(sizes) - axis - 1))
        return found

    return places(windows[rank:], steps[rank:]), places(windows[:rank], steps[:rank]).ravel()


def _places_of(indices: Array, plan: Plan) -> Array:
    """The places of windows' elements in the padded image, by their positions in the windows."""
    rank = len(plan.windows) - len(plan.shape)
    starts, offsets = _places(plan.windows, plan.steps, rank)
    return starts + offsets[indices]


def _windows(x: Array, plan: Plan) -> Array:
    """A view of all windows of a padded image in C order."""
    size = x.itemsize
    return np.ndarray(plan.windows, x.dtype, x, 0, [step * size for step in plan.steps])


def _padded(x: Array, plan: Plan, fill: Any) -> Array:
    if plan.inner is None:
        return np.ascontiguousarray(x)
    wide = np.full(plan.padded, fill, x.dtype)
    wide[plan.inner] = x
    return wide


def max_pool(x: Array, plan: Plan, taps: int, least: Any) -> tuple[Array, Array]:
    """The maxima and their positions, as `pooling.max_pool` has them."""
    flat = _windows(_padded(x, plan, least), plan).reshape(taps, -1)
    # A NaN is the maximum, and the first maximum has the place.
    indices = flat.argmax(axis=0).astype(np.int32)
    return _maximum(flat, 0).reshape(plan.shape), indices.reshape(plan.shape)


def maxima(x: Array, plan: Plan, taps: int, least: Any) -> Array:
    """The maxima alone."""
    flat = _windows(_padded(x, plan, least), plan).reshape(taps, -1)
    y: Array = _maximum(flat, 0).reshape(plan.shape)
    return y


def max_pool_gradient(g: Array, indices: Array, plan: Plan) -> Array:
    """g where the maxima were, in the shape of the image."""
    at = _places_of(indices, plan).ravel()
    if plan.apart:
        dx = np.zeros(prod(plan.padded), g.dtype)
        dx[at] = g.ravel()
    else:
        dx = np.bincount(at, g.ravel(), prod(plan.padded)).astype(g.dtype, copy=False)
    return _inside(dx.reshape(plan.padded), plan)


def max_pool_gather(x: Array, indices: Array, plan: Plan) -> Array:
    """x at indices, 0 in the padding."""
    found: Array = _padded(x, plan, 0).ravel()[_places_of(indices, plan)]
    return found


def avg_pool(x: Array, plan: Plan, taps: int, counts: Any) -> Array:
    """The sum of each window divided by its count."""
    flat = _windows(_padded(x, plan, 0), plan).reshape(taps, -1)
    y: Array = _add(flat, 0).reshape(plan.shape)
    y /= counts
    return y


def avg_pool_gradient(even: Array, plan: Plan, window: Sizes) -> Array:
    """The gradient of the image, from that of each element of a window."""
    dx = (np.empty if plan.tiled else np.zeros)(plan.padded, even.dtype)
    windows = _windows(dx, plan)
    if plan.apart:
        windows[...] = even
    else:
        for position in product(*map(range, window)):
            windows[position] += even
    return _inside(dx, plan)


def _inside(dx: Array, plan: Plan) -> Array:
    return dx if plan.inner is None else np.ascontiguousarray(dx[plan.inner])
