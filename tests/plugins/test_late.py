"""Devices that compute later than they are called: errors that come late, and times of events."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import errors
from pullback.plugins.public import registry

FIX = r"a call before this one may be at fault.* pb\.profile\(synchronize=True\)"
#: The seconds that a kernel takes.
WORK = 0.02


class Later:
    """An array that a thread computes."""

    def __init__(self, shape, dtype, future):
        self.shape, self.dtype, self.future = shape, np.dtype(dtype), future

    def get(self):
        return self.future.result()


class Queued(pb.Backend):
    """A backend whose kernels run one after the other in a thread."""

    name = "queued"
    dtypes: ClassVar = {d: d.dtype for d in (pb.float32, pb.int32, pb.bool)}

    def __init__(self):
        self.thread = ThreadPoolExecutor(1)
        self.failed = None
        self.kernels = {
            "add": lambda x, y: self.later(x, lambda: x.get() + y.get()),
            "sqrt": lambda x: self.later(x, lambda: self.fail()),
        }
        super().__init__()

    def later(self, like, function):
        def run():
            time.sleep(WORK)
            return np.asarray(function())

        return Later(like.shape, like.dtype, self.thread.submit(run))

    def fail(self):
        self.failed = RuntimeError("launch failure")
        raise self.failed

    def from_host(self, array, device, *, copy):
        value = np.array(array)
        return Later(value.shape, value.dtype, self.thread.submit(lambda: value))

    def to_host(self, array):
        return array.get()

    def synchronize(self, device):
        self.thread.submit(lambda: None).result()
        if self.failed is not None:
            error, self.failed = self.failed, None
            raise error


class Timed(Queued):
    """One with a clock in the thread."""

    name = "timed"

    def event(self, device):
        return self.thread.submit(time.perf_counter)

    def elapsed(self, start, end):
        return end.result() - start.result()


class Wrong(pb.Backend):
    """A backend that computes when it is called, and cannot give its arrays back."""

    name = "wrong"
    dtypes: ClassVar = {pb.float32: np.dtype("float32")}

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        raise ValueError("a message of the library")


def test_an_error_of_reading_is_not_late_where_nothing_is_waited_for():
    pb.register_backend(Wrong(), replace=True)
    x = pb.asarray([1.0], device="wrong")
    for read in (lambda: x.numpy(), lambda: x.item(), lambda: pb.Variable(x).numpy()):
        says = r"wrong:cpu:0: ValueError: a message of the library; the error is of Wrong\.to_host"
        with pytest.raises(errors.BackendError, match=says) as info:
            read()
        assert "a call before" not in str(info.value)
    registry._slots.pop("wrong")
    registry.ready.pop("wrong")


@pytest.fixture(params=[Queued])
def backend(request):
    made = request.param()
    pb.register_backend(made, replace=True)
    yield made
    registry._slots.pop(made.name)
    registry.ready.pop(made.name)
    made.thread.shutdown()


@pytest.fixture
def x(backend):
    return pb.asarray([1.0], device=backend.name)


@pytest.mark.parametrize(
    "wait",
    [
        lambda y: y.numpy(),
        lambda y: y.item(),
        lambda y: float(y),
        lambda y: y.tolist(),
        lambda y: y.device.synchronize(),
        lambda y: y.to("cpu"),
        lambda y: pb.Variable(y).numpy(),
    ],
)
def test_an_error_that_comes_late_says_so_and_how_to_find_the_call(x, wait):
    y = pb.sqrt(x)
    with pytest.raises(errors.BackendError, match=rf"RuntimeError: launch failure; {FIX}") as info:
        wait(y)
    assert "queued:cpu:0: " in str(info.value)
    causes = []
    error = info.value
    while error is not None:
        causes.append(type(error))
        error = error.__cause__ or error.__context__
    assert RuntimeError in causes


def test_the_way_that_the_message_shows_leads_to_the_call(x):
    with pb.profile(synchronize=True):
        y = x + x
        with pytest.raises(errors.BackendError, match=r"^sqrt\(.*launch failure"):
            pb.sqrt(y)


def test_an_error_that_its_backend_explains_is_raised_as_it_is(backend, x):
    backend.failed = errors.IndexingError("take: an index is outside (a call made before this one)")
    with pytest.raises(errors.IndexingError, match=r"^take: an index is outside"):
        x.device.synchronize()


def test_without_events_a_profile_has_the_times_of_calls(x):
    with pb.profile() as profile:
        x + x
    [row] = profile.ops
    assert row.device_seconds is None
    assert row.seconds < WORK
    assert "device ms" not in str(profile)


@pytest.mark.parametrize("backend", [Timed], indirect=True)
class TestEvents:
    def test_a_profile_has_the_times_of_the_device_without_waiting(self, x):
        with pb.profile() as profile:
            start = time.perf_counter()
            y = x + x
            for _ in range(4):
                y = y + x
            called = time.perf_counter() - start
        [row] = profile.ops
        assert called < 5 * WORK
        assert 5 * WORK <= row.device_seconds < 50 * WORK
        assert row.seconds < row.device_seconds
        header, line, total = str(profile).splitlines()
        assert header.split()[3:5] == ["device", "ms"]
        assert float(line.split()[3]) >= 5 * WORK * 1e3
        assert float(total.split()[4]) >= 5 * WORK * 1e3

    def test_they_are_in_the_trace(self, x, tmp_path):
        with pb.profile() as profile:
            x + x
        profile.save(tmp_path / "trace.json")
        events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
        assert events[-1]["args"]["device_us"] >= WORK * 1e6

    def test_a_profile_that_waits_needs_none(self, x):
        with pb.profile(synchronize=True) as profile:
            x + x
        [row] = profile.ops
        assert row.device_seconds is None
        assert row.seconds >= WORK

    def test_many_calls_are_read_before_the_end(self, x, monkeypatch):
        monkeypatch.setattr("pullback.profiling._WAITING", 4)
        with pb.profile() as profile:
            for _ in range(9):
                x + x
            assert len(profile._waiting) < 4
        assert profile.ops[0].calls == 9
        assert profile.ops[0].device_seconds >= 9 * WORK

    def test_nested_profiles_have_their_own(self, x):
        with pb.profile() as outer:
            x + x
            with pb.profile() as inner:
                x + x
        assert outer.ops[0].device_seconds > inner.ops[0].device_seconds >= WORK
