"""Writers of summaries, and the active writer and step."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Self, TypeAlias

from pullback import errors
from pullback._closing import Closing
from pullback._replacing import as_path
from pullback.shapes import as_int
from pullback.summary.events import EventFile, events

__all__ = [
    "Writer",
    "create_file_writer",
    "record_every",
    "record_if",
    "recording",
    "set_step",
    "should_record",
]

#: A step: an integer, a variable or a tensor, or a function that returns one.
Step: TypeAlias = Any

_WRITER: ContextVar[Writer | None] = ContextVar("summary writer", default=None)
_STEP: ContextVar[Step] = ContextVar("summary step", default=None)
_CONDITION: ContextVar[Callable[[int], bool] | None] = ContextVar("summary condition", default=None)


class Writer(Closing):
    """Writes summaries to an event file, made by `pb.summary.create_file_writer`.

    All summaries are in the file when the program ends, even if the writer is not closed.
    """

    opaque_state = True
    # A resumed run has a writer of its own, so checkpoints do not hold this one.
    __slots__ = ("__weakref__", "_entered", "_file", "_finalizer")

    def __init__(self, file: EventFile) -> None:
        if not isinstance(file, EventFile):
            raise errors.InputTypeError("pb.summary.create_file_writer(directory) makes writers")
        self._file = file
        self._entered: list[Any] = []
        # Also at the end of the program.
        self._finalizer = weakref.finalize(self, file.close)

    @property
    def path(self) -> str:
        """The path of the event file."""
        return str(self._file.path)

    @contextmanager
    def as_default(self, step: Step = None) -> Iterator[Self]:
        """Makes this writer the active one inside a block.

        Args:
            step: the step of summaries without one; read again for each.
        """
        writer = _WRITER.set(self)
        before = None if step is None else _STEP.set(step)
        try:
            yield self
        finally:
            _WRITER.reset(writer)
            if before is not None:
                _STEP.reset(before)

    def set_as_default(self) -> None:
        """Makes this writer the active one of this thread."""
        _WRITER.set(self)

    def add(self, step: int, **content: object) -> None:
        """Adds an event with fields of the message, such as `summary=...`."""
        number = as_int(step, "an integer for step")
        if abs(number) >= 1 << 63:
            raise errors.InputValueError(f"step must have 64 bits, got {number}")
        self._file.add(events().Event(wall_time=time.time(), step=number, **content))

    def flush(self) -> None:
        """Writes all summaries to the file."""
        self._file.flush()

    def close(self) -> None:
        """Writes remaining summaries, and closes the file; recording again is an error."""
        self._finalizer()

    def __repr__(self) -> str:
        return f"<summary writer for {str(self._file.directory)!r}>"


def create_file_writer(
    directory: str | os.PathLike[str],
    *,
    flush_millis: int = 10_000,
    filename_suffix: str = "",
    purge_step: int | None = None,
) -> Writer:
    """Makes a writer to a new event file in a folder, which TensorBoard shows.

    Args:
        directory: the folder, which is made; one for each run.
        flush_millis: the number of milliseconds after which summaries are written to the file.
        filename_suffix: the end of the name of the file.
        purge_step: for a resumed run: summaries of earlier files from this step on are not shown.

    >>> import tempfile
    >>> writer = pb.summary.create_file_writer(tempfile.mkdtemp(), flush_millis=10000)
    >>> with writer.as_default():
    ...     pb.summary.scalar("loss", 0.5, step=1)
    True
    >>> writer.close()

    Raises:
        SummaryError: if the file cannot be made, or tensorboardX is not installed.
        InputValueError: for a negative time.
    """
    if as_int(flush_millis, "flush_millis: an integer") < 0:
        raise errors.InputValueError(f"flush_millis must be at least 0, got {flush_millis}")
    writer = Writer(EventFile(as_path(directory, "directory"), flush_millis, filename_suffix))
    if purge_step is not None:
        start = events().SessionLog(status=events().SessionLog.START)
        writer.add(as_int(purge_step, "purge_step: an integer"), session_log=start)
    return writer


# ---------------------------------------------------------------------------------------------
# Conditions and steps.


def set_step(step: Step) -> None:
    """Sets the step of summaries without one: a number, or a variable that counts.

    >>> step = pb.Variable(0)
    >>> pb.summary.set_step(step)
    >>> pb.summary.set_step(None)
    """
    _STEP.set(step)


@contextmanager
def record_if(condition: bool | Callable[[int], bool]) -> Iterator[None]:
    """Records summaries inside a block only if a condition holds.

    Args:
        condition: True or False, or a function of the step.

    >>> with pb.summary.record_if(False):
    ...     pb.summary.should_record(1)
    False
    """
    test = condition if callable(condition) else lambda step: bool(condition)
    before = _CONDITION.set(test)
    try:
        yield
    finally:
        _CONDITION.reset(before)


@contextmanager
def record_every(steps: int) -> Iterator[None]:
    """Records summaries inside a block only at steps that are multiples of a number.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     with pb.summary.record_every(100):
    ...         [step for step in range(300) if pb.summary.should_record(step)]
    [0, 100, 200]

    Raises:
        InputValueError: for a number below 1.
    """
    if steps < 1:
        raise errors.InputValueError(f"steps must be at least 1, got {steps}")
    with record_if(lambda step: step % steps == 0):
        yield


def should_record(step: Step = None) -> bool:
    """Returns True if a summary would be recorded: there is a writer, and the condition holds.

    Args:
        step: the step; that of `set_step` or `as_default` if None.
    """
    return recording(step, required=False) is not None


def recording(step: Step, *, required: bool = True) -> tuple[Writer, int] | None:
    """Returns the writer and the step of a summary; None if it is not recorded.

    Raises:
        InputValueError: for a writer without a step.
    """
    writer = _WRITER.get()
    if writer is None:
        return None
    current = _STEP.get() if step is None else step
    if current is None:
        if not required:
            condition = _CONDITION.get()
            return (writer, 0) if condition is None or condition(0) else None
        raise errors.InputValueError(
            "a summary needs a step: pass step=, or set it once with "
            "pb.summary.set_step(step) or writer.as_default(step)"
        )
    number = as_int(current() if callable(current) else current, "step: a number of steps")
    condition = _CONDITION.get()
    return (writer, number) if condition is None or condition(number) else None
