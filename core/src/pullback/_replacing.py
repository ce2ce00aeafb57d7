"""Files and folders that appear whole, in place of older ones, whoever else writes or reads there.

What is written has a name of its own until it is complete, ".<name>.<machine>-<process>-<random>
.tmp" without the space, so that threads and processes may write in one place: the last one wins.
While a folder takes the place of another, the old one is ".<name>.old", where readers look too.
Writers remove what those that were killed have left.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pullback import errors
from pullback._locks import process_lock

__all__ = [
    "actual",
    "as_path",
    "aside",
    "begin",
    "clear",
    "discard",
    "end",
    "put",
    "remains",
    "settle",
    "temporary",
    "tidy",
]

#: A temporary name: what it is for, the machine, and the process.
_NAME = re.compile(r"\.(.+)\.([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}\.tmp", re.DOTALL)

#: The number of seconds after which a writer on another machine is taken for dead.
_DAY = 86400.0

#: The errors of renaming when another process has renamed or put something there meanwhile.
_TAKEN = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)

#: The number of attempts against others that rename and remove in the same place.
_PATIENCE = 100

#: The temporary names that this process writes to.
_CURRENT: set[str] = set()

#: Held while names change, by one thread of this process.
_LOCK = process_lock(globals(), "_LOCK")


def as_path(value: object, name: str) -> Path:
    """Returns the path of a file or a folder; messages call it `name`.

    Raises:
        InputTypeError: for what is neither a text nor a path.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise errors.InputTypeError(
            f"{name} must be a path, such as 'runs/first', got {value!r} of type "
            f"{type(value).__name__}"
        )
    return Path(value)


# ---------------------------------------------------------------------------------------------
# Temporary names.


def begin(path: Path) -> Path:
    """Returns a new temporary name for a path, to pass to `end` at last."""
    name = temporary_name(path, os.getpid())
    _CURRENT.add(name.name)
    return name


def temporary_name(path: Path, process: int) -> Path:
    """Returns a temporary name for a path, of a process on this machine."""
    writer = f"{_machine()}-{process}-{os.urandom(4).hex()}"
    return path.with_name(f".{path.name}.{writer}.tmp")


def end(name: Path) -> None:
    """Removes what is left under a temporary name.

    Raises:
        OSError: if it cannot be removed.
    """
    try:
        discard(name)
    finally:
        _CURRENT.discard(name.name)


@contextmanager
def temporary(path: Path) -> Iterator[Path]:
    """Gives a new temporary name for a path; what is left under it is removed, if possible."""
    name = begin(path)
    try:
        yield name
    finally:
        with suppress(OSError, ValueError):
            end(name)


def _machine() -> str:
    return f"{zlib.crc32(platform.node().encode()):08x}"


def remains(entry: Path, others_after: float = _DAY) -> str | None:
    """Returns what an entry was written for, if its writer is dead; None for any other entry.

    Args:
        entry: an entry of a folder.
        others_after: the number of seconds after which a writer on another machine is dead.
    """
    match = _NAME.fullmatch(entry.name)
    if match is None or entry.name in _CURRENT:
        return None
    name, machine, process = match.groups()
    if machine != _machine() or os.name != "posix":
        try:
            untouched = time.time() - os.lstat(entry).st_mtime
        except OSError:
            return None
        return name if untouched >= others_after else None
    return None if _is_alive(int(process)) else name


def _is_alive(process: int) -> bool:
    if process == os.getpid():
        return False  # of an earlier process with that number: it is not among the current names
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


# ---------------------------------------------------------------------------------------------
# Folders.


def aside(path: Path) -> Path:
    """Returns the path of a folder while another takes its place."""
    return path.with_name(f".{path.name}.old")


def actual(path: Path) -> Path:
    """Returns where a folder is: in its place, or aside if a process died replacing it."""
    other = aside(path) if path.name else path
    return other if not os.path.exists(path) and os.path.isdir(other) else path


def put(new: Path, path: Path) -> None:
    """Renames a folder to its name; an old one is set aside, or put back on an error.

    The old one is still aside afterwards: `settle` removes it.

    Raises:
        OSError: for errors of the file system.
    """
    old = aside(path)
    with _LOCK:
        try:
            for left in reversed(range(_PATIENCE)):
                try:
                    if os.path.lexists(path):
                        discard(old)
                        path.rename(old)
                    new.rename(path)
                    return
                except OSError as error:
                    # Another process may have put its own there, or have set it aside.
                    if not left or error.errno not in _TAKEN or not os.path.lexists(new):
                        raise
        except BaseException:
            if os.path.lexists(old) and not os.path.lexists(path):
                with suppress(OSError):
                    old.rename(path)
            raise


def settle(path: Path) -> None:
    """Removes the folder that another has taken the place of.

    Raises:
        OSError: if it cannot be removed.
    """
    name = begin(path)
    with _LOCK, suppress(FileNotFoundError):
        # At once, and not file by file: another process may set the next one aside here.
        aside(path).rename(name)
    end(name)


def tidy(path: Path) -> None:
    """Cleans up after writers of a folder that were killed: if they had set it aside, it is back.

    Raises:
        OSError: for errors of the file system.
    """
    with _LOCK:
        if os.path.lexists(aside(path)):
            if os.path.lexists(path):
                settle(path)
            else:
                aside(path).rename(path)
    clear(path)


def clear(path: Path) -> None:
    """Removes what writers of a file or a folder left that were killed.

    Raises:
        OSError: for errors of the file system.
    """
    try:
        entries = os.listdir(path.parent)
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.startswith(".") and remains(path.parent / entry) == path.name:
            discard(path.parent / entry)


def discard(path: Path) -> None:
    """Removes a file, a folder, or a link without its target, if it is there.

    Raises:
        OSError: if it cannot be removed.
    """
    for left in reversed(range(_PATIENCE)):
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                shutil.rmtree(path)
            else:
                path.unlink()
            return
        except FileNotFoundError:
            # Another process removes it as well.
            if not os.path.lexists(path):
                return
            if not left:
                raise
