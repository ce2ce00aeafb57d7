"""Functions with a name that open a pass: they are pickled with their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pullback.data.ahead import ParallelMapCursor
from pullback.data.background import Threads
from pullback.data.calls import call_on_tensors
from pullback.data.combining import ZipCursor
from pullback.data.processes import SharedProcesses
from pullback.data.shuffling import BufferCursor
from pullback.data.slices import Indexed, shuffled
from pullback.data.source import Cursor, ElementSource, Epoch
from pullback.data.stages import MapCursor
from pullback.devices import as_device


def begun(kind: Callable[..., Cursor], *options: Any) -> Cursor:
    """Opens a cursor that does not depend on the pass, the last of the options."""
    return kind(*options[:-1])


def through(
    kind: Callable[..., Cursor], source: ElementSource, options: Sequence[Any], epoch: Epoch
) -> Cursor:
    """Opens a stage with one source."""
    return kind(source.open(epoch), *options)


def zipped(sources: Sequence[ElementSource], epoch: Epoch) -> Cursor:
    """Opens a stage that goes through several sources at once."""
    return ZipCursor([source.open(epoch) for source in sources])


def shuffle(
    source: ElementSource, elements: Indexed | None, size: int | None, epoch: Epoch, seed: int
) -> Cursor:
    """Opens elements in random order: all of them by number, or with a buffer."""
    if elements is not None and (size is None or size >= elements.size):
        return shuffled(elements, seed, epoch)
    assert size is not None
    return BufferCursor(source.open(epoch), size, seed, epoch)


def mapped(
    source: ElementSource,
    function: Callable[..., object],
    count: int | None,
    shared: SharedProcesses | None,
    epoch: Epoch,
    seed: int | None = None,
) -> Cursor:
    """Opens a function of elements, `count` of them at a time."""
    each = MapCursor(source.open(epoch), function, seed, epoch)
    if count is None:
        return each
    if shared is not None:
        return ParallelMapCursor(each, shared.hold(), 2 * count)
    call = partial(call_on_tensors, function)
    return ParallelMapCursor(each, Threads(call, count, as_device(None)), 2 * count)
