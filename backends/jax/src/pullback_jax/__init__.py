"""The JAX backend of pullback: `jax:cpu` and `jax:gpu`, and captured functions compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from pullback import dtypes
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.plugins.compiling import as_function
from pullback.plugins.hookspecs import RegisterBackend, hookimpl
from pullback.plugins.memory import Memory
from pullback_jax.control import CONTROL
from pullback_jax.deviations import DEVIATIONS
from pullback_jax.kernels import KERNELS
from pullback_jax.settings import settings, with_settings

__all__ = ["JaxBackend", "pullback_register_backend"]


class JaxBackend(Backend):
    """Native arrays are `jax.Array`; JAX's own gradients are not used."""

    name = "jax"
    version = jax.__version__
    kinds = ("cpu", "gpu")
    dtypes: Mapping[DType, np.dtype[Any]] = {d: np.dtype(d) for d in dtypes.ALL}
    kernels = KERNELS
    deviations = DEVIATIONS
    control_flow = (*CONTROL, "stop_gradient")

    def _devices(self, kind: str) -> list[jax.Device]:
        """JAX's devices of this process: "gpu" means all accelerators, a TPU among them."""
        try:
            if kind == "cpu":
                return list(jax.local_devices(backend="cpu"))
            return [device for device in jax.local_devices() if device.platform != "cpu"]
        except RuntimeError:  # no such platform in this process
            return []

    def device_count(self, kind: str) -> int:
        """The number of devices that JAX finds."""
        return len(self._devices(kind))

    def native_device(self, kind: str, index: int) -> jax.Device:
        """The device of JAX."""
        return self._devices(kind)[index]

    @with_settings
    def from_host(
        self, array: np.ndarray[Any, Any], device: jax.Device, *, copy: bool
    ) -> jax.Array:
        """An array on `device`; JAX may share the memory of `array`."""
        return jax.device_put(np.array(array, order="C") if copy else array, device)

    def to_host(self, array: jax.Array) -> np.ndarray[Any, Any]:
        """The values on the host; a read-only view if they are there already."""
        host = np.asarray(array)
        if host.flags.writeable:
            host = host.view()
            host.flags.writeable = False
        return host

    @with_settings
    def copy_to_device(self, array: jax.Array, device: jax.Device) -> jax.Array:
        """Copies from device to device; on the same one too the copy has memory of its own."""
        return jax.device_put(array, device, may_alias=False)

    def synchronize(self, device: jax.Device) -> None:
        """Waits for the arrays that there are on the device."""
        jax.block_until_ready([array for array in jax.live_arrays() if device in array.devices()])

    def clear_caches(self) -> None:
        """Frees compiled functions; JAX keeps one for each shape."""
        jax.clear_caches()

    def memory(self, device: jax.Device) -> Memory | None:
        """The memory of JAX's allocator; None for the CPU."""
        stats = device.memory_stats()
        if not stats:
            return None
        used = stats["bytes_in_use"]
        return Memory(used, stats.get("pool_bytes", used), stats.get("bytes_limit", 0))

    def compile(self, graph: Any) -> Callable[..., Sequence[jax.Array]]:
        """The graph compiled by XLA when it first runs."""
        # Of 16-bit floats every result is rounded, as without compilation.
        options = {"xla_allow_excess_precision": False}
        run = jax.jit(as_function(graph, CONTROL), compiler_options=options)
        # On a CPU too JAX computes later than it is called. An error must come before the results
        # are written to variables.
        waits = bool(graph.writes) and graph.device.kind == "cpu"

        def compiled(*inputs: Any) -> Sequence[jax.Array]:
            results: tuple[jax.Array, ...]
            with settings():
                if any(isinstance(array, jax.Array) for array in inputs):
                    results = run(*inputs)
                else:
                    # No array says on which device it runs.
                    with jax.default_device(graph.device.native):
                        results = run(*inputs)
                if waits:  # all results are there, or fail, at once
                    results[0].block_until_ready()
            return results

        return compiled

    def to_dlpack(self, array: jax.Array, **kwargs: Any) -> Any:
        """A read-only capsule on the array: NumPy's, since JAX has none."""
        on_host = array.device.platform == "cpu" and array.dtype != dtypes.bfloat16
        if on_host and tuple(kwargs.get("max_version") or ()) >= (1, 0):
            return self.to_host(array).__dlpack__(**kwargs)
        # Else a copy, or with copy=False the array itself, which must not be written to.
        shared = kwargs.pop("copy", None) is False
        arguments = {name: value for name, value in kwargs.items() if value is not None}
        return (array if shared else jax.numpy.array(array)).__dlpack__(**arguments)

    @with_settings
    def from_dlpack(self, value: Any, device: jax.Device, *, copy: bool | None) -> jax.Array:
        """Shares memory unless told to copy."""
        return jax.numpy.from_dlpack(value, device=device, copy=copy)


@hookimpl
def pullback_register_backend(register: RegisterBackend) -> None:
    """Registers the backend with pullback."""
    register(JaxBackend())
