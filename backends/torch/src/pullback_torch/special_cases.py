"""Zeros and infinities where torch does not follow the array API standard."""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat.torch as xp
import numpy as np
import torch

from pullback import array_api
from pullback.plugins.records import Kernel
from pullback_torch.host import on_host

_GENERIC = array_api.kernels(xp)
_ON_HOST = on_host(array_api.kernels(np)["remainder"])


def _quotient(name: str) -> Kernel:
    """floor_divide, of integers by 0 too, which is 0; torch raises there."""

    def kernel(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        if x1.dtype.is_floating_point:
            found: torch.Tensor = _GENERIC[name](x1, x2)
            return found
        zero = x2 == 0
        quotient = torch.floor_divide(x1, torch.where(zero, torch.ones_like(x2), x2))
        return torch.where(zero, torch.zeros_like(quotient), quotient)

    return kernel


def _remainder(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    if not x1.dtype.is_floating_point:
        zero = x2 == 0
        found = torch.remainder(x1, torch.where(zero, torch.ones_like(x2), x2))
        return torch.where(zero, torch.zeros_like(found), found)
    if x1.device.type == "cpu":
        # torch's vectors give NaN for a subnormal divisor.
        exact: torch.Tensor = _ON_HOST(x1, x2)
        return exact
    # fmod is exact; torch.remainder subtracts a product, which may be infinite.
    found = torch.fmod(x1, x2)
    found = torch.where((found != 0) & ((found < 0) != (x2 < 0)), found + x2, found)
    # A remainder of zero has the sign of the divisor.
    return torch.where(found == 0, torch.copysign(found, x2), found)


def _negative(x: torch.Tensor) -> torch.Tensor:
    """-x; torch's vectors lose the sign of a zero in a complex number."""
    if x.is_complex():
        return torch.view_as_complex(-torch.view_as_real(x.resolve_conj()))
    found: torch.Tensor = _GENERIC["negative"](x)
    return found


def _round(x: torch.Tensor) -> torch.Tensor:
    if x.is_complex():
        return torch.complex(torch.round(x.real), torch.round(x.imag))
    found: torch.Tensor = _GENERIC["round"](x)
    return found


def _hyperbolic(function: Callable[[torch.Tensor], torch.Tensor], odd: bool) -> Kernel:
    """cosh or sinh, also where exp(x) is infinite and half of it is not."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        found = function(x)
        if x.is_complex():
            return found
        root = torch.exp(torch.abs(x) / 2)
        large = root * (root / 2)
        return torch.where(torch.isinf(found), torch.copysign(large, x) if odd else large, found)

    return kernel


def _log1p(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _GENERIC["log1p"](x)
    if not x.is_complex():
        return found
    # An infinite part makes an infinite size, beside NaN too; torch.hypot gives NaN.
    infinite = torch.isinf(x.real) | torch.isinf(x.imag)
    # log1p(conj(x)) is conj(log1p(x)), of zeros too.
    imag = torch.copysign(found.imag, x.imag)
    return torch.complex(torch.where(infinite, torch.inf, found.real), imag)


def _expm1(x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = _GENERIC["expm1"](x)
    if not x.is_complex():
        return found
    # A zero keeps its sign, which torch loses where it adds a number to a complex tensor.
    imag = torch.where(torch.isfinite(x), torch.expm1(x).imag, torch.exp(x).imag)
    return torch.complex(found.real, imag)


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
    "cosh": _hyperbolic(torch.cosh, odd=False),
    "expm1": _expm1,
    "floor_divide": _quotient("floor_divide"),
    "integer_floor_divide": _quotient("integer_floor_divide"),
    "log1p": _log1p,
    "negative": _negative,
    "remainder": _remainder,
    "round": _round,
    "sinh": _hyperbolic(torch.sinh, odd=True),
    "tan": _tangent(torch.tan, "imag", "real"),
    "tanh": _tangent(torch.tanh, "real", "imag"),
}
