"""NumPy's statistics: averages, quantiles, covariances."""

from __future__ import annotations

from typing import Any

from pullback import dtypes, errors
from pullback._numpy.table import FUNCTIONS, Function, Unsupported, routed
from pullback.dtypes import DTypeLike
from pullback.ops import reductions, sorting
from pullback.ops.arithmetic import maximum
from pullback.ops.complex import conj
from pullback.ops.conversion import asarray
from pullback.ops.creation import ones
from pullback.ops.data_types import astype
from pullback.ops.exponential import sqrt
from pullback.ops.indexing import segment_sum, take_along_axis
from pullback.ops.joining import concat
from pullback.ops.linalg.linear_algebra import diagonal, matmul
from pullback.ops.manipulation import (
    broadcast_to,
    matrix_transpose,
    moveaxis,
    permute_dims,
    reshape,
    squeeze,
)
from pullback.ops.precision import widest
from pullback.ops.rounding import ceil, floor, round
from pullback.ops.selection import where
from pullback.shapes import Axes, canonical_axes, reduced
from pullback.tensor import TensorLike


@routed("median")
def _(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
    return sorting.median(a, axis=axis, keepdims=keepdims)


def _percent(q: Any) -> Any:
    return [one / 100 for one in q] if isinstance(q, (list, tuple)) else q / 100


@routed("quantile")
def _(
    a: TensorLike, q: Any, axis: Axes = None, method: str = "linear", keepdims: bool = False
) -> Any:
    parts = q if isinstance(q, (list, tuple)) else ()
    if getattr(q, "ndim", 0) > 1 or any(isinstance(one, (list, tuple)) for one in parts):
        raise Unsupported("q of several axes")
    return sorting.quantile(a, q, axis=axis, keepdims=keepdims, method=method)


@routed("percentile")
def _(
    a: TensorLike, q: Any, axis: Axes = None, method: str = "linear", keepdims: bool = False
) -> Any:
    return FUNCTIONS["quantile"](a, _percent(q), axis, method, keepdims)


#: What takes the place between the elements below and above it, by the method.
_NEAR: dict[str, Function] = {
    "linear": lambda at: at,
    "lower": floor,
    "higher": ceil,
    "midpoint": lambda at: (floor(at) + ceil(at)) * 0.5,
    "nearest": round,
}


@routed("nanquantile")
def _(
    a: TensorLike, q: Any, axis: Axes = None, method: str = "linear", keepdims: bool = False
) -> Any:
    a = asarray(a)
    if method not in _NEAR:
        raise Unsupported(f"method={method!r}")
    if not a.size:
        raise Unsupported("an empty a")
    if not dtypes.is_floating(a.dtype):
        return sorting.quantile(a, q, axis=axis, keepdims=keepdims, method=method)
    axes = canonical_axes(axis, a.ndim)
    axes = tuple(range(a.ndim)) if axes is None else axes
    kept = tuple(one for one in range(a.ndim) if one not in axes)
    rows = permute_dims(a, (*kept, *axes))
    rows = sorting.sort(reshape(rows, (*rows.shape[: len(kept)], -1)))  # NaN comes last
    levels = asarray(q, dtype=widest(a.device), device=a.device)
    # One of the numbers of each row, for each level.
    count = reductions.count_nonzero(rows == rows, axis=-1, keepdims=True)
    at = reshape(levels, -1) * (astype(maximum(count, 1), levels.dtype) - 1)
    at = _NEAR[method](at)
    below = floor(at)
    low = take_along_axis(rows, astype(below, dtypes.int64))
    high = take_along_axis(rows, astype(ceil(at), dtypes.int64))
    # Two infinities of one sign have no difference, and nothing between them.
    step = where(low == high, 0, high - low)
    share = astype(at - below, rows.dtype)
    found = where(share < 0.5, low + step * share, high - step * (1 - share))
    return reshape(moveaxis(found, -1, 0), (*levels.shape, *reduced(a.shape, axes, keepdims)))


@routed("nanpercentile")
def _(
    a: TensorLike, q: Any, axis: Axes = None, method: str = "linear", keepdims: bool = False
) -> Any:
    return FUNCTIONS["nanquantile"](a, _percent(q), axis, method, keepdims)


@routed("nanmedian")
def _(a: TensorLike, axis: Axes = None, keepdims: bool = False) -> Any:
    return FUNCTIONS["nanquantile"](a, 0.5, axis, "linear", keepdims)


@routed("average")
def _(
    a: TensorLike,
    axis: Axes = None,
    weights: TensorLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    a = asarray(a)
    if weights is None:
        mean = reductions.mean(a, axis=axis, keepdims=keepdims)
        if not returned:
            return mean
        count = a.size / max(mean.size, 1)
        return mean, broadcast_to(asarray(count, dtype=mean.dtype), mean.shape)
    weights = asarray(weights)
    if weights.shape != a.shape:
        axes = canonical_axes(axis, a.ndim)
        if axes is None or tuple([a.shape[one] for one in axes]) != weights.shape:
            raise Unsupported("weights= of another shape")
        if list(axes) != sorted(axes):
            raise Unsupported("axes that are not in order")
        one_each = [size if i in axes else 1 for i, size in enumerate(a.shape)]
        weights = broadcast_to(reshape(weights, tuple(one_each)), a.shape)
    total = reductions.sum(weights, axis=axis, keepdims=keepdims)
    mean = reductions.sum(a * weights, axis=axis, keepdims=keepdims) / total
    return (mean, total) if returned else mean


@routed("bincount")
def _(x: TensorLike, weights: TensorLike | None = None, minlength: int = 0) -> Any:
    x = asarray(x)
    if not x.size:
        raise Unsupported("an empty x")
    if x.ndim != 1 or int(x.min()) < 0:
        raise errors.InputValueError("np.bincount: x must be a vector of integers from 0 on")
    counted = ones(x.shape, dtype=dtypes.int64, device=x.device) if weights is None else weights
    return segment_sum(counted, x, max(int(x.max()) + 1, minlength))


def _rows(m: TensorLike, y: TensorLike | None, rowvar: bool) -> Any:
    def rows(part: TensorLike) -> Any:
        part = asarray(part)
        if part.ndim > 2:
            raise Unsupported("arrays of more than 2 axes")
        if part.ndim < 2:
            return reshape(part, (1, -1))
        return part if rowvar or part.shape[0] == 1 else matrix_transpose(part)

    variables = rows(m) if y is None else concat([rows(m), rows(y)], axis=0)
    if dtypes.is_floating(variables.dtype) or dtypes.is_complex(variables.dtype):
        return variables
    return astype(variables, dtypes.DEFAULT_FLOAT)


def _cov(m: TensorLike, y: TensorLike | None, rowvar: bool, bias: bool, ddof: float | None) -> Any:
    x = _rows(m, y, rowvar)
    freedom = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    x = x - reductions.mean(x, axis=1, keepdims=True)
    return matmul(x, conj(matrix_transpose(x))) / max(freedom, 0)


@routed("cov")
def _(
    m: TensorLike,
    y: TensorLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: float | None = None,
    dtype: DTypeLike | None = None,
) -> Any:
    found = squeeze(_cov(m, y, rowvar, bias, ddof))
    return found if dtype is None else astype(found, dtype)


@routed("corrcoef")
def _(
    x: TensorLike, y: TensorLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Any:
    covariance = _cov(x, y, rowvar, False, None)
    spread = sqrt(asarray(diagonal(covariance)).real)
    found = squeeze(covariance / reshape(spread, (-1, 1)) / spread)
    return found if dtype is None else astype(found, dtype)
