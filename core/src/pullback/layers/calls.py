"""The layer call in progress: layers inside it inherit its settings."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from pullback._tree import leaves, like
from pullback.layers.loss_terms import LossTerms

__all__ = [
    "CALLS",
    "BuiltFor",
    "FirstCall",
    "SymbolicCalls",
    "SymbolicPart",
    "batch_of",
    "shapes_in",
]


class LayerCalls(threading.local):
    """The state of layer calls in this thread."""

    #: The number of nested calls.
    depth: int = 0
    training: bool | None = None
    #: The size of the first axis of its first input, in the first call of a layer.
    batch: int | None = None
    #: The number of layers that have been called for the first time.
    first_calls: int = 0

    def __init__(self) -> None:
        #: The layers that are being built, the innermost last.
        self.building: list[object] = []
        #: The losses that layers have added in the outermost call, by the identity of the layer.
        self.losses: dict[int, weakref.ref[LossTerms]] = {}


CALLS = LayerCalls()


# The first call -----------------------------------------------------------------------------------


class FirstCall:
    """The first call of a layer.

    Attributes:
        shapes: the shapes of the output, in its structure.
        batch: the size of the batch axis, if the layer saw one; None otherwise.
        number: its place among the first calls of all layers.
    """

    opaque_state = True
    __slots__ = ("batch", "number", "shapes")

    def __init__(self, first_input: object, result: object) -> None:
        self.shapes = shapes_in(result)
        # A first axis of another size than the outermost call's is not the batch: positions, say.
        batch = batch_of((first_input,))
        self.batch = batch if batch == CALLS.batch else None
        CALLS.first_calls = self.number = CALLS.first_calls + 1


class BuiltFor:
    """The shape of the input that a layer was built for, in its structure."""

    # A tuple would be looked through each time the variables of a model are listed.
    opaque_state = True
    __slots__ = ("shape",)

    def __init__(self, shape: Any) -> None:
        self.shape = shape


def batch_of(args: tuple[Any, ...]) -> int | None:
    """Returns the size of the first axis of the first input; None if there is none."""
    for leaf in leaves(args[0]) if args else ():
        shape = getattr(leaf, "shape", None)
        if shape is not None:
            size: int | None = shape[0] if len(shape) else None
            return size
    first = args[0] if args else None
    return len(first) if isinstance(first, (list, tuple)) else None


def shapes_in(value: Any) -> Any:
    """Returns a structure with the shapes of its tensors in their place."""
    shapes = [tuple(leaf.shape) if hasattr(leaf, "shape") else None for leaf in leaves(value)]
    return like(value, iter(shapes))


class SymbolicCalls:
    """The calls of a layer with symbolic tensors: their number, and the last one.

    The call lives as long as the symbolic tensors, or a model, that were made with it.
    """

    opaque_state = True
    __slots__ = ("_last", "count")

    def __init__(self, count: int, last: Any) -> None:
        self.count = count
        self._last: Callable[[], Any] = weakref.ref(last)

    @property
    def only(self) -> Any:
        """The only call; None if there were others, or if nothing that it made is left."""
        return self._last() if self.count == 1 else None

    def __getstate__(self) -> tuple[int, Any]:
        # Copies of a model have copies of its calls.
        return self.count, self._last()

    def __setstate__(self, state: tuple[int, Any]) -> None:
        self.count, last = state
        self._last = (lambda: None) if last is None else weakref.ref(last)


class SymbolicPart:
    """The input or output of the only call of a layer with symbolic tensors.

    An object may have another value in the attribute.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, layer: Any, owner: type) -> Any:
        if layer is None:
            return self
        calls = layer._symbolic_calls
        call = None if calls is None else calls.only
        if call is None:
            count = 0 if calls is None else calls.count
            gone = ", and nothing that was made of the result is left" if count == 1 else ""
            raise AttributeError(
                f"{layer.name} was called {count} times with symbolic tensors{gone}; keep what the "
                f"call returns: y = layer(x), with x = pb.Input(shape)"
            )
        part = getattr(call, self._name)
        return part[0] if isinstance(part, tuple) and len(part) == 1 else part
