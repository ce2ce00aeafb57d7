"""`pullback conform` in processes, in random samples, and with random calls."""

import contextlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import pullback as pb
from pullback import cli, errors
from pullback_conformance import mode, runner
from pullback_conformance.mode import Clock, Mode, seconds
from pullback_conformance.plan import by_cost
from pullback_conformance.report import Failure, Row
from pullback_conformance.runner import conform
from pullback_conformance.workers import Workers
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

#: An installed backend that prints. Kernels kill their process, at one call or at all, or take for
#: ever: asleep, in a call that holds Python's lock, in threads of their own.
PLUGIN = """
import os, re, signal, sys, threading, time
import numpy as np
import pullback as pb
from pullback_numpy import NumPyBackend

def die():
    os.kill(os.getpid(), signal.SIGSEGV)

def spin():
    while True:
        pass

def threads():
    every = [threading.Thread(target=spin) for _ in range(2)]
    [thread.start() for thread in every]
    [thread.join() for thread in every]

STUCK = {
    "asleep": lambda: time.sleep(600),
    "locked": lambda: re.match("(a+)+$", 60 * "a" + "b"),
    "threads": threads,
}

def stuck(how):
    if "MILL_PIDS" in os.environ:
        with open(os.environ["MILL_PIDS"], "a") as file:
            file.write(f"{os.getpid()}\\n")
    STUCK[how]()

def once(op, event):
    def kernel(x):
        if x.shape == (2131,) and x.dtype == np.float64:
            event()
        return NumPyBackend.kernels[op](x)
    return kernel

def always(event):
    return lambda x: event()

class MillBackend(NumPyBackend):
    name = "mill"
    kernels = {
        **NumPyBackend.kernels,
        "sign": once("sign", die),
        "trunc": always(die),
        "square": always(lambda: stuck(os.environ.get("MILL_STUCK", "asleep"))),
        "ceil": once("ceil", lambda: stuck("asleep")),
        "negative": once("negative", lambda: stuck("locked")),
    }

    def from_host(self, array, device, *, copy):
        if os.environ.get("MILL_STUCK") == "basics":
            time.sleep(600)
        return super().from_host(array, device, copy=copy)

@pb.hookimpl
def pullback_register_backend(register):
    print("loaded")
    register(MillBackend())
"""


def install(folder, name, text):
    """Installs a backend for both kinds of devices in a folder, as pip leaves it."""
    (folder / f"pullback_{name}.py").write_text(text)
    info = folder / f"pullback_{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pullback-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[pullback.backends.cpu]\n{name} = pullback_{name}\n"
        f"[pullback.backends.gpu]\n{name} = pullback_{name}\n"
    )


@pytest.fixture
def installed(tmp_path):
    """Installs the backend "mill" for a process; returns its environment."""
    install(tmp_path, "mill", PLUGIN)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path}


#: The command on NumPy in this process.
HERE = ("conform", "numpy", "--timeout", "0")


def command(*arguments):
    return [sys.executable, "-m", "pullback", "conform", *arguments]


def test_processes_find_what_one_process_finds():
    chosen = ["positive", "negative", "relu"]
    apart = conform("numpy", ops=chosen, quick=True, by=Workers(2))
    here = conform("numpy", ops=chosen, quick=True)
    assert list(apart.rows) == list(here.rows)
    for name, row in here.rows.items():
        assert apart.rows[name].counts == row.counts
        assert apart.rows[name].seconds > 0
    assert apart.passed
    assert not apart.incomplete


def test_a_check_that_dies_or_hangs_is_a_failure_with_its_name(installed, tmp_path):
    path = tmp_path / "report.json"
    ops = "positive,sign,trunc,ceil,negative"
    arguments = ["mill", "--ops", ops, "--only", "value", "--quick", "--jobs", "2"]
    done = subprocess.run(
        command(*arguments, "--timeout", "2", "--json", str(path)),
        env=installed, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert re.search(r"^\[\d/5\] positive: \d+ checks, 100 %, \d", done.stdout, re.MULTILINE)
    report = json.loads(path.read_text())
    assert report["complete"]
    assert set(report["ops"]) == set(ops.split(","))
    by_op = {}
    for one in report["failures"]:
        by_op.setdefault(one["op"], []).append((one["sample"], one["check"], one["message"]))
    late = "took longer than 2 s; --timeout SECONDS gives it more"
    died = "the process ended by SIGSEGV"
    for op, how in (("sign", died), ("ceil", late), ("negative", late)):
        assert by_op.pop(op) == [("every float64", "value", how)]
        # The checks before and after it are made.
        counts = report["ops"][op]["counts"]
        planned = report["ops"][op]["planned"]
        assert sum(total for _, total, _ in counts.values()) == planned
        assert sum(passed for passed, _, _ in counts.values()) == planned - 1
    assert [message for _, _, message in by_op.pop("trunc")] == [
        died, died, f"{died}; the checks of trunc after it are not made",
    ]  # fmt: skip
    assert not by_op
    assert "the process ended by SIGSEGV" in done.stdout


def gone(pid: int) -> bool:
    """Returns whether a process has ended, within two seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@ON_LINUX
@pytest.mark.parametrize("how", ["asleep", "locked", "threads"])
def test_a_process_that_hangs_ends_with_its_parent(how, installed, tmp_path):
    pids = tmp_path / "pids"
    environment = {**installed, "MILL_STUCK": how, "MILL_PIDS": str(pids)}
    with subprocess.Popen(
        command("mill", "--quick", "--ops", "square", "--timeout", "600"),
        env=environment, stdout=subprocess.DEVNULL,
    ) as parent:  # fmt: skip
        try:
            until = time.monotonic() + 100
            while not pids.exists() or not pids.read_text().endswith("\n"):
                assert time.monotonic() < until
                assert parent.poll() is None
                time.sleep(0.01)
        finally:
            parent.kill()
    assert gone(int(pids.read_text()))


@pytest.mark.parametrize("options", [(), ("--timeout", "0")])
def test_no_check_loads_another_backend(options, installed, tmp_path):
    install(tmp_path, "loom", "import os; open(os.environ['LOOM'], 'w').close(); import nothing")
    seen = tmp_path / "seen"
    environment = {**installed, "LOOM": str(seen)}
    # What moves arrays, makes them, draws them, casts them, and what a step of training is made of.
    ops = "backend,to_device,arange,full,random_bits,astype,sgd_update,positive"
    done = subprocess.run(
        command("mill", "--quick", "--ops", ops, *options),
        env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert not seen.exists()
    # The package is there: who asks for all devices loads it.
    code = "import pullback as pb; pb.devices()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True)
    assert seen.exists()


def test_basics_that_hang_stop_the_run(installed):
    done = subprocess.run(
        command("mill", "--quick", "--ops", "positive", "--timeout", "1"),
        env={**installed, "MILL_STUCK": "basics"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "MillBackend, in a transfer or in add: took longer than 1 s" in done.stdout


def alive_with(token: str) -> list[int]:
    """The processes whose environment has a token."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if token in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
    return found


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize("how", ["asleep", "locked", "threads", "basics"])
def test_no_process_outlives_a_parent_that_is_killed_at_any_time(how, installed):
    rng = random.Random(how)
    for turn in range(8):
        token = f"mill-{how}-{turn}-{os.getpid()}"
        environment = {**installed, "MILL_STUCK": how, "MILL_TOKEN": token}
        with subprocess.Popen(
            command("mill", "--quick", "--ops", "positive,square,abs", "--jobs", "2"),
            env=environment, stdout=subprocess.DEVNULL,
        ) as parent:  # fmt: skip
            time.sleep(rng.uniform(0.05, 3.0))
            parent.kill()
        until = time.monotonic() + 2
        while (left := alive_with(token)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not left


def test_processes_replace_what_an_earlier_run_found(tmp_path):
    path = tmp_path / "report.json"
    arguments = [
        "conform",
        "numpy",
        "--timeout",
        "0",
        "--quick",
        "--ops",
        "positive,negative",
        "--json",
        str(path),
    ]
    assert cli.main(arguments) == 0
    first = json.loads(path.read_text())
    failure = {**dict.fromkeys(Failure.__slots__, ""), "op": "positive", "check": "value"}
    path.write_text(json.dumps({**first, "failures": [failure]}))
    assert cli.main([*arguments, "--failed", "--jobs", "1"]) == 0
    second = json.loads(path.read_text())
    assert (second["failures"], second["total"]) == ([], first["total"])


def test_ctrl_c_keeps_what_there_is(installed, tmp_path):
    path = tmp_path / "report.json"
    arguments = ["mill", "--quick", "--ops", "positive,square", "--jobs", "2", "--json", str(path)]
    with subprocess.Popen(
        command(*arguments), env=installed, stdout=subprocess.PIPE, text=True,
        # A shell has what it runs in the background ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:  # fmt: skip
        guard = threading.Timer(120, process.kill)
        guard.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("[1/2] positive: "):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(120) == 1
        guard.cancel()
    assert "Stopped before the last op" in rest
    report = json.loads(path.read_text())
    assert list(report["ops"]) == ["positive"]
    assert not report["complete"]


def test_a_backend_of_this_process_alone_is_no_backend_of_others():
    pb.register_backend(type("MillBackend", (NumPyBackend,), {"name": "mill"})(), replace=True)
    with pytest.raises(errors.BackendError, match="it has to be an installed backend"):
        conform("mill", ops=["positive"], quick=True, by=Workers(1))


def test_a_budget_takes_a_sample_of_every_op_and_says_so(capsys, monkeypatch):
    # A clock that a look at it moves by 0.05 s, whatever else the machine does.
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: 0.05 * next(ticks))
    for module in (mode, runner):
        monkeypatch.setattr(module, "time", clock)
    arguments = [*HERE, "--quick", "--budget", "3s", "--seed", "5"]
    assert cli.main([*arguments, "--ops", "negative,abs,square,positive"]) == 0
    out = capsys.readouterr().out
    assert "numpy on cpu:0: 3 s of a random sample (--seed 5) of quick conformance" in out
    assert re.search(r"of \d+ checks in \d+ s, a random sample \(--seed 5\)", out)
    assert re.search(r"the run was a random sample of some \d+ of over \d+ checks of 4 ops", out)


def test_a_budget_draws_cheap_checks_more_often_and_those_of_a_quick_run_first():
    device = pb.device("cpu")
    few = runner.planned("softmax", device, mode=Mode(quick=True))
    order = by_cost(few, "5 softmax")
    assert set(order) == set(few)
    assert by_cost(few, "5 softmax") == order != by_cost(few, "6 softmax")

    def mean_size(items):
        return np.mean([0 if i.case is None else i.case.sample.inputs[0].size for i in items])

    assert mean_size(order[:200]) < 0.5 * mean_size(order[-200:])

    def names(items):
        # Which sample stands for its kind, in checks of kinds, depends on the order.
        return {(i.check, i.sample, i.dtype) for i in items if i.check == "value"}

    row = Row("softmax")
    end = time.perf_counter() + 1000
    every = [*runner._some(row, device, Mode(budget=9.0), end, "5 softmax")]
    assert row.planned == len(every)
    assert names(every) == names(runner.planned("softmax", device, mode=Mode()))


def test_a_budget_that_is_short_plans_a_part():
    row = Row("softmax")
    short = Mode(quick=True, budget=9.0)
    some = runner._some(row, pb.device("cpu"), short, 0.0, "5 softmax")
    next(some)
    written = row.planned
    assert 0 < written < len(runner.planned("softmax", pb.device("cpu"), mode=short))
    for _ in range(written):
        next(some)
    assert row.planned > written


def test_the_time_of_a_budget_is_shared():
    clock = Clock(Mode(budget=100.0), ops=4, jobs=2)
    first = clock.next()
    assert first == pytest.approx(50, abs=1)
    assert Clock(Mode(), ops=3).next() is None
    assert (seconds("90"), seconds("90s"), seconds("1.5m")) == (90, 90, 90)


def wrong_beyond_seven(x):
    """negative, wrong where the last axis has more than seven elements."""
    return np.negative(x) if not x.ndim or x.shape[-1] <= 7 else np.positive(x)


def test_random_calls_find_a_fault_and_say_how_to_repeat_it(capsys):
    members = {"name": "mill", "kernels": {**KERNELS, "negative": wrong_beyond_seven}}
    pb.register_backend(type("MillBackend", (NumPyBackend,), members)(), replace=True)
    arguments = ["conform", "mill", "--ops", "negative", "--random", "8", "--seed", "40"]
    assert cli.main(arguments) == 1
    out = capsys.readouterr().out
    assert "mill on mill:cpu:0: 8 random calls of each op (--seed 40): conformance" in out
    found = re.search(r"again: (pullback conform mill --ops negative --random 1 --seed 4\d)", out)
    assert found, out
    assert cli.main(found[1].split()[1:]) == 1
    again = capsys.readouterr().out
    assert re.search(r"(value|each_laid_out) \[seed 4\d: ", again), again


@pytest.mark.slow
@pytest.mark.parametrize(
    "op",
    ["add", "where", "sum", "matmul", "softmax", pytest.param("conv", marks=pytest.mark.slow),
     "take", "concat", "astype", "arange", "layer_norm", "solve",
     "sort", "cumulative_sum", "logsumexp", "fft", "sin", "einsum"],
)  # fmt: skip
def test_random_calls_of_a_right_backend_pass(op):
    report = conform("numpy", ops=[op], mode=Mode(random=6, seed=1))
    assert report.failures == []
    assert report.count.total > 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--timeout", "-1"], "--timeout must be a number of seconds"),
        (["--only", "values"], "--only: unknown check 'values'; did you mean 'value'?"),
        (["--without", "x"], "--without: unknown check 'x'; use one of value, "),
        (["--random", "0"], "--random must be at least 1"),
        (["--seed", "3"], "--seed is for --random and --budget"),
        (["--budget", "soon"], "write 60s or 2m"),
        (["--budget", "9", "--resume", "--json", "x.json"], "leave out --resume"),
    ],
)
def test_wrong_options(arguments, words, capsys):
    assert cli.main(["conform", "numpy", "--ops", "positive", "--timeout", "0", *arguments]) == 1
    assert words in capsys.readouterr().err
