"""Fixtures that all tests share, and how a whole run is spread over cores and kept short."""

# ruff: noqa: E402 - where bytecode goes is said before the package is imported.

import functools
import gc
import importlib.util
import inspect
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

# No collections while tests are collected: what they make lives until the end.
gc.disable()
# Processes that tests start, some hundred, compile the package once for all.
if sys.dont_write_bytecode and sys.pycache_prefix is None:
    sys.dont_write_bytecode = False
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    cache = Path(__file__).parent / ".pytest_cache" / "bytecode"
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache)

import pullback as pb
from pullback import dtypes, shapes
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._operators import OPERATORS
from pullback.devices import Device, as_device
from pullback.plugins import kernel_packs
from pullback.spec import OPS, ROUNDED
from pullback.state.objects import PENDING_RESTORES

MINIMAL = Path(__file__).parent / "examples/minimal_backend/src/pullback_minimal/__init__.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots",
        action="store_true",
        help="write the texts that tests compare generated code with",
    )
    parser.addoption(
        "--shuffle",
        type=int,
        metavar="SEED",
        help="run the files of tests in another order, one for each seed",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Spreads a run of all tests over the cores; one of named files stays in its process."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # this is one of the workers
    workers = getattr(config.option, "numprocesses", 0)  # 0 without pytest-xdist
    if workers is None and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.option.numprocesses = "auto"
        # Whoever is done takes over half of what another has left.
        config.option.dist = "worksteal"


def drawn(names: Sequence[str], count: int, commit: str) -> list[str]:
    """One of `count` names, on average; others for each commit, and each of them for some.

    >>> drawn(["a", "b", "c", "d", "e", "f"], 3, "1f2e3d")
    ['d', 'e']
    """
    return [name for name in names if not zlib.crc32(f"{commit} {name}".encode()) % count]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what `drawn` does not draw in CI; puts the files in the order of `--shuffle`."""
    if os.environ.get("CI"):
        head = ["git", "rev-parse", "HEAD"]
        done = subprocess.run(head, cwd=config.rootpath, capture_output=True, text=True)

        def is_run(item: pytest.Item) -> bool:
            mark = item.get_closest_marker("drawn")
            return mark is None or bool(drawn([item.nodeid], mark.args[0], done.stdout.strip()))

        left = [item for item in items if not is_run(item)]
        items[:] = filter(is_run, items)
        config.hook.pytest_deselected(items=left)
    seed = config.getoption("--shuffle")
    if seed is not None:
        files = sorted({item.path for item in items})
        random.Random(seed).shuffle(files)
        place = {path: number for number, path in enumerate(files)}
        items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Takes what was collected out of every later collection of garbage: half of their time."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _set_aside() -> None:
    """Takes what the files before have left out of the collections of this one.

    Some hundred tests collect garbage, and traces look for who holds a function: each time all
    that is alive and not set aside.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Removes what a test leaves in the process: it would change those after it."""
    yield
    # A restore may wait for variables that its test never makes.
    PENDING_RESTORES.clear()
    left = list(LOCAL.state.tapes)
    for tape in left:
        assert isinstance(tape, pb.GradientTape)
        tape.__exit__(None, None, None)
    assert not left, "a tape was left recording"
    assert RECORDING.count == 0, "a tape was left recording in another thread"


def run_every(
    cases: Iterable[Any], *checks: Callable[[Any], object], name: Callable[[Any], str] = str
) -> None:
    """Runs each check on each case, and names all that fail in one message.

    A check of the conformance kit is run where the kit says that it can fail.
    """
    kit = sys.modules.get("pullback_conformance.registry")
    table = {} if kit is None else kit.CHECKS
    failures: list[str] = []
    first = None
    for case in cases:
        for check in checks:
            entry = table.get(getattr(check, "__name__", ""))
            if entry is not None and not entry.applies(case):
                continue
            try:
                check(case)
            except Exception as error:
                first = first or error
                said = f"{type(error).__name__}: {error}"
                failures.append(f"{name(case)}, {check.__name__}: {said}")
    if failures:
        raise AssertionError("\n".join([f"{len(failures)} failed:", *failures])) from first


@pytest.fixture(scope="session")
def every() -> Callable[..., None]:
    """`every(cases, check, ...)` runs each check on each case, and names all that fail."""
    return run_every


class Kit:
    """The cases of the conformance kit on a device, by the names of ops."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._cases: dict[str, list[Any]] = {}

    def cases(self, name: str) -> list[Any]:
        """Every sample in every dtype."""
        from pullback_conformance.case import cases
        from pullback_conformance.samples import load

        if name not in self._cases:
            self._cases[name] = list(cases(OPS[name], load()[name], self._device))
        return self._cases[name]

    def once(self, name: str) -> list[Any]:
        """Each sample in one dtype."""
        first: dict[int, Any] = {}
        for case in self.cases(name):
            first.setdefault(id(case.sample), case)
        return list(first.values())

    def smooth(self, name: str, wide: Iterable[str] = ("float64", "complex128")) -> list[Any]:
        """The cases that finite differences are exact enough for."""
        found = [case for case in self.cases(name) if case.sample.gradient]
        return [case for case in found if str(case.dtype) in wide]


@pytest.fixture(scope="session")
def kit() -> Callable[[Any], Kit]:
    """`kit(device)` has the cases of each op on a device."""
    return functools.cache(lambda device: Kit(as_device(device)))


class Each(list[Any]):
    """The values that one test with the mark `each` goes through."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.each("op", ops)` is a parametrization that makes one test of all values.

    A test of its own takes more time than most checks do. With -k each value has one, so that
    `-k softmax` finds what is known of that op.
    """
    for mark in metafunc.definition.iter_markers("each"):
        argument, values = mark.args
        ids = mark.kwargs.get("ids", str)
        if metafunc.config.option.keyword:
            metafunc.parametrize(argument, values, ids=ids)
        else:
            metafunc.parametrize(argument, [Each(values)], ids=["each"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Calls a test with the mark `each` for every value."""
    mark = pyfuncitem.get_closest_marker("each")
    if mark is None or not isinstance(pyfuncitem.funcargs[mark.args[0]], Each):
        return None
    argument = mark.args[0]
    parameters = inspect.signature(pyfuncitem.obj).parameters
    given = {name: pyfuncitem.funcargs[name] for name in parameters}
    values: Any = given[argument]

    @functools.wraps(pyfuncitem.obj)
    def check(value: Any) -> None:
        pyfuncitem.obj(**given | {argument: value})

    run_every(values, check, name=mark.kwargs.get("ids", str))
    return True


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
def own_kernels() -> Iterator[None]:
    """The kernels of the backends alone, as where no kernel pack is installed."""
    pb.use_kernel_packs([])
    yield
    pb.use_kernel_packs(kernel_packs.from_environment())


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
