"""Ctrl-C during training: it waits for the end of the step, so that checkpoints are complete."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, TypeAlias

__all__ = ["Interrupted", "Interruption"]

#: A handler of signals, as `signal.signal` returns it.
Handler: TypeAlias = "Callable[[int, FrameType | None], Any] | int | signal.Handlers | None"

_NOTE = b"\nStopping after this step. Ctrl-C again stops at once, and saves nothing.\n"


class Interrupted(KeyboardInterrupt):
    """Training was interrupted between two steps."""


class Interruption:
    """A block in which a first Ctrl-C waits until `check` raises it; a second stops at once.

    A handler of the program's own stays active. Outside the main thread, which alone gets signals,
    the block does nothing.

    Args:
        agree: tells whether any of several ranks was asked, to all of them at the same step. They
            take SIGTERM, by which clusters end programs, as Ctrl-C.
    """

    def __init__(self, agree: Callable[[bool], bool] | None = None) -> None:
        self.asked = False
        self._agree = agree
        self._before: dict[signal.Signals, Handler] = {}
        #: True after a Ctrl-C to this process; others may have asked before it comes.
        self._interrupted = False

    def __enter__(self) -> Interruption:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._note)
        if main and self._agree and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before[signal.SIGTERM] = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self.asked and error is None:
            # It came after the last step: the program must still stop.
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True
        if self.asked:
            return
        self.asked = True
        # Not by print: the signal may interrupt a print.
        with suppress(OSError):
            os.write(2, _NOTE)

    def check(self) -> None:
        """Raises a Ctrl-C that waits.

        Raises:
            Interrupted: after a Ctrl-C.
        """
        # A signal that comes meanwhile counts at the next step, when all ranks know of it.
        stop = self.asked if self._agree is None else self._agree(self.asked)
        if stop:
            self.asked = True
            raise Interrupted
