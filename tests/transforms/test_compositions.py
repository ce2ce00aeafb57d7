"""Transforms in one another, drawn at random, beside the same computed by tapes and loops alone.

A composition is a pair of functions of a vector: one of transforms, and one of plain ops, Python's
loops and one tape for each derivative. Both may read a variable. Values and gradients of the pair
are compared op by op, in a captured function, in a batch, and the shapes without values.
"""

import random
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import pullback as pb

SIZE = 3
MATRIX = pb.asarray(np.random.default_rng(0).standard_normal((SIZE, SIZE)))
WEIGHTS = pb.asarray(np.cos(np.arange(SIZE) + 1.0))
DIRECTION = pb.asarray(np.sin(np.arange(SIZE) + 1.0))


class Pair(NamedTuple):
    f: Callable[[pb.Tensor], pb.Tensor]
    plain: Callable[[pb.Tensor], pb.Tensor]
    text: str
    reads: bool  # a variable
    has_own: bool  # a gradient of its own


def slope(f, x):
    """The gradient of the weighted sum of f, by a tape."""
    with pb.GradientTape() as tape:
        tape.watch(x)
        total = pb.sum(f(x) * WEIGHTS)
    return tape.gradient(total, x, unconnected_gradients="zero")


def columns(f, x):
    """The rows of the Jacobian of f, one by one."""
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        parts = [f(x)[i] for i in range(SIZE)]
    return [tape.gradient(part, x, unconnected_gradients="zero") for part in parts]


class Scaled(pb.layers.Layer):
    """A layer whose call reads its variable beside a function of the input."""

    def __init__(self, f):
        super().__init__(dtype="float64")
        self.f = f
        self.scale = self.add_variable("scale", (SIZE,), initializer="ones")

    def call(self, x):
        return self.f(x) * self.scale


BASES = {
    "tanh(Ax)": lambda x: pb.tanh(MATRIX @ x),
    "x sin(x)": lambda x: x * pb.sin(x),
    "softmax(x)": lambda x: pb.softmax(x * 2.0),
    "x / |x|": lambda x: x / pb.sqrt(1.0 + pb.sum(x * x)),
    "cumulative": lambda x: pb.cumulative_sum(pb.cos(x)),
    "sorted": lambda x: pb.sort(x) * x[::-1],
    "where": lambda x: pb.where(x > 0, pb.exp(-x), x),
    "x[[2, 0, 0]]": lambda x: x[pb.asarray([2, 0, 0])] * 0.5,
}


def as_is(transform):
    """A transform that computes what its function does."""
    return lambda rng, p: (transform(p.f), p.plain)


def of_vmap(rng, p):
    axis, scale = rng.choice([0, 1]), rng.choice([0.5, 2.0])
    batched = pb.vmap(p.f, in_axes=axis, out_axes=axis)

    def f(x):
        return pb.sum(batched(pb.stack([x, x * scale], axis)), axis=axis)

    return f, lambda x: p.plain(x) + p.plain(x * scale)


def of_functional_call(rng, p):
    layer = Scaled(p.f)

    def f(x):
        return pb.functional_call(layer, {"scale": pb.sin(x)}, x * 0.5)

    return f, lambda x: p.plain(x * 0.5) * pb.sin(x)


def of_grad(rng, p):
    return pb.grad(lambda x: pb.sum(p.f(x) * WEIGHTS)), lambda x: slope(p.plain, x)


def of_tape(rng, p):
    return lambda x: slope(p.f, x), lambda x: slope(p.plain, x)


def pushed(p):
    return lambda x: pb.stack([pb.sum(row * DIRECTION) for row in columns(p.plain, x)])


def of_jvp(rng, p):
    return lambda x: pb.jvp(p.f, (x,), (DIRECTION,))[1], pushed(p)


def of_linearize(rng, p):
    return lambda x: pb.linearize(p.f, x)[1](DIRECTION), pushed(p)


def of_hvp(rng, p):
    def plain(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            along = pb.sum(slope(p.plain, x) * DIRECTION)
        return tape.gradient(along, x, unconnected_gradients="zero")

    return lambda x: pb.hvp(lambda z: pb.sum(p.f(z) * WEIGHTS), x, DIRECTION), plain


def of_root(rng, p):
    """The y with y (1 + f(x)^2) = x."""

    def solver(residual, y, x):
        at_0 = residual(y * 0.0, x)
        return -at_0 / (residual(y * 0.0 + 1.0, x) - at_0)

    root = pb.custom_root(lambda y, x: y * (1.0 + p.f(x) ** 2) - x, solver)
    return lambda x: root(pb.zeros_like(x), x), lambda x: x / (1.0 + p.plain(x) ** 2)


def of_custom_jvp(rng, p):
    @pb.custom_jvp
    def f(x):
        y, push = pb.linearize(p.f, x)
        return y, push

    return f, p.plain


def of_custom_gradient(rng, p):
    @pb.custom_gradient
    def f(x):
        y, pull = pb.vjp(p.f, x)
        return y, lambda g: pull(g)[0]

    return f, p.plain


def of_associative_scan(rng, p):
    reverse = rng.random() < 0.5

    def f(x):
        rows = pb.stack([p.f(x), pb.cos(x), x, pb.sin(x), x * 0.5])
        return pb.associative_scan(pb.multiply, rows, reverse=reverse)[2]

    def plain(x):
        rows = [p.plain(x), pb.cos(x), x, pb.sin(x), x * 0.5]
        a, b, c = rows[2:] if reverse else rows[:3]
        return a * b * c

    return f, plain


def of_map(rng, p):
    size = rng.choice([None, 1, 2])

    def f(x):
        return pb.sum(pb.map(p.f, pb.stack([x, x * 0.5, -x]), batch_size=size), axis=0)

    return f, lambda x: p.plain(x) + p.plain(x * 0.5) + p.plain(-x)


def of_scan(rng, p):
    recompute = rng.random() < 0.5

    def f(x):
        def step(carry, row):
            return pb.tanh(p.f(carry)) + row, carry * row

        last, rows = pb.scan(step, x, pb.stack([x, x * 0.5]), recompute=recompute)
        return last + rows[1]

    def plain(x):
        once = pb.tanh(p.plain(x)) + x
        return pb.tanh(p.plain(once)) + x * 0.5 + once * (x * 0.5)

    return f, plain


def of_fori_loop(rng, p):
    def f(x):
        return pb.fori_loop(0, 2, lambda i, y: pb.tanh(p.f(y)) * 0.5 + x, x)

    def plain(x):
        for y in [pb.tanh(p.plain(x)) * 0.5 + x]:
            return pb.tanh(p.plain(y)) * 0.5 + x

    return f, plain


def of_while_loop(rng, p):
    def f(x):
        def step(carry):
            return carry[0] + 1, pb.sin(p.f(carry[1]))

        return pb.while_loop(lambda carry: carry[0] < 2, step, (0, x), maximum=3)[1]

    return f, lambda x: pb.sin(p.plain(pb.sin(p.plain(x))))


def of_cond(rng, p):
    def f(x):
        return pb.cond(pb.sum(x) > 0, p.f, lambda x: x * 2.0, x)

    return f, lambda x: p.plain(x) if float(pb.sum(x)) > 0 else x * 2.0


def of_switch(rng, p):
    k = rng.randrange(2)
    return (
        lambda x: pb.switch(pb.sum(x * 0).astype("int32") + k, [p.f, pb.sin], x),
        (p.plain, pb.sin)[k],
    )


def of_after(rng, p):
    name = rng.choice([*BASES])
    return lambda x: BASES[name](p.f(x)), lambda x: BASES[name](p.plain(x))


def of_variable(rng, p):
    return lambda x: p.f(x) * VARIABLE, lambda x: p.plain(x) * VARIABLE


VARIABLE = pb.Variable(np.linspace(0.5, 1.5, SIZE), dtype="float64")
TRANSFORMS = {
    "function": as_is(pb.function), "remat": as_is(pb.remat), "vmap": of_vmap,
    "functional_call": of_functional_call, "grad": of_grad, "tape": of_tape, "jvp": of_jvp,
    "linearize": of_linearize, "hvp": of_hvp, "custom_root": of_root, "cond": of_cond,
    "custom_jvp": of_custom_jvp, "custom_gradient": of_custom_gradient, "scan": of_scan,
    "associative_scan": of_associative_scan, "map": of_map, "fori_loop": of_fori_loop,
    "while_loop": of_while_loop, "switch": of_switch, "after": of_after, "variable": of_variable,
}  # fmt: skip
#: Those that raise derivatives: each one more makes the plain way several times as long.
ORDERS = {"grad", "tape", "jvp", "linearize", "hvp", "custom_jvp", "custom_gradient"}
#: Rules of one's own, which take what they read as arguments.
CLOSED = {"custom_jvp", "custom_gradient"}
OWN = {*CLOSED, "custom_root"}
#: What rejects such rules in a captured function beside a tape (control-flow.md).
CHOOSING = {"cond", "switch", "while_loop"}


def composition(seed):
    rng = random.Random(seed)
    base = rng.choice([*BASES])
    pair = Pair(BASES[base], BASES[base], base, False, False)
    orders = 0
    for _ in range(rng.randint(2, 4)):
        name = rng.choice([*TRANSFORMS])
        if (
            (name in ORDERS and orders == 2)
            or (name in CLOSED and pair.reads)
            or (name in CHOOSING and pair.has_own)
        ):
            continue
        orders += name in ORDERS
        f, plain = TRANSFORMS[name](rng, pair)
        reads, has_own = pair.reads or name == "variable", pair.has_own or name in OWN
        pair = Pair(f, plain, f"{name}({pair.text})", reads, has_own)
    return pair


def with_gradients(f):
    """The value of f, and the gradients of its weighted sum in x and in the variable."""

    def call(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
            total = pb.sum(y * WEIGHTS)
        return y, *tape.gradient(total, [x, VARIABLE], unconnected_gradients="zero")

    return call


def close(found, expected, what):
    for part, x, y in zip(("value", "d/dx", "d/dvariable"), found, expected, strict=True):
        x, y = x.numpy(), y.numpy()
        atol = 1e-9 * max(1.0, np.abs(y).max(initial=0))
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=atol, err_msg=f"{what}: {part}")


def check(seed):
    pair = composition(seed)
    x = pb.asarray(np.random.default_rng(seed).standard_normal(SIZE))
    expected = with_gradients(pair.plain)(x)
    close(with_gradients(pair.f)(x), expected, pair.text)
    captured = pb.function(with_gradients(pair.f))
    for way in ("first call", "trace", "program"):
        close(captured(x), expected, f"captured {pair.text}, {way}")
    batched = pb.vmap(pair.f)(pb.stack([x, x + 0.5]))
    close([batched[0]] * 3, [expected[0]] * 3, f"vmap of {pair.text}")
    spec = pb.TensorSpec((SIZE,), "float64")
    assert pb.eval_shape(with_gradients(pair.f), spec)[1] == spec, pair.text


@pytest.mark.each("seed", range(4, 10))
def test_some(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.each("seed", range(1000, 1600))
def test_many(seed):
    check(seed)


def test_arrays_from_outside_in_a_batch_without_values():
    """Of two devices that stand for the array's, that of the batch is the one of both."""
    f = pb.vmap(lambda row: pb.where(row > 0, MATRIX @ row, MATRIX[0]) + WEIGHTS)
    spec = pb.TensorSpec((5, SIZE), "float64")
    assert pb.eval_shape(lambda x: (f(x), pb.grad(lambda x: pb.sum(f(x)))(x)), spec) == (spec, spec)


def test_choices_in_the_gradient_rule_of_an_item():
    """The backward pass of a tape outside comes when the call of the batch is over."""

    @pb.custom_gradient
    def f(x):
        return x * 1.0, lambda g: pb.cond(x > 0, lambda: g * 2.0, lambda: g * 3.0)

    slopes = pb.grad(lambda x: pb.sum(pb.vmap(f)(x)))
    x = pb.asarray([1.0, -1.0, 2.0])
    captured = pb.function(slopes)
    for call in (slopes, captured, captured, captured):
        assert call(x).tolist() == [2.0, 3.0, 2.0]


def test_loops_with_a_limit_in_a_captured_batch():
    def halvings(x, maximum=None):
        def step(carry):
            return carry[0] * 0.5, carry[1] + 1

        return pb.while_loop(lambda carry: carry[0] > 1.0, step, (x, 0), maximum=maximum)

    captured = pb.function(pb.vmap(lambda x: halvings(x, 6)))
    x = pb.asarray([0.5, 3.0, 20.0, 1000.0])
    for _ in range(3):
        assert [y.tolist() for y in captured(x)] == [[0.5, 0.75, 0.625, 15.625], [0, 2, 5, 6]]
    without = pb.function(pb.vmap(halvings))
    assert without(x)[1].tolist() == [0, 2, 5, 10]
    with pytest.raises(pb.errors.CaptureError, match="maximum="):
        without(x)
