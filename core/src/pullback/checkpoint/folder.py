"""A checkpoint on disk: a folder with the arrays and a manifest, whole or not there.

    ckpt-7/
        arrays.safetensors      every array under its path
        manifest.json           the objects, and of each array its dtype, shape and SHA-256

It is written under another name, synced, and renamed, so a process that dies at any moment leaves
what was there before. Nothing in it is code, and nothing is unpickled.
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
from pullback.checkpoint import manifest, names
from pullback.checkpoint.encoding import describe, stored
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.names import ARRAYS, MANIFEST
from pullback.checkpoint.reading import read, seen

__all__ = ["read", "remove", "tidy", "write"]

#: When the checkpoints were saved that this process has looked at, and what tells them apart.
_TIMES: dict[Path, tuple[tuple[int, ...], int]] = {}
_MANY_TIMES = 4096


# ---------------------------------------------------------------------------------------------
# Writing.


def write(path: Path, contents: Contents) -> bool:
    """Writes a checkpoint to `path`, in the place of what may be there.

    Returns:
        Whether nothing else is left. It is a warning that what was there cannot be removed.

    Raises:
        CheckpointError: when the file system does not take it; what was there stays.
    """
    from safetensors.numpy import save

    arrays = {name: np.asarray(array) for name, array in contents.arrays.items()}
    said = {name: describe(array) for name, array in arrays.items()}
    temporary, aside = _temporary(path), names.aside(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        temporary.mkdir()
        _write_file(temporary / ARRAYS, save({n: stored(a) for n, a in arrays.items()}))
        saved = _next_time(path.parent)
        _write_file(temporary / MANIFEST, manifest.written(contents, said, saved))
        _sync(temporary)
        _put(temporary, path, aside)
        _sync(path.parent)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be written: {error}"
        ) from error
    finally:
        _TIMES.pop(path, None)
        with suppress(OSError, ValueError):
            _discard(temporary)
    return _without(aside, functools.partial(_discard, aside))


def _put(temporary: Path, path: Path, aside: Path) -> None:
    """Gives a checkpoint its name; what had it is aside then, or has it again."""
    if os.path.lexists(path):
        path.rename(aside)
    try:
        temporary.rename(path)
    except BaseException:
        if os.path.lexists(aside) and not os.path.lexists(path):
            with suppress(OSError):
                aside.rename(path)
        raise


def _next_time(folder: Path) -> int:
    """When a checkpoint is saved: now, but later than every one that is there.

    A clock that has been set back, or that of another machine, does not hide what is saved now.
    """
    there = (_time_of(path) for path in names.listed(folder))
    latest = max((one for one in there if one is not None), default=-1)
    return min(max(time.time_ns(), latest + 1), manifest.LAST)


def _time_of(path: Path) -> int | None:
    file = names.there(path) / MANIFEST
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return None
    state = (found.st_ino, found.st_mtime_ns, found.st_size)
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


def _write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    # So that names last as their files do; systems that cannot open a folder need no such thing.
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# ---------------------------------------------------------------------------------------------
# Removing.


def remove(path: Path) -> None:
    """Removes a checkpoint, which is gone before the first of its files is.

    Raises:
        CheckpointError: when the file system does not let it go.
    """
    hidden, aside = _temporary(path), names.aside(path)
    try:
        _discard(hidden)
        if os.path.lexists(path):
            # It would be taken for the checkpoint once that is gone.
            _discard(aside)
        else:
            path = aside
        path.rename(hidden)
        _discard(hidden)
    except OSError as error:
        if not any(map(os.path.lexists, (path, hidden))):
            # Somebody else has removed it.
            return
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be removed: {error}; remove it by hand"
        ) from error


def tidy(prefix: Path) -> bool:
    """Puts right what processes left that died while they wrote or removed checkpoints of a stem.

    For the one process that writes them: it removes what another one is writing.

    Returns:
        Whether all is right now. It is a warning that something is not: nothing is lost.
    """
    temporary = rf"\.{re.escape(prefix.name)}-[0-9]+\.[0-9]+\.tmp"

    def put_right(path: Path) -> None:
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
    # Of a folder that seems not to be there nothing is known.
    is_tidy = bool(entries)
    for entry in entries:
        is_tidy &= _without(entry, functools.partial(put_right, entry))
    return is_tidy


def _tidy(path: Path) -> None:
    """Puts right what a process left that died while it wrote or removed this checkpoint."""
    aside = names.aside(path)
    if os.path.lexists(aside):
        if os.path.lexists(path):
            _discard(aside)
        else:
            aside.rename(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        _discard(left)


def _discard(path: Path) -> None:
    """Removes a folder; of a link nothing but itself."""
    try:
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


def _without(path: Path, action: Callable[[], None]) -> bool:
    """Whether what is of no use any more could be removed; a warning if not."""
    try:
        action()
    except OSError as error:
        warnings.warn(
            f"{str(path)!r} could not be removed: {error}; the next checkpoint that is saved tries "
            f"it again",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True
