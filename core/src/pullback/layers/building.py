"""Layers that a program builds before their first call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pullback import errors
from pullback.graph.eval_shape import TensorSpec, eval_shape
from pullback.layers.calls import CALLS
from pullback.ops.creation import zeros
from pullback.tensor import Tensor

if TYPE_CHECKING:
    from pullback.layers.layer import Layer

__all__ = ["builds_whole", "call_without_data"]

#: The size that stands for None, as in symbolic tensors: halves of it are whole.
_ANY = 192


def builds_whole(build: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Returns a `build` method that makes a layer whole where a program or another layer calls it.

    `model.build((None, 4))` then builds the layers in it too, and a first call that follows builds
    none of them again. `build_for`, which a first call calls, runs `build` itself.

    Args:
        build: the method of a class.
    """

    @functools.wraps(build)
    def method(self: Layer, input_shape: Any) -> None:
        if CALLS.building and CALLS.building[-1] is self:
            build(self, input_shape)
            return
        if not self.built:
            self.build_for(input_shape)
        if any(not part.built for part in self.sublayers.values()):
            call_without_data(self, input_shape)

    return method


def call_without_data(layer: Layer, input_shape: Any) -> None:
    """Calls a layer for the shapes alone, which builds all that is in it.

    Args:
        layer: a layer, some of whose parts may be built.
        input_shape: the shape of its input, or a structure of shapes; None is any size.

    Raises:
        PullbackError: what a call with such an input raises.
    """
    most, best = -1, ""
    for dtype in ("float32", "int32"):  # numbers, or what an `Embedding` takes
        try:
            eval_shape(layer, _each(input_shape, dtype, TensorSpec, _ANY), training=False)
            return
        except errors.PullbackError:
            ran = sum(part._first_call is not None for part in layer.sublayers.values())
            if ran > most:
                most, best = ran, dtype
    # A layer that reads values, or that fits no such input and says so again.
    layer(_each(input_shape, best, _zeros, 1), training=False)


def _zeros(shape: tuple[int, ...], dtype: str) -> Tensor:
    return zeros(shape, dtype=dtype)


def _each(
    shape: Any, dtype: str, make: Callable[[tuple[int, ...], str], Any], any_size: int
) -> Any:
    """Returns a structure of shapes with what `make` makes of each."""
    if isinstance(shape, Mapping):
        return {key: _each(part, dtype, make, any_size) for key, part in shape.items()}
    if any(isinstance(size, (tuple, list, Mapping)) for size in shape):
        return [_each(part, dtype, make, any_size) for part in shape]
    return make(tuple(any_size if size is None else int(size) for size in shape), dtype)
