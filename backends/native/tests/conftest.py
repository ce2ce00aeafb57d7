"""The instruction sets that the loops are compiled for, and a cache of compiled kernels."""

import pytest

import pullback_native
from pullback_native import _native
from pullback_native.compiled import cache, compiler, worker


@pytest.fixture(params=pullback_native.INSTRUCTION_SETS)
def instructions(request):
    yield _native.use(request.param)
    _native.use(pullback_native.INSTRUCTIONS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder and a worker for each test."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(compiler.VARIABLE, raising=False)
    worker.restart()
    yield tmp_path / "cache"
    worker.end()
    worker.restart()
