"""The memory of old results for new ones, as donation gives it, where nothing can be lost by that.

A compiled step may not work in the arrays of its variables: a call that fails would lose them, and
other threads read them meanwhile. It may work in what it returned itself some calls ago, if nobody
refers to that any more. Such an array is donated to the call in place of a variable's.
"""

from __future__ import annotations

import math
import sys
import sysconfig
from collections import deque
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

#: Smaller arrays cost more as an argument than they save.
_SMALLEST = 1 << 14
#: Beyond the size of a processor's caches nothing is gained, and the memory is better left free.
_LARGEST_SUM = 1 << 23


def _next(old: deque[Any]) -> tuple[Any, int]:
    """The oldest array, taken out, and how many references there are to it."""
    # Taken out first: nobody can find it any more between the count and the call that gets it.
    array = old.popleft()
    count = sys.getrefcount(array)
    return array, count


def _count_of_one() -> int:
    """The count of an object that only `_next` refers to; 0 where counts are not exact."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return 0
    # From 3.14 on, an argument that is a local variable is not counted again.
    expected = 1 if sys.version_info >= (3, 14) else 2
    return expected if _next(deque([object()]))[1] == expected else 0


_ALONE = _count_of_one()


class Spares:
    """The last results of a compiled function that are written to variables, and their memory.

    Args:
        graph: what is compiled; there are spares for large results among its `writes`.
    """

    def __init__(self, graph: Any) -> None:
        written = {value for _, value in graph.writes}
        found = [
            (i, value)
            for i, value in enumerate(graph.outputs)
            if value in written and _bytes(value) >= _SMALLEST
        ]
        gains = graph.device.kind == "cpu" and sum(_bytes(v) for _, v in found) <= _LARGEST_SUM
        self._device = graph.device.native
        #: For each such result its position among all, and the arrays of the last two runs. The
        #: last one is a variable's, the one before is no longer.
        self._slots: list[tuple[int, Any, deque[jax.Array]]] = [
            (i, value, deque(maxlen=2)) for i, value in found if gains and _ALONE > 0
        ]

    def take(self) -> list[jax.Array]:
        """Arrays to donate to a run: an old result for each new one, or else a new array."""
        return [self._spare(value, old) for _, value, old in self._slots]

    def _spare(self, value: Any, old: deque[jax.Array]) -> jax.Array:
        for _ in range(len(old)):
            try:
                array, count = _next(old)
            except IndexError:  # other threads have taken them
                break
            # Exports by DLPack and the buffer protocol hold the array, or else its memory: of that
            # JAX knows, and leaves it alone.
            if count == _ALONE:
                return array
            old.append(array)
        return jax.device_put(np.empty(value.shape, value.dtype), self._device)

    def keep(self, results: Sequence[jax.Array]) -> None:
        """Keeps the results of a run that has ended."""
        for i, _, old in self._slots:
            old.append(results[i])


def _bytes(value: Any) -> int:
    size: int = math.prod(value.shape) * value.dtype.itemsize
    return size
