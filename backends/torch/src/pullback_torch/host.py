"""Conversion between torch and NumPy, and kernels that compute in NumPy."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import torch

from pullback.plugins.records import Kernel


def from_numpy(array: np.ndarray[Any, Any], device: Any, *, copy: bool) -> torch.Tensor:
    """A tensor on `device`; without `copy` it shares memory where torch can."""
    # torch supports neither negative strides nor arrays that are read-only or not aligned.
    shares = array.flags.aligned and array.flags.writeable and min(array.strides, default=0) >= 0
    if copy or not shares:
        array = np.array(array, order="C")
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def to_numpy(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """The values on the host; a view if they are there already."""
    x = x.cpu().resolve_conj().resolve_neg()
    if x.dtype == torch.bfloat16:
        halves: np.ndarray[Any, Any] = x.view(torch.int16).numpy()
        return halves.view(ml_dtypes.bfloat16)
    values: np.ndarray[Any, Any] = x.numpy()
    return values


def on_host(kernel: Kernel) -> Kernel:
    """Makes a kernel for tensors of a kernel for NumPy's arrays."""

    def there(x: Any) -> Any:
        if isinstance(x, list):
            return [there(item) for item in x]
        return to_numpy(x) if isinstance(x, torch.Tensor) else x

    def back(x: Any, device: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(back(item, device) for item in x)
        return from_numpy(np.asarray(x), device, copy=False)

    @functools.wraps(kernel)
    def computed(*arrays: Any, **attributes: Any) -> Any:
        device = (arrays[0][0] if isinstance(arrays[0], list) else arrays[0]).device
        with np.errstate(all="ignore"):
            return back(kernel(*map(there, arrays), **attributes), device)

    return computed
