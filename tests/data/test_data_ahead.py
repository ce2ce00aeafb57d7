"""Datasets that work ahead: order, errors, bounds, and that nothing is left running."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import pullback as pb

pytestmark = pytest.mark.usefixtures("nothing_is_left")

Dataset = pb.data.Dataset


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
    def test_prefetch(self, size, running):
        made = []
        iterator = iter(ints(50).map(lambda x: made.append(int(x)) or x).prefetch(size))
        for asked in range(1, 4):
            next(iterator)
            assert running.until(lambda: len(made) >= asked + size)  # noqa: B023
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
    def test_after_leaving_early(self, name, running):
        dataset = PARALLEL[name](10_000, lambda x: x)
        for i, _ in enumerate(dataset):
            if i == 3:
                break
        # The dataset is still there, and so may be the loop's variables: nothing runs all the same.
        assert running.nothing()
        assert len(values(dataset.take(2))) == 2

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_the_last_element(self, name, running):
        iterator = iter(PARALLEL[name](5, lambda x: x))
        list(iterator)
        assert running.nothing()

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_close(self, name, running):
        with iter(PARALLEL[name](10_000, lambda x: x)) as iterator:
            next(iterator)
            state = iterator.checkpoint_state()
        assert running.nothing()
        assert iterator.checkpoint_state() == state
        with pytest.raises(StopIteration):
            next(iterator)

    @pytest.mark.parametrize("name", PARALLEL)
    def test_after_an_error(self, name, running):
        dataset = PARALLEL[name](10_000, fail_at(1))
        running.assert_nothing_after_an_error(dataset, Broken)
        # Nor does the iterator outlive it when it had more to give.
        running.assert_nothing_after_an_error(dataset.batch(2), Broken)

    def test_after_an_error_of_the_source(self, running):
        def numbers():
            yield 0
            raise Broken("source")

        source = Dataset.from_generator(numbers)
        running.assert_nothing_after_an_error(source.map(lambda x: x, parallel=2), Broken)
        running.assert_nothing_after_an_error(source.prefetch(2), Broken)
        for _ in source.map(lambda x: x, parallel=2):
            break  # The error has been met, and is never asked for.
        gc.collect()
        assert running.nothing()

    def test_the_first_of_a_program(self):
        # It finds out which device is the default one: other backends' errors are no cycle.
        program = """
            import gc, threading, time
            import pullback as pb

            gc.disable()
            for _ in pb.data.Dataset.range(1000).map(lambda x: x, parallel=2):
                break
            end = time.monotonic() + 120
            while threading.active_count() > 1 and time.monotonic() < end:
                time.sleep(0.01)
            print(threading.active_count())
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        assert done.stdout == "1\n"

    def test_in_a_cycle(self, running):
        holder = {}
        holder["me"] = holder
        holder["iterator"] = iter(ints(10_000).prefetch(1))
        next(holder["iterator"])
        assert running.threads()
        del holder
        gc.collect()
        assert running.nothing()

    def test_while_a_prefetch_waits_for_room(self, running):
        iterator = iter(ints(10_000).prefetch(1))
        next(iterator)
        (thread,) = running.threads()
        time.sleep(0.02)
        iterator.close()
        thread.join(20)
        assert not thread.is_alive()

    def test_generators_are_closed(self, running):
        closed = []

        def numbers():
            try:
                yield from range(1000)
            finally:
                closed.append(True)

        iterator = iter(Dataset.from_generator(numbers).prefetch(1))
        next(iterator)
        iterator.close()
        assert running.until(lambda: closed)

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
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert done.stdout == "0\n"
        assert "Exception ignored" not in done.stderr
        assert "Fatal" not in done.stderr
