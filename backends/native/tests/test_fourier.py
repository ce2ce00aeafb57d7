"""Fourier transforms in C, beside NumPy's in float64."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback_native
from pullback_native import _native
from pullback_numpy import threads
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS

FROM_COMPLEX = ("fft", "ifft", "irfft", "hfft")
ONE_AXIS = (*FROM_COMPLEX, "rfft", "ihfft")
SEVERAL = ("fftn", "ifftn", "irfftn", "rfftn")
NORMS = ("backward", "ortho", "forward")
#: Of many passes, of two levels, with large primes, and with those that are left to NumPy.
LARGE = [1000, 1001, 1024, 2310, 4096, 6561, 10007, 16384, 30000, 2**15, 257 * 16, 263 * 4, 10**5]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels of NumPy's that are called."""
    calls: list[str] = []

    def counting(name: str) -> Any:
        def kernel(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return NUMPY_KERNELS[name](*args, **kwargs)

        return kernel

    names = (*ONE_AXIS, *SEVERAL)
    plain = pullback_native.NUMPY_KERNELS | pullback_native.FALLBACKS
    _native.prepare(plain | {name: counting(name) for name in names}, threads.threads)
    yield calls
    _native.prepare(plain, threads.threads)


def given(draw: Any, op: str, dtype: str, shape: Any) -> Any:
    x = draw.standard_normal(shape)
    if op in FROM_COMPLEX or op in SEVERAL[:3]:
        return (x + 1j * draw.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))
    return x.astype(dtype)


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def check(op: str, x: Any, dtype: str, **attributes: Any) -> Any:
    """Compares a transform with NumPy's of float64, in the norm of each row."""
    before = x.copy()
    y = getattr(_native, op)(x, **attributes)
    np.testing.assert_array_equal(x, before)
    expected = getattr(np.fft, op)(wide(x), **attributes)
    real = op in ("irfft", "hfft", "irfftn")
    assert y.shape == expected.shape
    assert y.dtype == (np.dtype(dtype) if real else np.result_type(dtype, np.complex64))
    axes = attributes.get("axes", attributes.get("axis"))
    numbers = np.prod(attributes.get("s", attributes.get("n")))
    error = np.sqrt((np.abs(y - expected) ** 2).sum(axes))
    scale = np.sqrt((np.abs(expected) ** 2).sum(axes))
    bound = (1 + np.log2(numbers)) * np.finfo(dtype).eps
    assert (error <= bound * scale).all(), (op, x.shape, attributes)
    return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", ONE_AXIS)
def test_all_lengths(op: str, dtype: str, instructions: str) -> None:
    draw = np.random.default_rng(1)
    step = 1 if instructions == pullback_native.INSTRUCTIONS else 4
    for n in (*range(1, 301, step), *LARGE[::step]):
        size = n // 2 + 1 if op in ("irfft", "hfft") else n
        size = max(1, size + int(draw.choice([0, 0, -1, -2, 1, 7])))
        shape = ((size,), (19, size), (size, 17), (3, size, 2))[draw.integers(4 if n < 5000 else 1)]
        axis = shape.index(size)
        check(op, given(draw, op, dtype, shape), dtype, n=n, axis=axis, norm=NORMS[n % 3])


def laid(x: Any, layout: str) -> Any:
    if layout == "transposed":
        return np.ascontiguousarray(x.T).T
    if layout == "second":
        return np.repeat(x, 2, axis=-1)[..., ::2]
    if layout == "reversed":
        return np.ascontiguousarray(x[::-1, ..., ::-1])[::-1, ..., ::-1]
    if layout == "repeated":
        return np.broadcast_to(x[:1], x.shape)
    return x


@pytest.mark.parametrize("layout", ["transposed", "second", "reversed", "repeated"])
@pytest.mark.parametrize("op", ONE_AXIS)
def test_layouts(op: str, layout: str, instructions: str) -> None:
    draw = np.random.default_rng(2)
    for shape in ((24, 10), (5, 6, 16), (2, 600), (700, 3), (40, 33)):
        x = given(draw, op, "float32", shape)
        for axis in range(len(shape)):
            for n in (shape[axis], 2 * shape[axis] - 3):
                options = {"n": n, "axis": axis, "norm": "ortho"}
                y = check(op, laid(x, layout), "float32", **options)
                assert y.flags.c_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("op", SEVERAL)
def test_several_axes(op: str, dtype: str, instructions: str) -> None:
    draw = np.random.default_rng(3)
    for shape, axes in (
        ((3, 4), (0, 1)), ((6, 64, 64), (1, 2)), ((2, 3, 32, 20), (2, 3)), ((5, 16, 16), (2, 1)),
        ((4, 6, 8), (0, 1, 2)), ((70, 40), (1,)), ((1, 4, 5, 1, 16, 17), (4, 5)),
        ((3, 30, 8, 8), (3,)), ((4, 16, 3, 16), (1, 3)),
    ):  # fmt: skip
        x = given(draw, op, dtype, shape)
        for layout in ("plain", "transposed", "second"):
            sizes = [shape[axis] for axis in axes]
            for s in (sizes, [size + 1 for size in sizes], [max(1, size - 2) for size in sizes]):
                check(op, laid(x, layout), dtype, s=tuple(s), axes=axes, norm="ortho")


def test_who_computes(counted: list[str]) -> None:
    """Lengths with large primes, single rows of primes and odd arrays are left to NumPy."""
    draw, norm = np.random.default_rng(4), "backward"
    x = given(draw, "fft", "float32", (40, 1009))
    served = {1000: True, 1001: True, 316: True, 257: True, 263: False, 1009: False, 13: True}
    for n, here in served.items():
        if n == 257 and pullback_native.INSTRUCTIONS != "avx512":
            continue  # fewer lanes take longer than NumPy's
        for op in ("fft", "ifft"):
            counted.clear()
            check(op, x, "float32", n=n, axis=1, norm=norm)
            assert counted == ([] if here else [op]), n
    for odd in (x[:0], x.astype(">c8"), np.zeros((3, 0), np.complex64), np.zeros((), np.complex64)):
        counted.clear()
        for kernel in (_native.fft, NUMPY_KERNELS["fft"]):
            try:
                y = kernel(odd, n=4, axis=odd.ndim - 1, norm=norm)
            except (IndexError, np.exceptions.AxisError):
                y = None
        assert counted == ["fft"]
        assert y is None or y.shape == (*odd.shape[:-1], 4)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_infinities_are_numpys(number: float, counted: list[str], instructions: str) -> None:
    draw = np.random.default_rng(5)
    for shape in ((3, 8), (40, 12), (2, 400)):
        for op in (*ONE_AXIS, "fftn", "rfftn", "irfftn"):
            x = given(draw, op, "float32", shape)
            flat = x.view(np.float32).reshape(-1)
            for place in (0, 1, 5, flat.size - 1):
                if op in ("irfft", "hfft", "irfftn") and place in (1, flat.size - 1):
                    continue  # imaginary parts that are not read
                odd = x.copy()
                odd.view(np.float32).reshape(-1)[place] = number
                n = shape[1] if op not in ("irfft", "hfft", "irfftn") else 2 * shape[1] - 2
                options: dict[str, Any] = {"n": n, "axis": 1}
                if op in SEVERAL:
                    options = {"s": (shape[0], n), "axes": (0, 1)}
                counted.clear()
                with np.errstate(all="ignore"):
                    y = getattr(_native, op)(odd, **options, norm="backward")
                    expected = NUMPY_KERNELS[op](odd, **options, norm="backward")
                assert counted == [op]
                np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_real_numbers_have_the_bits_of_complex_ones(dtype: str, instructions: str) -> None:
    """Those that NumPy's kernels do, too: a length with a large prime factor, an infinity."""
    draw = np.random.default_rng(10)
    for shape in ((40, 24), (3, 1000), (1, 4096), (5, 1009), (4, 2, 16, 16)):
        x = draw.standard_normal(shape).astype(dtype)
        odd = x.copy()
        odd.reshape(-1)[7] = np.inf
        for one in (x, x[::-1], odd):
            same = one.astype(np.result_type(dtype, np.complex64))
            for n in (shape[-1], shape[-1] + 3, shape[-1] - 4):
                options: dict[str, Any] = {"n": n, "axis": len(shape) - 1, "norm": "forward"}
                with np.errstate(all="ignore"):
                    for name in ("fft", "ifft"):
                        kernel = getattr(_native, name)
                        y, expected = kernel(one, **options), kernel(same, **options)
                        assert y.dtype == expected.dtype
                        assert y.tobytes() == expected.tobytes()
            options = {"s": shape[-2:], "axes": (len(shape) - 2, len(shape) - 1), "norm": "ortho"}
            with np.errstate(all="ignore"):
                for name in ("fftn", "ifftn"):
                    kernel = getattr(_native, name)
                    assert kernel(one, **options).tobytes() == kernel(same, **options).tobytes()


def test_what_is_converted() -> None:
    """Real floats are not; other numbers, and those of another precision, are."""
    x = np.random.default_rng(11).standard_normal((20, 30))

    def program(x: pb.Tensor) -> pb.Tensor:
        return pb.fft.ifft(pb.fft.fft(x.astype("complex64"), axis=0))

    for dtype in ("float32", "float64", "int32", "bool", "float16"):
        one = pb.asarray(x * 4).astype(dtype)
        for op in (pb.fft.fft, pb.fft.ifft, pb.fft.fftn, program):
            first = op(one)
            for _ in range(3):
                for later in (op(one), pb.function(op)(one)):
                    assert later.dtype == first.dtype
                    np.testing.assert_array_equal(later.numpy(), first.numpy())
        slope = pb.grad(lambda x: pb.sum(pb.abs(pb.fft.fft(x))))(one.astype("float32"))
        assert slope.dtype == pb.float32


def test_numbers_that_are_not_read() -> None:
    """Beyond n, and the imaginary parts of the ends of half a spectrum."""
    x = given(np.random.default_rng(6), "fft", "float32", (20, 9))
    for op in ("irfft", "hfft"):
        y = check(op, x, "float32", n=16, axis=1, norm="backward")
        odd = x.copy()
        odd.imag[:, [0, -1]] = np.nan
        np.testing.assert_array_equal(getattr(_native, op)(odd, n=16, axis=1, norm="backward"), y)
    odd = x.copy()
    odd[:, 6:] = np.inf
    assert np.isfinite(_native.fft(odd, n=6, axis=1, norm="backward")).all()


def test_threads_share_rows() -> None:
    """All bits are the same, whoever computes which rows, and which steps of a single one."""
    draw = np.random.default_rng(7)
    calls = []
    for op, shape, n, axis in (
        ("fft", (2000, 60), 60, 1), ("ifft", (60, 2000), 60, 0), ("rfft", (700, 200), 200, 1),
        ("fft", (3, 2**17), 2**17, 1), ("rfft", (2**18,), 2**18, 0),
        ("rfft", (3**11,), 3**11, 0), ("irfft", (10**5,), 200000, 0),
        ("hfft", (10**5,), 199999, 0), ("fft", (2**16, 3), 60000, 0),
        ("fft", (40, 5000), 6000, 1),
    ):  # fmt: skip
        calls.append((op, given(draw, op, "float32", shape), {"n": n, "axis": axis}))
    images = given(draw, "fftn", "float32", (50, 48, 32))
    calls += [("fftn", images, {"s": (48, 32), "axes": (1, 2)})]
    for op, x, options in calls:
        results = []
        for count in (1, 2, 3):
            with threads.number_of_threads(count):
                results.append(getattr(_native, op)(x, **options, norm="backward"))
        for other in results[1:]:
            np.testing.assert_array_equal(other, results[0])


def test_threads_share_plans() -> None:
    """More lengths than plans are kept, on threads that use and drop them at once."""
    draw, failures = np.random.default_rng(8), []
    inputs = {n: given(draw, "fft", "float32", (4, n)) for n in range(2, 62)}
    expected = {n: np.fft.fft(wide(x)) for n, x in inputs.items()}

    def work(seed: int) -> None:
        for n in np.random.default_rng(seed).integers(2, 62, 400):
            y = _native.fft(inputs[n], n=int(n), axis=1, norm="backward")
            if not np.allclose(y, expected[n], rtol=1e-4, atol=1e-4):
                failures.append(n)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_gradients(name: str) -> None:
    """The gradient of a weighted sum is the transform's transpose, which is linear."""
    draw = np.random.default_rng(9)
    op = getattr(pb.fft, name)
    x = given(draw, name, "float64", (3, 40))
    direction = given(draw, name, "float64", (3, 40))
    y = op(pb.asarray(x), axis=1).numpy()
    weights = draw.standard_normal(y.shape)

    def loss(x: pb.Tensor) -> pb.Tensor:
        return pb.sum(pb.real(op(x, axis=1)) * weights)

    slope = pb.grad(loss)(pb.asarray(x)).numpy()
    found = (np.conj(slope) * direction).real.sum()
    expected = float(loss(pb.asarray(direction)))
    assert abs(found - expected) < 1e-10 * np.linalg.norm(slope) * np.linalg.norm(direction)
