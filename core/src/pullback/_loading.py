"""Suspends garbage collection while `pullback` is imported.

Nearly all objects made by the import stay. Python would look through them several times, which is a
fifth of the time of the import.
"""

from __future__ import annotations

import gc


class uncollected:
    """No garbage is collected inside `with uncollected():`; afterwards as before, come what may."""

    __slots__ = ("_collecting",)

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._collecting:
            # The next collection would look through all of them once more: they are old already.
            # Objects that somebody has frozen stay so.
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
