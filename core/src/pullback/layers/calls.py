"""The layer call in progress: layers inside it inherit its settings."""

from __future__ import annotations

import threading

__all__ = ["CALLS"]


class Calls(threading.local):
    """The state of layer calls in this thread."""

    #: The number of nested calls, and how many of them are building.
    depth: int = 0
    building: int = 0
    training: bool | None = None
    #: An object that identifies the outermost call.
    outermost: object = None


CALLS = Calls()
