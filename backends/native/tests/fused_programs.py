"""Functions to fuse, their graphs, and the bits of their results, for several files of tests."""

import importlib.util
from pathlib import Path

import numpy as np

import pullback as pb
from pullback_native import _native

_spec = importlib.util.spec_from_file_location(
    "shared_programs", Path(__file__).parents[3] / "tests/fused_programs.py"
)
_shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_shared)
recorded, groups = _shared.recorded, _shared.groups

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


def same_bits(found, expected):
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype == np.float32:
        assert np.array_equal(np.isnan(found), np.isnan(expected))
        found, expected = (np.where(np.isnan(x), 0, x).view(np.uint32) for x in (found, expected))
    assert np.array_equal(found, expected)


def smaller(x, y):
    return pb.where(pb.less(x, y), x, y)


def within(x):
    return pb.clip(x, -1.5, 0.5)


def bent(x, y):
    return pb.ops.leaky_relu_gradient(x, y, negative_slope=0.1)


def grown(x, y):
    return pb.ops.elu_gradient(x, y, alpha=1.5)


def programs():
    """Straight lines of random ops on two arrays, a row and a number."""
    return _shared.programs(
        (
            pb.negative,
            pb.relu,
            pb.tanh,
            pb.sigmoid,
            pb.square,
            pb.selu,
            pb.sign,
            pb.relu6,
            pb.hard_tanh,
            pb.hard_sigmoid,
            pb.hard_silu,
            pb.softsign,
            within,
        ),
        (
            pb.add,
            pb.subtract,
            pb.multiply,
            pb.divide,
            pb.maximum,
            smaller,
            pb.squared_error,
            pb.huber_loss,
            bent,
            grown,
        ),
        longest=30,
    )


def over_rows():
    """Functions of an array that take the rows of its last axis as a whole."""

    def by_rows(op, *starts):
        def function(x):
            if not x.ndim:
                return -x
            row = np.linspace(0.5, 2, x.shape[-1], dtype=np.float32)
            return op(x, *(row + np.float32(start) for start in starts))

        return function

    normalized = by_rows(lambda x, *rows: pb.batch_norm_inference(x, *rows, axis=-1), 0, 1, 2, 3)
    return (
        by_rows(pb.softmax), by_rows(pb.log_softmax), by_rows(pb.layer_norm), by_rows(pb.rms_norm),
        by_rows(pb.layer_norm, 0, 1), by_rows(pb.rms_norm, 0),
        lambda x: normalized(x) if x.ndim > 1 else pb.tanh(x),
    )  # fmt: skip


def row_programs():
    """Straight lines of elementwise ops, sums, and ops over rows."""
    return _shared.programs(
        (pb.negative, pb.tanh, *over_rows(), *over_rows()),
        (pb.add, pb.subtract, pb.multiply, pb.maximum, smaller),
        longest=20,
    )


def plans(monkeypatch):
    """The plans of kernels that are made from now on, with the kernels."""
    found = []

    def when_hot(kernel, function):
        found.append((function.args[0], kernel))

    monkeypatch.setattr(_native, "when_hot", when_hot)
    return found


def hot(x, times=60):
    """A captured function that runs often, and what it gives at the end."""
    function = pb.function(lambda x: pb.tanh(x * 1.5 + 0.5) * pb.sigmoid(x) + pb.exp(-x * x))
    for _ in range(times):
        result = function(x)
    return result.numpy()


def big():
    """An array so large that some runs over it make a kernel hot."""
    return pb.asarray(np.random.default_rng(0).standard_normal(1_000_000, np.float32))
