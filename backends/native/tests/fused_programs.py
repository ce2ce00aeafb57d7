"""Functions to fuse, their graphs, and the bits of their results, for several files of tests."""

import numpy as np
from hypothesis import strategies as st

import pullback as pb
from pullback.devices import as_device
from pullback.graph.capture import Trace
from pullback.graph.passes.simplify import simplify
from pullback.tensor import Tensor

rng = np.random.default_rng(0)
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -90, 90, 0.5, -1e-8], np.float32
)


def normal(*shape):
    """Numbers with infinities, NaN, zeros and subnormal ones among them."""
    x = np.array(3 * rng.standard_normal(shape), np.float32)
    flat = x.reshape(-1)
    some = flat[:: max(1, flat.size // 20)]
    some[...] = rng.permutation(np.resize(SPECIAL, some.size))
    return x


def recorded(function, *arrays):
    arrays = [pb.asarray(array)._array for array in arrays]
    trace = Trace(as_device("cpu"))
    results = function(*[trace.argument(array, f"x{i}") for i, array in enumerate(arrays)])
    results = [results] if isinstance(results, Tensor) else list(results)
    trace.close()
    return simplify(trace.graph([result._array.value for result in results])), arrays


def same_bits(found, expected):
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype == np.float32:
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        found, expected = (np.where(np.isnan(x), 0, x).view(np.uint32) for x in (found, expected))
    assert np.array_equal(found, expected)


@st.composite
def programs(draw):
    """Straight lines of random ops on two arrays, a row and a number."""
    unary = st.sampled_from([pb.negative, pb.relu, pb.tanh, pb.sigmoid, pb.sum, pb.mean, pb.square])
    binary = st.sampled_from([pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum, pb.less])
    place = st.integers(0, 200)
    line = st.tuples(st.one_of(unary, binary), place, place, st.integers(0, 4))
    lines = draw(st.lists(line, min_size=2, max_size=30))
    kept = draw(st.lists(place, min_size=1, max_size=4))

    def function(*inputs):
        values = list(inputs)
        for op, i, j, axis in lines:
            x, y = values[i % len(values)], values[j % len(values)]
            if op in (pb.sum, pb.mean):
                values.append(op(x, axis=None if axis >= x.ndim else axis, keepdims=axis == 1))
            elif op is pb.less:
                values.append(pb.where(op(x, y), x, y))
            elif op in (pb.add, pb.subtract, pb.multiply, pb.divide, pb.maximum):
                values.append(op(x, y))
            else:
                values.append(op(x))
        return [values[-1 - i % len(lines)] for i in kept]

    return function
