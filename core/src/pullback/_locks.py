"""Locks of the whole process, which a forked process has anew."""

from __future__ import annotations

import os
import threading
from typing import Any

__all__ = ["process_lock"]


def process_lock(space: dict[str, Any], name: str) -> threading.RLock:
    """Returns a lock for a global; in a forked process that is another one.

    A thread of the parent may hold the old one, and never give it back here.

    Args:
        space: the globals of a module, which looks the name up whenever it takes the lock.
        name: the name.
    """

    def renew() -> None:
        space[name] = threading.RLock()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return threading.RLock()
