"""`pullback launch -n N program.py`: a program on N ranks, by the machine's `mpiexec`."""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pullback import _rank_process, errors

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands

__all__ = ["add", "command_of", "launch", "launcher", "run"]

#: How long a launcher may take to end all ranks after a failure, in seconds: of itself, as
#: `mpiexec` does where they call MPI, and when their parents, or a signal, have ended them.
_OF_ITSELF, _PATIENCE = 0.25, 1.0


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "launch",
        help="run a program on several ranks, by mpiexec",
        description="Runs a program on several ranks, by mpiexec, and again after a failure: the "
        "program resumes from its own checkpoints. A rank that is killed, ends early or stands "
        "still ends all of them.",
    )
    parser.add_argument("-n", dest="ranks", metavar="N", type=int, default=2, help="the ranks; 2")
    parser.add_argument(
        "--by", metavar="COMMAND", help='another launcher, such as "srun -n 8"; then without -n'
    )
    parser.add_argument(
        "--communicator", metavar="NAME", help="what pb.distributed.init() takes; mpi"
    )
    parser.add_argument(
        "--restarts", metavar="N", type=int, default=0, help="how often to start again; 0"
    )
    parser.add_argument("program", help="a file of Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the program gets")
    parser.set_defaults(run=run)


def launcher() -> str:
    """The path of `mpiexec`, beside this Python or on the PATH.

    Raises:
        PluginError: where there is none.
    """
    beside = str(Path(sys.executable).parent)
    found = shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    if found is None:
        raise errors.PluginError(
            'there is no mpiexec, which starts the ranks; pip install "pullback[mpi]" brings one'
        )
    return found


def command_of(ranks: int, by: str | None = None) -> list[str]:
    """The command before that of a rank: a launcher, and the process that watches the rank.

    Args:
        ranks: the number of ranks.
        by: the launcher with its arguments; None for `mpiexec`.

    Raises:
        PluginError: where there is no `mpiexec`.
    """
    start = [launcher(), "-n", str(ranks)] if by is None else shlex.split(by)
    if os.name != "posix":
        return start
    return [*start, sys.executable, "-I", "-S", _rank_process.__file__]


def run(arguments: argparse.Namespace) -> int:
    """Runs a program until it succeeds, or has failed once more than it may.

    Raises:
        PluginError: where there is no `mpiexec`.
    """
    command = [*command_of(arguments.ranks, arguments.by), sys.executable]
    command += [arguments.program, *arguments.arguments]
    environment = {"PULLBACK_COMMUNICATOR": "mpi", **os.environ}
    if arguments.communicator:
        environment["PULLBACK_COMMUNICATOR"] = arguments.communicator
    for started in range(arguments.restarts + 1):
        status = launch(command, environment)
        if status in (0, 130):  # Ctrl-C is no failure
            break
        if started < arguments.restarts:
            print(
                f"pullback: {arguments.program} has ended with {status}; restart {started + 1} of "
                f"{arguments.restarts}",
                file=sys.stderr,
                flush=True,
            )
    return status


def launch(command: list[str], environment: dict[str, str]) -> int:
    """Runs a launcher; what it writes last is the line of the rank that has failed.

    Ctrl-C and SIGTERM go to the ranks, which save and end.

    Args:
        command: the launcher, its arguments and the program.
        environment: its environment; an address at which ranks may meet is added.
    """
    ended = _Failures()
    environment = {**_with_address(environment), _rank_process.LAUNCHED: ended.address}
    # At a terminal it gets Ctrl-C, and what is typed, as this process does.
    alone = not sys.stdin.isatty()
    process = subprocess.Popen(command, env=environment, process_group=0 if alone else None)

    def forward(number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM or alone:
            process.send_signal(number)

    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, forward) for number in numbers}
    listening = threading.Thread(target=ended.listen, args=(process,), daemon=True)
    listening.start()
    try:
        status = process.wait()
        ended.stop()
        listening.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if ended.told:
        print(ended.told, file=sys.stderr, flush=True)
        status = status or 1
    return status if status >= 0 else 128 - status


def _with_address(environment: dict[str, str]) -> dict[str, str]:
    """An environment in which ranks of this machine know where to meet, for those that ask."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **environment}


class _Failures:
    """The failures that ranks report, to `_rank_process.report`'s address."""

    def __init__(self) -> None:
        #: The line of the rank that failed first.
        self.told = ""
        self._absent = ""
        self._coming = False
        #: Connections of the processes that watch ranks.
        self._here: list[socket.socket] = []
        self._socket = socket.create_server(("", 0))
        # Lines of strangers do not count.
        self._token = secrets.token_hex(8)
        self.address = f"{socket.gethostname()}:{self._socket.getsockname()[1]}:{self._token}"

    def listen(self, process: subprocess.Popen[bytes]) -> None:
        """Reads lines, and ends a launcher that does not end the other ranks after one."""
        while True:
            connection, _ = self._socket.accept()
            with connection, suppress(OSError):
                connection.settimeout(1)
                token, _, line = connection.makefile().readline().strip().partition(" ")
                if token == self._token and not line:
                    break
                if token == self._token and line == _rank_process.HERE:
                    self._here.append(connection.dup())
                elif token == self._token and self._fails(line):
                    threading.Thread(target=self._end, args=(process,), daemon=True).start()
        self._socket.close()

    def stop(self) -> None:
        """Has `listen` end, when it has read what came before."""
        with socket.create_connection(("127.0.0.1", self._socket.getsockname()[1])) as last:
            last.sendall(f"{self._token}\n".encode())

    def _fails(self, line: str) -> bool:
        if self.told:
            return False
        if line.endswith(_rank_process.COMING):
            self._coming = True
        elif line.endswith(_rank_process.ABSENT):
            self._absent = line
        else:
            self.told = line
        # A program that has nothing to do with other ranks ends whenever it likes.
        if self._coming and self._absent and not self.told:
            self.told = f"{self._absent}; all ranks end"
        return bool(self.told)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_OF_ITSELF)
            return
        for parent in list(self._here):
            with suppress(OSError):  # who is gone has no connection
                parent.shutdown(socket.SHUT_RDWR)
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
                return
            process.send_signal(number)
