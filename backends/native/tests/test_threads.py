"""Threads of the pack: results, forks and several callers."""

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback_native import INSTRUCTIONS, _native
from pullback_native.kernels import KERNELS
from pullback_numpy.threads import number_of_threads

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape, np.float32)


LARGE = normal(1024, 512)
ROWS = normal(512)
WORK = {
    "tanh": lambda: pb.tanh(LARGE),
    "add": lambda: pb.add(LARGE, ROWS),
    "softmax": lambda: pb.softmax(LARGE),
    "softmax_gradient": lambda: gradient(pb.softmax, LARGE),
    "log_softmax_gradient": lambda: gradient(pb.log_softmax, LARGE),
    "silu_gradient": lambda: gradient(pb.silu, LARGE),
    "layer_norm": lambda: pb.layer_norm(LARGE, ROWS, ROWS),
    "layer_norm_gradient": lambda: gradient(lambda x, s: pb.layer_norm(x, s, None), LARGE, ROWS),
    "layer_norm of float64": lambda: gradient(
        lambda x, s: pb.layer_norm(x, s, s), LARGE.astype(float), ROWS.astype(float)
    ),
    "batch_norm": lambda: pb.batch_norm(LARGE, ROWS, ROWS, axis=-1),
    "batch_norm_gradient": lambda: gradient(
        lambda x, s: pb.batch_norm(x, s, None, axis=-1)[0], LARGE, ROWS
    ),
    "group_norm_gradient": lambda: gradient(
        lambda x, s: pb.group_norm(x, s, None, groups=4), LARGE.reshape(16, 64, 512), ROWS
    ),
    "thin matmul": lambda: pb.matmul(LARGE.reshape(-1, 4).T, LARGE.reshape(-1, 4)),
    "lstm": lambda: pb.lstm(
        LARGE.reshape(64, 16, 512), LARGE[:64, :32], LARGE[:64, 32:64], LARGE[:512, :128] / 9,
        LARGE[:32, :128] / 9, None,
    ),
    "sum": lambda: [pb.sum(LARGE, axis=axis) for axis in (None, 0, 1)],
    "mean": lambda: pb.mean(LARGE.reshape(64, 16, 512), axis=1),
    "segment_sum": lambda: pb.segment_sum(LARGE, np.arange(1024) % 37, 40),
    "take": lambda: pb.take(LARGE, np.arange(1024) * 7 % 1024),
    "concat": lambda: pb.concat([LARGE, LARGE[:, :7]], axis=1),
    "reshape": lambda: pb.reshape(pb.permute_dims(LARGE.reshape(64, 16, 8, 64), (0, 2, 1, 3)), -1),
    "max_pool": lambda: pb.max_pool(LARGE.reshape(8, 64, 64, 16), window=2),
}  # fmt: skip


def gradient(function, *inputs):
    tensors = [pb.asarray(x) for x in inputs]
    with pb.GradientTape() as tape:
        for tensor in tensors:
            tape.watch(tensor)
        y = function(*tensors)
        total = (y * y * y).sum()
    return tape.gradient(total, tensors)


def arrays(result):
    several = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(array) for array in several]


@pytest.mark.parametrize("name", WORK)
def test_results_do_not_depend_on_the_threads(name):
    results = []
    for count in (1, 2, 3, 2):
        with number_of_threads(count):
            results.append(arrays(WORK[name]()))
    # A product that BLAS computes in other pieces adds in another order: an error of some eps,
    # which each of the 64 steps of a recurrence may pass on in full.
    bound = 64 * np.finfo(np.float32).eps if name == "lstm" else 1e-6
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_allclose(a, b, rtol=bound, atol=bound)
    for a, b in zip(results[1], results[3], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def products_of_one_thread(monkeypatch):
    """Products that BLAS computes have one thread: in several, it may add in another order."""

    def alone(product):
        def call(*inputs):
            with number_of_threads(1):
                return product(*inputs)

        return call

    if INSTRUCTIONS == "base":
        for name in ("matmul", "linear"):
            monkeypatch.setattr(_native, name, alone(getattr(_native, name)))


@pytest.mark.usefixtures("products_of_one_thread")
@pytest.mark.parametrize("batch", [15, 17, 33])
def test_recurrences_of_uneven_parts_have_the_same_bits(batch):
    time, features, units, off = 20, 49, 128, {"reverse": False}
    x, h, c = normal(batch, time, features), normal(batch, units), normal(batch, units)
    results = []
    weights = [(normal(features, n * units), normal(units, n * units) / 9) for n in (4, 3)]
    slopes = normal(batch, time, units), normal(batch, units), normal(batch, units)
    for count in (1, 2, 3):
        with number_of_threads(count):
            lstm = KERNELS["lstm"](x, h, c, *weights[0], normal(512) * 0, None, **off)
            kept = lstm[0], *lstm[3:]
            back = KERNELS["lstm_gradient"](x, h, c, *weights[0], None, *kept, *slopes, **off)
            gru = KERNELS["gru"](x, h, *weights[1], None, None, None, **off)
            kept = gru[0], *gru[2:]
            gru_back = KERNELS["gru_gradient"](x, h, *weights[1], None, *kept, *slopes[:2], **off)
            results.append([*lstm, *back, *gru, *gru_back])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_works():
    with number_of_threads(2):
        expected = _native.tanh(LARGE)
        child = os.fork()
        if not child:
            same = all(np.array_equal(_native.tanh(LARGE), expected) for _ in range(20))
            os._exit(0 if same else 1)
        assert np.array_equal(_native.tanh(LARGE), expected)
        assert os.waitpid(child, 0)[1] == 0


def test_several_threads_call_at_once():
    expected = _native.sigmoid(LARGE)

    def repeats(_):
        return all(np.array_equal(_native.sigmoid(LARGE), expected) for _ in range(20))

    with number_of_threads(2), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(repeats, range(4)))
