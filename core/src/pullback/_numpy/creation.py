"""NumPy's functions that make arrays: filled ones, ranges, grids."""

from __future__ import annotations

from typing import Any

from pullback._numpy.table import Unsupported, routed
from pullback.dtypes import DTypeLike
from pullback.ops.conversion import asarray
from pullback.ops.creation import arange, full, ones, zeros
from pullback.ops.data_types import astype
from pullback.ops.exponential import exp, log
from pullback.ops.manipulation import broadcast_to, expand_dims, moveaxis, reshape
from pullback.ops.patterns import eye, meshgrid, tril, triu
from pullback.ops.reductions import any
from pullback.shapes import ShapeLike
from pullback.tensor import TensorLike


@routed("zeros_like", "empty_like")
def _(a: TensorLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None) -> Any:
    return _filled_like(a, 0, dtype, shape)


@routed("ones_like")
def _(a: TensorLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None) -> Any:
    return _filled_like(a, 1, dtype, shape)


@routed("full_like")
def _(
    a: TensorLike,
    fill_value: TensorLike,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
) -> Any:
    return _filled_like(a, fill_value, dtype, shape)


def _filled_like(
    a: TensorLike, value: TensorLike, dtype: DTypeLike | None, shape: ShapeLike | None
) -> Any:
    a = asarray(a)
    shape, dtype = a.shape if shape is None else shape, a.dtype if dtype is None else dtype
    if isinstance(value, (bool, int, float, complex)):
        return full(shape, value, dtype=dtype, device=a.device)
    # Not a number: gradients reach it.
    return broadcast_to(asarray(value, dtype=dtype), shape)


# With like=x.


@routed("zeros", "empty")
def _(shape: ShapeLike, dtype: DTypeLike | None = None) -> Any:
    return zeros(shape, dtype=dtype)


@routed("ones")
def _(shape: ShapeLike, dtype: DTypeLike | None = None) -> Any:
    return ones(shape, dtype=dtype)


@routed("full")
def _(shape: ShapeLike, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Any:
    if isinstance(fill_value, (bool, int, float, complex)):
        return full(shape, fill_value, dtype=dtype)
    return broadcast_to(asarray(fill_value, dtype=dtype), shape)


@routed("eye")
def _(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Any:
    return eye(N, M, k=k, dtype=dtype)


@routed("identity")
def _(n: int, dtype: DTypeLike | None = None) -> Any:
    return eye(n, dtype=dtype)


@routed("array", "asarray", "asanyarray", "ascontiguousarray")
def _(a: TensorLike, dtype: DTypeLike | None = None) -> Any:
    return asarray(a, dtype=dtype)


@routed("tril")
def _(m: TensorLike, k: int = 0) -> Any:
    return tril(m, k=k)


@routed("triu")
def _(m: TensorLike, k: int = 0) -> Any:
    return triu(m, k=k)


@routed("meshgrid")
def _(*xi: TensorLike, indexing: Any = "xy") -> Any:
    return meshgrid(*[reshape(x, -1) for x in xi], indexing=indexing)


def _spaced(
    start: TensorLike, stop: TensorLike, num: int, endpoint: bool, axis: int
) -> tuple[Any, Any]:
    start, stop = asarray(start) * 1.0, asarray(stop) * 1.0
    steps = num - 1 if endpoint else num
    step = (stop - start) / steps if steps > 0 else stop - start
    start = start + 0 * step
    # The ends come out as they are, whatever the steps between them round to.
    share = arange(num, dtype=start.dtype, device=start.device).reshape(
        (num, *[1] * len(start.shape))
    )
    points = expand_dims(start, axis=0) + share * expand_dims(step, axis=0)
    return moveaxis(points, 0, axis), step


@routed("linspace")
def _(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    points, step = _spaced(start, stop, num, endpoint, axis)
    points = points if dtype is None else astype(points, dtype)
    return (points, step) if retstep else points


@routed("logspace")
def _(
    start: TensorLike,
    stop: TensorLike,
    num: int = 50,
    endpoint: bool = True,
    base: TensorLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Any:
    points = base ** _spaced(start, stop, num, endpoint, axis)[0]
    return points if dtype is None else astype(points, dtype)


@routed("geomspace")
def _(
    start: TensorLike, stop: TensorLike, num: int = 50, endpoint: bool = True, axis: int = 0
) -> Any:
    start, stop = asarray(start) * 1.0, asarray(stop) * 1.0
    if bool(any(start <= 0)) or bool(any(stop <= 0)):
        raise Unsupported("ends that are not positive")
    return exp(_spaced(log(start), log(stop), num, endpoint, axis)[0])


@routed("vander")
def _(x: TensorLike, N: int | None = None, increasing: bool = False) -> Any:
    x = asarray(x)
    if len(x.shape) != 1:
        raise Unsupported("x of several axes")
    count = x.shape[0] if N is None else N
    powers = arange(count, dtype=x.dtype, device=x.device)
    return expand_dims(x, axis=1) ** (powers if increasing else powers[::-1])
