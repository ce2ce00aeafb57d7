"""Ctrl-C at any moment of a program that trains with workers and saves in the background.

Real signals reach a real program, all its processes at once as from a terminal, or it alone. It
ends as any that Ctrl-C ends, what it has saved is whole, nothing of it is left, and the next one
goes on from there to the same bits.

`pytest -m slow tests/training/test_interrupts.py` interrupts two hundred.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.checkpoint.writer import CheckpointWriter

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="what is left is looked for in /proc"
)

#: What the workers import. Where the test waits for them, they say that they begin, and take long.
WORK = """
import os, time

if "WORKERS_MARKS" in os.environ:
    with open(os.path.join(os.environ["WORKERS_MARKS"], str(os.getpid())), "w"):
        time.sleep(0.5)

def doubled(x, y):
    return x * 2, y
"""

#: Dropout from the default generator, shuffled data in processes, checkpoints in the background.
PROGRAM = """
import hashlib, multiprocessing, os, sys, time
import numpy as np
import pullback as pb
import work

class Tells(pb.callbacks.Callback):
    order = 999  # just before checkpoints
    def on_train_begin(self, logs):
        print("begun", flush=True)
    def on_train_batch_end(self, batch, logs):
        time.sleep(0.02)
        print("step", flush=True)

if __name__ == "__main__":
    place, epochs, prefix, *marks = sys.argv[1], int(sys.argv[2]), *sys.argv[3:]
    if marks:
        os.environ["WORKERS_MARKS"] = marks[0]
    # So that what is left in /dev/shm is known for this program's.
    multiprocessing.current_process()._config["semprefix"] = "/" + prefix
    pb.random.seed(3)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((48, 6), np.float32)
    y = (x[:, 0] > 0).astype("int32")
    data = pb.data.Dataset.from_tensor_slices((x, y)).shuffle(seed=1)
    data = data.map(work.doubled, parallel=2, processes=True).batch(4).prefetch(2)
    model = pb.Sequential([
        pb.layers.Dense(8, activation="relu"), pb.layers.Dropout(0.3), pb.layers.Dense(2),
    ])
    model.compile("adam", "sparse_softmax_cross_entropy", ["accuracy"])
    save = pb.callbacks.Checkpoint(place, resume=True, every_steps=3, background=2)
    history = model.fit(data, epochs=epochs, verbose=False, callbacks=[Tells(), save])
    digest = hashlib.sha256()
    for path, variable in model.named_variables.items():
        digest.update(path.encode() + variable.numpy().tobytes())
    print("done", digest.hexdigest(), history.history, flush=True)
"""


class Running:
    """The program, in a session of its own, so that all its processes can be found.

    Args:
        home: where it is, and the folder of its checkpoints.
        name: of its checkpoints.
        epochs: how long it trains.
        marks: perhaps a folder in which its workers say that they begin.
    """

    count = 0

    def __init__(self, home, name, epochs, *marks):
        for file, text in (("work.py", WORK), ("program.py", PROGRAM)):
            if not (home / file).exists():
                (home / file).write_text(text)
        Running.count += 1
        self.prefix = f"pullback{os.getpid()}n{Running.count}"
        self.place = home / name
        self.err = home / "stderr"
        self.lines = []
        with self.err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, str(home / "program.py"), str(self.place), str(epochs),
                 self.prefix, *marks],
                stdout=subprocess.PIPE, stderr=err, text=True, start_new_session=True,
                # What is started in the background has it ignored.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip

    def wait_for(self, line, times=1):
        """Reads until it has said something so many times; False if it ends before."""
        while times:
            said = self.process.stdout.readline()
            if not said:
                return False
            self.lines.append(said)
            times -= said.startswith(line)
        return True

    def interrupt(self, group=True):
        """Ctrl-C: to all its processes, or to the one alone."""
        if self.process.poll() is None:
            (os.killpg if group else os.kill)(self.process.pid, signal.SIGINT)

    def end(self):
        """Waits for its end, and for that of all that it started; gives what it said."""
        try:
            self.process.wait(timeout=120)
            assert until(lambda: not self.processes()), self.processes()
        finally:
            self.kill()
            self.lines += self.process.stdout.read().splitlines(keepends=True)
            self.process.stdout.close()
        assert not [one for one in os.listdir("/dev/shm") if self.prefix in one]
        return "".join(self.lines), self.err.read_text()

    def kill(self):
        """Kills the processes that still run."""
        for one in self.processes():
            os.kill(one, signal.SIGKILL)

    def processes(self):
        """Those of its session that run."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] not in "ZX" and int(fields[3]) == self.process.pid:
                found.append(int(entry.name))
        return found


def until(condition):
    deadline = time.monotonic() + 120
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def saved(place):
    """Reads all of the newest checkpoint and returns its steps; None if there is no checkpoint."""
    latest = pb.latest_checkpoint(place) if place.exists() else None
    if latest is not None:
        model = pb.Sequential(
            [pb.layers.Dense(8, activation="relu"), pb.layers.Dropout(0.3), pb.layers.Dense(2)]
        )
        model(np.zeros((1, 6), np.float32))
        restored = pb.Checkpoint(model=model).restore(latest, partial=True)
        assert not restored.missing, restored.missing
    return latest and int(latest.rpartition("-")[2])


def assert_interrupted(running, out, err):
    # As any program that Ctrl-C ends.
    assert running.process.returncode in (-signal.SIGINT, 130), (out, err)
    # Not always the last line: workers that were just starting write to the same place. And a
    # second Ctrl-C may meet the interpreter's own end, which reports it as "KeyboardInterrupt: ",
    # or after its standard error is closed as "object type name: KeyboardInterrupt".
    name = r"^(object type name: )?KeyboardInterrupt(: )?$"
    assert re.search(name, err, re.MULTILINE), (out, err)
    assert "done" not in out


@pytest.fixture
def start(tmp_path):
    """Starts a program, which is not left whatever the test comes to."""
    started = []

    def one(*args):
        started.append(Running(tmp_path, *args))
        return started[-1]

    yield one
    for running in started:
        running.kill()


@pytest.mark.slow
@pytest.mark.parametrize("group", [True, False], ids=["all processes", "the program alone"])
def test_while_workers_start(start, tmp_path, group):
    marks = tmp_path / "marks"
    marks.mkdir()
    running = start("run", 2, str(marks))
    assert running.wait_for("begun")
    assert until(lambda: any(marks.iterdir()))
    running.interrupt(group)
    out, err = running.end()
    assert_interrupted(running, out, err)
    assert out.count("step") == 1
    assert "DataError" not in err
    assert "resume=True) resumes from there" in err
    assert saved(running.place) == 1


@pytest.mark.slow
def test_twice_at_once(start):
    running = start("run", 2)
    assert running.wait_for("step", 4)
    running.interrupt()
    time.sleep(0.005)
    running.interrupt()
    out, err = running.end()
    assert_interrupted(running, out, err)
    # The first saves at step 3; what a thread was given to write is written whatever comes.
    assert saved(running.place) >= 3


def test_a_writer_outlives_what_interrupts_a_save():
    # A second Ctrl-C may be raised after any call in what gives a task to the thread.
    places = interrupted = 0
    while places == interrupted:
        done = []
        writer = CheckpointWriter(2)
        writer.put(lambda: done.append(0))  # noqa: B023
        calls = iter(range(places))

        def interrupt(frame, event, argument, calls=calls):
            if event in ("return", "c_return") and next(calls, None) is None:
                sys.setprofile(None)
                raise KeyboardInterrupt

        before = sys.getprofile()
        sys.setprofile(interrupt)
        try:
            writer.put(lambda: done.append(1))  # noqa: B023
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.setprofile(before)
        places += 1
        closing = threading.Thread(target=writer.close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive(), f"hangs when call {places} is interrupted"
        assert done in ([0], [0, 1])
    assert places > 5
    assert done == [0, 1]


# ---------------------------------------------------------------------------------------------
# The campaign.

EPOCHS = 2
MOMENTS = ("import", "start of workers", "save", "any", "twice at once", "twice")


class Campaign:
    """Programs that are interrupted one after another, and go on from what the last has saved."""

    def __init__(self, start, seed):
        self.start = start
        self.random = random.Random(seed)
        self.seen = Counter()
        self.chain = 0
        began = time.monotonic()
        running = start("straight", EPOCHS)
        assert running.wait_for("begun")
        self.begin = time.monotonic() - began
        out, err = running.end()
        self.whole = time.monotonic() - began
        assert "done" in out, err
        self.straight = out[out.index("done") :]

    @property
    def name(self):
        return f"run-{self.chain}"

    def finish(self, out=None):
        """Trains to the end, which is that of a program that nobody interrupts; begins anew."""
        if out is None:
            out, err = self.start(self.name, EPOCHS).end()
            assert "done" in out, err
        assert out[out.index("done") :] == self.straight
        self.seen["chains that end in the same bits"] += 1
        self.chain += 1

    def interrupt(self, moment):
        """Interrupts one program; False if it had ended before."""
        draw = self.random.uniform
        group = self.random.random() < 0.75
        running = self.start(self.name, EPOCHS)
        before = saved(running.place)
        place = self.random.choice(MOMENTS[:4]) if moment.startswith("twice") else moment
        if place == "import":
            time.sleep(draw(0, self.begin))
        elif place == "start of workers":
            running.wait_for("begun")
            time.sleep(draw(0, self.begin * 1.5))
        elif place == "save":
            running.wait_for("step", self.random.randint(1, 12))
            time.sleep(draw(0, 0.015))
        else:
            time.sleep(draw(0, self.whole))
        running.interrupt(group)
        if moment.startswith("twice"):
            time.sleep(draw(0, 0.02 if moment == "twice at once" else 1.5))
            running.interrupt(group)
        out, err = running.end()
        if "done" in out:
            self.finish(out)
            self.seen["had ended"] += 1
            return False
        after = saved(running.place)
        assert (after or 0) >= (before or 0), (before, after, err)
        if "begun" in out:
            assert_interrupted(running, out, err)
            assert "DataError" not in err, err
            if moment in MOMENTS[:4]:
                # It has saved the step that was under way.
                assert after is not None, (out, err)
                assert after >= (before or 0) + out.count("step"), (before, after, out, err)
        else:
            assert running.process.returncode, (out, err)
        where = "in fit" if "begun" in out else "before fit"
        self.seen[f"{moment}, {'all' if group else 'alone'}, {where}"] += 1
        if "begun" in out:
            self.seen["saved on Ctrl-C"] += "resumes from there" in err
            self.seen["ended in fit"] += 1
        elif not err.rstrip().endswith("KeyboardInterrupt"):
            self.seen["ended before fit by another way of Python's"] += 1
        return True


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_fifty_programs_at_random_moments(start, seed, capsys):
    campaign = Campaign(start, seed)
    count = hits = 0
    while hits < 50:
        hits += campaign.interrupt(MOMENTS[count % len(MOMENTS)])
        count += 1
        if count % 12 == 0:
            campaign.finish()
    campaign.finish()
    with capsys.disabled():
        print(f"\nseed {seed}:", *sorted(campaign.seen.items()), sep="\n  ")
    assert campaign.seen["ended in fit"] > 20
