"""Types of the arguments and results of kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import cupy

Array: TypeAlias = "cupy.ndarray"
