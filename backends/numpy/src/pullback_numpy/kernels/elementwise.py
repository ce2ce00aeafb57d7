"""Elementwise ops in NumPy, where a ufunc of the same name is not the whole answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from pullback.array_api.elementwise import negative_power
from pullback.backend import Kernel


def _floor_divide(x1: Any, x2: Any) -> Any:
    whole = np.floor_divide(x1, x2)
    if whole.dtype.kind in "iu":
        return whole
    # NumPy pairs // with % where an operand is infinite; the standard says floor(x1 / x2).
    infinite = np.isinf(x1) | np.isinf(x2)
    if infinite.any():
        return np.where(infinite, np.divide(x1, x2), whole)
    return whole


def _expm1(x: Any) -> Any:
    found = np.expm1(x)
    if x.dtype.kind == "c":
        # NumPy multiplies infinities by zeros; exp follows the standard.
        finite = np.isfinite(x)
        if not finite.all():
            return np.where(finite, found, np.exp(x) - 1)
    return found


def _pow(x1: Any, x2: Any) -> Any:
    try:
        return np.power(x1, x2)
    except ValueError:
        if x2.dtype.kind == "i" and (x2 < 0).any():
            raise negative_power(x2.dtype) from None
        raise


def _real(x: Any) -> Any:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Any) -> Any:
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def _complex(real: Any, imag: Any) -> Any:
    whole = np.empty(
        np.broadcast_shapes(real.shape, imag.shape),
        np.complex64 if real.dtype == np.float32 else np.complex128,
    )
    whole.real = real
    whole.imag = imag
    return whole


def _round(x: Any) -> Any:
    return x if x.dtype.kind in "iu" else np.rint(x)


def _sign(x: Any) -> Any:
    found = np.sign(x)
    # ml_dtypes gives -0 for -0, the standard and NumPy's own dtypes 0.
    return found + found.dtype.type(0) if x.dtype.kind == "V" else found


KERNELS: dict[str, Kernel] = {
    "complex": _complex,
    "conj": np.conjugate,
    "expm1": _expm1,
    "floor_divide": _floor_divide,
    "imag": _imag,
    "pow": _pow,
    "real": _real,
    "round": _round,
    "sign": _sign,
}
