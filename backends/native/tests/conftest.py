"""The instruction sets that the loops are compiled for."""

import pytest

import pullback_native
from pullback_native import _native


@pytest.fixture(params=pullback_native.INSTRUCTION_SETS)
def instructions(request):
    yield _native.use(request.param)
    _native.use(pullback_native.INSTRUCTIONS)
