"""The PyTorch backend of pullback: `torch:cpu` and `torch:gpu`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from pullback import dtypes
from pullback.dtypes import DType
from pullback.plugins.backend import Backend
from pullback.plugins.hookspecs import RegisterBackend, hookimpl
from pullback.plugins.memory import Memory
from pullback_torch.host import from_numpy, to_numpy
from pullback_torch.kernels import HOST, KERNELS, UNSIGNED

__all__ = ["TorchBackend", "pullback_register_backend"]


class TorchBackend(Backend):
    """Native arrays are `torch.Tensor`; torch's own autograd is not used."""

    name = "torch"
    version = torch.__version__
    kinds = ("cpu", "gpu")
    dtypes: Mapping[DType, torch.dtype] = {d: getattr(torch, d.name) for d in dtypes.ALL}
    kernels = KERNELS

    def __init__(self) -> None:
        super().__init__()
        for op_name in HOST.keys() - {"astype"}:
            self.register_kernel(
                op_name, HOST[op_name], source=self.name, priority=1, dtypes=UNSIGNED
            )

    def device_count(self, kind: str) -> int:
        """The number of GPUs that CUDA sees; 1 for the CPU."""
        if kind == "cpu":
            return 1
        return torch.cuda.device_count() if torch.cuda.is_available() else 0

    def native_device(self, kind: str, index: int) -> torch.device:
        """The device of torch."""
        return torch.device("cpu") if kind == "cpu" else torch.device("cuda", index)

    def from_host(
        self, array: np.ndarray[Any, Any], device: torch.device, *, copy: bool
    ) -> torch.Tensor:
        """A tensor on `device`."""
        return from_numpy(array, device, copy=copy)

    def to_host(self, array: torch.Tensor) -> np.ndarray[Any, Any]:
        """The values on the host; a read-only view if they are there already."""
        host: np.ndarray[Any, Any] = to_numpy(array)
        host.flags.writeable = False
        return host

    def copy_to_device(self, array: torch.Tensor, device: torch.device) -> torch.Tensor:
        """Copies from device to device without the host."""
        return array.to(device)

    def synchronize(self, device: torch.device) -> None:
        """Waits for the streams of a GPU."""
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def memory(self, device: torch.device) -> Memory | None:
        """The memory of torch's allocator; None for the CPU."""
        if device.type != "cuda":
            return None
        _free, total = torch.cuda.mem_get_info(device)
        used, held = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        peak = torch.cuda.max_memory_allocated(device)
        return Memory(used, held, total, peak)

    def reset_peak(self, device: torch.device) -> None:
        """Begins to measure the peak anew."""
        if device.type != "cuda":
            super().reset_peak(device)
        torch.cuda.reset_peak_memory_stats(device)

    def to_dlpack(self, array: torch.Tensor, **kwargs: Any) -> Any:
        """A read-only capsule on the array: NumPy's, since torch has none."""
        on_host = array.device.type == "cpu" and array.dtype != torch.bfloat16
        if on_host and tuple(kwargs.get("max_version") or ()) >= (1, 0):
            return self.to_host(array).__dlpack__(**kwargs)
        # Else a copy, or with copy=False the array itself, which must not be written to.
        shared = kwargs.pop("copy", None) is False
        arguments = {name: value for name, value in kwargs.items() if value is not None}
        return (array if shared else array.clone()).__dlpack__(**arguments)

    def from_dlpack(self, value: Any, device: torch.device, *, copy: bool | None) -> torch.Tensor:
        """Shares memory unless told to copy."""
        taken = torch.from_dlpack(value)
        return taken.clone() if copy else taken


@hookimpl
def pullback_register_backend(register: RegisterBackend) -> None:
    """Registers the backend with pullback."""
    register(TorchBackend())
