"""`tf.contrib.summary`: summaries for TensorBoard, at the global step if no other is given."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self

from pullback import summary
from pullback.summary import Writer
from pullback_tensorflow.train import get_or_create_global_step

__all__ = [
    "always_record_summaries", "create_file_writer", "create_summary_file_writer", "flush",
    "histogram", "image", "initialize", "never_record_summaries",
    "record_summaries_every_n_global_steps", "scalar", "should_record_summaries", "text",
]  # fmt: skip


def create_file_writer(
    logdir: str | os.PathLike[str],
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> Writer:
    """A writer into a new event file in a folder."""
    millis = 10_000 if flush_millis is None else flush_millis
    return summary.create_file_writer(
        logdir, flush_millis=millis, filename_suffix=filename_suffix or ""
    )


create_summary_file_writer = create_file_writer


def _step(step: Any) -> Any:
    return get_or_create_global_step() if step is None else step


def _in(family: str | None, name: str) -> str:
    return name if family is None else f"{family}/{name}"


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> bool:
    """Records a number."""
    return summary.scalar(_in(family, name), tensor, _step(step))


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> bool:
    """Records how values are distributed."""
    return summary.histogram(_in(family, name), tensor, _step(step))


def image(
    name: str,
    tensor: Any,
    bad_color: Any = None,
    max_images: int = 3,
    family: str | None = None,
    step: Any = None,
) -> bool:
    """Records images (images, height, width, channels)."""
    return summary.image(_in(family, name), tensor, _step(step), max_outputs=max_images)


def text(name: str, tensor: Any, family: str | None = None, step: Any = None) -> bool:
    """Records a text."""
    return summary.text(_in(family, name), str(tensor), _step(step))


def should_record_summaries() -> bool:
    """Returns whether a summary would be recorded now."""
    return summary.should_record(_step(None))


def initialize(*args: Any, **kwargs: Any) -> None:
    """Does nothing: a writer is ready when it has been made."""


def flush(writer: Writer, name: str | None = None) -> None:
    """Writes what has been recorded into the file."""
    writer.flush()


# When summaries are recorded ---------------------------------------------------------------------


class _Recording:
    """A condition for `with`, with or without a call."""

    def __init__(self, context: Callable[[], AbstractContextManager[Any]]) -> None:
        self._context = context
        self._entered: list[AbstractContextManager[Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> _Recording:
        """Returns the condition for these arguments."""
        return _Recording(functools.partial(self._context, *args, **kwargs))

    def __enter__(self) -> Self:
        context = self._context()
        context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered.pop().__exit__(kind, error, trace)


@contextmanager
def _every(n: int = 1, global_step: Any = None) -> Any:
    counter = _step(global_step)
    with summary.record_if(lambda _: int(counter) % n == 0):
        yield


#: `with always_record_summaries():`, and `with always_record_summaries:`.
always_record_summaries = _Recording(functools.partial(summary.record_if, True))
never_record_summaries = _Recording(functools.partial(summary.record_if, False))
#: At global steps that are multiples of n; at every step if it is not called.
record_summaries_every_n_global_steps = _Recording(_every)
