"""Variables as tapes see them, one tape inside another."""

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
