"""The call of a layer that is under way: the layers inside it take over what it says."""

from __future__ import annotations

import threading

__all__ = ["CALLS"]


class Calls(threading.local):
    """What holds in this thread."""

    #: How many calls are inside one another, and how many of them build.
    depth: int = 0
    building: int = 0
    training: bool | None = None
    #: One object for each outermost call.
    turn: object = None


CALLS = Calls()
