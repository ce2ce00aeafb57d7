"""Layers that merge several tensors into one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Unpack

from pullback import errors
from pullback._dispatch.arguments import as_bool
from pullback._masked import Masked
from pullback.layers.layer import Layer
from pullback.layers.masks import all_of
from pullback.layers.normalization import unit
from pullback.layers.options import LayerOptions
from pullback.ops.arithmetic import add, maximum, minimum, multiply, subtract
from pullback.ops.creation import full
from pullback.ops.joining import concat
from pullback.ops.linalg.einsum import einsum
from pullback.ops.manipulation import expand_dims
from pullback.shapes import as_ints, canonical_axis
from pullback.tensor import Tensor

__all__ = [
    "Add",
    "Average",
    "Concatenate",
    "Dot",
    "Maximum",
    "Merge",
    "Minimum",
    "Multiply",
    "Subtract",
]


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


class Dot(Merge):
    """The products of two inputs along one axis of each, item by item.

    Args:
        axes: the axis of both that is summed over, or one of each; not that of the batch.
        normalize: whether both are divided by their lengths along it first: cosines.
        options: see `Layer`.

    >>> x, y = pb.ones((2, 5, 3)), pb.ones((2, 4, 3))
    >>> pb.layers.Dot(2)([x, y]).shape, pb.layers.Dot((1, 1))([x[:, 0], y[:, 0]]).tolist()
    ((2, 5, 4), [[3.0], [3.0]])

    Raises:
        InputValueError: for another number of axes.
        LayerError: for other than two inputs, for the axis of the batch, or sizes that differ.
    """

    call_masked = Layer.call_masked

    def __init__(
        self,
        axes: int | Sequence[int],
        *,
        normalize: bool = False,
        **options: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**options)
        self.axes = as_ints(axes if isinstance(axes, Sequence) else (axes, axes), "axes")
        if len(self.axes) != 2:
            raise errors.InputValueError(f"axes must be one axis or two, got {axes!r}")
        self.normalize = as_bool(normalize, "normalize")

    def call(self, inputs: Sequence[Tensor]) -> Tensor:
        """Returns the products (batch, *axes of the first, *axes of the second)."""
        parts = self.checked(inputs)
        if len(parts) != 2:
            raise errors.LayerError(f"inputs must be two tensors, got {len(parts)}")
        terms, letters = [], iter("cdefghijklmnopqrstuvwxyz")
        for x, axis in zip(parts, self.axes, strict=True):
            place = canonical_axis(axis, x.ndim)
            if not place:
                raise errors.LayerError(f"axis {axis} of shape {x.shape} is that of the batch")
            terms.append(["a" if not i else "b" if i == place else next(letters)
                          for i in range(x.ndim)])  # fmt: skip
        if self.normalize:
            parts = [unit(x, axis) for x, axis in zip(parts, self.axes, strict=True)]
        first, second = map("".join, terms)
        left = (first + second).replace("a", "").replace("b", "")
        y = einsum(f"{first},{second}->a{left}", *parts)
        return y if left else expand_dims(y, axis=1)


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
