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
    shape: Sequence[int], window: Sizes, strides: Sizes | None = None, padding: Padding = "valid",
    dilation: Sizes = 1, ceil_mode: bool = False,
) -> tuple[tuple[int, ...], list[tuple[Any, list[Any]]]]:  # fmt: skip
    """The sizes of the result, and for each of its places those of its window, row-major.

    A place of a window that is outside the image is None, and False behind its padding.
    """
    spatial = shape[1:-1]
    count = len(spatial)
    window, dilation = tuple_of(window, count), tuple_of(dilation, count)
    strides = tuple_of(window if strides is None else strides, count)
    pads = pads_of(padding, spatial, window, strides, dilation)
    starts = []
    for n, w, s, d, (low, high) in zip(spatial, window, strides, dilation, pads, strict=True):
        reach = d * (w - 1) + 1
        along = [*range(-low, n + high - reach + 1, s)]
        following = along[-1] + s if along else -low
        # One more, for what is left over, if it begins before the padding behind.
        if ceil_mode and following < n and following + reach - s < n + high:
            along.append(following)
        starts.append(along)

    def inside(cell: tuple[int, ...]) -> tuple[int, ...] | bool | None:
        if all(0 <= c < n for c, n in zip(cell, spatial, strict=True)):
            return cell
        beyond = any(c >= n + high for c, n, (_, high) in zip(cell, spatial, pads, strict=True))
        return False if beyond else None

    out = tuple(map(len, starts))
    found = []
    for place, start in zip(np.ndindex(*out), product(*starts), strict=True):
        taps = product(
            *(
                range(first, first + w * d, d)
                for first, w, d in zip(start, window, dilation, strict=True)
            )
        )
        found.append((place, [inside(cell) for cell in taps]))
    return out, found


def _result(x: Array, **how: Any) -> tuple[Array, list[tuple[Any, list[Any]]]]:
    """Zeros of the result's shape, and the windows of its places."""
    out, windows = _windows(x.shape, **how)
    return np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype), windows


def _count(cells: list[Any], count_include_pad: bool) -> int:
    inside = [cell for cell in cells if cell or (count_include_pad and cell is None)]
    return max(len(inside), 1)


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
    ((1, 7, 8, 2), {"window": 2, "dilation": (2, 3), "strides": (1, 2)}),
    (
        (1, 2, 6, 5),
        {"window": (2, 3), "dilation": 2, "padding": 1, "data_format": "channels_first"},
    ),
    ((2, 9, 2), {"window": 2, "strides": 5, "dilation": 3, "padding": "same"}),
    ((1, 6, 5, 2), {"window": 3, "strides": 2, "ceil_mode": True}),
    ((1, 4, 6, 2), {"window": 2, "strides": (3, 4), "padding": 1, "ceil_mode": True}),
    ((1, 8, 2), {"window": 2, "dilation": 2, "strides": 3, "padding": 1, "ceil_mode": True}),
    ((1, 2, 2), {"window": 3, "ceil_mode": True}),
    ((1, 3, 3, 1), {"window": 2}),  # as many as count and width add up to
)
_COUNTED: Any = {"window": 3, "strides": 2, "padding": "same", "count_include_pad": True}
#: The last windows reach behind the padding, where nothing is counted.
_CEILED: Any = {
    "window": (3, 2), "strides": (3, 2), "padding": ((1, 0), (1, 1)), "ceil_mode": True,
    "count_include_pad": True,
}  # fmt: skip
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


def _with_indices(x: Array, *, data_format: str = "channels_last", **how: Any) -> Any:
    images = to_last(x, data_format)
    y, windows = _result(images, **how)
    indices = np.zeros(y.shape, np.int64)
    for place, cells in windows:
        inside = [cell for cell in cells if cell]
        values = np.stack([images[:, *cell] for cell in inside])
        flat = np.array([np.ravel_multi_index(cell, images.shape[1:-1]) for cell in inside])
        y[:, *place] = values.max(axis=0)
        indices[:, *place] = flat[values.argmax(axis=0)]
    return from_last(y, data_format), from_last(indices, data_format)


suite("max_pool_with_indices", _with_indices, either_zero=True, items=("x",))(
    *(call(distinct(*shape, seed=i), **how) for i, (shape, how) in enumerate(_CASES)),
    call(integers(-9, 9, 1, 5, 5, 2), window=3, padding="same", note="integers"),
    rough(distinct(1, 258, 1), window=(257,), strides=1, note="more positions than bytes tell"),
    rough(
        np.array([1.0, np.nan, -np.inf, np.inf, -np.inf, -np.inf]).reshape(1, 6, 1),
        window=2,
        note="infinities and NaN",
    ),
    rough(
        np.full((1, 4, 5, 2), -np.inf), window=3, padding=1, strides=1, note="all as the padding"
    ),
    rough(np.full((1, 5, 1), -np.inf), window=3, padding=2, dilation=2, strides=1),
    *_ERRORS,
)


def _unpool(x: Array, indices: Array, *, size: Any, data_format: str = "channels_last") -> Array:
    values, places = to_last(x, data_format), to_last(indices, data_format)
    size = tuple_of(size, values.ndim - 2)
    y: Array = np.zeros((values.shape[0], int(np.prod(size)), values.shape[-1]), x.dtype)
    images, *_, channels = np.indices(values.shape, sparse=True)
    y[images, places, channels] = values
    return from_last(y.reshape(values.shape[0], *size, values.shape[-1]), data_format)


def _distinct_places(size: int, *shape: int) -> Array:
    """Other places for each element of an image's channel."""
    places = np.zeros((shape[0], shape[-1], int(np.prod(shape[1:-1]))), np.int64)
    rng = np.random.default_rng(size)
    for spot in np.ndindex(places.shape[:2]):
        places[spot] = rng.permutation(size)[: places.shape[-1]]
    return np.moveaxis(places, 1, -1).reshape(shape)


_NO_PLACES = {"shared": "indices are places", "equal": "an index that repeats has one value"}
suite("max_unpool", _unpool, items=("x", "indices"), without=_NO_PLACES)(
    call(normal(2, 2, 3, 2), _distinct_places(20, 2, 2, 3, 2), size=(4, 5)),
    call(normal(1, 3, 3), _distinct_places(7, 1, 3, 3), size=7),
    call(
        normal(1, 2, 2, 2),
        np.moveaxis(_distinct_places(9, 1, 2, 2, 2), -1, 1),
        size=3,
        data_format="channels_first",
    ),
    call(
        normal(1, 2, 1, 2, 1), _distinct_places(8, 1, 2, 1, 2, 1) - 8, size=2, note="from the end"
    ),
    call(normal(0, 2, 1), np.zeros((0, 2, 1), np.int64), size=3, note="no images"),
    call(integers(-5, 5, 1, 2, 1), _distinct_places(5, 1, 2, 1), size=5, note="integers"),
    wrong(errors.ShapeError, normal(1, 2, 1), np.zeros((1, 2), np.int64), size=4),
    wrong(errors.ShapeError, normal(1, 2, 1), np.zeros((1, 2, 1), np.int64), size=(4, 4)),
    wrong(errors.IndexingError, normal(1, 2, 1), np.full((1, 2, 1), 4), size=4),
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
    call(normal(1, 4, 6, 2), **_CEILED),
    *_ERRORS,
)
suite("avg_pool_gradient", _avg_pool_gradient, items=("g",))(
    *(
        call(normal(*_out(shape, how), seed=i), input_shape=shape, **how)
        for i, (shape, how) in enumerate(_CASES)
    ),
    call(normal(1, 3, 3, 2), input_shape=(1, 5, 5, 2), **_COUNTED),
    call(normal(1, 2, 4, 2), input_shape=(1, 4, 6, 2), **_CEILED),
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
