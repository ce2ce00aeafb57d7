"""The command line: `pullback backends`, `launch`, and others' commands.

Each subcommand is a module with `add(subcommands)`, which adds its parser and sets `run` to a
function of the parsed arguments that returns the exit status. Packages have theirs, such as
`conform`, in the entry points `pullback.commands`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from pullback import errors
from pullback._version import __version__
from pullback.cli import backends, launch
from pullback.plugins.entry_points import blame_plugin, entry_points, plugin_label

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["main"]

_COMMANDS = {"backends": backends, "launch": launch}
#: Commands of packages that pages speak of, and how those are installed.
_ELSEWHERE = dict.fromkeys(("conform", "new-backend", "ops"), 'pip install "pullback[conformance]"')


def parser() -> argparse.ArgumentParser:
    """The parser of all arguments."""
    parser = argparse.ArgumentParser(
        prog="pullback", description="An eager deep-learning framework with pluggable backends."
    )
    parser.add_argument("--version", action="version", version=f"pullback {__version__}")
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND")
    found = {entry.name: entry for entry in entry_points() if entry.group == "pullback.commands"}
    for name in sorted({*_COMMANDS, *_ELSEWHERE, *found}):
        if name in _COMMANDS:
            _COMMANDS[name].add(subcommands)
        elif name in found:
            _add_installed(subcommands, found[name])
        else:
            fix = _ELSEWHERE[name]
            _add_unusable(subcommands, name, f"is a command of another package; install it: {fix}")
    return parser


def _add_installed(subcommands: Any, entry: EntryPoint) -> None:
    """Adds the command of a package; one that fails is an error where it is called, not for all."""
    try:
        with blame_plugin(plugin_label("command", entry.name, [entry]), [entry]):
            entry.load().add(subcommands)
    except errors.BackendError as error:
        _add_unusable(subcommands, entry.name, f"cannot be used: {error}")


def _add_unusable(subcommands: Any, name: str, why: str) -> None:
    """Adds a command that raises, whatever its arguments."""
    # No character begins an option: all that follows is taken as it is.
    unusable = subcommands.add_parser(name, help=why, add_help=False, prefix_chars="\0")
    unusable.add_argument("rest", nargs="*")

    def run(_: argparse.Namespace) -> NoReturn:
        raise errors.BackendError(f"{name} {why}")

    unusable.set_defaults(run=run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status: 0, 1 for a failure, 2 for bad usage."""
    try:
        whole = parser()
        parsed = whole.parse_args(arguments)
        if not hasattr(parsed, "run"):
            whole.print_help(sys.stderr)
            return 2
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
