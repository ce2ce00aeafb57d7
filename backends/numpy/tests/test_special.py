"""Special functions: few numbers, many, and their own ways give what the formulas give."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.array_api import special
from pullback_numpy.kernels import KERNELS, KERNELS_BY_DTYPE
from pullback_numpy.kernels.incomplete_gamma import FEW
from pullback_numpy.kernels.special import _SHORT

BODY = special.kernels(np)


def pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """a and x over orders of magnitude, a third of them near each other, and edges."""
    rng = np.random.default_rng(seed)
    a = 10 ** rng.uniform(-6, 4, count)
    x = np.where(
        rng.random(count) < 0.4, a * rng.uniform(0.3, 2, count), 10 ** rng.uniform(-6, 4, count)
    )
    edges = np.array([0.0, -1.0, np.inf, np.nan, 1.0, 1.5, 20.0, 1e-300, 1e300])
    at = rng.integers(0, count, 12)
    a[at], x[at[::-1]] = rng.choice(edges, 12), rng.choice(edges, 12)
    return a, x


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("count", [15, FEW, FEW + 1, 5000])
def test_incomplete_gamma_is_the_body(count: int, upper: bool, dtype: type) -> None:
    with np.errstate(all="ignore"):
        for seed in range(5):
            a, x = (array.astype(dtype) for array in pairs(count, seed))
            expected = BODY["regularized_gamma"](a, x, upper=upper)
            found = KERNELS["regularized_gamma"](a, x, upper=upper)
            assert found.dtype == dtype
            # The exponential of a logarithm that is as large as a.
            sizes = np.maximum(np.abs(np.log(np.maximum(expected.astype(np.float64), 1e-300))), 1)
            bound = {8: 1e-14 * (sizes + 30), 4: 2e-7, 2: 1e-3}[np.dtype(dtype).itemsize]
            away = np.abs(found.astype(np.float64) - expected)
            alike = (found == expected) | (np.isnan(found) & np.isnan(expected))
            tiny = np.finfo(dtype).smallest_normal
            assert (alike | (away <= bound * expected + tiny)).all()


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 4)), ((200, 1), (1, 30)), ((), (5,)), ((2, 0), (1, 0)), ((), ())]
)
def test_incomplete_gamma_broadcasts(shapes: tuple[tuple[int, ...], ...]) -> None:
    rng = np.random.default_rng(0)
    a, x = (np.asarray(rng.gamma(2, 2, shape)) for shape in shapes)
    found = KERNELS["regularized_gamma"](a, x, upper=False)
    expected = BODY["regularized_gamma"](*np.broadcast_arrays(a, x), upper=False)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("count", [0, 1, 10, _SHORT, _SHORT + 1])
@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("erfinv", {}),
        ("digamma", {}),
        ("lgamma", {}),
        ("polygamma", {"n": 1}),
        ("bessel_i", {"n": 0, "scaled": False}),
        ("bessel_i", {"n": 3, "scaled": True}),
    ],
)
def test_few_numbers_are_as_many(name: str, attributes: dict[str, object], count: int) -> None:
    x = np.random.default_rng(count).uniform(-0.999, 0.999, count) * (1 if name == "erfinv" else 20)
    with np.errstate(all="ignore"):
        found, expected = KERNELS[name](x, **attributes), BODY[name](x, **attributes)
        assert found.shape == x.shape
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        ends = np.array([np.inf, -np.inf, np.nan, 0.0, 1.0, -1.0])
        np.testing.assert_allclose(
            KERNELS[name](ends, **attributes), BODY[name](ends, **attributes), rtol=1e-13
        )


@pytest.mark.parametrize("name", ["erf", "erfc"])
@pytest.mark.parametrize("count", [0, 7, 256, 257])
def test_functions_of_c_take_16_bits(name: str, count: int) -> None:
    dtype = pb.bfloat16
    x = np.random.default_rng(1).uniform(-4, 4, count).astype(dtype)
    expected = BODY[name](x.astype(np.float64))
    found = KERNELS[name](x)
    assert found.dtype == dtype
    assert (np.abs(found.astype(np.float64) - expected) <= 2.0**-8 * np.abs(expected)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [0, 5, 16384, 16385, 100_001])
@pytest.mark.parametrize(("start", "step"), [(0.0, 0.25), (1.5, 1e-3), (2.0, -0.1)])
def test_ranges_in_blocks_are_those_of_one(
    dtype: type, length: int, start: float, step: float
) -> None:
    stop = start + length * step - step / 2 if length else start
    found = KERNELS["arange"](start=start, stop=stop, step=step, dtype=np.dtype(dtype), device=None)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, (np.arange(length) * step + start).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("count", [12, 5000, 200_000])
def test_hard_shrink_keeps_what_is_far(dtype: type, count: int) -> None:
    x = (np.random.default_rng(0).standard_normal(count) * 2).astype(dtype)
    x[:4] = [np.nan, np.inf, -np.inf, -0.0]
    found = KERNELS["hard_shrink"](x, threshold=0.5)
    np.testing.assert_array_equal(found, np.where(np.abs(x) <= 0.5, dtype(0), x))


@pytest.mark.parametrize("name", ["add", "less", "maximum"])
def test_16_bit_floats_in_another_order_of_axes(name: str) -> None:
    kernel = next(
        one for (op, dtypes), one in KERNELS_BY_DTYPE.items() if op == name and pb.float16 in dtypes
    )
    rng = np.random.default_rng(0)
    base = rng.standard_normal((40, 30, 50)).astype(np.float16)
    others = (
        base,
        base[:, :1],
        base[0, 0],
        base[0, 0, :1],
        rng.standard_normal(()).astype(np.float16),
    )
    for axes in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
        x = rng.standard_normal([base.shape[axis] for axis in np.argsort(axes)]).astype(np.float16)
        x = x.transpose(axes)
        assert x.shape == base.shape
        for other in (*others, x, x[..., ::-1]):
            for pair in ((x, other), (other, x)):
                found = kernel(*pair)
                np.testing.assert_array_equal(found, getattr(np, name)(*pair))
                assert found.shape == base.shape
