"""`FirstCall`: the shapes and the order of the first calls of layers, for summaries."""

from __future__ import annotations

from typing import Any

from pullback._tree import leaves, like
from pullback.layers.calls import CALLS
from pullback.tensor import Tensor

__all__ = ["FirstCall", "batch_of"]


class FirstCall:
    """The first call of a layer.

    Attributes:
        shapes: the shapes of the output, in its structure.
        batch: the size of the batch axis, if the layer saw one; None otherwise.
        number: its place among the first calls of all layers.
    """

    opaque_state = True
    __slots__ = ("batch", "number", "shapes")

    def __init__(self, first_input: Any, result: Any) -> None:
        self.shapes = _shapes_in(result)
        # A first axis of another size than the outermost call's is not the batch: positions, say.
        batch = batch_of((first_input,))
        self.batch = batch if batch == CALLS.batch else None
        CALLS.first_calls = self.number = CALLS.first_calls + 1


def batch_of(args: tuple[Any, ...]) -> int | None:
    """Returns the size of the first axis of the first input; None if there is none."""
    for leaf in leaves(args[0]) if args else ():
        shape = getattr(leaf, "shape", None)
        if shape is not None:
            return int(shape[0]) if len(shape) else None
    first = args[0] if args else None
    return len(first) if isinstance(first, (list, tuple)) else None


def _shapes_in(value: Any) -> Any:
    """Returns a structure with the shapes of its tensors in their place."""
    shapes = [tuple(leaf.shape) if isinstance(leaf, Tensor) else None for leaf in leaves(value)]
    return like(value, iter(shapes))
