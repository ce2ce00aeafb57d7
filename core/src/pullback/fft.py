"""Fourier transforms: the array API standard's extension of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pullback import _hints
from pullback.ops.fourier.fft import fft, hfft, ifft, ihfft, irfft, rfft
from pullback.ops.fourier.fft_multidimensional import (
    fftfreq,
    fftn,
    fftshift,
    ifftn,
    ifftshift,
    irfftn,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


if not TYPE_CHECKING:
    __getattr__ = _hints.answer_module("pullback.fft")
