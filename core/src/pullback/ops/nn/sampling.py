"""Values between the elements of an array: resampling by filters, and interpolation anywhere."""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import from_any
from pullback._once import remembered
from pullback.dtypes import Operands, Resolution, bool_, real_floating
from pullback.ops.arithmetic import abs, clip, floor_divide, maximum, remainder
from pullback.ops.creation import arange
from pullback.ops.indexing import take
from pullback.ops.joining import concat, stack, unstack
from pullback.ops.linalg.linear_algebra import matmul, tensordot
from pullback.ops.manipulation import expand_dims, moveaxis, reshape
from pullback.ops.nn.resize import resized, sizes_of_images
from pullback.ops.nn.windows import (
    DataFormat,
    Sizes,
    channels_back,
    channels_last,
    check_format,
    sizes,
)
from pullback.ops.precision import narrowed, places_on, widened, widest
from pullback.ops.reductions import sum
from pullback.ops.rounding import floor, round
from pullback.ops.selection import where
from pullback.ops.trigonometric import sin
from pullback.shapes import Shape, channels_of, check_choice, image_shape, size_of, spatial_of
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["affine_grid", "grid_sample", "map_coordinates", "resample"]

Method: TypeAlias = Literal["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"]
Coordinates: TypeAlias = Literal[
    "half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "half_pixel_or_first",
    "crop",
]  # fmt: skip
Aspect: TypeAlias = Literal["stretch", "not_larger", "not_smaller"]
Rounding: TypeAlias = Literal["half_up", "half_down", "down", "up"]
Outside: TypeAlias = Literal["constant", "nearest", "wrap", "mirror", "reflect"]

_RADII = {"bilinear": 1, "bicubic": 2, "lanczos3": 3, "lanczos5": 5}


# Resampling -------------------------------------------------------------------------------------


@remembered
def _resampling(
    shapes: tuple[Shape, ...], *, size: Any, method: str, coordinates: str, rounding: str,
    scale: Any, aspect: str, box: Any, data_format: str, **rest: Any,
) -> dict[str, Any]:  # fmt: skip
    check_choice(method, "method", ("nearest", *_RADII))
    check_choice(coordinates, "coordinates", _COORDINATES)
    check_choice(rounding, "rounding", ("half_up", "half_down", "down", "up"))
    check_choice(aspect, "aspect", ("stretch", "not_larger", "not_smaller"))
    (x,) = shapes
    check_format(data_format)
    if size is None and scale is None:
        raise errors.InputValueError("resample needs a size or a scale")
    if scale is not None:
        scale = _factors(scale, len(x) - 2)
    if size is None:
        spatial = spatial_of(x, data_format)
        size = tuple(int(n * s) for n, s in zip(spatial, scale, strict=True))
    new = sizes_of_images(x, size, data_format)
    if aspect != "stretch":
        from fractions import Fraction  # takes long, and most programs need none

        if scale is not None:
            raise errors.InputValueError("aspect makes a scale of the size; leave out scale")
        spatial = spatial_of(x, data_format)
        choose = builtins.min if aspect == "not_larger" else builtins.max
        one = choose(Fraction(m, n) for m, n in zip(new, spatial, strict=True))
        new = tuple(builtins.max(1, math.floor(n * one + Fraction(1, 2))) for n in spatial)
        scale = (float(one),) * len(new)
    if (box is not None) != (coordinates == "crop"):
        raise errors.InputValueError('coordinates="crop" needs a box, and no other takes one')
    if box is not None:
        box = _pairs(box, len(new))
    how = {"method": method, "coordinates": coordinates, "rounding": rounding, "scale": scale}
    return {
        "size": new, **how, "aspect": "stretch", "box": box, "data_format": data_format, **rest,
    }  # fmt: skip


_COORDINATES = (
    *("half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "half_pixel_or_first"),
    "crop",
)


def _factors(scale: Any, count: int) -> tuple[float, ...]:
    given = scale if isinstance(scale, (tuple, list)) else (scale,) * count
    found = tuple(as_float(one, "scale") for one in given)
    if len(found) != count or not all(0 < one < math.inf for one in found):
        raise errors.InputValueError(
            f"scale must be positive, one number or one for each of {count} spatial dimensions, "
            f"got {scale!r}"
        )
    return found


def _pairs(box: Any, count: int) -> tuple[tuple[float, float], ...]:
    try:
        found = tuple((as_float(a, "box"), as_float(b, "box")) for a, b in box)
    except (TypeError, ValueError):
        found = ()
    if len(found) != count:
        raise errors.InputValueError(
            f"box must have a pair (start, end) for each of {count} spatial dimensions, got {box!r}"
        )
    return found


# ACCUMULATED: a weighted sum of neighbors that may cancel.
@op(shape=resized, dtype=real_floating, accuracy=ACCUMULATED, normalize=_resampling)
def resample(
    x: Tensor,
    size: Sizes | None = None,
    *,
    method: Method = "bicubic",
    antialias: bool = False,
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "half_up",
    cubic: float = -0.5,
    exclude_outside: bool = True,
    scale: Sizes | None = None,
    aspect: Aspect = "stretch",
    box: Any = None,
    fill_value: float = 0.0,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """Images resampled by a filter, by every rule for the places of pixels.

    `resize` is the faster one for what it does. The filters are separable: nearest, linear, cubic
    convolution (Keys, 1981) and windowed sinc (Lanczos, 1956; Duchon, 1979). The defaults are those
    of JAX, Keras and Pillow; `cubic=-0.75, exclude_outside=False` gives the bicubic of PyTorch, and
    ONNX's Resize has all of them.

    Args:
        x: images (batch, *spatial, channels).
        size: the spatial sizes of the result, one number or one per spatial dimension; the sizes
            times `scale`, rounded down, if None.
        method: "nearest", "bilinear", "bicubic", "lanczos3" or "lanczos5".
        antialias: True to widen the filter where an axis shrinks.
        coordinates: where pixel i of m lies in an axis of n pixels: "half_pixel" at
            (i + 0.5) * n / m - 0.5, "align_corners" at i * (n - 1) / (m - 1), "asymmetric" at
            i * n / m. "half_pixel_or_first" is "half_pixel" with 0 for one pixel; in
            "half_pixel_symmetric" a result that is smaller than n * scale is in its middle;
            "crop" is "align_corners" of a `box`.
        rounding: for "nearest", the pixel of a place between two: "half_up" and "half_down" take
            the nearest one and differ at the middle; "down" and "up".
        cubic: the coefficient a of the cubic filter.
        exclude_outside: True to leave out weights of pixels outside of the image and scale the
            others up; False to give them to the pixels at the edge.
        scale: the number m / n for places, one or one per spatial dimension, where it is not the
            ratio of the sizes; a place beyond the edge pixels is at the edge.
        aspect: "stretch", or "not_larger" and "not_smaller": one scale for all dimensions, by which
            no size is larger (smaller) than the requested one.
        box: for "crop", (start, end) for each spatial dimension, from 0 to 1 across the centers of
            the pixels at the ends.
        fill_value: for "crop", what lies outside of the image.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for the wrong number of sizes, sizes below 1, or images without pixels.
        InputValueError: for an unknown method or rule.

    >>> x = pb.reshape([0.0, 4.0, 8.0], (1, 3, 1))
    >>> pb.resample(x, 5, method="bilinear", coordinates="align_corners").tolist()
    [[[0.0], [2.0], [4.0], [6.0], [8.0]]]
    """
    assert size is not None
    y, first = widened(x), 1 if data_format == "channels_last" else 2
    plain = scale is None and coordinates in _COORDINATES[:3]
    for number, count in enumerate(size):
        axis, old = first + number, y.shape[first + number]
        if plain:
            places = [_place(i, old, count, coordinates) for i in range(count)]
        else:
            # A number such as 1.6 or 7 / 6 stands for a ratio: ties are where it has them.
            ratio = None if scale is None else _ratio(scale[number])
            ends = None if box is None else box[number]
            exact = [_exact_place(i, old, count, coordinates, ratio, ends) for i in range(count)]
            # Beyond the edge lies the edge; with no pixel in reach weights would add up to 0.
            low, high = (0, old - 1) if box else (-0.5, old - 0.5) if exclude_outside else (-1, old)
            places = [builtins.min(builtins.max(float(place), low), high) for place in exact]
        if method == "nearest" and plain:
            near = [_nearest(i, old, count, coordinates, rounding) for i in range(count)]
            y = take(y, from_any(near, places_on(y.device), y.device), axis=axis)
        elif method == "nearest":
            near = [_rounded(place.numerator, place.denominator, old, rounding) for place in exact]
            y = take(y, from_any(near, places_on(y.device), y.device), axis=axis)
        elif not plain or old != count or coordinates == "asymmetric" or method[:3] == "lan":
            shrunk = old / count if scale is None else 1 / scale[number]
            wide = max(shrunk, 1.0) if antialias else 1.0
            weights = _weights(y, old, places, wide, method, cubic, exclude_outside)
            y = moveaxis(tensordot(y, weights, axes=((axis,), (0,))), -1, axis)
        if box is not None:
            inside = [0 <= place <= old - 1 for place in exact]
            shape = (count, *[1] * (y.ndim - 1 - axis))
            y = where(reshape(from_any(inside, bool_, y.device), shape), y, fill_value)
    return narrowed(y, x)


def _ratio(scale: float) -> Fraction:
    from fractions import Fraction

    return Fraction(scale).limit_denominator(1 << 20)


def _place(i: int, old: int, count: int, coordinates: str) -> float:
    if coordinates == "align_corners":
        return i * (old - 1) / (count - 1) if count > 1 else 0.0
    return i * old / count if coordinates == "asymmetric" else (i + 0.5) * old / count - 0.5


def _exact_place(
    i: int, old: int, count: int, coordinates: str, scale: Fraction | None, box: Any
) -> Fraction:
    """The place of a pixel by the rules of ONNX's Resize, where the scale need not be a ratio."""
    from fractions import Fraction

    ratio = Fraction(count, old) if scale is None else scale
    wide = ratio * old
    if coordinates == "crop":
        start, end = map(Fraction, box)
        if count == 1:
            return (start + end) * (old - 1) / 2
        return start * (old - 1) + i * (end - start) * (old - 1) / (wide - 1)
    if coordinates == "align_corners":
        return i * (old - 1) / (wide - 1) if count > 1 else Fraction(0)
    if coordinates == "asymmetric":
        return i / ratio
    place = (i + Fraction(1, 2)) / ratio - Fraction(1, 2)
    if coordinates == "half_pixel_or_first":
        return place if count > 1 else Fraction(0)
    if coordinates == "half_pixel_symmetric":
        return place + Fraction(old, 2) * (1 - count / wide)
    return place


def _nearest(i: int, old: int, count: int, coordinates: str, rounding: str) -> int:
    """The nearest pixel, in integers: the place is a / b."""
    a, b = {
        "half_pixel": ((2 * i + 1) * old - count, 2 * count),
        "align_corners": (i * (old - 1), count - 1) if count > 1 else (0, 1),
        "asymmetric": (i * old, count),
    }[coordinates]
    return _rounded(a, b, old, rounding)


def _rounded(a: int, b: int, old: int, rounding: str) -> int:
    """The pixel for the place a / b."""
    near = {
        "down": a // b,
        "up": -(-a // b),
        "half_up": (2 * a + b) // (2 * b),
        "half_down": -((b - 2 * a) // (2 * b)),
    }[rounding]
    return sorted((0, near, old - 1))[1]


def _weights(
    like: Tensor, old: int, places: list[float], wide: float, method: str, a: float, exclude: bool
) -> Tensor:
    """The matrix (old, count) whose columns are the weights of a pixel of the result."""
    reach = 0 if exclude else math.ceil(_RADII[method] * wide) + 1
    precise = widest(like.device)
    pixels = arange(-reach, old + reach, dtype=precise, device=like.device)
    distance = abs(from_any(places, precise, like.device) - expand_dims(pixels, 1)) / wide
    weights = _filter(distance, method, a)
    if not exclude:
        before = sum(weights[:reach], axis=0, keepdims=True)
        behind = sum(weights[old + reach :], axis=0, keepdims=True)
        inner = weights[reach : old + reach]
        if old == 1:
            weights = before + inner + behind
        else:
            weights = concat([before + inner[:1], inner[1:-1], inner[-1:] + behind])
    return (weights / sum(weights, axis=0, keepdims=True)).astype(like.dtype)


def _filter(x: Tensor, method: str, a: float) -> Tensor:
    """The value of the filter at distances of at least 0."""
    if method == "bilinear":
        return maximum(1 - x, 0)
    if method == "bicubic":
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return where(x < 1, near, where(x < 2, far, 0))
    radius = _RADII[method]
    angle = where(x > 0, x, 1) * math.pi
    waves = sin(angle) * sin(angle / radius) * radius / (angle * angle)
    return where(x > 0, where(x < radius, waves, 0), 1)


# Interpolation ----------------------------------------------------------------------------------


def _mapped_shape(x: Shape, coordinates: Shape, *, batch_dims: int = 0, **_: object) -> Shape:
    """The batch, the shape of the coordinates, and the axes of x that they do not reach."""
    batch, rest = x[:batch_dims], coordinates[batch_dims:]
    if not rest or coordinates[:batch_dims] != batch or len(batch) < batch_dims:
        raise errors.ShapeError(
            f"coordinates of shape {coordinates} need the {batch_dims} batch axes of x of shape "
            f"{x}, then an axis with one row for each axis of x"
        )
    reached = batch_dims + rest[0]
    if not rest[0] or reached > len(x):
        raise errors.ShapeError(
            f"coordinates of shape {coordinates} have {rest[0]} rows, and x of shape {x} has "
            f"{len(x) - batch_dims} axes for them"
        )
    if 0 in x[batch_dims:reached]:
        raise errors.ShapeError(f"x of shape {x} has no elements to interpolate")
    return (*batch, *rest[1:], *x[reached:])


def _mapping(
    shapes: tuple[Shape, ...], *, order: Any, mode: str, fill_value: float, batch_dims: int
) -> dict[str, Any]:
    if order not in (0, 1):
        raise errors.InputValueError(f"order must be 0 or 1, got {order!r}")
    check_choice(mode, "mode", _INSIDE)
    _mapped_shape(*shapes, batch_dims=batch_dims)
    how = {"order": int(order), "mode": mode, "fill_value": float(fill_value)}
    return {**how, "batch_dims": int(batch_dims)}


def _values_and_places(operands: Operands, **_: object) -> Resolution:
    """x and the coordinates in real floating dtypes of their own; the result has that of x."""
    inputs = [real_floating((one,)).inputs[0] for one in operands]
    assert inputs[0] is not None
    return Resolution(tuple(inputs), (inputs[0],))


def _mirrored(index: Tensor, size: int) -> Tensor:
    if size == 1:
        return index * 0
    return abs(remainder(index + (size - 1), 2 * (size - 1)) - (size - 1))


_INSIDE: dict[str, Any] = {
    "constant": lambda index, size: clip(index, 0, size - 1),
    "nearest": lambda index, size: clip(index, 0, size - 1),
    "wrap": remainder,
    "mirror": _mirrored,
    "reflect": lambda index, size: floor_divide(_mirrored(2 * index + 1, 2 * size + 1) - 1, 2),
}
#: Further away than any element, and an exact index in float32.
_FAR = 2.0**30


def sampled(
    x: Tensor, places: list[Tensor], batch_dims: int, mode: str, fill: float = 0.0,
    near: Any = None, items: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The elements of x at places, by the values around each: `near` is None for linear.

    The places of all axes broadcast; `items` has the item of the batch for each, which are in order
    if not given.
    """
    reached = batch_dims + len(places)
    spatial, rest = x.shape[batch_dims:reached], x.shape[reached:]
    rows = reshape(x, (size_of(x.shape[:reached]), size_of(rest)))  # also without channels
    if items is None:
        items = _offset(x, batch_dims, places[0].ndim)
    dtype = places_on(x.device)
    corners: list[tuple[Any, Any, Any]] = [(items, None, None)]
    for place, size in zip(places, spatial, strict=True):
        # NaN has no index; as a weight it stays, and the result is NaN.
        inside = clip(where(place == place, place, 0), -_FAR, _FAR)
        if near is not None:
            taps = [(near(inside).astype(dtype), place * 0 + 1)]
        else:
            low = floor(inside)
            taps = [(low.astype(dtype), 1 - (place - low)), (low.astype(dtype) + 1, place - low)]
        grown = []
        for at, weight, valid in corners:
            for index, share in taps:
                found = (index >= 0) & (index < size)
                grown.append(
                    (
                        at * size + _INSIDE[mode](index, size),
                        share if weight is None else weight * share,
                        found if valid is None else valid & found,
                    )
                )
        corners = grown
    total: Any = None
    for at, weight, valid in corners:
        value = take(rows, at, axis=0)
        if mode == "constant":
            value = where(expand_dims(valid, -1), value, fill)
        # A weight of 0 stands for no element: infinities count where they are.
        weight = expand_dims(weight, -1).astype(x.dtype)
        term = where(weight == 0, 0, value) * weight
        total = term if total is None else total + term
    return reshape(total, (*total.shape[:-1], *rest))


def _offset(x: Tensor, batch_dims: int, ndim: int) -> Tensor:
    """The number of each item of the batch, as an index that broadcasts with the places."""
    batch = x.shape[:batch_dims]
    items = arange(size_of(batch), dtype=places_on(x.device), device=x.device)
    return reshape(items, (*batch, *[1] * (ndim - batch_dims)))


# ACCUMULATED: a weighted sum of neighbors that may cancel.
@op(shape=_mapped_shape, dtype=_values_and_places, accuracy=ACCUMULATED, normalize=_mapping)
def map_coordinates(
    x: Tensor,
    coordinates: Tensor,
    *,
    order: Literal[0, 1] = 1,
    mode: Outside = "constant",
    fill_value: float = 0.0,
    batch_dims: int = 0,
) -> Tensor:
    """The values of x at any coordinates, which count elements (SciPy's function of this name).

    The gradient goes to x and, of linear interpolation, to the coordinates. NaN among the
    coordinates gives NaN.

    Args:
        x: the values, (*batch, *sizes, *rest), with d sizes.
        coordinates: (*batch, d, *out): for each axis of x from the first on, the places along it.
        order: 1 for linear interpolation, 0 for the nearest element (the higher one of two).
        mode: what lies outside of x: "constant" (`fill_value`), "nearest" (the element at the
            edge), "wrap" (x again), "mirror" and "reflect" (x backwards, which has the edge once
            or twice).
        fill_value: what lies outside, for "constant".
        batch_dims: the number of axes that x and the coordinates have in common.

    Returns:
        A tensor (*batch, *out, *rest).

    Raises:
        ShapeError: for coordinates that do not fit x, and an x without elements.
        InputValueError: for an unknown order or mode.

    >>> pb.map_coordinates([0.0, 10.0, 20.0], [[0.5, 1.25, 3.0]], mode="nearest").tolist()
    [5.0, 12.5, 20.0]
    """
    near = (lambda place: floor(place + 0.5)) if order == 0 else None
    places = unstack(widened(coordinates), axis=batch_dims)
    return narrowed(sampled(widened(x), list(places), batch_dims, mode, fill_value, near), x)


def _grid_shape(x: Shape, grid: Shape, *, data_format: str, **_: object) -> Shape:
    """The batch, the shape of the grid, and the channels."""
    count = len(x) - 2
    if count < 1 or len(grid) != len(x) or grid[0] != x[0] or grid[-1] != count:
        raise errors.ShapeError(
            f"images of shape {x} need a grid (batch, *out, {max(count, 1)}) of as many axes, got "
            f"{grid}"
        )
    if 0 in spatial_of(x, data_format):
        raise errors.ShapeError(f"images of shape {x} have no pixels to interpolate")
    return image_shape(x[0], grid[1:-1], channels_of(x, data_format), data_format)


def _gridding(
    shapes: tuple[Shape, ...], *, method: str, padding: str, align_corners: bool, data_format: str
) -> dict[str, Any]:
    check_format(data_format)
    check_choice(method, "method", ("bilinear", "nearest"))
    check_choice(padding, "padding", ("zeros", "border", "reflection"))
    _grid_shape(*shapes, data_format=data_format)
    how = {"align_corners": bool(align_corners), "data_format": data_format}
    return {"method": method, "padding": padding, **how}


# ACCUMULATED: a weighted sum of neighbors that may cancel.
@op(shape=_grid_shape, dtype=_values_and_places, accuracy=ACCUMULATED, normalize=_gridding)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    method: Literal["bilinear", "nearest"] = "bilinear",
    padding: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """Images at the places of a grid, as a spatial transformer reads them (Jaderberg et al., 2015).

    Args:
        x: images (batch, *spatial, channels).
        grid: places (batch, *out, dimensions) from -1 to 1 across the images. The last spatial
            dimension comes first: (x, y) of images (batch, y, x, channels).
        method: "bilinear" (linear along each dimension) or "nearest" (to the even one of two).
        padding: what lies outside: zeros, the pixels at the "border", or a "reflection".
        align_corners: True if -1 and 1 are the centers of the pixels at the ends; False if they
            are their edges.
        data_format: "channels_last" or "channels_first".

    Raises:
        ShapeError: for a grid that does not fit the images.
        InputValueError: for an unknown method or padding.

    >>> x = pb.reshape([0.0, 1.0, 2.0, 3.0], (1, 2, 2, 1))
    >>> pb.grid_sample(x, [[[[0.0, 0.0]]]]).tolist()
    [[[[1.5]]]]
    """
    images = channels_last(widened(x), data_format)
    places = []
    spatial = images.shape[1:-1]
    for part, size in zip(unstack(widened(grid), axis=-1)[::-1], spatial, strict=True):
        full = (part + 1) / 2
        places.append(full * (size - 1) if align_corners else full * size - 0.5)
    reflection = "mirror" if align_corners else "reflect"
    mode = {"zeros": "constant", "border": "nearest"}.get(padding, reflection)
    near = round if method == "nearest" else None
    y = sampled(images, places, 1, mode, 0.0, near)
    return narrowed(channels_back(y, data_format), x)


def _affine_shape(theta: Shape, *, size: Shape, **_: object) -> Shape:
    """The batch, the sizes, and the number of dimensions."""
    if len(theta) != 3 or not theta[1] or theta[2] != theta[1] + 1:
        raise errors.ShapeError(
            f"theta must be matrices (batch, dimensions, dimensions + 1), got shape {theta}"
        )
    return (theta[0], *size, theta[1])


def _affine(shapes: tuple[Shape, ...], *, size: Any, align_corners: bool) -> dict[str, Any]:
    _affine_shape(shapes[0], size=())
    count = shapes[0][1]
    return {"size": sizes(size, count, "size"), "align_corners": bool(align_corners)}


@op(shape=_affine_shape, dtype=real_floating, accuracy=ACCUMULATED, normalize=_affine)
def affine_grid(theta: Tensor, size: Sizes, *, align_corners: bool = False) -> Tensor:
    """The grid of affine maps, for `grid_sample` (Jaderberg et al., 2015).

    Args:
        theta: matrices (batch, dimensions, dimensions + 1), of a map of places (x, y, 1).
        size: the spatial sizes of the images to be made.
        align_corners: as for `grid_sample`.

    Returns:
        A tensor (batch, *size, dimensions).

    Raises:
        ShapeError: for other matrices, or the wrong number of sizes.

    >>> pb.affine_grid([[[1.0, 0.0]]], 2, align_corners=True).tolist()
    [[[-1.0], [1.0]]]
    """
    maps = widened(theta)
    places: list[Tensor] = []
    for axis, count in reversed(list(enumerate(size))):
        ends = count - 1 if align_corners else count
        line = [(2 * i + (0 if align_corners else 1)) / (ends or 1) - 1 for i in range(count)]
        if not ends:
            line = [0.0]
        shape = [count if i == axis else 1 for i in range(len(size))]
        place = reshape(from_any(line, maps.dtype, maps.device), tuple(shape))
        places.append(place)
    one = places[0] * 0 + 1
    for place in places:
        one = one * (place * 0 + 1)
    points = reshape(stack([*[place * one for place in places], one], axis=-1), (-1, len(size) + 1))
    grid = matmul(points, maps.mT)
    return narrowed(reshape(grid, (maps.shape[0], *size, maps.shape[1])), theta)
