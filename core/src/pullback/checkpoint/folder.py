"""A checkpoint on disk: a folder with the arrays and a manifest, whole or not there.

    ckpt-7/
        arrays.safetensors      every array under its path
        manifest.json           the objects, and of each array its dtype, shape and SHA-256

It is written under another name, synced, and renamed, so a process that dies at any moment leaves
what was there before. Nothing in it is code, and nothing is unpickled.
"""

from __future__ import annotations

import glob
import hashlib
import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pullback import errors
from pullback.checkpoint.encoding import Array, describe, loaded, stored

FORMAT = "pullback checkpoint"
VERSION = 1

ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"


class Contents(NamedTuple):
    """What a checkpoint holds."""

    #: Variables under their paths, and the arrays of states; tensors until they are written.
    arrays: dict[str, Any]
    #: For each object its type by path; the states; plain data; other paths of shared objects.
    objects: dict[str, str]
    aliases: dict[str, str]
    states: dict[str, Any]
    data: dict[str, Any]
    step: int | None
    #: How good it is, by whatever measure its manager was given.
    metric: float | None


# ---------------------------------------------------------------------------------------------
# Names.


def place(prefix: str | os.PathLike[str], step: int | None) -> Path:
    """Where the next checkpoint goes.

    Args:
        prefix: a folder ("ckpt/", or one that exists), or a folder and a stem ("ckpt/model").
        step: the number to append; if None, one more than the highest there.
    """
    text = os.fspath(prefix)
    path = Path(text)
    if text.endswith(("/", os.sep)) or path.is_dir():
        path = path / "ckpt"
    number = step
    if number is None:
        there = [_number(path.name, entry) for entry in _entries(path.parent)]
        number = max([one for one in there if one is not None], default=0) + 1
    return path.with_name(f"{path.name}-{number}")


def _number(stem: str, path: Path) -> int | None:
    """The number of a checkpoint of a stem, in its place or aside."""
    match = re.fullmatch(rf"{re.escape(stem)}-(\d+)|\.{re.escape(stem)}-(\d+)\.old", path.name)
    return None if match is None else int(match[1] or match[2])


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def _there(path: Path) -> Path:
    """Where a checkpoint is: in its place, or aside if the process that replaced it died."""
    aside = _aside(path)
    return aside if not path.exists() and aside.is_dir() else path


def numbered(prefix: Path) -> list[Path]:
    """The checkpoints of a stem, by number."""
    found = {}
    for path in _entries(prefix.parent):
        number = _number(prefix.name, path)
        if number is not None and (path / MANIFEST).is_file():
            found[number] = prefix.with_name(f"{prefix.name}-{number}")
    return [path for _, path in sorted(found.items())]


# ---------------------------------------------------------------------------------------------
# Writing.


def write(path: Path, contents: Contents) -> None:
    """Writes a checkpoint to `path`, in the place of what may be there.

    Raises:
        CheckpointError: when the file system does not take it; what was there stays.
    """
    from safetensors.numpy import save

    arrays = {name: np.asarray(array) for name, array in contents.arrays.items()}
    content: dict[str, Any] = {
        "saved": time.time_ns(),
        "step": contents.step,
        "objects": contents.objects,
        "aliases": contents.aliases,
        "states": contents.states,
        "data": contents.data,
        "arrays": {name: describe(array) for name, array in arrays.items()},
    }
    if contents.metric is not None:
        # JSON has no form for infinity and for what is no number.
        finite = math.isfinite(contents.metric)
        content["metric"] = contents.metric if finite else repr(contents.metric)
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "sha256": _digest(content),
        "content": content,
    }
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _tidy(path)
        temporary.mkdir()
        _write_file(temporary / ARRAYS, save({n: stored(a) for n, a in arrays.items()}))
        _write_file(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
        _sync(temporary)
        aside = _aside(path)
        if path.exists():
            path.rename(aside)
        temporary.rename(path)
        _sync(path.parent)
        if aside.exists():
            shutil.rmtree(aside)
    except OSError as error:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} could not be written: {error}"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _tidy(path: Path) -> None:
    """Puts right what a process left that died while it wrote or removed this checkpoint."""
    aside = _aside(path)
    if aside.is_dir():
        if path.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(path)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        shutil.rmtree(left, ignore_errors=True)


def tidy(prefix: Path) -> None:
    """Puts right what processes left that died while they wrote or removed checkpoints of a stem.

    For the one process that writes them: it removes what another one is writing.
    """
    for path in _entries(prefix.parent):
        number = _number(prefix.name, path)
        if number is not None:
            _tidy(prefix.with_name(f"{prefix.name}-{number}"))
            if path.is_dir() and {one.name for one in path.iterdir()} <= {ARRAYS}:
                shutil.rmtree(path, ignore_errors=True)
        elif re.fullmatch(rf"\.{re.escape(prefix.name)}-\d+\.\d+\.tmp", path.name):
            shutil.rmtree(path, ignore_errors=True)


def _digest(content: dict[str, Any]) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


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


def remove(path: Path) -> None:
    """Removes a checkpoint; one that is half removed is no checkpoint any more."""
    with suppress(FileNotFoundError):
        (path / MANIFEST).unlink()
    shutil.rmtree(path, ignore_errors=True)


# ---------------------------------------------------------------------------------------------
# Reading.


def read(path: str | os.PathLike[str]) -> Contents:
    """The contents of a checkpoint, every part verified.

    Raises:
        CheckpointError: when it is missing, damaged, or of a later version.
    """
    path = Path(path)
    while True:
        there = _there(path)
        before = _identity(there)
        try:
            content = _manifest(there, path)
            arrays = _arrays(there, path, content["arrays"])
            break
        except errors.CheckpointError:
            # A process that replaced it meanwhile has put another in its place.
            if before == _identity(_there(path)):
                raise
    return Contents(
        arrays,
        content["objects"],
        content["aliases"],
        content["states"],
        content["data"],
        content["step"],
        _measure(content),
    )


def metric(path: Path) -> float | None:
    """How good a checkpoint is; None for one that does not say, or is damaged."""
    try:
        return _measure(_manifest(_there(path), path))
    except errors.CheckpointError:
        return None


def _measure(content: dict[str, Any]) -> float | None:
    return float(content["metric"]) if "metric" in content else None


def _identity(there: Path) -> tuple[Path, int] | None:
    try:
        return there, there.stat().st_ino
    except FileNotFoundError:
        return None


def _damaged(path: Path, why: str) -> errors.CheckpointError:
    return errors.CheckpointError(
        f"the checkpoint {str(path)!r} is damaged: {why}; restore an earlier one: "
        f"pb.latest_checkpoint({str(path.parent)!r}) finds the newest that is whole"
    )


def _manifest(there: Path, path: Path) -> dict[str, Any]:
    if not there.is_dir():
        newest = latest_checkpoint(path.parent)
        raise errors.CheckpointError(
            f"there is no checkpoint {str(path)!r}; "
            + (f"the newest there is {newest!r}" if newest else "and none beside it")
        )
    try:
        manifest = json.loads((there / MANIFEST).read_bytes())
        if manifest["format"] != FORMAT:
            raise ValueError(f"its format is {manifest['format']!r}")
        version = manifest["version"]
        content = manifest["content"]
        if version <= VERSION and manifest["sha256"] != _digest(content):
            raise ValueError("its checksum is not that of what was saved")
    except FileNotFoundError:
        newest = latest_checkpoint(path)
        if newest is None:
            raise _damaged(path, f"it has no {MANIFEST}") from None
        raise errors.CheckpointError(
            f"{str(path)!r} is a folder of checkpoints; restore one: the newest is {newest!r}"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, f"{MANIFEST}: {error}") from None
    if version > VERSION:
        raise errors.CheckpointError(
            f"the checkpoint {str(path)!r} has version {version}, and this pullback reads up to "
            f"{VERSION}; upgrade it: pip install --upgrade pullback"
        )
    return dict(content)


def _arrays(there: Path, path: Path, said: dict[str, Any]) -> dict[str, Array]:
    from safetensors import SafetensorError, deserialize

    try:
        data = (there / ARRAYS).read_bytes()
        on_file = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except (OSError, SafetensorError) as error:
        raise _damaged(path, f"{ARRAYS}: {error}") from None
    arrays = {}
    for name, description in said.items():
        if name not in on_file:
            raise _damaged(path, f"{ARRAYS} lacks {name!r}")
        header = on_file[name]
        try:
            arrays[name] = loaded(header["data"], header, description)
        except (ValueError, TypeError) as error:
            raise _damaged(path, f"{name!r}: {error}") from None
    return arrays


def latest_checkpoint(folder: str | os.PathLike[str]) -> str | None:
    """The path of the newest whole checkpoint in a folder; None when there is none.

    Checkpoints that are damaged or half removed are passed over.

    >>> pb.latest_checkpoint("no/such/folder") is None
    True
    """
    return _newest(_saved(Path(folder)))


def newest(prefix: Path) -> str | None:
    """The path of the newest whole checkpoint of a stem; None when there is none."""
    return _newest(
        (when, path)
        for when, path in _saved(prefix.parent)
        if _number(prefix.name, path) is not None
    )


def _newest(saved: Iterable[tuple[int, Path]]) -> str | None:
    for _, path in sorted(saved, reverse=True):
        with suppress(errors.CheckpointError):
            read(path)
            return str(path)
    return None


def _saved(folder: Path) -> Iterator[tuple[int, Path]]:
    """When each checkpoint in a folder was saved, for those that say so."""
    for entry in _entries(folder):
        path = entry
        if entry.name.startswith("."):
            path = entry.with_name(entry.name[1:].removesuffix(".old"))
            if _aside(path) != entry or path.exists():
                continue
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            yield json.loads((entry / MANIFEST).read_bytes())["content"]["saved"], path
