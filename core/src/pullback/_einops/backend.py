"""The backend of einops for tensors and variables."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from pullback import dtypes
from pullback.ops.conversion import asarray
from pullback.ops.creation import arange
from pullback.ops.joining import concat, stack
from pullback.ops.linalg.einsum import einsum
from pullback.ops.manipulation import broadcast_to, expand_dims
from pullback.ops.repeating import tile
from pullback.tensor import Tensor
from pullback.variable import Variable


class Methods:
    """The methods of a backend that its base class in einops leaves open."""

    framework_name = "pullback"

    def is_appropriate_type(self, tensor: object) -> bool:
        return isinstance(tensor, (Tensor, Variable))

    def from_numpy(self, x: np.ndarray[Any, Any]) -> Tensor:
        return asarray(x)

    def to_numpy(self, x: Tensor) -> np.ndarray[Any, Any]:
        return np.asarray(x)

    def arange(self, start: int, stop: int) -> Tensor:
        return arange(start, stop)

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Tensor:
        return stack(tensors)

    def tile(self, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
        return tile(x, repeats)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        return concat(tensors, axis=axis)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return expand_dims(x, axis=new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        for position in pos2len:
            x = expand_dims(x, axis=position)
        # Repeats share memory, until the axes are put together.
        shape = [pos2len.get(position, size) for position, size in enumerate(x.shape)]
        return broadcast_to(x, shape)

    def is_float_type(self, x: Tensor) -> bool:
        return dtypes.is_floating(x.dtype) or dtypes.is_complex(x.dtype)

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)


def register(backends: ModuleType) -> None:
    """Makes the backend; the module of einops keeps it, which itself has weak references alone."""
    base = getattr(backends, "AbstractBackend", None)
    if base is not None:
        backends.__dict__["PullbackBackend"] = type("PullbackBackend", (Methods, base), {})
