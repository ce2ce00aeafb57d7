"""JAX as a backend whose `compile` is `jax.jit`, where JAX can be imported."""

from __future__ import annotations

import functools
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import array_api, dtypes
from pullback.plugins.compiling import as_function

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")


def wide(function):
    """The function, while JAX has numbers of 64 bits."""

    @functools.wraps(function)
    def called(*arguments, **attributes):
        with jax.enable_x64(True):
            return function(*arguments, **attributes)

    return called


class Jitted(pb.Backend):
    name = "jitted"
    dtypes: ClassVar = {d: np.dtype(d) for d in dtypes.ALL}
    kernels: ClassVar = {name: wide(kernel) for name, kernel in array_api.kernels(jnp).items()}

    @wide
    def from_host(self, array, device, *, copy):
        return jnp.array(array)

    def to_host(self, array):
        return np.asarray(array)

    def compile(self, graph):
        return wide(jax.jit(as_function(graph)))


pb.register_backend(Jitted(), replace=True)


def trained(wrap):
    pb.random.seed(5)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((16, 8), np.float32), rng.integers(0, 3, 16)
    model = pb.Sequential(
        [pb.layers.Dense(16, activation="gelu"), pb.layers.Dropout(0.2), pb.layers.Dense(3)]
    )
    optimizer = pb.optimizers.Adam(0.01)

    @wrap
    def step(x, y):
        with pb.GradientTape() as tape:
            logits = model(x, training=True)
            loss = pb.mean(pb.logsumexp(logits, axis=-1) - pb.sum(logits * y, axis=-1))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    one_hot = np.eye(3, dtype=np.float32)[y]
    losses = [float(step(x, one_hot)) for _ in range(6)]
    return step, losses


def test_a_step_is_one_function_of_xla_with_the_same_numbers():
    with pb.device("jitted"):
        step, losses = trained(pb.function)
        _, expected = trained(lambda f: f)
    assert "; compiled by the backend 'jitted'" in step.explain()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_positions_are_looked_at():
    with pb.device("jitted"):
        x, good = pb.asarray([1.0, 2.0, 3.0]), pb.asarray([0, 2])
        f = pb.function(lambda x, i: pb.take(x, i, axis=0) * 2)
        for _ in range(3):
            assert f(x, good).tolist() == [2, 6]
        with pytest.raises(pb.errors.IndexingError, match="axis of size 3"):
            f(x, pb.asarray([0, 3]))
        assert f(x, good).tolist() == [2, 6]
    assert "; compiled by the backend 'jitted'" in f.explain()


def test_random_numbers_are_those_of_every_backend():
    pb.random.seed(7)
    with pb.device("jitted"):
        draw = pb.function(lambda: pb.random.uniform((3, 5), dtype="float64"))
        found = [draw().numpy() for _ in range(4)]
    pb.random.seed(7)
    expected = [pb.random.uniform((3, 5), dtype="float64", device="cpu").numpy() for _ in range(4)]
    np.testing.assert_array_equal(found, expected)
