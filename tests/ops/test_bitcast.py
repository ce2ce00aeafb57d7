"""Bits as numbers of another dtype, beside NumPy's views."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes

REAL = [*dtypes.INTEGER, *dtypes.REAL_FLOATING]


def bits(shape, dtype, seed=0):
    """Any bits, those of NaN and of subnormal numbers among them."""
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(np.random.default_rng(seed).bytes(size), dtype).reshape(shape)


@pytest.mark.parametrize("source", REAL, ids=str)
def test_the_bits_stay_the_same(source):
    for target, laid_out in itertools.product(REAL, "CF"):
        ratio = max(target.itemsize // source.itemsize, 1)
        x = np.asarray(bits((3, 2, ratio), source), order=laid_out)
        x = x if ratio > 1 else x[..., 0]
        found = pb.bitcast(pb.asarray(x), target)
        parts = (source.itemsize // target.itemsize,) if source.itemsize > target.itemsize else ()
        assert (found.dtype, found.shape) == (target, (3, 2, *parts))
        assert found.numpy().tobytes() == x.tobytes()
        # Those of the other way are x again, bit for bit.
        assert pb.bitcast(found, source).numpy().tobytes() == x.tobytes()


def test_transforms():
    x = pb.asarray(bits((4, 3, 2), np.dtype("uint16")))
    expected = x.numpy().view(np.uint32)[..., 0]
    assert pb.vmap(lambda x: pb.bitcast(x, "uint32"))(x).tolist() == expected.tolist()
    assert pb.function(lambda x: pb.bitcast(x, "uint32"))(x).tolist() == expected.tolist()
    assert pb.eval_shape(lambda x: pb.bitcast(x, "uint8"), x) == pb.TensorSpec(
        (4, 3, 2, 2), "uint8"
    )


def test_no_gradient_goes_through_bits():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = pb.bitcast(pb.bitcast(x, "int32") + 1, "float32")
    assert y.tolist() == [np.nextafter(np.float32(v), np.float32(9)) for v in (1.0, 2.0)]
    assert tape.gradient(y, x) is None


@pytest.mark.parametrize(
    ("x", "dtype", "error"),
    [
        ([True], "int8", pb.errors.DTypeError),
        ([1], "bool", pb.errors.DTypeError),
        ([1j], "int64", pb.errors.DTypeError),
        ([1.0], "complex64", pb.errors.DTypeError),
        ([1, 2, 3], "int64", pb.errors.ShapeError),
        (1, "int64", pb.errors.ShapeError),
    ],
)
def test_what_has_no_bits_for_it_is_an_error(x, dtype, error):
    with pytest.raises(error, match=r"^bitcast: "):
        pb.bitcast(x, dtype)
