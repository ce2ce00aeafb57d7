"""Layers that make one tensor of several."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback import errors
from pullback.layers.layer import Layer
from pullback.ops.joining import concat
from pullback.spec import OPS
from pullback.tensor import Tensor

__all__ = ["Add", "Average", "Concatenate", "Maximum", "Merge", "Minimum", "Multiply", "Subtract"]


class Merge(Layer):
    """What the merging layers share: they are called with a list of two tensors or more.

    Args:
        rest: as of `Layer`.

    Raises:
        LayerError: for anything else, or shapes that do not broadcast.
    """

    op: ClassVar[str]

    def call(self, inputs: Any) -> Any:
        """The inputs as one."""
        first, *others = self.checked(inputs)
        for other in others:
            first = OPS[self.op].function(first, other)
        return first

    def checked(self, inputs: Any) -> list[Any]:
        """The inputs as a list of tensors."""
        found = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(found) < 2 or not all(isinstance(one, Tensor) for one in found):
            raise errors.LayerError("is called with a list of two tensors or more: layer([x, y])")
        return found


class Add(Merge):
    """The sum of the inputs.

    >>> pb.layers.Add()([pb.ones(2), pb.ones(2), pb.ones(2)]).tolist()
    [3.0, 3.0]
    """

    op = "add"


class Subtract(Merge):
    """The first input minus the others.

    >>> pb.layers.Subtract()([pb.ones(2), pb.ones(2)]).tolist()
    [0.0, 0.0]
    """

    op = "subtract"


class Multiply(Merge):
    """The product of the inputs.

    >>> pb.layers.Multiply()([pb.full((2,), 3.0), pb.full((2,), 2.0)]).tolist()
    [6.0, 6.0]
    """

    op = "multiply"


class Maximum(Merge):
    """The largest of the inputs, element by element.

    >>> pb.layers.Maximum()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [2.0, 4.0]
    """

    op = "maximum"


class Minimum(Merge):
    """The smallest of the inputs, element by element.

    >>> pb.layers.Minimum()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [1.0, 3.0]
    """

    op = "minimum"


class Average(Add):
    """The mean of the inputs, element by element.

    >>> pb.layers.Average()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [1.5, 3.5]
    """

    def call(self, inputs: Any) -> Any:
        """Their mean."""
        return super().call(inputs) / len(inputs)


class Concatenate(Merge):
    """The inputs one behind the other along an axis.

    Args:
        axis: which one.
        rest: as of `Layer`.

    >>> pb.layers.Concatenate()([pb.zeros((2, 3)), pb.zeros((2, 4))]).shape
    (2, 7)
    """

    def __init__(self, axis: int = -1, **rest: Any) -> None:
        super().__init__(**rest)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        """All of them."""
        return concat(self.checked(inputs), axis=self.axis)
