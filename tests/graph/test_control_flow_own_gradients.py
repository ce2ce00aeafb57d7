"""Functions with a gradient of their own in branches and loops of captured functions."""

import numpy as np
import pytest

import pullback as pb

X = np.array([[0.3, -0.6, 1.1], [0.8, 0.2, -0.4]])
WEIGHT = pb.Variable(np.array([0.5, -0.3, 0.7]), name="weight")
STATE = pb.Variable(1.0, trainable=False, dtype="float64")
OUTSIDE = pb.asarray(np.array([1.5, 0.2, -0.9]))


@pb.custom_gradient
def plain(x):
    return pb.sin(x), lambda g: 7 * g * x


@pb.custom_gradient
def several(x, n, y):
    """Structures, an argument that is a number, one without a gradient, an integer result."""
    a = x["a"] * y

    def backward(da, dn, dsize):
        return [da * y * n + dn, None, None if n > 2 else da * pb.cos(y)]

    return (a, x["a"] + n, pb.sum(pb.astype(y > 0, "int32"))), backward


@pb.custom_gradient
def with_variable(x):
    def backward(g, variables):
        return g * 3 * WEIGHT, [g * x**2 for _ in variables]

    return x * WEIGHT, backward


@pb.custom_gradient
def around(x):
    y = plain(x * 2) * OUTSIDE
    return y, lambda g: g * pb.cos(y) * plain(x)


@pb.custom_gradient
def keeping(x):
    STATE.assign(STATE * 0.5 + pb.stop_gradient(pb.sum(x)))
    return x * STATE, lambda g: g * x


@pb.custom_gradient
def turned(x):
    z = pb.complex(x, x * 2)
    return pb.real(z * pb.conj(z)), lambda g: 2 * g * pb.imag(z)


@pb.custom_jvp
def forward(x):
    return pb.tanh(x) * x, lambda dx: dx * pb.exp(-x)


root = pb.custom_root(
    lambda x, a: x**3 + x - a,
    lambda f, x, a: pb.fori_loop(0, 60, lambda i, x: (x + a / (x**2 + 1)) / 2, x),
)

FUNCTIONS = {
    "plain": plain,
    "several": lambda x: several({"a": x}, 2, x + 1)[0] * several({"a": x}, 3, pb.exp(x))[1],
    "an unused result": lambda x: several({"a": x}, 1, x * 2)[0],
    "a variable": with_variable,
    "one in another": around,
    "one of another": lambda x: plain(plain(x) * x),
    "state": keeping,
    "complex": turned,
    "custom_jvp": forward,
    "custom_root": lambda x: root(pb.zeros_like(x), x * 0.1) + x,
    "twice": lambda x: plain(x) + plain(x) * x,
    "a result of constants": lambda x: (
        pb.custom_gradient(lambda x: (pb.ones(3, dtype="float64"), lambda g: x * g))(x) * x
    ),
}
PLACES = {
    "cond": lambda f, x: pb.cond(pb.sum(x) > 0, lambda: f(x) * x, lambda: f(x * 2)),
    "an operand": lambda f, x: pb.cond(pb.sum(x) > 0, lambda z: f(z) * x, lambda z: z * 1.0, x * 2),
    "switch": lambda f, x: pb.switch(
        pb.astype(pb.sum(x) > 0, "int32"), [lambda: f(x), lambda: x * 1.0, lambda: f(x) * 2]
    ),
    "scan": lambda f, x: pb.scan(lambda c, r: (f(c) * 0.5 + r, f(r)), x, pb.stack([x, x * 0.5]))[0],
    "rows of scan": lambda f, x: pb.scan(lambda c, r: (c + r, f(r)), x, pb.stack([x, -x]))[1],
    "while": lambda f, x: pb.while_loop(
        lambda c: pb.sum(pb.abs(c)) < 9, lambda c: f(c) * 0.3 + c * 1.3, x, maximum=4
    ),
    "cond in scan": lambda f, x: pb.scan(
        lambda c, r: (pb.cond(pb.sum(r) > 0, lambda: f(c * r), lambda: c + r), None),
        x,
        pb.stack([x, -x, x]),
    )[0],
}  # fmt: skip


def both(function, x):
    """Results of a function from the same state, op by op and captured, in several calls."""
    captured, found = pb.function(function), []
    for sign in (1, -1, 0.5, -1):
        for run in (function, captured):
            STATE.assign(1.0)
            results = pb.tree.leaves(run(pb.asarray(x * sign)))
            found.append([result.numpy() for result in results] + [STATE.numpy()])
    return found[::2], found[1::2]


def compare(function, x, rtol=1e-10):
    for expected, found in zip(*both(function, x), strict=True):
        for one, other in zip(expected, found, strict=True):
            np.testing.assert_allclose(other, one, rtol=rtol, atol=1e-11)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_eager_ops(name, place):
    def first(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = pb.sum(PLACES[place](FUNCTIONS[name], x) ** 2)
        return [loss, *tape.gradient(loss, [x, WEIGHT], unconnected_gradients="zero")]

    compare(first, X[0])


@pytest.mark.parametrize("place", ["cond", "scan", "cond in scan"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_gradients_are_those_of_eager_ops(name, place):
    def second(x):
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as tape:
                tape.watch(x)
                loss = pb.sum(PLACES[place](FUNCTIONS[name], x) ** 2)
            slope = pb.sum(tape.gradient(loss, x) ** 2)
        return outer.gradient(slope, x, unconnected_gradients="zero")

    compare(second, X[0], 1e-8)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tape_outside(name, order):
    def f(x):
        return PLACES["cond"](FUNCTIONS[name], x)

    captured = pb.function(f)
    for sign in (1, -1, 0.5, -1):
        found = []
        for function in (f, captured):
            STATE.assign(1.0)
            slope = pb.grad(lambda x, g=function: pb.sum(g(x) ** 2))
            if order == 2:
                slope = pb.grad(lambda x, g=slope: pb.sum(g(x) ** 2))
            found.append(slope(pb.asarray(X[0] * sign)).numpy())
        np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-11)


@pb.custom_gradient
def unruled(x):
    return x * WEIGHT, lambda g: g * 2


def test_a_variable_without_a_gradient_is_an_error_where_it_is_asked_for():
    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = pb.sum(pb.cond(pb.sum(x) > 0, lambda: unruled(x), lambda: x))
        return tape.gradient(loss, [x, WEIGHT])

    for function in (f, pb.function(f)):
        with pytest.raises(pb.errors.TapeError, match="unruled reads the variables weight"):
            function(pb.asarray(X[0]))
    # pb.grad watches no variables.
    compare(pb.grad(lambda x: pb.sum(pb.cond(pb.sum(x) > 0, lambda: unruled(x), lambda: x))), X[0])


def test_the_forward_pass_alone_has_the_ops_of_the_function():
    def f(x):
        return pb.cond(pb.sum(x) > 0, lambda: plain(x) * 2, lambda: x)

    assert "own_gradient" not in str(pb.function(f).lower(pb.asarray(X[0])).graph)
    compare(f, X[0])


def test_it_is_saved(tmp_path):
    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = pb.sum(PLACES["cond"](around, x) ** 2)
        return loss, tape.gradient(loss, x)

    pb.function(f).lower(pb.asarray(X[0])).save(tmp_path / "program")
    program = pb.load_program(tmp_path / "program")
    for sign in (1, -1):
        x = pb.asarray(X[0] * sign)
        for one, other in zip(f(x), program(x), strict=True):
            np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-12)


def test_inside_of_vmap_it_is_an_error_that_says_what_to_write():
    def f(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            loss = pb.sum(pb.cond(pb.sum(x) > 0, lambda: pb.vmap(plain)(x), lambda: x))
        return tape.gradient(loss, x)

    with pytest.raises(pb.errors.CaptureError, match=r"plain.* inside of pb.vmap in true_fn"):
        pb.function(f).lower(pb.asarray(X))


@pb.custom_gradient
def itself(x):
    y = pb.exp(x)
    return y, lambda g: g * itself(x) * 1.5


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_gradient_that_calls_its_own_function(order):
    def f(x):
        return pb.sum(pb.cond(pb.sum(x) > 0, lambda: itself(x) * x, lambda: x))

    for _ in range(order):
        f = pb.grad(lambda x, g=f: pb.sum(g(x) ** 2))
    if order < 3:
        compare(f, X[0])
    else:
        with pytest.raises(pb.errors.CaptureError, match="derivative of itself"):
            pb.function(f).lower(pb.asarray(X[0]))
        x = pb.asarray(X[0])
        assert pb.function(f, strict=False)(x).tolist() == f(x).tolist()  # op by op
