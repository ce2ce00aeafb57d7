"""The command line: `pullback backends`, `conform`, `launch`, `new-backend` and `ops`.

Each subcommand is a module of this package with `add(subcommands)`, which adds its parser and sets
`run` to a function of the parsed arguments that returns the exit status.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pullback import errors
from pullback._version import __version__
from pullback.cli import backends, conform, launch, new_backend, ops

__all__ = ["main"]

_COMMANDS = (backends, conform, launch, new_backend, ops)


def parser() -> argparse.ArgumentParser:
    """The parser of all arguments."""
    parser = argparse.ArgumentParser(
        prog="pullback", description="An eager deep-learning framework with pluggable backends."
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in _COMMANDS:
        command.add(subcommands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 for a failure, 2 for bad usage."""
    whole = parser()
    parsed = whole.parse_args(arguments)
    if not hasattr(parsed, "run"):
        whole.print_help(sys.stderr)
        return 2
    try:
        status: int = parsed.run(parsed)
        sys.stdout.flush()
        return status
    except errors.PullbackError as error:
        print(f"pullback: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader has ended (`pullback backends | head`). Nothing more can be written, not even
        # by the interpreter when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
