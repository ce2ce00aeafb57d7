"""The layer call in progress: layers inside it inherit its settings."""

from __future__ import annotations

import threading
import weakref

from pullback.layers.loss_terms import LossTerms

__all__ = ["CALLS"]


class LayerCalls(threading.local):
    """The state of layer calls in this thread."""

    #: The number of nested calls, and how many of them are building.
    depth: int = 0
    building: int = 0
    training: bool | None = None
    #: The size of the first axis of its first input, in the first call of a layer.
    batch: int | None = None
    #: The number of layers that have been called for the first time.
    first_calls: int = 0

    def __init__(self) -> None:
        #: The losses that layers have added in the outermost call, by the identity of the layer.
        self.losses: dict[int, weakref.ref[LossTerms]] = {}


CALLS = LayerCalls()
