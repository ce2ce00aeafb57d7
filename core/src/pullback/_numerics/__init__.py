"""Formulas of functions over any array API namespace: the bodies of ops over the ops themselves.

Kernels for a backend's own namespace are made of the same formulas (`pullback.array_api.special`).
"""

from __future__ import annotations

from typing import Any, Protocol


class ArrayNamespace(Protocol):
    """A module with the functions of the array API standard, or an object that has them."""

    def __getattr__(self, name: str) -> Any:
        """A function, a dtype or a constant of the standard."""
