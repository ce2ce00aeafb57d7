"""NumPy as libraries that have less than it, for the kernels of `pullback.array_api`.

`SingleBackend` is one without float64, as on many accelerators. `NearlyBackend` lacks the functions
that can be made of others, has others by NumPy's older names, and converts through float32. Both
compile graphs, and hold bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import numpy as np

from pullback import array_api, dtypes
from pullback.array_api.namespace import MADE, OTHER_NAMES
from pullback.dtypes import name_of
from pullback.plugins.compiling import as_function
from pullback_numpy import NumPyBackend

_NO_DOUBLE = ("float64", "complex128")
_BFLOAT16 = np.dtype(dtypes.bfloat16)


class Library:
    """NumPy's functions without some, with dtypes that are equal as keys of a table too."""

    bfloat16 = _BFLOAT16

    def __init__(self, lacking: Collection[str], fft: Collection[str] = ()) -> None:
        self._lacking = frozenset(lacking)
        names = [name for name in np.fft.__all__ if name not in fft]
        self.fft = SimpleNamespace(**{name: getattr(np.fft, name) for name in names})

    def __getattr__(self, name: str) -> Any:
        if name in self._lacking:
            raise AttributeError(name)
        value = getattr(np, name)
        is_dtype = isinstance(value, type) and issubclass(value, np.generic)
        return np.dtype(value) if is_dtype else value

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        """As NumPy's, which does not know bfloat16."""
        if dtype == _BFLOAT16:
            return "real floating" in (kind if isinstance(kind, tuple) else (kind,))
        return bool(np.isdtype(dtype, kind))


class SingleBackend(NumPyBackend):
    """All its kernels are generated, and in compiled graphs keys of random numbers are arrays."""

    name = "single"
    kernels = array_api.kernels(Library(_NO_DOUBLE), widen=True)
    dtypes = {  # noqa: RUF012
        dtype: native
        for dtype, native in NumPyBackend.dtypes.items()
        if name_of(dtype) not in _NO_DOUBLE
    }
    storage_dtypes = {}  # noqa: RUF012

    def compile(self, graph: Any) -> Callable[..., Any]:
        """The graph as a function that calls its kernels."""
        return as_function(graph)


class NearlyBackend(SingleBackend):
    """The same with float64, over a library that is nearly the standard's."""

    name = "nearly"
    kernels = array_api.kernels(Library((*MADE, *OTHER_NAMES), fft=("hfft", "ihfft")), widen=True)
    dtypes = NumPyBackend.dtypes
