"""Writers of summaries, and which of them is in force."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from pullback import errors
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

#: A step: an integer, or what can be read as one: a variable, a tensor.
Step: TypeAlias = Any

_WRITER: ContextVar[Writer | None] = ContextVar("summary writer", default=None)
_STEP: ContextVar[Step] = ContextVar("summary step", default=None)
_CONDITION: ContextVar[Callable[[int], bool] | None] = ContextVar("summary condition", default=None)


class Writer:
    """Writes summaries into an event file. Made by `pb.summary.create_file_writer`.

    What has been recorded is in the file at the latest when the program ends; nothing need be
    closed for that.
    """

    # A run is resumed with a writer of its own: nothing of this one is in a checkpoint.
    __slots__ = ("__weakref__", "_entered", "_file", "_finalizer")

    def __init__(self, file: EventFile) -> None:
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
        """Inside the block summaries go to this writer.

        Args:
            step: the step of summaries that are given none; read anew for each.
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
        """From now on summaries of this thread go to this writer."""
        _WRITER.set(self)

    def add(self, step: int, **content: Any) -> None:
        """Adds an event with some content, such as `summary=...`, which the message has."""
        self._file.add(events().Event(wall_time=time.time(), step=step, **content))

    def flush(self) -> None:
        """Writes what has been recorded into the file."""
        self._file.flush()

    def close(self) -> None:
        """Writes what is left, and closes the file; recording again is an error."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<summary writer for {str(self._file.directory)!r}>"


def create_file_writer(
    directory: str | os.PathLike[str],
    *,
    flush_millis: int = 10_000,
    filename_suffix: str = "",
    purge_step: int | None = None,
) -> Writer:
    """A writer into a new event file in a folder, which TensorBoard shows.

    Args:
        directory: the folder, which is made; one for each run.
        flush_millis: what is recorded is in the file after so many milliseconds.
        filename_suffix: what the name of the file ends with.
        purge_step: for a run that goes on: what an earlier file has from this step on is not shown.

    >>> import tempfile
    >>> writer = pb.summary.create_file_writer(tempfile.mkdtemp(), flush_millis=10000)
    >>> with writer.as_default():
    ...     pb.summary.scalar("loss", 0.5, step=1)
    True
    >>> writer.close()

    Raises:
        SummaryError: when the file cannot be made, or tensorboardX is not installed.
        InputValueError: for a negative time.
    """
    if flush_millis < 0:
        raise errors.InputValueError(f"flush_millis is 0 or more, got {flush_millis}")
    writer = Writer(EventFile(Path(directory), flush_millis, filename_suffix))
    if purge_step is not None:
        start = events().SessionLog(status=events().SessionLog.START)
        writer.add(int(purge_step), session_log=start)
    return writer


# ---------------------------------------------------------------------------------------------
# Whether, and at which step.


def set_step(step: Step) -> None:
    """Sets the step of summaries that are given none: a number, or a variable that counts.

    >>> step = pb.Variable(0)
    >>> pb.summary.set_step(step)
    >>> pb.summary.set_step(None)
    """
    _STEP.set(step)


@contextmanager
def record_if(condition: bool | Callable[[int], bool]) -> Iterator[None]:
    """Inside the block summaries are recorded only where a condition holds.

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
    """Inside the block summaries are recorded at steps that are multiples of a number.

    >>> import tempfile
    >>> with pb.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     with pb.summary.record_every(100):
    ...         [step for step in range(300) if pb.summary.should_record(step)]
    [0, 100, 200]

    Raises:
        InputValueError: for a number below 1.
    """
    if steps < 1:
        raise errors.InputValueError(f"record every 1 step or more, got {steps}")
    with record_if(lambda step: step % steps == 0):
        yield


def should_record(step: Step = None) -> bool:
    """Whether a summary would be recorded here: there is a writer, and the condition holds.

    Args:
        step: the step; that of `set_step` or `as_default` if None.
    """
    return recording(step, required=False) is not None


def recording(step: Step, *, required: bool = True) -> tuple[Writer, int] | None:
    """The writer and the step of a summary; None where it is not recorded.

    Raises:
        InputValueError: when there is a writer and no step.
    """
    writer = _WRITER.get()
    if writer is None:
        return None
    found = _STEP.get() if step is None else step
    if found is None:
        if not required:
            condition = _CONDITION.get()
            return (writer, 0) if condition is None or condition(0) else None
        raise errors.InputValueError(
            "a summary needs its step: pass step=, or say it once for all: "
            "pb.summary.set_step(step) or writer.as_default(step)"
        )
    number = int(found() if callable(found) else found)
    condition = _CONDITION.get()
    return (writer, number) if condition is None or condition(number) else None
