"""A checkpoint on disk: a folder with the arrays and a manifest, complete or absent.

    ckpt-7/
        arrays.safetensors      every array under its path
        manifest.json           the objects, and the dtype, shape and SHA-256 of each array

It is written under a temporary name, synced, and renamed, so a process that dies at any moment
leaves the old one. Nothing in it is code, and nothing is unpickled.
"""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from pullback import errors
from pullback._array_files import array_bytes, describe, put, sync, write_file
from pullback.checkpoint import manifest, names
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.names import ARRAYS, MANIFEST
from pullback.checkpoint.reading import read, seen

__all__ = ["read", "remove", "tidy", "write"]

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
    temporary, aside = _temporary(path), names.aside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        temporary.mkdir()
        write_file(temporary / ARRAYS, array_bytes(arrays))
        saved = _next_time(path.parent)
        write_file(temporary / MANIFEST, manifest.written(contents, descriptions, saved))
        sync(temporary)
        put(temporary, path, aside)
        sync(path.parent)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be written: {error}"
        ) from error
    finally:
        _TIMES.pop(path, None)
        with suppress(OSError, ValueError):
            _discard(temporary)
    return _without(aside, functools.partial(_discard, aside))


def _next_time(folder: Path) -> int:
    """Returns the time of a new checkpoint: now, but later than every other in the folder.

    A clock that was set back, or that of another machine, does not hide the new one.
    """
    times = (_time_of(path) for path in names.listed(folder))
    latest = max((when for when in times if when is not None), default=-1)
    return min(max(time.time_ns(), latest + 1), manifest.LAST)


def _time_of(path: Path) -> int | None:
    file = names.actual(path) / MANIFEST
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


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


# ---------------------------------------------------------------------------------------------
# Removing.


def remove(path: Path) -> None:
    """Removes a checkpoint; its name disappears before its files do.

    Raises:
        CheckpointError: for errors of the file system.
    """
    hidden, aside = _temporary(path), names.aside(path)
    try:
        _discard(hidden)
        if os.path.lexists(path):
            # Otherwise it would be read in place of the removed checkpoint.
            _discard(aside)
        else:
            path = aside
        path.rename(hidden)
        _discard(hidden)
    except OSError as error:
        if not any(map(os.path.lexists, (path, hidden))):
            # Another process has removed it.
            return
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be removed: {error}; remove it manually"
        ) from error


def tidy(prefix: Path) -> bool:
    """Cleans up after processes that died while they wrote or removed checkpoints of a stem.

    Only for the process that writes them: it removes unfinished checkpoints of others.

    Returns:
        True if everything was cleaned up. If not, that is a warning: nothing is lost.
    """
    temporary = rf"\.{re.escape(prefix.name)}-[0-9]+\.[0-9]+\.tmp"

    def clean_up(path: Path) -> None:
        number = names.number(prefix.name, path)
        if number is not None:
            _tidy(prefix.with_name(f"{prefix.name}-{number}"))
            if path.is_dir() and set(os.listdir(path)) <= {ARRAYS}:
                _discard(path)
        elif re.fullmatch(temporary, path.name):
            _discard(path)

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


def _tidy(path: Path) -> None:
    """Cleans up after a process that died while it wrote or removed this checkpoint."""
    aside = names.aside(path)
    if os.path.lexists(aside):
        if os.path.lexists(path):
            _discard(aside)
        else:
            aside.rename(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        _discard(left)


def _discard(path: Path) -> None:
    """Removes a folder, or a link without its target."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


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
