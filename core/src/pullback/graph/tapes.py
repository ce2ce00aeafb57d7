"""The tapes of a thread, set aside for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pullback._dispatch.recording import LOCAL


class Tapes(NamedTuple):
    """The tapes that record in a thread."""

    tapes: list[Any]
    recording: bool
    #: Nodes below this serial number belong to none of them.
    oldest_serial: int


#: No tape.
NONE = Tapes([], False, 0)


@contextmanager
def tapes(these: Tapes) -> Iterator[None]:
    """Has these tapes record in this thread, in place of its own."""
    state = LOCAL.state
    before = state.tapes, state.recording, state.oldest_serial
    state.tapes, state.recording, state.oldest_serial = [*these.tapes], *these[1:]
    try:
        yield
    finally:
        state.tapes, state.recording, state.oldest_serial = before
