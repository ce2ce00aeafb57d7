"""The arrays that a tape keeps and releases, and graphs that are deep."""

import gc
import sys
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback._dispatch.recording import Node


@pytest.fixture
def no_collector():
    """Reference counts alone must free everything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def nodes():
    return sum(isinstance(one, Node) for one in gc.get_objects())


def watch_array(tensor):
    """A weak reference to the native array; the tensor itself is only a handle."""
    return weakref.ref(tensor._array)


# Freed by reference counts -----------------------------------------------------------------------


def test_outputs_take_their_nodes_along(no_collector):
    x = pb.asarray(np.ones(3))
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
        refs = [weakref.ref(y._node), weakref.ref(z._node)]
        arrays = [watch_array(y), watch_array(z)]
        del y
        assert refs[0]() is not None  # z needs it
        del z
        assert [r() for r in refs] == [None, None]
        assert [a() for a in arrays] == [None, None]


def test_what_no_rule_needs_is_not_kept(no_collector):
    x = pb.asarray(np.ones(3))
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
        z = y + y
        array = watch_array(y)
        del y
        # Neither rule of add asks for its inputs.
        assert array() is None
    assert tape.gradient(z, x).tolist() == [4.0, 4.0, 4.0]


def test_gradient_lets_go_of_the_graph(no_collector):
    x = pb.asarray(np.ones(3))
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        array = watch_array(y)
        z = y * y
        del y
    assert array() is not None
    g = tape.gradient(z, x)
    # z is still there, the tape is still there: what was between is not.
    assert array() is None
    del g


def test_a_persistent_tape_keeps_the_graph_while_a_result_lives(no_collector):
    x = pb.asarray(np.ones(3))
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        array = watch_array(y)
        z = y * y
        del y
    tape.gradient(z, x)
    assert array() is not None
    del z
    assert array() is None


def test_a_tape_dies_with_its_last_reference(no_collector):
    x = pb.asarray(np.ones(3))
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    ref = weakref.ref(tape)
    del tape
    assert ref() is None
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_a_variable_dies_with_its_last_reference(no_collector):
    v = pb.Variable(np.ones(3))
    with pb.GradientTape() as tape:
        y = v * v
    ref = weakref.ref(v)
    tape.gradient(y, v)
    del v
    assert ref() is None


def test_an_exception_inside_keeps_nothing(no_collector):
    def step():
        x = pb.asarray(np.ones(3))
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            refs.append(weakref.ref(y._node))
            raise ValueError

    refs = []
    with pytest.raises(ValueError):  # noqa: PT011
        step()
    sys.last_value = None
    assert refs[0]() is None


def test_a_loop_keeps_the_number_of_objects(no_collector):
    x = pb.asarray(np.ones(3))
    before = None
    for step in range(3000):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = x * x + x
        tape.gradient(y, x)
        if step == 10:
            before = len(gc.get_objects()), nodes()
    after = len(gc.get_objects()), nodes()
    assert after[1] <= before[1] + 2
    assert after[0] <= before[0] + 20


def test_a_loop_with_a_variable_keeps_the_number_of_objects(no_collector):
    v = pb.Variable(np.ones(3))
    before = None
    for step in range(1000):
        with pb.GradientTape() as tape:
            y = v * v
        v.assign_sub(tape.gradient(y, v) * 1e-3)
        if step == 10:
            before = len(gc.get_objects()), nodes()
    after = len(gc.get_objects()), nodes()
    assert after[1] <= before[1] + 2
    assert after[0] <= before[0] + 20


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("of", ["tensor", "variable", "both"])
def test_tapes_of_one_value_do_not_pile_up(no_collector, of, asked, persistent):
    x, v = pb.ones(3), pb.Variable([1.0, 2.0, 3.0])

    def use():
        with pb.GradientTape(persistent=persistent) as tape:
            if of != "variable":
                tape.watch(x)
            y = pb.sum(x * x) if of == "tensor" else pb.sum(x * v)
        if asked:
            tape.gradient(y, [x, v])

    use()
    before = nodes()
    for _ in range(20):
        use()
    assert nodes() <= before + 2


def test_carried_state_does_not_keep_old_graphs(no_collector):
    w, h = pb.asarray(np.full(3, 0.5)), pb.asarray(np.ones(3))
    counts = []
    for step in range(200):
        with pb.GradientTape() as tape:
            tape.watch(w)
            h = h * w + 1.0
            loss = h * h
        assert tape.gradient(loss, w).shape == (3,)
        if step in (5, 199):
            counts.append(nodes())
    assert counts[1] <= counts[0]


def test_carried_state_that_is_watched_anew(no_collector):
    h = pb.asarray(np.ones(3))
    counts = []
    for step in range(200):
        with pb.GradientTape() as tape:
            tape.watch(h)
            out = h * 0.5
            loss = out * out
        tape.gradient(loss, h)
        h = out
        if step in (5, 199):
            counts.append(nodes())
    assert counts[1] <= counts[0]


def test_carried_state_under_no_gradient_call(no_collector):
    # The tape is made in vain at every step: only the last one may hold its graph.
    h, w = pb.asarray(np.ones(3)), pb.asarray(np.ones(3))
    counts = []
    for step in range(200):
        with pb.GradientTape() as tape:
            tape.watch(w)
            h = h * w
        if step in (5, 199):
            counts.append(nodes())
    assert counts[1] <= counts[0], "each step holds on to the one before"
    assert tape is not None


def test_gradient_of_a_carried_state_reaches_one_step_back_only():
    w, h = pb.asarray(2.0), pb.asarray(1.0)
    for _ in range(5):
        with pb.GradientTape() as tape:
            tape.watch(w)
            before = h
            h = h * w
        assert float(tape.gradient(h, w)) == float(before)


def test_a_graph_that_was_let_go_says_so():
    x = pb.asarray(3.0)
    with pb.GradientTape() as outer:
        outer.watch(x)
        with pb.GradientTape() as inner:
            inner.watch(x)
            y = x * x
        assert float(inner.gradient(y, x)) == 6.0
    # The outer tape may still ask: nothing was released.
    assert float(outer.gradient(y, x)) == 6.0


# Depth -------------------------------------------------------------------------------------------


def chain(length):
    x = pb.asarray(1.0)
    tape = pb.GradientTape()
    with tape:
        tape.watch(x)
        y = x
        for _ in range(length):
            y = y * 1.0
    return x, y, tape


def test_a_deep_chain():
    x, y, tape = chain(100_000)
    assert float(tape.gradient(y, x)) == 1.0


def test_a_deep_chain_is_freed_without_recursion(no_collector):
    x, y, tape = chain(100_000)
    before = nodes()
    del y
    assert nodes() <= before - 99_999
    assert tape is not None
    assert x.tolist() == 1.0


def test_a_deep_chain_of_a_persistent_tape():
    x = pb.asarray(1.0)
    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x
        for _ in range(100_000):
            y = y + x
    assert float(tape.gradient(y, x)) == 100_001.0
    assert float(tape.gradient(y, x)) == 100_001.0
    del tape, y


def test_a_deep_chain_in_second_order():
    x = pb.asarray(1.0)
    with pb.GradientTape() as outer:
        outer.watch(x)
        with pb.GradientTape() as inner:
            inner.watch(x)
            y = x
            for _ in range(3000):
                y = y * x
        g = inner.gradient(y, x)
    assert float(g) == 3001.0
    assert float(outer.gradient(g, x)) == 3001.0 * 3000.0


def test_deep_leaves():
    # Leaf again by a new tape at every step, with every tape still there.
    x, tapes = pb.asarray(3.0), []
    for _ in range(2000):
        tape = pb.GradientTape(persistent=True)
        tapes.append(tape)
        with tape:
            tape.watch(x)
            y = x * x
    assert float(tapes[-1].gradient(y, x)) == 6.0
    assert float(tapes[-1].gradient(y, x)) == 6.0
    del tapes, tape, y, x


def test_let_go_graph_raises_for_a_later_tape():
    x = pb.asarray(3.0)
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)
    # A later tape never recorded y: a constant to it, not an error and no wrong number.
    with pb.GradientTape() as later:
        later.watch(x)
        z = y * x
    assert float(later.gradient(z, x)) == 9.0
    with pytest.raises(errors.TapeError):
        tape.gradient(y, x)
