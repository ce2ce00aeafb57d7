"""`pb.padded`: what a function gets, and how many programs that takes."""

import numpy as np
import pytest

import pullback as pb


@pytest.mark.parametrize("seed", range(4))
def test_arguments_are_those_of_numpy_padded_by_hand(seed):
    rng = np.random.default_rng(seed)
    for _ in range(30):
        shape = tuple(rng.integers(0, 9, rng.integers(1, 4)).tolist())
        x = rng.standard_normal(shape).astype("f")
        axis, value = int(rng.integers(-x.ndim, x.ndim)), float(rng.integers(-2, 3))
        length = x.shape[axis]
        widths = [(0, 0)] * x.ndim
        widths[axis] = (0, next(n for n in (2**i for i in range(5)) if n >= length) - length)
        expected = np.pad(x, widths, constant_values=value)

        @pb.padded({"x": axis}, value=value)
        def given(other, x):
            return other, x

        for pad_of in (x, pb.asarray(x)):
            assert given(1, pad_of)[0] == 1
            np.testing.assert_array_equal(given(1, pad_of)[1], expected)
            np.testing.assert_array_equal(given(1, x=pad_of)[1], expected)


def test_many_lengths_are_few_programs_with_the_gradients_of_each_length():
    weights = pb.Variable([0.5, -1.0])

    @pb.padded({"x": 0, "mask": 0})
    @pb.function(limit=8)
    def step(x, mask):
        with pb.GradientTape() as tape:
            loss = pb.sum(pb.tanh(x @ weights) * mask) / pb.sum(mask)
        return loss, tape.gradient(loss, weights)

    for length in [*range(1, 65), *range(64, 0, -1)]:
        x = pb.asarray(np.random.default_rng(length).standard_normal((length, 2)), dtype="f4")
        loss, gradient = step(x, pb.ones(length))
        with pb.GradientTape() as tape:
            expected = pb.mean(pb.tanh(x @ weights))
        np.testing.assert_allclose(loss, expected, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(gradient, tape.gradient(expected, weights), rtol=1e-4, atol=1e-6)
    assert step.explain().startswith("step: 7 programs")


def test_methods_are_padded():
    class Model:
        scale = 2.0

        @pb.padded({"x": -1})
        @pb.function
        def double(self, x):
            return self.scale * x

        @pb.padded({"x": -1})
        def plain(self, x):
            return x

    model = Model()
    for _ in range(3):
        assert model.double(pb.ones(3)).tolist() == [2.0, 2.0, 2.0, 0.0]
    assert model.plain(np.ones((2, 3))).shape == (2, 4)


def test_what_is_wrong_is_named():
    with pytest.raises(pb.errors.InputTypeError, match="dict of names and axes"):
        pb.padded(["x"])
    with pytest.raises(pb.errors.InputTypeError, match="dict of names and axes"):
        pb.padded({"x": 1.0})
    with pytest.raises(pb.errors.InputValueError, match="has no parameter 'y'; it has x"):
        pb.padded({"y": 0})(lambda x: x)
    f = pb.padded({"x": 1})(lambda x: x)
    with pytest.raises(pb.errors.InputValueError, match=r"has shape \(3,\), and no axis 1"):
        f(pb.ones(3))
    with pytest.raises(pb.errors.PullbackError):
        f("text")
