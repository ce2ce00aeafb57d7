"""LAPACK and BLAS of the OpenBLAS in NumPy's wheels: factors, and systems of triangles.

`np.linalg` has neither LU factors nor systems of triangles, and its `solve`, `inv`, `qr` and
`cholesky` take up to five times as long for large matrices as the functions that they call. So
these are called here, by ctypes, which releases Python's lock and costs one to two microseconds a
call. They are CBLAS's and LAPACKE's: their numbers go by value, and no lengths of strings go behind
the arguments, as compilers of Fortran have it. LAPACKE's `_work` functions neither look for NaN nor
allocate.

`serves` says whether a build has them; where it does not, kernels do without. Arguments are
contiguous stacks (items, rows, columns) of one dtype, with elements and of sizes that fit: nothing
is checked here. LAPACK's matrices go column by column, so that most results are transposed views.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback_numpy import threads
from pullback_numpy.typing import Array, DType

_BY_ROWS, _BY_COLUMNS = 101, 102
_AS_IT_IS, _TRANSPOSED = 111, 112
_UPPER, _LOWER = 121, 122
_DIVIDED, _UNIT = 131, 132
_LEFT = 141

#: The letter that stands for a dtype in names.
_LETTERS = {"s": np.float32, "d": np.float64, "c": np.complex64, "z": np.complex128}
#: The arguments of functions: `e` one of the numbers above, `i` a size, `c` a character, `n` a
#: number of the dtype, `p` a pointer.
_BLAS = {"trsm": "eeeeeiinpipi", "trsv": "eeeeipipi", "gemm": "eeeiiinpipinpi"}
_LAPACK = {
    "geqrf": "eiipippi",
    "getrf": "eiipip",
    "getri": "eipippi",
    "lacpy": "eciipipi",
    "orgqr": "eiiipippi",
    "potrf": "ecipi",
}
#: Columns of work that LAPACK has for each column of a matrix, for its blocks.
_WORK = 64
#: Triangles up to this size go to BLAS at once, larger ones by halves: its products are faster.
_TRIANGLE = 64
#: Rows that are transposed at once, so that what is read of them stays in a cache.
_ROWS = 128
#: Calls of fewer terms stay in one thread by themselves, and a call of at least so many is worth a
#: second thread of BLAS's.
_FEW, _MANY = 512, 1 << 23
#: The same of the terms of a product of a matrix by a vector.
_FEW_OF_VECTOR = 1 << 13


def _find(library: Any) -> dict[DType, SimpleNamespace]:
    """The functions for each dtype; none where the library has not all of them."""
    for build in threads.BUILDS:
        config = getattr(library, build.format("get_config"), None)
        if config is None:
            continue
        config.argtypes, config.restype = [], ctypes.c_char_p
        is_long = b"USE64BITINT" in config()
        try:
            return {
                np.dtype(dtype): _functions(library, build.replace("openblas_", ""), one, is_long)
                for one, dtype in _LETTERS.items()
            }
        except AttributeError:
            continue
    return {}


def _functions(library: Any, build: str, letter: str, is_long: bool) -> SimpleNamespace:
    """The functions of a dtype, the type and the most of sizes, and the numbers 1 and -1."""
    number = {"s": ctypes.c_float, "d": ctypes.c_double}.get(letter, ctypes.c_void_p)
    integer = ctypes.c_int64 if is_long else ctypes.c_int
    types = {
        "e": ctypes.c_int, "i": integer, "c": ctypes.c_char, "n": number, "p": ctypes.c_void_p,
    }  # fmt: skip
    size = np.dtype(integer)
    found = SimpleNamespace(size=size, most=int(np.iinfo(size).max))
    for names, pattern in ((_BLAS, "cblas_{}{}"), (_LAPACK, "LAPACKE_{}{}_work")):
        for name, arguments in names.items():
            complex_name = name.replace("orgqr", "ungqr") if letter in "cz" else name
            function = getattr(library, build.format(pattern.format(letter, complex_name)))
            function.argtypes = [types[kind] for kind in arguments]
            function.restype = None if names is _BLAS else integer
            setattr(found, name, function)
    # BLAS takes complex numbers by their addresses.
    found.numbers = np.array([1, -1], _LETTERS[letter])
    first = found.numbers.ctypes.data
    found.one, found.less = (
        (first, first + found.numbers.itemsize) if letter in "cz" else (1.0, -1.0)
    )
    return found


_CALLS = _find(threads.LIBRARY)
_AS_THEY_ARE = nullcontext()


def serves(x: Array) -> bool:
    """True if there are functions for matrices of this dtype and size."""
    calls = _CALLS.get(x.dtype)
    return calls is not None and x.nbytes < calls.most


def _blas_threads(terms: int, few: int = _FEW) -> AbstractContextManager[None]:
    """BLAS's threads for calls of some terms: more than one where products have them, too."""
    if terms < few or (terms >= _MANY and threads.blas_splits()):
        return _AS_THEY_ARE
    return threads.single_blas


def _by_columns(x: Array) -> Array:
    """A copy of each matrix whose rows are the columns."""
    items, m, n = x.shape
    turned = np.empty((items, n, m), x.dtype)
    for start in range(0, m, _ROWS):
        rows = slice(start, start + _ROWS)
        turned[..., rows] = x[:, rows].swapaxes(1, 2)
    return turned


def lu(x: Array) -> tuple[Array, Array]:
    """The factors of each matrix, and the rows that were exchanged, counted from 0.

    LAPACK's pivots are the largest by |re| + |im|.
    """
    (items, m, n), calls = x.shape, _CALLS[x.dtype]
    turned = _by_columns(x)
    pivots = np.empty((items, min(m, n)), calls.size)
    at, place = turned.ctypes.data, pivots.ctypes.data
    with _blas_threads(m * n * min(m, n)):
        for _ in range(items):
            calls.getrf(_BY_COLUMNS, m, n, at, m, place)
            at += turned.strides[0]
            place += pivots.strides[0]
    pivots -= 1
    return turned.swapaxes(1, 2), pivots


def inverse(factors: Array, pivots: Array) -> Array:
    """The inverse of each matrix from its factors by `lu`, which it overwrites."""
    (items, n, _), calls = factors.shape, _CALLS[factors.dtype]
    pivots, work = pivots + 1, np.empty(n * _WORK, factors.dtype)
    at, place = factors.ctypes.data, pivots.ctypes.data
    with _blas_threads(n * n * n):
        for _ in range(items):
            calls.getri(_BY_COLUMNS, n, at, n, place, work.ctypes.data, work.size)
            at += factors.strides[0]
            place += pivots.strides[0]
    return factors


def qr(x: Array, columns: int) -> tuple[Array, Array]:
    """Orthonormal columns, so many of them, and the upper triangle of each matrix."""
    (items, m, n), calls = x.shape, _CALLS[x.dtype]
    least = min(m, n)
    turned = _by_columns(x)
    q = turned[:, :columns] if columns <= n else np.empty((items, columns, m), x.dtype)
    r = np.zeros((items, n, columns), x.dtype)
    scales, work = np.empty(least, x.dtype), np.empty(max(n, columns) * _WORK, x.dtype)
    scale, space, size = scales.ctypes.data, work.ctypes.data, work.size
    at, of_q, of_r = (one.ctypes.data for one in (turned, q, r))
    with _blas_threads(m * n * least):
        for item in range(items):
            calls.geqrf(_BY_COLUMNS, m, n, at, m, scale, space, size)
            calls.lacpy(_BY_COLUMNS, b"U", least, n, at, m, of_r, columns)
            if columns > n:
                q[item, :n] = turned[item]
            calls.orgqr(_BY_COLUMNS, m, columns, least, of_q, m, scale, space, size)
            at, of_q, of_r = at + turned.strides[0], of_q + q.strides[0], of_r + r.strides[0]
    return q.swapaxes(1, 2), r.swapaxes(1, 2)


def cholesky(x: Array) -> Array | None:
    """The upper factors of the Hermitian parts; None where one is not positive definite."""
    (items, n, _), calls = x.shape, _CALLS[x.dtype]
    half = np.empty(x.shape, x.dtype)
    factors = np.zeros(x.shape, x.dtype)
    for start in range(0, n, _ROWS):
        rows, behind = slice(start, start + _ROWS), slice(start, None)
        part = half[:, rows, behind]
        np.add(x[:, rows, behind], x[:, behind, rows].swapaxes(1, 2).conj(), out=part)
        part *= 0.5
    at, of_x = factors.ctypes.data, half.ctypes.data
    with _blas_threads(n * n * n):
        for _ in range(items):
            # The upper triangle of rows is the lower one of columns, of the conjugate matrix.
            calls.lacpy(_BY_COLUMNS, b"L", n, n, of_x, n, at, n)
            if calls.potrf(_BY_COLUMNS, b"L", n, at, n):
                return None
            at, of_x = at + factors.strides[0], of_x + half.strides[0]
    return factors


def substitute(x1: Array, y: Array, *, upper: bool, unit: bool) -> None:
    """Solves systems of triangles in place of their right sides y.

    x1 has as many matrices as y, or one; they may be transposed.
    """
    (items, n, columns), calls = y.shape, _CALLS[y.dtype]
    is_turned = x1.strides[2] != x1.itemsize
    triangle = _Triangle(calls, x1.itemsize, n, is_turned, upper, unit, columns)
    step = x1.strides[0] if len(x1) > 1 else 0
    at, of_y = x1.ctypes.data, y.ctypes.data
    with _blas_threads(n * n * columns, _FEW if columns > 1 else _FEW_OF_VECTOR):
        for _ in range(items):
            triangle.solve(at, of_y, n)
            at, of_y = at + step, of_y + y.strides[0]


class _Triangle:
    """Systems of triangles of one layout."""

    def __init__(
        self,
        calls: SimpleNamespace,
        itemsize: int,
        n: int,
        is_turned: bool,
        upper: bool,
        unit: bool,
        columns: int,
    ) -> None:
        self.calls, self.itemsize, self.n, self.upper = calls, itemsize, n, upper
        self.columns, self.turn = columns, _TRANSPOSED if is_turned else _AS_IT_IS
        #: The steps from a row to the next, and from a column to the next.
        self.down, self.right = (1, n) if is_turned else (n, 1)
        #: The triangle of what lies in memory.
        self.how = (
            _UPPER if upper != is_turned else _LOWER,
            self.turn,
            _UNIT if unit else _DIVIDED,
        )

    def solve(self, at: int, y: int, size: int) -> None:
        """Solves the system of a triangle of some size at an address."""
        calls, n, columns = self.calls, self.n, self.columns
        if columns == 1:
            calls.trsv(_BY_ROWS, *self.how, size, at, n, y, 1)
            return
        if size <= _TRIANGLE:
            calls.trsm(_BY_ROWS, _LEFT, *self.how, size, columns, calls.one, at, n, y, columns)
            return
        half, step = size // 2, self.itemsize
        top, bottom = (at, y), (at + half * (n + 1) * step, y + half * columns * step)
        if self.upper:
            known, of_known, other, of_other = *bottom, *top
            sizes, beside = (size - half, half), at + half * self.right * step
        else:
            known, of_known, other, of_other = *top, *bottom
            sizes, beside = (half, size - half), at + half * self.down * step
        self.solve(known, of_known, sizes[0])
        calls.gemm(
            _BY_ROWS, self.turn, _AS_IT_IS, sizes[1], columns, sizes[0],
            calls.less, beside, n, of_known, columns, calls.one, of_other, columns,
        )  # fmt: skip
        self.solve(other, of_other, sizes[1])
