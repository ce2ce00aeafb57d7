"""The names of checkpoints in a folder, and how they are found.

A checkpoint is a folder "<stem>-<number>". While it is replaced it is set aside as
".<stem>-<number>.old"; while it is written or removed it has a temporary name of its writer's.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from pullback import errors
from pullback._replacing import as_path, aside

ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"

#: Where a checkpoint has several files of arrays, other programs look for one in here.
INDEX = f"{ARRAYS}.index.json"

#: Without leading zeros: "ckpt-07" must not be read as "ckpt-7".
_NUMBER = "(0|[1-9][0-9]*)"


def checked(stem: str) -> str:
    """Returns a stem, if checkpoints can be found by it.

    Raises:
        InputTypeError: for a stem that is not a str.
        InputValueError: for a stem that no file can have, or that is hidden.
    """
    if not isinstance(stem, str):
        raise errors.InputTypeError(f"name must be a str, got {type(stem).__name__}")
    apart = {"/", "\0", os.sep, os.altsep} & set(stem)
    if stem.startswith(".") or apart or not any(map(str.isalnum, stem)):
        raise errors.InputValueError(
            f"checkpoints cannot be called {stem!r}; a name begins with no dot, has no slash, and "
            f"has a letter or a digit, such as 'ckpt'"
        )
    return stem


def files(parts: int) -> list[str]:
    """Returns the names of the files of arrays that so many ranks write.

    Those of two are arrays-00001-of-00002.safetensors and arrays-00002-of-00002.safetensors.
    """
    if parts == 1:
        return [ARRAYS]
    stem, _, ending = ARRAYS.partition(".")
    return [f"{stem}-{number:05}-of-{parts:05}.{ending}" for number in range(1, parts + 1)]


def place(prefix: str | os.PathLike[str], step: int | None) -> Path:
    """Returns the path of the next checkpoint.

    Args:
        prefix: a folder ("ckpt/", or an existing one), or a folder and a stem ("ckpt/model").
        step: the number to append; if None, one more than the highest.

    Raises:
        CheckpointError: for a folder that cannot be read.
        InputValueError: for a stem or a number that could not be found again.
    """
    path = as_path(prefix, "path")
    text = os.fspath(prefix)
    if text.endswith(("/", os.sep)) or _is_folder(path):
        path = path / "ckpt"
    checked(path.name)
    number = step
    if number is None:
        number = max((taken for taken, _ in _of_stem(path)), default=0) + 1
    if number < 0:
        raise errors.InputValueError(f"the number of a checkpoint must be at least 0, got {number}")
    return path.with_name(f"{path.name}-{number}")


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        # It may be a folder: then the checkpoint belongs inside it.
        raise errors.CheckpointError(
            f"a checkpoint could not be written to {str(path)!r}: {error}"
        ) from error


def number(stem: str, path: Path) -> int | None:
    """Returns the number of a checkpoint of a stem, in its place or set aside."""
    name = re.escape(stem)
    match = re.fullmatch(rf"{name}-{_NUMBER}|\.{name}-{_NUMBER}\.old", path.name)
    return None if match is None else int(match[1] or match[2])


def rank(path: Path) -> int:
    """Returns the number of a checkpoint of any stem, to order those with the same time."""
    match = re.search(rf"-{_NUMBER}\Z", path.name)
    return -1 if match is None else int(match[1])


def entries(folder: Path) -> list[Path]:
    """Returns the entries of a folder by name; none if it does not exist.

    Raises:
        CheckpointError: for errors of the file system.
    """
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return []
        raise errors.CheckpointError(
            f"the folder {str(folder)!r} cannot be listed: {error}; check that it can be read"
        ) from error


def listed(folder: Path) -> list[Path]:
    """Returns the paths of entries that may be checkpoints, each as in its place.

    Raises:
        CheckpointError: for errors of the file system.
    """
    paths: dict[Path, None] = {}
    for entry in entries(folder):
        path = entry
        if entry.name.startswith("."):
            path = entry.with_name(entry.name[1:].removesuffix(".old") or entry.name)
            # It may have been moved to its place since the folder was listed.
            if aside(path) != entry or path.name.startswith("."):
                continue
        paths[path] = None
    return list(paths)


def numbered(prefix: Path) -> list[Path]:
    """Returns the checkpoints of a stem, by number.

    Raises:
        CheckpointError: for errors of the file system.
    """
    paths = {
        taken: prefix.with_name(f"{prefix.name}-{taken}")
        for taken, path in _of_stem(prefix)
        if _has_manifest(path)
    }
    return [path for _, path in sorted(paths.items())]


def _of_stem(prefix: Path) -> Iterator[tuple[int, Path]]:
    for path in entries(prefix.parent):
        taken = number(prefix.name, path)
        if taken is not None:
            yield taken, path


def _has_manifest(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path / MANIFEST).st_mode)
    except OSError as error:
        if is_gone(error) or isinstance(error, NotADirectoryError):
            return False
        raise errors.CheckpointError(
            f"{str(path)!r} cannot be read: {error}; check its permissions"
        ) from error


def is_gone(error: OSError) -> bool:
    """True if a file no longer exists; on a network, another machine may have removed it."""
    return error.errno in (errno.ENOENT, errno.ESTALE)
