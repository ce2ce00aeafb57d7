"""Datasets that work ahead in processes: order, errors, and that none is left.

What they call must be found by another interpreter: functions of modules, or those of a module that
a test writes.
"""

from __future__ import annotations

import itertools
import operator
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from contextlib import suppress
from pathlib import Path

import pytest

import pullback as pb

pytestmark = pytest.mark.usefixtures("nothing_is_left")

Dataset = pb.data.Dataset


def values(dataset):
    return [x.tolist() for x in dataset]


def ints(n=10):
    return Dataset.range(n)


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
    def test_same_elements_in_order(self, helper, running):
        dataset = ints(12).map(helper.double, parallel=2, processes=True).repeat(2)
        dataset = pickle.loads(pickle.dumps(dataset))
        pairs = list(dataset)
        assert [int(x) for x, _ in pairs] == [*range(0, 24, 2)] * 2
        assert all(type(x) is pb.Tensor for x, _ in pairs)
        pids = {int(pid) for _, pid in pairs}
        # The second pass has the processes of the first.
        assert os.getpid() not in pids
        assert len(pids) <= 2
        assert running.nothing()

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

    def test_an_error_ends_them(self, helper, running):
        dataset = ints(1000).map(helper.fail, parallel=2, processes=True)
        running.assert_nothing_after_an_error(dataset, ValueError)
        running.assert_nothing_after_an_error(dataset.prefetch(), ValueError)

    def test_leaving_early_ends_them(self, helper, running):
        dataset = ints(1000).map(helper.slow, parallel=2, processes=True)
        for i, _ in enumerate(dataset):
            if i == 2:
                break
        assert running.nothing()

    def test_functions_that_cannot_be_given_are_refused(self):
        with pytest.raises(pb.errors.InputTypeError, match=r"top of a module.*threads"):
            ints(3).map(lambda x: x, processes=True)

    def test_end_with_a_program_that_is_killed(self, helper, tmp_path, running):
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
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120,
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

        assert running.until(gone)

    def test_a_program_ends_while_they_do(self, tmp_path):
        # The thread that ends processes is a daemon where a daemon started it, as that of prefetch
        # is. Unless it is waited for, the processes may not hear that they are to end.
        program = textwrap.dedent("""
            import threading, time
            from concurrent.futures import process
            import numpy as np
            from pullback.data.processes import Processes

            def identity(x):
                return x

            def begin():
                processes = Processes(identity, 2)
                processes.hold()
                processes.submit(np.zeros(1), None).result()
                thread = processes._pool._executor_manager_thread
                ends = thread.shutdown_workers
                thread.shutdown_workers = lambda: (time.sleep(0.5), ends())
                processes.release()

            if __name__ == "__main__":
                daemon = threading.Thread(target=begin, daemon=True)
                daemon.start()
                daemon.join()
                print("the end")
        """)
        script = tmp_path / "script.py"
        script.write_text(program)
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True
        )
        assert done.stdout == "the end\n"
        assert done.stderr == ""


#: What workers do that never come to an end: they wait, compute, and ignore that they are to stop.
HANGING = """
import signal, time

def waits(x):
    if x % 5 == 4:
        time.sleep(10_000)
    return x

def computes(x):
    while x % 5 == 4:
        pass
    return x

def ignores(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return waits(x)
"""

HANGS = """
import sys
import pullback as pb
from pullback.data import processes
import hanging

if __name__ == "__main__":
    processes._PATIENCE = 1.0
    data = pb.data.Dataset.range(99).map(
        getattr(hanging, sys.argv[1]), parallel=2, processes=True
    )
    if sys.argv[2] == "ahead":
        data = data.prefetch(2)
    iterator = iter(data)
    print("begun", flush=True)
    for element in iterator:
        pass
"""


def of_session(session):
    """Returns the processes of a session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX" and int(fields[3]) == session:
                found.append(int(entry.name))
    return found


def interrupt_hanging(folder, running, seed):
    """Runs a program whose workers hang, and ends it with Ctrl-C, once or more, at any moment."""
    choose = random.Random(seed)
    (folder / "hanging.py").write_text(HANGING)
    (folder / "program.py").write_text(HANGS)
    way = [choose.choice(["waits", "computes", "ignores"]), choose.choice(["ahead", ""])]
    process = subprocess.Popen(
        [sys.executable, str(folder / "program.py"), *way],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        # What is started in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "begun\n"
        moments = sorted(choose.uniform(0, 3) for _ in range(choose.randint(1, 3)))
        for last, moment in itertools.pairwise([0.0, *moments]):
            time.sleep(moment - last)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (-signal.SIGINT, 130), (seed, way, moments, err)
        # That which tracks resources ends a moment later.
        assert running.until(lambda: not of_session(process.pid)), (seed, way, moments)
    finally:
        for one in of_session(process.pid):
            os.kill(one, signal.SIGKILL)
        process.communicate()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
class TestCtrlC:
    """Ctrl-C ends a program whose workers hang, at any moment, and its workers with it."""

    def test_one(self, tmp_path, running):
        interrupt_hanging(tmp_path, running, 0)

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(1, 4))
    def test_some(self, tmp_path, running, seed):
        interrupt_hanging(tmp_path, running, seed)

    @pytest.mark.campaign
    @pytest.mark.parametrize("seed", range(4, 64))
    def test_many(self, tmp_path, running, seed):
        interrupt_hanging(tmp_path, running, seed)
