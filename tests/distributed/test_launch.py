"""`pullback launch` below a launcher of its own, with programs that need no communicator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pullback.cli import launch as module

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ranks are watched on POSIX")
#: Starts the command on two ranks, and waits for both.
TWICE = 'for r in 0 1; do RANK=$r "$@" & done; wait'


def launch(tmp_path, text):
    """Starts a program on two ranks."""
    path = tmp_path / "program.py"
    path.write_text(text)
    command = [sys.executable, "-P", "-m", "pullback", "launch", "--by", f"sh -c '{TWICE}' sh"]
    return subprocess.Popen(
        [*command, str(path)],
        stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip


def lives(pid):
    """Returns whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def waits(condition, seconds):
    """Returns whether a condition is true within so many seconds."""
    until = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ranks_end_when_the_launcher_is_killed(tmp_path):
    process = launch(
        tmp_path,
        "import os, time\n"
        "open(f'rank{os.environ[\"RANK\"]}', 'w').write(str(os.getpid()))\n"
        "time.sleep(600)\n",
    )
    files = [tmp_path / f"rank{rank}" for rank in range(2)]
    assert waits(lambda: all(file.exists() and file.read_text() for file in files), 60)
    ranks = [int(file.read_text()) for file in files]
    process.send_signal(signal.SIGKILL)
    try:
        assert waits(lambda: not any(map(lives, ranks)), 5)
    finally:
        for rank in filter(lives, ranks):
            os.kill(rank, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def test_a_rank_that_fails_is_named(tmp_path):
    process = launch(tmp_path, "import os, sys\nsys.exit(7 * int(os.environ['RANK']))\n")
    _, shown = process.communicate(timeout=120)
    assert process.returncode
    assert shown.splitlines()[-1].endswith("ended with the exit status 7; all ranks end")
    assert shown.splitlines()[-1].startswith("pullback: rank 1 on ")


def test_the_other_ranks_end_where_the_launcher_waits_for_them(tmp_path, monkeypatch, capfd):
    """Their parents end them: the launcher need not be told, by a signal that it may not know."""
    monkeypatch.setattr(module, "_PATIENCE", 120.0)
    path = tmp_path / "program.py"
    path.write_text(
        "import os, sys, time\n"
        f"begun = {str(tmp_path / 'begun')!r}\n"
        "if os.environ['RANK'] == '0':\n"
        "    open(begun, 'w').close()\n"
        "    time.sleep(600)\n"
        "while not os.path.exists(begun):\n"
        "    time.sleep(0.01)\n"
        "sys.exit(7)\n"
    )
    begin = time.monotonic()
    command = module.command_of(2, f"sh -c '{TWICE}' sh")
    assert module.launch([*command, sys.executable, str(path)], dict(os.environ)) == 1
    assert time.monotonic() - begin < 60
    assert capfd.readouterr().err.splitlines()[-1].endswith("exit status 7; all ranks end")
