"""What every test starts from and must leave behind."""

import pytest

from pullback.dispatch.recording import LISTENING, LOCAL


@pytest.fixture(autouse=True)
def _no_tape_is_left_listening():
    yield
    left = list(LOCAL.state.tapes)
    for tape in left:
        tape.__exit__(None, None, None)
    assert not left, "a tape was left listening"
    assert LISTENING.count == 0, "a tape was left listening in another thread"
