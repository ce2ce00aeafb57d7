"""The shape and dtype of an input, for kernels that are made ready for a program."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """The shape and the native dtype of an array that a kernel gets at every run of a program."""

    shape: tuple[int, ...]
    dtype: Any
