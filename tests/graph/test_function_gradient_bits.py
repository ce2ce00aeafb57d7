"""Gradients of captured functions have the bits of eager ones: parts are added in eager order."""

import numpy as np
import pytest

import pullback as pb

_rng = np.random.default_rng(0)
_values = _rng.standard_normal((4, 5)).astype(np.float32)
_values[0, 0], _values[1, 1], _values[2] = 0, -0.0, 1
X = pb.asarray(_values)
W = pb.Variable(_rng.standard_normal(5).astype(np.float32), name="w")
FACTOR = 1.25


@pb.custom_gradient
def custom(x):
    return x * 2, lambda g: g * FACTOR


def loop(step):
    return lambda x: pb.fori_loop(0, 3, lambda _, s: step(s, x), x)


def rows(step, **more):
    return lambda x: pb.scan(step, x[0], x, **more)


def chosen(positive, negative, by=1):
    return lambda x: pb.cond(
        pb.sum(x) * by > -1e9, lambda: positive(x) + W * 0, lambda: negative(x) + W * 0
    )


def nested(x):
    def step(_, s):
        def scanned():
            return pb.scan(lambda c, r: (c * 0.5 + r * W, c * W), s[0], x)[1]

        return pb.cond(pb.sum(s) > 0, lambda: s * W + x, scanned)

    return pb.fori_loop(0, 2, step, x)


FUNCTIONS = {
    "several": lambda x: (pb.tanh(x * W) + pb.sin(x) * x, x * 3.1),
    "argument": lambda x: (x, pb.sin(x) * W),
    "one result twice": lambda x: (pb.sin(x) * W,) * 2,
    "custom": lambda x: pb.stack([custom(x) + x, x + custom(x)])[0],
    "loop": loop(lambda s, x: pb.sin(s) * x + pb.cos(x) * 0.3),
    "carry last": loop(lambda s, x: x * 0.5 + s),
    "constant twice": loop(lambda s, x: s * 0.5 + pb.logaddexp(x, x)),
    "two carries": lambda x: pb.fori_loop(0, 3, lambda _, s: (s[0] * W + s[1], x * W), (x, x))[0],
    "two loops": lambda x: loop(lambda s, x: s * 0.5 + x)(x) + loop(lambda s, x: s * 0.3 - x)(x),
    "scan": rows(lambda c, r: (pb.sin(c) * r + W, c * r * W)),
    "last carry": lambda x: rows(lambda c, r: (pb.sin(c) * r + W, c * r * W))(x)[0],
    "carry unused": lambda x: rows(lambda c, r: (pb.sqrt(pb.abs(c)), c * r))(x)[1],
    "reversed": rows(lambda c, r: (c * r - W, c * r), reverse=True),
    "one step": lambda x: rows(lambda c, r: (c * r - W, c * r))(x[:1]),
    "while": lambda x: pb.while_loop(
        lambda s: pb.sum(s * s) < 3e3, lambda s: s * 1.5 + pb.sin(x) * x + W, x, maximum=4
    ),
    "branch": chosen(lambda x: pb.sin(x) * W + x, lambda x: x * 2),
    "other branch": chosen(lambda x: pb.sin(x) * W + x, lambda x: x, by=-1e12),
    "nested": nested,
}


def leaves(value):
    return [value] if isinstance(value, pb.Tensor) else [x for part in value for x in leaves(part)]


def gradients(f, uses):
    """Gradients of what `f` computes, with uses of its argument before and after."""
    with pb.GradientTape() as tape:
        tape.watch(X)
        before = pb.cos(X) * W
        loss = sum(pb.sum(pb.tanh(y) * (1 - 2.5 * i)) for i, y in enumerate(leaves(f(X))))
        if "after" in uses:
            loss = loss + pb.sum(pb.sin(X) * X * W)
        if "before" in uses:
            loss = loss + pb.sum(before)
    return tape.gradient(loss, [X, W])


def bits(found):
    return [None if g is None else g.numpy().tobytes() for g in found]


@pytest.mark.each("name", [*FUNCTIONS])
def test_bits_are_those_op_by_op(name):
    f, uses = FUNCTIONS[name], "before and after"
    with np.errstate(all="ignore"):
        captured, eager = pb.function(f), bits(gradients(f, uses))
        assert [bits(gradients(captured, uses)) for _ in range(3)] == [eager] * 3


@pytest.mark.slow
@pytest.mark.parametrize("uses", ["", "after", "before and after"])
@pytest.mark.parametrize("name", [*FUNCTIONS])
def test_bits_with_all_uses(name, uses):
    f = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        eager = bits(gradients(f, uses))
        outside, inside = pb.function(f), pb.function(gradients)
        assert [bits(gradients(outside, uses)) for _ in range(5)] == [eager] * 5
        assert [bits(inside(f, uses)) for _ in range(4)] == [eager] * 4


def test_gradient_functions_read_what_programs_compare(monkeypatch):
    f = FUNCTIONS["custom"]
    captured = pb.function(f)
    for factor in (1.25, 1.25, 1.25, 2, 2.0, 1.25):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        assert bits(gradients(captured, "")) == bits(gradients(f, ""))
