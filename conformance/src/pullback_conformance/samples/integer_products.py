"""Samples of products of small integers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import normal
from pullback_conformance.sample import call, suite, wrong
from pullback_conformance.samples.convolution import from_last, pads_of, to_last, tuple_of

Array: TypeAlias = Any


def _draw(dtype: str, *shape: int, seed: int = 0) -> Array:
    """Integers of a dtype, its smallest and largest ones among them."""
    limits = np.iinfo(dtype)
    found = np.random.default_rng(seed).integers(limits.min, limits.max, shape, endpoint=True)
    if found.size:
        found.flat[0], found.flat[-1] = limits.min, limits.max
    return found.astype(dtype)


def _wrapped(y: Array) -> Array:
    return y.astype(np.int64).astype(np.int32)


def _matmul(x1: Array, x2: Array) -> Array:
    return _wrapped(np.asarray(x1.astype(object) @ x2.astype(object)))


_PLAIN = {"shared": "dtypes of inputs differ", "equal": "sums wrap around"}
_PAIRS = (("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8"), ("int16", "int8"))
suite("integer_matmul", _matmul, without=_PLAIN)(
    *(call(_draw(a, 3, 5), _draw(b, 5, 4, seed=1)) for a, b in _PAIRS),
    *(
        call(np.full((2, n), np.iinfo(a).max, a), np.full((n, 2), np.iinfo(b).max, b), note="long")
        for a, b in _PAIRS
        for n in (256, 1030)
    ),
    call(np.full((1, 1025), -128, np.int8), np.full((1025, 1), -128, np.int8), note="the least"),
    call(_draw("int16", 2, 9), _draw("int16", 9, 3, seed=1), note="sums that wrap around"),
    call(_draw("int8", 2, 1, 3, 4), _draw("uint8", 3, 4, 2, seed=1), note="stacks"),
    call(_draw("int8", 4), _draw("int8", 4, seed=1), note="vectors"),
    call(_draw("int8", 3, 4), _draw("int8", 4, seed=1), note="a vector"),
    call(_draw("int8", 3, 0), _draw("int8", 0, 2), note="no terms"),
    call(_draw("int8", 0, 3), _draw("int8", 3, 2), note="no rows"),
    wrong(errors.ShapeError, _draw("int8", 3, 4), _draw("int8", 3, 4)),
    wrong(errors.DTypeError, normal(2, 2), normal(2, 2)),
    wrong(errors.DTypeError, np.ones((2, 2), np.int32), np.ones((2, 2), np.int32)),
)


def _conv(
    x: Array, kernel: Array, *, strides: Any = 1, padding: Any = "valid", dilation: Any = 1,
    groups: int = 1, data_format: str = "channels_last",
) -> Array:  # fmt: skip
    images, weights = to_last(x, data_format).astype(np.int64), kernel.astype(np.int64)
    window, filters = kernel.shape[:-2], kernel.shape[-1]
    count = len(window)
    strides, dilation = tuple_of(strides, count), tuple_of(dilation, count)
    pads = pads_of(padding, images.shape[1:-1], window, strides, dilation)
    images = np.pad(images, ((0, 0), *pads, (0, 0)))
    out = [
        max(0, (n - d * (w - 1) - 1) // s + 1)
        for n, w, s, d in zip(images.shape[1:-1], window, strides, dilation, strict=True)
    ]
    y = np.zeros((len(x), *out, filters), np.int64)
    width, each = kernel.shape[-2], filters // groups
    for spot in np.ndindex(*out):
        for tap in np.ndindex(*window):
            at = [i * s + t * d for i, s, t, d in zip(spot, strides, tap, dilation, strict=True)]
            for g in range(groups):
                part = images[:, *at, g * width : (g + 1) * width]
                y[:, *spot, g * each : (g + 1) * each] += (
                    part @ weights[*tap][:, g * each : (g + 1) * each]
                )
    return from_last(_wrapped(y), data_format)


suite("integer_conv", _conv, items=("x",), without=_PLAIN)(
    *(call(_draw(a, 2, 6, 3), _draw(b, 3, 3, 2, seed=1)) for a, b in _PAIRS),
    call(_draw("int8", 1, 5, 6, 2), _draw("int8", 3, 2, 2, 3, seed=1), padding="same", strides=2),
    call(_draw("uint8", 1, 6, 5, 4), _draw("int8", 2, 2, 2, 6, seed=1), groups=2, dilation=2),
    call(
        _draw("int8", 1, 2, 4, 5), _draw("int8", 2, 2, 2, 3, seed=1), data_format="channels_first"
    ),
    call(_draw("int16", 1, 5, 2), _draw("int16", 2, 2, 2, seed=1), note="sums that wrap around"),
    call(_draw("int8", 0, 4, 2), _draw("int8", 2, 2, 2), note="no images"),
    wrong(errors.ShapeError, _draw("int8", 1, 4, 3), _draw("int8", 2, 2, 2)),
    wrong(errors.DTypeError, normal(1, 4, 2), normal(2, 2, 2)),
)
