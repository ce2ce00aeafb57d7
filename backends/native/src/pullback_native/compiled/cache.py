"""The folder that keeps compiled kernels, from one process to the next.

A library is code, so one is taken only from a folder that nobody else can write, and only if its
bytes have the digest that its name says. Files are written under another name first: who reads, and
who writes at the same time, sees whole ones only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
from pathlib import Path

#: The environment variable with the folder; empty for none.
VARIABLE = "PULLBACK_NATIVE_CACHE"
#: Files of a folder; above, the oldest quarter is deleted.
MOST_FILES = 400
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_DIGITS = 32


class CacheError(Exception):
    """The folder cannot be used."""


def folder() -> Path | None:
    """The folder; None if the environment says that there is none.

    Raises:
        CacheError: It is in the home of a user who has none.
    """
    choice = os.environ.get(VARIABLE)
    try:
        if choice is not None:
            return Path(choice.strip()).expanduser().absolute() if choice.strip() else None
        if sys.platform == "darwin":
            base = Path("~/Library/Caches")
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
        base = base.expanduser()
    except (OSError, RuntimeError) as error:
        raise CacheError(f"there is no cache folder: {error}; set {VARIABLE} to one") from None
    return base / "pullback" / "native" if base.is_absolute() else None


def key(*parts: str) -> str:
    """The name of what is compiled from these texts."""
    whole = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        whole.update(len(encoded).to_bytes(8, "little") + encoded)
    return whole.hexdigest()[:_DIGITS]


def opened(path: Path) -> Path:
    """A cache folder, made if it is not there, with its links resolved.

    Raises:
        CacheError: It cannot be made, or others than the user can write it.
    """
    try:
        for each in (*reversed(path.parents), path):  # `parents=True` lets the umask decide
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        path = path.resolve(strict=True)
        _check(path)
    except (OSError, RuntimeError) as error:
        raise CacheError(f"the cache folder {path} cannot be used: {error}") from None
    return path


def _check(path: Path) -> None:
    user = os.geteuid()
    for each in (path, *path.parents):
        status = each.lstat()
        if each == path and not (stat.S_ISDIR(status.st_mode) and status.st_uid == user):
            raise CacheError(f"the cache folder {path} is not a folder of the user's own")
        # Whoever can write a folder above can put another one in its place, except in those such as
        # /tmp, where only the owner of a file may rename it.
        others = status.st_mode & _OTHERS
        shared = others and (each == path or not status.st_mode & stat.S_ISVTX)
        if shared or status.st_uid not in (user, 0):
            raise CacheError(
                f"the cache folder {path} can be changed by other users, through {each}; take "
                f"their rights away (chmod go-w {each}) or set {VARIABLE} to another folder"
            )


def find(path: Path, name: str) -> Path | None:
    """The library of that name in an opened folder, with the bytes that were written."""
    for found in sorted(path.glob(f"{name}-*.so")):
        if _digest(found) == found.stem.removeprefix(f"{name}-"):
            return found
        drop(found)
    return None


def store(path: Path, name: str, library: Path) -> None:
    """Keeps a library in an opened folder.

    Raises:
        CacheError: It cannot be written.
    """
    try:
        content = library.read_bytes()
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
            os.replace(temporary, path / f"{name}-{digest}.so")
        except BaseException:
            drop(Path(temporary))
            raise
        _thin_out(path)
    except OSError as error:
        raise CacheError(f"the cache folder {path} cannot be written: {error}") from None


def drop(path: Path) -> None:
    """Deletes a file, if that can be done."""
    with contextlib.suppress(OSError):
        path.unlink()


def _digest(path: Path) -> str | None:
    """The digest of a file that is the user's own; None for any other."""
    try:
        # Opening a pipe would wait for somebody who writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if not own or status.st_mode & _OTHERS:
                return None
            return hashlib.sha256(file.read()).hexdigest()[:_DIGITS]
    except OSError:
        return None


def _thin_out(path: Path) -> None:
    files = list(path.iterdir())
    if len(files) > MOST_FILES:
        files.sort(key=_age)
        for file in files[: MOST_FILES // 4]:
            drop(file)


def _age(file: Path) -> float:
    try:
        return file.lstat().st_mtime
    except FileNotFoundError:  # another process has deleted it
        return 0
