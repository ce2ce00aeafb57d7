"""The keyword arguments that layers share, as types for `**options`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from pullback.layers.policy import PolicyLike
from pullback.ops.nn.windows import DataFormat

__all__ = ["UNBUILT", "ImageOptions", "LayerOptions"]

#: The value of an attribute for a variable until `build` has made the variable.
UNBUILT: Any = None


class LayerOptions(TypedDict, total=False):
    """The keyword arguments of every layer; `Layer` describes them.

    A layer of your own takes and hands them on with their types:

    >>> from typing import Unpack
    >>> class Halve(pb.layers.Layer):
    ...     def __init__(self, **options: Unpack[pb.layers.LayerOptions]) -> None:
    ...         super().__init__(**options)
    ...     def call(self, x):
    ...         return x / 2
    >>> Halve(name="half").name
    'half'
    """

    name: str | None
    trainable: bool
    dtype: PolicyLike | None
    input_shape: Sequence[int] | None


class ImageOptions(LayerOptions, total=False):
    """The keyword arguments of layers for images."""

    data_format: DataFormat
