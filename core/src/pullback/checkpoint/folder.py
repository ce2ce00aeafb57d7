"""A checkpoint on disk: a folder with the arrays and a manifest, complete or absent.

    ckpt-7/
        arrays.safetensors      every array under its path
        manifest.json           the objects, and the dtype, shape and SHA-256 of each array

It is written under a temporary name, synced, and renamed, so a process that dies at any moment
leaves the old one. Nothing in it is code, and nothing is unpickled.

Several ranks that save one write a file of arrays each into one folder. The first of them makes it
and, when all files are there, writes the manifest and renames it:

    ckpt-7/
        arrays-00001-of-00002.safetensors
        arrays-00002-of-00002.safetensors
        arrays.safetensors.index.json       the file of each array, for other programs
        manifest.json
"""

from __future__ import annotations

import functools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from pullback.checkpoint.names import INDEX, MANIFEST
from pullback.checkpoint.reading import read, seen
from pullback.checkpoint.together import divided, kinds, number_of, together

if TYPE_CHECKING:
    from pullback.distributed.world import World

__all__ = ["read", "remove", "tidy_all", "write"]

#: The times of checkpoints that this process has read, with the state of their manifests.
_TIMES: dict[Path, tuple[tuple[int, ...], int]] = {}
_MANY_TIMES = 4096


# ---------------------------------------------------------------------------------------------
# Writing.


def write(path: Path, contents: Contents, ranks: World | None = None) -> bool:
    """Writes a checkpoint to `path`, and replaces an old one.

    Args:
        path: where it will be.
        contents: what it holds; of several ranks the arrays that each has, and all else that the
            first one has.
        ranks: the ranks that call this together, each to write a part; None for this one alone.

    Returns:
        True if the old one is gone. If it cannot be removed, that is a warning.

    Raises:
        CheckpointError: for errors of the file system, on all ranks; the old one stays.
    """
    rank = number_of(ranks)

    def prepare() -> tuple[str, dict[str, Any]]:
        path.parent.mkdir(parents=True, exist_ok=True)
        if rank:
            return "", kinds(contents, is_first=False)
        tidy(path)
        made = stack.enter_context(temporary(path))
        made.mkdir()
        return made.name, kinds(contents, is_first=True)

    def publish() -> None:
        if rank == 0:
            _publish(new, path, contents, written)

    try:
        with ExitStack() as stack:
            begun = together(ranks, f"begins to save {path.name}", prepare)
            new = path.with_name(begun[0][0])
            mine = divided([listed for _, listed in begun])[rank]
            own = [name for name in contents.arrays if name in mine]
            file = new / names.files(len(begun))[rank]
            written = together(ranks, "writes its part", lambda: _write_part(file, contents, own))
            together(ranks, "has saved", publish)
    except (OSError, ValueError) as error:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be written: {error}"
        ) from error
    finally:
        _TIMES.pop(path, None)
    return rank > 0 or _without(aside(path), functools.partial(settle, path))


def _write_part(file: Path, contents: Contents, own: Iterable[str]) -> tuple[int, dict[str, Any]]:
    """Writes a file of arrays; returns its size, and the description of each array."""
    arrays = {name: np.asarray(contents.arrays[name]) for name in own}
    data = array_bytes(arrays)
    if not file.parent.is_dir():
        raise OSError(
            f"there is no folder {str(file.parent)!r} here, which rank 0 has made; save into a "
            f"folder that all ranks see, on a file system that their machines share, or with "
            f"sharded=False"
        )
    write_file(file, data)
    sync(file.parent)
    return len(data), {name: describe(array) for name, array in arrays.items()}


def _publish(
    new: Path, path: Path, contents: Contents, written: list[tuple[int, dict[str, Any]]]
) -> None:
    """Writes the manifest of a checkpoint whose arrays are there, and gives it its name."""
    files = names.files(len(written))
    found: dict[str, Any] = {}
    for file, (size, described) in zip(files, written, strict=True):
        if len(files) > 1 and os.stat(new / file).st_size != size:
            raise OSError(
                f"{file} has {os.stat(new / file).st_size} bytes for rank 0, and {size} for the "
                f"rank that wrote it; save on a file system that shows files once they are synced"
            )
        found.update(described)
    if len(files) > 1:
        places = {name: file for file, (_, own) in zip(files, written, strict=True) for name in own}
        write_file(new / INDEX, json.dumps({"metadata": {}, "weight_map": places}).encode())
    descriptions = {name: found[name] for name in (*contents.arrays, *found) if name in found}
    saved = _next_time(path.parent)
    write_file(new / MANIFEST, manifest.written(contents, descriptions, saved, len(files)))
    sync(new)
    put(new, path)
    sync(path.parent)


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
