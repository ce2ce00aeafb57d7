"""Mutation tests of the conformance kit: every faulty backend is caught, by a message that fits.

pytest -m slow conformance/tests/conformance_faults                       all faults
python conformance/tests/conformance_faults/test_faults.py [PATTERN]      the same as a table
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance_faults import (
    conditions,
    devices,
    exactness,
    fresh,
    graphs,
    later,
    later_networks,
    newest,
    pairs,
    process,
    relations,
    services,
    stored,
    structure,
    third,
    unforeseen,
    values,
)
from conformance_faults.faults import Fault

FAULTS: dict[str, Fault] = {
    **values.FAULTS,
    **structure.FAULTS,
    **exactness.FAULTS,
    **process.FAULTS,
    **stored.FAULTS,
    **graphs.FAULTS,
    **relations.FAULTS,
    **services.FAULTS,
    **devices.FAULTS,
    **unforeseen.FAULTS,
    **newest.FAULTS,
    **later.FAULTS,
    **later_networks.FAULTS,
    **fresh.FAULTS,
    **pairs.FAULTS,
    **conditions.FAULTS,
    **third.FAULTS,
}
#: Faults that neither a quick nor a full run catches, each with the reason.
NOT_CAUGHT: dict[str, str] = {
    "fresh: elu in a program has float32 attributes": "attributes of samples are exact in float32",
}
#: One of each class, for every run of the tests.
SAMPLE = [
    next(name for name in FAULTS if name.startswith(f"{kind}: "))
    for kind in dict.fromkeys(name.partition(":")[0] for name in FAULTS)
]


def caught(fault: Fault) -> tuple[str, str]:
    """The run that catches a fault ("" for none), and the message that fits, or what there was."""
    message = "nothing failed"
    for pace in ("quick", "full"):
        report = fault.measure(quick=pace == "quick")
        lines = [f"{one.check} {one.sample} {one.dtype} {one.message}" for one in report.failures]
        lines += [report.stopped] if report.stopped else []
        fitting = [line for line in lines if re.search(fault.says, line)]
        if fitting:
            return pace, fitting[0]
        if lines:
            message = f"another message: {lines[0]}"
    return "", message


@pytest.mark.parametrize("name", SAMPLE)
def test_a_quick_run_catches_one_of_each_class(name):
    pace, message = caught(FAULTS[name])
    assert pace == "quick", message


@pytest.mark.campaign
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_a_message_that_fits(name):
    pace, message = caught(FAULTS[name])
    assert bool(pace) is (name not in NOT_CAUGHT), message


def test_there_are_enough_faults():
    assert len(FAULTS) >= 270
    assert set(NOT_CAUGHT) <= set(FAULTS)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Seeds faults and prints which run catches each.")
    parser.add_argument("pattern", nargs="?", default="")
    counts = {"quick": 0, "full": 0, "": 0}
    for name, fault in FAULTS.items():
        if not re.search(parser.parse_args().pattern, name):
            continue
        start = time.perf_counter()
        pace, message = caught(fault)
        counts[pace] += 1
        seconds = time.perf_counter() - start
        print(f"{pace or 'MISSED':7}{seconds:6.1f} s  {name}: {message[:150]}", flush=True)
    print(counts)
