"""`pullback launch -n N program.py`: a program on N ranks, by the machine's `mpiexec`."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pullback import errors

if TYPE_CHECKING:
    from pullback.cli.table import Subcommands

__all__ = ["add", "launcher", "run"]


def add(subcommands: Subcommands) -> None:
    """Adds the subcommand to those of the command line."""
    parser = subcommands.add_parser(
        "launch",
        help="run a program on several ranks, by mpiexec",
        description="Runs a program on several ranks, by mpiexec, and again after a failure: the "
        "program resumes from its own checkpoints.",
    )
    parser.add_argument("-n", dest="ranks", metavar="N", type=int, default=2, help="the ranks; 2")
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


def run(arguments: argparse.Namespace) -> int:
    """Runs a program until it succeeds, or has failed once more than it may.

    Raises:
        PluginError: where there is no `mpiexec`.
    """
    command = [launcher(), "-n", str(arguments.ranks), sys.executable]
    command += [arguments.program, *arguments.arguments]
    environment = {"PULLBACK_COMMUNICATOR": "mpi", **os.environ}
    for started in range(arguments.restarts + 1):
        status = subprocess.run(command, env=environment).returncode
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
