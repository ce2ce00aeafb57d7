"""Programs as graphs."""

from __future__ import annotations

__all__ = ["executing_eagerly"]


def executing_eagerly() -> bool:
    """Whether ops run when they are called: from the first line, with nothing to enable.

    >>> pb.executing_eagerly()
    True
    """
    return True
