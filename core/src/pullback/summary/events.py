"""Event files, which TensorBoard reads: records of events, with checksums.

The framing is that of TFRecord, the messages are TensorFlow's `event.proto` and `summary.proto`
from tensorboardX. tensorboardX's own writer is not used: its queue between processes copies every
event twice, and loses events when a program forks or is stopped.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pullback import errors

__all__ = ["EventFile", "messages"]

#: The largest buffer in bytes, however rarely the file is flushed.
_LARGEST = 1 << 20
_COUNTER = itertools.count()
_OPEN: weakref.WeakSet[EventFile] = weakref.WeakSet()


def _missing(error: ImportError) -> errors.SummaryError:
    return errors.SummaryError(
        f"summaries need a library that is not installed ({error.name}): "
        f"pip install 'pullback[tensorboard]'"
    )


def messages() -> Any:
    """Returns the module with the messages of summaries.

    Raises:
        SummaryError: if tensorboardX is not installed.
    """
    try:
        from tensorboardX.proto import summary_pb2
    except ImportError as error:
        raise _missing(error) from error
    return summary_pb2


def events() -> Any:
    """Returns the module with the messages of events.

    Raises:
        SummaryError: if tensorboardX is not installed.
    """
    try:
        from tensorboardX.proto import event_pb2
    except ImportError as error:
        raise _missing(error) from error
    return event_pb2


def _checksum() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError as error:
        raise _missing(error) from error

    def masked(data: bytes) -> int:
        crc: int = value(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    return masked


class EventFile:
    """A file of events, which is flushed at regular times.

    It is flushed when the program ends, even if references to it remain. A forked process leaves
    the file to its parent, and opens one of its own at its first event.

    Args:
        directory: the folder of the file, which is made.
        flush_millis: the number of milliseconds until events are written; 0 writes each at once.
        suffix: the end of the name of the file.

    Raises:
        SummaryError: if the file cannot be made, or tensorboardX is not installed.
    """

    def __init__(self, directory: Path, flush_millis: int, suffix: str) -> None:
        self.directory = directory
        self._seconds = flush_millis / 1000
        self._suffix = suffix
        self._event = events().Event
        self._masked = _checksum()
        self._lock = threading.Lock()
        self._buffer: list[bytes] = []
        self._waiting = 0
        self._timer: threading.Timer | None = None
        self._handle: int | None = None
        self.path: Path | None = None
        self.closed = False
        self._open()
        _OPEN.add(self)

    def _open(self) -> None:
        # The files of a run have different names, whatever processes write them.
        name = (
            f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}."
            f"{os.getpid()}.{next(_COUNTER)}{self._suffix}"
        )
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.path = self.directory / name
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise errors.SummaryError(
                f"cannot make an event file in {str(self.directory)!r}: {error}; check the folder"
            ) from error
        self._put(self._event(wall_time=time.time(), file_version="brain.Event:2"))

    def _put(self, event: Any) -> None:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        record = length + struct.pack("<I", self._masked(length))
        self._buffer += [record, data, struct.pack("<I", self._masked(data))]
        self._waiting += len(data) + 16

    def add(self, event: Any) -> None:
        """Adds an event.

        Raises:
            SummaryError: after the file has been closed.
        """
        with self._lock:
            if self.closed:
                raise errors.SummaryError(
                    f"the summary writer for {str(self.directory)!r} has been closed; make another"
                )
            if self._handle is None:
                self._open()
            self._put(event)
            if self._seconds <= 0 or self._waiting > _LARGEST:
                self._write()
            elif self._timer is None:
                self._timer = threading.Timer(self._seconds, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Writes all events to the file, where they survive the process."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        buffer, self._buffer, self._waiting = self._buffer, [], 0
        if self._handle is None:
            return
        left = memoryview(b"".join(buffer))
        while left:
            try:
                left = left[os.write(self._handle, left) :]
            except OSError as error:
                raise errors.SummaryError(f"{str(self.path)!r}: {error}") from error

    def close(self) -> None:
        """Writes remaining events, and closes the file."""
        with self._lock:
            if not self.closed:
                self._write()
                self.closed = True
                if self._handle is not None:
                    os.close(self._handle)
                    self._handle = None

    def forked(self) -> None:
        """Runs in a forked child: buffer and file belong to the parent."""
        self._lock = threading.Lock()
        self._buffer, self._waiting, self._timer = [], 0, None
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _forked() -> None:
    for file in list(_OPEN):
        file.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
