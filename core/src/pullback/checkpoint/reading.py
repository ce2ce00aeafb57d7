"""Checkpoints as they are read: verified, while other processes save and remove them.

Readers change nothing, and wait for nobody. What they were about to read may be gone or replaced;
then they look again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pullback import errors
from pullback.checkpoint import manifest, names
from pullback.checkpoint.encoding import Array, loaded
from pullback.checkpoint.manifest import Contents
from pullback.checkpoint.names import ARRAYS, MANIFEST

#: How often a folder that changes is looked at before that is an error.
_PATIENCE = 100


class _Fault(ValueError):
    """Why what is at a path is no whole checkpoint."""

    def __init__(self, why: str, data: bytes | None, version: str | None = None) -> None:
        super().__init__(why)
        #: The manifest that was read; None when there was none.
        self.data = data
        self.version = version

    def holds(self, path: Path) -> bool:
        """Whether what was found is there still, and no process has replaced it since."""
        return seen(path) == self.data


def seen(path: Path) -> bytes | None:
    """The manifest of a checkpoint; None for what has none, or none that can be read."""
    try:
        with names.opened(names.there(path) / MANIFEST) as file:
            return file.read()
    except (OSError, ValueError):
        return None


def _whole(path: Path) -> Contents:
    """The contents of a checkpoint, every part verified; raises `_Fault`."""
    at = names.there(path)
    data = None
    try:
        with names.opened(at / MANIFEST) as file:
            data = file.read()
        content = manifest.parsed(data)
    except manifest.LaterVersion as error:
        raise _Fault("it is of a later version", data, str(error)) from None
    except (OSError, ValueError) as error:
        raise _Fault(f"{MANIFEST}: {error}", data) from None
    try:
        arrays = _arrays(at, content["arrays"])
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise _Fault(str(error), data) from None
    return Contents(
        arrays,
        content["objects"],
        content["aliases"],
        content["states"],
        content["data"],
        content["step"],
        manifest.measure(content),
    )


def _arrays(at: Path, said: dict[str, Any]) -> dict[str, Array]:
    from safetensors import SafetensorError, deserialize

    try:
        with names.opened(at / ARRAYS) as file:
            data = file.read()
        on_file = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{ARRAYS}: {error}") from None
    arrays = {}
    for name, description in said.items():
        if name not in on_file:
            raise ValueError(f"{ARRAYS} lacks {name!r}")
        header = on_file[name]
        try:
            arrays[name] = loaded(header["data"], header, description)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name!r}: {error}") from None
    return arrays


def read(path: str | os.PathLike[str]) -> Contents:
    """The contents of a checkpoint, every part verified.

    Raises:
        CheckpointError: when it is missing, damaged, or of a later version.
    """
    path = Path(path)
    for left in reversed(range(_PATIENCE)):
        try:
            return _whole(path)
        except _Fault as fault:
            # A process that replaced it meanwhile has put another in its place.
            if fault.holds(path) or not left:
                raise _refusal(path, fault) from None
    raise AssertionError("unreachable")


def _refusal(path: Path, fault: _Fault) -> errors.CheckpointError:
    """What is said of a path where no whole checkpoint is."""
    if fault.version is not None:
        return errors.CheckpointError(
            f"the checkpoint {str(path)!r} has version {fault.version}, and this pullback reads up "
            f"to {manifest.VERSION}; upgrade it: pip install --upgrade pullback"
        )
    newest = None
    if not os.path.isdir(names.there(path)):
        with suppress(errors.CheckpointError):
            newest = latest_checkpoint(path.parent)
        return errors.CheckpointError(
            f"there is no checkpoint {str(path)!r}; "
            + (f"the newest there is {newest!r}" if newest else "and none beside it")
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
    """How good a checkpoint is; None for one that does not say, or is damaged.

    Raises:
        OSError: when the file system does not say.
    """
    with names.opened(names.there(path) / MANIFEST) as file:
        data = file.read()
    try:
        return manifest.measure(manifest.parsed(data))
    except ValueError:
        return None


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The path of the newest whole checkpoint in a folder; None when there is none.

    The newest is the one that was saved last, whatever its number. Those that are damaged or half
    removed are passed over. Other processes may save and remove checkpoints meanwhile: what is
    given is never older than what was there when it was called.

    Raises:
        CheckpointError: for a folder that cannot be listed.

    >>> pb.latest_checkpoint("no/such/folder") is None
    True
    """
    return _newest(Path(folder), lambda path: True)


def newest(prefix: Path) -> str | None:
    """The path of the newest whole checkpoint of a stem; None when there is none."""
    return _newest(prefix.parent, lambda path: names.number(prefix.name, path) is not None)


def _newest(folder: Path, is_wanted: Callable[[Path], bool]) -> str | None:
    for _ in range(_PATIENCE):
        paths = [path for path in names.listed(folder) if is_wanted(path)]
        manifests = {path: seen(path) for path in paths}
        if any(data is None and _has_moved(path) for path, data in manifests.items()):
            continue
        times = {path: manifest.time_of(data) for path, data in manifests.items() if data}
        found = [(when, names.rank(path), path) for path, when in times.items() if when is not None]
        for _, _, path in sorted(found, reverse=True):
            try:
                _whole(path)
                return str(path)
            except _Fault as fault:
                # Removed or replaced meanwhile: there is a newer one by now.
                if fault.data != manifests[path] or not fault.holds(path):
                    break
        else:
            return None
    raise errors.CheckpointError(
        f"the checkpoints in {str(folder)!r} are removed before they are read; keep more of them"
    )


def _has_moved(path: Path) -> bool:
    """Whether a folder without a manifest was a checkpoint a moment ago, and is elsewhere now."""
    if names.rank(path) < 0:
        return False
    return not os.path.lexists(names.there(path)) or seen(path) is not None
