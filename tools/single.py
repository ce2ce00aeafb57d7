"""NumPy as a library that has no float64, compiles graphs, and holds bfloat16.

It runs what the kernels of `pullback.array_api` have for such libraries, MLX among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import array_api, dtypes
from pullback.dtypes import name_of
from pullback.plugins.compiling import as_function
from pullback_numpy import NumPyBackend

_LACKING = ("float64", "complex128")
_BFLOAT16 = np.dtype(dtypes.bfloat16)


class Single:
    """NumPy's functions, with dtypes that are equal as keys of a table too."""

    bfloat16 = _BFLOAT16

    def __getattr__(self, name: str) -> Any:
        if name in _LACKING:
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
    kernels = array_api.kernels(Single(), widen=True)
    dtypes = {  # noqa: RUF012
        dtype: native
        for dtype, native in NumPyBackend.dtypes.items()
        if name_of(dtype) not in _LACKING
    }

    def compile(self, graph: Any) -> Callable[..., Any]:
        """The graph as a function that calls its kernels."""
        return as_function(graph)
