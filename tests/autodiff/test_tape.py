"""GradientTape: its records, its gradients, and its errors."""

import numpy as np
import pytest

import pullback as pb
from pullback import errors


def watched(value, tape):
    x = pb.asarray(value)
    tape.watch(x)
    return x


# Values ------------------------------------------------------------------------------------------


def test_square():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_two_sources_and_broadcasting():
    a, b = pb.asarray([[1.0, 2.0], [3.0, 4.0]]), pb.asarray([10.0, 20.0])
    with pb.GradientTape() as tape:
        tape.watch([a, b])
        y = a * b
    ga, gb = tape.gradient(y, [a, b])
    assert ga.tolist() == [[10.0, 20.0], [10.0, 20.0]]
    assert gb.tolist() == [4.0, 6.0]


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3, 1), (1, 4), (3, 4), (4,)])
def test_gradient_has_the_shape_of_its_source(shape):
    x = pb.asarray(np.ones(shape))
    other = pb.asarray(np.ones((2, 3, 4)))
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * other
    g = tape.gradient(y, x)
    assert g.shape == shape
    assert g.dtype == np.float64
    np.testing.assert_array_equal(g.numpy(), np.full(shape, 24 / max(1, int(np.prod(shape)))))


def test_scalar_equal_to_a_number_in_the_graph():
    # The number 3.0 in the expression is a constant, whatever the watched tensor holds.
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * 3.0 + 3.0
    assert float(tape.gradient(y, x)) == 3.0


def test_gradients_are_handles_of_their_own():
    x, z = pb.asarray([1.0, 2.0]), pb.asarray([3.0, 4.0])
    seed = pb.asarray([1.0, 1.0])
    with pb.GradientTape() as tape:
        tape.watch([x, z])
        y = x + z
    gx, gz = tape.gradient(y, [x, z], seed)
    gx[0] = 9.0
    assert gz.tolist() == [1.0, 1.0]
    assert seed.tolist() == [1.0, 1.0]


def test_a_gradient_of_one_is_not_the_number_one():
    x = pb.asarray(5.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x + 0
    g = tape.gradient(y, x)
    with pb.GradientTape() as tape:
        tape.watch(g)
        z = g + 1
    assert float(tape.gradient(z, g)) == 1.0


def test_used_many_times():
    x = pb.asarray(2.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(10):
            y = y * x
    assert float(tape.gradient(y, x)) == 11 * 2.0**10


def test_diamond_is_traversed_once():
    # 60 doublings: a traversal of paths instead of nodes would take 2^60 steps.
    x = pb.asarray(1.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(60):
            y = y + y
    assert float(tape.gradient(y, x)) == 2.0**60


def test_python_control_flow():
    def f(x):
        return x if bool(x > 0) else -x

    for value, slope in ((3.0, 1.0), (-3.0, -1.0)):
        x = pb.asarray(value)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert float(tape.gradient(y, x)) == slope


def test_operators_with_host_data():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        ys = [3 * x, x * np.array([3.0, 3.0], np.float32), [3.0, 3.0] * x, np.multiply(3, x)]
    for y in ys:
        assert tape.gradient(y, x).tolist() == [3.0, 3.0]


# Persistence -------------------------------------------------------------------------------------


def test_second_call_names_persistent():
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(RuntimeError, match=r"persistent=True"):
        tape.gradient(y, x)
    with pytest.raises(errors.TapeError, match=r"persistent=True"):
        tape.jacobian(y, x)


def test_persistent_gives_any_number():
    with pb.GradientTape(persistent=True) as tape:
        x = watched(3.0, tape)
        y = x * x
        z = y * y
    for _ in range(3):
        assert float(tape.gradient(y, x)) == 6.0
        assert float(tape.gradient(z, x)) == 108.0
        assert float(tape.gradient(z, y)) == 18.0


def test_used_tape_is_not_entered_again():
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
        y = x * x
    tape.gradient(y, x)
    with pytest.raises(errors.TapeError, match="reset"), tape:
        pass


def test_reset_makes_a_used_tape_new():
    with pb.GradientTape() as tape:
        x = watched(3.0, tape)
        y = x * x
    tape.gradient(y, x)
    tape.reset()
    with tape:
        tape.watch(x)
        y = x * x * x
    assert float(tape.gradient(y, x)) == 27.0


def test_reset_inside_forgets_and_goes_on():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        tape.reset()
        z = x * x
        tape.watch(x)
        w = x * x
    assert tape.gradient(y, x) is None
    assert tape.gradient(z, x) is None
    assert float(tape.gradient(w, x)) == 6.0


def test_entered_twice_at_once():
    tape = pb.GradientTape()
    with tape, pytest.raises(errors.TapeError, match="recording already"):
        tape.__enter__()


def test_persistent_tape_entered_again_hears_both_parts():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    outside = y * y
    with tape:
        z = y * x
    assert float(tape.gradient(z, x)) == 27.0
    # What was computed in between is no part of it.
    assert outside._node is None or tape.gradient(outside, x) is None


def test_gradient_inside_the_block_stops_the_tape():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        assert float(tape.gradient(y, x)) == 6.0
        z = x * x
        assert z._node is None
    with pytest.raises(errors.TapeError, match="persistent"):
        tape.gradient(y, x)


def test_persistent_gradient_inside_the_block_is_recorded():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * x
        first = tape.gradient(y, x)
        second = tape.gradient(first, x)
    assert (float(first), float(second)) == (27.0, 18.0)
    assert float(tape.gradient(second, x)) == 6.0


# Order of watching and hearing -------------------------------------------------------------------


def test_watch_after_use_gives_the_later_part_only():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        y = x * x
        tape.watch(x)
        z = y * x
    assert float(tape.gradient(z, x)) == 9.0


def test_watch_twice_changes_nothing():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(x)
        z = y * x
    assert float(tape.gradient(z, x)) == 27.0


def test_watching_an_intermediate_keeps_the_way_back():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        tape.watch(y)
        z = y * y
    assert float(tape.gradient(z, x)) == 108.0
    assert float(tape.gradient(z, y)) == 18.0


def test_watching_an_intermediate_of_another_tape():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as outer:
        outer.watch(x)
        y = x * x
        with pb.GradientTape() as inner:
            inner.watch(y)
            z = y * y
        dz = inner.gradient(z, y)
    assert float(dz) == 18.0
    assert float(outer.gradient(z, x)) == 108.0
    assert float(outer.gradient(z, y)) == 18.0
    assert float(outer.gradient(dz, x)) == 12.0


def test_stop_recording():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * x
        w = y + z
    # z counts as a constant.
    assert float(tape.gradient(w, x)) == 6.0


def test_stop_recording_on_the_inner_of_two():
    x = pb.asarray(3.0)
    with pb.GradientTape() as outer, pb.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with inner.stop_recording():
            y = x * x
        z = y + x
    assert float(inner.gradient(z, x)) == 1.0
    assert float(outer.gradient(z, x)) == 7.0


def test_stop_recording_on_the_outer_of_two():
    x = pb.asarray(3.0)
    with pb.GradientTape() as outer, pb.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with outer.stop_recording():
            y = x * x
        z = y + x
    assert float(inner.gradient(z, x)) == 7.0
    assert float(outer.gradient(z, x)) == 1.0


def test_stop_recording_of_a_tape_at_rest():
    tape = pb.GradientTape()
    with pytest.raises(errors.TapeError, match="with tape"), tape.stop_recording():
        pass


def test_gradient_inside_stop_recording():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            assert float(tape.gradient(y, x)) == 6.0
        z = x * x
        assert z._node is None
    with pytest.raises(errors.TapeError, match="persistent"):
        tape.gradient(z, x)


def test_an_exception_inside_leaves_the_tape():
    x, recorded = pb.asarray(3.0), []
    tape = pb.GradientTape(persistent=True)

    def fails():
        with tape:
            tape.watch(x)
            recorded.append(x * x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert (x * x)._node is None
    assert float(tape.gradient(recorded[0], x)) == 6.0


def test_an_exception_inside_stop_recording_goes_on_recording():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(ZeroDivisionError), tape.stop_recording():
            _ = 1 / 0
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


def test_an_op_that_fails_leaves_no_trace():
    x = pb.asarray([1.0, 2.0])
    with pb.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(errors.ShapeError):
            x + pb.asarray([1.0, 2.0, 3.0])
        y = x * x
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]


# Nested ------------------------------------------------------------------------------------------


def test_third_order():
    x = pb.asarray(2.0)
    with pb.GradientTape() as third:
        third.watch(x)
        with pb.GradientTape() as second:
            second.watch(x)
            with pb.GradientTape() as first:
                first.watch(x)
                y = x * x * x
            g1 = first.gradient(y, x)
        g2 = second.gradient(g1, x)
    g3 = third.gradient(g2, x)
    assert (float(g1), float(g2), float(g3)) == (12.0, 12.0, 6.0)


def test_watched_by_the_outer_tape_only():
    x = pb.asarray(2.0)
    with pb.GradientTape() as outer:
        outer.watch(x)
        y = x * x
        with pb.GradientTape() as inner:
            inner.watch(y)
            z = y * y * y
        g = inner.gradient(z, y)  # 3 y^2 = 3 x^4
    assert float(outer.gradient(g, x)) == 12 * 8.0


def test_interleaved_exits():
    x = pb.asarray(3.0)
    first, second = pb.GradientTape(), pb.GradientTape()
    first.__enter__()
    first.watch(x)
    a = x * x
    second.__enter__()
    second.watch(x)
    b = a * x
    first.__exit__(None, None, None)
    c = b * x
    second.__exit__(None, None, None)
    assert float(first.gradient(b, x)) == 27.0
    # a was recorded by the first tape only: a constant here.
    assert float(second.gradient(c, x)) == 9 * 6.0


def test_the_outer_of_two_gives_its_gradient_first():
    x = pb.asarray(3.0)
    with pb.GradientTape() as outer, pb.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        y = x * x
    assert float(outer.gradient(y, x)) == 6.0
    assert float(inner.gradient(y, x)) == 6.0


def test_gradient_of_a_gradient_where_the_inner_tape_is_persistent():
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with pb.GradientTape(persistent=True) as inner:
            inner.watch(x)
            y = x * x * x
        gs = [inner.gradient(y, x) for _ in range(2)]
    assert [float(outer.gradient(g, x)) for g in gs] == [18.0, 18.0]


def test_results_of_one_op_from_before_a_tape():
    """A tape does not go through an op that it has not recorded, to any of its results."""
    passes = []

    @pb.custom_gradient
    def both(x):
        return (x * 2.0, x * 3.0), lambda g, h: passes.append(1) or g * 2.0 + h * 3.0

    x, w = pb.asarray(1.0), pb.asarray(5.0)
    with pb.GradientTape() as outer:
        outer.watch(x)
        first, second = both(x)
        with pb.GradientTape() as tape:
            tape.watch(w)
            z = first * second * w
        slope = tape.gradient(z, w)
        assert not passes
    assert outer.gradient(slope, x).item() == 12.0
    assert passes
