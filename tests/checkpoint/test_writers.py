"""Threads and processes that save to one place, while others read there: nothing is lost.

Saved programs, files of weights and checkpoints. `pytest -m slow tests/checkpoint/test_writers.py`
does it for longer.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pullback as pb
from pullback import _replacing

# What saves and what reads each kind.


class Program:
    def __init__(self):
        self.x = pb.Variable(np.zeros(500))
        self.add = pb.function(lambda: self.x + 1)

    def save(self, path, number):
        self.x.assign(np.full(500, float(number)))
        self.add.lower().save(path)

    @staticmethod
    def read(path):
        return pb.load_program(path)().numpy() - 1


class Weights:
    def __init__(self):
        self.x = pb.Variable(np.zeros(500))

    def save(self, path, number):
        self.x.assign(np.full(500, float(number)))
        pb.checkpoint.save_weights(self, path)

    @staticmethod
    def read(path):
        other = Weights()
        pb.checkpoint.load_weights(other, path)
        return other.x.numpy()


class Checkpoint(Weights):
    def save(self, path, number):
        self.x.assign(np.full(500, float(number)))
        pb.Checkpoint(x=self.x).save(path.rpartition("-")[0], step=1)

    @staticmethod
    def read(path):
        other = Weights()
        pb.Checkpoint(x=other.x).restore(path)
        return other.x.numpy()


KINDS = {"program": Program, "weights.safetensors": Weights, "ckpt-1": Checkpoint}


def number_in(kind, path):
    (number,) = set(KINDS[kind].read(path).tolist())
    return int(number)


#: Forks processes that save in a loop, kills each at a random moment, and looks at what it left.
KILLS = r"""
import json, os, random, signal, sys, time
kind, path, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(kind)
KINDS[kind]().save(path, 0)
least, left = 0, 0
for number in range(kills):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            it = KINDS[kind]()
            for step in range(1, 10_000):
                it.save(path, 10_000 * (number + 1) + step)
                os.write(write, b".")
        finally:
            os._exit(1)
    os.close(write)
    os.read(read, 1)
    begin = time.monotonic()
    os.read(read, 1)
    time.sleep(random.uniform(0, 2) * (time.monotonic() - begin))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(read)
    found = number_in(kind, path)
    assert found > 10_000 * (number + 1), (found, number)
    left += len(os.listdir(os.path.dirname(path))) > 1
KINDS[kind]().save(path, 7)
assert number_in(kind, path) == 7
assert os.listdir(os.path.dirname(path)) == [kind], os.listdir(os.path.dirname(path))
print(json.dumps({"left": left}))
"""


def kill(kind, tmp_path, kills):
    saving = [inspect.getsource(it) for it in (Program, Weights, Checkpoint, number_in)]
    imports = "import numpy as np, pullback as pb"
    chosen = f"KINDS = {{{kind!r}: {KINDS[kind].__name__}}}"
    program = "\n".join([imports, *saving, chosen, KILLS])
    done = subprocess.run(
        [sys.executable, "-c", program, kind, str(tmp_path / kind), str(kills)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def race(kind, tmp_path, threads, saves):
    """Threads save to one path, and another reads it all the time."""
    path = str(tmp_path / kind)
    KINDS[kind]().save(path, 0)
    failed, looks, over = [], [], threading.Event()

    def guarded(function, *args):
        def run():
            try:
                function(*args)
            except BaseException as error:
                failed.append(error)

        return threading.Thread(target=run)

    def write(number):
        it = KINDS[kind]()
        for _ in range(saves):
            it.save(path, number)

    def look():
        while not over.is_set():
            looks.append(number_in(kind, path))

    writers = [guarded(write, number) for number in range(1, threads + 1)]
    reader = guarded(look)
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    over.set()
    reader.join()
    if failed:
        raise failed[0]
    assert looks
    assert set(looks) <= set(range(threads + 1))
    assert os.listdir(tmp_path) == [kind]


@pytest.mark.parametrize("kind", KINDS)
def test_threads(tmp_path, kind):
    race(kind, tmp_path, threads=4, saves=10)


@pytest.mark.parametrize("kind", KINDS)
def test_some_kills(tmp_path, kind):
    kill(kind, tmp_path, 5)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
def test_threads_for_longer(tmp_path, kind):
    race(kind, tmp_path, threads=8, saves=100)


@pytest.mark.slow
@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
def test_many_kills(tmp_path, kind):
    # They have hit writers with something unfinished.
    assert kill(kind, tmp_path, 300)["left"] > 10


class TestRemains:
    """Temporary names, by whether their writer may still be at work."""

    def test_of_the_dead(self, tmp_path):
        name = _replacing.temporary_name(tmp_path / "x.y", 99_999_999)
        assert _replacing.remains(name) == "x.y"
        # An earlier process of this number, in a container that was started again.
        assert _replacing.remains(_replacing.temporary_name(name, os.getpid())) == name.name

    def test_of_the_living(self, tmp_path):
        assert _replacing.remains(_replacing.temporary_name(tmp_path / "x", os.getppid())) is None
        with _replacing.temporary(tmp_path / "x") as name:
            assert _replacing.remains(name) is None
        assert _replacing.remains(name) == "x"

    def test_of_another_machine(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_replacing.platform, "node", lambda: "another")
        name = _replacing.temporary_name(tmp_path / "x", 99_999_999)
        monkeypatch.undo()
        assert _replacing.remains(name) is None
        name.mkdir()
        assert _replacing.remains(name) is None
        assert _replacing.remains(name, others_after=0) == "x"
        long_ago = time.time() - 2 * 86400
        os.utime(name, (long_ago, long_ago))
        assert _replacing.remains(name) == "x"

    @pytest.mark.parametrize(
        "name", ["x", ".x.old", ".x.tmp", ".x.12.tmp", "x.01234567-1-01234567.tmp"]
    )
    def test_of_others(self, tmp_path, name):
        assert _replacing.remains(tmp_path / name) is None
