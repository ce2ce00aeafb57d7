"""The matrix product of the BLAS that NumPy was linked with."""

from __future__ import annotations

import ctypes

import numpy as np

#: The names of OpenBLAS's product in its builds, and whether its integers have 64 bits.
_NAMES = (
    ("scipy_cblas_sgemm64_", True),
    ("cblas_sgemm64_", True),
    ("scipy_cblas_sgemm", False),
    ("cblas_sgemm", False),
)


def address_of_gemm() -> tuple[int, bool]:
    """Where `cblas_sgemm` is (0 where there is none), and whether its integers have 64 bits."""
    try:
        # A look-up in NumPy's own module goes on in the libraries that it was linked with.
        library = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    except (AttributeError, OSError):
        return 0, False
    for name, wide in _NAMES:
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0, wide
    return 0, False
