"""Errors that a device reports after the call that caused them, where a program waits for it."""

from __future__ import annotations

from typing import NoReturn

from pullback import errors

#: What libraries raise where a device has failed. TypeErrors are of the call that raises them.
LATE_ERRORS = (RuntimeError, ValueError, ArithmeticError, LookupError)


def raise_late(error: Exception, device: object) -> NoReturn:
    """Raises an error that came while waiting for a device, with the way to the call at fault.

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
    raise errors.BackendError(
        f"{device}: {type(error).__name__}: {error}; a call before this one may be at fault, as "
        f"the device computes later than it is called; put the program in `with "
        f"pb.profile(synchronize=True):`, where each call waits, to see which one raises"
    ) from error
