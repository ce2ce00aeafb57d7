"""Random bits, drawn on the host: Philox 4x64-10 is NumPy's. In a compiled graph `xp` computes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pullback._numerics import ArrayNamespace
from pullback._numerics.philox import philox_words
from pullback.dtypes import DType, name_of
from pullback.plugins.records import Kernel


def kernels(xp: ArrayNamespace) -> dict[str, Kernel]:
    """Kernels over `xp`."""

    def random_bits(
        *, shape: tuple[int, ...], key: object, counter: Any, dtype: DType, device: object
    ) -> Any:
        size = math.prod(shape)
        words = size if dtype.itemsize == 8 else -(-size // 2)
        native = getattr(xp, name_of(dtype))
        if not isinstance(key, int):
            # A graph is being compiled: the words of key and counter are known when it runs.
            bits = philox_words(xp, key, counter, -(-words // 4))[:words]
            if dtype.itemsize == 4:
                low, half = (xp.asarray(n, dtype=xp.uint64) for n in (0xFFFFFFFF, 32))
                bits = xp.reshape(xp.stack([bits & low, bits >> half], axis=1), (-1,))
            return xp.astype(xp.reshape(bits[:size], shape), native)
        drawn = np.random.Philox(key=key, counter=counter).random_raw(words)
        # The low half of a word first, whatever the byte order of the machine.
        host = drawn.astype("<u8", copy=False).view("<u4" if dtype.itemsize == 4 else "<u8")
        host = host[:size].reshape(shape).astype(dtype, copy=False)
        # A library without devices need not take the keyword.
        on = {} if device is None else {"device": device}
        return xp.asarray(host, dtype=native, **on)

    return {"random_bits": random_bits}
