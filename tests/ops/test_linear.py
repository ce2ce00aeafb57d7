"""`linear`, and what is built on it: second derivatives, dtypes, wrong calls, memory, layers."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import DTypeError, ShapeError


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def gradients(f, *inputs):
    tensors = [pb.asarray(x) for x in inputs]
    with pb.GradientTape() as tape:
        for one in tensors:
            tape.watch(one)
        total = f(*tensors)
    return tape.gradient(total, tensors)


@pytest.mark.parametrize(
    "shape", [(4,), (1, 4), (5, 4), (2, 3, 4), (2, 1, 3, 4), (0, 4), (3, 0, 4)]
)
def test_gradients_are_those_of_product_and_sum(shape):
    x, weight, bias, mix = normal(*shape), normal(4, 3), normal(3), normal(*shape[:-1], 3)

    def of(y):
        return (y * y * mix).sum()

    found = gradients(lambda *a: of(pb.linear(*a)), x, weight, bias)
    expected = gradients(lambda x, w, b: of(pb.matmul(x, w) + b), x, weight, bias)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


def test_second_derivatives():
    x, weight, bias = normal(5, 4), normal(4, 3), normal(3)

    def slope(f):
        def total(*a):
            with pb.GradientTape() as tape:
                for one in a:
                    tape.watch(one)
                y = (f(*a) ** 3).sum()
            return sum((g * g).sum() for g in tape.gradient(y, list(a)))

        return total

    found = gradients(slope(pb.linear), x, weight, bias)
    expected = gradients(slope(lambda x, w, b: pb.matmul(x, w) + b), x, weight, bias)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10)


def test_dtypes_are_promoted_and_the_gradients_keep_theirs():
    x, weight, bias = (pb.asarray(a, dtype=d) for a, d in (
        (normal(2, 4), "float16"), (normal(4, 3), "float32"), (normal(3), "bfloat16"),
    ))  # fmt: skip
    with pb.GradientTape() as tape:
        for one in (x, weight, bias):
            tape.watch(one)
        y = pb.linear(x, weight, bias)
    assert y.dtype == "float32"
    assert [g.dtype for g in tape.gradient(y, [x, weight, bias])] == [
        "float16", "float32", "bfloat16",
    ]  # fmt: skip
    assert pb.linear([1, 2], [[1], [1]], [0.5]).tolist() == [3.5]
    assert pb.linear([1, 2], [[1], [1]], [3]).dtype == "int32"
    with pytest.raises(DTypeError, match="linear"):
        pb.linear([True], [[True]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_short_floats_are_rounded_once(dtype):
    x, weight, bias = (
        pb.asarray(a, dtype=dtype) for a in (normal(8, 64), normal(64, 5), normal(5))
    )
    exact = [a.astype("float64").numpy() for a in (x, weight, bias)]
    wanted = pb.asarray(exact[0] @ exact[1] + exact[2], dtype=dtype)
    np.testing.assert_array_equal(pb.linear(x, weight, bias).numpy(), wanted.numpy())


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 4), (5, 2), (2,)), r"x of shape \(3, 4\) has 4 inputs.*takes 5"),
        (((3, 4), (4, 2), (3,)), r"bias of shape \(3,\).*2 outputs"),
        (((3, 4), (4, 2), (1,)), r"bias of shape \(1,\)"),
        (((3, 4), (4, 2), ()), r"bias of shape \(\)"),
        (((3, 4), (4, 2), (3, 2)), r"bias of shape \(3, 2\)"),
        (((3, 4), (4,)), r"weight must be a matrix.*\(4,\)"),
        (((3, 4), (3, 4, 2)), r"weight must be a matrix"),
        (((), (1, 2)), r"x needs at least one axis"),
    ],
)
def test_wrong_shapes_are_named(shapes, message):
    with pytest.raises(ShapeError, match=f"linear: {message}"):
        pb.linear(*[pb.zeros(shape) for shape in shapes])


def test_only_what_a_gradient_needs_is_kept():
    x, weight, bias = (pb.asarray(a) for a in (normal(2, 4), normal(4, 3), normal(3)))
    with pb.GradientTape() as tape:
        tape.watch(bias)
        y = pb.linear(x, weight, bias)
    kept = [value for value in y._node.saved if value is not None]
    assert not kept
    assert tape.gradient(y, bias).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.parametrize("use_bias", [True, False])
def test_a_dense_layer_is_one_op(use_bias):
    layer = pb.layers.Dense(3, use_bias=use_bias)
    x = pb.asarray(normal(5, 4).astype(np.float32))
    layer(x)
    with pb.GradientTape():
        y = layer(x)
    assert y._node.op.name == "linear"
    wanted = x.numpy() @ layer.kernel.numpy() + (layer.bias.numpy() if use_bias else 0)
    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_a_dense_layer_in_mixed_precision():
    layer = pb.layers.Dense(3, "relu", dtype="mixed_bfloat16")
    with pb.GradientTape() as tape:
        y = layer(normal(2, 5, 4).astype(np.float32))
    assert y.dtype == "bfloat16"
    found = tape.gradient(y, layer.trainable_variables)
    assert [g.dtype for g in found] == ["float32", "float32"]
    assert [g.shape for g in found] == [(4, 3), (3,)]
