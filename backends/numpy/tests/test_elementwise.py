"""Elementwise kernels where NumPy's ufuncs are not the whole answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pullback as pb


@pytest.mark.parametrize("dtype", [pb.complex64, pb.complex128])
@pytest.mark.parametrize("other", [0.5, 2.0, 1e30, -0.5, -2.0, -1e30, 0.0, -0.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_tangents_of_infinite_parts_have_the_zero_of_the_standard(
    dtype: object, other: float, sign: float, shape: tuple[int, ...]
) -> None:
    z = np.full(shape, complex(sign * math.inf, other))
    result = pb.tanh(pb.asarray(z, dtype=dtype)).numpy()
    assert (result.real == sign).all()
    assert (result.imag == 0).all()
    assert (np.signbit(result.imag) == (math.copysign(1, other) < 0)).all()
    z = np.full(shape, complex(other, sign * math.inf))
    result = pb.tan(pb.asarray(z, dtype=dtype)).numpy()
    assert (result.imag == sign).all()
    assert (result.real == 0).all()
    assert (np.signbit(result.real) == (math.copysign(1, other) < 0)).all()
