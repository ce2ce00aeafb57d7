"""Datasets that work ahead: order, errors, bounds, and that nothing is left running."""

from __future__ import annotations

import gc
import multiprocessing
import operator
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from contextlib import suppress

import pytest

import pullback as pb

Dataset = pb.data.Dataset


def until(condition):
    """Waits until something holds; says whether it came to that."""
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.005)
    return condition()


def threads():
    return [one for one in threading.enumerate() if one.name.startswith("pullback-")]


def nothing_runs():
    return not threads() and not multiprocessing.active_children()


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    gc.collect()
    assert until(nothing_runs), (threads(), multiprocessing.active_children())


def values(dataset):
    return [x.tolist() for x in dataset]


def ints(n=10):
    return Dataset.range(n)


class Broken(Exception):
    pass


def fail_at(number):
    def function(x):
        if int(x) == number:
            raise Broken(f"at {number}")
        return x

    return function


def assert_nothing_is_left_by_an_error(dataset, kind=Broken):
    """No cycle of the error with what raised it keeps the iterator: nobody collects any."""
    gc.collect()
    gc.disable()
    try:
        with suppress(kind):
            for _ in dataset:
                pass
        assert until(nothing_runs), (threads(), multiprocessing.active_children())
    finally:
        gc.enable()


PARALLEL = {
    "prefetch": lambda n, f: ints(n).map(f).prefetch(2),
    "threads": lambda n, f: ints(n).map(f, parallel=2),
    "threads prefetch": lambda n, f: ints(n).map(f, parallel=2).prefetch(2),
    "two threads": lambda n, f: ints(n).map(f, parallel=2).map(lambda x: x, parallel=3),
    "interleave": lambda n, f: ints(n).interleave(
        lambda x: Dataset.from_tensor_slices([int(x)]).map(f).prefetch(2), cycle=3
    ),
    "cache": lambda n, f: ints(n).map(f).prefetch(2).cache().prefetch(2),
}


class TestOrderAndErrors:
    @pytest.mark.parametrize("name", sorted(set(PARALLEL) - {"interleave"}))
    def test_same_elements_in_order(self, name):
        def slow_at_times(x):
            time.sleep(0.002 * (int(x) % 3 == 0))
            return x * 2

        assert values(PARALLEL[name](30, slow_at_times)) == list(range(0, 60, 2))

    @pytest.mark.parametrize("name", sorted(set(PARALLEL) - {"interleave"}))
    def test_an_error_is_raised_where_its_element_is_asked_for(self, name):
        iterator = iter(PARALLEL[name](9, fail_at(4)))
        assert [int(next(iterator)) for _ in range(4)] == [0, 1, 2, 3]
        with pytest.raises(Broken, match="at 4") as caught:
            next(iterator)
        assert any(frame.name == "function" for frame in caught.traceback)

    def test_after_an_error_a_map_goes_on_and_a_prefetch_ends(self):
        for parallel in (None, 2):
            iterator = iter(ints(4).map(fail_at(1), parallel=parallel))
            assert int(next(iterator)) == 0
            with pytest.raises(Broken):
                next(iterator)
            assert values(iterator) == [2, 3]
        iterator = iter(ints(4).map(fail_at(1)).prefetch())
        assert int(next(iterator)) == 0
        with pytest.raises(Broken):
            next(iterator)
        assert values(iterator) == []

    def test_errors_of_the_source_come_after_the_elements_before_them(self):
        def numbers():
            yield 1
            yield 2
            raise Broken("source")

        iterator = iter(Dataset.from_generator(numbers).map(lambda x: x, parallel=4))
        assert [int(next(iterator)), int(next(iterator))] == [1, 2]
        with pytest.raises(Broken, match="source"):
            next(iterator)

    def test_position_after_an_error_is_behind_it(self):
        iterator = iter(ints(5).map(fail_at(1), parallel=2))
        next(iterator)
        with pytest.raises(Broken):
            next(iterator)
        other = iter(ints(5).map(fail_at(1), parallel=2))
        other.restore_state(iterator.checkpoint_state())
        assert values(other) == [2, 3, 4]

    def test_threads_work_at_the_same_time(self):
        together = threading.Barrier(3, timeout=20)
        assert len(values(ints(6).map(lambda x: together.wait() * 0 + x, parallel=3))) == 6

    def test_no_tape_hears_what_threads_do(self):
        w = pb.Variable(3.0)
        dataset = Dataset.from_tensor_slices([1.0]).map(lambda x: x * w, parallel=2).prefetch()
        with pb.GradientTape() as tape:
            (element,) = dataset
            loss = element * w
        assert float(tape.gradient(loss, w)) == 3.0

    def test_threads_make_tensors_where_the_pass_was_begun(self):
        with pb.device("cpu:0"):
            iterator = iter(ints(2).map(lambda x: pb.zeros(2), parallel=2).prefetch())
        assert all(x.device is pb.device("cpu:0") for x in iterator)


class TestBounds:
    @pytest.mark.parametrize("size", [1, 3])
    def test_prefetch(self, size):
        made = []
        iterator = iter(ints(50).map(lambda x: made.append(int(x)) or x).prefetch(size))
        for asked in range(1, 4):
            next(iterator)
            assert until(lambda: len(made) >= asked + size)  # noqa: B023
            time.sleep(0.02)
            # One more waits in the hands of the thread for room.
            assert len(made) <= asked + size + 1
        iterator.close()

    def test_parallel_map(self):
        begun = []
        iterator = iter(ints(50).map(lambda x: begun.append(int(x)) or x, parallel=2))
        next(iterator)
        time.sleep(0.02)
        assert len(begun) <= 4
        iterator.close()


class TestNothingIsLeft:
    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_leaving_early(self, name):
        dataset = PARALLEL[name](10_000, lambda x: x)
        for i, _ in enumerate(dataset):
            if i == 3:
                break
        # The dataset is still there, and so may be the loop's variables: nothing runs all the same.
        assert until(nothing_runs)
        assert len(values(dataset.take(2))) == 2

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_the_last_element(self, name):
        iterator = iter(PARALLEL[name](5, lambda x: x))
        list(iterator)
        assert until(nothing_runs)

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_close(self, name):
        with iter(PARALLEL[name](10_000, lambda x: x)) as iterator:
            next(iterator)
            state = iterator.checkpoint_state()
        assert until(nothing_runs)
        assert iterator.checkpoint_state() == state
        with pytest.raises(StopIteration):
            next(iterator)

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_an_error(self, name):
        dataset = PARALLEL[name](10_000, fail_at(1))
        assert_nothing_is_left_by_an_error(dataset)
        # Nor does the iterator outlive it when it had more to give.
        assert_nothing_is_left_by_an_error(dataset.batch(2))

    def test_after_an_error_of_the_source(self):
        def numbers():
            yield 0
            raise Broken("source")

        source = Dataset.from_generator(numbers)
        assert_nothing_is_left_by_an_error(source.map(lambda x: x, parallel=2))
        assert_nothing_is_left_by_an_error(source.prefetch(2))
        for _ in source.map(lambda x: x, parallel=2):
            break  # The error has been met, and is never asked for.
        gc.collect()
        assert until(nothing_runs)

    def test_the_first_of_a_program(self):
        # It finds out which device is the default one: other backends' errors are no cycle.
        program = """
            import gc, threading, time
            import pullback as pb

            gc.disable()
            for _ in pb.data.Dataset.range(1000).map(lambda x: x, parallel=2):
                break
            end = time.monotonic() + 10
            while threading.active_count() > 1 and time.monotonic() < end:
                time.sleep(0.01)
            print(threading.active_count())
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout == "1\n"

    def test_in_a_cycle(self):
        holder = {}
        holder["me"] = holder
        holder["iterator"] = iter(ints(10_000).prefetch(1))
        next(holder["iterator"])
        assert threads()
        del holder
        gc.collect()
        assert until(nothing_runs)

    def test_while_a_prefetch_waits_for_room(self):
        iterator = iter(ints(10_000).prefetch(1))
        next(iterator)
        (thread,) = threads()
        time.sleep(0.02)
        iterator.close()
        thread.join(20)
        assert not thread.is_alive()

    def test_generators_are_closed(self):
        closed = []

        def numbers():
            try:
                yield from range(1000)
            finally:
                closed.append(True)

        iterator = iter(Dataset.from_generator(numbers).prefetch(1))
        next(iterator)
        iterator.close()
        assert until(lambda: closed)

    PROGRAM = """
        import sys, threading, time
        import pullback as pb

        def work(x):
            time.sleep(0.01)
            return x

        dataset = pb.data.Dataset.range(100_000).map(work, parallel=2).prefetch(2)
        iterator = iter(dataset)
        print(int(next(iterator)), flush=True)
        {end}
    """

    @pytest.mark.parametrize(
        ("end", "code"),
        [("pass", 0), ("sys.exit(3)", 3), ("raise KeyError('gone')", 1)],
    )
    def test_the_interpreter_ends_at_once(self, end, code):
        program = textwrap.dedent(self.PROGRAM).format(end=end)
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-c", program],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert done.stdout == "0\n"
        assert "Exception ignored" not in done.stderr
        assert "Fatal" not in done.stderr


# ---------------------------------------------------------------------------------------------
# Processes. What they call must be found by another interpreter: functions of modules, or those of
# a module that a test writes.

HELPER = """
import os, threading, time
import numpy as np

def double(x):
    assert type(x) is np.ndarray
    return x * 2, os.getpid()

def noisy(x, generator):
    import pullback as pb
    return x + generator.integers((), 0, 1000) * 10

def fail(x):
    if x == 3:
        raise ValueError("at 3")
    return x

def die(x):
    os._exit(7)

def slow(x):
    time.sleep(0.02)
    return x

class Locked(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()

class Asking(Exception):
    def __init__(self, text, more):
        super().__init__(text)

class Leaving(SystemExit):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()

def fail_locked(x):
    raise Locked("of a lock")

def fail_asking(x):
    raise Asking("of two arguments", 2)

def fail_leaving(x):
    raise Leaving("of leaving")
"""


@pytest.fixture(scope="module")
def helper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("helper")
    (folder / "pullback_test_helper.py").write_text(HELPER)
    sys.path.insert(0, str(folder))
    import pullback_test_helper

    yield pullback_test_helper
    sys.path.remove(str(folder))
    del sys.modules["pullback_test_helper"]


class TestProcesses:
    def test_same_elements_in_order(self, helper):
        dataset = ints(12).map(helper.double, parallel=2, processes=True).repeat(2)
        pairs = list(dataset)
        assert [int(x) for x, _ in pairs] == [*range(0, 24, 2)] * 2
        assert all(type(x) is pb.Tensor for x, _ in pairs)
        pids = {int(pid) for _, pid in pairs}
        # The second pass has the processes of the first.
        assert os.getpid() not in pids
        assert len(pids) <= 2
        assert until(nothing_runs)

    def test_generators_are_those_of_threads(self, helper):
        expected = values(ints(6).map(helper.noisy, seed=3))
        got = values(ints(6).map(helper.noisy, seed=3, parallel=2, processes=True))
        assert got == expected

    def test_position(self, helper):
        def make():
            return ints(9).shuffle(seed=1).map(operator.neg, parallel=1, processes=True).prefetch()

        with iter(make()) as iterator:
            before = [int(next(iterator)) for _ in range(4)]
            state = iterator.checkpoint_state()
        with iter(make()) as other:
            other.restore_state(state)
            assert sorted(before + values(other)) == list(range(-8, 1))

    def test_errors_and_deaths(self, helper):
        iterator = iter(ints(9).map(helper.fail, parallel=1, processes=True))
        assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="at 3"):
            next(iterator)
        assert int(next(iterator)) == 4
        iterator.close()
        with pytest.raises(pb.errors.DataError, match=r"ended by itself.*__main__"):
            list(ints(2).map(helper.die, parallel=1, processes=True))

    @pytest.mark.parametrize(
        ("function", "name"),
        [
            ("fail_locked", "Locked: of a lock"),
            ("fail_asking", "Asking: of two arguments"),
            ("fail_leaving", "Leaving: of leaving"),
        ],
    )
    def test_errors_that_cannot_be_sent_are_named(self, helper, function, name):
        iterator = iter(ints(3).map(getattr(helper, function), parallel=1, processes=True))
        for _ in range(2):  # the process goes on
            with pytest.raises(pb.errors.DataError, match=f"{function}.*{name}") as caught:
                next(iterator)
            # Where it was raised is said.
            assert f"in {function}" in str(caught.value.__cause__)
        iterator.close()

    def test_an_error_ends_them(self, helper):
        dataset = ints(1000).map(helper.fail, parallel=2, processes=True)
        assert_nothing_is_left_by_an_error(dataset, ValueError)
        assert_nothing_is_left_by_an_error(dataset.prefetch(), ValueError)

    def test_leaving_early_ends_them(self, helper):
        dataset = ints(1000).map(helper.slow, parallel=2, processes=True)
        for i, _ in enumerate(dataset):
            if i == 2:
                break
        assert until(nothing_runs)

    def test_functions_that_cannot_be_given_are_refused(self):
        with pytest.raises(pb.errors.InputTypeError, match=r"top of a module.*threads"):
            ints(3).map(lambda x: x, processes=True)

    def test_end_with_a_program_that_is_killed(self, helper, tmp_path):
        program = textwrap.dedent(f"""
            import multiprocessing, os, signal, sys
            sys.path.insert(0, {str(os.path.dirname(helper.__file__))!r})
            import pullback as pb
            import pullback_test_helper as helper
            if __name__ == "__main__":
                data = pb.data.Dataset.range(9999).map(helper.double, parallel=1, processes=True)
                iterator = iter(data)
                print(int(next(iterator)[1]), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        """)
        script = tmp_path / "script.py"
        script.write_text(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = subprocess.run(
                [sys.executable, str(script)],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60,
                check=False,
            )  # fmt: skip
        worker = int(done.stdout)

        def gone():
            try:
                os.kill(worker, 0)
            except ProcessLookupError:
                return True
            # One that has ended and that nobody has waited for.
            with open(f"/proc/{worker}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "Z"

        assert until(gone)
