"""The sets of instructions that the loops are compiled for."""

import pytest

import pullback_native
from pullback_native import _native


def available():
    """Those that this processor has."""
    found = []
    for name in ("base", "avx2", "avx512"):
        try:
            found.append(_native.use(name))
        except ValueError:
            continue
    assert pullback_native.INSTRUCTIONS == _native.use() == found[-1]
    return found


@pytest.fixture(params=available())
def instructions(request):
    yield _native.use(request.param)
    _native.use()
