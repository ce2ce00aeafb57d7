"""A checkpoint on disk: a folder with the arrays and a manifest, complete or absent.

    ckpt-7/
        arrays.safetensors      every array under its path
        manifest.json           the objects, and the dtype, shape and SHA-256 of each array

It is written under a temporary name, synced, and renamed, so a process that dies at any moment
leaves the old one. Nothing in it is code, and nothing is unpickled.
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pullback import errors
from pullback._array_files import array_bytes, describe, sync, write_file
from pullback._replacing import (
    actual,
    aside,
    begin,
    discard,
    end,
    put,
    remains,
    settle,
    temporary,
    tidy,
)
from pullback.checkpoint import manifest, names
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.names import ARRAYS, MANIFEST
from pullback.checkpoint.reading import read, seen

__all__ = ["read", "remove", "tidy_all", "write"]

#: The times of checkpoints that this process has read, with the state of their manifests.
_TIMES: dict[Path, tuple[tuple[int, ...], int]] = {}
_MANY_TIMES = 4096


# ---------------------------------------------------------------------------------------------
# Writing.


def write(path: Path, contents: Contents) -> bool:
    """Writes a checkpoint to `path`, and replaces an old one.

    Returns:
        True if the old one is gone. If it cannot be removed, that is a warning.

    Raises:
        CheckpointError: for errors of the file system; the old one stays.
    """
    arrays = {name: np.asarray(array) for name, array in contents.arrays.items()}
    descriptions = {name: describe(array) for name, array in arrays.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path)
        with temporary(path) as new:
            new.mkdir()
            write_file(new / ARRAYS, array_bytes(arrays))
            saved = _next_time(path.parent)
            write_file(new / MANIFEST, manifest.written(contents, descriptions, saved))
            sync(new)
            put(new, path)
        sync(path.parent)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be written: {error}"
        ) from error
    finally:
        _TIMES.pop(path, None)
    return _without(aside(path), functools.partial(settle, path))


def _next_time(folder: Path) -> int:
    """Returns the time of a new checkpoint: now, but later than every other in the folder.

    A clock that was set back, or that of another machine, does not hide the new one.
    """
    times = (_time_of(path) for path in names.listed(folder))
    latest = max((when for when in times if when is not None), default=-1)
    return min(max(time.time_ns(), latest + 1), manifest.LAST)


def _time_of(path: Path) -> int | None:
    file = actual(path) / MANIFEST
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return None
    state = (status.st_ino, status.st_mtime_ns, status.st_size)
    known = _TIMES.get(path)
    if known is not None and known[0] == state:
        return known[1]
    data = seen(path)
    when = None if data is None else manifest.time_of(data)
    if when is not None:
        if len(_TIMES) >= _MANY_TIMES:
            _TIMES.clear()
        _TIMES[path] = state, when
    return when


# ---------------------------------------------------------------------------------------------
# Removing.


def remove(path: Path) -> None:
    """Removes a checkpoint; its name disappears before its files do.

    Raises:
        CheckpointError: for errors of the file system.
    """
    hidden = begin(path)
    try:
        if os.path.lexists(path):
            # Otherwise it would be read in place of the removed checkpoint.
            settle(path)
        else:
            path = aside(path)
        path.rename(hidden)
        end(hidden)
    except OSError as error:
        if not any(map(os.path.lexists, (path, hidden))):
            # Another process has removed it.
            return
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be removed: {error}; remove it manually"
        ) from error


def tidy_all(prefix: Path) -> bool:
    """Cleans up after processes that died while they wrote or removed checkpoints of a stem.

    Only for the process that writes them: it removes unfinished checkpoints of other machines.

    Returns:
        True if everything was cleaned up. If not, that is a warning: nothing is lost.
    """

    def clean_up(path: Path) -> None:
        number = names.number(prefix.name, path)
        if number is not None:
            tidy(prefix.with_name(f"{prefix.name}-{number}"))
            if path.is_dir() and set(os.listdir(path)) <= {ARRAYS}:
                discard(path)
        elif names.number(prefix.name, Path(remains(path, others_after=0) or ".")) is not None:
            discard(path)

    try:
        entries = names.entries(prefix.parent)
    except errors.CheckpointError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        return False
    # A folder that seems to be missing may still need cleaning up.
    is_tidy = bool(entries)
    for entry in entries:
        is_tidy &= _without(entry, functools.partial(clean_up, entry))
    return is_tidy


def _without(path: Path, action: Callable[[], None]) -> bool:
    """Runs a removal; returns False, with a warning, if the file system rejects it."""
    try:
        action()
    except OSError as error:
        warnings.warn(
            f"{str(path)!r} could not be removed: {error}; the next checkpoint that is saved tries "
            f"again",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
