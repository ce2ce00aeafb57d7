"""Layers that merge several tensors into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Unpack

from pullback import errors
from pullback._masked import Masked
from pullback.layers.layer import Layer
from pullback.layers.masks import all_of
from pullback.layers.options import LayerOptions
from pullback.ops.arithmetic import add, maximum, minimum, multiply, subtract
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.tensor import Tensor

__all__ = ["Add", "Average", "Concatenate", "Maximum", "Merge", "Minimum", "Multiply", "Subtract"]


class Merge(Layer):
    """The base of the merging layers, which are called with a list of two tensors or more.

    Args:
        options: see `Layer`.

    Raises:
        LayerError: for anything else, or shapes that do not broadcast.
    """

    #: The op of two tensors.
    op: ClassVar[Callable[..., Tensor]]

    def call_masked(self, inputs: Any, *args: Any, **kwargs: Any) -> Masked:
        """Returns the same for `Masked` inputs: a step exists where it does in all of them."""
        masks = [x.mask if type(x) is Masked else None for x in inputs]
        values = [x.values if type(x) is Masked else x for x in inputs]
        return Masked(self(values, *args, **kwargs), self.merged_mask(values, masks))

    def merged_mask(self, values: Sequence[Any], masks: Sequence[Tensor | None]) -> Any:
        """The mask of the result."""
        return all_of(masks)

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the inputs merged into one tensor."""
        merged, *others = self.checked(inputs)
        for other in others:
            merged = self.op(merged, other)
        return merged

    def checked(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Returns the inputs as a list of tensors."""
        if (
            not isinstance(inputs, (list, tuple))
            or len(inputs) < 2
            or not all(isinstance(tensor, Tensor) for tensor in inputs)
        ):
            raise errors.LayerError("inputs must be a list of two tensors or more: layer([x, y])")
        return list(inputs)


class Add(Merge):
    """The sum of the inputs.

    >>> pb.layers.Add()([pb.ones(2), pb.ones(2), pb.ones(2)]).tolist()
    [3.0, 3.0]
    """

    op = staticmethod(add)


class Subtract(Merge):
    """The first input minus the others.

    >>> pb.layers.Subtract()([pb.ones(2), pb.ones(2)]).tolist()
    [0.0, 0.0]
    """

    op = staticmethod(subtract)


class Multiply(Merge):
    """The product of the inputs.

    >>> pb.layers.Multiply()([pb.full((2,), 3.0), pb.full((2,), 2.0)]).tolist()
    [6.0, 6.0]
    """

    op = staticmethod(multiply)


class Maximum(Merge):
    """The largest of the inputs, element by element.

    >>> pb.layers.Maximum()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [2.0, 4.0]
    """

    op = staticmethod(maximum)


class Minimum(Merge):
    """The smallest of the inputs, element by element.

    >>> pb.layers.Minimum()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [1.0, 3.0]
    """

    op = staticmethod(minimum)


class Average(Add):
    """The mean of the inputs, element by element.

    >>> pb.layers.Average()([pb.asarray([1.0, 4.0]), pb.asarray([2.0, 3.0])]).tolist()
    [1.5, 3.5]
    """

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the mean of the inputs."""
        return super().call(inputs) / len(inputs)


class Concatenate(Merge):
    """The inputs joined along an axis.

    Args:
        axis: the axis.
        options: see `Layer`.

    >>> pb.layers.Concatenate()([pb.zeros((2, 3)), pb.zeros((2, 4))]).shape
    (2, 7)
    """

    def __init__(self, axis: int = -1, **options: Unpack[LayerOptions]) -> None:
        super().__init__(**options)
        self.axis = axis

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the inputs joined along the axis."""
        return concat(self.checked(inputs), axis=self.axis)

    def merged_mask(self, values: Sequence[Any], masks: Sequence[Tensor | None]) -> Any:
        """The masks joined along the axis, if it is one of theirs."""
        known = next(mask for mask in masks if mask is not None)
        axis = self.axis % values[0].ndim
        if axis >= known.ndim:
            return all_of(masks)
        return concat(
            [
                full(x.shape[: known.ndim], True, dtype="bool") if mask is None else mask
                for x, mask in zip(values, masks, strict=True)
            ],
            axis=axis,
        )
