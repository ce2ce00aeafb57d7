"""Ranks that fail in any way, at any moment: all end in time, and a resumed run is the whole one.

`pytest -m campaign integrations/mpi/tests/test_failures.py` draws 200 failures; `--seed`-like
values are the numbers of the tests. `PULLBACK_COMMUNICATOR=gloo` has the ranks meet by gloo.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time

import pytest

#: What a failure may take until all ranks have ended.
LIMIT = 5.0
EPOCHS = 6  # of 4 steps

PROGRAM = """
    import errno, os, signal, sys, time
    from pathlib import Path
    import numpy as np
    import pullback as pb

    folder, kind, victim, when, amid = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:6])
    sharded = sys.argv[7] == "sharded"
    kind = kind if not (folder / "failed").exists() else "none"
    pb.distributed.init()
    rank = pb.distributed.rank()
    LAUNCHER = int(os.environ["LAUNCHER"])

    def full():
        global left
        left = 0
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ACTS = {
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
        "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        "exit 0": lambda: os._exit(0),
        "exit 3": lambda: os._exit(3),
        "leave": lambda: sys.exit(0),
        "raise": lambda: 1 / 0,
        "disk": full,
        "ctrl-c": lambda: os.kill(LAUNCHER, signal.SIGINT),
        "ctrl-c to one": lambda: os.kill(os.getpid(), signal.SIGINT),
        "term": lambda: os.kill(LAUNCHER, signal.SIGTERM),
    }

    def fail():
        (folder / "failed").write_text(str(time.time()))
        ACTS[kind]()

    left = None  # until the failure, amid a checkpoint

    def heard(event, arguments):
        global left
        if left is None or event not in ("open", "os.rename", "os.mkdir", "os.link"):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        left -= 1
        if left == 0:
            left = None
            fail()
        elif left < 0:
            full()  # as all that follows

    sys.addaudithook(heard)

    class Fails(pb.callbacks.Callback):
        order = 999  # before the checkpoint

        def on_train_batch_end(self, batch, logs):
            global left
            if kind in ACTS and rank == victim and self.run.total == when:
                if amid:
                    left = amid
                else:
                    fail()

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(54, 6)).astype("float32"), rng.integers(0, 3, 54)
    pb.random.seed(1)
    model = pb.Sequential([pb.layers.Dense(16, activation="tanh"), pb.layers.Dropout(0.2),
                           pb.layers.Dense(3)])
    optimizer = pb.distributed.DataParallel(pb.optimizers.Adam(), shard_slots=sharded)
    model.compile(optimizer, "sparse_softmax_cross_entropy", ["accuracy"], distributed=True)
    save = pb.callbacks.Checkpoint(folder / "saved", resume=True, every_steps=3, sharded=sharded)
    history = model.fit(x, y, batch_size=16, epochs=int(sys.argv[6]), callbacks=[save, Fails()],
                        verbose=False)
    if rank == 0:
        print("losses", *[repr(float(loss)) for loss in history.history["loss"]], flush=True)
"""

KINDS = ("kill", "stop", "crash", "exit 0", "exit 3", "leave", "raise", "disk", "ctrl-c",
         "ctrl-c to one", "term")  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("failures") / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    return path


@pytest.fixture(scope="module")
def whole(program, tmp_path_factory):
    """The losses of undisturbed runs, by the number of ranks."""
    found = {}

    def losses(ranks):
        if ranks not in found:
            done = launch(program, tmp_path_factory.mktemp("whole"), ranks)
            assert done.returncode == 0, done.stderr
            found[ranks] = losses_of(done)
            assert len(found[ranks]) == EPOCHS
        return found[ranks]

    return losses


def launch(
    program, folder, ranks, *options,
    kind="none", victim=0, when=0, amid=0, epochs=EPOCHS, checkpoints="whole",
):  # fmt: skip
    command = [sys.executable, "-P", "-m", "pullback", "launch", "-n", str(ranks), *options]
    command += [str(program), str(folder), kind, *map(str, (victim, when, amid, epochs))]
    command += [checkpoints]
    # The shell's number is that of the command, which takes its place.
    shell = ["sh", "-c", 'LAUNCHER=$$ exec "$@"', "sh"]
    found = subprocess.run(
        [*shell, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    found.ended = time.time()
    return found


def losses_of(found):
    lines = [line.split() for line in found.stdout.splitlines() if line.startswith("losses")]
    return [float(number) for number in lines[-1][1:]]


def check_failure(program, folder, whole, kind, ranks, victim, when, amid, resumed, checkpoints):
    """Fails one run, resumes it on other ranks, and compares it with the undisturbed one."""
    case = {"kind": kind, "victim": victim, "when": when, "amid": amid}
    case["checkpoints"], then = checkpoints
    found = launch(program, folder, ranks, **case)
    told = f"{case} on {ranks}, resumed on {resumed}: {found.returncode}\n{found.stderr}"
    assert (folder / "failed").exists(), told
    seconds = found.ended - float((folder / "failed").read_text())
    assert seconds < LIMIT, f"{seconds:.1f} s, {told}"
    assert found.returncode != 0, told
    last = found.stderr.splitlines()[-1]
    assert last.startswith("pullback: rank "), told
    assert last.endswith("; all ranks end"), told
    cause = {
        "kill": "SIGKILL", "stop": "SIGSTOP", "crash": "SIGSEGV", "exit 0": "others wait",
        "exit 3": "status 3", "leave": f"rank {victim} has ended", "raise": "ZeroDivisionError",
        "disk": "No space left", "term": "KeyboardInterrupt",
    }.get(kind, "KeyboardInterrupt")  # fmt: skip
    together = amid and case["checkpoints"] == "sharded"  # any rank may tell of the failure
    if together and kind == "leave":
        cause = "SystemExit"
    assert cause in last, told
    if together and kind in ("disk", "raise", "leave"):
        assert f"rank {victim} on " in last, told
    elif kind not in ("leave", "ctrl-c", "ctrl-c to one", "term"):
        assert last.startswith(f"pullback: rank {victim} on "), told
    again = launch(program, folder, resumed, checkpoints=then)
    assert again.returncode == 0, told + again.stderr
    losses, wanted = losses_of(again), whole(resumed)
    if resumed == ranks:
        assert losses == wanted, told
    else:
        assert losses == pytest.approx(wanted, abs=1e-5), told
    return seconds


def drawn(seed):
    """A failure at random: amid a checkpoint in a third of all, which rank 0 writes or all do."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    ranks = rng.choice((2, 2, 3, 4))
    amid = rng.randint(1, 24) if kind == "disk" or rng.random() < 1 / 3 else 0
    when = 3 * rng.randint(1, 5) if amid else rng.randint(1, 4 * EPOCHS - 1)
    victim = 0 if amid else rng.randrange(ranks)
    resumed = rng.choice((ranks, ranks, 1, 2, 4))
    checkpoints, then = (rng.choice(("whole", "sharded")) for _ in range(2))
    if amid and checkpoints == "sharded":
        victim = rng.randrange(ranks)
        amid = 1 + amid % 8 if victim else amid  # they open fewer files than rank 0
    return kind, ranks, victim, when, amid, resumed, (checkpoints, then)


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_failures(seed, program, whole, tmp_path):
    check_failure(program, tmp_path, whole, *drawn(seed))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(len(KINDS), 200 + len(KINDS)))
def test_many_failures(seed, program, whole, tmp_path):
    check_failure(program, tmp_path, whole, *drawn(seed))


@pytest.mark.parametrize("kind", ["kill", "stop", "exit 0", "raise"])
def test_restarts(kind, program, whole, tmp_path):
    found = launch(program, tmp_path, 2, "--restarts", "2", kind=kind, victim=1, when=14)
    assert found.returncode == 0, found.stderr
    assert "restart 1 of 2" in found.stderr
    assert "restart 2 of 2" not in found.stderr
    assert losses_of(found) == whole(2)


def test_a_run_goes_on_with_fewer_and_fewer_ranks(program, whole, tmp_path):
    assert launch(program, tmp_path, 4, kind="kill", victim=3, when=14).returncode != 0
    for ranks, epochs in ((2, EPOCHS - 1), (1, EPOCHS)):
        found = launch(program, tmp_path, ranks, epochs=epochs)
        assert found.returncode == 0, found.stderr
        assert losses_of(found) == pytest.approx(whole(1)[:epochs], abs=1e-5)


@pytest.mark.parametrize("way", ["os._exit(0)", "sys.exit(0)"])
def test_a_rank_that_never_comes(way, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys\nimport pullback as pb\n"
        f"if os.environ['PMI_RANK'] == '1': {way}\npb.distributed.init()\n"
    )
    command = [sys.executable, "-P", "-m", "pullback", "launch", "-n", "3", str(path)]
    found = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    assert found.returncode != 0
    assert found.stderr.splitlines()[-1].startswith("pullback: rank 1 on ")
    assert "ended before init" in found.stderr.splitlines()[-1]


def test_who_computes_for_long_or_is_stopped_for_a_moment_goes_on(tmp_path):
    """A step that keeps the interpreter's lock for seconds is not one that stands still."""
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent("""
        import os, signal, time
        import pullback as pb
        pb.distributed.init()
        if pb.distributed.rank() == 1:
            begin = time.monotonic()
            bits = 2_000_000
            while time.monotonic() - begin < 3:  # most of it one call that holds the lock
                (3 ** bits) % (2 ** (bits // 2))
                bits *= 2
            if os.fork() == 0:
                time.sleep(0.5)
                os.kill(os.getppid(), signal.SIGCONT)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGSTOP)
        print(pb.distributed.all_reduce(1.0).item())
        """)
    )
    command = [sys.executable, "-P", "-m", "pullback", "launch", "-n", "2", str(path)]
    found = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr
    assert "".join(found.stdout.split()) == "2.02.0"
