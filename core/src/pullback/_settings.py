"""A mark that is replaced whenever something changes on which all ops depend.

Programs of captured functions are made for the default dtypes, the active device and the kernels
that there are. To compare all of these at each call would take as long as a small op.
"""

from __future__ import annotations

import threading

__all__ = ["SETTINGS"]


class Settings:
    """The mark, and the number of blocks that change a setting for one thread."""

    __slots__ = ("_blocks", "_lock", "now")

    def __init__(self) -> None:
        #: An object of its own for each time without changes; None while such a block runs.
        self.now: object = object()
        self._blocks = 0
        self._lock = threading.Lock()

    def change(self) -> None:
        """Is called when a setting has changed."""
        self._count(0)

    def enter(self) -> None:
        """Is called when a block begins."""
        self._count(1)

    def leave(self) -> None:
        """Is called when a block has ended."""
        self._count(-1)

    def _count(self, blocks: int) -> None:
        with self._lock:
            self._blocks += blocks
            self.now = None if self._blocks else object()


SETTINGS = Settings()
