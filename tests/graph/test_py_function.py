"""`pb.py_function`: Python that captured functions call at each run."""

from __future__ import annotations

import numpy as np
import pytest

import pullback as pb
from pullback.graph.graph import check

X = np.array([1.5, -2.5, 0.5], np.float32)


def median(x, scale=1.0):
    return np.median(x.numpy()).astype("float32") * np.float32(scale)


def test_captured_functions_call_it_at_each_run():
    seen = []

    def f(x):
        def host(tree, name):
            seen.append(float(tree["x"][0]))
            return {"m": median(tree["x"]), "n": len(name)}

        found = pb.py_function(host, {"x": x * 2}, "name", result={"m": x[0], "n": 0})
        return x + found["m"], found["n"]

    captured = pb.function(f)
    for i in range(5):
        x = pb.asarray(X + i)
        for one, other in zip(f(x), captured(x), strict=True):
            assert one.numpy().tobytes() == other.numpy().tobytes()
            assert one.dtype == other.dtype
    assert seen == [2 * (1.5 + i) for i in range(5) for _ in range(2)]
    check(captured.graph)
    assert "py_function([v0], function=host, kinds=(((), dtype('float32'))" in str(captured.graph)


def test_arguments_that_are_constants_do_not_make_it_one():
    count = iter(range(100))
    captured = pb.function(lambda x: x + pb.py_function(lambda: next(count) * 1.0, result=x))
    assert [captured(pb.asarray(0.0)).item() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_it_is_a_constant_for_tapes():
    def slope(x):
        return pb.grad(lambda x: pb.sum(x * pb.py_function(median, x, result=x[0])))(x)

    captured = pb.function(slope)
    for _ in range(3):
        assert slope(pb.asarray(X)).tolist() == captured(pb.asarray(X)).tolist() == [0.5] * 3


def test_a_gradient_of_its_own():
    @pb.custom_gradient
    def cubed(x):
        y = pb.py_function(lambda x: x.numpy() ** 3, x, result=x)
        return y, lambda g: g * pb.py_function(lambda x: 3 * x.numpy() ** 2, x, result=x)

    slope = pb.grad(lambda x: pb.sum(cubed(x)))
    captured = pb.function(slope)
    for _ in range(3):
        assert captured(pb.asarray(X)).tolist() == (3 * X**2).tolist()
    model = pb.function(cubed)
    for _ in range(3):
        assert pb.grad(lambda x: pb.sum(model(x)))(pb.asarray(X)).tolist() == (3 * X**2).tolist()


def test_branches_and_steps_call_it_when_they_run():
    seen = []

    def host(x):
        seen.append(x.item())
        if x.item() > 100:
            raise ValueError("too large")
        return x.item() + 1.0

    def f(x):
        y = pb.cond(x > 0, lambda: pb.py_function(host, x, result=x), lambda: x)
        return pb.scan(lambda c, _: (pb.py_function(host, c, result=c), c), y, length=2)

    captured = pb.function(f)
    for value in (1.0, -1.0):
        for _ in range(3):
            found = []
            for function in (f, captured):
                seen.clear()
                last, before = function(pb.asarray(value))
                found.append((last.item(), before.tolist(), list(seen)))
            assert found[0] == found[1]
    check(captured.graph)
    with pytest.raises(ValueError, match="too large"):
        captured(pb.asarray(200.0))


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (
            lambda x: x[:2],
            pb.errors.ShapeError,
            r"float32\[2\], and result is float32\[3\]; result=",
        ),
        (lambda x: x > 0, pb.errors.DTypeError, r"returned bool\[3\], and result is float32"),
        (lambda x: (x, x), pb.errors.InputValueError, r"returned \(float32\[3\], float32"),
        (lambda x: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_wrong_results(f, error, message, captured):
    def call(x):
        return pb.py_function(f, x, result=x)

    run = pb.function(call).lower if captured else call
    with pytest.raises(error, match=message):
        run(pb.asarray(X))
    assert pb.sum(pb.asarray(X)).item() == -0.5


def test_what_it_makes_is_on_the_real_device():
    kept = []

    def host(x):
        kept.append(pb.zeros(3) + x)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x * x)
        return tape.gradient(y, x)

    captured = pb.function(lambda x: pb.py_function(host, x, result=x) * 1)
    for _ in range(3):
        assert captured(pb.asarray(X)).tolist() == (X * 2).tolist()
    assert [y.tolist() for y in kept] == [X.tolist()] * 3


# For its effect ----------------------------------------------------------------------------------


def test_effects_come_at_each_run_in_order_with_its_tensors_and_numbers():
    """Eager calls and captured ones have the same effects, also where numbers become inputs."""

    def run(seen, x, k):
        pb.py_function(lambda tree, k: seen.append((tree["x"].tolist(), k)), {"x": x * 2}, k)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(x * x) * k
            pb.py_function(lambda y: seen.append(y.item()), y)
        seen_last = pb.py_function(seen.append, "last")
        assert seen_last is None
        return tape.gradient(y, x)

    eager, captured = [], []
    f = pb.function(lambda x, k: run(captured, x, k))
    for i in range(8):
        x = pb.asarray(X + i)
        assert run(eager, x, i).tolist() == f(x, i).tolist()
    assert captured == eager
    assert len(eager) == 24
    with pytest.raises(ZeroDivisionError):
        pb.function(lambda x: pb.py_function(lambda x: 1 / 0, x))(pb.asarray(X))


def test_prints_of_a_captured_function_are_those_of_eager_calls(capsys):
    def f(x, name, k):
        pb.print(name, {"x": x, "k": [k, x[0]]}, sep="|", end=";\n")
        pb.print()
        return x + 1

    arguments = [(pb.asarray(X + i), "ab"[i % 2], 0.5 * i) for i in range(8)]
    for x, name, k in arguments:
        print(name, {"x": x, "k": [k, x[0]]}, sep="|", end=";\n\n")
    plain = capsys.readouterr().out
    for call in (f, pb.function(f)):
        for each in arguments:
            call(*each)
        assert capsys.readouterr().out == plain


def test_effects_in_branches_name_the_way_out_and_those_of_short_loops_come_at_each_step():
    seen = []

    def branch(x):
        pb.py_function(seen.append, "no")
        return x

    f = pb.function(lambda x: pb.cond(x[0] > 0, branch, lambda x: x + 1, x))
    with pytest.raises(pb.errors.CaptureError, match=r"or prints, in true_fn .* do it after that"):
        f.lower(pb.asarray(X))

    def step(c, x):
        pb.py_function(lambda x: seen.append(x.item()), x)
        return c + x, c

    seen.clear()
    g = pb.function(lambda x: pb.scan(step, pb.asarray(0.0), x))
    for _ in range(4):
        g(pb.asarray(X))
    assert seen == X.tolist() * 4
