"""Tapes in several threads: each records its own thread, whatever they watch together."""

import contextlib
import queue
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback._dispatch.recording import LOCAL, RECORDING


@pytest.fixture
def eager_switching():
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(function, count=4):
    with ThreadPoolExecutor(count) as pool:
        return [one.result() for one in [pool.submit(function, i) for i in range(count)]]


def test_one_tensor_watched_in_every_thread(eager_switching):
    x = pb.asarray(3.0)

    def work(i):
        wrong = 0
        for _ in range(500):
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = x * x if i % 2 else x * x * x
            g = tape.gradient(y, x)
            wrong += g is None or float(g) != (6.0 if i % 2 else 27.0)
        return wrong

    assert in_threads(work) == [0, 0, 0, 0]


def test_one_variable_read_in_every_thread(eager_switching):
    v = pb.Variable(3.0)

    def work(i):
        wrong = 0
        for _ in range(500):
            with pb.GradientTape() as tape:
                y = v * v if i % 2 else v * v * v
            g = tape.gradient(y, v)
            wrong += g is None or float(g) != (6.0 if i % 2 else 27.0)
        return wrong

    assert in_threads(work) == [0, 0, 0, 0]


def test_second_order_in_every_thread(eager_switching):
    x = pb.asarray(3.0)

    def work(i):
        wrong = 0
        for _ in range(200):
            with pb.GradientTape() as outer:
                outer.watch(x)
                with pb.GradientTape() as inner:
                    inner.watch(x)
                    y = x * x * x
                g = inner.gradient(y, x)
            wrong += float(outer.gradient(g, x)) != 18.0
        return wrong

    assert in_threads(work) == [0, 0, 0, 0]


def test_persistent_tape_beside_others(eager_switching):
    x = pb.asarray(3.0)
    with pb.GradientTape(persistent=True) as mine:
        mine.watch(x)
        y = x * x

        def work(i):
            for _ in range(100):
                with pb.GradientTape() as tape:
                    tape.watch(x)
                    z = x * x * x
                assert float(tape.gradient(z, x)) == 27.0

        in_threads(work)
        w = y * x
    assert float(mine.gradient(w, x)) == 27.0
    assert float(mine.gradient(y, x)) == 6.0


def test_a_tape_does_not_hear_another_thread():
    x = pb.asarray(3.0)
    found = []
    with pb.GradientTape() as tape:
        tape.watch(x)

        def work():
            found.append(x * x)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        y = x * 2.0
    assert found[0]._node is None or found[0]._node.serial < 0 or found[0]._node.op is None
    assert float(tape.gradient(y, x)) == 2.0


def test_what_another_thread_computed_is_a_constant():
    x = pb.asarray(3.0)
    found = []

    def work():
        with pb.GradientTape() as own:
            own.watch(x)
            found.append(x * x)

    with pb.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        y = found[0] * x
    assert float(tape.gradient(y, x)) == 9.0


def test_left_in_another_thread():
    tape = pb.GradientTape()
    raised = []

    def leave():
        try:
            tape.__exit__(None, None, None)
        except errors.TapeError as error:
            raised.append(str(error))

    with tape:
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
    assert raised
    assert "thread" in raised[0]


def test_entered_again_in_another_thread():
    x = pb.asarray(3.0)
    tape = pb.GradientTape(persistent=True)
    with tape:
        tape.watch(x)
        y = x * x

    def work(_):
        with pytest.raises(errors.TapeError, match="another thread"), tape:
            pass
        return float(tape.gradient(y, x))

    assert in_threads(work, 1) == [6.0]
    with tape:
        z = y * x
    assert float(tape.gradient(z, x)) == 27.0


def test_gradient_is_asked_in_another_thread():
    x = pb.asarray(np.ones(3))
    with pb.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(tape.gradient, y, x).result().tolist() == [2.0, 2.0, 2.0]


def test_an_op_is_specialised_once_by_whoever_is_first(eager_switching):
    @pb.op(
        shape=pb.shapes.broadcast,
        dtype=pb.dtypes.numeric,
        accuracy=pb.spec.ROUNDED,
        name="test_threads.double",
    )
    def double(x: "pb.tensor.TensorLike", /) -> "pb.Tensor":
        """Twice x."""
        return x + x

    barrier = threading.Barrier(4)

    def work(i):
        barrier.wait()
        return float(double(pb.asarray(2.0)))

    try:
        assert in_threads(work) == [4.0] * 4
    finally:
        del pb.spec.OPS["test_threads.double"]


def suspended(x):
    """A generator that stands still inside a tape."""
    with pb.GradientTape() as tape:
        tape.watch(x)
        yield tape
        yield x * x


def nothing_records():
    """No tape records: ops leave no nodes, and count of tapes is 0."""
    return RECORDING.count == 0 and not LOCAL.state.recording and not LOCAL.state.tapes


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("drop", [lambda held: held.clear(), lambda held: held.pop()])
def test_a_generator_collected_in_another_thread_no_longer_records(drop):
    held = [suspended(pb.asarray(3.0))]
    next(held[0])
    assert RECORDING.count == 1
    thread = threading.Thread(target=drop, args=(held,))
    thread.start()
    thread.join()
    assert nothing_records()


def test_leaving_a_tape_in_another_thread_says_so_and_keeps_what_was_recorded():
    x = pb.asarray(3.0)
    with pb.GradientTape() as outer:
        outer.watch(x)
        tape = pb.GradientTape().__enter__()
        tape.watch(x)
        y = x * x
        elsewhere = ThreadPoolExecutor(1)
        with elsewhere as pool, pytest.raises(errors.TapeError, match="in its own thread"):
            pool.submit(tape.__exit__, None, None, None).result()
        assert RECORDING.count == 1
        assert LOCAL.state.recording
        z = y * x
    assert nothing_records()
    assert float(tape.gradient(y, x)) == 6.0
    assert float(outer.gradient(z, x)) == 27.0


def test_a_thread_that_ends_inside_a_tape():
    x = pb.asarray(3.0)
    kept = []

    def enter():
        generator = suspended(x)
        kept.append((generator, next(generator), next(generator)))

    def enter_and_forget():
        pb.GradientTape().__enter__().watch(x)

    for target in (enter, enter_and_forget):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
        assert nothing_records()
    generator, tape, y = kept.pop()
    assert float(tape.gradient(y, x)) == 6.0
    generator.close()
    assert nothing_records()


def test_tapes_left_elsewhere_do_not_disturb_those_entered_meanwhile(eager_switching):
    x = pb.asarray(3.0)
    left, refused = queue.Queue(), []

    def leave():
        while (tape := left.get()) is not None:
            with pytest.raises(errors.TapeError):
                tape.__exit__(None, None, None)
            refused.append(tape)

    other = threading.Thread(target=leave)
    other.start()
    wrong = 0
    try:
        for _ in range(500):
            left.put(pb.GradientTape().__enter__())
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = x * pb.cosh(x) * 0.0 + x * x
            found = tape.gradient(y, x)
            wrong += found is None or float(found) != 6.0
    finally:
        left.put(None)
        other.join()
    assert not wrong
    assert len(refused) == 500
    assert nothing_records()


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_watched_again_after_another_thread_has_computed_it(elsewhere, taped, inside):
    x, found = pb.asarray([1.0, 2.0]), []

    def work():
        with pb.GradientTape() if taped else contextlib.nullcontext() as own:
            if taped:
                own.watch(x)
            found.append(x * 2.0)

    with pb.GradientTape(persistent=True) as tape:
        tape.watch(x)
        if elsewhere:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
        y = found[0]
        tape.watch(y)
        z = pb.sum(y * y * 3.0)
        early = tape.gradient(z, [x, y]) if inside else None
    expected = [None if elsewhere else [24.0, 48.0], [12.0, 24.0]]
    for gradients in (tape.gradient(z, [x, y]), early or tape.gradient(z, [x, y])):
        assert [g if g is None else g.tolist() for g in gradients] == expected
