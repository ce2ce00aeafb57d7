"""Further calls of a kernel: with other values, many of them, and from two threads at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from pullback import dtypes, errors
from pullback.devices import Device
from pullback_conformance.case import Case, leaves, results, runs_body
from pullback_conformance.checks import has_layouts, takes_arrays
from pullback_conformance.compare import ConformanceError, all_identical
from pullback_conformance.registry import Area, check
from pullback_conformance.sample import Array

#: The number of calls: more than buffers that a kernel may keep in turn, or calls that it counts.
CALLS = 300
#: An op without a kernel is made of ops that are called as often on their own.
BODY_CALLS = 12
#: The number of calls of each of two threads.
TURNS = 40
#: A result of larger inputs is compared in fewer calls.
LARGE = 2**14


@check(Area.EDGES, applies=has_layouts, spared=runs_body, by_value=True)
def lasting(case: Case) -> None:
    """Checks that a later call does not change an earlier result: kernels do not reuse buffers."""
    before = results(case.call())
    kept = [np.array(array) for array in before]
    try:
        case.with_inputs(other(case)).call()
    except errors.PullbackError:
        return  # values that the op rejects
    all_identical(case, before, kept, "an earlier result after another call")


def other(case: Case) -> list[object]:
    """Other inputs of the same shapes and dtypes, which most ops take."""
    floats = any(leaf.dtype in dtypes.FLOATING for leaf in leaves(case.inputs))
    return [_other(value, floats) for value in case.inputs]


def _other(value: object, floats: bool) -> object:
    """Floats halved, which most domains allow; integers in reverse order, if all are integers."""
    if isinstance(value, (list, tuple)):
        return [_other(item, floats) for item in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype in dtypes.FLOATING:
        return (value * 0.5).astype(value.dtype)
    return value if floats else np.flip(value).copy()


@check(Area.EDGES, per="size", applies=takes_arrays, by_value=True)
def repeated(case: Case) -> None:
    """Checks that the same call has the same bits later, and that earlier results stay."""
    other_call = _other_call(case)
    inputs = case.tensors()
    first = case.call(inputs)
    kept = [np.array(array) for array in results(first)]
    held = [first]
    # Without a pattern that buffers in turn could follow.
    others = np.random.default_rng(14).integers(0, 2, CALLS)
    for number in range(2, _count(case, CALLS) + 1):
        if other_call is not None and others[number - 1]:
            other_call()
            continue
        held.append(case.call(inputs))
        all_identical(case, results(held[-1]), kept, f"the same call, as number {number},")
    for earlier in held:
        words = f"an earlier result after {len(held)} further calls"
        all_identical(case, results(earlier), kept, words)


@check(Area.EDGES, per="size", applies=takes_arrays, by_value=True)
def threads(case: Case) -> None:
    """Checks that threads that call the op at the same time get the results of one.

    One has other values, and one other attributes, where the samples of the op have such a call.
    """
    second = _other_inputs(case)
    calls = [_call(case), _call(case if second is None else second)]
    third = _other_attributes(case)
    if third is not None:
        calls.append(_call(third))
    turns = _count(case, TURNS)
    error = at_once(case, case.device, calls, turns, "a call while another thread calls the op")
    if error is not None:
        if isinstance(error, (ConformanceError, errors.MissingKernelError)):
            raise error
        raise ConformanceError(
            f"{case}: while two threads called the op, raised {type(error).__name__}: {error}"
        ) from error


def at_once(
    subject: object,
    device: Device,
    calls: Sequence[Callable[[], list[Array]]],
    turns: int,
    quantity: str,
) -> BaseException | None:
    """Calls each function in a thread of its own, and compares with what it gave alone.

    Args:
        subject: what is checked, for messages.
        device: where the calls run.
        calls: the functions, which return the results as host arrays.
        turns: the number of calls in each thread.
        quantity: what is compared, in messages.

    Returns:
        What the first thread that failed raised; None if all results are the same.
    """
    expected = [[np.array(array) for array in call()] for call in calls]
    device.synchronize()
    raised: list[BaseException] = []
    ready = threading.Barrier(len(calls))

    def work(call: Callable[[], list[Array]], goals: list[Array]) -> None:
        try:
            ready.wait(30)
            for _ in range(turns):
                all_identical(subject, call(), goals, quantity)
                if raised:
                    return
        except BaseException as error:
            raised.append(error)

    threads = [
        threading.Thread(target=work, args=pair, daemon=True)
        for pair in zip(calls, expected, strict=True)
    ]
    with _quick_switches():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return raised[0] if raised else None


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Threads take turns after a microsecond, so that they meet each other inside calls."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _call(case: Case) -> Callable[[], list[Array]]:
    inputs = case.tensors()
    return lambda: results(case.call(inputs))


def _count(case: Case, count: int) -> int:
    if runs_body(case.op, case.device):
        count = BODY_CALLS
    large = sum(leaf.size for leaf in leaves(case.inputs)) > LARGE
    return min(count, 4) if large else count


def _other_inputs(case: Case) -> Case | None:
    """The case for other values, if the op takes them."""
    changed = case.with_inputs(other(case))
    try:
        changed.call()
    except errors.PullbackError:
        return None
    return changed


def _other_attributes(case: Case) -> Case | None:
    """A small case of the op with other attributes, that it takes."""
    for sample in case.suite.samples:
        size = sum(leaf.size for leaf in leaves(sample.inputs))
        if sample.attributes == case.sample.attributes or not 0 < size <= LARGE:
            continue
        changed = replace(case, sample=sample)
        try:
            changed.call()
        except errors.PullbackError:
            continue
        return changed
    return None


def _other_call(case: Case) -> Callable[[], list[Array]] | None:
    changed = _other_inputs(case)
    return None if changed is None else _call(changed)
