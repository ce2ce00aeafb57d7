"""`pb.cond`, `switch`, `scan`, `fori_loop`, `while_loop`: values, op by op and captured."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import pullback as pb
from pullback._tree import leaves
from pullback.graph.control.structures import form
from pullback.graph.graph import check

X = np.array([1.0, -3.0, 0.5], np.float32)
MEAN = pb.metrics.Mean()
GENERATOR = pb.Generator(5)


def bits(structure):
    tensors = [x if isinstance(x, pb.Tensor) else x.value for x in leaves(structure)]
    return form(structure), [(x.dtype, x.shape, x.numpy().tobytes()) for x in tensors]


def agrees(function, *calls, programs=1):
    """Calls a function op by op and captured, each way three times with each of the arguments."""
    captured = pb.function(function)
    for arguments in [*calls] * 3:
        given = [pb.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        assert bits(captured(*given)) == bits(function(*given))
    assert (
        captured.explain().splitlines()[0].endswith(f": {programs} program{'s' * (programs > 1)}")
    )
    for program in captured._all():
        check(program.graph)
    return captured


def names(graph):
    return [call.op.name for call in graph.calls]


# Branches -----------------------------------------------------------------------------------------


def test_cond_calls_the_function_that_the_predicate_chooses():
    def f(x):
        return pb.cond(
            pb.sum(x) > 0, lambda x: {"a": x * 2, "b": 1}, lambda x: {"a": -x, "b": 2}, x
        )

    assert f(pb.asarray(X))["a"].tolist() == (-X).tolist()
    assert f(pb.asarray(X))["b"].item() == 2
    captured = agrees(f, (X,), (-X,))
    assert "cond" in names(captured.graph)


def test_python_values_choose_at_once():
    calls = []

    def no():
        calls.append(1)
        return 0

    for yes in (True, 1, np.True_):
        assert pb.cond(yes, lambda: 5, no).item() == 5

    def f(x, flag):
        return pb.cond(flag, lambda: x + 1, no)

    captured = agrees(f, (X, True))
    assert "cond" not in names(captured.graph)
    assert calls == []


def test_the_branch_that_is_not_taken_is_not_called():
    seen = []

    def f(x):
        return pb.cond(x > 0, lambda: seen.append("yes") or x, lambda: seen.append("no") or -x)

    f(pb.asarray(1.0))
    assert seen == ["yes"]


@pytest.mark.parametrize(
    ("pred", "error", "message"),
    [
        (np.float32("nan"), pb.errors.DTypeError, "must be a boolean scalar, got float32"),
        (float("nan"), pb.errors.InputTypeError, "must be a boolean scalar, got float"),
        (np.array(1), pb.errors.DTypeError, "write a comparison, such as x > 0"),
        (np.array([True]), pb.errors.ShapeError, r"got shape \(1,\); write pb.any\(x\)"),
        (None, pb.errors.InputTypeError, "got NoneType"),
        ("yes", pb.errors.InputTypeError, "got str"),
    ],
)
def test_predicates_are_boolean_scalars(pred, error, message):
    with pytest.raises(error, match=message):
        pb.cond(pred, lambda: 1, lambda: 2)
    if isinstance(pred, (np.ndarray, np.generic)):
        f = pb.function(lambda x: pb.cond(x, lambda: 1, lambda: 2))
        for _ in range(3):
            with pytest.raises(error, match=message):
                f(pb.asarray(pred))


def test_switch_takes_the_nearest_branch():
    def f(i, x):
        return pb.switch(i, [lambda x: x, lambda x: x * 10, lambda x: x - 7], x)

    for i, expected in ((-5, X), (0, X), (1, X * 10), (2, X - 7), (9, X - 7)):
        assert f(i, pb.asarray(X)).tolist() == expected.tolist()
        assert f(np.array(i), pb.asarray(X)).tolist() == expected.tolist()
    agrees(f, *((np.array(i), X) for i in (-5, 0, 1, 2, 9)))
    with pytest.raises(pb.errors.InputValueError, match="branches is empty"):
        pb.switch(0, [])
    with pytest.raises(pb.errors.DTypeError, match="must be an integer, got float32"):
        pb.switch(pb.asarray(1.0), [lambda: 1])
    with pytest.raises(pb.errors.InputTypeError, match="must be an integer, got float"):
        pb.switch(1.0, [lambda: 1])


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (lambda x: {"a": x}, pb.errors.InputValueError, r"returns float32\[3\], and false_fn {'a'"),
        (lambda x: x[:2], pb.errors.ShapeError, r"float32\[3\], and false_fn float32\[2\]; both"),
        (lambda x: x > 0, pb.errors.DTypeError, r"false_fn bool\[3\]; both must be alike: convert"),
        (lambda x: None, pb.errors.InputValueError, "and false_fn None"),
    ],
)
def test_captured_branches_return_alike(other, error, message):
    f = pb.function(lambda x: pb.cond(pb.sum(x) > 0, lambda: x, lambda: other(x)))
    x = pb.asarray(abs(X))
    assert bits(f(x)) == bits(x)
    for _ in range(2):
        with pytest.raises(error, match=message):
            f(x)


def test_structures_are_kept():
    class Pair(NamedTuple):
        one: object
        other: object

    def f(x):
        tree = {"p": Pair(x, [x * 2, None]), "n": ()}
        same = lambda t: t  # noqa: E731
        return pb.cond(x[0] > 0, same, lambda t: {**t, "p": Pair(*t["p"])}, tree)

    assert type(f(pb.asarray(X))["p"]) is Pair
    agrees(f, (X,), (-X,))


def test_operands_are_handles_of_their_own():
    def f(x):
        def first(y):
            y[0] = 9.0
            return y

        y = pb.cond(pb.sum(x) > 0, first, lambda y: y, x)
        y[1] = 4.0
        return x, y

    agrees(f, (X,), (-X,))


# Loops --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_is_a_loop_over_the_first_axis(reverse):
    def f(x):
        def step(carry, row):
            total, count = carry
            return (total + row["x"], count + 1), {"before": total, "twice": row["x"] * 2}

        return pb.scan(step, (pb.zeros(3), 0), {"x": x}, reverse=reverse)

    rows = np.stack([X, X * 2, X - 1, X])
    (total, count), results = f(pb.asarray(rows))
    expected, before = np.zeros(3, np.float32), []
    for row in rows[::-1] if reverse else rows:
        before.append(expected)
        expected = expected + row
    assert total.tolist() == expected.tolist()
    assert count.item() == 4
    assert results["before"].tolist() == np.stack(before[::-1] if reverse else before).tolist()
    assert results["twice"].tolist() == (rows * 2).tolist()
    captured = agrees(f, (rows,), (rows * 0.5,))
    assert names(captured.graph)[-1] == "scan"
    assert len(captured.graph.calls) < 4


def test_scan_without_steps_knows_the_shapes_of_its_results():
    seen = []

    def f(x):
        def step(carry, row):
            seen.append(1)
            return carry + row, {"y": pb.stack([row, row]), "n": carry > 0}

        return pb.scan(step, pb.ones(3), x)

    carry, results = f(pb.zeros((0, 3)))
    assert carry.tolist() == [1, 1, 1]
    assert results["y"].shape == (0, 2, 3)
    assert results["n"].dtype == pb.bool
    assert results["n"].shape == (0, 3)
    agrees(f, (np.zeros((0, 3), np.float32),))


def test_scan_without_xs_has_a_length():
    def f(x):
        return pb.scan(lambda c, _: (c * 2, c), x, length=4)

    carry, results = f(pb.asarray(X))
    assert carry.tolist() == (X * 16).tolist()
    assert results.shape == (4, 3)
    agrees(f, (X,))
    agrees(lambda x: pb.scan(lambda c, _: (c, None), x, length=0), (X,))
    agrees(lambda x: pb.scan(lambda c, y: (None, y * 2), None, x)[1], (X,))


def test_loops_of_numbers():
    def f(x, n):
        a = pb.fori_loop(0, 4, lambda i, c: c * 0.5 + i, x)
        b = pb.fori_loop(n, n + 2, lambda i, c: c + i * i, a)
        c = pb.fori_loop(3, n, lambda i, c: c * 0, b)
        return a, b, c, pb.fori_loop(5, 5, lambda i, c: c / 0, x)

    a, b, c, d = f(pb.asarray(X), pb.asarray(2))
    expected = X
    for i in range(4):
        expected = expected * np.float32(0.5) + np.float32(i)
    assert a.tolist() == expected.tolist()
    assert b.tolist() == (expected + np.float32(4) + np.float32(9)).tolist()
    assert c.tolist() == b.tolist()
    assert d.tolist() == X.tolist()
    agrees(f, (X, np.array(2)), (X, np.array(-1)), (X, np.array(7)))


def test_while_loop_runs_while_its_condition_holds():
    def f(x):
        return pb.while_loop(lambda c: pb.sum(c[0]) < 50, lambda c: (c[0] * 2, c[1] + 1), (x, 0))

    value, steps = f(pb.asarray(abs(X)))
    assert value.tolist() == (abs(X) * 16).tolist()
    assert steps.item() == 4
    agrees(f, (abs(X),), (abs(X) * 100,), (abs(X) + 3,))

    def limited(x):
        return pb.while_loop(lambda c: pb.sum(c) < 50, lambda c: c + 1, x, maximum=3)

    assert limited(pb.asarray(X)).tolist() == (X + 3).tolist()
    agrees(limited, (X,), (X + 14,), (X * 0 + 40,))
    agrees(lambda x: pb.while_loop(lambda c: False, lambda c: c + 1, x), (X,))
    agrees(lambda x: pb.while_loop(lambda c: True, lambda c: c + 1, x, maximum=0), (X,))


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: pb.scan(lambda c, r: c + r, x[0], x), "InputValueError", "f must return a pair"),
        (
            lambda x: pb.scan(lambda c, r: (pb.stack([c, c]), r), x[0], x),
            "ShapeError",
            r"f returned the carry float32\[2\], and got float32\[\]; a loop hands on",
        ),
        (
            lambda x: pb.scan(lambda c, r: (c + r, r), 0, x),
            "DTypeError",
            r"f returned the carry float32\[\], and got int32\[\]",
        ),
        (
            lambda x: pb.scan(lambda c, r: ([c], r), x[0], x),
            "InputValueError",
            r"the carry \[float32\[\]\], and got float32\[\]",
        ),
        (lambda x: pb.scan(lambda c, r: (c, r), x[0]), "InputValueError", "write length="),
        (
            lambda x: pb.scan(lambda c, r: (c, r), x[0], x, length=2),
            "InputValueError",
            "have the sizes 3, 2",
        ),
        (
            lambda x: pb.scan(lambda c, r: (c, r), x[0], (x, x[:2])),
            "ShapeError",
            "have the sizes 3, 2",
        ),
        (lambda x: pb.scan(lambda c, r: (c, r), x, x[0]), "ShapeError", r"a tensor of shape \(\)"),
        (
            lambda x: pb.while_loop(lambda c: c[0], lambda c: c, x),
            "DTypeError",
            "the result of cond_fn must be a boolean scalar, got float32",
        ),
        (
            lambda x: pb.while_loop(lambda c: c > 0, lambda c: c, x),
            "ShapeError",
            r"got shape \(3,\)",
        ),
        (
            lambda x: pb.while_loop(lambda c: c[0] > 0, lambda c: c > 0, x),
            "DTypeError",
            r"body_fn returned the carry bool\[3\]",
        ),
        (
            lambda x: pb.while_loop(lambda c: True, lambda c: c, x, maximum=-1),
            "InputValueError",
            "maximum must not be negative",
        ),
        (lambda x: pb.fori_loop(0.5, 2, lambda i, c: c, x), "InputTypeError", "lower must be an"),
        (
            lambda x: pb.fori_loop(0, 2, lambda i, c: (c, i), x),
            "InputValueError",
            "body_fn returned the carry",
        ),
    ],
)
def test_wrong_loops_say_what_to_write(call, error, message, captured):
    x = pb.asarray(abs(X))
    run = pb.function(call).lower if captured else call
    with pytest.raises(getattr(pb.errors, error), match=message):
        run(x)


# In a captured function ---------------------------------------------------------------------------


def test_functions_read_what_is_outside():
    table, weight = pb.asarray(np.arange(6, dtype=np.float32).reshape(2, 3)), pb.Variable(X)
    factor = np.array([2.0, 3.0, 4.0], np.float32)

    def f(x):
        y = x * 2

        def step(carry, row):
            return carry + row * y + weight + pb.asarray(factor) + table[1], carry[0] > table[0, 1]

        return pb.scan(step, pb.zeros(3), table), pb.cond(y[0] > 2, lambda: table[0], lambda: y)

    captured = pb.function(f)
    for i in range(5):
        x = pb.asarray(X + i)
        assert bits(captured(x)) == bits(f(x))
        table[1] = float(i)
        weight.assign_add(pb.ones(3))
    check(captured.graph)


def test_tensors_from_outside_as_operands_are_read_at_each_run():
    table = pb.asarray(X)

    def f(x):
        return (
            pb.cond(x[0] > 0, lambda t: t * 2, lambda t: t, table),
            pb.scan(lambda c, r: (c + r, None), table[0], table)[0],
            pb.fori_loop(0, 2, lambda i, c: c + i, table),
            pb.stop_gradient(table),
        )

    captured = pb.function(f)
    for i in range(5):
        x = pb.asarray(X)
        assert bits(captured(x)) == bits(f(x))
        table[0] = float(i)


def test_copies_of_tensors_from_outside_are_made_at_each_run():
    table = pb.asarray(X)

    def f(x):
        def step(carry, _):
            part = pb.asarray(x, copy=True)
            part[0] = carry[1]
            return carry + part, None

        copied = pb.asarray(table, copy=True)
        whole = copied * 2
        copied[1] = x[0]
        return whole, copied, pb.scan(step, x, length=2)[0], x

    captured = pb.function(f)
    for i in range(5):
        x = pb.asarray(X + i)
        assert bits(captured(x)) == bits(f(x))
        table[0] = float(i)


def test_variables_are_written_where_they_would_be():
    count = pb.Variable(0, trainable=False)
    average = pb.Variable(0.0, trainable=False)

    def f(x):
        def step(carry, row):
            average.assign(average * 0.9 + pb.sum(row) * 0.1)
            pb.cond(pb.sum(row) > 0, lambda: count.assign_add(1), lambda: count)
            return carry + average, count * 1

        carry, results = pb.scan(step, pb.asarray(0.0), x)

        def remember():
            average.assign(carry)

        pb.cond(carry > 0, remember, lambda: None)
        return (
            carry,
            results,
            pb.while_loop(
                lambda c: count < 10, lambda c: c + count.assign_add(3) * 1, carry.astype("int32")
            ),
        )

    rows = np.stack([X, -X, X + 2])
    captured = pb.function(f)
    for i in range(4):
        found = []
        for function in (f, captured):
            count.assign(i)
            average.assign(float(i))
            result = bits(function(pb.asarray(rows * (1 if i % 2 else -1))))
            found.append((result, int(count), float(average)))
        assert found[0] == found[1]
    check(captured.graph)


def test_an_error_in_a_run_leaves_variables_alone():
    count = pb.Variable(0, trainable=False)
    table = pb.asarray(X)

    def f(i):
        def step(carry, _):
            count.assign_add(1)
            return carry + pb.take(table, carry, axis=0).astype("int32"), None

        return pb.cond(i >= 0, lambda: pb.scan(step, i, length=1)[0], lambda: i)

    captured = pb.function(f)
    for _ in range(3):
        captured(pb.asarray(1))
    count.assign(7)
    with pytest.raises(pb.errors.IndexingError, match="take") as caught:
        captured(pb.asarray(5))
    assert int(count) == 7
    assert "called at test_control_flow.py:" in "".join(caught.value.__notes__)
    captured(pb.asarray(0))
    assert int(count) == 8


def test_an_index_out_of_range_in_the_branch_that_is_not_taken_does_no_harm():
    table = pb.asarray(X)

    def f(i):
        return pb.cond(i < 3, lambda: pb.take(table, i, axis=0), lambda: pb.asarray(-1.0))

    agrees(f, (np.array(7),), (np.array(1),))


def test_loops_and_branches_nest():
    def f(x):
        def outer(carry, row):
            def inner(total, value):
                return pb.cond(value > 0, lambda: total + value * carry, lambda: total), total

            total, rows = pb.cond(
                row[0] > 0,
                lambda: pb.scan(inner, carry, row),
                lambda: pb.scan(inner, carry * 0.5, row, reverse=True),
            )
            return pb.while_loop(lambda t: t > 4, lambda t: t * 0.5, total), rows

        return pb.scan(outer, pb.asarray(1.0), x)

    rows = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    agrees(f, (rows,), (-rows,))


def test_captured_functions_in_branches_are_a_part_of_them():
    @pb.function
    def double(x):
        return x * 2

    agrees(lambda x: pb.cond(x[0] > 0, double, lambda x: x, x), (X,), (-X,))


def test_layers_in_loops():
    pb.random.seed(0)
    cell = pb.Sequential([pb.layers.Dense(3, activation="tanh"), pb.layers.Dense(3)])
    cell(pb.zeros((1, 3)))

    def f(x):
        return pb.scan(lambda h, row: (cell(h + row), h[0]), x[0], x)

    rows = np.random.default_rng(0).standard_normal((4, 1, 3)).astype(np.float32)
    captured = agrees(f, (rows,))
    with pb.GradientTape() as tape:
        loss = pb.sum(captured(pb.asarray(rows))[0])
    assert len(tape.gradient(loss, cell.trainable_variables)) == 4


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: GENERATOR.uniform((3,)),
            "draws random numbers in body_fn of pb.while_loop at test_control_flow.py",
        ),
        (lambda x: pb.Variable(x), "makes a variable"),
        (lambda x: float(x[0]), "looks at the values of a tensor"),
        (lambda x: x if x[0] > 0 else -x, "looks at the values of a tensor"),
        (
            lambda x: MEAN(x[0]),
            "changes an optimizer, a metric or other state, or prints, in body_fn of",
        ),
    ],
)
def test_what_a_loop_cannot_do_names_the_line(call, message):
    def body(carry):
        call(carry)
        return carry + 1

    f = pb.function(lambda x: pb.while_loop(lambda c: c[0] < 5, body, x))
    with pytest.raises(pb.errors.CaptureError, match=message):
        f.lower(pb.asarray(X))
    # What the failed trace has set aside is there again.
    assert pb.sum(pb.asarray(X) * 2).item() == -3


def test_steps_that_draw_random_numbers_are_traced_one_by_one():
    generator = pb.Generator(3)
    mean = pb.metrics.Mean()

    def f(x):
        def inner(i, carry):
            return carry + generator.uniform((3,)) * i

        def step(carry, row):
            carry = pb.fori_loop(0, 2, inner, generator.dropout(carry + row, 0.5))
            mean(carry)
            return carry, {"y": carry * generator.normal(())}

        return pb.scan(step, x[0], x, reverse=True), generator.uniform((2,))

    rows = np.stack([X, X * 2, X - 1])
    captured = pb.function(f)
    for i in range(4):
        found = []
        for function in (f, captured):
            generator.state = (i, 7)
            mean.reset()
            result = bits(function(pb.asarray(rows)))
            found.append((result, generator.state, mean.result()))
        assert found[0] == found[1]
    check(captured.graph)
    assert not any(call.graphs for call in captured.graph.calls)


def test_too_many_steps_that_draw_random_numbers_are_an_error():
    f = pb.function(lambda x: pb.fori_loop(0, 300, lambda i, c: c + GENERATOR.uniform((3,)), x))
    with pytest.raises(pb.errors.CaptureError, match="draw before, for all steps at once"):
        f.lower(pb.asarray(X))


def test_a_tensor_that_leaks_from_a_branch_says_so():
    kept = []

    def f(x):
        y = pb.cond(x[0] > 0, lambda: kept.append(x * 2) or x, lambda: x)
        return y + kept[-1]

    with pytest.raises(pb.errors.CaptureError, match="instead of keeping it"):
        pb.function(f).lower(pb.asarray(X))


def test_graphs_in_graphs_are_printed():
    def double(carry, _):
        return carry * 2, None

    f = pb.function(lambda x: pb.cond(x > 0, lambda: pb.scan(double, x, length=3)[0], lambda: x))
    assert str(f.lower(pb.asarray(2.0)).graph) == EXPECTED


EXPECTED = """\
graph on cpu:0
  input x0: float32[]
  constant c0: float32[] = 0
  v0: bool[] = greater(x0, c0)
  v1: float32[] = cond(v0, [x0])
    branches[0]:
      input o0: float32[]
      v0: float32[] = scan((), [o0], (), carries=1, length=3, reverse=False, states=0, saved=0)
        body:
          input x0: float32[]
          constant c0: float32[] = 2
          v0: float32[] = multiply(x0, c0)
          return v0
      return v0
    branches[1]:
      input o0: float32[]
      return o0
  return v1"""


def test_branches_and_loops_are_saved(tmp_path):
    weight = pb.Variable(np.eye(3, dtype=np.float32) * 2)

    def f(x):
        def step(carry, row):
            carry = pb.cond(pb.sum(row) > 0, lambda: carry @ weight + row, lambda: carry * 0.5)
            return carry, pb.switch(pb.sum(row > 0), [lambda: row, lambda: carry, lambda: -row])

        last, rows = pb.scan(step, x[0], x)
        slope = pb.grad(lambda y: pb.sum(pb.fori_loop(0, 2, lambda i, c: c * y, y)))(last)
        return pb.while_loop(lambda c: pb.sum(c * c) < 99, lambda c: c * 2 + 1, last), rows, slope

    rows = np.stack([X, -X, X + 1])
    pb.function(f).lower(pb.asarray(rows)).save(tmp_path / "program")
    program = pb.load_program(tmp_path / "program")
    check(program.graph)
    captured = pb.function(program)
    for sign in (1, -1, 1, 2):
        x = pb.asarray(rows * np.float32(sign))
        assert bits(program(x)) == bits(f(x)) == bits(captured(x))
    with pb.GradientTape() as tape:
        tape.watch(x)
        loss = pb.sum(program(x)[0])
    with pb.GradientTape() as eager:
        eager.watch(x)
        loss_eager = pb.sum(f(x)[0])
    expected = eager.gradient(loss_eager, x).numpy()
    np.testing.assert_allclose(tape.gradient(loss, x).numpy(), expected, rtol=1e-5)
    with pytest.raises(pb.errors.CaptureError, match="calls Python with"):
        pb.function(lambda x: pb.py_function(lambda x: x, x, result=x)).lower(x).save(
            tmp_path / "p"
        )


def test_functions_that_take_something_else_say_so():
    x = pb.ones(())
    calls = {
        "pb.while_loop: cond_fn is called with the carry": lambda: pb.while_loop(
            lambda i, a: i < 3, lambda i, a: (i + 1, a), (x, x)
        ),
        "pb.while_loop: body_fn must be a function of the carry": lambda: pb.while_loop(
            lambda i: i < 3, 1, x
        ),
        "pb.fori_loop: body_fn is called with a number and the carry": lambda: pb.fori_loop(
            0, 3, lambda carry: carry, x
        ),
        "pb.scan: f is called with the carry and an element": lambda: pb.scan(
            lambda c: c, x, pb.ones(2)
        ),
        "pb.cond: true_fn must be a function of the operands, got float": lambda: pb.cond(
            True, 1.0, 2.0
        ),
        r"pb.switch: branches\[1\] is called with the operands": lambda: pb.switch(
            1, [lambda x: x, lambda: x], x
        ),
    }
    for message, call in calls.items():
        with pytest.raises(pb.errors.InputTypeError, match=message):
            call()
        with pytest.raises(pb.errors.InputTypeError, match=message):
            pb.function(call)()


def test_a_type_error_inside_is_the_functions_own():
    def body(carry):
        return len(3)

    with pytest.raises(TypeError, match="has no len") as caught:
        pb.while_loop(lambda carry: carry < 3, body, pb.ones(()))
    assert not isinstance(caught.value, pb.errors.PullbackError)


@pytest.mark.parametrize("reader", [pb.exp, pb.sum])
@pytest.mark.parametrize("made", [pb.flip, lambda x: x.T])
@pytest.mark.parametrize("use", ["cond", "switch", "scan", "while", "result", "assigned"])
def test_what_a_branch_gives_is_laid_out_as_op_by_op(use, made, reader):
    x = pb.asarray(np.random.default_rng(0).standard_normal((33, 33)).astype(np.float32))
    y = made(x)
    v = pb.Variable(y)

    def f(x, yes):
        def one(*_):
            return made(x) * 1.0

        if use == "cond":
            return reader(pb.cond(yes, lambda: made(x) * 2.0, one))
        if use == "switch":
            return reader(pb.switch(yes.astype("int32"), [one, one]))
        if use == "scan":
            return reader(pb.scan(lambda carry, _: (one(), carry[0]), y, x[:2])[0])
        if use == "while":
            return reader(pb.while_loop(lambda carry: yes | True, one, y, 2))
        if use == "assigned":
            v.assign(one())
        return one()

    captured = pb.function(f)
    for _ in range(3):
        found = []
        for function in (f, captured):
            result = function(x, pb.asarray(False))
            found.append([seen.numpy().tobytes() for seen in (result, reader(result), reader(v))])
        assert found[0] == found[1]
