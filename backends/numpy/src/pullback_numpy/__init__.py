"""The NumPy backend of pullback: plain `cpu`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import pullback.dtypes
from pullback.dtypes import DType, as_dtype
from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import RegisterBackend, hookimpl
from pullback.plugins.records import Native
from pullback_numpy import memory
from pullback_numpy.dlpack import capsule, from_dlpack
from pullback_numpy.kernels import KERNELS, KERNELS_BY_DTYPE
from pullback_numpy.typing import Array

# 1/0 and log(-1) give inf and nan on every backend, and no warning from ours. NumPy's other callers
# keep theirs: a filter by module, where np.errstate would cost each op a microsecond. It names
# NumPy's messages, so that warnings of `pullback` itself (a pack that was left out) are shown.
warnings.filterwarnings(
    "ignore",
    message="(divide by zero|overflow|underflow|invalid value) encountered",
    category=RuntimeWarning,
    module=r"pullback(_numpy)?(\.|$)",
)

#: The types of NumPy's scalars.
_SCALARS = frozenset(dtype.type for dtype in pullback.dtypes.ALL)
_asarray = np.asarray

__all__ = ["NumPyBackend", "pullback_register_backend"]


class NumPyBackend(Backend):
    """Native arrays are `np.ndarray`; native and public dtypes are the same."""

    name = "numpy"
    version = np.__version__
    kinds = ("cpu",)
    dtypes: Mapping[DType, DType] = {dtype: dtype for dtype in pullback.dtypes.ALL}
    storage_dtypes: Mapping[DType, DType] = {dtype: dtype for dtype in pullback.dtypes.STORAGE}
    kernels = KERNELS

    def __init__(self) -> None:
        super().__init__()
        for (name, dtypes), kernel in KERNELS_BY_DTYPE.items():
            if self.kernels.get(name) is KERNELS[name]:  # and not that of a subclass
                self.register_kernel(name, kernel, source=self.name, priority=1, dtypes=dtypes)

    def from_host(self, array: Array, device: None, *, copy: bool) -> Array:
        """The array itself, or a copy in C order."""
        # Dispatch knows dtypes by identity, and an array that was unpickled has one of its own.
        dtype = as_dtype(array.dtype)
        native = np.array(array, order="C") if copy else array
        return native if native.dtype is dtype else native.view(dtype)

    def to_host(self, array: Array) -> Array:
        """A read-only view."""
        view = array.view()
        view.setflags(write=False)
        return view

    def item(self, array: Array) -> Any:
        """The only element, without a view of it."""
        return array.item()

    def native(self, value: Any) -> Native:
        """An array from a NumPy scalar."""
        # Ufuncs and reductions give NumPy scalars where the result is 0-d.
        if type(value) in _SCALARS:
            return _asarray(value)
        array = _asarray(value)
        return array if array.dtype in self.dtypes else super().native(value)

    def to_dlpack(self, array: Array, **kwargs: Any) -> Any:
        """A capsule on the array that cannot be written through."""
        if min(array.strides, default=0) < 0:
            # Some libraries end the process when they meet a negative stride.
            if kwargs.get("copy") is False:
                raise BufferError("an array with negative strides needs a copy; drop copy=False")
            array = array.copy()
        version = kwargs.get("max_version")
        if version is not None and tuple(version) >= (1, 0):
            view = array.view()
            view.flags.writeable = False
            return capsule(view, **kwargs)
        # Before version 1.0 the protocol cannot say read-only: the consumer gets a copy, or with
        # copy=False the tensor's own memory, which it must not write to.
        shared = kwargs.get("copy") is False
        return capsule(array if shared else array.copy(), **kwargs)

    def from_dlpack(self, value: Any, device: None, *, copy: bool | None) -> Array:
        """An array that shares memory with `value` where `copy` allows."""
        return from_dlpack(value, copy)


@hookimpl
def pullback_register_backend(register: RegisterBackend) -> None:
    """Registers the backend with pullback."""
    memory.keep_freed()
    register(NumPyBackend())
