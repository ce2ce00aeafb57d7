"""Zeros and infinities where torch does not follow the array API standard."""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat.torch as xp
import torch

from pullback import array_api
from pullback.plugins.backend import Kernel

_GENERIC = array_api.kernels(xp)


def _remainder(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _GENERIC["remainder"](x1, x2)
    if not found.dtype.is_floating_point:
        return found
    # A remainder of zero has the sign of the divisor.
    return torch.where(found == 0, torch.copysign(found, x2), found)


def _log1p(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _GENERIC["log1p"](x)
    if not x.is_complex():
        return found
    # An infinite part makes an infinite size, beside NaN too; torch.hypot gives NaN.
    infinite = torch.isinf(x.real) | torch.isinf(x.imag)
    return torch.complex(torch.where(infinite, torch.inf, found.real), found.imag)


def _acos(x: torch.Tensor) -> torch.Tensor:
    found = torch.acos(x)
    # acos(conj(x)) is conj(acos(x)), of zeros too.
    return (
        torch.complex(found.real, torch.copysign(found.imag, -x.imag)) if x.is_complex() else found
    )


def _tangent(function: Callable[[torch.Tensor], torch.Tensor], infinite: str, other: str) -> Kernel:
    """tan or tanh, given which part of a complex number makes it 1 or i where that is infinite."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        found = function(x)
        if not x.is_complex():
            return found
        part = getattr(x, other)
        far = torch.isinf(getattr(x, infinite)) & torch.isfinite(part)
        # The zero has the sign of the other part y; in C, and so in torch, that of sin(2 y).
        zero = torch.where(far, torch.copysign(torch.zeros_like(part), part), getattr(found, other))
        parts = (zero, found.imag) if other == "real" else (found.real, zero)
        return torch.complex(*parts)

    return kernel


KERNELS: dict[str, Kernel] = {
    "acos": _acos,
    "log1p": _log1p,
    "remainder": _remainder,
    "tan": _tangent(torch.tan, "imag", "real"),
    "tanh": _tangent(torch.tanh, "real", "imag"),
}
