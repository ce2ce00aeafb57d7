"""Errors that a device reports after the call that caused them, where a program waits for it."""

from __future__ import annotations

from typing import NoReturn

from pullback import errors
from pullback.plugins.backend import Backend

#: What libraries raise where a device has failed. TypeErrors are of the call that raises them.
LATE_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError)


def raise_late(error: Exception, device: object, reader: Backend | None = None) -> NoReturn:
    """Raises an error that came while waiting for a device, with the way to the call at fault.

    Args:
        error: the error.
        device: the device.
        reader: the backend whose `to_host` or `item` raised it, if that did: without anything to
            wait for, the error is its own.

    Raises:
        PullbackError: the error itself, if its backend explains it.
        BackendError: otherwise.

    >>> raise_late(RuntimeError("launch failure"), "gpu:0")
    Traceback (most recent call last):
    ...
    pullback.errors.BackendError: gpu:0: RuntimeError: launch failure; a call before this one...
    """
    if isinstance(error, errors.PullbackError):
        raise error
    words = f"{device}: {type(error).__name__}: {error}"
    where = "" if reader is None else f" of {type(reader).__name__}.to_host or item"
    if reader is not None and type(reader).synchronize is Backend.synchronize:
        raise errors.BackendError(
            f"{words}; the error is{where}, as the backend has no `synchronize`, so that its calls "
            f"have computed when they return; if its library computes later, its base class is "
            f"`pullback.plugins.lazy.LazyBackend`, which names the call at fault"
        ) from error
    raise errors.BackendError(
        f"{words}; a call before this one may be at fault, as the device computes later than it is "
        f"called; put the program in `with pb.profile(synchronize=True):`, where each call waits, "
        f"to see which one raises" + (f"; if none does, the error is{where}" if where else "")
    ) from error
