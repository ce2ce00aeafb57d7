"""Reading of checkpoints: verified, while other processes save and remove them.

Readers change nothing, and take no locks. If a checkpoint is removed or replaced meanwhile, they
look again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pullback import errors
from pullback._array_files import LaterVersion, opened, read_arrays
from pullback._replacing import actual, as_path
from pullback.checkpoint import manifest, names
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.names import MANIFEST

#: The number of attempts to read a folder that changes.
_PATIENCE = 100


class _Fault(ValueError):
    """The reason why a path holds no complete checkpoint."""

    def __init__(self, why: str, at: Path, data: bytes | None, version: str | None = None) -> None:
        super().__init__(why)
        #: Where it was looked for.
        self.at = at
        #: The manifest that was read; None if there was none.
        self.data = data
        self.version = version

    def persists(self, path: Path) -> bool:
        """True if no process has replaced the checkpoint since."""
        return actual(path) == self.at and seen(path) == self.data


def seen(path: Path) -> bytes | None:
    """Returns the manifest of a checkpoint; None if it is missing or cannot be read."""
    try:
        with opened(actual(path) / MANIFEST) as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _whole(path: Path) -> Contents:
    """Reads a checkpoint, and verifies every part; raises `_Fault`."""
    at = actual(path)
    data = None
    try:
        with opened(at / MANIFEST) as file:
            data = file.read()
        content = manifest.parsed(data)
    except LaterVersion as error:
        raise _Fault("it is of a later version", at, data, str(error)) from None
    except (OSError, ValueError) as error:
        raise _Fault(f"{MANIFEST}: {error}", at, data) from None
    files = [at / name for name in names.files(content.get("parts", 1))]
    if len(files) > 1 and (missing := [file.name for file in files if not file.exists()]):
        why = (
            f"{missing[0]} is missing, and it needs the files of all {len(files)} ranks that have "
            f"saved it; copy those that another machine has into the folder"
        )
        raise _Fault(why, at, data)
    try:
        arrays = read_arrays(files, content["arrays"])
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise _Fault(str(error), at, data) from None
    return Contents(
        arrays,
        content["objects"],
        content["aliases"],
        content["states"],
        content["data"],
        content["step"],
        manifest.measure(content),
    )


def read(path: str | os.PathLike[str]) -> Contents:
    """Reads a checkpoint, and verifies every part.

    Raises:
        CheckpointError: if it is missing, damaged, or of a later version.
    """
    path = as_path(path, "path")
    for left in reversed(range(_PATIENCE)):
        try:
            return _whole(path)
        except _Fault as fault:
            # If a process has replaced it meanwhile, the new one is read.
            if fault.persists(path) or not left:
                raise _error(path, fault) from None
    raise AssertionError("unreachable")


def _error(path: Path, fault: _Fault) -> errors.CheckpointError:
    """Returns the error for a path without a complete checkpoint."""
    if fault.version is not None:
        return errors.CheckpointError(
            f"the checkpoint {str(path)!r} has version {fault.version}, and this pullback reads up "
            f"to {manifest.VERSION}; upgrade it: pip install --upgrade pullback"
        )
    newest = None
    if not os.path.isdir(actual(path)):
        with suppress(errors.CheckpointError):
            newest = latest_checkpoint(path.parent)
        return errors.CheckpointError(
            f"there is no checkpoint {str(path)!r}; "
            + (f"the newest there is {newest!r}" if newest else "the folder has no other either")
        )
    if fault.data is None:
        with suppress(errors.CheckpointError):
            newest = latest_checkpoint(path)
        if newest is not None:
            return errors.CheckpointError(
                f"{str(path)!r} is a folder of checkpoints; restore one: the newest is {newest!r}"
            )
    return errors.CheckpointError(
        f"the checkpoint {str(path)!r} is damaged: {fault}; restore an earlier one: "
        f"pb.latest_checkpoint({str(path.parent)!r}) finds the newest that is whole"
    )


def metric(path: Path) -> float | None:
    """Returns the metric of a checkpoint; None if it has none, or is damaged.

    Raises:
        OSError: for errors of the file system.
    """
    with opened(actual(path) / MANIFEST) as file:
        data = file.read()
    try:
        return manifest.measure(manifest.parsed(data))
    except ValueError:
        return None


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """Returns the path of the newest complete checkpoint in a folder, or None for an empty one.

    The newest is the one that was saved last, whatever its number. Damaged and partly removed
    checkpoints are skipped. Other processes may save and remove checkpoints meanwhile: the result
    is never older than the newest one at the time of the call.

    Raises:
        CheckpointError: for a folder that does not exist, or cannot be listed.

    >>> import tempfile
    >>> pb.latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    if not os.path.isdir(as_path(folder, "folder")):
        raise errors.CheckpointError(
            f"there is no folder {os.fspath(folder)!r}; check the path, or make the folder first "
            f"where a first run has none yet: os.makedirs(folder, exist_ok=True)"
        )
    return _newest(as_path(folder, "folder"), lambda path: True)


def newest(prefix: Path) -> str | None:
    """Returns the path of the newest complete checkpoint of a stem, or None."""
    return _newest(prefix.parent, lambda path: names.number(prefix.name, path) is not None)


def _newest(folder: Path, is_wanted: Callable[[Path], bool]) -> str | None:
    for _ in range(_PATIENCE):
        paths = [path for path in names.listed(folder) if is_wanted(path)]
        manifests = {path: seen(path) for path in paths}
        if any(data is None and _has_moved(path) for path, data in manifests.items()):
            continue
        times = {path: manifest.time_of(data) for path, data in manifests.items() if data}
        dated = [(when, names.rank(path), path) for path, when in times.items() if when is not None]
        for _, _, path in sorted(dated, reverse=True):
            try:
                _whole(path)
                return str(path)
            except _Fault as fault:
                # Removed or replaced meanwhile: there is a newer one now.
                if fault.data != manifests[path] or not fault.persists(path):
                    break
        else:
            return None
    raise errors.CheckpointError(
        f"the checkpoints in {str(folder)!r} are removed before they are read; keep more of them"
    )


def _has_moved(path: Path) -> bool:
    """True if a folder without a manifest was a checkpoint that has been moved or removed."""
    if names.rank(path) < 0:
        return False
    return not os.path.lexists(actual(path)) or seen(path) is not None
