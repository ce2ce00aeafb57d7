"""Runs the tests on the GPU, or without a GPU on a stand-in for CuPy (see `standin`)."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if importlib.util.find_spec("pullback_cupy") is None:
    sys.path.insert(0, str(HERE.parent / "src"))

from pullback_cupy import driver  # noqa: E402

PROBLEM = driver.problem()
if PROBLEM is not None:
    sys.path.insert(0, str(HERE / "standin"))

import pullback as pb  # noqa: E402
from pullback_cupy import CuPyBackend  # noqa: E402

pb.register_backend(CuPyBackend(), replace=True)


@pytest.fixture(scope="session")
def device():
    return pb.device("cupy:gpu")


@pytest.fixture
def standin():
    """The stand-in, for tests that look at what it counts."""
    if PROBLEM is None:
        pytest.skip("counts on the stand-in; tests/gpu/run counts on a GPU")
    import cupy

    cupy.COPIES.clear()
    return cupy
