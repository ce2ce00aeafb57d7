"""What tests start from and must leave behind."""

import importlib.util
from pathlib import Path

import pytest

import pullback as pb
from pullback import dtypes, shapes
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._operators import OPERATORS
from pullback.devices import as_device
from pullback.spec import OPS, ROUNDED

MINIMAL = Path(__file__).parent / "examples/minimal_backend/src/pullback_minimal/__init__.py"


@pytest.fixture(autouse=True)
def _no_tape_is_left_recording():
    yield
    left = list(LOCAL.state.tapes)
    for tape in left:
        tape.__exit__(None, None, None)
    assert not left, "a tape was left recording"
    assert RECORDING.count == 0, "a tape was left recording in another thread"


@pytest.fixture(scope="session")
def remembered():
    """The module beside this one."""
    spec = importlib.util.spec_from_file_location(
        "remembered", Path(__file__).parent / "tests" / "remembered.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def minimal():
    """The device of `examples/minimal_backend`, which has the core primitives and nothing else."""
    if "minimal" not in {backend.name for backend in pb.backends()}:
        spec = importlib.util.spec_from_file_location("pullback_minimal", MINIMAL)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        pb.register_backend(module.MinimalBackend())
    return pb.device("minimal")


@pytest.fixture
def define():
    """The `op` decorator, elementwise if not told otherwise; its ops are gone after the test."""
    before = set(OPS)

    def decorator(**given):
        rules = {"shape": shapes.broadcast, "dtype": dtypes.numeric, "accuracy": ROUNDED}
        return pb.op(**(rules | given))

    yield decorator
    for name in set(OPS) - before:
        del OPS[name]
        delattr(OPERATORS, name)


@pytest.fixture
def offer():
    """Offers a kernel to the backend of the CPU for one test: `offer(name, kernel)`."""
    backend = as_device("cpu").backend

    def add(name, kernel, **given):
        backend.offer(name, kernel, source="test", priority=1000, **given)

    yield add
    backend.withdraw("test")
