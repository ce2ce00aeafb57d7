"""Ctrl-C during training: it waits for the end of the step, so that what is saved is whole."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interrupted", "Interruption"]

_NOTE = b"\nStopping after this step. Ctrl-C again stops at once, and saves nothing.\n"


class Interrupted(KeyboardInterrupt):
    """Training was interrupted between two steps."""


class Interruption:
    """Inside it, a first Ctrl-C is only noted, and `check` raises it. A second is not held up.

    A handler of the program's own stays in force, and in threads other than the main one, which get
    no signals, nothing is done.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> Interruption:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._hear)
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
            # It came after the last step: the program still wants to be stopped.
            raise KeyboardInterrupt

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # Not by print: the signal may have come in the middle of one.
        with suppress(OSError):
            os.write(2, _NOTE)

    def check(self) -> None:
        """Raises what has been noted.

        Raises:
            Interrupted: after a Ctrl-C.
        """
        if self.asked:
            raise Interrupted
