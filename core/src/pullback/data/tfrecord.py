"""TFRecord files: records of bytes, each with its length and checksums.

    uint64 length, uint32 masked CRC-32C of the length, the bytes, uint32 masked CRC-32C of these

all little-endian, as in TensorFlow's documentation of the format (`tf.data`, "TFRecord and
tf.train.Example") and `tensorflow/core/lib/io/record_writer.h`. Every checksum is verified.
"""

from __future__ import annotations

import io
import os
import stat
import struct
from collections.abc import Callable
from typing import BinaryIO

from pullback import errors
from pullback._closing import Closing
from pullback._replacing import as_path
from pullback.data.elements import Element
from pullback.data.example import Feature, decode_example
from pullback.data.files import FileCursor, check_compression, open_file

__all__ = ["TFRecordWriter"]

_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
#: Longer records are read piece by piece: their stated length may be wrong.
_AT_ONCE = 1 << 24
_GZIP = b"\x1f\x8b"


def checksums() -> Callable[[bytes], int]:
    """Returns the function for masked checksums.

    Raises:
        DataError: if the library for them is not installed.
    """
    try:
        from google_crc32c import value
    except ImportError as error:
        raise errors.DataError(
            "TFRecord files need google-crc32c and protobuf: pip install 'pullback[tfrecord]'"
        ) from error

    def masked(data: bytes) -> int:
        # Masked: a checksum of data that contain checksums is a poor one.
        crc: int = value(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    return masked


class RecordCursor(FileCursor):
    """The records of TFRecord files, as bytes or as features."""

    def __init__(
        self, paths: list[str], compression: str | None, features: dict[str, Feature] | None
    ) -> None:
        super().__init__(paths, compression)
        self.features = features
        self.checksum = checksums()

    def read(self, file: BinaryIO) -> bytes | None:
        header = file.read(_LENGTH.size)
        if not header:
            return None
        if len(header) < _LENGTH.size:
            raise self.error(f"is cut off: the file ends inside its length; {_FIX}")
        length, expected = _LENGTH.unpack(header)
        if self.checksum(header[:8]) != expected:
            is_gzip = header.startswith(_GZIP) and self.offset == 0 and self.compression is None
            raise self.error(
                "is not a TFRecord; the file is gzip-compressed: pass compression='gzip'"
                if is_gzip
                else f"is damaged: the checksum of its length is wrong; {_FIX}"
            )
        data = file.read(length) if length <= _AT_ONCE else self._long(file, length)
        trailer = file.read(_CHECKSUM.size)
        if len(data) < length or len(trailer) < _CHECKSUM.size:
            raise self._cut_off(length, len(data))
        if self.checksum(data) != _CHECKSUM.unpack(trailer)[0]:
            raise self.error(f"is damaged: the checksum of its bytes is wrong; {_FIX}")
        self.offset += _LENGTH.size + length + _CHECKSUM.size
        return data

    def _long(self, file: BinaryIO, length: int) -> bytes:
        """Reads up to `length` bytes, without trusting the length before they are there."""
        if self.compression is None:
            status = os.fstat(file.fileno())
            left = status.st_size - self.offset - _LENGTH.size
            if stat.S_ISREG(status.st_mode):
                if left < length:
                    raise self._cut_off(length, left)
                return file.read(length)
        # A compressed file or a pipe shows its length only by its end.
        data = io.BytesIO()
        try:
            while length and (part := file.read(min(length, _AT_ONCE))):
                length -= data.write(part)
            return data.getvalue()
        except MemoryError:
            data.close()  # The error holds this frame.
            raise

    def _cut_off(self, length: int, there: int) -> errors.DataError:
        return self.error(f"is cut off: it has {length} bytes, the file {there}; {_FIX}")

    def element(self, piece: bytes) -> Element:
        if self.features is None:
            return piece
        try:
            return decode_example(piece, self.features)
        except errors.DataError as error:
            raise self.error(f"does not match its features: {error}") from error


_FIX = "make or copy the file again"


class TFRecordWriter(Closing):
    """Writes records into a file, which is complete when the writer is closed.

    Args:
        path: the file; an existing one is replaced.
        compression: "gzip", or None for a plain file.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.tfrecord"
    >>> with pb.data.TFRecordWriter(path) as writer:
    ...     for number in range(3):
    ...         writer.write(pb.data.encode_example({"number": number}))
    >>> features = {"number": pb.data.Feature((), "int64")}
    >>> [int(row["number"]) for row in pb.data.Dataset.from_tfrecord(path, features)]
    [0, 1, 2]

    Raises:
        DataError: if the library for checksums is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, compression: str | None = None) -> None:
        check_compression(compression)
        self._checksum = checksums()
        self._file = open_file(as_path(path, "path"), "wb", compression)

    def write(self, record: bytes) -> None:
        """Adds a record.

        Raises:
            InputTypeError: for a record that is not bytes.
        """
        if not isinstance(record, (bytes, bytearray, memoryview)):
            raise errors.InputTypeError(
                f"record must be bytes, got {type(record).__name__}; pb.data.encode_example makes "
                f"them of a dict"
            )
        length = struct.pack("<Q", len(record))
        self._file.write(length + _CHECKSUM.pack(self._checksum(length)))
        self._file.write(record + _CHECKSUM.pack(self._checksum(record)))

    def close(self) -> None:
        """Writes remaining data, and closes the file."""
        self._file.close()
