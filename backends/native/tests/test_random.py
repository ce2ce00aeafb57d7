"""Random numbers have NumPy's kernels' bits, for all keys, counters and sizes."""

import numpy as np
import pytest

from pullback_native import _native
from pullback_numpy.kernels import KERNELS as NUMPY_KERNELS
from pullback_numpy.threads import number_of_threads

pytestmark = pytest.mark.usefixtures("instructions")
rng = np.random.default_rng(0)

SHAPES = [(0,), (), (1,), (7,), (3, 5), (64,), (129,), (4097,), (70_001,)]
COUNTERS = [0, 5, 2**64 - 1, 2**64 - 3, 2**128 - 2, 2**192 - 1, 2**256 - 1, 2**255 + 12345]


def states():
    """Each counter with a small key and a large one."""
    for i, counter in enumerate(COUNTERS):
        yield counter, i
        yield counter, int.from_bytes(rng.bytes(16), "little")


def drawn(name, shape, dtype, key, counter):
    """The kernel's numbers, and those of NumPy's."""
    given = {"shape": shape, "key": key, "counter": counter, "dtype": np.dtype(dtype)}
    found = getattr(_native, name)(**given, device=None)
    expected = NUMPY_KERNELS[name](**given, device=None)
    assert (found.shape, found.dtype) == (shape, expected.dtype)
    return found, expected


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("random_bits", "uint32"), ("random_bits", "uint64"), ("random_uniform", "float32"),
        ("random_uniform", "float64"), ("random_uniform", "float16"), ("random_normal", "float64"),
    ],
)  # fmt: skip
def test_bits(name, dtype):
    for counter, key in states():
        for shape in SHAPES:
            found, expected = drawn(name, shape, dtype, key, counter)
            np.testing.assert_array_equal(found, expected)


def test_normal():
    for counter, key in states():
        for shape in SHAPES:
            found, expected = drawn("random_normal", shape, "float32", key, counter)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
            narrow, _ = drawn("random_normal", shape, "float16", key, counter)
            np.testing.assert_array_equal(narrow, found.astype(np.float16))


def test_normal_is_the_definition_in_double():
    size = 100_001
    half = (size + 1) // 2
    u, _ = drawn("random_uniform", (2 * half,), "float32", 3, 4)
    angle = (u[half:] * np.float32(2 * np.pi)).astype(np.float64)
    radius = np.sqrt(-2 * np.log1p(-u[:half].astype(np.float64)))
    exact = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]
    found, _ = drawn("random_normal", (size,), "float32", 3, 4)
    # Rounded once, where the result is not near 0.
    assert np.all(np.abs(found - exact) <= 1.2e-7 * np.abs(exact) + 1e-8)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999, 1.0])
def test_dropout(rate):
    for counter, key in [(0, 1), (2**64 - 2, 2**127 + 5)]:
        for shape in SHAPES:
            x = np.asarray(rng.standard_normal(shape), np.float32)
            if x.size > 3:
                x.reshape(-1)[:3] = np.inf, np.nan, -0.0
            for form, noise in ((x, shape), (np.asarray(x).T, shape[::-1])):
                given = {"rate": rate, "key": key, "counter": counter, "noise_shape": noise}
                found = _native.dropout(form, **given)
                expected = NUMPY_KERNELS["dropout"](form, **given)
                for one, other in zip(found, expected, strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_array_equal(one, other)


def test_dropout_of_shared_noise():
    x = np.ones((8, 5, 4), np.float32)
    given = {"rate": 0.5, "key": 1, "counter": 2, "noise_shape": (8, 1, 4)}
    for one, other in zip(
        _native.dropout(x, **given), NUMPY_KERNELS["dropout"](x, **given), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_bits_do_not_depend_on_threads():
    with number_of_threads(1):
        alone = [drawn("random_normal", (300_001,), "float32", 7, 8)[0]]
        alone.append(drawn("random_uniform", (1_000_003,), "float32", 7, 8)[0])
    with number_of_threads(3):
        found = [drawn("random_normal", (300_001,), "float32", 7, 8)[0]]
        found.append(drawn("random_uniform", (1_000_003,), "float32", 7, 8)[0])
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one, other)
