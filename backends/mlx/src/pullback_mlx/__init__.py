"""The MLX backend of pullback: `mlx:gpu` on Apple silicon, `mlx:cpu` there and on Linux."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType, as_dtype
from pullback.plugins.compiling import as_function
from pullback.plugins.hookspecs import RegisterBackend, hookimpl
from pullback.plugins.lazy import LazyBackend
from pullback.plugins.memory import Memory
from pullback.plugins.records import Kernel
from pullback.spec import Tier
from pullback_mlx.deviations import DEVIATIONS
from pullback_mlx.kernels import KERNELS
from pullback_mlx.namespace import host, native

__all__ = ["MLXBackend", "pullback_register_backend"]

#: MLX has float64 on CPUs alone, and computes its functions in float32.
_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32"),
)
_KIND = "gpu" if mx.is_available(mx.gpu) else "cpu"


class MLXBackend(LazyBackend):
    """Native arrays are `mx.array`, on one stream for each device; MLX's gradients are not used."""

    name = "mlx"
    version = version("mlx")
    kinds = ("gpu", "cpu") if _KIND == "gpu" else ("cpu",)
    #: Each step that Python waits for costs more than it saves: on a CPU an eager step took a tenth
    #: less than with 32.
    every = 128
    tiers = frozenset({Tier.CORE})
    dtypes: Mapping[DType, Any] = {
        dtypes.bool_: mx.bool_,
        **{as_dtype(name): getattr(mx, name) for name in _NAMES},
    }
    deviations = DEVIATIONS
    kernels: Mapping[str, Kernel] = KERNELS

    def __init__(self) -> None:
        self._streams: dict[Any, Any] = {}
        super().__init__()

    def native_device(self, kind: str, index: int) -> Any:
        """None for the default device; beside a GPU, MLX's CPU, which shares its memory."""
        return None if kind == _KIND else mx.cpu

    def within(self, device: Any) -> Any:
        """The stream of a device."""
        if device not in self._streams:
            # Every thread may use it, in its turn: MLX's own streams are each of one thread.
            self._streams[device] = mx.new_thread_unsafe_stream(device or mx.default_device())
        return mx.stream(self._streams[device])

    def copy_to_device(self, array: Any, device: Any) -> Any:
        """Another array of the same memory, for the ops of the device."""
        return self.placed(self.turn(lambda: array[...]), device)

    def evaluate(self, arrays: Sequence[Any]) -> None:
        """Computes arrays, and waits for them."""
        mx.eval(*arrays)

    def begin(self, arrays: Sequence[Any]) -> None:
        """Begins to compute arrays; on a CPU at once, where an error is known to be theirs."""
        (mx.async_eval if _KIND == "gpu" else mx.eval)(*arrays)

    def device_count(self, kind: str) -> int:
        """One of each kind."""
        return int(kind in self.kinds)

    def from_host(self, array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> Any:
        """An array of MLX, which copies."""
        if self.is_tracing():
            return native(array)
        return self.placed(self.turn(lambda: native(array)), device)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """The values, computed now; a read-only view."""
        self.computed(array)
        found = self.turn(lambda: host(array))
        if found.flags.writeable:
            found.flags.writeable = False
        return found

    def native(self, value: Any) -> Any:
        """An array of what a kernel returned in NumPy."""
        return native(value)

    def synchronize(self, device: Any) -> None:
        """Computes all that has been called, and waits for it."""
        super().synchronize(device)
        self.turn(mx.synchronize, device)

    def memory(self, device: Any) -> Memory:
        """Bytes of MLX's allocator, which keeps what is freed."""
        used = mx.get_active_memory()
        total = mx.device_info().get("memory_size", 0) if _KIND == "gpu" else 0
        held = used + mx.get_cache_memory()
        return Memory(used, held, max(total, held), mx.get_peak_memory())

    def reset_peak(self, device: Any) -> None:
        """Begins to measure the peak anew."""
        mx.reset_peak_memory()

    def clear_caches(self) -> None:
        """Gives memory back that MLX keeps for arrays to come."""
        mx.clear_cache()

    def compile(self, graph: Any) -> Callable[..., Sequence[Any]] | None:
        """The graph compiled by `mx.compile` when it first runs."""
        run = as_function(graph)

        def traced(*inputs: Any) -> Any:
            with self.tracing():
                return [_array(x) for x in run(*inputs)]

        compiled = mx.compile(traced)

        def called(*inputs: Any) -> Any:
            results = compiled(*[_array(x) for x in inputs])
            mx.eval(results)
            return tuple(self.placed(x, device) for x in results)

        device = graph.device.native
        return lambda *inputs: self.turn(lambda: called(*inputs), device)


def _array(value: Any) -> Any:
    return value if isinstance(value, mx.array) else native(value)


@hookimpl
def pullback_register_backend(register: RegisterBackend) -> None:
    """Registers the backend with pullback."""
    register(MLXBackend())
