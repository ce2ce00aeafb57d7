"""LBFGS against SciPy's, its line search on any function, and what may go wrong in a loss."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import pullback as pb
from pullback.optimizers.line_search import Point, wolfe_search

LBFGS = pb.optimizers.LBFGS


def rosenbrock(x):
    return pb.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


class Counted:
    """A loss that counts how often it is evaluated."""

    def __init__(self, loss):
        self.loss, self.calls = loss, 0

    def __call__(self):
        self.calls += 1
        return self.loss()


@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-7), ("float32", 2e-3)])
@pytest.mark.parametrize("size", [2, 30])
def test_rosenbrock(dtype, near, size):
    start = np.resize([-1.2, 1.0], size)
    x = pb.Variable(start, dtype=dtype)
    loss = Counted(lambda: rosenbrock(x))
    optimizer = LBFGS(iterations=500)
    value = optimizer.minimize(loss)
    np.testing.assert_allclose(x.numpy(), np.ones(size), atol=near)
    assert value.dtype == x.dtype
    assert float(value) == float(rosenbrock(x))
    theirs = optimize.minimize(
        optimize.rosen, start, jac=optimize.rosen_der, method="L-BFGS-B",
        options={"ftol": 0, "gtol": 1e-7},
    )  # fmt: skip
    assert optimizer.step < 2 * theirs.nit
    assert loss.calls < 2 * theirs.nfev + 60  # what float32 tries at the end


@pytest.mark.parametrize("seed", range(4))
def test_quadratic_functions(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 25))
    q, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = q @ np.diag(np.logspace(0, 2, size)) @ q.T
    right = rng.normal(size=size)
    x = pb.Variable(rng.normal(size=size))
    optimizer = LBFGS(history=size, iterations=10 * size + 10, tolerance=1e-9)
    optimizer.minimize(lambda: x @ (pb.asarray(matrix) @ x) / 2 - pb.asarray(right) @ x)
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(matrix, right), atol=1e-8)
    assert optimizer.step < 7 * size + 3


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(200, 6)), RNG.integers(0, 3, 200)


def regression(capture, dtype="float64"):
    """Logistic regression of three classes, of a matrix and a vector of variables."""
    w, b = pb.Variable(np.zeros((6, 3)), dtype=dtype), pb.Variable(np.zeros(3), dtype=dtype)
    x = X.astype(dtype)

    def loss():
        fit = pb.losses.sparse_softmax_cross_entropy(Y, x @ w + b)
        return fit + 0.05 * (pb.sum(w * w) + pb.sum(b * b))

    return pb.function(loss) if capture else loss, [w, b]


@pytest.mark.parametrize("capture", [False, True])
@pytest.mark.parametrize(("dtype", "near"), [("float64", 1e-6), ("float32", 1e-4)])
def test_logistic_regression_has_the_optimum_of_scipy(capture, dtype, near):
    loss, (w, b) = regression(capture, dtype)
    LBFGS(iterations=200).minimize(loss)

    def theirs(z):
        logits = X @ z[:18].reshape(6, 3) + z[18:]
        logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return -logs[range(200), Y].mean() + 0.05 * (z * z).sum()

    found = optimize.minimize(theirs, np.zeros(21), options={"gtol": 1e-9}).x
    np.testing.assert_allclose(w.numpy().ravel(), found[:18], atol=near)
    np.testing.assert_allclose(b.numpy(), found[18:], atol=near)
    if capture:
        assert "1 program" in loss.explain()
        assert "op by op" not in loss.explain()


def test_calls_go_on_where_the_last_one_ended():
    once, by_one = (regression(False) for _ in range(2))
    all_at_once, steps = LBFGS(iterations=7, history=3), LBFGS(iterations=1, history=3)
    all_at_once.minimize(once[0])
    for _ in range(7):
        steps.minimize(by_one[0])
    assert all_at_once.step == steps.step == 7
    for a, b in zip(once[1], by_one[1], strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("way", ["checkpoint", "copy", "pickle"])
def test_a_run_is_resumed_exactly(tmp_path, way):
    loss, variables = regression(False)
    optimizer = LBFGS(iterations=2, history=3)
    for _ in range(3):
        optimizer.minimize(loss)
    if way == "checkpoint":
        saved = pb.Checkpoint(variables=variables, optimizer=optimizer).save(tmp_path / "c")
        again, others = regression(False)
        resumed = LBFGS(iterations=2, history=3)
        pb.Checkpoint(variables=others, optimizer=resumed).restore(saved)
    else:
        copied = copy.deepcopy if way == "copy" else lambda x: pickle.loads(pickle.dumps(x))
        resumed, others = copied((optimizer, variables))
        w, b = others

        def again():
            fit = pb.losses.sparse_softmax_cross_entropy(Y, X @ w + b)
            return fit + 0.05 * (pb.sum(w * w) + pb.sum(b * b))

    for _ in range(3):
        optimizer.minimize(loss)
        resumed.minimize(again)
    assert resumed.step == optimizer.step
    for a, b in zip(variables, others, strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_a_changed_loss_is_minimized_too():
    x, sign = pb.Variable([1.0, -2.0]), 1.0
    optimizer = LBFGS()
    optimizer.minimize(lambda: pb.sum(pb.cosh(sign * x)))
    optimizer.minimize(lambda: pb.sum((x - 3) ** 4))
    optimizer.minimize(lambda: pb.sum((x - 3) ** 2 * pb.asarray([1.0, 50.0])))
    np.testing.assert_allclose(x.numpy(), [3, 3], atol=1e-3)


def test_variables_may_come_and_go():
    a, b = pb.Variable(2.0), pb.Variable([5.0, -3.0])
    optimizer = LBFGS()
    optimizer.minimize(lambda: (a - 1) ** 2)
    optimizer.minimize(lambda: (a - 3) ** 2 + pb.sum((b - a) ** 2))
    np.testing.assert_allclose([float(a), *b.numpy()], [3, 3, 3], atol=1e-4)
    optimizer.minimize(lambda: pb.sum((b - 1) ** 2) + 0 * a, [b])
    np.testing.assert_allclose([float(a), *b.numpy()], [3, 1, 1], atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_variables_of_any_dtype_and_size(dtype):
    x, empty = pb.Variable([4.0, -3.0], dtype=dtype), pb.Variable(np.zeros((0, 2)), dtype=dtype)
    LBFGS().minimize(lambda: pb.sum((x - 1) ** 2) + pb.sum(empty))
    assert x.dtype == pb.asarray(0.0, dtype=dtype).dtype
    np.testing.assert_allclose(x.numpy().astype(float), [1, 1], atol=0.02)


class TestBadLosses:
    @pytest.mark.parametrize(
        ("loss", "error", "message"),
        [
            (lambda x: x * 1, "ShapeError", r"shape \(2,\); write pb.mean"),
            (lambda x: 1.0, "ShapeError", "got float"),
            (lambda x: pb.sum(x) * math.nan, "InputValueError", "not finite"),
            (lambda x: pb.sum(pb.log(x - 1)), "InputValueError", "not finite"),
            (lambda x: pb.asarray(1.0), "TapeError", "not on the tape"),
        ],
    )
    def test_change_nothing(self, loss, error, message):
        x, optimizer = pb.Variable([1.0, 2.0]), LBFGS()
        with pytest.raises(getattr(pb.errors, error), match=message):
            optimizer.minimize(lambda: loss(x), [x])
        assert x.numpy().tolist() == [1.0, 2.0]
        assert optimizer.step == 0

    def test_where_it_is_no_number_is_not_entered(self):
        x = pb.Variable([0.9])
        optimizer = LBFGS(learning_rate=100.0, iterations=50)
        # Logarithms of negative numbers are one step away.
        optimizer.minimize(lambda: pb.sum(x - 0.01 * pb.log(x)))
        np.testing.assert_allclose(x.numpy(), [0.01], rtol=1e-3)

    def test_unbounded_ones_end(self):
        x = pb.Variable([1.0])
        value = LBFGS(iterations=5).minimize(lambda: pb.sum(-x))
        assert float(value) == -float(x[0])
        assert math.isfinite(float(value))

    def test_an_error_inside_leaves_the_last_point(self):
        x = pb.Variable([3.0, -1.0])
        visited = []

        def loss():
            visited.append(x.numpy().copy())
            if len(visited) == 4:
                raise KeyboardInterrupt
            return rosenbrock(x)

        optimizer = LBFGS()
        with pytest.raises(KeyboardInterrupt):
            optimizer.minimize(loss)
        assert any(np.array_equal(x.numpy(), one) for one in visited[:3])
        optimizer.minimize(lambda: rosenbrock(x))

    def test_complex_variables(self):
        z = pb.Variable([1 + 1j])
        with pytest.raises(pb.errors.DTypeError, match="real and imaginary"):
            LBFGS().minimize(lambda: pb.sum(pb.abs(z) ** 2))

    def test_gradients_alone_are_not_enough(self):
        v = pb.Variable(1.0)
        with pytest.raises(pb.errors.InputTypeError, match=r"optimizer\.minimize"):
            LBFGS().apply_gradients([(pb.asarray(1.0), v)])

    @pytest.mark.parametrize("wrong", [{"history": 0}, {"iterations": 0}, {"tolerance": -1.0}])
    def test_settings(self, wrong):
        with pytest.raises(pb.errors.PullbackError, match=next(iter(wrong))):
            LBFGS(**wrong)


@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=5),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=200, deadline=None)
def test_the_line_search_finds_what_it_promises(coefficients, first):
    """Of functions that are bounded from below, with a wave of random coefficients on them."""

    def at(step):
        waves = [c * math.sin((i + 1) * step) for i, c in enumerate(coefficients)]
        slopes = [c * (i + 1) * math.cos((i + 1) * step) for i, c in enumerate(coefficients)]
        value = 0.1 * (step - 2) ** 2 + sum(waves)
        return Point(step, value, 0.2 * (step - 2) + sum(slopes), None)

    start = at(0.0)
    if start.slope >= -1e-3:
        return
    found = wolfe_search(at, start, first, 60, 0.0)
    assert found.step > 0
    assert found.value <= start.value + 1e-4 * found.step * start.slope
    assert abs(found.slope) <= 0.9 * abs(start.slope)
