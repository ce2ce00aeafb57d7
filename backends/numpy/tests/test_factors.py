"""Factors and systems: LAPACK's functions beside NumPy's and SciPy's, and builds without them."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import pullback as pb
from pullback_numpy import lapack, threads
from pullback_numpy.kernels import KERNELS, factors

DTYPES = ["float32", "float64", "complex64", "complex128"]
#: Sides on both sides of the limits for stacks, halves of triangles, and blocks of rows.
SIDES = [1, 2, 11, 12, 65, 130, 200]
LAYOUTS = ["plain", "transposed", "second", "reversed", "odd", "read-only"]


@pytest.fixture(params=["lapack", "without"])
def build(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A build of NumPy with LAPACK's functions, and one without them."""
    if request.param == "without":
        monkeypatch.setattr(lapack, "_CALLS", {})
    else:
        monkeypatch.setattr(factors, "_LEAST", dict.fromkeys(factors._LEAST, 1))
    name: str = request.param
    return name


def drawn(*shape: int, dtype: str, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    x: Any = draw.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * draw.standard_normal(shape)
    return x.astype(dtype)


def regular(*shape: int, dtype: str, seed: int = 0) -> Any:
    """Square matrices far from singular, whose rows are exchanged and that have no order."""
    n = shape[-1]
    x = drawn(*shape, dtype=dtype, seed=seed) / np.sqrt(n)
    order = np.random.default_rng(seed).permutation(n)
    return (x + 2 * np.eye(n)[order]).astype(dtype)


def laid(x: Any, layout: str) -> Any:
    """The same numbers in another layout."""
    if layout == "transposed":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "second":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :]
    if layout == "odd":
        place = np.empty(x.nbytes + 1, np.uint8)
        other = place[1:].view(x.dtype).reshape(x.shape)
        other[...] = x
        assert not other.flags.aligned or not x.size
        return other
    if layout == "read-only":
        x = x.copy()
        x.flags.writeable = False
    return x


def bound(dtype: str, n: int) -> float:
    return 20 * n * float(np.finfo(dtype).eps)


def solved(name: str, *arrays: Any, **options: Any) -> Any:
    """The kernel's result, or its body's where it declines."""
    result = KERNELS[name](*arrays, **options)
    if result is NotImplemented:
        result = getattr(pb.linalg, name)(*arrays, **options)
        result = result.numpy() if isinstance(result, pb.Tensor) else tuple(map(np.asarray, result))
    return result


@pytest.mark.parametrize("n", SIDES)
def test_systems(build: str, n: int) -> None:
    for turn, layout in enumerate(LAYOUTS):
        dtype = DTYPES[(turn + n) % 4]
        x1 = laid(regular(n, n, dtype=dtype), layout)
        triangles = laid((drawn(n, n, dtype=dtype) / n + 2 * np.eye(n)).astype(dtype), layout)
        for sides in ((n,), (n, 1), (n, 3)):
            x2 = drawn(*sides, dtype=dtype, seed=1)
            x2 = laid(x2, layout) if len(sides) > 1 else x2
            kept = x1.copy(), triangles.copy(), x2.copy()
            lu, pivots = solved("lu_factor", x1)
            for y in (solved("lu_solve", lu, pivots, x2), solved("solve", x1, x2)):
                assert (y.dtype, y.shape) == (x2.dtype, x2.shape)
                np.testing.assert_allclose(x1 @ y, x2, rtol=0, atol=bound(dtype, n) * 10)
            for upper in (False, True):
                for unit in (False, True):
                    how = {"upper": upper, "unit_diagonal": unit}
                    y = solved("solve_triangular", triangles, x2, **how)
                    part = (np.triu if upper else np.tril)(triangles)
                    part = np.where(np.eye(n, dtype=bool), 1, part) if unit else part
                    assert (y.dtype, y.shape) == (x2.dtype, x2.shape)
                    np.testing.assert_allclose(part @ y, x2, rtol=0, atol=bound(dtype, n))
            for one, before in zip((x1, triangles, x2), kept, strict=True):
                np.testing.assert_array_equal(one, before)
        inverse = solved("inv", x1)
        np.testing.assert_allclose(inverse @ x1, np.eye(n), rtol=0, atol=bound(dtype, n) * 10)


#: Stacks of matrices and of right sides, which broadcast.
STACKS = [
    ((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (3,)), ((1,), (4, 3)), ((2, 3), (2, 3)),
    ((0,), ()), ((30,), (30,)), ((30,), ()), ((), (30,)),
]  # fmt: skip


@pytest.mark.parametrize(("matrices", "sides"), STACKS)
@pytest.mark.parametrize("n", [1, 2, 11, 13, 70])
def test_stacks(build: str, matrices: Any, sides: Any, n: int) -> None:
    for dtype, layout in zip(DTYPES, LAYOUTS[:4], strict=True):
        x1 = laid(regular(*matrices, n, n, dtype=dtype), layout)
        x2 = laid(drawn(*sides, n, 4, dtype=dtype, seed=2), layout)
        shape = (*np.broadcast_shapes(matrices, sides), n, 4)
        lu, pivots = solved("lu_factor", x1)
        for y in (solved("lu_solve", lu, pivots, x2), solved("solve", x1, x2)):
            assert y.shape == shape
            right = np.broadcast_to(x2, shape)
            np.testing.assert_allclose(x1 @ y, right, rtol=0, atol=bound(dtype, n) * 20)
        how = {"upper": True, "unit_diagonal": False}
        lower = np.swapaxes(np.tril(x1, -1) / n + 2 * np.eye(n), -1, -2).astype(dtype)
        y = solved("solve_triangular", lower, x2, **how)
        assert y.shape == shape
        right = np.broadcast_to(x2, shape)
        np.testing.assert_allclose(lower @ y, right, rtol=0, atol=bound(dtype, n))


#: Square, tall and wide matrices, stacks, and such without elements.
SHAPES = [
    (5, 5), (70, 70), (150, 40), (40, 150), (3, 20, 15), (2, 3, 14, 14), (0, 3, 3), (3, 0),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_factors(build: str, shape: Any) -> None:
    for dtype, layout in zip(DTYPES, LAYOUTS[:4], strict=True):
        x = laid(drawn(*shape, dtype=dtype), layout)
        before, m, n = x.copy(), *shape[-2:]
        near = bound(dtype, max(m, n))
        lu, pivots = KERNELS["lu_factor"](x)
        assert (lu.dtype, pivots.dtype) == (x.dtype, np.int32)
        assert (lu.shape, pivots.shape) == (x.shape, (*shape[:-2], min(m, n)))
        for at in np.ndindex(shape[:-2]):
            if dtype.startswith("f") and x.size:
                np.testing.assert_array_equal(pivots[at], scipy.linalg.lu_factor(x[at])[1])
            lower = np.tril(lu[at][:, : min(m, n)], -1) + np.eye(m, min(m, n))
            rows = x[at][KERNELS["row_order"](pivots[at], rows=m)]
            product = lower @ np.triu(lu[at][: min(m, n)])
            np.testing.assert_allclose(product, rows, rtol=0, atol=near)
        for mode in ("reduced", "complete"):
            q, r = KERNELS["qr"](x, mode=mode)
            columns = m if mode == "complete" else min(m, n)
            assert (q.dtype, r.dtype) == (x.dtype, x.dtype)
            assert (q.shape, r.shape) == ((*shape[:-2], m, columns), (*shape[:-2], columns, n))
            np.testing.assert_allclose(q @ r, x, rtol=0, atol=near)
            turned = np.conj(np.swapaxes(q, -1, -2))
            unit = np.broadcast_to(np.eye(columns), (*shape[:-2], columns, columns))
            np.testing.assert_allclose(turned @ q, unit, rtol=0, atol=near)
            np.testing.assert_array_equal(r, np.triu(r))
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("n", [*SIDES[:-1], 150])
def test_cholesky(build: str, n: int) -> None:
    for dtype, layout in zip(DTYPES, LAYOUTS[:4], strict=True):
        for stack in ((), (2, 2)) if n < 70 else ((),):
            x = drawn(*stack, n, n, dtype=dtype)
            x = laid((x @ np.conj(np.swapaxes(x, -1, -2)) / n + np.eye(n)).astype(dtype), layout)
            turned = np.conj(np.swapaxes(x, -1, -2))
            # A matrix that is not Hermitian has the factors of its Hermitian part.
            odd = (x + np.triu(drawn(n, n, dtype=dtype), 1)).astype(dtype)
            half = (odd + np.conj(np.swapaxes(odd, -1, -2))) / 2 + np.eye(n)
            for one, whole in ((x, (x + turned) / 2), ((odd + np.eye(n)).astype(dtype), half)):
                if np.linalg.eigvalsh(whole).min() < 0.1:
                    continue
                lower = KERNELS["cholesky"](one, upper=False)
                upper = KERNELS["cholesky"](one, upper=True)
                assert (lower.dtype, lower.shape) == (x.dtype, x.shape)
                np.testing.assert_array_equal(lower, np.tril(lower))
                np.testing.assert_allclose(
                    lower @ np.conj(np.swapaxes(lower, -1, -2)), whole, rtol=0, atol=bound(dtype, n)
                )
                np.testing.assert_allclose(
                    np.conj(np.swapaxes(upper, -1, -2)), lower, rtol=0, atol=bound(dtype, n)
                )


@pytest.mark.parametrize("n", [2, 20, 200])
def test_singular_matrices(build: str, n: int) -> None:
    for dtype in DTYPES:
        x = regular(n, n, dtype=dtype)
        x[:, n // 2] = 0
        lu, pivots = KERNELS["lu_factor"](x)
        assert np.isfinite(lu).all()
        assert lu[n // 2, n // 2] == 0
        zero = np.eye(n, dtype=dtype)
        zero[0, 0] = 0
        side = np.ones(n, dtype)
        for call in (
            lambda lu=lu, pivots=pivots, side=side: pb.linalg.lu_solve(lu, pivots, side),
            lambda x=x, side=side: pb.linalg.solve(x, side),
            lambda x=x: pb.linalg.inv(x),
            lambda zero=zero, side=side: pb.linalg.solve_triangular(zero, side),
            lambda zero=zero, side=side: pb.linalg.solve_triangular(zero, side, upper=True),
        ):
            with pytest.raises(pb.errors.InputValueError, match="ingular"):
                call()
        with pytest.raises(pb.errors.InputValueError, match="definite"):
            pb.linalg.cholesky(-np.eye(n, dtype=dtype))
        same = pb.linalg.solve_triangular(zero, side, unit_diagonal=True)
        np.testing.assert_array_equal(same, side)


@pytest.mark.parametrize("n", [5, 13, 140])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_as_without_lapack(
    monkeypatch: pytest.MonkeyPatch, n: int, odd: float
) -> None:
    monkeypatch.setattr(factors, "_LEAST", dict.fromkeys(factors._LEAST, 1))
    draw = np.random.default_rng(n)
    for dtype in ("float32", "float64"):
        for _ in range(4):
            x, at = regular(n, n, dtype=dtype), draw.integers(n, size=2)
            x[tuple(at)] = odd
            lower = np.tril(drawn(n, n, dtype=dtype), -1) / n + 2 * np.eye(n, dtype=dtype)
            if at[0] != at[1]:
                lower[max(at), min(at)] = odd
            upper = lower.T
            definite = (x + x.T + 4 * n * np.eye(n)).astype(dtype)
            side = np.zeros((n, 2), dtype)
            pivots = np.arange(n, dtype=np.int32)
            calls: list[Any] = [
                lambda x=x: pb.linalg.lu_factor(x),
                lambda x=x: pb.linalg.inv(x),
                lambda x=x: pb.linalg.qr(x),
                lambda x=definite: pb.linalg.cholesky(x),
                lambda x=x, side=side: pb.linalg.solve(x, side + 1),
                lambda x=upper, side=side, p=pivots: pb.linalg.lu_solve(x, p, side + 1),
                lambda x=lower, side=side: pb.linalg.solve_triangular(x, side + 1),
                lambda x=upper, side=side: pb.linalg.solve_triangular(x, side + 1, upper=True),
            ]
            for call in calls:
                found = _attempt(call)
                with monkeypatch.context() as inner:
                    inner.setattr(lapack, "_CALLS", {})
                    expected = _attempt(call)
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
                    np.testing.assert_array_equal(np.isinf(one), np.isinf(other))


def _attempt(call: Any) -> list[Any]:
    try:
        result = call()
    except pb.errors.InputValueError as error:
        return [np.array(len(str(error)) * 0)]
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(one) for one in results]


@pytest.mark.parametrize("n", [20, 140])
def test_the_other_triangle_is_not_read(build: str, n: int) -> None:
    for upper in (False, True):
        x = regular(n, n, dtype="float64") / n + 2 * np.eye(n)
        x[(np.tril if upper else np.triu)(np.ones((n, n)), -1 if upper else 1) > 0] = np.nan
        side = drawn(n, 3, dtype="float64")
        clean = np.nan_to_num(x)
        for unit in (False, True):
            how = {"upper": upper, "unit_diagonal": unit}
            if unit:
                x[np.diag_indices(n)] = np.nan
            found = pb.linalg.solve_triangular(x, side, **how)
            expected = pb.linalg.solve_triangular(clean, side, **how)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_wrong_calls_of_kernels_reach_no_lapack(build: str) -> None:
    """Sizes that do not fit are never passed on to functions that would read beyond arrays."""
    x, wide = regular(150, 150, dtype="float64"), drawn(150, 151, dtype="float64")
    how = {"upper": False, "unit_diagonal": False}
    pivots = np.arange(150, dtype=np.int32)
    for name, arrays, options in [
        ("solve", (x, np.ones(149)), {}), ("solve", (wide, np.ones(150)), {}),
        ("inv", (wide,), {}), ("cholesky", (wide,), {"upper": False}),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"square|mismatch|broadcast"):
            KERNELS[name](*arrays, **options)
    for name, arrays, options in [
        ("solve_triangular", (x, np.ones(149)), how),
        ("solve_triangular", (wide, np.ones(150)), how),
        ("solve_triangular", (x, np.ones(150, np.float32)), how),
        ("lu_solve", (x, pivots[:-1], np.ones(150)), {}),
        ("lu_solve", (x, pivots + 1, np.ones(150)), {}),
        ("lu_solve", (x, pivots - 1, np.ones(150)), {}),
        ("lu_solve", (wide, pivots, np.ones(150)), {}),
    ]:  # fmt: skip
        assert KERNELS[name](*arrays, **options) is NotImplemented


def test_16_bit_floats(build: str) -> None:
    for dtype in (pb.float16, pb.bfloat16):
        x = regular(30, 30, dtype="float32").astype(dtype)
        side = drawn(30, 2, dtype="float32").astype(dtype)
        wide, right = x.astype("f4"), side.astype("f4")
        how = {"upper": True, "unit_diagonal": True}
        lu, pivots = KERNELS["lu_factor"](x)
        for name, arrays, more, options in [
            ("solve", (x, side), (wide, right), {}),
            ("inv", (x,), (wide,), {}),
            ("solve_triangular", (x, side), (wide, right), how),
            ("lu_solve", (lu, pivots, side), (lu.astype("f4"), pivots, right), {}),
        ]:
            y = solved(name, *arrays, **options)
            assert y.dtype == dtype
            exact = np.asarray(solved(name, *more, **options)).astype(dtype)
            eps = float(pb.finfo(dtype).eps)
            largest = np.abs(exact.astype("f4")).max()
            np.testing.assert_allclose(
                y.astype("f4"), exact.astype("f4"), rtol=2 * eps, atol=eps * largest
            )


def test_threads_share_nothing() -> None:
    """Calls from several threads have the results of calls from one."""
    x, side = regular(150, 150, dtype="float32"), drawn(150, 9, dtype="float32")

    def call() -> list[Any]:
        lu, pivots = KERNELS["lu_factor"](x)
        return [lu, solved("lu_solve", lu, pivots, side), *KERNELS["qr"](x, mode="reduced")]

    expected, found = call(), []

    def repeat() -> None:
        for _ in range(5):
            found.append(call())

    callers = [threading.Thread(target=repeat) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 20
    for results in found:
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert threads.single_blas.users == 0


class _Library:
    """A library that has all functions of a build but some, and counts none of its calls."""

    def __init__(self, build: str, config: bytes, lacks: str = "") -> None:
        self._build, self._config, self._lacks = build, config, lacks

    def __getattr__(self, name: str) -> Any:
        if name == self._build.format("get_config"):
            return ctypes.CFUNCTYPE(ctypes.c_char_p)(lambda: ctypes.cast(
                ctypes.create_string_buffer(self._config), ctypes.c_void_p).value)  # fmt: skip
        before, _, after = self._build.replace("openblas_", "").partition("{}")
        fits = name.startswith((f"{before}cblas_", f"{before}LAPACKE_")) and name.endswith(after)
        if not fits or (self._lacks and self._lacks in name):
            raise AttributeError(name)
        return ctypes.CFUNCTYPE(None)()


@pytest.mark.parametrize("build", threads.BUILDS)
def test_each_build_has_its_names_and_integers(build: str) -> None:
    for config, size in ((b"OpenBLAS USE64BITINT", 8), (b"OpenBLAS 0.3", 4)):
        found = lapack._find(_Library(build, config))
        assert {str(dtype) for dtype in found} == set(DTYPES)
        for dtype, calls in found.items():
            assert calls.size.itemsize == size
            assert ctypes.sizeof(calls.getrf.argtypes[1]) == size
            is_complex = dtype.kind == "c"
            assert (calls.trsm.argtypes[7] is ctypes.c_void_p) == is_complex


@pytest.mark.parametrize("lacks", ["trsm", "zungqr", "LAPACKE"])
def test_a_build_that_lacks_a_function_is_left_alone(lacks: str) -> None:
    assert lapack._find(_Library(threads.BUILDS[0], b"", lacks)) == {}
    assert lapack._find(None) == {}
