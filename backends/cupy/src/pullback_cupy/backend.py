"""The backend: CuPy's arrays on every GPU of the machine."""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np

import pullback.dtypes
from pullback.dtypes import as_dtype
from pullback.plugins.backend import Backend
from pullback.plugins.memory import Memory
from pullback.plugins.records import Kernel
from pullback_cupy import cuda_graphs, faults
from pullback_cupy.fused_ops import FUSIBLE
from pullback_cupy.fusion import fuse
from pullback_cupy.kernels import KERNELS
from pullback_cupy.typing import Array

__all__ = ["CuPyBackend"]


class CuPyBackend(Backend):
    """Native arrays are `cupy.ndarray`, with NumPy's dtypes; work goes to CuPy's current stream.

    Only calls that need values on the host wait for the device: `to_host`, `synchronize`, ops whose
    result's shape depends on values, and decompositions of matrices.
    """

    name = "cupy"
    version = cupy.__version__
    kinds = ("gpu",)

    def __init__(self) -> None:
        self._count = int(cupy.cuda.runtime.getDeviceCount())
        self.dtypes = {dtype: dtype for dtype in pullback.dtypes.ALL}
        self.kernels = KERNELS
        if self._count > 1:
            self.kernels = {name: on_its_device(kernel) for name, kernel in KERNELS.items()}
        super().__init__()

    def device_count(self, kind: str) -> int:
        """The number of GPUs that CUDA sees."""
        return self._count if kind == "gpu" else 0

    def native_device(self, kind: str, index: int) -> Any:
        """The device of CuPy."""
        return cupy.cuda.Device(index)

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Array:
        """A copy on the device; when it returns, `array` may change."""
        # Dispatch knows dtypes by identity, and an array that was unpickled has one of its own.
        dtype = as_dtype(array.dtype)
        with device:
            return cupy.asarray(array if array.dtype is dtype else array.view(dtype), order="C")

    def to_host(self, array: Array) -> np.ndarray[Any, Any]:
        """Waits for the values and copies them to the host.

        Raises:
            IndexingError: when an index was outside its axis in work that the device has done.
        """
        with array.device:
            host: np.ndarray[Any, Any] = array.get(order="C")
        faults.check()
        host.flags.writeable = False
        return host

    def copy_to_device(self, array: Array, device: Any) -> Array:
        """Copies from GPU to GPU, after the work that computes the array."""
        if array.device == device:
            return array
        with array.device:
            array = cupy.ascontiguousarray(array).reshape(array.shape)
            ready = cupy.cuda.Event(block=False, disable_timing=True)
            ready.record()
        with device:
            cupy.cuda.get_current_stream().wait_event(ready)
            return array.copy()

    def synchronize(self, device: Any) -> None:
        """Waits for all streams of the device.

        Raises:
            IndexingError: when an index was outside its axis in work that the device has done.
        """
        device.synchronize()
        faults.check()

    def event(self, device: Any) -> Any:
        """An event in the current stream of the device."""
        with device:
            event = cupy.cuda.Event()
            event.record()
            return event

    def elapsed(self, start: Any, end: Any) -> float:
        """The seconds of the device between two events."""
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) / 1e3

    def memory(self, device: Any) -> Memory:
        """The device's memory: used by arrays, held by CuPy's pool, and in all."""
        with device:
            pool = cupy.get_default_memory_pool()
            _free, total = cupy.cuda.runtime.memGetInfo()
            return Memory(pool.used_bytes(), pool.total_bytes(), total)

    def compiles_kernels(self) -> bool:
        """True while programs become CUDA graphs: of fused kernels, as they run otherwise."""
        return cuda_graphs.enabled()

    def compile(self, graph: Any) -> cuda_graphs.Recorded | None:
        """The graph as a CUDA graph, where `use_cuda_graphs` allows it and all of its ops do."""
        return cuda_graphs.recorded(graph)

    def fusible(self) -> frozenset[str]:
        """The ops that fused kernels are made of."""
        return FUSIBLE

    def fuse(self, region: Any) -> Kernel | None:
        """A CUDA kernel of all calls of a region."""
        kernel = fuse(region)
        return on_its_device(kernel) if kernel is not None and self._count > 1 else kernel

    def to_dlpack(self, array: Array, **kwargs: Any) -> Any:
        """A capsule of a copy, as CuPy cannot say read-only; with copy=False of the array."""
        shared = kwargs.pop("copy", None) is False
        with array.device:
            return (array if shared else array.copy()).__dlpack__(**kwargs)

    def from_dlpack(self, value: Array, device: Any, *, copy: bool | None) -> Array:
        """Shares memory on the device; copies from other devices unless `copy` is False."""
        with device:
            if value.__dlpack_device__()[0] in _ON_HOST:
                if copy is False:
                    raise BufferError("an array on the host cannot be shared with a GPU")
                return cupy.asarray(np.from_dlpack(value))
            taken = cupy.from_dlpack(value)
            if taken.device != device:
                if copy is False:
                    raise BufferError(f"an array on {taken.device} cannot be shared with {device}")
                return self.copy_to_device(taken, device)
            return taken.copy() if copy else taken


_ON_HOST = (1,)  # kDLCPU


def on_its_device(kernel: Kernel) -> Kernel:
    """Wraps a kernel to run on the device of its arrays, on machines with several devices."""

    @functools.wraps(kernel, updated=())
    def run(*arrays: Any, **attributes: Any) -> Any:
        first = next((x for x in arrays if x is not None), None)
        if first is None:
            return kernel(*arrays, **attributes)
        device = (first[0] if isinstance(first, list) else first).device
        if device.id == cupy.cuda.get_device_id():
            return kernel(*arrays, **attributes)
        with device:
            return kernel(*arrays, **attributes)

    return run
