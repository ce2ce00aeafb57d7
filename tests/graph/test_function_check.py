"""`pb.function(f, check=True)`: each call is compared with the function op by op."""

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CaptureError

X = np.arange(1.0, 4.0, dtype=np.float32)


@pytest.fixture
def unseen():
    """A value that no program sees, as it is a setting in C of a library; and what changes it."""
    values = {"warn": 2.0, "ignore": 3.0}
    with np.errstate(divide="warn"):
        yield lambda: values[np.geterr()["divide"]], lambda: np.seterr(divide="ignore")


def test_a_call_that_is_right_is_as_without():
    pb.random.seed(0)
    model = pb.Sequential([pb.layers.Dense(4, activation="tanh"), pb.layers.Dropout(0.5)])
    optimizer, mean = pb.optimizers.Adam(0.1), pb.metrics.Mean("loss")

    def step(x):
        with pb.GradientTape() as tape:
            loss = pb.sum(model(x, training=True) ** 2)
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        mean(loss)
        return loss

    checked = pb.function(step, check=True)
    losses = [float(checked(X[None])) for _ in range(6)]
    assert optimizer.step == 6
    assert mean.result() == pytest.approx(np.mean(losses))
    assert len(checked._all()) == 1


def test_another_result_is_an_error(unseen):
    value, change = unseen
    checked = pb.function(lambda x: x * value(), check=True)
    for _ in range(4):
        assert checked(X).tolist() == (X * 2).tolist()
    change()
    with pytest.raises(CaptureError, match="op by op in its result"):
        checked(X)


def test_another_value_of_a_variable_is_an_error(unseen):
    value, change = unseen
    v = pb.Variable(X, name="sum")

    def f(x):
        v.assign(x * value())

    checked = pb.function(f, check=True)
    for _ in range(4):
        checked(X)
    change()
    with pytest.raises(CaptureError, match="op by op in the variable 'sum'"):
        checked(X)


def test_another_state_is_an_error(unseen):
    value, change = unseen
    mean = pb.metrics.Mean("loss")
    checked = pb.function(lambda x: mean(x * value()), check=True)
    for _ in range(4):
        checked(pb.asarray(1.0))
    change()
    with pytest.raises(CaptureError, match="differs from"):
        checked(pb.asarray(1.0))


def test_copies_and_methods_are_checked_too(unseen):
    value, change = unseen

    class Scale:
        @pb.function(check=True)
        def apply(self, x):
            return x * value()

    scale = Scale()
    for _ in range(4):
        scale.apply(X)
    change()
    with pytest.raises(CaptureError, match="in its result"):
        scale.apply(X)


def test_a_call_that_fails_does_what_it_does_without():
    counts, raises = pb.Variable(np.zeros(3, np.float32)), {"now": False}

    def f(x):
        counts.assign_add(x)
        if raises["now"]:
            raise ValueError("the user's")
        return counts.value

    checked = pb.function(f, check=True)
    for n in range(1, 5):
        assert checked(X).tolist() == (X * n).tolist()
    raises["now"] = True
    for _ in range(2):
        with pytest.raises(ValueError, match="the user's"):
            checked(X)
    raises["now"] = False
    before = counts.numpy().tolist()
    assert checked(X).tolist() == (np.asarray(before) + X).tolist()
