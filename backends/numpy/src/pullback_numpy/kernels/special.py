"""Special functions in NumPy: those of `pullback.array_api`, in blocks that stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.array_api import special
from pullback.casting import widened
from pullback.plugins.records import Kernel
from pullback_numpy import threads
from pullback_numpy.kernels import incomplete_gamma
from pullback_numpy.kernels.elementwise import where
from pullback_numpy.typing import Array

_BLOCK = 16384
#: Up to so many elements all powers at once take less time than each in turn.
_SHORT = 64
_WEIGHTS: dict[tuple[Sequence[float], ...], Array] = {}


class _Namespace:
    """NumPy, with a faster `where`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def where(condition: Array, x1: Array, x2: Array) -> Array:
        if isinstance(x1, np.ndarray) and isinstance(x2, np.ndarray):
            return where(condition, x1, x2)
        return np.where(condition, x1, x2)

    @staticmethod
    def weighted_powers(x: Array, *polynomials: Sequence[float]) -> Array | None:
        """The values of one or two polynomials, in four calls where Horner's rule takes many."""
        # Those that are made at each call are lists, and have no hash.
        if x.size > _SHORT or x.dtype != np.float64 or type(polynomials[0]) is not tuple:
            return None
        weights = _WEIGHTS.get(polynomials)
        if weights is None:
            size = max(map(len, polynomials))
            rows = [[*one[::-1], *[0.0] * (size - len(one))] for one in polynomials]
            weights = _WEIGHTS[polynomials] = np.array(rows if len(rows) > 1 else rows[0])
        powers = np.empty((weights.shape[-1], x.size))
        powers[...] = x.reshape(-1)
        powers[0] = 1
        np.multiply.accumulate(powers, 0, out=powers)
        found: Array = weights.dot(powers).reshape(weights.shape[:-1] + x.shape)
        return found


def _blocked(kernel: Kernel) -> Kernel:
    def run(*arrays: Array, **attributes: Any) -> Any:
        shape = np.broadcast_shapes(*[x.shape for x in arrays])
        if math.prod(shape) <= _BLOCK:
            return kernel(*arrays, **attributes)
        y = np.empty(shape, arrays[0].dtype)
        sources, target = [np.broadcast_to(x, shape).reshape(-1) for x in arrays], y.reshape(-1)

        def work(piece: slice) -> None:
            # In helpers, the caller's state of errors does not hold.
            with np.errstate(all="ignore"):
                for start in range(piece.start, piece.stop, _BLOCK):
                    stop = min(start + _BLOCK, piece.stop)
                    pieces = [source[start:stop] for source in sources]
                    target[start:stop] = kernel(*pieces, **attributes)

        threads.over(work, y.size)
        return y

    return run


#: Elements up to which a call of C's function for each takes less time than 30 calls of NumPy.
_FEW = 256
#: The functions that C has; the logarithm of the gamma function is good to 32 bits near its zeros.
_OF_C: dict[str, tuple[Callable[[float], float], int]] = {
    "erf": (math.erf, 8),
    "erfc": (math.erfc, 8),
    "lgamma": (math.lgamma, 4),
}


def _one_by_one(name: str, kernel: Kernel) -> Kernel:
    """A kernel that has C compute few elements."""
    if name not in _OF_C:
        return kernel
    function, most = _OF_C[name]

    def run(x: Array) -> Any:
        if x.size <= _FEW and x.itemsize <= most:
            try:
                values = [*map(function, widened(x).ravel().tolist())]
            except (ValueError, OverflowError):  # a pole, or beyond the largest float
                return kernel(x)
            return np.array(values, x.dtype).reshape(x.shape)
        return kernel(x)

    return run


def _xlogy(x: Array, y: Array) -> Any:
    dtype, x, y = x.dtype, widened(x), widened(y)
    absent = (x == 0) & (y == y)
    product = np.log(np.where(absent, y.dtype.type(1), y)) * x
    return np.where(absent, y.dtype.type(0), product).astype(dtype, copy=False)


KERNELS: dict[str, Kernel] = {
    **{
        name: _one_by_one(name, _blocked(kernel))
        for name, kernel in special.kernels(_Namespace()).items()
    },
    "regularized_gamma": _blocked(incomplete_gamma.regularized),
    "xlogy": _xlogy,
}
