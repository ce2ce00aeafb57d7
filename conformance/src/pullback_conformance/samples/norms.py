"""Samples of the norms of vectors and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback import errors
from pullback_conformance.draws import away, cnormal, integers, normal
from pullback_conformance.sample import Array, call, rough, suite, wrong

_INF = float("inf")
_WIDE = ("float32", "float64")


def _vector_norm(x: Array, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    size = np.abs(x).astype(np.result_type(np.abs(x).dtype, np.float64))
    extreme = {_INF: np.max, -_INF: np.min}.get(ord)
    if extreme is not None:
        return extreme(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdims).astype(size.dtype)
    wide = size.astype(np.longdouble)
    found = np.sum(wide**ord, axis=axis, keepdims=keepdims) ** (np.longdouble(1) / ord)
    return found.astype(size.dtype)


suite("vector_norm", _vector_norm)(
    call(normal(3, 4)),
    call(normal(3, 4), axis=1),
    call(normal(2, 3, 4), axis=(0, 2), keepdims=True),
    *(call(away(3, 4), axis=-1, ord=ord) for ord in (0.5, 1, 3, -1, -2.5, 0, _INF, -_INF)),
    *(call(cnormal(3, 4), axis=-1, ord=ord) for ord in (1, 2, 3, _INF, 0)),
    call(integers(-5, 5, 3, 4), axis=1, note="integers"),
    call(normal(), note="0-d"),
    call(normal(0, 3), axis=0, note="nothing"),
    rough(np.zeros((2, 3)), axis=1, note="zero"),
    rough(normal(2, 3) * 1e-30, axis=1, note="tiny", dtypes=_WIDE),
    rough(normal(2, 3) * 1e30, axis=1, note="huge", dtypes=_WIDE),
    rough(normal(2, 3) * 1e30, axis=1, ord=3, note="huge cubes", dtypes=_WIDE),
    rough(np.array([[1.0, np.inf], [np.nan, 1.0]]), axis=1),
    wrong(errors.InputValueError, normal(0, 3), axis=0, ord=_INF),
    wrong(errors.AxisError, normal(2, 3), axis=2),
    wrong(errors.InputTypeError, normal(2, 3), ord="fro"),
)


def _cdist(x1: Array, x2: Array, *, p: float = 2) -> Any:
    away = x1[..., :, None, :] - x2[..., None, :, :]
    if not away.shape[-1]:
        return np.zeros(away.shape[:-1])
    return _vector_norm(away, axis=-1, ord=p)


suite("cdist", _cdist)(
    call(normal(3, 4), normal(5, 4, seed=1)),
    call(normal(2, 1, 3, 5), normal(6, 4, 5, seed=1), note="stacks broadcast"),
    *(call(away(3, 2), away(4, 2, seed=1), p=p) for p in (0, 0.5, 1, 3, _INF)),
    call(integers(-5, 5, 3, 2), integers(6, 9, 4, 2), note="integers"),
    call(normal(0, 2), normal(3, 2), note="no rows"),
    call(normal(2, 0), normal(3, 0), note="rows of nothing"),
    call(normal(2, 0), normal(3, 0), p=_INF, note="the largest of nothing"),
    call(normal(3, 2) + 1e3, normal(3, 2, seed=1) + 1e3, note="far from 0", dtypes=_WIDE),
    rough(normal(3, 2), normal(3, 2), note="equal rows"),
    rough(normal(2, 3) * 1e30, normal(2, 3, seed=1) * 1e30, note="huge", dtypes=_WIDE),
    *(
        rough(np.array([[np.inf, 1.0], [np.nan, 1.0]]), np.array([[0.0, 1.0]]), p=p)
        for p in (0, 1, 2, 3, _INF)
    ),
    wrong(errors.ShapeError, normal(3), normal(3)),
    wrong(errors.ShapeError, normal(2, 3), normal(2, 4)),
    wrong(errors.ShapeError, normal(2, 3), normal(2, 1)),
    wrong(errors.ShapeError, normal(2, 2, 3), normal(3, 2, 3)),
    wrong(errors.InputValueError, normal(2, 3), normal(2, 3), p=-1),
    wrong(errors.InputTypeError, normal(2, 3), normal(2, 3), p="fro"),
    wrong(errors.DTypeError, cnormal(2, 3), cnormal(2, 3)),
)


def _cdist_slopes(x1: Array, x2: Array, g: Array, *, p: float = 2) -> Any:
    """The derivatives of the norms of all differences, and their sums."""
    away = x1[..., :, None, :] - x2[..., None, :, :]
    if not away.shape[-1]:
        return np.zeros(x1.shape), np.zeros(x2.shape)
    norm = _cdist(x1, x2, p=p)[..., None]
    size = np.abs(away)
    if p == _INF:
        extreme = (size == norm) * 1.0
        slopes = np.sign(away) * extreme / np.sum(extreme, axis=-1, keepdims=True)
    else:
        ratio = size / np.where(norm == 0, 1, norm)
        powers = np.where(size == 0, 0, np.where(size == 0, 1, ratio) ** (p - 1))
        slopes = np.sign(away) * powers * (p != 0)
    slopes = slopes * g[..., None]
    return _as(np.sum(slopes, axis=-2), x1.shape), _as(-np.sum(slopes, axis=-3), x2.shape)


def _as(x: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the axes along which an array of that shape was broadcast."""
    x = np.sum(x, axis=tuple(range(x.ndim - len(shape))))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    found: Array = np.sum(x, axis=axes, keepdims=True)
    return found


def _cdist_slopes_size(x1: Array, x2: Array, g: Array, *, p: float = 2) -> Any:
    """Each term is at most as large as g, but for p below 1."""
    if 0 < p < 1:
        away = np.abs(x1[..., :, None, :] - x2[..., None, :, :])
        least = np.where(away == 0, np.inf, away).min(initial=np.inf)
        most = (np.max(_cdist(x1, x2, p=p), initial=0) / least) ** (1 - p)
    else:
        most = 1.0
    total = np.sum(np.abs(g)) * most
    return np.full(x1.shape, total), np.full(x2.shape, total)


_SLOPED = normal(3, 5, seed=2)
suite("cdist_gradient", _cdist_slopes, scale=_cdist_slopes_size)(
    call(normal(3, 4), normal(5, 4, seed=1), _SLOPED),
    call(normal(2, 1, 3, 5), normal(6, 5, 5, seed=1), normal(2, 6, 3, 5, seed=2), note="stacks"),
    *(call(away(3, 2), away(5, 2, seed=1), _SLOPED, p=p) for p in (1, 1.5, 3)),
    *(rough(away(3, 2), away(5, 2, seed=1), _SLOPED, p=p) for p in (0, 0.5, _INF)),
    rough(normal(80, 3), normal(70, 3, seed=1), normal(80, 70, seed=2), note="many rows"),
    rough(normal(70, 2), normal(70, 2), normal(70, 70, seed=2), note="equal rows"),
    rough(normal(90, 2) + 1e3, normal(70, 2) + 1e3, normal(90, 70), note="far", dtypes=_WIDE),
    call(integers(-5, 5, 3, 2), integers(6, 9, 5, 2), integers(1, 4, 3, 5), note="integers"),
    call(normal(0, 2), normal(3, 2), normal(0, 3), note="no rows"),
    call(normal(2, 0), normal(3, 0), normal(2, 3), note="rows of nothing"),
    wrong(errors.ShapeError, normal(2, 3), normal(4, 3), normal(4, 2)),
    wrong(errors.InputValueError, normal(2, 3), normal(2, 3), normal(2, 2), p=-1),
)


def _matrix_norm(x: Array, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return np.linalg.norm(x, ord, axis=(-2, -1), keepdims=keepdims)


suite("matrix_norm", _matrix_norm)(
    *(call(normal(3, 4), ord=o) for o in ("fro", "nuc", 1, 2, -1, -2, _INF, -_INF)),
    *(call(cnormal(2, 3, 2), ord=o) for o in ("fro", "nuc", 1, 2)),
    call(normal(2, 3, 4), keepdims=True, ord=2),
    call(normal(2, 3, 4), keepdims=True),
    call(normal(0, 3, 4), note="no matrices"),
    wrong(errors.ShapeError, normal(3)),
    wrong(errors.InputValueError, normal(2, 3), ord=3),
    wrong(errors.InputValueError, normal(0, 3), ord=2),
)
