"""A process that starts one rank and watches it: what `pullback launch` has `mpiexec` start.

It is the rank's parent, so it learns at once, from the kernel, that the rank was killed, has ended,
or stands still; a rank that computes for long looks like none of these. Then it ends the rank, says
why in one line, and fails: the launcher ends all others. It runs as a file, without site packages,
and imports nothing of pullback.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from types import FrameType

__all__ = ["ABSENT", "COMING", "HERE", "LAUNCHED", "VARIABLE", "call", "main", "rank_of", "report"]

#: The environment variable with the descriptors by which a rank and its parent know of each other.
VARIABLE = "PULLBACK_PARENT"
#: Where `pullback launch` listens: a host, a port and what strangers do not know. It is told three
#: more things: that a rank waits in `init`, that one never came, and that this process is here,
#: which leaves a connection until either of both is gone.
LAUNCHED, HERE = "PULLBACK_LAUNCHED", "is here"
COMING, ABSENT = "is in init", "ended before init, where others wait for it"
#: How long a rank may stand still, and how often that is looked at, in seconds.
PATIENCE, PERIOD = 1.5, 0.25
#: What launchers call the number of a process.
_RANKS = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "RANK", "SLURM_PROCID")


def rank_of(names: Iterable[str] = _RANKS) -> str:
    """The number that the launcher gave this process; "?" without any."""
    return next((os.environ[name] for name in names if name in os.environ), "?")


def call(line: str) -> socket.socket | None:
    """Sends a line to `pullback launch`; returns the connection, None where it is not there."""
    host, port, token = (os.environ.get(LAUNCHED) or "::").rsplit(":", 2)
    try:
        address = "127.0.0.1" if host == socket.gethostname() else host, int(port)
        connection = socket.create_connection(address, timeout=1)
    except (OSError, ValueError):
        return None
    try:
        connection.sendall(f"{token} {line}\n".encode())
    except OSError:
        connection.close()
        return None
    return connection


def report(line: str) -> bool:
    """Sends a line to `pullback launch`; False where it is not there."""
    connection = call(line)
    if connection is not None:
        connection.close()
    return connection is not None


class Watched:
    """A program, from its start to its end.

    Args:
        command: the program and its arguments.
    """

    def __init__(self, command: list[str]) -> None:
        self.rank = rank_of()
        #: Whether it is one of several, is not, and has said how it ends.
        self.joined = self.alone = self.ends = False
        self._said, theirs = os.pipe()
        # The rank reads from it until this process is gone.
        other, self._alive = os.pipe()
        for descriptor in (theirs, other):
            os.set_inheritable(descriptor, True)
        self._launch = call(HERE)
        self._woken, waking = os.pipe()
        os.set_blocking(waking, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT):  # the rank gets Ctrl-C itself
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._forward)
        environment = {**os.environ, VARIABLE: f"{other},{theirs}"}
        self._pid = os.posix_spawnp(
            command[0], command, environment, setsigdef=[signal.SIGPIPE, signal.SIGINT]
        )
        os.close(theirs)
        os.close(other)

    def _forward(self, number: int, _: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self) -> tuple[str, int]:
        """Returns the cause, if it is a failure that nobody has told, and the exit status."""
        stopped = 0.0
        cause = stop = ""
        heard = [self._said, self._woken]
        launch = -1 if self._launch is None else self._launch.fileno()
        if self._launch is not None:
            heard.append(launch)
        while True:
            found, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if found and os.WIFSTOPPED(status):
                stopped, stop = PERIOD, signal.Signals(os.WSTOPSIG(status)).name
            elif found and os.WIFCONTINUED(status):
                stop = ""
            elif found:
                break
            ready, _, _ = select.select(heard, [], [], PERIOD if stop else None)
            for descriptor in ready:
                if not self._hear(descriptor):
                    heard.remove(descriptor)
                    if descriptor == launch:
                        cause = cause or "pullback launch has ended"
                        os.kill(self._pid, signal.SIGKILL)
            if stop and not ready:
                # Counted, not measured: who is stopped with it has not waited.
                stopped += PERIOD
            if stop and stopped > PATIENCE and not cause:
                cause = f"stood still for {PATIENCE:g} s, by {stop}"
                os.kill(self._pid, signal.SIGKILL)
        while self._said in heard and select.select([self._said], [], [], 0)[0]:
            if not self._hear(self._said):
                break
        if cause:
            return cause, 1
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            return f"killed by {signal.Signals(number).name}", 128 + number
        code = os.WEXITSTATUS(status)
        if code:
            return f"ended with the exit status {code}", code
        # The status of success is a failure, too, for those who wait for it.
        return ("ended while others wait for it", 1) if self.joined and not self.ends else ("", 0)

    def tell(self, words: str) -> None:
        """Tells `pullback launch` of this rank, or writes it to the standard error."""
        line = f"pullback: rank {self.rank} on {socket.gethostname()}: {words}"
        if not report(line) and words not in (COMING, ABSENT):
            with suppress(OSError):
                os.write(2, f"{line}\n".encode())

    def _hear(self, descriptor: int) -> bool:
        words = os.read(descriptor, 4096)
        if descriptor == self._said:
            for line in words.decode().splitlines():
                name, _, rank = line.partition(" ")
                if name == "comes":
                    self.tell(COMING)
                elif name == "joins":
                    self.rank, self.joined = rank, True
                elif name == "alone":
                    self.alone = True
                elif name == "ends":
                    self.ends = True
        return bool(words)


def main(command: list[str]) -> int:
    """Runs a program as a rank; returns its exit status, or that of its failure."""
    watched = Watched(command)
    cause, status = watched.wait()
    if cause and not watched.ends:
        watched.tell(f"{cause}; all ranks end")
    elif not (cause or watched.joined or watched.alone):
        watched.tell(ABSENT)
    return status


if __name__ == "__main__":
    # Not by sys.exit: nothing is to be written or waited for.
    os._exit(main(sys.argv[1:]))
