"""Files, found by path or pattern, and read piece by piece."""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

import numpy as np

from pullback import errors
from pullback._replacing import as_path
from pullback.data.elements import Element
from pullback.data.source import Cursor, Position
from pullback.shapes import check_choice

#: A path, a pattern such as "data/*.txt", or several of them.
Files: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


def find(files: Files) -> list[str]:
    """Returns the paths for some files and patterns; those of a pattern sorted by name.

    Raises:
        DataError: for a path that does not exist, and a pattern without matches.
        InputTypeError: for what is not a path.
    """
    paths: list[str] = []
    alone = isinstance(files, (str, os.PathLike)) or not np.iterable(files)
    for file in [files] if alone else cast("Iterable[object]", files):
        path = os.fspath(as_path(file, "files"))
        if os.path.exists(path):
            paths.append(path)
            continue
        matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
        if not matches:
            raise errors.DataError(f"there is no file {path!r} (in {Path.cwd()})")
        paths += matches
    return paths


def open_file(path: str | os.PathLike[str], mode: str, compression: str | None) -> BinaryIO:
    """Opens a binary file, compressed or plain."""
    if compression == "gzip":
        return cast("BinaryIO", gzip.open(path, mode))
    try:
        return cast("BinaryIO", open(path, mode))
    except IsADirectoryError:
        raise errors.DataError(f"{os.fspath(path)!r} is a folder; name a file in it") from None


class FileCursor(Cursor):
    """Pieces of files, one file after another. The position is a file and a byte offset.

    Args:
        paths: the files.
        compression: "gzip", or None for plain files.
    """

    def __init__(self, paths: list[str], compression: str | None) -> None:
        self.paths = paths
        self.compression = compression
        #: The file, and the byte offset (decompressed) where the next piece begins.
        self.which = 0
        self.offset = 0
        #: The number of pieces read from the file, for messages.
        self.number = 0
        self.file: BinaryIO | None = None

    def __del__(self) -> None:
        self.close()

    def read(self, file: BinaryIO) -> bytes | None:
        """Returns the bytes of the next piece, or None at the end. Moves `offset` on."""
        raise NotImplementedError

    def element(self, piece: bytes) -> Element:
        """Converts a piece to an element."""
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
        """Returns an error that names the file and the position."""
        return errors.DataError(
            f"{self.paths[self.which]}, piece {self.number} (at byte {self.offset}) {why}"
        )

    def state(self) -> Position:
        return {"file": self.which, "offset": self.offset, "number": self.number}

    def restore(self, state: Position) -> None:
        self.which = int(state["file"])
        self.offset = int(state["offset"])
        self.number = int(state["number"])

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class LinesCursor(FileCursor):
    """Lines of text, without line ends."""

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
            raise self.error(f"is not {self.encoding} text: {error}; pass its encoding") from error


def check_compression(compression: str | None) -> None:
    """Checks the name of a compression.

    Raises:
        InputValueError: unless it is "gzip" or None.
    """
    check_choice(compression, "compression", ("gzip", None))
