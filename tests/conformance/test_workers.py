"""`pullback conform` in processes, in random samples, and with random calls."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import pullback as pb
from pullback import cli, errors
from pullback.conformance import mode, runner
from pullback.conformance.mode import Clock, Mode, seconds
from pullback.conformance.report import Failure
from pullback.conformance.runner import conform
from pullback.conformance.workers import Workers
from pullback_numpy import NumPyBackend
from pullback_numpy.kernels import KERNELS

#: An installed backend that prints: one kernel kills its process, one takes for ever, one is wrong.
PLUGIN = """
import os, signal, sys, time
import numpy as np
import pullback as pb
from pullback_numpy import NumPyBackend

def die(x):
    os.kill(os.getpid(), signal.SIGSEGV)

def stuck(x):
    time.sleep(600)

class MillBackend(NumPyBackend):
    name = "mill"
    kernels = {**NumPyBackend.kernels, "sign": die, "square": stuck, "floor": np.ceil}

@pb.hookimpl
def pullback_register_backend(register):
    print("loaded")
    register(MillBackend())
"""


@pytest.fixture
def installed(tmp_path):
    """Installs the backend "mill" for a process; returns its environment."""
    (tmp_path / "pullback_mill.py").write_text(PLUGIN)
    info = tmp_path / "pullback_mill-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pullback-mill\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pullback.backends.cpu]\nmill = pullback_mill\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path}


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


def test_a_process_that_dies_is_the_failure_of_its_op(installed, tmp_path):
    path = tmp_path / "report.json"
    arguments = ["mill", "--quick", "--ops", "positive,sign,floor", "--jobs", "2", "--json", path]
    done = subprocess.run(
        command(*map(str, arguments)), env=installed, capture_output=True, text=True
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"^\[\d/3\] positive: \d+ checks, 100 %, \d", done.stdout, re.MULTILINE), (
        done.stdout
    )
    assert re.search(r"process: the process ended by SIGSEGV in value \[", done.stdout)
    report = json.loads(path.read_text())
    assert report["complete"]
    assert list(report["ops"]) == ["positive", "sign", "floor"]
    assert {one["op"] for one in report["failures"]} == {"floor", "sign"}


def test_processes_replace_what_an_earlier_run_found(tmp_path):
    path = tmp_path / "report.json"
    arguments = ["conform", "numpy", "--quick", "--ops", "positive,negative", "--json", str(path)]
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
    arguments = ["conform", "numpy", "--quick", "--budget", "3s", "--seed", "5"]
    assert cli.main([*arguments, "--ops", "negative,abs,square,positive"]) == 0
    out = capsys.readouterr().out
    assert "numpy on cpu:0: 3 s of a random sample (--seed 5) of quick conformance" in out
    assert re.search(r"of \d+ checks in \d+ s, a random sample \(--seed 5\)", out)
    assert re.search(r"the run was a random sample of some \d+ of \d+ checks of 4 ops", out)


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
    assert re.search(r"value \[seed 4\d: ", again), again


@pytest.mark.parametrize(
    "op",
    ["add", "where", "sum", "matmul", "softmax", "conv", "take", "concat", "astype", "arange",
     "layer_norm", "solve", "sort", "cumulative_sum", "logsumexp", "fft", "sin", "einsum"],
)  # fmt: skip
def test_random_calls_of_a_right_backend_pass(op):
    report = conform("numpy", ops=[op], mode=Mode(random=6, seed=1))
    assert report.failures == []
    assert report.count.total > 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--random", "0"], "--random must be at least 1"),
        (["--seed", "3"], "--seed is for --random and --budget"),
        (["--budget", "soon"], "write 60s or 2m"),
        (["--budget", "9", "--resume", "--json", "x.json"], "leave out --resume"),
    ],
)
def test_wrong_options(arguments, words, capsys):
    assert cli.main(["conform", "numpy", "--ops", "positive", *arguments]) == 1
    assert words in capsys.readouterr().err
