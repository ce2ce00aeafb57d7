"""The conformance of a backend as tests for pytest, with its selection, output and workers.

    pytest --pyargs pullback_conformance --backend NAME

Each sample in each dtype is a test with all of its checks; one more is for kernels left out.
"""

from __future__ import annotations

import pytest

from pullback import errors
from pullback.devices import as_device
from pullback.plugins.public import registry
from pullback_conformance import basics
from pullback_conformance.compare import ConformanceError
from pullback_conformance.deviations import declared
from pullback_conformance.mode import Mode
from pullback_conformance.plan import Item
from pullback_conformance.registry import BACKEND, tier_of
from pullback_conformance.runner import TierError, attempt, planned, select

_CALL = "--backend is missing: pytest --pyargs pullback_conformance --backend NAME"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes a test of each case of the backend that `--backend` names."""
    config = metafunc.config
    if "items" not in metafunc.fixturenames:
        return
    name = config.getoption("backend", None)
    if not name:
        raise pytest.UsageError(_CALL)
    try:
        device = as_device(name)
        declared(device.backend)
        rows = select(config.getoption("ops").split(","))
        basics.check(device)
    except (errors.PullbackError, ConformanceError) as error:
        raise pytest.UsageError(f"{name}: {error}") from None
    cases: dict[str, list[Item]] = {}
    mode = Mode(quick=config.getoption("quick"))
    for row in rows:
        if row == BACKEND or tier_of(row) in device.backend.tiers:
            for item in planned(row, device, mode=mode):
                name = f"{row}[{item.check}]" if item.case is None else str(item.case)
                cases.setdefault(name, []).append(item)
    metafunc.parametrize("items", cases.values(), ids=list(cases))


def test_every_kernel_was_taken(pytestconfig: pytest.Config) -> None:
    """Checks that no kernel is for an unknown op or of another signature."""
    backend = as_device(pytestconfig.getoption("backend")).backend
    left_out = registry.about(backend.name).left_out
    assert not left_out, "\n".join(left_out)


@pytest.mark.filterwarnings("ignore")
def test_conformance(items: list[Item]) -> None:
    """Runs the checks of one sample in one dtype; those that fail as declared are expected to."""
    failures, expected = [], []
    known = declared(items[0].device.backend)
    for item in items:
        try:
            wrong = attempt(item)
        except TierError as error:
            pytest.skip(str(error))
        if wrong is not None:
            covering = (
                one for one in known if one.op == item.row and one.covers(item.check, item.case)
            )
            one = next(covering, None)
            if one is None:
                failures.append(f"{item.check}: {wrong}")
            else:
                expected.append(f"{item.check}: {one.reason}")
    assert not failures, "\n".join(failures)
    if expected:
        pytest.xfail("\n".join(expected))
