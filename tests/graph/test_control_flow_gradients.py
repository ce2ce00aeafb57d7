"""Gradients of branches and loops: against finite differences, op by op and captured."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback._tree import leaves
from pullback.graph.graph import check

ROWS = np.random.default_rng(0).standard_normal((5, 3))
W = np.random.default_rng(1).standard_normal((3, 3)) * 0.5
X = np.array([0.4, -0.7, 0.2])


def branches(x, w):
    def yes(x):
        return pb.tanh(x @ w) * x

    return pb.cond(pb.sum(x) > 0, yes, lambda x: pb.sin(x) * x[0], x)


def switched(x, w):
    number = pb.sum(x > 0).astype("int32")
    return pb.switch(number, [lambda: x, lambda: x**3 @ w, lambda: pb.exp(x) * w[0], lambda: w[1]])


def scanned(x, w):
    def step(carry, row):
        state, count = carry
        state = pb.tanh(state @ w + row * x)
        return (state, count + 1), {"y": state * row, "n": count}

    (last, count), results = pb.scan(step, (x * 0.5, 0), pb.asarray(ROWS))
    return last * count, pb.sum(results["y"] ** 2, axis=0)


def backwards(x, w):
    rows = pb.asarray(ROWS) * x
    last, results = pb.scan(
        lambda c, r: (pb.sin(c + r), c * r), x @ w, rows, reverse=True, recompute=True
    )
    return last, results @ w


def counted(x, w):
    return pb.fori_loop(0, 4, lambda i, c: pb.tanh(c @ w) * (i + x), x)


def limited(x, w):
    return pb.while_loop(
        lambda c: pb.sum(c * c) < 30, lambda c: c * (1.4 + 0.1 * x) + w[0], x, maximum=20
    )


def nested(x, w):
    def outer(carry, row):
        def inner(total, value):
            def yes():
                return total + value * carry

            return pb.cond(value > 0, yes, lambda: pb.sin(total)), total * x[0]

        total, rows = pb.scan(inner, carry, row)
        total = pb.while_loop(lambda t: pb.abs(t) > 1, lambda t: t * 0.5, total, maximum=3)
        return pb.tanh(total), rows @ w

    return pb.scan(outer, x[1], pb.asarray(ROWS) * x)


def stopped(x, w):
    def step(carry, row):
        return pb.stop_gradient(carry * row) * x + carry, pb.stop_gradient(x) * carry

    return pb.scan(step, x @ w, pb.asarray(ROWS))


FUNCTIONS = [branches, switched, scanned, backwards, counted, limited, nested, stopped]
DIFFERENTIABLE = [f for f in FUNCTIONS if f is not stopped]


def loss_of(f, x, w):
    total = pb.asarray(0.0, dtype="float64")
    for i, part in enumerate(leaves(f(x, w))):
        total = total + pb.sum(pb.sin(part * (i + 1.0)))
    return total


def values(x=X, w=W):
    return pb.asarray(x), pb.asarray(w)


def first(f):
    def gradients(x, w):
        with pb.GradientTape() as tape:
            tape.watch([x, w])
            loss = loss_of(f, x, w)
        return loss, *tape.gradient(loss, [x, w], unconnected_gradients="zero")

    return gradients


def second(f):
    def gradients(x, w):
        with pb.GradientTape() as outer:
            outer.watch([x, w])
            loss, *found = first(f)(x, w)
            size = sum(pb.sum(pb.sin(part)) for part in found)
        return loss, size, *outer.gradient(size, [x, w], unconnected_gradients="zero")

    return gradients


def differences(f, x, w, eps=1e-6):
    """The gradient of a function that returns a number first, by central differences."""
    found = []
    for i, base in enumerate((x, w)):
        slopes = np.zeros_like(base)
        for place in np.ndindex(*base.shape):
            sides = []
            for sign in (1, -1):
                moved = [x.copy(), w.copy()]
                moved[i][place] += sign * eps
                sides.append(float(f(*values(*moved))))
            slopes[place] = (sides[0] - sides[1]) / (2 * eps)
        found.append(slopes)
    return found


@pytest.mark.parametrize("f", DIFFERENTIABLE)
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_are_those_of_finite_differences(f, sign):
    found = first(f)(*values(X * sign))[1:]
    for one, other in zip(
        found, differences(lambda x, w: loss_of(f, x, w), X * sign, W), strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("order", [first, second])
def test_captured_gradients_are_those_of_the_function(f, order):
    function = order(f)
    captured = pb.function(function)
    for sign in (1, -1, 1, 0.5):
        for one, other in zip(
            function(*values(X * sign)), captured(*values(X * sign)), strict=True
        ):
            # Cotangents are added in another order.
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)
    check(captured.graph)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients_through_captured_functions_from_outside(f):
    captured = pb.function(f)
    for sign in (1, -1, 1, 1):
        one, other = (first(g)(*values(X * sign)) for g in (f, captured))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)
    x, w = values()
    found = []
    for g in (f, captured):
        with pb.GradientTape(persistent=True) as tape:
            tape.watch([x, w])
            loss = loss_of(g, x, w)
            one = tape.gradient(loss, x)
            size = pb.sum(one * one)
        found.append(tape.gradient(size, [x, w], unconnected_gradients="zero"))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)


def test_variables_in_loops_are_trained():
    weight = pb.Variable(W)
    average = pb.Variable(0.0, trainable=False, dtype="float64")
    optimizer = pb.optimizers.SGD(0.1)

    def step(x):
        with pb.GradientTape() as tape:

            def body(carry, row):
                average.assign(average * 0.9 + pb.sum(carry) * 0.1)
                return pb.tanh(carry @ weight + row), None

            loss = pb.sum(pb.scan(body, x, pb.asarray(ROWS))[0] ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    found = []
    for function in (step, pb.function(step)):
        weight.assign(W)
        average.assign(0.0)
        losses = [float(function(pb.asarray(X))) for _ in range(6)]
        found.append([*losses, *weight.numpy().ravel(), float(average)])
    assert found[0][5] < found[0][0]
    np.testing.assert_allclose(*found, rtol=1e-11)


def test_complex_numbers():
    z = np.array([0.3 + 0.4j, -0.5 + 0.1j])

    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            last, ys = pb.scan(lambda c, r: (c * r + x, c * x), x, pb.stack([x, x * 2j]))
            y = pb.cond(pb.real(x[0]) > 0, lambda: last * x, lambda: last)
            loss = pb.sum(pb.real(y * pb.conj(y))) + pb.sum(pb.imag(ys))
        return loss, tape.gradient(loss, x)

    captured = pb.function(f)
    for sign in (1, -1, 1):
        for one, other in zip(f(pb.asarray(z * sign)), captured(pb.asarray(z * sign)), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_a_loop_of_any_number_of_steps_cannot_be_differentiated_when_captured():
    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.while_loop(lambda c: c < 9, lambda c: c * x, x)
        return tape.gradient(y, x)

    assert f(pb.asarray(3.0)).item() == 6
    with pytest.raises(pb.errors.CaptureError, match=r"write pb.while_loop\(..., maximum=n\)"):
        pb.function(f).lower(pb.asarray(3.0))
    # Without a gradient through it there is no need.
    captured = pb.function(lambda x: pb.grad(lambda y: y * pb.stop_gradient(loop(y)))(x))

    def loop(y):
        return pb.while_loop(lambda c: c < 9, lambda c: c * 3, pb.stop_gradient(y))

    for _ in range(3):
        assert captured(pb.asarray(3.0)).item() == 9


@pytest.mark.filterwarnings("ignore:Variable was assigned")
def test_a_trainable_variable_is_not_assigned_in_a_branch():
    v = pb.Variable(1.0)

    def assigned(x):
        return v.assign_add(x) * 1.0

    def choose(x):
        return pb.cond(x > 0, lambda: assigned(x), lambda: x)

    with pytest.raises(pb.errors.CaptureError, match="assigns a trainable variable in true_fn"):
        pb.function(pb.grad(choose)).lower(pb.asarray(2.0))
    assert float(v) == 1

    # The steps of a loop of known length are traced one by one.
    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.scan(lambda c, _: (assigned(c), None), x, length=3)[0]
        return tape.gradient(y, [x, v], unconnected_gradients="zero")

    captured = pb.function(f)
    for i in range(4):
        found = []
        for function in (f, captured):
            v.assign(1.0)
            found.append([*(g.tolist() for g in function(pb.asarray(2.0 + i))), float(v)])
        assert found[0] == found[1]


RESIDUALS = {
    "layer_norm": lambda x: pb.layer_norm(x) * x,
    "rms_norm": lambda x: pb.rms_norm(x) * x,
    "cross entropy": lambda x: pb.softmax_cross_entropy_with_logits(pb.softmax(x * 2), x) * x,
    "attention": lambda x: (
        pb.scaled_dot_product_attention(
            x[None, :, None, :], x[None, :, None, :] * 2, x[None, :, None]
        )
    )[0, :, 0],
}


@pytest.mark.parametrize("name", RESIDUALS)
def test_second_derivatives_of_ops_that_keep_more_than_their_result(name):
    op = RESIDUALS[name]

    def f(x):
        def inner(c):
            with pb.GradientTape() as tape:
                tape.watch(c)
                y = pb.sum(pb.sin(op(c)))
            return tape.gradient(y, c)

        return pb.cond(pb.sum(x) > 0, lambda: inner(x) * x, lambda: op(x))

    def loss(x):
        return pb.sum(f(x) ** 2)

    slope = pb.grad(loss)
    captured, captured_part = pb.function(slope), pb.function(f)
    for i, sign in enumerate((1, -1, 1, -1)):
        x = pb.asarray(W * sign + 0.1 * i)
        expected = slope(x).numpy()
        np.testing.assert_allclose(captured(x).numpy(), expected, rtol=1e-8, atol=1e-10)
        found = pb.grad(lambda x: pb.sum(captured_part(x) ** 2))(x).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_no_gradient_flows_through_what_a_variable_was_assigned():
    state = pb.Variable(1.0, trainable=False, dtype="float64")

    def body(c, row):
        state.assign(c * 2)
        state.assign_add(row)
        return pb.sin(c * state) + c, state * row

    def f(x, w):
        return pb.scan(body, pb.sum(w), x)

    for function in (first(f), second(f)):
        captured = pb.function(function)
        for _ in range(4):
            found = []
            for g in (function, captured):
                state.assign(1.0)
                found.append([*(part.numpy() for part in g(*values())), state.numpy()])
            for one, other in zip(*found, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)


def test_recomputation_keeps_fewer_carries():
    def loss(x, recompute):
        def step(c, _):
            return pb.tanh(c) * x, pb.sum(c)

        last, sums = pb.scan(step, x, length=23, recompute=recompute)
        return pb.sum(last) + pb.sum(sums)

    captured = pb.function(lambda x, recompute: pb.grad(loss)(x, recompute))
    found = [captured(pb.asarray(X), recompute) for recompute in (False, True)]
    found += [captured(pb.asarray(X), recompute) for recompute in (False, True) * 2]
    for each in found:
        np.testing.assert_allclose(each.numpy(), found[0].numpy(), rtol=1e-13)
    sizes = []
    for program in captured._all():
        check(program.graph)
        sizes.append(max(v.shape[0] for c in program.graph.calls for v in c.results if v.shape))
    assert sorted(sizes) == [5, 23] or max(sizes) == 23
