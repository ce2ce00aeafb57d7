"""Variables as tapes see them, one tape inside another."""

import contextlib
import warnings

import pytest

import pullback as pb


def test_variable_behind_a_watched_value():
    # The outer tape watches the variable, the inner one the tensor that was read from it.
    v = pb.Variable(3.0)
    with pb.GradientTape() as outer:
        t = v.value
        with pb.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(t)
            y = t * t
        g = inner.gradient(y, t)
    assert float(g) == 6.0
    assert float(outer.gradient(g, v)) == 2.0


def test_variable_watched_by_three_tapes():
    v = pb.Variable(2.0)
    with pb.GradientTape() as third:
        with pb.GradientTape() as second:
            with pb.GradientTape() as first:
                y = v * v * v
            g1 = first.gradient(y, v)
        g2 = second.gradient(g1, v)
    assert (float(g1), float(g2), float(third.gradient(g2, v))) == (12.0, 12.0, 6.0)


def test_tapes_record_a_variable_in_their_own_intervals():
    v = pb.Variable(3.0)
    with pb.GradientTape() as outer, pb.GradientTape() as inner:
        with inner.stop_recording():
            y = v * v
        z = y + v
    assert float(inner.gradient(z, v)) == 1.0
    assert float(outer.gradient(z, v)) == 7.0


def test_variable_assigned_between_two_tapes():
    v = pb.Variable(2.0)
    with pb.GradientTape() as outer:
        y = v * v
        v.assign(10.0)
        with pb.GradientTape() as inner:
            z = v * v
        gi = inner.gradient(z, v)
        total = y + z
    assert float(gi) == 20.0
    assert float(outer.gradient(total, v)) == 4.0 + 20.0


def test_variables_in_a_structure_of_sources():
    w, b, x = pb.Variable([[1.0], [2.0]]), pb.Variable([0.5]), pb.asarray([[3.0, 4.0]])
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x @ w + b
    found = tape.gradient(y, {"layer": [w, b], "x": x})
    assert found["layer"][0].tolist() == [[3.0], [4.0]]
    assert found["layer"][1].tolist() == [1.0]
    assert found["x"].tolist() == [[1.0, 2.0]]
    assert tape.watched_variables() == ()  # used up: it holds on to nothing


def test_jacobian_of_a_variable():
    v = pb.Variable([1.0, 2.0])
    with pb.GradientTape() as tape:
        y = v * v
    assert tape.jacobian(y, v).tolist() == [[2.0, 0.0], [0.0, 4.0]]


class TestAssignedBesideATape:
    """A gradient through a step that assigns is not followed: the tape says so where it matters."""

    @pytest.mark.parametrize(
        "step",
        [
            lambda v, slope: v.assign(v - 0.1 * slope),
            lambda v, slope: v.assign_sub(0.1 * slope),
            lambda v, slope: v.assign_add(-0.1 * slope),
            lambda v, slope: pb.optimizers.SGD(0.1).apply_gradients([(slope, v)]),
        ],
        ids=["assign", "assign_sub", "assign_add", "optimizer"],
    )
    @pytest.mark.parametrize("inner", ["tape", "grad"])
    @pytest.mark.parametrize("outer_tapes", [1, 2])
    def test_a_step_inside_a_tape(self, step, inner, outer_tapes):
        v = pb.Variable(1.0)
        with contextlib.ExitStack() as stack:
            tapes = [stack.enter_context(pb.GradientTape()) for _ in range(outer_tapes)]
            if inner == "tape":
                with pb.GradientTape() as tape:
                    loss = v * v
                slope = tape.gradient(loss, v)
            else:
                slope = pb.grad(lambda a: a * a)(v.value)
            step(v, slope)
            loss = v * v
        for tape in tapes:
            with pytest.warns(RuntimeWarning, match="functional_call") as caught:
                assert float(tape.gradient(loss, v)) == pytest.approx(1.6)
            assert caught[0].filename == __file__

    @pytest.mark.parametrize("persistent", [True, False])
    def test_a_gradient_that_lies_before_the_step(self, persistent):
        v = pb.Variable(1.0)
        with pb.GradientTape(persistent=persistent) as tape:
            loss = v * v
            v.assign(v - 0.1 * loss)
        assert float(tape.gradient(loss, v)) == 2.0

    def test_values_that_no_tape_has_recorded(self):
        v, rate = pb.Variable(1.0), pb.Variable(0.5, trainable=False)
        with pb.GradientTape() as tape:
            v.assign(rate * 2.0)
            v.assign(3.0)
            v.assign_add(pb.asarray(1.0))
            loss = v * v
        assert float(tape.gradient(loss, v)) == 8.0

    def test_an_average_that_nobody_differentiates(self):
        v, average = pb.Variable(1.0), pb.Variable(0.0)
        with pb.GradientTape() as tape:
            average.assign(0.9 * average + 0.1 * v)
            loss = v * average
        assert float(tape.gradient(loss, v)) == pytest.approx(0.1)

    def test_a_tape_that_was_reset_has_forgotten(self):
        v = pb.Variable(1.0)
        with pb.GradientTape() as tape:
            v.assign(v * 2.0)
            tape.reset()
            loss = v * v
        assert float(tape.gradient(loss, v)) == 4.0

    def test_a_captured_function_is_not_asked_for_each_gradient(self):
        v, w = pb.Variable(1.0), pb.Variable(2.0)

        @pb.function
        def step(x):
            v.assign(v * w)
            return v * w * x

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                v.assign(1.0)
                with pb.GradientTape() as tape:
                    loss = step(pb.asarray(3.0)) + w
                assert float(tape.gradient(loss, w)) == 7.0
