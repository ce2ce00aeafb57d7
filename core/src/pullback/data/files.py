"""Files: which ones, and what is in them, one piece after another."""

# ruff: noqa: D102  (what the methods of a cursor do is said where `Cursor` is defined)

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from pullback import errors
from pullback.data.elements import Element
from pullback.data.source import Cursor

#: A path, a pattern such as "data/*.txt", or several of them.
Files: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


def find(files: Files) -> list[str]:
    """The paths that are meant; those of a pattern in order of their names.

    Raises:
        DataError: for a path that is not there, and a pattern that nothing has.
    """
    found: list[str] = []
    for one in [files] if isinstance(files, (str, os.PathLike)) else files:
        path = os.fspath(one)
        if os.path.exists(path):
            found.append(path)
            continue
        matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
        if not matches:
            raise errors.DataError(f"there is no file {path!r} (in {Path.cwd()})")
        found += matches
    return found


def open_file(path: str | os.PathLike[str], mode: str, compression: str | None) -> BinaryIO:
    """A file of bytes, packed or as it is."""
    opened: Any = gzip.open if compression == "gzip" else open
    return cast("BinaryIO", opened(path, mode))


class FileCursor(Cursor):
    """Pieces of files, one file after another. The position is a file and a byte in it.

    Args:
        paths: the files.
        compression: "gzip", or None for files as they are.
    """

    def __init__(self, paths: list[str], compression: str | None) -> None:
        self.paths = paths
        self.compression = compression
        #: The file and the byte in it, unpacked, where the next piece begins.
        self.which = 0
        self.offset = 0
        #: How many pieces of the file have been read, for messages.
        self.number = 0
        self.file: BinaryIO | None = None

    def __del__(self) -> None:
        self.close()

    def read(self, file: BinaryIO) -> bytes | None:
        """The bytes of the next piece; None at the end of the file. Moves `offset` on."""
        raise NotImplementedError

    def element(self, piece: bytes) -> Element:
        """What a piece is given as."""
        raise NotImplementedError

    def next(self) -> Element:
        piece = self._piece()
        element = self.element(piece)
        self.number += 1
        return element

    def skip(self, count: int) -> int:
        for done in range(count):
            try:
                self._piece()
            except StopIteration:
                return done
            self.number += 1
        return count

    def _piece(self) -> bytes:
        while self.which < len(self.paths):
            try:
                piece = self.read(self._opened())
            except (EOFError, zlib.error, OSError) as error:
                raise self.error(f"cannot be read: {error}") from error
            except MemoryError as error:
                raise self.error("does not fit into memory") from error
            if piece is not None:
                return piece
            self.close()
            self.which += 1
            self.offset = self.number = 0
        raise StopIteration

    def _opened(self) -> BinaryIO:
        if self.file is None:
            path = self.paths[self.which]
            self.file = open_file(path, "rb", self.compression)
            if self.offset:
                self.file.seek(self.offset)
        return self.file

    def error(self, why: str) -> errors.DataError:
        """An error that names the place."""
        return errors.DataError(
            f"{self.paths[self.which]}, piece {self.number} (at byte {self.offset}) {why}"
        )

    def state(self) -> Mapping[str, Any]:
        return {"file": self.which, "offset": self.offset, "number": self.number}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.which = int(state["file"])
        self.offset = int(state["offset"])
        self.number = int(state["number"])

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class LinesCursor(FileCursor):
    """Lines of text, without their ends."""

    def __init__(self, paths: list[str], compression: str | None, encoding: str) -> None:
        super().__init__(paths, compression)
        self.encoding = encoding

    def read(self, file: BinaryIO) -> bytes | None:
        line = file.readline()
        self.offset += len(line)
        return line or None

    def element(self, piece: bytes) -> Element:
        try:
            return piece.removesuffix(b"\n").removesuffix(b"\r").decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self.error(f"is no text: {error}; give its encoding") from error


def check_compression(compression: str | None) -> None:
    """Refuses what is no way of packing files.

    Raises:
        InputValueError: unless it is "gzip" or None.
    """
    if compression not in (None, "gzip"):
        raise errors.InputValueError(f"compression is 'gzip' or None, got {compression!r}")
