"""Reductions, running sums, orders and counts."""

from __future__ import annotations

import builtins
import math

import numpy as np
from keras.src.backend.common.backend_utils import canonicalize_axes, canonicalize_axis

import pullback as pb
from keras_pullback.src.ops.arrays import (
    axes_of,
    diagonal,
    linspace,
    moveaxis,
    ndim,
    ravel,
    searchsorted,
)
from keras_pullback.src.ops.core import (
    BOOL,
    FLOATS,
    cast,
    convert_to_tensor,
    floating,
    name_of,
    numeric,
    result,
    same,
    to,
)
from keras_pullback.src.ops.elementwise import isnan

#: The dtypes that products have, as JAX's; all others stay what they are.
SUMS = dict.fromkeys(("bool", "int8", "int16"), "int32") | dict.fromkeys(
    ("uint8", "uint16"), "uint32"
)


# Reductions ---------------------------------------------------------------------------------------


def all(x, axis=None, keepdims=False):
    return pb.all(cast(x, "bool"), axis=axes_of(axis), keepdims=keepdims)


def any(x, axis=None, keepdims=False):
    return pb.any(cast(x, "bool"), axis=axes_of(axis), keepdims=keepdims)


def count_nonzero(x, axis=None):
    return pb.count_nonzero(convert_to_tensor(x), axis=axes_of(axis)).astype("int32")


def _extreme(op, pair):
    def function(x, axis=None, keepdims=False, initial=None):
        x = convert_to_tensor(x)
        if initial is None:
            return op(x, axis=axes_of(axis), keepdims=keepdims)
        initial = cast(initial, name_of(x))
        if 0 in x.shape:
            empty = pb.sum(pb.zeros_like(x), axis=axes_of(axis), keepdims=keepdims)
            return pb.broadcast_to(initial, empty.shape)
        return pair(op(x, axis=axes_of(axis), keepdims=keepdims), initial)

    return function


max = _extreme(pb.max, pb.maximum)
min = _extreme(pb.min, pb.minimum)


def amax(x, axis=None, keepdims=False):
    return max(x, axis, keepdims)


def amin(x, axis=None, keepdims=False):
    return min(x, axis, keepdims)


def _position(op):
    def function(x, axis=None, keepdims=False):
        x = numeric(x)
        if name_of(x) in FLOATS and x.ndim:
            # -0.0 counts as less than 0.0.
            x = x.astype("float32")
            x = pb.where(
                pb.logical_and(x == 0, pb.signbit(x)), -pb.finfo(x.dtype).smallest_normal, x
            )
        return op(x, axis=axis, keepdims=keepdims).astype("int32")

    return function


argmax = _position(pb.argmax)
argmin = _position(pb.argmin)


def mean(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    if name_of(x) not in FLOATS | {"float64", "complex64"}:
        x = to(x, result(name_of(x), "float32"))
    return pb.mean(x, axis=axes_of(axis), keepdims=keepdims)


def sum(x, axis=None, keepdims=False):
    return pb.sum(convert_to_tensor(x), axis=axes_of(axis), keepdims=keepdims)


def prod(x, axis=None, keepdims=False, dtype=None):
    x = convert_to_tensor(x)
    if dtype is None:
        name = result(name_of(x))
        dtype = SUMS.get(name, name)
    return pb.prod(to(x, dtype), axis=axes_of(axis), keepdims=keepdims)


def std(x, axis=None, keepdims=False):
    return pb.sqrt(var(x, axis, keepdims))


def var(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    name = result(name_of(x), float)
    wide = to(x, result(name_of(x), "float32")) if "complex" not in name_of(x) else x
    return to(pb.var(wide, axis=axes_of(axis), keepdims=keepdims), name)


def ptp(x, axis=None, keepdims=False):
    return max(x, axis, keepdims) - min(x, axis, keepdims)


def average(x, axis=None, weights=None):
    x = convert_to_tensor(x)
    if weights is None:
        return mean(to(x, result(name_of(x), float)), axis)
    x, weights = same(x, weights, floating=True)
    if weights.shape != x.shape:
        weights = _along(weights, x, axis)
    weights = pb.broadcast_to(weights, x.shape)
    return pb.sum(x * weights, axis=axes_of(axis)) / pb.sum(weights, axis=axes_of(axis))


def _along(weights, x, axis):
    """Weights of some axes of x, with all of them."""
    if axis is None:
        raise ValueError(
            "Axis must be specified when shapes of x and weights differ. Received: "
            f"x.shape={x.shape}, weights.shape={weights.shape}"
        )
    axes = canonicalize_axes(axes_of(axis), x.ndim)
    if weights.shape != tuple(x.shape[a] for a in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of x along specified axis. Received: "
            f"x.shape={x.shape}, weights.shape={weights.shape}, axis={axis}"
        )
    weights = pb.permute_dims(
        weights, tuple(builtins.sorted(range(len(axes)), key=axes.__getitem__))
    )
    return pb.reshape(weights, [n if i in axes else 1 for i, n in enumerate(x.shape)])


def cumsum(x, axis=None, dtype=None):
    return _cumulative(pb.cumulative_sum, x, axis, dtype)


def cumprod(x, axis=None, dtype=None):
    return _cumulative(pb.cumulative_prod, x, axis, dtype)


def _cumulative(op, x, axis, dtype):
    x = convert_to_tensor(x)
    name = result(dtype or name_of(x))
    x = to(x, "int32" if name == "bool" else name)
    x, axis = (pb.reshape(x, (-1,)), 0) if axis is None else (x, axis)
    return op(x, axis=axis, dtype=x.dtype)


def diff(a, n=1, axis=-1):
    a = convert_to_tensor(a)
    if a.dtype != BOOL:
        return pb.diff(a, n=n, axis=axis)
    for _ in range(n):
        a = pb.diff(a.astype("int32"), axis=axis) != 0
    return a


def trapezoid(y, x=None, dx=1.0, axis=-1):
    y = floating(y)
    y = pb.moveaxis(y, axis, -1)
    widths = (
        cast(dx, name_of(y))
        if x is None
        else to(pb.diff(moveaxis(x, axis, -1) if ndim(x) > 1 else convert_to_tensor(x)), name_of(y))
    )
    return pb.sum((y[..., 1:] + y[..., :-1]) * widths, axis=-1) / 2


def bincount(x, weights=None, minlength=0, sparse=False):
    if sparse:
        raise ValueError("Unsupported value `sparse=True` with the pullback backend")
    x = convert_to_tensor(x)
    given, x = name_of(x), x.astype("int32")
    count = builtins.max(int(pb.max(x)) + 1 if x.size else 0, int(minlength))
    if weights is None:
        name, weights = "int32", pb.ones_like(x)
    else:
        weights = convert_to_tensor(weights)
        name = result(given, name_of(weights))
    rows = x.shape[0] if x.ndim == 2 else 1
    offsets = pb.reshape(pb.arange(rows) * count, (-1, 1)[: x.ndim] if x.ndim == 2 else (-1,))
    places = pb.reshape(x + offsets, (-1,))
    counts = pb.scatter_add(pb.zeros(rows * count, dtype=name), places, ravel(to(weights, name)))
    return pb.reshape(counts, (rows, count)) if x.ndim == 2 else counts


def histogram(x, bins=10, range=None):
    x = floating(ravel(x))
    low, high = (float(pb.min(x)), float(pb.max(x))) if range is None else range
    if not isinstance(bins, int):
        edges = convert_to_tensor(bins)
        bins = edges.shape[0] - 1
        low, high = float(edges[0]), float(edges[-1])
    else:
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges = linspace(low, high, bins + 1, dtype=name_of(x))
    inside = pb.logical_and(x >= low, x <= high)
    places = pb.clip(searchsorted(edges, x, side="right") - 1, 0, bins - 1)
    counts = pb.scatter_add(pb.zeros(bins, dtype="int32"), places, inside.astype("int32"))
    return counts, edges


def trace(x, offset=0, axis1=0, axis2=1):
    return sum(diagonal(x, offset, axis1, axis2), axis=-1)


# NaN ----------------------------------------------------------------------------------------------


def _filled(x, value):
    x = convert_to_tensor(x)
    return pb.where(pb.isnan(x), value, x) if name_of(x) in FLOATS | {"float64"} else x


def _nans(x):
    return isnan(x)


def nancumsum(x, axis=None, dtype=None):
    return cumsum(_filled(x, 0.0), axis, dtype)


def nancumprod(x, axis=None, dtype=None):
    return cumprod(_filled(x, 1.0), axis, dtype)


def nansum(x, axis=None, keepdims=False):
    return sum(_filled(x, 0.0), axis, keepdims)


def nanprod(x, axis=None, keepdims=False):
    return prod(_filled(x, 1.0), axis, keepdims)


def _nan_extreme(function, fill):
    def reduced(x, axis=None, keepdims=False):
        x = convert_to_tensor(x)
        if name_of(x) not in FLOATS | {"float64"}:
            return function(x, axis, keepdims)
        found = function(_filled(x, fill), axis, keepdims)
        return pb.where(all(_nans(x), axis, keepdims), math.nan, found)

    return reduced


nanmax = _nan_extreme(max, -math.inf)
nanmin = _nan_extreme(min, math.inf)


def _nan_position(function, fill):
    def reduced(x, axis=None, keepdims=False):
        x = convert_to_tensor(x)
        if name_of(x) not in FLOATS | {"float64"}:
            return function(x, axis, keepdims)
        found = function(_filled(x, fill), axis, keepdims)
        return pb.where(all(_nans(x), axis, keepdims), -1, found)

    return reduced


nanargmax = _nan_position(argmax, -math.inf)
nanargmin = _nan_position(argmin, math.inf)


def nanmean(x, axis=None, keepdims=False):
    x = floating(x)
    count = pb.sum(pb.logical_not(pb.isnan(x)), axis=axes_of(axis), keepdims=keepdims)
    return to(
        pb.sum(_filled(x, 0.0), axis=axes_of(axis), keepdims=keepdims) / count.astype(x.dtype),
        name_of(x),
    )


def nanvar(x, axis=None, keepdims=False):
    x = convert_to_tensor(x)
    name = result(name_of(x), float)
    wide = to(x, result(name_of(x), "float32"))
    deviation = wide - nanmean(wide, axis, keepdims=True)
    return to(nanmean(deviation * deviation, axis, keepdims), name)


def nanstd(x, axis=None, keepdims=False):
    return pb.sqrt(nanvar(x, axis, keepdims))


def _quantile(x, q, axis, method, keepdims, skip_nan):
    """The quantiles over some axes, by sorting; NaN where one is among the elements, or without."""
    x, q = floating(x), convert_to_tensor(q)
    name = name_of(x)
    x, q = x.astype("float32"), q.astype("float32")
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    axes = sorted(canonicalize_axis(a, x.ndim) for a in axes)
    others = [a for a in range(x.ndim) if a not in axes]
    rows = pb.permute_dims(x, (*others, *axes))
    rows = pb.reshape(rows, (*(x.shape[a] for a in others), math.prod(x.shape[a] for a in axes)))
    nans = pb.isnan(rows)
    ordered = pb.sort(rows, axis=-1)
    count = (
        pb.sum(pb.logical_not(nans), axis=-1)
        if skip_nan
        else pb.full(rows.shape[:-1], rows.shape[-1], dtype="int32")
    )
    # One position for each q and row.
    flat = pb.reshape(q, (-1,) + (1,) * count.ndim)
    places = flat * pb.maximum(count - 1, 0).astype("float32")
    below, above = pb.floor(places), pb.ceil(places)

    def at(places):
        index = pb.moveaxis(places.astype("int32"), 0, -1)
        return pb.moveaxis(pb.take_along_axis(ordered, index, axis=-1), -1, 0)

    if method == "linear":
        low, high, share = at(below), at(above), places - below
        found = pb.where(low == high, low, low + (high - low) * share)
    elif method == "midpoint":
        found = (at(below) + at(above)) / 2
    elif method in ("lower", "higher", "nearest"):
        found = at({"lower": below, "higher": above, "nearest": pb.round(places)}[method])
    else:
        raise ValueError(
            f"Invalid method: {method}. Expected linear, lower, higher, midpoint or nearest"
        )
    missing = count == 0 if skip_nan else pb.any(nans, axis=-1)
    found = pb.where(missing, math.nan, found)
    if keepdims:
        kept = [1 if a in axes else n for a, n in enumerate(x.shape)]
        found = pb.reshape(found, (-1, *kept))
    return to(pb.reshape(found, (*q.shape, *found.shape[1:])), name)


def quantile(x, q, axis=None, method="linear", keepdims=False):
    return _quantile(x, q, axis, method, keepdims, skip_nan=False)


def nanquantile(x, q, axis=None, method="linear", keepdims=False):
    return _quantile(x, q, axis, method, keepdims, skip_nan=True)


def percentile(x, q, axis=None, method="linear", keepdims=False):
    return quantile(x, cast(q, "float32") / 100, axis, method, keepdims)


def nanpercentile(x, q, axis=None, method="linear", keepdims=False):
    return nanquantile(x, cast(q, "float32") / 100, axis, method, keepdims)


def median(x, axis=None, keepdims=False):
    return quantile(x, 0.5, axis, keepdims=keepdims)


def nanmedian(x, axis=None, keepdims=False):
    return nanquantile(x, 0.5, axis, keepdims=keepdims)


# Sorting ------------------------------------------------------------------------------------------


def _ordered(op):
    def function(x, axis=-1):
        x = convert_to_tensor(x)
        kept = x.dtype
        x = numeric(x)
        x, axis = (pb.reshape(x, (-1,)), 0) if axis is None or x.ndim == 0 else (x, axis)
        y = op(x, axis=axis)
        return y.astype("int32") if op is pb.argsort else y.astype(kept)

    return function


sort = _ordered(pb.sort)
argsort = _ordered(pb.argsort)


def argpartition(x, kth, axis=-1):
    # A whole order is a partition, too.
    return argsort(x, axis)


def unique(
    x,
    sorted=True,
    return_index=False,
    return_inverse=False,
    return_counts=False,
    axis=None,
    size=None,
    fill_value=None,
):
    # How many there are depends on the values, so it is counted on the host.
    x = convert_to_tensor(x)
    found = np.unique(x.numpy(), True, True, True, axis=axis, equal_nan=False)
    values, *rest = found
    dim = 0 if axis is None else canonicalize_axis(axis, x.ndim)
    if size is not None:
        missing = builtins.max(size - values.shape[dim], 0)
        widths = [(0, missing if i == dim else 0) for i in range(values.ndim)]
        values = np.pad(
            values.take(range(builtins.min(size, values.shape[dim])), dim),
            widths,
            constant_values=fill_value or 0,
        )
        index, inverse, counts = rest
        rest = [
            np.pad(index[:size], (0, missing), constant_values=1),
            inverse,
            np.pad(counts[:size], (0, missing)),
        ]
    wanted = (return_index, return_inverse, return_counts)
    outputs = [convert_to_tensor(values, name_of(x))]
    outputs += [convert_to_tensor(y, "int32") for y, want in zip(rest, wanted, strict=True) if want]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
