"""Fixtures that all tests share."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import pullback as pb
from pullback import dtypes, shapes
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._operators import OPERATORS
from pullback.devices import Device, as_device
from pullback.spec import OPS, ROUNDED

MINIMAL = Path(__file__).parent / "examples/minimal_backend/src/pullback_minimal/__init__.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="write the texts that tests compare generated code with",
    )


@pytest.fixture(autouse=True)
def _no_tape_is_left_recording() -> Iterator[None]:
    yield
    left = list(LOCAL.state.tapes)
    for tape in left:
        assert isinstance(tape, pb.GradientTape)
        tape.__exit__(None, None, None)
    assert not left, "a tape was left recording"
    assert RECORDING.count == 0, "a tape was left recording in another thread"


def module_at(name: str, path: Path) -> ModuleType:
    """Imports a file that is not in a package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def remembered() -> ModuleType:
    """The module `tests/remembered.py`."""
    return module_at("remembered", Path(__file__).parent / "tests" / "remembered.py")


@pytest.fixture
def minimal() -> Device:
    """The device of `examples/minimal_backend`, which has the core primitives and nothing else."""
    if "minimal" not in {backend.name for backend in pb.backends()}:
        pb.register_backend(module_at("pullback_minimal", MINIMAL).MinimalBackend())
    return pb.device("minimal")


@pytest.fixture
def define() -> Iterator[Callable[..., Any]]:
    """The `op` decorator, elementwise by default; its ops are removed after the test."""
    before = set(OPS)

    def decorator(**options: Any) -> Any:
        rules: dict[str, Any] = {
            "shape": shapes.broadcast, "dtype": dtypes.numeric, "accuracy": ROUNDED,
        }  # fmt: skip
        return pb.op(**(rules | options))

    yield decorator
    for name in set(OPS) - before:
        del OPS[name]
        delattr(OPERATORS, name)


@pytest.fixture
def offer() -> Iterator[Callable[..., None]]:
    """Offers a kernel to the backend of the CPU for one test: `offer(name, kernel)`."""
    backend = as_device("cpu").backend

    def add(name: str, kernel: Callable[..., Any], **options: Any) -> None:
        backend.register_kernel(name, kernel, source="test", priority=1000, **options)

    yield add
    backend.unregister_kernels("test")
