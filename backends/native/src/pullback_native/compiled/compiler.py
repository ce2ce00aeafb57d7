"""The C compiler of the machine."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

#: The environment variable with the command of the compiler; empty for none.
VARIABLE = "PULLBACK_NATIVE_CC"
#: What is looked for without it.
_USUAL = ("cc", "gcc", "clang")
#: As in setup.py. Instructions are put in order before registers are given to them, which GCC
#: leaves out on x86: steps that do not depend on each other run at the same time, a fifth faster.
_FLAGS = ("-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-fPIC",
          "-shared", "-fschedule-insns", "-w")  # fmt: skip
#: As the pragmas of c/loops_*.c.
_INSTRUCTIONS = {
    "base": (),
    "avx2": ("-mavx2", "-mfma", "-mbmi", "-mbmi2"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mbmi",
               "-mbmi2", "-mprefer-vector-width=512"),
}  # fmt: skip
#: Seconds after which a compiler is given up.
_LONGEST = 60


class CompilerError(Exception):
    """The compiler failed, or is gone."""


class Compiler(NamedTuple):
    """A command, what it says of its version, and its options."""

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]

    def start(self, text: str, library: Path) -> Compilation:
        """Starts to compile a text into a library."""
        return Compilation((*self.command, *self.flags, "-x", "c", "-", "-o", str(library)), text)


class Compilation:
    """A compiler that runs. It does not get the terminal's Ctrl-C, which is for the program.

    Args:
        command: The compiler, with its options.
        text: What it reads.
    """

    def __init__(self, command: tuple[str, ...], text: str = "") -> None:
        self._name = command[0]
        self._text = text.encode()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CompilerError(f"{self._name!r} cannot be started: {error}") from None

    def wait(self) -> str:
        """Waits for the end, and returns what it printed.

        Raises:
            CompilerError: The compiler failed.
        """
        try:
            printed, said = self._process.communicate(self._text, timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            self.stop()
            self._process.communicate()
            raise CompilerError(f"{self._name!r} took more than {_LONGEST} s") from None
        if self._process.returncode:
            lines = said.decode(errors="replace").strip().splitlines() or ["it said nothing"]
            status = self._process.returncode
            raise CompilerError(f"{self._name!r} failed with status {status}: {lines[0]}")
        return printed.decode(errors="replace")

    def stop(self) -> None:
        """Ends the compiler, and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def is_off() -> bool:
    """Returns whether the environment says that nothing is to be compiled."""
    choice = os.environ.get(VARIABLE)
    return sys.platform == "win32" or (choice is not None and not choice.strip())


def find(instructions: str, run: Callable[[Callable[[], Compilation]], str]) -> Compiler | None:
    """The compiler that the environment names, or that there is; None if there is none.

    Args:
        instructions: The instruction set to compile for.
        run: Runs what a function starts, and returns what it printed.

    Raises:
        CompilerError: There is no compiler that is named so, or it does not say its version.
    """
    choice = os.environ.get(VARIABLE)
    if is_off():
        return None
    if choice is not None:
        try:
            command = shlex.split(choice)
        except ValueError as error:
            raise CompilerError(
                f"{VARIABLE} cannot be read as a command: {error} in {choice!r}; quote it as for "
                f"a shell"
            ) from None
        if shutil.which(command[0]) is None:
            raise CompilerError(
                f"there is no {choice!r}, which {VARIABLE} names; unset it to have the compiler "
                "of the machine, or set it to nothing to have none"
            )
    else:
        command = [name for name in _USUAL if shutil.which(name)][:1]
    if not command:
        return None
    command[0] = str(shutil.which(command[0]))
    try:
        said = run(lambda: Compilation((*command, "--version")))
    except CompilerError as error:
        raise CompilerError(f"{command[0]!r} does not say its version: {error}") from None
    # Without the libraries that a program links: there is nothing in it to be linked.
    bare = ("-nostdlib",) if sys.platform == "linux" else ()
    flags = (*_FLAGS, *_INSTRUCTIONS[instructions], *bare)
    return Compiler(tuple(command), said, flags)
