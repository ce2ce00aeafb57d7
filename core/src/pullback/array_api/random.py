"""Random bits, drawn on the host: Philox 4x64-10 is NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback.dtypes import DType, name_of
from pullback.plugins.backend import Kernel


def kernels(xp: Any) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def random_bits(
        *, shape: tuple[int, ...], key: int, counter: int, dtype: DType, device: Any
    ) -> Any:
        size = math.prod(shape)
        words = size if dtype.itemsize == 8 else -(-size // 2)
        drawn = np.random.Philox(key=key, counter=counter).random_raw(words)
        # The low half of a word first, whatever the byte order of the machine.
        host = drawn.astype("<u8", copy=False).view("<u4" if dtype.itemsize == 4 else "<u8")
        host = host[:size].reshape(shape).astype(dtype, copy=False)
        # A library without devices need not take the keyword.
        on = {} if device is None else {"device": device}
        return xp.asarray(host, dtype=getattr(xp, name_of(dtype)), **on)

    return {"random_bits": random_bits}
