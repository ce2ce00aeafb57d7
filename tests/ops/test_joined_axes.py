"""softmax and log_softmax along several axes, and along all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import pullback as pb

OPS = {"softmax": pb.softmax, "log_softmax": pb.log_softmax}


def expected(name: str, x: np.ndarray, axis: tuple[int, ...] | None) -> np.ndarray:
    shifted = x - np.max(x, axis=axis, keepdims=True)
    logs = shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))
    return np.exp(logs) if name == "softmax" else logs


@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients_of_every_set_of_axes(name):
    op, rng = OPS[name], np.random.default_rng(0)
    for ndim in range(4):
        values = rng.standard_normal((2, 3, 4)[:ndim])
        x, w = pb.asarray(values), pb.asarray(rng.standard_normal(values.shape))
        sets = [c for n in range(ndim + 1) for c in itertools.permutations(range(-ndim, 0), n)]
        for axis in (None, *sets):
            found = op(x, axis=axis)
            np.testing.assert_allclose(found.numpy(), expected(name, values, axis), 1e-12)
            if axis is None or list(axis) == sorted(axis):
                pb.check_gradients(lambda x, w, axis=axis: pb.sum(op(x, axis=axis) * w), x, w)


@pytest.mark.parametrize("name", OPS)
def test_transforms(name):
    op, values = OPS[name], np.random.default_rng(1).standard_normal((3, 2, 4))
    x, found = pb.asarray(values), expected(name, values, (0, 2))
    np.testing.assert_allclose(pb.function(op)(x, axis=(2, 0)).numpy(), found, 1e-12)
    batched = pb.vmap(lambda x: op(x, axis=None))(x)
    np.testing.assert_allclose(batched.numpy(), expected(name, values, (1, 2)), 1e-12)
    assert pb.eval_shape(lambda x: op(x, axis=[0, 1]), x) == pb.TensorSpec((3, 2, 4), "float64")
    hessian = pb.hessian(lambda x: pb.sum(op(x, axis=None) ** 2))(x[0])
    flat = pb.hessian(lambda x: pb.sum(op(x, axis=0) ** 2))(pb.reshape(x[0], (8,)))
    np.testing.assert_allclose(hessian.numpy().reshape(8, 8), flat.numpy(), atol=1e-12)


@pytest.mark.parametrize("axis", [(0, 0), (0, 2), (0, 1, -1), ("a",), "a", 1.5])
def test_wrong_axes_are_named(axis):
    wrong = pb.errors.AxisError if isinstance(axis, tuple) and "a" not in axis else ValueError
    with pytest.raises(wrong, match=r"^softmax: "):
        pb.softmax([[1.0, 2.0]], axis=axis)


def test_empty_axes():
    assert pb.softmax(pb.zeros((2, 0, 3)), axis=(0, 1)).shape == (2, 0, 3)
    assert pb.softmax(pb.zeros((2, 3, 0)), axis=(0, 1)).shape == (2, 3, 0)
