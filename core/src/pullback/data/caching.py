"""Caches of elements, in memory or in a file.

A cache holds the elements of pass 0, whichever pass fills it, so that a program that is resumed
from a checkpoint has the same ones. A pass that stops in the middle caches nothing.
"""

# ruff: noqa: D102  (the methods of a cursor are documented in `Cursor`)

from __future__ import annotations

import json
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from pullback import errors
from pullback._replacing import begin, clear, end
from pullback.data.elements import Element
from pullback.data.encoding import decode, encode
from pullback.data.source import Cursor, Position


class _CountedCursor(Cursor):
    """A cursor that counts, and reads a source until all of it is kept."""

    at = 0
    source: Cursor | None = None

    def state(self) -> Position:
        return {"at": self.at}

    def restore(self, state: Position) -> None:
        self.at = int(state["at"])

    def close(self) -> None:
        if self.source is not None:
            self.source.close()
            self.source = None


class MemoryCursor(_CountedCursor):
    """The elements of a source, kept in a list at the end of the pass."""

    def __init__(self, open_: Callable[[], Cursor], kept: list[list[Element]]) -> None:
        self.open = open_
        #: Holds the list of all elements once it is complete; shared by all passes.
        self.kept = kept
        self.filling: list[Element] = []

    def next(self) -> Element:
        if self.source is None and not self.kept:
            self.source = self.open()
            for _ in range(self.at):
                self.filling.append(self.source.next())
        if self.source is not None:
            try:
                element = self.source.next()
            except StopIteration:
                self.close()
                self.kept[:] = [self.filling]
                raise
            self.filling.append(element)
        elif self.at < len(self.kept[0]):
            element = self.kept[0][self.at]
        else:
            raise StopIteration
        self.at += 1
        return element


# ---------------------------------------------------------------------------------------------
# In a file.

_HEADER = json.dumps({"format": "pullback cache", "version": 1}).encode() + b"\n"
#: In front of each element: its length and its CRC-32 (that of zlib).
_FRAME = struct.Struct("<QI")
#: The length that marks the end: the number of elements follows.
_END = (1 << 64) - 1


class CacheCursor(_CountedCursor):
    """The elements of a source, kept in a file that appears at the end of the pass."""

    def __init__(self, open_: Callable[[], Cursor], path: Path) -> None:
        self.open = open_
        self.path = path
        self.writer: _CacheWriter | None = None
        self.reader: Iterator[Element] | None = None

    def next(self) -> Element:
        if self.reader is None and self.source is None:
            self._begin()
        element = self._fill() if self.reader is None else next(self.reader)
        self.at += 1
        return element

    def _begin(self) -> None:
        if self.path.exists():
            self.reader = _read(self.path, self.at)
            return
        self.source = self.open()
        self.writer = _CacheWriter(self.path)
        for _ in range(self.at):
            self._fill()

    def _fill(self) -> Element:
        assert self.source is not None
        assert self.writer is not None
        try:
            element = self.source.next()
        except StopIteration:
            self.writer.finish()
            self.close()
            self.reader = iter(())
            raise
        self.writer.write(element)
        return element

    def close(self) -> None:
        super().close()
        if self.writer is not None:
            self.writer.give_up()
            self.writer = None
        self.reader = None


class _CacheWriter:
    """A file with a temporary name until it is finished."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        clear(path)
        self.temporary = begin(path)
        self.file = self.temporary.open("wb")
        self.file.write(_HEADER)
        self.count = 0
        self.give_up = weakref.finalize(self, _discard, self.file, self.temporary)

    def write(self, element: Element) -> None:
        data = encode(element)
        self.file.write(_FRAME.pack(len(data), zlib.crc32(data)))
        self.file.write(data)
        self.count += 1

    def finish(self) -> None:
        data = struct.pack("<Q", self.count)
        self.file.write(_FRAME.pack(_END, zlib.crc32(data)) + data)
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.temporary.replace(self.path)


def _discard(file: BinaryIO, path: Path) -> None:
    file.close()
    end(path)


def _read(path: Path, begin: int) -> Iterator[Element]:
    """Yields the elements in a file from a number on.

    Raises:
        DataError: if the file is damaged.
    """

    def damaged(why: str) -> errors.DataError:
        return errors.DataError(
            f"{path}: {why} at element {number}; the cache is damaged: remove the file, and it is "
            f"made again"
        )

    number = 0
    with path.open("rb") as file:
        if file.readline(len(_HEADER)) != _HEADER:
            raise errors.DataError(f"{path} is not a cache of this version; use another path")
        size = os.fstat(file.fileno()).st_size
        while True:
            frame = file.read(_FRAME.size)
            if len(frame) < _FRAME.size:
                raise damaged("it ends")
            length, checksum = _FRAME.unpack(frame)
            at_end = length == _END
            length = 8 if at_end else length
            if length > size - file.tell():
                raise damaged("it ends")
            if number < begin and not at_end:
                file.seek(length, os.SEEK_CUR)
                number += 1
                continue
            data = file.read(length)
            if zlib.crc32(data) != checksum:
                raise damaged("the checksum is wrong")
            if at_end:
                if struct.unpack("<Q", data) != (number,):
                    raise damaged("elements are missing")
                return
            yield decode(data)
            number += 1
