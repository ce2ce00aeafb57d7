"""The communicator on processes that mpiexec starts. Runs in an environment with mpi4py and MPI."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pullback.cli.launch import launcher

#: What a failure may take until all ranks have ended, beside the start of Python.
LIMIT = 5.0


def start(ranks, program, *arguments):
    """Runs a program on ranks; returns its exit status, output, errors, and the seconds it took."""
    path = Path(program)
    begin = time.monotonic()
    found = subprocess.run(
        [launcher(), "-n", str(ranks), sys.executable, "-P", str(path), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PULLBACK_COMMUNICATOR": "mpi"},
    )
    return found, time.monotonic() - begin


@pytest.fixture
def program(tmp_path):
    def write(text):
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.mark.parametrize("ranks", [2, 3])
def test_conforms(ranks):
    command = [sys.executable, "-P", "-m", "pullback", "conform", "--communicator", "mpi"]
    found = subprocess.run(
        [*command, "-n", str(ranks)], capture_output=True, text=True, timeout=500
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "136 of 136 checks pass" in found.stdout


def test_one_process_needs_no_launcher(program):
    path = program("""
        import pullback as pb
        pb.distributed.init("mpi")
        print(pb.distributed.size(), pb.distributed.all_reduce([2.0]).tolist())
    """)
    found = subprocess.run([sys.executable, "-P", str(path)], capture_output=True, text=True)
    assert found.stdout == "1 [2.0]\n"


FAILURES = {
    "raise": ("raise ValueError('bad')", "ValueError: bad"),
    "exit": ("raise SystemExit(0)", "rank 1 has ended"),
    "mismatch": ("pb.distributed.broadcast(x)", "rank 1 calls broadcast"),
    "shape": ("pb.distributed.all_reduce(x[:1])", "float32[1]"),
    "kill": ("os.kill(os.getpid(), 9)", "KILLED BY SIGNAL: 9|Killed"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_ends_all(kind, program):
    code, words = FAILURES[kind]
    path = program(f"""
        import os, sys, time
        import pullback as pb
        pb.distributed.init()
        x = pb.asarray([1.0, 2.0])
        pb.distributed.all_reduce(x)
        os.write(2, f"began {{time.time()}}\\n".encode())  # at once: ranks write one stream
        if pb.distributed.rank() == 1:
            {code}
        for _ in range(100_000):
            pb.distributed.all_reduce(x)
    """)
    found, _ = start(3, path)
    assert found.returncode != 0
    shown = found.stdout + found.stderr
    began = max(map(float, re.findall(r"began (\d+\.\d+)", shown)))
    assert time.time() - began < LIMIT
    assert any(word in shown for word in words.split("|")), shown
    if kind != "kill":
        # Anywhere in a line: mpiexec forwards the output of ranks in pieces.
        lines = re.findall("pullback: rank.*", shown)
        assert lines
        assert all("all ranks end" in line for line in lines)


#: Prints what must not depend on the number of ranks.
AGREEMENT = Path(__file__).parents[3] / "tests/distributed/agreement.py"


@pytest.mark.parametrize("model", ["mlp", "cnn", "transformer"])
@pytest.mark.parametrize("sums", ["exact", "plain"])
def test_training_is_that_of_one_process(model, sums):
    """The losses of 52 steps, every fourth with 6 items, agree to 1e-6 on 1, 2 and 4 ranks."""
    losses = {}
    for ranks in (1, 2, 4):
        found, _ = start(ranks, AGREEMENT, model, sums)
        assert found.returncode == 0, found.stderr
        (line,) = (line for line in found.stdout.splitlines() if line.startswith("losses"))
        losses[ranks] = [float(number) for number in line.split()[1:]]
    for ranks in (2, 4):
        assert len(losses[ranks]) == 52
        assert losses[ranks] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.parametrize("ranks", [2, 4])
def test_exact_sums_have_the_bits_of_one_process_that_adds_pieces_in_pairs(ranks):
    found, _ = start(ranks, AGREEMENT, "pieces")
    assert found.returncode == 0, found.stderr
    assert "".join(found.stdout.split()) == "same" * ranks


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_one_rank_saves_and_ends_all(number, program, tmp_path):
    path = program(f"""
        import os, time
        import numpy as np
        import pullback as pb
        pb.distributed.init()
        x, y = np.ones((64, 4), "float32"), np.zeros(64, int)
        model = pb.Sequential([pb.layers.Dense(3)])
        model.compile("adam", "sparse_softmax_cross_entropy", distributed=True)

        class Asks(pb.callbacks.Callback):
            def on_train_batch_end(self, batch, logs):
                if self.run.total == 150 and pb.distributed.rank() == 1:
                    os.kill(os.getpid(), {int(number)})

        save = pb.callbacks.Checkpoint({str(tmp_path / "saved")!r}, resume=True, every_epochs=10**6)
        model.fit(x, y, batch_size=16, epochs=10**6, callbacks=[Asks(), save], verbose=False)
    """)
    found, seconds = start(2, path)
    assert found.returncode == 130, found.stderr
    assert seconds < 60
    assert "interrupted after epoch 38, step 2" in found.stderr
    assert [entry.name for entry in (tmp_path / "saved").iterdir() if "150" in entry.name]


RESUMED = """
    import os, sys
    import numpy as np
    import pullback as pb
    pb.distributed.init()
    folder, kill = sys.argv[1], sys.argv[2] == "kill"
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(54, 6)).astype("float32"), rng.integers(0, 3, 54)
    pb.random.seed(1)
    model = pb.Sequential([pb.layers.Dense(16, activation="tanh"), pb.layers.Dropout(0.2),
                           pb.layers.Dense(3)])
    model.compile("adam", "sparse_softmax_cross_entropy", ["accuracy"], distributed=True)

    class Kills(pb.callbacks.Callback):
        def on_train_batch_end(self, batch, logs):
            mark = os.path.join(folder, "killed")
            last = pb.distributed.size() - 1
            if kill and self.run.total == 14 and pb.distributed.rank() == last:
                if not os.path.exists(mark):
                    open(mark, "w").close()
                    os.kill(os.getpid(), 9)

    save = pb.callbacks.Checkpoint(os.path.join(folder, "saved"), resume=True, every_steps=3)
    epochs = int(sys.argv[3])
    history = model.fit(x, y, batch_size=16, epochs=epochs, callbacks=[save, Kills()],
                        verbose=False)
    if pb.distributed.rank() == 0:
        print(*[repr(float(loss)) for loss in history.history["loss"]])
"""


def test_a_killed_run_goes_on_from_its_checkpoint(program, tmp_path):
    """By `pullback launch --restarts`, and then with other numbers of ranks, amid an epoch."""
    path = program(RESUMED)

    def losses(folder, ranks, *options, kill="", epochs=6):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, "-P", "-m", "pullback", "launch", "-n", str(ranks), *options]
        command += [str(path), str(tmp_path / folder), kill or "no", str(epochs)]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120)
        # mpich's own banner of a killed process comes before.
        last = found.stdout.splitlines()[-1] if found.returncode == 0 else ""
        return found, [float(number) for number in last.split()]

    _, whole = losses("one", 1)
    assert len(whole) == 6
    found, restarted = losses("again", 2, "--restarts", "1", kill="kill")
    assert found.returncode == 0, found.stderr
    assert "restart 1 of 1" in found.stderr
    assert restarted == pytest.approx(whole, abs=1e-5)
    found, _ = losses("other", 4, kill="kill")
    assert found.returncode != 0
    for ranks in (2, 1):
        found, resumed = losses("other", ranks, epochs=5 if ranks == 2 else 6)
        assert found.returncode == 0, found.stderr
        assert resumed == pytest.approx(whole[: len(resumed)], abs=1e-5)
    assert len(resumed) == 6
