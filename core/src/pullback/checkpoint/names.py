"""What checkpoints in a folder are called, and which there are.

A checkpoint is a folder "<stem>-<number>". One that is being replaced is set aside as
".<stem>-<number>.old", one that is being written or removed is ".<stem>-<number>.<process>.tmp".
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pullback import errors

ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"

#: As `int` writes them: "ckpt-07" is none of ours, and would be taken for "ckpt-7".
_NUMBER = "(0|[1-9][0-9]*)"


def checked(stem: str) -> str:
    """A stem that checkpoints can be found by.

    Raises:
        InputValueError: for one that no file can have, or that is passed over as hidden.
    """
    apart = {"/", "\0", os.sep, os.altsep} & set(stem)
    if stem.startswith(".") or apart or not any(map(str.isalnum, stem)):
        raise errors.InputValueError(
            f"checkpoints cannot be called {stem!r}; a name begins with no dot, has no slash, and "
            f"has a letter or a digit, such as 'ckpt'"
        )
    return stem


def place(prefix: str | os.PathLike[str], step: int | None) -> Path:
    """Where the next checkpoint goes.

    Args:
        prefix: a folder ("ckpt/", or one that exists), or a folder and a stem ("ckpt/model").
        step: the number to append; if None, one more than the highest there.

    Raises:
        CheckpointError: for a folder that cannot be looked at.
        InputValueError: for a stem or a number that cannot be found again.
    """
    text = os.fspath(prefix)
    path = Path(text)
    if text.endswith(("/", os.sep)) or _is_folder(path):
        path = path / "ckpt"
    checked(path.name)
    number = step
    if number is None:
        number = max((one for one, _ in _of_stem(path)), default=0) + 1
    if number < 0:
        raise errors.InputValueError(f"the number of a checkpoint is at least 0, got {number}")
    return path.with_name(f"{path.name}-{number}")


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        # It may be one, in which the checkpoint belongs, and not beside it.
        raise errors.CheckpointError(
            f"a checkpoint could not be written to {str(path)!r}: {error}"
        ) from error


def number(stem: str, path: Path) -> int | None:
    """The number of a checkpoint of a stem, in its place or aside."""
    name = re.escape(stem)
    match = re.fullmatch(rf"{name}-{_NUMBER}|\.{name}-{_NUMBER}\.old", path.name)
    return None if match is None else int(match[1] or match[2])


def rank(path: Path) -> int:
    """The number of a checkpoint of any stem, to tell those apart that say the same time."""
    match = re.search(rf"-{_NUMBER}\Z", path.name)
    return -1 if match is None else int(match[1])


def entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing when there is none.

    Raises:
        CheckpointError: when the file system does not say.
    """
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return []
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return []
        raise errors.CheckpointError(
            f"the folder {str(folder)!r} cannot be listed: {error}; see that it can be read"
        ) from error


def aside(path: Path) -> Path:
    """Where a checkpoint is while another takes its place."""
    return path.with_name(f".{path.name}.old")


def there(path: Path) -> Path:
    """Where a checkpoint is: in its place, or aside if the process that replaced it died."""
    other = aside(path) if path.name else path
    return other if not os.path.exists(path) and os.path.isdir(other) else path


def listed(folder: Path) -> list[Path]:
    """What may be a checkpoint, each by the path that it has in its place.

    Raises:
        CheckpointError: when the file system does not say.
    """
    found: dict[Path, None] = {}
    for entry in entries(folder):
        path = entry
        if entry.name.startswith("."):
            path = entry.with_name(entry.name[1:].removesuffix(".old") or entry.name)
            # It may be in its place by now, and it was not when the folder was listed.
            if aside(path) != entry or path.name.startswith("."):
                continue
        found[path] = None
    return list(found)


def numbered(prefix: Path) -> list[Path]:
    """The checkpoints of a stem, by number.

    Raises:
        CheckpointError: when the file system does not say.
    """
    found = {
        one: prefix.with_name(f"{prefix.name}-{one}")
        for one, path in _of_stem(prefix)
        if _has_manifest(path)
    }
    return [path for _, path in sorted(found.items())]


def _of_stem(prefix: Path) -> Iterator[tuple[int, Path]]:
    for path in entries(prefix.parent):
        found = number(prefix.name, path)
        if found is not None:
            yield found, path


def _has_manifest(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.stat(path / MANIFEST).st_mode)
    except OSError as error:
        if is_gone(error) or isinstance(error, NotADirectoryError):
            return False
        raise errors.CheckpointError(f"{str(path)!r} cannot be looked at: {error}") from error


def is_gone(error: OSError) -> bool:
    """Whether a file is there no more; on a network, another machine has removed it."""
    return error.errno in (errno.ENOENT, errno.ESTALE)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file to read. What is no file is refused, so that a pipe or a device holds nobody up."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        file = os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
    with file:
        yield file
