"""Special functions in NumPy: those for any namespace, in blocks that stay in the cache."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.array_api import special
from pullback.backend import Kernel

_BLOCK = 8192


def _blocked(kernel: Kernel) -> Kernel:
    def run(x: Any, **attributes: Any) -> Any:
        if x.size <= _BLOCK:
            return kernel(x, **attributes)
        found = np.empty(x.shape, x.dtype)
        source, target = x.reshape(-1), found.reshape(-1)
        for start in range(0, x.size, _BLOCK):
            stop = start + _BLOCK
            target[start:stop] = kernel(source[start:stop], **attributes)
        return found

    return run


KERNELS: dict[str, Kernel] = {
    name: _blocked(kernel) for name, kernel in special.kernels(np).items()
}
