"""Warnings of hooks that failed: once in a process for each of them."""

from __future__ import annotations

import warnings

#: The hooks that were warned of: the source, and the op where it matters.
WARNED: set[tuple[str, ...]] = set()


def warn_once(key: tuple[str, ...], message: str) -> None:
    """Warns that a hook failed, unless it was warned of before.

    Args:
        key: the name of the hook, and of the backend, pack or op that it failed for.
        message: the warning.
    """
    if key not in WARNED:
        WARNED.add(key)
        warnings.warn(message, RuntimeWarning, stacklevel=3)
