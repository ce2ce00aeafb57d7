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
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Handler = None

    def __enter__(self) -> Interruption:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self.asked and error is None:
            # It came after the last step: the program must still stop.
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # Not by print: the signal may interrupt a print.
        with suppress(OSError):
            os.write(2, _NOTE)

    def check(self) -> None:
        """Raises a Ctrl-C that waits.

        Raises:
            Interrupted: after a Ctrl-C.
        """
        if self.asked:
            raise Interrupted
