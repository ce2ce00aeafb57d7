"""Elementwise kernels: the namespace's own functions of the same name."""

from __future__ import annotations

from typing import Any

from pullback.backend import Kernel

_SAME_NAME = ("add", "divide", "multiply", "negative", "subtract")


def kernels(xp: Any) -> dict[str, Kernel]:
    """Elementwise kernels over `xp`."""
    return {name: getattr(xp, name) for name in _SAME_NAME if hasattr(xp, name)}
