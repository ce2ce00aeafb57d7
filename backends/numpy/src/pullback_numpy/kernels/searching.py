"""Finding things in NumPy."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel


def _argmax(x: Any, *, axis: int | None, keepdims: bool) -> Any:
    return x.argmax(axis, keepdims=keepdims)


def _argmin(x: Any, *, axis: int | None, keepdims: bool) -> Any:
    return x.argmin(axis, keepdims=keepdims)


KERNELS: dict[str, Kernel] = {"argmax": _argmax, "argmin": _argmin}
