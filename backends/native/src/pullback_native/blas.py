"""The matrix products of the BLAS that NumPy was linked with."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

#: How OpenBLAS's builds name their functions, and whether integers have 64 bits there.
_BUILDS = (
    ("scipy_cblas_{}64_", True),
    ("cblas_{}64_", True),
    ("scipy_cblas_{}", False),
    ("cblas_{}", False),
)


class Blas(NamedTuple):
    """Where `cblas_sgemm` and `cblas_sgemv` are; 0 where there are none."""

    product: int
    by_vector: int
    wide: bool


def find() -> Blas:
    """The functions of NumPy's BLAS."""
    try:
        # A look-up in NumPy's own module goes on in the libraries that it was linked with.
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return Blas(0, 0, False)
    for name, wide in _BUILDS:
        found = [getattr(library, name.format(one), None) for one in ("sgemm", "sgemv")]
        if all(found):
            product, by_vector = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in found)
            return Blas(product, by_vector, wide)
    return Blas(0, 0, False)


#: NumPy's BLAS: kernels that call it from C are used where it was found.
BLAS = find()
