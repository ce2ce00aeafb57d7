"""Samples of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback.conformance.sample import call, distinct, integers, normal, suite, wrong
from pullback.conformance.samples.convolution import (
    Padding,
    Sizes,
    from_last,
    pads_of,
    to_last,
    tuple_of,
)

Array: TypeAlias = Any


def _windows(
    shape: Sequence[int], window: Sizes, strides: Sizes | None, padding: Padding
) -> tuple[tuple[int, ...], list[tuple[tuple[int, ...], list[tuple[int, ...]]]]]:
    """The sizes of the result, and for each of its places those of its window, row-major."""
    spatial = shape[1:-1]
    count = len(spatial)
    window = tuple_of(window, count)
    strides = tuple_of(window if strides is None else strides, count)
    pads = pads_of(padding, spatial, window, strides, (1,) * count)
    out = tuple(
        max(0, (n + low + high - w) // s + 1)
        for n, w, s, (low, high) in zip(spatial, window, strides, pads, strict=True)
    )
    found = []
    for place in product(*map(range, out)):
        cells = [
            tuple(
                p * s + t - low for p, s, t, (low, _) in zip(place, strides, tap, pads, strict=True)
            )
            for tap in product(*map(range, window))
        ]
        found.append((place, cells))
    return out, found


def _inside(cell: tuple[int, ...], spatial: Sequence[int]) -> bool:
    return all(0 <= c < n for c, n in zip(cell, spatial, strict=True))


def _max_pool(
    x: Array,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: str = "channels_last",
) -> Array:
    x = to_last(x, data_format)
    out, places = _windows(x.shape, window, strides, padding)
    y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place, cells in places:
        real = [x[(slice(None), *cell)] for cell in cells if _inside(cell, x.shape[1:-1])]
        y[(slice(None), *place)] = np.max(real, axis=0)
    return from_last(y, data_format)


def _avg_pool(
    x: Array,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    count_include_pad: bool = False,
    data_format: str = "channels_last",
) -> Array:
    x = to_last(x, data_format)
    out, places = _windows(x.shape, window, strides, padding)
    y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place, cells in places:
        real = [x[(slice(None), *cell)] for cell in cells if _inside(cell, x.shape[1:-1])]
        count = len(cells) if count_include_pad else max(len(real), 1)
        y[(slice(None), *place)] = np.sum(real, axis=0) / count
    return from_last(y, data_format)


def _max_pool_gradient(
    g: Array,
    indices: Array,
    *,
    input_shape: Any,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: str = "channels_last",
) -> Array:
    g, indices = to_last(g, data_format), to_last(indices, data_format)
    dx = to_last(np.zeros(input_shape, g.dtype), data_format)
    _, places = _windows(dx.shape, window, strides, padding)
    for place, cells in places:
        for image, channel in product(range(g.shape[0]), range(g.shape[-1])):
            cell = cells[indices[(image, *place, channel)]]
            if _inside(cell, dx.shape[1:-1]):
                dx[(image, *cell, channel)] += g[(image, *place, channel)]
    return from_last(dx, data_format)


def _max_pool_gather(
    x: Array,
    indices: Array,
    *,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    data_format: str = "channels_last",
) -> Array:
    x, indices = to_last(x, data_format), to_last(indices, data_format)
    y = np.zeros(indices.shape, x.dtype)
    for place, cells in _windows(x.shape, window, strides, padding)[1]:
        for image, channel in product(range(x.shape[0]), range(x.shape[-1])):
            cell = cells[indices[(image, *place, channel)]]
            if _inside(cell, x.shape[1:-1]):
                y[(image, *place, channel)] = x[(image, *cell, channel)]
    return from_last(y, data_format)


def _avg_pool_gradient(
    g: Array,
    *,
    input_shape: Any,
    window: Sizes,
    strides: Sizes | None = None,
    padding: Padding = "valid",
    count_include_pad: bool = False,
    data_format: str = "channels_last",
) -> Array:
    g = to_last(g, data_format)
    dx = to_last(np.zeros(input_shape, g.dtype), data_format)
    for place, cells in _windows(dx.shape, window, strides, padding)[1]:
        real = [cell for cell in cells if _inside(cell, dx.shape[1:-1])]
        count = len(cells) if count_include_pad else max(len(real), 1)
        for cell in real:
            dx[(slice(None), *cell)] += g[(slice(None), *place)] / count
    return from_last(dx, data_format)


_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 6, 3), {"window": 2}),
    ((1, 5, 2), {"window": 3, "strides": 1, "padding": "same"}),
    ((2, 4, 6, 2), {"window": 2}),
    ((1, 5, 5, 3), {"window": 3, "strides": 2, "padding": "same"}),
    ((1, 5, 6, 1), {"window": (3, 2), "strides": (1, 2), "padding": ((1, 0), (1, 1))}),
    ((1, 6, 7, 2), {"window": 2, "strides": 3}),
    ((1, 2, 4, 4), {"window": 2, "data_format": "channels_first"}),
    ((1, 2, 5, 4), {"window": 3, "strides": 2, "padding": 1, "data_format": "channels_first"}),
    ((1, 4, 3, 4, 2), {"window": (2, 3, 2)}),
    ((0, 4, 4, 2), {"window": 2}),
    ((1, 2, 2, 2), {"window": 3}),
)
_ERRORS: Any = [
    wrong(errors.ShapeError, normal(4, 3), window=2),
    wrong(errors.ShapeError, normal(1, 4, 3), window=(2, 2)),
    wrong(errors.ShapeError, normal(1, 4, 3), window=0),
    wrong(errors.InputValueError, normal(1, 4, 3), window=2, padding="full"),
]


def _out(shape: Any, how: dict[str, Any]) -> tuple[int, ...]:
    return tuple(_avg_pool(np.zeros(shape), **how).shape)


def _indices(shape: Any, how: dict[str, Any], seed: int) -> Array:
    out = _out(shape, how)
    size = int(np.prod(tuple_of(how["window"], len(shape) - 2)))
    return integers(0, size, *out, seed=seed)


suite("max_pool", _max_pool, either_zero=True)(
    *(call(distinct(*shape, seed=i), **how) for i, (shape, how) in enumerate(_CASES)),
    call(integers(-9, 9, 1, 5, 5, 2), window=3, padding="same", note="integers"),
    call(
        np.array([1.0, np.nan, -np.inf, np.inf, -np.inf, -np.inf]).reshape(1, 6, 1),
        window=2,
        gradient=False,
        note="infinities and NaN",
    ),
    *_ERRORS,
)
suite("max_pool_gradient", _max_pool_gradient)(
    *(
        call(normal(*_out(shape, how), seed=i), _indices(shape, how, i), input_shape=shape, **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    wrong(
        errors.ShapeError, normal(1, 2, 1), integers(0, 2, 1, 3, 1), input_shape=(1, 4, 1), window=2
    ),
)
suite("max_pool_gather", _max_pool_gather)(
    *(
        call(normal(*shape, seed=i), _indices(shape, how, i), **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    wrong(errors.ShapeError, normal(1, 4, 1), integers(0, 2, 1, 3, 1), window=2),
)
suite("avg_pool", _avg_pool)(
    *(call(normal(*shape, seed=i), **how) for i, (shape, how) in enumerate(_CASES)),
    call(normal(1, 5, 5, 2), window=3, strides=2, padding="same", count_include_pad=True),
    *_ERRORS,
)
suite("avg_pool_gradient", _avg_pool_gradient)(
    *(
        call(normal(*_out(shape, how), seed=i), input_shape=shape, **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    call(
        normal(1, 3, 3, 2),
        input_shape=(1, 5, 5, 2),
        window=3,
        strides=2,
        padding="same",
        count_include_pad=True,
    ),
    wrong(errors.ShapeError, normal(1, 3, 1), input_shape=(1, 4, 1), window=2),
)


def _adaptive(x: Array, reduce: Any, output_size: Any, data_format: str) -> Array:
    x = to_last(x, data_format)
    spatial = x.shape[1:-1]
    out = [
        n if o is None else o
        for o, n in zip(tuple_of(output_size, len(spatial)), spatial, strict=True)
    ]
    y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place in product(*map(range, out)):
        cut = [
            slice(int(np.floor(i * n / o)), int(np.ceil((i + 1) * n / o)))
            for i, n, o in zip(place, spatial, out, strict=True)
        ]
        axes = tuple(range(1, x.ndim - 1))
        y[(slice(None), *place)] = reduce(x[(slice(None), *cut)], axis=axes)
    return from_last(y, data_format)


_ADAPTIVE = (
    ((2, 5, 3), {"output_size": 2}),
    ((2, 6, 6, 2), {"output_size": 3}),
    ((1, 5, 7, 2), {"output_size": (3, 2)}),
    ((1, 2, 5, 4), {"output_size": (2, None), "data_format": "channels_first"}),
    ((1, 2, 3, 2), {"output_size": (4, 3)}),
    ((0, 4, 4, 2), {"output_size": 2}),
)
_WRONG: Any = [
    wrong(errors.ShapeError, normal(4, 3), output_size=2),
    wrong(errors.ShapeError, normal(1, 4, 3), output_size=(2, 2)),
]
suite(
    "adaptive_avg_pool",
    lambda x, *, output_size, data_format="channels_last": _adaptive(
        x, np.mean, output_size, data_format
    ),
)(*(call(normal(*shape), **how) for shape, how in _ADAPTIVE), *_WRONG)
_WHOLE: Any = (
    ((2, 5, 3), {}),
    ((2, 3, 4, 2), {"keepdims": True}),
    ((1, 2, 3, 4, 2), {"data_format": "channels_first"}),
    ((2, 3, 4, 2), {"data_format": "channels_first", "keepdims": True}),
    ((0, 4, 4, 2), {}),
)


def _whole(reduce: Any) -> Any:
    def pool(x: Array, *, keepdims: bool = False, data_format: str = "channels_last") -> Any:
        first = 1 if data_format == "channels_last" else 2
        return reduce(x, axis=tuple(range(first, first + x.ndim - 2)), keepdims=keepdims)

    return pool


for _name, _reduce, _values in (
    ("global_avg_pool", np.mean, normal),
    ("global_max_pool", np.max, distinct),
):
    suite(_name, _whole(_reduce), either_zero=_name == "global_max_pool")(
        *(call(_values(*shape), **how) for shape, how in _WHOLE),
        wrong(errors.ShapeError, normal(4, 3)),
        wrong(errors.InputValueError, normal(1, 4, 3), data_format="wrong"),
    )
suite(
    "adaptive_max_pool",
    lambda x, *, output_size, data_format="channels_last": _adaptive(
        x, np.max, output_size, data_format
    ),
    either_zero=True,
)(*(call(distinct(*shape), **how) for shape, how in _ADAPTIVE), *_WRONG)
