"""Samples of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import distinct, integers, normal
from pullback_conformance.sample import call, rough, suite, wrong
from pullback_conformance.samples.convolution import (
    Padding,
    Sizes,
    from_last,
    pads_of,
    to_last,
    tuple_of,
)

Array: TypeAlias = Any


def _of_images(reference: Any) -> Any:
    """A reference for images with their channels last, for those of both formats."""

    def pool(*arrays: Array, data_format: str = "channels_last", **how: Any) -> Array:
        if "input_shape" in how:
            how["input_shape"] = to_last(np.empty(how["input_shape"]), data_format).shape
        return from_last(reference(*(to_last(x, data_format) for x in arrays), **how), data_format)

    return pool


def _windows(
    shape: Sequence[int], window: Sizes, strides: Sizes | None = None, padding: Padding = "valid"
) -> tuple[tuple[int, ...], list[tuple[Any, list[Any]]]]:
    """The sizes of the result, and for each of its places those of its window, row-major.

    A place of a window that is outside the image is None.
    """
    spatial = shape[1:-1]
    count = len(spatial)
    window = tuple_of(window, count)
    strides = tuple_of(window if strides is None else strides, count)
    pads = pads_of(padding, spatial, window, strides, (1,) * count)
    starts = [
        range(-low, n + high - w + 1, s)
        for n, w, s, (low, high) in zip(spatial, window, strides, pads, strict=True)
    ]

    def inside(cell: tuple[int, ...]) -> tuple[int, ...] | None:
        return cell if all(0 <= c < n for c, n in zip(cell, spatial, strict=True)) else None

    out = tuple(map(len, starts))
    found = []
    for place, start in zip(np.ndindex(*out), product(*starts), strict=True):
        taps = product(*(range(first, first + w) for first, w in zip(start, window, strict=True)))
        found.append((place, [inside(cell) for cell in taps]))
    return out, found


def _result(x: Array, **how: Any) -> tuple[Array, list[tuple[Any, list[Any]]]]:
    """Zeros of the result's shape, and the windows of its places."""
    out, windows = _windows(x.shape, **how)
    return np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype), windows


def _count(cells: list[Any], count_include_pad: bool) -> int:
    return len(cells) if count_include_pad else max(len(cells) - cells.count(None), 1)


@_of_images
def _max_pool(x: Array, **how: Any) -> Array:
    y, windows = _result(x, **how)
    for place, cells in windows:
        y[:, *place] = np.max([x[:, *cell] for cell in cells if cell], axis=0)
    return y


@_of_images
def _avg_pool(x: Array, *, count_include_pad: bool = False, **how: Any) -> Array:
    y, windows = _result(x, **how)
    for place, cells in windows:
        total = np.sum([x[:, *cell] for cell in cells if cell], axis=0)
        y[:, *place] = total / _count(cells, count_include_pad)
    return y


@_of_images
def _max_pool_gradient(g: Array, indices: Array, *, input_shape: Any, **how: Any) -> Array:
    dx = np.zeros(input_shape, g.dtype)
    for place, cells in _windows(dx.shape, **how)[1]:
        for image, channel in np.ndindex(g.shape[0], g.shape[-1]):
            if cell := cells[indices[image, *place, channel]]:
                dx[image, *cell, channel] += g[image, *place, channel]
    return dx


@_of_images
def _max_pool_gather(x: Array, indices: Array, **how: Any) -> Array:
    y = np.zeros(indices.shape, x.dtype)
    for place, cells in _windows(x.shape, **how)[1]:
        for image, channel in np.ndindex(x.shape[0], x.shape[-1]):
            if cell := cells[indices[image, *place, channel]]:
                y[image, *place, channel] = x[image, *cell, channel]
    return y


@_of_images
def _avg_pool_gradient(
    g: Array, *, input_shape: Any, count_include_pad: bool = False, **how: Any
) -> Array:
    dx = np.zeros(input_shape, g.dtype)
    for place, cells in _windows(dx.shape, **how)[1]:
        share = g[:, *place] / _count(cells, count_include_pad)
        for cell in filter(None, cells):
            dx[:, *cell] += share
    return dx


_CASES: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 6, 3), {"window": 2}),
    ((1, 5, 2), {"window": 3, "strides": 1, "padding": "same"}),
    ((2, 4, 6, 2), {"window": 2}),
    ((1, 5, 5, 3), {"window": 3, "strides": 2, "padding": "same"}),
    ((1, 5, 6, 1), {"window": (3, 2), "strides": (1, 2), "padding": ((1, 0), (1, 1))}),
    ((1, 6, 7, 2), {"window": 2, "strides": 3}),
    ((2, 9, 2), {"window": 2, "strides": 3}),
    ((1, 2, 4, 4), {"window": 2, "data_format": "channels_first"}),
    ((1, 2, 5, 4), {"window": 3, "strides": 2, "padding": 1, "data_format": "channels_first"}),
    ((1, 4, 3, 4, 2), {"window": (2, 3, 2)}),
    ((0, 4, 4, 2), {"window": 2}),
    ((1, 2, 2, 2), {"window": 3}),
)
_COUNTED: Any = {"window": 3, "strides": 2, "padding": "same", "count_include_pad": True}
_ERRORS = [
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


suite("max_pool", _max_pool, either_zero=True, items=("x",))(
    *(call(distinct(*shape, seed=i), **how) for i, (shape, how) in enumerate(_CASES)),
    call(integers(-9, 9, 1, 5, 5, 2), window=3, padding="same", note="integers"),
    rough(
        np.array([1.0, np.nan, -np.inf, np.inf, -np.inf, -np.inf]).reshape(1, 6, 1),
        window=2,
        note="infinities and NaN",
    ),
    *_ERRORS,
)
suite("max_pool_gradient", _max_pool_gradient, items=("g", "indices"))(
    *(
        call(normal(*_out(shape, how), seed=i), _indices(shape, how, i), input_shape=shape, **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    wrong(
        errors.ShapeError, normal(1, 2, 1), integers(0, 2, 1, 3, 1), input_shape=(1, 4, 1), window=2
    ),
)
suite("max_pool_gather", _max_pool_gather, items=("x", "indices"))(
    *(
        call(normal(*shape, seed=i), _indices(shape, how, i), **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    wrong(errors.ShapeError, normal(1, 4, 1), integers(0, 2, 1, 3, 1), window=2),
)
suite("avg_pool", _avg_pool, items=("x",))(
    *(call(normal(*shape, seed=i), **how) for i, (shape, how) in enumerate(_CASES)),
    call(normal(1, 5, 5, 2), **_COUNTED),
    *_ERRORS,
)
suite("avg_pool_gradient", _avg_pool_gradient, items=("g",))(
    *(
        call(normal(*_out(shape, how), seed=i), input_shape=shape, **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    call(normal(1, 3, 3, 2), input_shape=(1, 5, 5, 2), **_COUNTED),
    wrong(errors.ShapeError, normal(1, 3, 1), input_shape=(1, 4, 1), window=2),
)


def _adaptive(reduce: Any) -> Any:
    @_of_images
    def pool(x: Array, *, output_size: Any) -> Array:
        spatial = x.shape[1:-1]
        asked = zip(tuple_of(output_size, len(spatial)), spatial, strict=True)
        out = [n if o is None else o for o, n in asked]
        y: Array = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
        for place in np.ndindex(*out):
            cut = [
                slice(int(np.floor(i * n / o)), int(np.ceil((i + 1) * n / o)))
                for i, n, o in zip(place, spatial, out, strict=True)
            ]
            y[:, *place] = reduce(x[:, *cut], axis=tuple(range(1, x.ndim - 1)))
        return y

    return pool


_ADAPTIVE = (
    ((2, 5, 3), {"output_size": 2}),
    ((2, 6, 6, 2), {"output_size": 3}),
    ((1, 5, 7, 2), {"output_size": (3, 2)}),
    ((1, 2, 5, 4), {"output_size": (2, None), "data_format": "channels_first"}),
    ((1, 2, 3, 2), {"output_size": (4, 3)}),
    ((0, 4, 4, 2), {"output_size": 2}),
)
_WRONG = [
    wrong(errors.ShapeError, normal(4, 3), output_size=2),
    wrong(errors.ShapeError, normal(1, 4, 3), output_size=(2, 2)),
]
suite("adaptive_avg_pool", _adaptive(np.mean), items=("x",))(
    *(call(normal(*shape), **how) for shape, how in _ADAPTIVE), *_WRONG
)
suite("adaptive_max_pool", _adaptive(np.max), either_zero=True, items=("x",))(
    *(call(distinct(*shape), **how) for shape, how in _ADAPTIVE), *_WRONG
)
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


for _name, _reduce, _values in (("avg", np.mean, normal), ("max", np.max, distinct)):
    suite(f"global_{_name}_pool", _whole(_reduce), either_zero=_name == "max")(
        *(call(_values(*shape), **how) for shape, how in _WHOLE),
        wrong(errors.ShapeError, normal(4, 3)),
        wrong(errors.InputValueError, normal(1, 4, 3), data_format="wrong"),
    )
