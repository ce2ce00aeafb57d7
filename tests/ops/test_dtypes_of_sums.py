"""Sums and products in another dtype than the values have: no part is dropped, gradients flow."""

import numpy as np
import pytest

import pullback as pb

SUMS = {
    "sum": pb.sum,
    "prod": pb.prod,
    "cumulative_sum": pb.cumulative_sum,
    "cumulative_prod": pb.cumulative_prod,
    "trace": lambda x, dtype: pb.linalg.trace(pb.linalg.outer(x, x), dtype=dtype),
}
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")


@pytest.mark.parametrize("name", SUMS)
def test_imaginary_parts_are_not_dropped(name):
    for source in COMPLEX:
        z = pb.asarray(np.array([1 + 2j, 3j, -1], source))
        for dtype in (*REAL, "int32", "int64", "bool"):
            with pytest.raises(pb.errors.DTypeError, match=r"imaginary parts; take pb.real\(x\)"):
                SUMS[name](z, dtype=dtype)
        for dtype in COMPLEX:
            assert SUMS[name](z, dtype=dtype).dtype == np.dtype(dtype)


@pytest.mark.parametrize("name", SUMS)
def test_gradients_of_real_values_summed_in_another_dtype(name):
    weights = np.array([1 + 2j, 3 - 1j, 0.5j])
    for source in REAL:
        x = pb.asarray(np.array([1.0, -2.0, 3.0], source))
        expected = pb.grad(lambda x: pb.sum(SUMS[name](x, dtype="float64") * weights.real))(x)
        for dtype in COMPLEX:
            total = lambda x, d=dtype: pb.real(pb.sum(SUMS[name](x, dtype=d) * weights))  # noqa: E731
            found = pb.grad(total)(x)
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5)
