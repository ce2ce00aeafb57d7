"""Factors and linear systems: by LAPACK where NumPy's build has it, else by NumPy.

Small matrices take less time in NumPy's loops over a stack, and some are eliminated here. What
LAPACK leaves of infinities and NaN depends on its blocks: results that are not finite are made anew
without it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback import array_api
from pullback.plugins.records import Kernel, may_decline
from pullback_numpy import lapack
from pullback_numpy.half import narrowed, widened
from pullback_numpy.kernels.linalg import in_float32, quiet
from pullback_numpy.typing import Array, Sizes

_NUMPYS = array_api.kernels(np)
#: From so many elements of a matrix on NumPy's own calls of LAPACK take more time.
_LEAST = {"cholesky": 128**2, "inv": 80**2, "qr": 64**2, "solve": 96**2}
#: Matrices of fewer rows or columns are not taken one by one where there are many.
_ROWS = 12
#: Elements of one matrix whose LU factors LAPACK has sooner than Python's numbers.
_FACTORED = 17


def _is_served(x: Array, least: int = 1) -> bool:
    """True for matrices that LAPACK takes, of at least so many elements each."""
    return x.ndim > 1 and 0 < x.size >= least * math.prod(x.shape[:-2]) and lapack.serves(x)


def _is_finite(x: Array) -> bool:
    return bool(np.isfinite(x).all())


def _stacked(x: Array) -> Array:
    """The matrices as a stack of one axis."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


# ---------------------------------------------------------------------------------------------
# LU factors.


#: So many columns are eliminated one by one, and then a product takes them from the others.
_PANEL = 32


def _row_order(pivots: Array, *, rows: int) -> Array:
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    if len(flat) == 1 and flat.shape[1] <= rows:
        one = list(range(rows))
        for j, other in enumerate(flat[0].tolist()):
            one[j], one[other] = one[other], one[j]
        return np.array(one, np.int64).reshape(*pivots.shape[:-1], rows)
    order = np.tile(np.arange(rows), (len(flat), 1))
    if flat.shape[1] > rows:
        raise ValueError("there are more pivots than rows")
    items = np.arange(len(flat))
    for j in range(flat.shape[1]):
        _exchange(order, items, j, flat[:, j])
    return order.reshape(*pivots.shape[:-1], rows)


def _exchange(x: Array, items: Array, first: int, others: Array) -> None:
    """Exchanges a row of each item with another one."""
    kept = x[:, first].copy()
    x[:, first] = x[items, others]
    x[items, others] = kept


#: The elements of a matrix up to which Python's numbers take less time than calls of NumPy.
_FEW = 36
_SINGLE_OR_DOUBLE = (np.dtype(np.float32), np.dtype(np.float64))


def _lu_of_few(x: Array) -> tuple[Array, Array] | None:
    """As `_lu_factor`, of one matrix of real numbers; None where one is NaN or infinite."""
    rows, pivots = x.tolist(), []
    m, n = x.shape
    for j in range(min(m, n)):
        sizes = [abs(row[j]) for row in rows[j:]]
        top = max(sizes)
        pivot = j + sizes.index(top)
        pivots.append(pivot)
        rows[j], rows[pivot] = rows[pivot], rows[j]
        first = rows[j]
        for row in rows[j + 1 :] if top else ():
            factor = row[j] = row[j] / first[j]
            row[j + 1 :] = [
                a - factor * b for a, b in zip(row[j + 1 :], first[j + 1 :], strict=True)
            ]
    lu = np.array(rows, x.dtype)
    return (lu, np.array(pivots, np.int32)) if np.isfinite(lu).all() else None


def _eliminate(x: Array, pivots: Array, start: int, stop: int) -> None:
    """Eliminates some columns of one matrix, whose rows are exchanged whole."""
    for j in range(start, stop):
        pivot = pivots[j] = int(np.abs(x[j:, j]).argmax()) + j
        if pivot != j:
            kept = x[j].copy()
            x[j] = x[pivot]
            x[pivot] = kept
        top, below = x[j, j], x[j + 1 :]
        if top != 0:
            below[:, j] /= top
        below[:, j + 1 : stop] -= below[:, j, None] * x[j, j + 1 : stop]


def _lu_factor(x: Array) -> tuple[Array, Array]:
    wide = widened(x)
    # LAPACK's pivots are by |re| + |im|, the op's by the absolute value.
    side = min(x.shape[-2:])
    is_real = wide.dtype.kind == "f"
    are_few = side >= _ROWS or math.prod(x.shape[:-2]) <= side * side
    if is_real and are_few and _is_served(wide, _FACTORED):
        lu, pivots = lapack.lu(_stacked(wide))
        if _is_finite(lu):
            lu, places = lu.reshape(x.shape), pivots.astype(np.int32)
            return narrowed(lu, x), places.reshape(*x.shape[:-2], places.shape[1])
    if x.ndim == 2 and x.dtype in _SINGLE_OR_DOUBLE and 0 < x.size <= _FEW:
        found = _lu_of_few(x)
        if found is not None:
            return found
    return _eliminated(x)


def _eliminated(x: Array) -> tuple[Array, Array]:
    *stack, m, n = x.shape
    lu = np.array(widened(x), order="C").reshape(math.prod(stack), m, n)
    pivots = np.empty((len(lu), min(m, n)), np.int32)
    items = np.arange(len(lu))
    one = lu.dtype.type(1)
    for start in range(0, min(m, n), _PANEL):
        stop = min(start + _PANEL, m, n)
        if len(lu) == 1:
            _eliminate(lu[0], pivots[0], start, stop)
        for j in range(start, stop) if len(lu) > 1 else ():
            pivots[:, j] = np.abs(lu[:, j:, j]).argmax(1) + j
            _exchange(lu, items, j, pivots[:, j])
            top, below = lu[:, j, j, None], lu[:, j + 1 :]
            below[:, :, j] /= np.where(top == 0, one, top)
            below[:, :, j + 1 : stop] -= below[:, :, j, None] * lu[:, j, None, j + 1 : stop]
        if stop < n:
            lower = np.tril(lu[:, start:stop, start:stop], -1) + np.eye(
                stop - start, dtype=lu.dtype
            )
            above = lu[:, start:stop, stop:] = np.linalg.solve(lower, lu[:, start:stop, stop:])
            lu[:, stop:, stop:] -= lu[:, stop:, start:stop] @ above
    return narrowed(lu.reshape(x.shape), x), pivots.reshape(*stack, min(m, n))


# ---------------------------------------------------------------------------------------------
# Systems.


def _systems(x1: Array, x2: Array, least: int = 1) -> tuple[Array, Array, Sizes] | None:
    """Square matrices, the right sides of each, and the shape of the solutions.

    There may be one matrix for all right sides. None where LAPACK does not take them.
    """
    right = x2[:, None] if x2.ndim == 1 else x2
    if x1.dtype != right.dtype or not (_is_served(x1, least) and _is_served(right)):
        return None
    n, columns = right.shape[-2:]
    if x1.shape[-2:] != (n, n):
        return None
    stack = x1.shape[:-2]
    if stack != right.shape[:-2]:
        stack = np.broadcast_shapes(stack, right.shape[:-2])
        right = np.broadcast_to(right, (*stack, n, columns))
        if x1.size > n * n:
            x1 = np.broadcast_to(x1, (*stack, n, n))
    shape = (*stack, n) if x2.ndim == 1 else (*stack, n, columns)
    return _stacked(x1), _stacked(right), shape


def _plain(x: Array) -> Array:
    """Matrices whose rows or columns lie one behind the other."""
    is_plain = x.flags.c_contiguous or x.swapaxes(1, 2).flags.c_contiguous
    return x if is_plain and x.flags.aligned else np.array(x, order="C")


def _check_diagonal(x: Array) -> None:
    if not x.diagonal(0, 1, 2).all():
        raise np.linalg.LinAlgError("Singular matrix")


def _solved_by(lu: Array, pivots: Array, right: Array) -> Array:
    """The solutions of systems by the factors of their matrices."""
    _check_diagonal(lu)
    order = _row_order(pivots, rows=lu.shape[1])
    if len(order) == 1:
        y: Array = right.take(order[0], axis=1)
    else:
        y = right[np.arange(len(order))[:, None], order]
    _substitute(lu, y, upper=False, unit=True)
    _substitute(lu, y, upper=True, unit=False)
    return y


def _substitute(x1: Array, y: Array, *, upper: bool, unit: bool) -> None:
    """Solves systems of triangles in place of their right sides: many small ones row by row."""
    items, n, _ = y.shape
    if n >= _ROWS or items <= n:
        lapack.substitute(_plain(x1), y, upper=upper, unit=unit)
        return
    for step in range(n):
        i, known = (n - 1 - step, slice(n - step, n)) if upper else (step, slice(step))
        row = y[:, i]
        if step:
            row -= np.einsum("ij,ijk->ik", x1[:, i, known], y[:, known])
        if not unit:
            row /= x1[:, i, i, None]


def _solve(x1: Array, x2: Array) -> Any:
    systems = _systems(x1, x2, _LEAST["solve"])
    if systems is not None:
        matrices, right, shape = systems
        lu, pivots = lapack.lu(matrices)
        if _is_finite(lu):
            y = _solved_by(lu, pivots, right)
            if _is_finite(y):
                return y.reshape(shape)
    return _NUMPYS["solve"](x1, x2)


@may_decline
def _lu_solve(lu: Array, pivots: Array, x2: Array) -> Any:
    systems = _systems(lu, x2)
    n = lu.shape[-1]
    if systems is None or pivots.shape != lu.shape[:-1] or pivots.min() < 0 or pivots.max() >= n:
        return NotImplemented
    matrices, right, shape = systems
    if len(matrices) > 1:
        pivots = np.broadcast_to(pivots, (*shape[: len(shape) - min(x2.ndim, 2)], n))
    y = _solved_by(matrices, pivots.reshape(len(matrices), n), right)
    return y.reshape(shape) if _is_finite(y) else NotImplemented


@may_decline
def _solve_triangular(x1: Array, x2: Array, *, upper: bool, unit_diagonal: bool) -> Any:
    systems = _systems(x1, x2)
    if systems is None:
        return NotImplemented
    matrices, right, shape = systems
    if not unit_diagonal:
        _check_diagonal(matrices)
    y = np.array(right, order="C")
    _substitute(matrices, y, upper=upper, unit=unit_diagonal)
    return y.reshape(shape) if _is_finite(y) else NotImplemented


def _inv(x: Array) -> Array:
    if _is_served(x, _LEAST["inv"]) and x.shape[-2] == x.shape[-1]:
        lu, pivots = lapack.lu(_stacked(x))
        if _is_finite(lu):
            _check_diagonal(lu)
            y = lapack.inverse(lu, pivots)
            if _is_finite(y):
                return y.reshape(x.shape)
    return np.linalg.inv(x)


# ---------------------------------------------------------------------------------------------
# Other factors.


def _qr(x: Array, *, mode: str) -> Any:
    if _is_served(x, _LEAST["qr"]):
        rows = x.shape[-2]
        columns = rows if mode == "complete" else min(x.shape[-2:])
        q, r = lapack.qr(_stacked(x), columns)
        if _is_finite(r):
            return q.reshape(*x.shape[:-1], columns), r.reshape(*x.shape[:-2], *r.shape[1:])
    return _NUMPYS["qr"](x, mode=mode)


def _cholesky(x: Array, *, upper: bool) -> Any:
    if _is_served(x, _LEAST["cholesky"]) and x.shape[-2] == x.shape[-1]:
        factors = lapack.cholesky(_stacked(x))
        # What is not finite reaches the diagonal of its column.
        if factors is not None and _is_finite(factors.diagonal(0, 1, 2)):
            factors = factors if upper else factors.swapaxes(1, 2).conj()
            return factors.reshape(x.shape)
    return _NUMPYS["cholesky"](x, upper=upper)


KERNELS: dict[str, Kernel] = {
    "cholesky": in_float32(_cholesky),
    "inv": in_float32(_inv),
    "lu_factor": quiet(_lu_factor),
    "lu_solve": in_float32(_lu_solve),
    "qr": in_float32(_qr),
    "row_order": _row_order,
    "solve": in_float32(_solve),
    "solve_triangular": in_float32(_solve_triangular),
}
