"""Convolution of few elements, all windows at once: without groups, or by channel.

The windows are a view of the image, which one copy lays out as a matrix (as in `pooling_few`).
`convolution` has what takes many elements.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from pullback.shapes import Pads
from pullback_numpy.pooling_few import plan_of
from pullback_numpy.typing import Array, Key, Sizes


class Plan(NamedTuple):
    """The places of the windows of images of one shape, channels last."""

    #: The shapes of the padded image, and of the result without its channels.
    padded: Sizes
    pixels: Sizes
    #: The image inside of its padding; None without padding.
    inner: tuple[slice, ...] | None
    #: The shape of all windows, (N, *out, *window, C), and their strides in elements.
    windows: Sizes
    steps: Sizes


@lru_cache(maxsize=256)
def plan_for(
    image: Sizes, window: Sizes, strides: Sizes, padding: Pads, dilation: Sizes
) -> Plan | None:
    """Returns the plan; None for many elements."""
    plan = plan_of(image, 1, window, strides, padding, dilation)
    if plan is None:
        return None
    rank = len(window)

    def moved(sizes: Sizes) -> Sizes:
        return (*sizes[rank:-1], *sizes[:rank], sizes[-1])

    return Plan(plan.padded, plan.shape[:-1], plan.inner, moved(plan.windows), moved(plan.steps))


def _view(padded: Array, plan: Plan) -> Array:
    size = padded.itemsize
    return np.ndarray(plan.windows, padded.dtype, padded, 0, [step * size for step in plan.steps])


def _matrix(x: Array, plan: Plan, channels: int) -> Array:
    """The windows as rows (pixels, taps * channels)."""
    if plan.inner is None:
        padded = np.ascontiguousarray(x)
    else:
        padded = np.zeros(plan.padded, x.dtype)
        padded[plan.inner] = x
    return _view(padded, plan).reshape(prod(plan.pixels), -1, channels)


def conv(x: Array, kernel: Array, plan: Plan, *, by_channel: bool) -> Array:
    """The convolution; `by_channel` if each channel is a group."""
    channels, features = x.shape[-1], kernel.shape[-1]
    rows = _matrix(x, plan, channels)
    shape = (*plan.pixels, features)
    if by_channel:
        taps = kernel.reshape(-1, features)
        by_tap: Array = np.add.reduce(rows * taps, 1)
        return by_tap.reshape(shape)
    y: Array = np.dot(rows.reshape(len(rows), -1), kernel.reshape(-1, features))
    return y.reshape(shape)


def kernel_gradient(x: Array, g: Array, shape: Sizes, plan: Plan, *, by_channel: bool) -> Array:
    """The gradient of the kernel."""
    channels, features = x.shape[-1], shape[-1]
    rows, by = _matrix(x, plan, channels), g.reshape(-1, features)
    if by_channel:
        by_tap: Array = np.add.reduce(rows * by[:, None], 0)
        return by_tap.reshape(shape)
    dkernel: Array = np.dot(rows.reshape(len(rows), -1).T, by)
    return dkernel.reshape(shape)


def input_gradient(g: Array, kernel: Array, plan: Plan, *, by_channel: bool) -> Array:
    """The gradient of the image: terms for each window, which are added where they come from."""
    features = kernel.shape[-1]
    by = g.reshape(-1, features)
    if by_channel:
        terms = by[:, None] * kernel.reshape(-1, features)
    else:
        terms = np.dot(by, kernel.reshape(-1, features).T)
    terms = terms.reshape(plan.windows)
    dx = np.zeros(plan.padded, g.dtype)
    windows = _view(dx, plan)
    count = len(plan.pixels)
    for position in product(*map(range, plan.windows[count:-1])):
        at: Key = ((slice(None),) * count) + position
        windows[at] += terms[at]
    return dx if plan.inner is None else np.ascontiguousarray(dx[plan.inner])
