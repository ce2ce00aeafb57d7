"""`pb.profile`: the calls of kernels, op by op, and that nothing is left of it afterwards."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import pytest

import pullback as pb
from pullback import dtypes, errors
from pullback.plugins.compiling import as_function
from pullback.plugins.public import registry


class Plain(pb.Backend):
    """A small backend without hooks."""

    name = "plain"
    dtypes: ClassVar = {d: d.dtype for d in (pb.float32, pb.int32, pb.bool)}
    kernels: ClassVar = {
        "add": np.add,
        "divide": np.divide,
        "full": lambda *, shape, fill_value, dtype, device: np.full(shape, fill_value, dtype),
        "sqrt": lambda x: 1 // 0,
    }

    def from_host(self, array, device, *, copy):
        return np.array(array)

    def to_host(self, array):
        return array

    def native(self, value):
        return np.asarray(value)


class Annotating(Plain):
    """One with ranges of a vendor's profiler, and a queue to wait for."""

    name = "annotating"

    def __init__(self):
        super().__init__()
        self.log = []

    @contextmanager
    def annotate(self, op_name):
        self.log.append(f"begin {op_name}")
        yield
        self.log.append(f"end {op_name}")

    def synchronize(self, device):
        self.log.append("wait")


@pytest.fixture(params=[Plain, Annotating])
def backend(request):
    made = request.param()
    pb.register_backend(made, replace=True)
    yield made
    registry._slots.pop(made.name)
    registry.ready.pop(made.name)


def rows(profile):
    return {row.op: row for row in profile.ops}


def test_a_row_has_calls_times_and_bytes(backend):
    x = pb.asarray([1.0, 2.0, 3.0], device=backend.name)
    x + x
    with pb.profile() as profile:
        for _ in range(5):
            x + x
        x / x
    x + x
    assert {op: (row.calls, row.bytes) for op, row in rows(profile).items()} == {
        "add": (5, 60), "divide": (1, 12),
    }  # fmt: skip
    row = rows(profile)["add"]
    assert row.backend == backend.name
    assert 0 < row.seconds <= profile.seconds
    assert row.mean == row.seconds / 5
    header, *lines, total = str(profile).splitlines()
    assert header.split() == ["op", "backend", "calls", "total", "ms", "mean", "us", "share", "MB"]
    assert {line.split()[0] for line in lines} == {"add", "divide"}
    assert total.startswith("6 calls of kernels, ")
    assert repr(profile).startswith("<Profile, 6 calls, ")


def test_a_vendors_profiler_gets_ranges_only_while_one_runs():
    backend = Annotating()
    pb.register_backend(backend, replace=True)
    x = pb.ones(2, device="annotating")
    x + x
    assert backend.log == []
    with pb.profile():
        x + x
    with pb.profile(synchronize=True):
        x / x
    x + x
    assert backend.log == ["begin add", "end add", "begin divide", "wait", "end divide"]
    registry._slots.pop("annotating")
    registry.ready.pop("annotating")


def test_nothing_is_left_of_it(backend):
    x = pb.ones(3, device=backend.name)
    x + x
    tables, changes = backend.tables, backend.changes
    table = tables[pb.add.spec.index]
    assert list(table.values()) == [np.add]
    with pb.profile():
        x + x
        (kernel,) = tables[pb.add.spec.index].values()
        assert kernel is not np.add
        assert kernel.__wrapped__ is np.add
        assert backend.changes != changes
    x + x
    assert list(tables[pb.add.spec.index].values()) == [np.add]
    assert backend.changes == changes


def test_kernels_that_come_meanwhile_are_measured_and_stay(backend):
    x = pb.ones(2, device=backend.name)
    with pb.profile() as profile:
        x + x
        before = backend.changes
        backend.register_kernel("negative", np.negative, source="test", priority=0)
        assert backend.changes < before
        y = -x
    assert y.tolist() == (-x).tolist() == [-1.0, -1.0]
    assert rows(profile)["negative"].calls == 1
    assert list(backend.tables[pb.negative.spec.index].values()) == [np.negative]


def test_they_nest(backend):
    x = pb.ones(2, device=backend.name)
    with pb.profile() as outer:
        x + x
        with pb.profile() as inner:
            x + x
        x + x
    assert (rows(outer)["add"].calls, rows(inner)["add"].calls) == (3, 1)
    with outer, pytest.raises(errors.InputValueError, match="running already; make another"):
        outer.__enter__()
    with outer:
        x + x
    assert rows(outer)["add"].calls == 4


def test_an_error_ends_it_and_is_itself(backend):
    x = pb.ones(2, device=backend.name)
    profile = pb.profile()
    with pytest.raises(errors.InputValueError, match="sqrt"), profile:
        pb.sqrt(x)
    x + x
    assert rows(profile)["sqrt"].calls == 1
    assert "add" not in rows(profile)
    assert backend.changes >= 0


def test_all_threads_are_in_it(backend, tmp_path):
    x = pb.ones(2, device=backend.name)

    def work():
        for _ in range(20):
            x + x

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
    with pb.profile() as profile:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert rows(profile)["add"].calls == 80


def test_a_backend_that_is_first_used_meanwhile():
    class Late(Plain):
        name = "late"

    pb.register_backend(late := Late(), replace=True)
    with pb.profile() as profile:
        x = pb.ones(2, device="late")
        x + x
    assert rows(profile)["add"].calls == 1
    assert late.changes >= 0
    registry._slots.pop("late")
    registry.ready.pop("late")


def test_the_trace_is_a_file_of_chromes(backend, tmp_path):
    x = pb.ones(2, device=backend.name)
    with pb.profile() as profile:
        with profile.section("step"):
            x + x
        with pytest.raises(errors.InputValueError):
            pb.sqrt(x)
    profile.save(tmp_path / "trace.json")
    name, *events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert (name["ph"], name["args"]) == ("M", {"name": threading.current_thread().name})
    step, add, failed = events
    assert {(event["ph"], event["tid"]) for event in events} == {("X", threading.get_ident())}
    assert (step["name"], step["cat"], add["name"], add["cat"]) == ("step", "section", "add", "op")
    assert step["ts"] <= add["ts"]
    assert add["ts"] + add["dur"] <= step["ts"] + step["dur"]
    assert add["args"] == {"backend": backend.name, "bytes": 8}
    assert failed["args"]["raised"]


def test_a_training_step_captured_or_not_has_the_same_ops_and_results():
    def run(capture, *, profiled):
        pb.random.seed(0)
        w = pb.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
        optimizer = pb.optimizers.Adam(0.1)

        def step(x):
            with pb.GradientTape() as tape:
                loss = pb.mean(pb.square(x @ w))
            optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
            return loss

        call = pb.function(step) if capture else step
        x = pb.asarray(np.ones((4, 3), np.float32))
        for _ in range(3):
            call(x)
        with pb.profile() if profiled else pb.device(x.device) as profile:
            for _ in range(5):
                call(x)
        call(x)
        return w.tolist(), profile

    (plain, _), (eager, one) = run(False, profiled=False), run(False, profiled=True)
    captured, two = run(True, profiled=True)
    assert eager == captured == plain
    assert rows(one)["adam_update"].calls == rows(two)["adam_update"].calls == 5


def test_the_programs_of_a_captured_function_are_used_again():
    function = pb.function(lambda x: pb.sum(x * 2.0))
    x = pb.ones(3)
    for _ in range(3):
        function(x)
    for _ in range(20):
        with pb.profile() as profile:
            function(x)
            function(x)
        assert rows(profile)["sum"].calls == 2
    assert function.explain().startswith("<lambda>: 2 programs")


def test_a_function_that_a_backend_compiles_as_a_whole_shows_its_ops():
    compiled = []

    class Whole(Plain):
        name = "profiled"

        def compile(self, graph):
            compiled.append(graph)
            return as_function(graph)

    pb.register_backend(Whole(), replace=True)
    function = pb.function(lambda x: x + x)
    x = pb.ones(2, device="profiled")
    for _ in range(3):
        function(x)
    assert len(compiled) == 1
    with pb.profile() as profile:
        function(x)
    assert rows(profile)["add"].calls == 1
    assert function(x).tolist() == [2.0, 2.0]
    assert len(compiled) == 1
    registry._slots.pop("profiled")
    registry.ready.pop("profiled")


def test_the_size_of_results_of_each_dtype():
    x = pb.asarray(np.zeros((3, 4)), dtype=pb.float64)
    with pb.profile() as profile:
        pb.astype(x, pb.bfloat16)
        pb.linalg.qr(x)
        pb.sum(x)
    sizes = {row.op: row.bytes for row in profile.ops}
    assert sizes["astype"] == 12 * dtypes.bfloat16.itemsize
    assert sizes["qr"] == (9 + 12) * 8
    assert sizes["sum"] == 8
