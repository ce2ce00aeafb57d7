"""Fourier transforms in C that read real numbers as they are."""

from __future__ import annotations

from functools import partial

from pullback.plugins.records import Kernel, converts
from pullback_native import _native


def _of_real_numbers(name: str) -> Kernel:
    # A function in C has no attributes.
    kernel = partial(getattr(_native, name))
    return converts(kernel, float32="complex64", float64="complex128")


KERNELS: dict[str, Kernel] = {
    name: _of_real_numbers(name) for name in ("fft", "fftn", "ifft", "ifftn")
}
