"""Memory of the pack's arrays, which are arrays like any other."""

import sys

import numpy as np
import pytest

import pullback as pb
from pullback_native import _native


def address(x):
    return x.__array_interface__["data"][0]


def test_large_arrays_begin_with_a_line_of_the_cache():
    kept = [_native.empty((1, size)) for size in range(4096, 100_000, 4093)]
    assert all(address(x) % 64 == 0 for x in kept)
    assert address(_native.negative(np.ones((70, 90), np.float32))) % 64 == 0


def test_they_own_their_memory_and_can_be_resized():
    x = _native.empty((64, 100))
    x[...] = np.arange(6400).reshape(64, 100)
    assert x.flags.owndata
    assert x.flags.writeable
    assert x.base is None
    assert sys.getsizeof(x) > x.nbytes
    x.resize((128, 100), refcheck=False)
    np.testing.assert_array_equal(x[:64].ravel(), np.arange(6400))
    np.testing.assert_array_equal(x[64:], 0)
    x.resize((10, 10), refcheck=False)
    np.testing.assert_array_equal(x.ravel(), np.arange(100))


def test_what_numpy_refuses_is_refused():
    with pytest.raises(ValueError, match="negative"):
        _native.empty((3, -5000))
    with pytest.raises(ValueError, match="too big"):
        _native.empty((2**40, 2**40))
    with pytest.raises(MemoryError):
        _native.empty((2**44, 4))
    with pytest.raises(TypeError):
        _native.empty([3])
    with pytest.raises(TypeError):
        _native.empty((3, "a"))
    assert _native.empty((0, 2**20)).shape == (0, 2**20)
    assert _native.empty(()).shape == ()


def test_memory_is_given_back():
    """A gigabyte in arrays of a megabyte, one at a time, is never in memory at once."""
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = pb.ones((512, 512))
    for _ in range(1000):
        x = x * 1.0
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    unit = 1 if sys.platform == "darwin" else 1024
    assert grown * unit < 200 * 2**20
