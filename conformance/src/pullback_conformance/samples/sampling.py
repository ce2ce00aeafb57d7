"""Samples of resampling and of interpolation at any coordinates."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, integers, normal, uniform
from pullback_conformance.sample import call, rough, suite, wrong
from pullback_conformance.samples.convolution import from_last, to_last, tuple_of

Array: TypeAlias = Any

# Resampling: pixel by pixel, from the definition of the filters. ---------------------------------

_RADII = {"bilinear": 1, "bicubic": 2, "lanczos3": 3, "lanczos5": 5}


def _filter(x: float, method: str, a: float) -> float:
    x = abs(x)
    if x >= _RADII[method]:
        return 0.0
    if method == "bilinear":
        return 1 - x
    if method == "bicubic":
        powers = (x**3, x**2, x, 1)
        terms = (a + 2, -a - 3, 0, 1) if x < 1 else (a, -5 * a, 8 * a, -4 * a)
        return sum(c * p for c, p in zip(terms, powers, strict=True))
    return float(np.sinc(x) * np.sinc(x / _RADII[method]))


def _place(i: int, old: int, new: int, coordinates: str, scale: Any, box: Any) -> Any:
    """The place of pixel i of the result, by the formulas of ONNX's Resize, as a fraction."""
    scale, half = Fraction(scale).limit_denominator(10**6), Fraction(1, 2)
    wide = scale * old
    if coordinates == "half_pixel_or_first" and new == 1:
        return Fraction(0)
    if coordinates == "crop":
        start, end = map(Fraction, box)
        step = (end - start) * (old - 1) / (wide - 1) if new > 1 else 0
        return start * (old - 1) + i * step if new > 1 else (start + end) / 2 * (old - 1)
    place = {
        "half_pixel": (i + half) / scale - half,
        "half_pixel_or_first": (i + half) / scale - half,
        "half_pixel_symmetric": old * half * (1 - new / wide) + (i + half) / scale - half,
        "align_corners": i * (old - 1) / (wide - 1) if new > 1 else Fraction(0),
        "asymmetric": i / scale,
    }
    return place[coordinates]


def _matrix(
    old: int, new: int, *, method: str, antialias: bool, coordinates: str, rounding: str,
    cubic: float, exclude_outside: bool, scale: Any, box: Any,
) -> tuple[Array, Array]:  # fmt: skip
    """The weight of each pixel in each pixel of the result, (old, new), and which are outside."""
    weights, outside = np.zeros((old, new)), np.zeros(new, bool)
    for i in range(new):
        place = _place(i, old, new, coordinates, scale, box)
        if coordinates == "crop" and not 0 <= place <= old - 1:
            outside[i] = True
            continue
        if method == "nearest":
            near = {
                "down": math.floor(place),
                "up": math.ceil(place),
                "half_up": math.floor(place + Fraction(1, 2)),
                "half_down": math.ceil(place - Fraction(1, 2)),
            }[rounding]
            weights[int(np.clip(near, 0, old - 1)), i] = 1
            continue
        # Beyond the edge lies the edge.
        edge = 0 if coordinates == "crop" else Fraction(1, 2) if exclude_outside else 1
        place = min(max(place, -edge), old - 1 + edge)
        wide = max(1 / float(scale), 1) if antialias else 1
        for pixel in range(-6 * old - 6, 7 * old + 6):
            if 0 <= pixel < old or not exclude_outside:
                at = min(max(pixel, 0), old - 1)
                weights[at, i] += _filter(float(place - pixel) / wide, method, cubic)
        weights[:, i] /= weights[:, i].sum()
    return weights, outside


def _resample(
    x: Array, *, size: Any = None, method: str = "bicubic", antialias: bool = False,
    coordinates: str = "half_pixel", rounding: str = "half_up", cubic: float = -0.5,
    exclude_outside: bool = True, scale: Any = None, aspect: str = "stretch", box: Any = None,
    fill_value: float = 0.0, data_format: str = "channels_last", terms: bool = False,
) -> Array:  # fmt: skip
    y = to_last(x, data_format)
    spatial = y.shape[1:-1]
    count = len(spatial)
    if scale is not None:
        scale = tuple_of(scale, count)
    if size is None:
        size = tuple(int(n * s) for n, s in zip(spatial, scale, strict=True))
    size = tuple_of(size, count)
    if aspect != "stretch":
        ratios = [Fraction(m, n) for m, n in zip(size, spatial, strict=True)]
        one = min(ratios) if aspect == "not_larger" else max(ratios)
        size, scale = tuple(math.floor(one * n + Fraction(1, 2)) for n in spatial), (one,) * count
    for axis, new in enumerate(size, 1):
        old = y.shape[axis]
        weights, outside = _matrix(
            old, new, method=method, antialias=antialias, coordinates=coordinates,
            rounding=rounding, cubic=cubic, exclude_outside=exclude_outside,
            scale=Fraction(new, old) if scale is None else scale[axis - 1],
            box=None if box is None else box[axis - 1],
        )  # fmt: skip
        weights = np.abs(weights) if terms else weights
        y = np.moveaxis(np.tensordot(y, weights.astype(y.dtype), ((axis,), (0,))), -1, axis)
        if outside.any():
            shape = (new, *[1] * (y.ndim - 1 - axis))
            y = np.where(outside.reshape(shape), abs(fill_value) if terms else fill_value, y)
    return from_last(y, data_format)


_FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"antialias": True},
    {"cubic": -0.75, "exclude_outside": False},
    {"method": "bilinear", "antialias": True},
    {"method": "bilinear", "coordinates": "align_corners"},
    {"method": "lanczos3"},
    {"method": "lanczos5", "antialias": True},
    {"coordinates": "asymmetric", "exclude_outside": False},
)
_NEAREST = (
    *product(("half_pixel", "asymmetric", "align_corners"), ("half_up", "half_down")),
    ("asymmetric", "down"),
    ("half_pixel", "up"),
)


def _resample_size(x: Array, **how: Any) -> Array:
    """A place is rounded by its size, and filters are steep between pixels."""
    near = _resample(np.abs(x), terms=True, **how)
    if how.get("method") == "nearest":
        return near
    return near + np.max(np.abs(x), initial=0) * max(x.shape[1:], default=1)


#: The rules that ONNX has beside the three of most libraries.
_RULES = ("half_pixel_or_first", "half_pixel_symmetric")
suite(
    "resample",
    _resample,
    scale=_resample_size,
    without={"exceptional": "a weight of 0 may meet a NaN"},
)(
    *(call(normal(2, 5, 3), size=8, **how) for how in _FILTERS),
    *(call(normal(1, 6, 4, 2), size=(4, 3), **how) for how in _FILTERS),
    *(
        call(normal(1, 4, 6, 2), size=(6, 4), method="nearest", coordinates=rule, rounding=way)
        for rule, way in _NEAREST
    ),
    call(normal(1, 2, 3, 4), size=5, data_format="channels_first"),
    *(
        call(normal(1, 5, 4, 2), scale=(0.7, 1.6), method=method, coordinates=rule, antialias=soft)
        for method, soft in (("nearest", False), ("bilinear", False), ("bicubic", True))
        for rule in (*_RULES, "half_pixel", "asymmetric", "align_corners")
    ),
    *(
        call(normal(1, 5, 4, 2), size=(1, 6), method="bilinear", coordinates=rule)
        for rule in _RULES
    ),
    call(normal(1, 5, 4, 2), size=6, scale=1.3, exclude_outside=False, note="another scale"),
    call(normal(1, 4, 6, 2), size=(3, 7), aspect="not_larger", method="bilinear"),
    call(normal(1, 4, 6, 2), size=(3, 7), aspect="not_smaller", method="nearest"),
    *(
        call(
            normal(1, 5, 4, 2),
            size=size,
            coordinates="crop",
            box=((0.2, 0.7), (-0.4, 1.3)),
            fill_value=2.5,
            method=method,
            exclude_outside=exclude,
        )
        for size, method, exclude in (
            ((3, 7), "bilinear", True),
            ((1, 5), "nearest", False),
            (4, "bicubic", False),
        )
    ),
    call(normal(2, 1, 3), size=4, exclude_outside=False, note="one pixel"),
    call(normal(1, 3, 3, 2), size=3, note="the same size"),
    call(normal(1, 4, 2), size=1, coordinates="align_corners", note="to one pixel"),
    call(normal(0, 3, 2), size=2, note="empty"),
    call(integers(-5, 5, 1, 4, 2), size=6, note="integers"),
    wrong(errors.ShapeError, normal(4, 3), size=2),
    wrong(errors.ShapeError, normal(1, 4, 3), size=(2, 2)),
    wrong(errors.ShapeError, normal(1, 0, 3), size=2),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, method="cubic"),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, coordinates="corner"),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, rounding="even"),
    wrong(errors.InputValueError, normal(1, 4, 3)),
    wrong(errors.InputValueError, normal(1, 4, 3), scale=-1.0),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, coordinates="crop"),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, box=((0.0, 1.0),)),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, coordinates="crop", box=(0.0, 1.0)),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, aspect="larger"),
    wrong(errors.InputValueError, normal(1, 4, 3), size=2, scale=0.5, aspect="not_larger"),
)

# Interpolation: element by element. --------------------------------------------------------------


def _inside(index: int, size: int, mode: str) -> int | None:
    """The element that stands for one outside; None for the constant."""
    if 0 <= index < size:
        return index
    if mode == "constant":
        return None
    if mode == "nearest":
        return min(max(index, 0), size - 1)
    if mode == "wrap":
        return index % size
    line = [*range(size), *range(size - 1, -1, -1)]
    if mode == "mirror":
        line = [*range(size), *range(size - 2, 0, -1)]
    found: int = line[index % len(line)]
    return found


def _value(x: Array, place: Any, order: int, mode: str, fill: float, terms: bool) -> Array:
    total = 0 * x[(0,) * len(place)]
    if order == 0:
        place = [np.floor(p + 0.5) for p in place]
    for corner in product((0, 1), repeat=len(place)):
        weight, at = 1.0, []
        for side, p, size in zip(corner, place, x.shape, strict=False):
            low = np.floor(p)
            weight *= p - low if side else 1 - (p - low)
            at.append(None if np.isnan(p) else _inside(int(low) + side, size, mode))
        if weight:
            value = fill if None in at else x[tuple(at)]
            total = total + (abs(value) if terms else value) * weight
    return total


def _map(
    x: Array, coordinates: Array, *, order: int = 1, mode: str = "constant",
    fill_value: float = 0.0, batch_dims: int = 0, terms: bool = False,
) -> Array:  # fmt: skip
    batch, out = x.shape[:batch_dims], coordinates.shape[batch_dims + 1 :]
    rest = x.shape[batch_dims + coordinates.shape[batch_dims] :]
    y: Array = np.zeros((*batch, *out, *rest), x.dtype)
    for item in np.ndindex(batch):
        for spot in np.ndindex(out):
            place = coordinates[item][(slice(None), *spot)]
            y[(*item, *spot)] = _value(x[item], place, order, mode, fill_value, terms)
    return y


#: Places between elements: finite differences cross no kink.
_PLACES = integers(-9, 12, 2, 3, 4) + uniform(0.2, 0.4, 2, 3, 4)
suite(
    "map_coordinates",
    _map,
    scale=lambda x, coordinates, **how: (
        _map(x, coordinates, terms=True, **how)
        + np.max(np.abs(x), initial=1) * np.nanmax(np.abs(coordinates), initial=1)
    ),
    without=dict.fromkeys(
        ("exceptional", "large", "shared", "equal"), "coordinates are places in x"
    ),
)(
    *(
        call(normal(4, 5), _PLACES, mode=mode, order=order, fill_value=0.5)
        for mode in ("constant", "nearest", "wrap", "mirror", "reflect")
        for order in (0, 1)
    ),
    call(normal(5, 3), uniform(0.1, 3.9, 1, 6), note="rows"),
    call(normal(2, 4, 5, 3), _PLACES[None] * np.ones((2, 1, 1, 1)), batch_dims=1, mode="mirror"),
    call(normal(1, 4), _PLACES, mode="mirror", note="one element"),
    call(normal(4), np.zeros((1,)) + 1.3, note="one place"),
    call(normal(4), np.zeros((1, 0)), note="no places"),
    call(normal(2, 3, 5, 2), uniform(0.1, 3.9, 2, 3, 1, 4), batch_dims=2, note="two batches"),
    call(normal(0, 4, 2), np.zeros((0, 1, 3)), batch_dims=1, note="no items"),
    call(normal(4, 5, 0), np.zeros((1, 3)), note="no channels"),
    rough(normal(4), np.array([[0.0, 2.0, 3.0, -1.0, 2.5]]), note="on elements"),
    rough(normal(4), np.array([[np.nan, 1.5]]), mode="nearest", note="NaN"),
    wrong(errors.ShapeError, normal(4), np.zeros((2, 3))),
    wrong(errors.ShapeError, normal(0), np.zeros((1, 3))),
    wrong(errors.ShapeError, normal(2, 4), np.zeros((3, 1, 3)), batch_dims=1),
    wrong(errors.InputValueError, normal(4), np.zeros((1, 3)), order=3),
    wrong(errors.InputValueError, normal(4), np.zeros((1, 3)), mode="mirrored"),
)


def _grid_sample(
    x: Array, grid: Array, *, method: str = "bilinear", padding: str = "zeros",
    align_corners: bool = False, data_format: str = "channels_last", terms: bool = False,
) -> Array:  # fmt: skip
    images = to_last(x, data_format)
    sizes = np.array(images.shape[1:-1], grid.dtype)
    full = (grid[..., ::-1] + 1) / 2
    places = full * (sizes - 1) if align_corners else full * sizes - 0.5
    mode = {"zeros": "constant", "border": "nearest"}.get(
        padding, "mirror" if align_corners else "reflect"
    )
    if method == "nearest":
        places = np.round(places)
    y = _map(images, np.moveaxis(places, -1, 1), mode=mode, batch_dims=1, terms=terms)
    return from_last(y, data_format)


def _grid_terms(x: Array, grid: Array, **how: Any) -> Array:
    near = _grid_sample(x, grid, terms=True, **how)
    return near + np.max(np.abs(x), initial=1) * (1 + np.nanmax(np.abs(grid), initial=1)) * max(
        x.shape
    )


def _no_number(grid: Array) -> Array:
    """The grid with NaN in two places."""
    changed = np.array(grid)
    changed[0, 1, 0, 0] = changed[1, 0, 1] = np.nan
    return changed


_GRID = away(2, 3, 2, 2, by=0.05) * 0.7
suite(
    "grid_sample",
    _grid_sample,
    scale=_grid_terms,
    without=dict.fromkeys(("exceptional", "large", "shared", "equal"), "a grid has places in x"),
)(
    *(
        call(normal(2, 4, 5, 3), _GRID, method=method, padding=padding, align_corners=align)
        for method in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for align in (False, True)
    ),
    call(normal(2, 5, 3), _GRID[:, :, 0, :1], note="one dimension"),
    call(normal(1, 2, 3, 4, 2), normal(1, 2, 2, 1, 3) * 0.6, note="three dimensions"),
    call(normal(2, 3, 4, 5), _GRID, data_format="channels_first"),
    call(normal(2, 4, 4, 3), _GRID, note="square images"),
    call(normal(2, 3, 4, 4), _GRID, data_format="channels_first", note="square images"),
    *(
        rough(normal(2, 4, 5, 3), _no_number(_GRID), method=method, padding=padding, note="NaN")
        for method in ("bilinear", "nearest")
        for padding in ("zeros", "border", "reflection")
    ),
    call(normal(0, 4, 5, 3), np.zeros((0, 2, 2, 2)), note="empty"),
    wrong(errors.ShapeError, normal(2, 4, 5, 3), normal(2, 3, 2, 3)),
    wrong(errors.ShapeError, normal(2, 4, 5, 3), normal(1, 3, 2, 2)),
    wrong(errors.ShapeError, normal(2, 0, 5, 3), normal(2, 3, 2, 2)),
    wrong(errors.InputValueError, normal(2, 4, 5, 3), _GRID, method="bicubic"),
    wrong(errors.InputValueError, normal(2, 4, 5, 3), _GRID, padding="same"),
    wrong(errors.InputValueError, normal(2, 4, 5, 3), _GRID, data_format="NHWC"),
)


def _affine_grid(theta: Array, *, size: Any, align_corners: bool = False) -> Array:
    size = tuple_of(size, theta.shape[1])
    y: Array = np.zeros((len(theta), *size, len(size)), theta.dtype)
    for spot in np.ndindex(size):
        place = [
            (2 * i / max(n - 1, 1) - 1 if n > 1 else 0.0) if align_corners else (2 * i + 1) / n - 1
            for i, n in zip(spot, size, strict=True)
        ]
        y[:, *spot] = theta @ np.array([*reversed(place), 1.0])
    return y


def _rows(theta: Array, size: tuple[int, ...]) -> Array:
    """The sums of the absolute elements of the rows, at all places: those are from -1 to 1."""
    sums = np.abs(theta.astype(np.float64)).sum(-1)
    return np.broadcast_to(
        sums.reshape(len(theta), *[1] * len(size), -1), (len(theta), *size, len(size))
    )


suite(
    "affine_grid",
    _affine_grid,
    slow=True,
    scale=lambda theta, *, size, **_: _rows(theta, tuple_of(size, theta.shape[1])),
)(
    *(call(normal(2, 2, 3), size=(3, 4), align_corners=align) for align in (False, True)),
    *(call(normal(1, 3, 4), size=(2, 3, 4), align_corners=align) for align in (False, True)),
    call(normal(1, 3, 4), size=2),
    call(normal(1, 1, 2), size=1, align_corners=True, note="one pixel"),
    call(normal(0, 2, 3), size=2, note="empty"),
    wrong(errors.ShapeError, normal(2, 3), size=2),
    wrong(errors.ShapeError, normal(2, 2, 2), size=2),
    wrong(errors.ShapeError, normal(2, 2, 3), size=(2, 2, 2)),
)
