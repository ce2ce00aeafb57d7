"""The JAX backend: arrays there and back, kernels that JAX does otherwise, whole graphs."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import pullback as pb
from pullback import dtypes
from pullback.devices import as_device
from pullback_conformance.runner import conform

CPU = as_device("jax:cpu")


@pytest.fixture(autouse=True)
def on_jax():
    with CPU:
        yield


# The host ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_there_and_back(dtype):
    array = np.array([[0, 1, 2], [3, 4, 5]]).astype(dtype)
    for given in (array, array.T, array[::-1], array[:, ::2], array[0, 0], array[:0]):
        back = pb.asarray(given).numpy()
        assert back.dtype == dtype
        assert not back.flags.writeable
        np.testing.assert_array_equal(back, given)


def test_what_comes_in_is_copied_where_it_must_be():
    array = np.ones(1024, np.float32)
    copied = CPU.backend.from_host(array, CPU.native, copy=True)
    array[:] = 2
    assert copied.sum() == 1024


def test_dlpack_out_says_read_only():
    host = np.from_dlpack(pb.ones(3))
    assert host.tolist() == [1, 1, 1]
    assert not host.flags.writeable
    assert pb.from_dlpack(jnp.ones(3), device="jax:cpu").tolist() == [1, 1, 1]


# Settings ----------------------------------------------------------------------------------------

SETTINGS = """
import jax
before = dict(jax.config.values)
import pullback as pb
with pb.device("jax:cpu"):
    x = pb.asarray([1.0, 2.0], dtype="float64")
    f = pb.function(lambda x: pb.exp(x) @ x)
    for _ in range(3):
        f(x)
assert dict(jax.config.values) == before
assert jax.numpy.ones(2).dtype == "float32"
"""


def test_the_settings_of_the_process_stay():
    subprocess.run([sys.executable, "-c", SETTINGS], check=True)


def test_strict_settings_of_the_process_do_no_harm():
    x = pb.asarray([[1.0, 2.0], [3.0, np.nan]])
    with (
        jax.numpy_rank_promotion("raise"),
        jax.numpy_dtype_promotion("strict"),
        jax.debug_nans(True),
    ):
        assert pb.softmax(x + x[0])[0].tolist() == pytest.approx([0.1192029, 0.8807971])
        assert np.isnan(pb.sum(pb.take(x, pb.asarray([1]), axis=0)).item())


# Kernels -----------------------------------------------------------------------------------------


def test_some_ops_conform():
    report = conform("jax:cpu", ops=["full", "arange"], quick=True)
    assert report.passed, report.failures


def test_many_updates_of_an_index():
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 3, 20_000)
    for dtype in (np.float32, np.float64, np.complex128):
        updates = rng.random(20_000).astype(dtype)
        found = pb.scatter_add(pb.zeros(4, dtype=dtype), indices, updates, axis=0).numpy()
        expected = [
            updates[indices == i].astype(np.longdouble if dtype == np.float64 else dtype).sum()
            for i in range(4)
        ]
        np.testing.assert_allclose(found, np.asarray(expected, dtype), rtol=4 * np.finfo(dtype).eps)
    last = [np.flatnonzero(indices == i)[-1] for i in range(3)]
    found = pb.scatter_update(pb.zeros(4), indices, updates.real.astype(np.float32), axis=0)
    np.testing.assert_array_equal(found.numpy()[:3], updates.real.astype(np.float32)[last])


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_convolutions_are_numpys(data_format):
    rng = np.random.default_rng(1)
    shape = (2, 7, 6, 4) if data_format == "channels_last" else (2, 4, 7, 6)
    x, kernel = rng.standard_normal(shape), rng.standard_normal((3, 2, 2, 6))
    options = {
        "strides": (2, 1), "padding": ((1, 0), (0, 2)), "dilation": (1, 2), "groups": 2,
        "data_format": data_format,
    }  # fmt: skip
    results = []
    for device in ("jax:cpu", "cpu"):
        a, b = pb.asarray(x, device=device), pb.asarray(kernel, device=device)
        gradients = pb.grad(lambda a, b: pb.sum(pb.conv(a, b, **options) ** 3), (0, 1))(a, b)
        results.append([pb.conv(a, b, **options).numpy(), *(g.numpy() for g in gradients)])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("features", [0, 3])
def test_lstm_is_numpys(features, reverse, masked):
    rng = np.random.default_rng(2)
    shapes = (2, 5, features), (2, 4), (2, 4), (features, 16), (4, 16), (16,)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    mask = rng.random((2, 5)) < 0.6 if masked else None

    def f(*arrays):
        out, h, c = pb.lstm(*arrays, mask, reverse=reverse)
        return pb.sum(out**2) + pb.sum(h * c)

    results = []
    for device in ("jax:cpu", "cpu"):
        with pb.device(device):
            tensors = [pb.asarray(array) for array in arrays]
            value, gradients = pb.value_and_grad(f, tuple(range(6)))(*tensors)
            results.append([value.numpy(), *(g.numpy() for g in gradients)])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_elementwise_functions_that_xla_computes_otherwise():
    x = np.asarray([10.0, -16.610691, 88.9, 0.5, -1e-3, -0.0], np.float32)
    for name in ("cosh", "sinh"):
        found = getattr(pb, name)(pb.asarray(x)).numpy()
        np.testing.assert_allclose(found, getattr(np, name)(x.astype(np.float64)), rtol=1e-7)
    far = pb.cosh(pb.asarray([-710.4], dtype="float64")).item()
    assert far == pytest.approx(np.cosh(710.4), rel=1e-14)
    zeros = pb.asarray([0.0, 3.0]) % pb.asarray([-1.0, -1.5])
    assert np.signbit(zeros.numpy()).all()
    assert not np.signbit(pb.sign(pb.asarray([-0.0])).numpy()).any()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_imaginary_numbers_are_true(dtype):
    x = pb.asarray([[1j, 0], [0, 0], [1, 2j]], dtype=dtype)
    assert pb.any(x, axis=1).tolist() == [True, False, True]
    assert pb.all(x, axis=1).tolist() == [False, False, True]


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 10), ("bfloat16", 7)])
def test_float64_is_rounded_to_16_bits_once(dtype, digits):
    middle, little = 1 + 2.0 ** -(digits + 1), 2.0**-40
    above = 1 + 2.0**-digits
    values = [middle - little, middle, middle + little, -middle - little, -0.0]
    x = pb.asarray(values, dtype="float64")
    for convert in (pb.astype, pb.function(pb.astype)):
        for _ in range(3):
            found = convert(x, dtype).astype("float64")
            assert found.tolist() == [1, 1, above, -above, 0]
    special = pb.asarray([np.inf, -np.inf, np.nan, 1e300], dtype="float64").astype(dtype).numpy()
    np.testing.assert_array_equal(special.astype(float), [np.inf, -np.inf, np.nan, np.inf])


def test_small_losses_of_large_logits_keep_their_digits():
    expected = pytest.approx(np.log1p(np.exp(-10)), rel=2e-3)
    logits = pb.asarray([[100.0, 90.0]])
    loss = pb.function(lambda x: pb.losses.sparse_softmax_cross_entropy([0], x))
    assert [loss(logits).item() for _ in range(3)] == [expected] * 3


def test_matrices_without_an_answer_raise():
    with pytest.raises(pb.errors.InputValueError, match="singular"):
        pb.linalg.solve(pb.zeros((2, 2)), pb.ones(2))
    with pytest.raises(pb.errors.InputValueError, match="positive definite"):
        pb.linalg.cholesky(-pb.eye(2))
    solve = pb.function(lambda a, b: pb.linalg.solve(a, b))
    for _ in range(3):
        assert solve(pb.eye(2), pb.ones(2)).tolist() == [1, 1]
    with pytest.raises(pb.errors.InputValueError, match="singular"):
        solve(pb.zeros((2, 2)), pb.ones(2))
    assert "; compiled by the backend 'jax'" in solve.explain()


# Whole graphs ------------------------------------------------------------------------------------


def network(seed):
    pb.random.seed(seed)
    model = pb.Sequential(
        [
            pb.layers.Conv2D(4, 3, padding="same", activation="relu"),
            pb.layers.MaxPool2D(2),
            pb.layers.BatchNormalization(),
            pb.layers.Flatten(),
            pb.layers.Dropout(0.1),
            pb.layers.Dense(3),
        ]
    )
    optimizer = pb.optimizers.AdamW(0.01)
    mean = pb.metrics.Mean()

    def step(x, y):
        with pb.GradientTape() as tape:
            loss = pb.losses.sparse_softmax_cross_entropy(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        mean(loss)
        return loss

    return model, step, mean


def test_a_captured_step_is_one_function_of_xla():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((8, 6, 6, 1), np.float32), rng.integers(0, 3, 8)
    results = []
    for device, wrap in (("jax:cpu", pb.function), ("cpu", lambda f: f)):
        with pb.device(device):
            model, step, mean = network(3)
            step = wrap(step)
            losses = [float(step(x, y)) for _ in range(6)]
            results.append([losses, mean.result(), *(v.numpy() for v in model.variables)])
            if device == "jax:cpu":
                assert "; compiled by the backend 'jax'" in step.explain()
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_old_values_outlive_the_steps_that_replace_them():
    v = pb.Variable([1.0, 2.0])

    @pb.function
    def step(x):
        v.assign(v * x)
        return v.value

    held, views = [], []
    with pb.GradientTape(persistent=True) as tape:
        y = pb.sum(v * v)
    for _ in range(6):
        held.append(v.value)
        views.append(v.numpy())
        held.append(step(pb.asarray(2.0)))
    expected = [2.0**i for i in range(6)]
    assert [x[0].item() for x in held[::2]] == expected
    assert [x[0].item() for x in held[1::2]] == [2 * size for size in expected]
    assert [view[0] for view in views] == expected
    assert tape.gradient(y, v).tolist() == [2, 4]


def test_jax_loses_what_is_donated_to_a_call_that_fails():
    """Why no variable is donated: when memory runs out, its value would be gone."""
    function = jax.jit(lambda x: (x + 1, jnp.zeros(1 << 46) + x[0]), donate_argnums=0)
    x = jnp.ones(1000)
    with pytest.raises(jax.errors.JaxRuntimeError, match="Out of memory"):
        jax.block_until_ready(function(x))
    assert x.is_deleted()


def test_tokens_out_of_range_raise_and_change_nothing():
    embedding = pb.layers.Embedding(5, 3)
    optimizer = pb.optimizers.SGD(0.1)

    @pb.function
    def step(tokens):
        with pb.GradientTape() as tape:
            loss = pb.sum(embedding(tokens) ** 2)
        variables = embedding.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    for _ in range(3):
        step(np.asarray([0, 1, 4]))
    (before,) = (v.numpy() for v in embedding.variables)
    with pytest.raises(pb.errors.IndexingError, match="outside an axis of size 5"):
        step(np.asarray([0, 5, 1]))
    np.testing.assert_array_equal(embedding.variables[0].numpy(), before)


def test_16_bit_floats_are_rounded_at_each_op():
    f = pb.function(lambda x: (x + 1e-3).astype("float32") * 1024)
    x = pb.ones(4, dtype="bfloat16")
    results = [f(x).tolist() for _ in range(4)]
    assert results[0] == [1024.0] * 4
    assert results == results[:1] * 4
    assert pb.asarray([1], dtype="bfloat16").numpy().dtype == ml_dtypes.bfloat16
