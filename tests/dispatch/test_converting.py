"""Kernels that specialized code finds for tensors of dtypes that an op converts."""

import numpy as np
import pytest

import pullback as pb

OPS = {
    "sqrt": pb.sqrt, "exp": pb.exp, "logical_not": pb.logical_not, "fft": pb.fft.fft,
    "rfft": pb.fft.rfft, "mean": pb.mean, "std": pb.std, "softmax": pb.softmax,
}  # fmt: skip
PAIRS = {
    "logical_and": (pb.logical_and, np.logical_and),
    "logical_or": (pb.logical_or, np.logical_or),
    "logical_xor": (pb.logical_xor, np.logical_xor),
    "divide": (pb.divide, np.divide),
    "atan2": (pb.atan2, np.arctan2),
}


def drawn(rng, dtype, *shape):
    return rng.integers(0, 3, shape).astype(dtype)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32"])
def test_later_calls_have_the_bits_of_the_first(name, dtype):
    x = pb.asarray(drawn(np.random.default_rng(1), dtype, 3, 4))
    pb.set_default_dtype(None)  # dispatch forgets all kernels
    try:
        first = OPS[name](x)
    except pb.errors.DTypeError:
        return
    for _ in range(4):
        later = OPS[name](x)
        assert later.dtype == first.dtype
        np.testing.assert_array_equal(later.numpy(), first.numpy())


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float16", "float32", "float64"])
def test_pairs(name, dtype):
    ours, theirs = PAIRS[name]
    rng = np.random.default_rng(2)
    for shape in [(5,), (), (2, 3), (0,), (5,)]:
        x, y = drawn(rng, dtype, *shape), drawn(rng, dtype, *shape) + 1
        found = ours(pb.asarray(x), pb.asarray(y))
        expected = theirs(x, y)
        assert found.shape == shape
        if expected.dtype == bool:
            assert found.dtype == pb.bool
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-3)


@pytest.mark.parametrize("values", [[0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45]])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_what_is_true(values, dtype):
    x = pb.asarray(values).astype(dtype)
    truth = x.astype("bool")
    for _ in range(3):
        assert pb.logical_not(x).tolist() == (~truth).tolist()
        assert pb.logical_and(x, x).tolist() == truth.tolist()
        assert pb.logical_xor(x, x).tolist() == [False] * 6


def test_a_gradient_has_the_dtype_of_what_was_given():
    x = pb.asarray([1.0, 2.0, 3.0])
    for recorded in (False, False, True, False, True):
        if recorded:
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = pb.fft.fft(x)
                loss = pb.sum(pb.real(y) ** 2)
            gradient = tape.gradient(loss, x)
            assert gradient.dtype == pb.float32
            np.testing.assert_allclose(gradient.numpy(), _slope(), 1e-5)
        else:
            np.testing.assert_allclose(pb.fft.fft(x).numpy(), np.fft.fft(x.numpy()), rtol=1e-5)


def _slope():
    x = np.array([1.0, 2.0, 3.0])
    matrix = np.fft.fft(np.eye(3)).real
    return 2 * matrix.T @ (matrix @ x)


def test_the_default_dtype_counts_at_each_call():
    x = pb.asarray([1, 4, 9], dtype=pb.int32)
    try:
        for name in ("float32", "float64", "float32"):
            pb.set_default_dtype(name)
            for _ in range(3):
                assert pb.sqrt(x).dtype == name
    finally:
        pb.set_default_dtype(None)


def test_errors_are_those_of_the_op():
    x = pb.asarray([[1, 2], [3, 4]], dtype=pb.int64)
    messages = set()
    for _ in range(4):
        with pytest.raises(pb.errors.AxisError) as raised:
            pb.mean(x, axis=5)
        messages.add(str(raised.value))
        pb.mean(x, axis=1)
    assert len(messages) == 1


def test_captured_and_in_batches():
    f = pb.function(lambda x, y: pb.logical_and(x, y))
    x, y = pb.asarray([0, 1, 2], dtype=pb.int32), pb.asarray([1, 1, 0], dtype=pb.int32)
    for _ in range(4):
        assert f(x, y).tolist() == [False, True, False]
        assert pb.logical_and(x, y).tolist() == [False, True, False]
        assert pb.vmap(pb.logical_and)(x, y).tolist() == [False, True, False]


@pytest.mark.parametrize("name", ["sqrt", "logical_not", "mean", "fft"])
def test_graphs_have_conversions_as_calls(name):
    x = pb.asarray([0, 1, 4], dtype=pb.int32)
    expected = [OPS[name](x) for _ in range(3)][-1]
    f = pb.function(lambda x: OPS[name](x))
    for _ in range(4):
        found = f(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert "astype" in [call.op.name for call in f.graph.calls]
