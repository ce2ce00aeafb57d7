"""Products of integers, which go through double precision where that is exact."""

from __future__ import annotations

import numpy as np
import pytest

from pullback_numpy import products

rng = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_of_integers_wrap_around(dtype: str) -> None:
    kind = np.iinfo(dtype)
    for most in (3, 100, 1 << 20, kind.max):
        least = max(kind.min, -most)
        most = min(most, kind.max)
        for shapes in (((90, 80), (80, 70)), ((3, 70, 60), (3, 60, 50)), ((3, 70, 60), (60, 50))):
            a, b = (
                rng.integers(least, most, shape, dtype=dtype, endpoint=True) for shape in shapes
            )
            a.flat[0], b.flat[0] = kind.min, kind.max
            for x in (a, np.minimum(a, 9)):
                found = products.matmul(x, b)
                assert found.dtype == x.dtype
                np.testing.assert_array_equal(found, np.matmul(x, b))


def test_wrong_shapes_of_integers_raise() -> None:
    with pytest.raises(ValueError, match="matmul"):
        products.matmul(np.ones((900, 800), np.int32), np.ones((700, 900), np.int32))
