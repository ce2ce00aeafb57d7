"""In these tests, what traces do not follow must be the framework's code alone."""

import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from pullback._dispatch.choice import kernel_of
from pullback._dispatch.recording import LOCAL, unfollowed
from pullback.graph.host import is_framework_code
from pullback.graph.watch import is_library


@pytest.fixture(autouse=True)
def _unfollowed_is_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Finds code of users where a trace does not follow what runs: it would not be compared."""
    found: list[str] = []

    def begins(frame: FrameType, event: str, arg: object) -> None:
        code, space = frame.f_code, frame.f_globals
        # Beside the trace, as in a schedule, code is followed nowhere.
        if LOCAL.state.capture is None or is_framework_code(code, space) or is_library(space):
            return
        at: FrameType | None = frame
        while at is not None:
            if at.f_code is kernel_of.__code__:
                return  # a backend looks for a kernel: it is asked again where another one comes
            at = at.f_back
        found.append(f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})")

    if sys.version_info < (3, 12):
        monkeypatch.setattr(unfollowed, "instead", staticmethod(begins))
    yield
    assert not found, f"a trace does not follow {found}"
