"""einops on tensors and variables: `einops.rearrange(x, "n h w c -> n c h w")` and its kin.

einops looks for a backend among the subclasses of its own `AbstractBackend`, and has no other way
for a library to make itself known. So the subclass is made when both are imported: at once, or by
`Watch` when einops is.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from importlib.abc import Loader

MODULE = "einops._backends"


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


class Watch:
    """Finds nothing of its own: it registers the backend once einops has been imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Registering(spec.loader)  # type: ignore[assignment]
        return spec


class Registering:
    """A loader that hands the module over to `register`, and leaves no trace in it."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        register(module)


if MODULE in sys.modules:
    register(sys.modules[MODULE])
else:
    sys.meta_path.insert(0, Watch())
