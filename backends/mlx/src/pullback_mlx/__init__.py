"""The MLX backend of pullback: `mlx:gpu` on Apple silicon, `mlx:cpu` there and on Linux."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import mlx.core as mx
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType, as_dtype
from pullback.plugins.backend import Backend
from pullback.plugins.compiling import as_function
from pullback.plugins.hookspecs import RegisterBackend, hookimpl
from pullback.plugins.memory import Memory
from pullback.plugins.records import Kernel
from pullback.spec import Tier
from pullback_mlx.deviations import DEVIATIONS
from pullback_mlx.kernels import KERNELS
from pullback_mlx.namespace import host, native
from pullback_mlx.stream import alone, in_turn, is_tracing, tracing

__all__ = ["MLXBackend", "pullback_register_backend"]

#: MLX has float64 on CPUs alone, and computes its functions in float32.
_NAMES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32"),
)
_KIND = "gpu" if mx.is_available(mx.gpu) else "cpu"


class MLXBackend(Backend):
    """Native arrays are `mx.array`, on one stream; MLX's own gradients are not used."""

    name = "mlx"
    version = version("mlx")
    kinds = (_KIND,)
    tiers = frozenset({Tier.CORE})
    dtypes: Mapping[DType, Any] = {
        dtypes.bool_: mx.bool_,
        **{as_dtype(name): getattr(mx, name) for name in _NAMES},
    }
    deviations = DEVIATIONS
    kernels: Mapping[str, Kernel] = {
        name: in_turn(kernel, _KIND) for name, kernel in KERNELS.items()
    }

    def device_count(self, kind: str) -> int:
        """One: MLX's GPU shares the memory of its CPU."""
        return int(kind == _KIND)

    def from_host(self, array: np.ndarray[Any, Any], device: None, *, copy: bool) -> Any:
        """An array of MLX, which copies."""
        if is_tracing():
            return native(array)
        with alone(_KIND):
            return native(array)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        """The values, computed now; a read-only view."""
        with alone(_KIND):
            mx.eval(array)
            found = host(array)
        if found.flags.writeable:
            found.flags.writeable = False
        return found

    def native(self, value: Any) -> Any:
        """An array of what a kernel returned in NumPy."""
        return native(value)

    def synchronize(self, device: None) -> None:
        """Waits for all that was begun; what nobody has read yet begins when it is read."""
        with alone(_KIND):
            mx.synchronize()

    def memory(self, device: None) -> Memory:
        """Bytes of MLX's allocator, which keeps what is freed."""
        used = mx.get_active_memory()
        total = mx.device_info().get("memory_size", 0) if _KIND == "gpu" else 0
        held = used + mx.get_cache_memory()
        return Memory(used, held, max(total, held), mx.get_peak_memory())

    def reset_peak(self, device: None) -> None:
        """Begins to measure the peak anew."""
        mx.reset_peak_memory()

    def clear_caches(self) -> None:
        """Gives memory back that MLX keeps for arrays to come."""
        mx.clear_cache()

    def compile(self, graph: Any) -> Callable[..., Sequence[Any]] | None:
        """The graph compiled by `mx.compile` when it first runs."""
        run = as_function(graph)

        def traced(*inputs: Any) -> Any:
            with tracing():
                return [_array(x) for x in run(*inputs)]

        compiled = mx.compile(traced)

        def called(*inputs: Any) -> Sequence[Any]:
            with alone(_KIND):
                results = compiled(*[_array(x) for x in inputs])
                mx.eval(results)
            return tuple(results)

        return called


def _array(value: Any) -> Any:
    return value if isinstance(value, mx.array) else native(value)


@hookimpl
def pullback_register_backend(register: RegisterBackend) -> None:
    """Registers the backend with pullback."""
    register(MLXBackend())
