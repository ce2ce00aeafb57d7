"""Cases in which a program could be stale, or do something only once: right, or an error."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CaptureError

X = np.arange(1, 4, dtype=np.float32)
SCALE, OFFSET = 2.0, pb.asarray(X)


def run(captured, *arguments, times=3):
    return [captured(*arguments) for _ in range(times)]


def programs(captured):
    return captured.explain().splitlines()[0].rsplit(": ", 1)[1]


# Values that are looked at ------------------------------------------------------------------------

LOOKS = {
    "float": lambda x: x * float(x.sum()),
    "int": lambda x: x * int(x.sum()),
    "bool": lambda x: x if x.sum() > 3 else x * 2,
    "numpy": lambda x: x + x.numpy(),
    "tolist": lambda x: x + x.tolist()[0],
    "item": lambda x: x * x.sum().item(),
    "array": lambda x: x + np.asarray(x),
    "format": lambda x: f"{x.sum():.3f}",
    "contains": lambda x: 3.0 in x,
    "index": lambda x: [1, 2, 3][pb.argmax(x)],
    "shape": lambda x: pb.nonzero(x),
    "dlpack": lambda x: np.from_dlpack(x),
    "global": lambda x: x * float(OFFSET[0]),
    "global's array": lambda x: x + OFFSET.numpy(),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_value_that_is_looked_at_is_an_error_with_the_line_and_the_way_out(look):
    captured = pb.function(look)
    x = pb.asarray(X)
    captured(x)
    with pytest.raises(CaptureError) as caught:
        captured(x)
    message = str(caught.value)
    assert "test_function_traps.py" in message
    assert "lambda x:" in message
    assert "strict=False" in message
    assert pb.executing_eagerly()
    assert float(pb.sum(x)) == 6.0


def test_without_strict_it_runs_op_by_op_with_one_warning():
    v = pb.Variable(0.0)

    @pb.function(strict=False)
    def f(x):
        v.assign_add(1.0)
        return x if x.sum() > 3 else x * 2

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(1, 6):
            assert f(pb.asarray(X)).tolist() == [1, 2, 3]
            assert f(pb.asarray(X) / 9).tolist() == (pb.asarray(X) / 9 * 2).tolist()
            assert float(v) == 2 * step
    assert len(caught) == 1
    assert "runs op by op from now on" in str(caught[0].message)
    assert "runs op by op, because it looks at the values of a tensor" in f.explain()


def test_a_look_that_the_function_catches_is_an_error_too():
    @pb.function
    def f(x):
        try:
            return x * float(x.sum())
        except BaseException:
            return x

    f(pb.asarray(X))
    with pytest.raises(CaptureError, match="looks at the values"):
        f(pb.asarray(X))


ENDS = {
    "a value": lambda x: x * float(x.sum()),
    "a variable": lambda x: pb.Variable(1.0) * x,
    "a seed": lambda x: pb.random.seed(1),
    "a draw": lambda x: x + pb.random.normal(x.shape),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_a_branch_does_is_an_error_also_where_it_is_caught(end):
    @pb.function
    def f(x):
        try:
            return pb.cond(x.sum() < 0, lambda: ENDS[end](x), lambda: x)
        except BaseException:
            return pb.cond(x.sum() < 0, lambda: -x, lambda: x)  # which ends well

    for _ in range(2):  # what is made, such as a generator, may be made once
        with contextlib.suppress(CaptureError):
            assert f(pb.asarray(X)).tolist() == X.tolist()
    with pytest.raises(CaptureError):
        f(pb.asarray(X))


def test_a_look_in_the_framework_names_the_line_that_calls_it():
    generator = pb.Generator(3)
    captured = pb.function(lambda: generator.gamma((3,), 0.5))
    captured()
    with pytest.raises(CaptureError, match=r"test_function_traps.py:\d+ \(.*gamma"):
        captured()


def test_moves_to_the_device_where_a_tensor_is_are_nothing():
    v = pb.Variable(X)
    captured = pb.function(lambda x: (x.to("cpu:0"), x.cpu(), pb.asarray(v, device="cpu"), v.cpu()))
    for results in run(captured, pb.asarray(X)):
        assert [result.tolist() for result in results] == [[1, 2, 3]] * 4
    assert captured(pb.asarray(X))[0].device is pb.device("cpu")


def test_devices_that_are_named_are_the_real_one():
    cpu = pb.device("cpu")
    generator = pb.Generator(3)

    @pb.function
    def f(x):
        with cpu:
            made = pb.zeros(3)
        drawn = generator.uniform((3,), device=cpu)
        return x + made + pb.ones(3, device="cpu") + pb.full((3,), 2.0, device=cpu) + drawn

    found = [result.tolist() for result in run(f, pb.asarray(X), times=4)]
    generator.state = (3, 0)
    expected = [(pb.asarray(X) + 3 + generator.uniform((3,))).tolist() for _ in range(4)]
    assert found == expected


def test_devices_are_compared():
    v = pb.Variable(X)

    def same(x):
        here = [x.device == OFFSET.device, v.device == x.device, x.device in pb.devices()]
        return here, x * (2 if x.device != OFFSET.device else 3)

    for here, y in run(pb.function(same), pb.asarray(X), times=4):
        assert here == [True] * 3
        assert y.tolist() == (X * 3).tolist()


def test_two_devices_are_an_error(minimal):
    elsewhere = pb.asarray(X, device=minimal)
    captured = pb.function(lambda x: (x + 1, elsewhere + 1))
    captured(pb.asarray(X))
    with pytest.raises(CaptureError, match="runs on one device"):
        captured(pb.asarray(X))
    moves = pb.function(lambda x: x.to(minimal))
    moves(pb.asarray(X))
    with pytest.raises(CaptureError, match="runs on one device"):
        moves(pb.asarray(X))


def test_a_device_changed_between_calls_has_a_program_of_its_own(minimal):
    captured = pb.function(lambda x: x + pb.ones(3, device=x.device))
    for _ in range(3):
        assert captured(pb.asarray(X)).device is pb.device("cpu")
        assert captured(pb.asarray(X, device=minimal)).device is minimal
    made = pb.function(lambda: pb.zeros(2) + 1)
    run(made)
    with minimal:
        assert [result.device for result in run(made)] == [minimal] * 3
    assert made().device is pb.device("cpu")


# What is outside ----------------------------------------------------------------------------------


def test_a_global_tensor_is_read_at_each_call():
    table = pb.asarray(X)
    captured = pb.function(lambda x: (table + x, table * 2, pb.exp(table)))
    for value in (4.0, 5.0, 6.0, 7.0):
        table[0] = value
        results = captured(pb.asarray(X))
        assert results[0].tolist() == [value + 1, 4, 6]
        assert results[1].tolist() == [2 * value, 4, 6]
        assert results[2].tolist() == pb.exp(table).tolist()
    assert programs(captured) == "1 program"


def test_a_closure_cell_that_is_set_anew_is_seen():
    factor = 2.0

    @pb.function
    def f(x):
        return x * factor

    assert [float(r[0]) for r in run(f, pb.asarray(X))] == [2.0] * 3
    factor = 3.0
    assert [float(r[0]) for r in run(f, pb.asarray(X))] == [3.0] * 3
    factor = pb.asarray(4.0)
    assert [float(r[0]) for r in run(f, pb.asarray(X))] == [4.0] * 3
    factor = 2.0
    assert [float(r[0]) for r in run(f, pb.asarray(X))] == [2.0] * 3
    assert programs(f) == "3 programs"
    assert "because of another value of factor" in f.explain()


def test_a_global_that_is_set_anew_is_seen(monkeypatch):
    captured = pb.function(lambda x: x * SCALE + (lambda: OFFSET)())
    assert run(captured, pb.asarray(X))[-1].tolist() == [3, 6, 9]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert run(captured, pb.asarray(X))[-1].tolist() == [4, 8, 12]
    monkeypatch.setitem(globals(), "OFFSET", pb.asarray(X) * 2)
    assert run(captured, pb.asarray(X))[-1].tolist() == [5, 10, 15]


def test_an_attribute_of_self_that_is_set_anew_is_seen():
    class Scale:
        k = 1.0

        def __init__(self):
            self.k = 2.0

        def __call__(self, x):
            return x * self.k

        @pb.function
        def method(self, x):
            return x + self.k

    scale = Scale()
    captured = pb.function(scale)
    for k in (2.0, 7.0, 2.0):
        scale.k = k
        for _ in range(3):
            assert captured(pb.asarray(X)).tolist() == [k, 2 * k, 3 * k]
            assert scale.method(pb.asarray(X)).tolist() == [1 + k, 2 + k, 3 + k]


def test_python_state_that_the_function_changes_itself_does_not_stand_still():
    class Counter:
        def __init__(self):
            self.calls = 0

        @pb.function
        def method(self, x):
            self.calls += 1
            return x * self.calls

    counter = Counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(1, 15):
            assert counter.method(pb.asarray(X)).tolist() == (X * step).tolist()
            assert len(caught) == (step > 1)
    assert "changes self.calls, which it reads" in str(caught[0].message)


def test_default_dtypes_are_part_of_the_signature():
    captured = pb.function(lambda: pb.ones(2) * 0.1 + pb.arange(2))
    try:
        for name in ("float32", "float64", "float32"):
            pb.set_default_dtype(name)
            assert {result.dtype.name for result in run(captured)} == {name}
    finally:
        pb.set_default_dtype("float32")


def test_kernels_that_are_registered_later_are_called():
    captured = pb.function(lambda x: pb.exp(x))
    before = run(captured, pb.asarray(X))[-1].tolist()
    backend = pb.device("cpu").backend
    backend.register_kernel("exp", lambda x: x * 0 + 7, source="test", priority=99)
    try:
        assert run(captured, pb.asarray(X))[-1].tolist() == [7, 7, 7]
    finally:
        backend.unregister_kernels("test")
    assert run(captured, pb.asarray(X))[-1].tolist() == before


def test_training_is_part_of_the_signature():
    dropout = pb.layers.Dropout(0.5)
    captured = pb.function(dropout)

    class Outer(pb.Model):
        def call(self, x):
            return captured(x)

    outer, x = Outer(), pb.ones((50,))
    for _ in range(4):
        assert outer(x).tolist() == [1.0] * 50
        assert sorted(set(outer(x, training=True).tolist())) == [0.0, 2.0]
        assert captured(x).tolist() == [1.0] * 50
        assert sorted(set(captured(x, training=True).tolist())) == [0.0, 2.0]


def test_a_frozen_layer_is_not_trained():
    dense = pb.layers.Dense(2)
    norm = pb.layers.BatchNormalization()
    x = pb.asarray(np.arange(8.0, dtype=np.float32).reshape(4, 2))
    norm(dense(x))

    @pb.function
    def f(x):
        with pb.GradientTape() as tape:
            y = norm(dense(x), training=True).sum()
        return [str(variable.name) for variable in tape.watched_variables()], y

    for _ in range(3):
        dense.trainable = norm.trainable = True
        for _ in range(3):
            assert f(x)[0] == ["kernel", "bias", "gamma", "beta"]
        dense.trainable = False
        for _ in range(3):
            assert f(x)[0] == ["gamma", "beta"]
        norm.trainable = False
        mean = norm.moving_mean.numpy().copy()
        for _ in range(3):
            assert f(x)[0] == []
        assert norm.moving_mean.numpy().tolist() == mean.tolist()


# What it leaves -----------------------------------------------------------------------------------


def test_a_tensor_of_the_trace_that_is_kept_says_so():
    kept = []

    @pb.function
    def keep(x):
        kept.append(x * 2)
        return x

    x = pb.asarray(X)
    run(keep, x)
    assert kept[0].tolist() == [2, 4, 6]
    (leaked,) = kept[1:]
    message = "belongs to the trace of the captured function 'keep'"
    uses = (
        lambda: leaked + 1, lambda: leaked + x, lambda: x + leaked, lambda: leaked.numpy(),
        lambda: float(leaked[0]), lambda: repr(leaked), lambda: pb.stack([x, leaked]),
        lambda: leaked.to("cpu"), lambda: pb.Variable(X).assign(leaked), lambda: pb.exp(leaked),
        lambda: run(pb.function(lambda x: x + leaked), x),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(CaptureError, match=message):
            use()


def test_variables_are_made_before():
    made = []

    @pb.function
    def lazy(x):
        if not made:
            made.append(pb.Variable(x * 0))
        made[0].assign_add(x)
        return made[0] * 1.0

    assert [result.tolist()[0] for result in run(lazy, pb.asarray(X), times=4)] == [1, 2, 3, 4]
    assert programs(lazy) == "1 program"

    always = pb.function(lambda x: pb.Variable(x, name="new") * 2)
    always(pb.asarray(X))
    always(pb.asarray(X))
    with pytest.raises(CaptureError, match=r"makes a variable \('new'\).*make it before"):
        always(pb.asarray(X))


def test_layers_that_are_made_at_a_later_call_of_a_signature():
    layers = [pb.layers.Dense(2)]

    @pb.function
    def f(x):
        return layers[-1](x)

    x = pb.ones((2, 3))
    run(f, x)
    layers[0] = pb.layers.Dense(2)
    other = pb.function(lambda x: layers[0](x))
    run(other, x)
    layers.append(pb.layers.Dense(2))

    current = layers[0]

    @pb.function
    def g(x):
        return current(x)

    run(g, x)
    current = pb.layers.Dense(2)
    for result in run(g, x, times=4):
        assert result.tolist() == current(x).tolist()


def test_parts_of_tensors_from_outside_are_not_assigned():
    table = pb.asarray(X)

    def closure(x):
        table[0] = 9.0
        return x

    def argument(x):
        x[0] = 9.0
        return x

    def own(x):
        y = pb.asarray(x, copy=True)
        y[0] = x[2]
        return y

    for f, message in ((closure, "a tensor that was made outside"), (argument, "an argument")):
        captured = pb.function(f)
        captured(pb.asarray(X))
        with pytest.raises(CaptureError, match=f"assigns parts of {message}"):
            captured(pb.asarray(X))
    assert [r.tolist() for r in run(pb.function(own), pb.asarray(X))] == [[3, 2, 3]] * 3


# Numbers of the host ------------------------------------------------------------------------------


def test_the_step_of_an_optimizer_is_another_at_each_call():
    optimizer, v = pb.optimizers.SGD(0.5), pb.Variable(0.0)

    @pb.function
    def f(x):
        optimizer.apply_gradients([(x, v)])
        return v * optimizer.step, optimizer.step

    x = pb.asarray(1.0)
    assert [(float(y), step) for y, step in run(f, x, times=4)] == [
        (-0.5, 1), (-2.0, 2), (-4.5, 3), (-8.0, 4),
    ]  # fmt: skip
    looks = pb.function(lambda x: x if optimizer.step > 100 else x * 2)
    looks(x)
    with pytest.raises(CaptureError, match="a number that changes from call to call"):
        looks(x)


def test_a_learning_rate_that_is_set_and_schedules():
    def losses(captured):
        optimizer, v = pb.optimizers.Adam(0.5), pb.Variable(3.0)

        def step(x):
            optimizer.minimize(lambda: v * v * x)
            optimizer.minimize(lambda: v * x)
            return v * 1.0

        f = pb.function(step) if captured else step
        results = []
        for rate in (0.5, 0.25, 10, lambda step: 1 / (step + 1), pb.Variable(0.125)):
            optimizer.learning_rate = rate
            results += [float(result) for result in run(f, pb.asarray(1.5), times=4)]
        return results, optimizer.step

    assert losses(True) == losses(False)


def test_accumulated_gradients_are_steered_by_a_counter():
    def values(captured):
        optimizer, v = pb.optimizers.SGD(0.5, 0.9, accumulate_steps=2), pb.Variable(X)

        def step(x):
            optimizer.apply_gradients([(x, v)])
            return v * 1.0

        f = pb.function(step) if captured else step
        results = [f(pb.asarray(X) * n).tolist() for n in range(12)]
        return results, optimizer.step, optimizer.checkpoint_state(), f

    *found, f = values(True)
    assert found == list(values(False)[:-1])
    assert programs(f) == "2 programs"


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_gradients_that_are_accumulated_twice_in_a_call(steps):
    def values(captured):
        optimizer, v = pb.optimizers.SGD(0.5, 0.9, accumulate_steps=steps), pb.Variable(X)

        def step(x):
            optimizer.apply_gradients([(x, v)])
            optimizer.apply_gradients([(x * 2, v)])
            return v * 1.0

        f = pb.function(step) if captured else step
        return [f(pb.asarray(X) * n).tolist() for n in range(12)], optimizer.step

    assert values(True) == values(False)


def test_slots_that_are_restored_are_those_that_move():
    optimizer, v = pb.optimizers.SGD(0.5, 0.5), pb.Variable(0.0)

    @pb.function
    def f(x):
        optimizer.apply_gradients([(x, v)])
        return v * 1.0

    run(f, pb.asarray(1.0))
    optimizer.restore_state({"step": 0})  # without slots: they start anew
    v.assign(0.0)
    assert [float(result) for result in run(f, pb.asarray(1.0))] == [-0.5, -1.25, -2.125]
    assert len(optimizer.variables) == 1


def test_settings_that_are_changed_are_seen():
    optimizer, v = pb.optimizers.SGD(1.0), pb.Variable(0.0)
    f = pb.function(lambda x: optimizer.apply_gradients([(x, v)]))
    run(f, pb.asarray(1.0))
    optimizer.clip_value = 0.5
    run(f, pb.asarray(1.0))
    assert float(v) == -4.5


def test_random_state_is_neither_read_nor_set():
    generator = pb.Generator(3)
    cases = {
        "sets the state": lambda: pb.random.seed(3),
        "reads the state": lambda: generator.state,
        "computes with the state": lambda: generator.split(),
    }
    for message, f in cases.items():
        captured = pb.function(f)
        captured()
        before = generator.state
        for attempt in range(2):
            try:
                captured()
            except CaptureError as error:
                assert message in str(error)  # noqa: PT017
                break
            assert attempt == 0
        else:
            raise AssertionError(message)
        assert message == "reads the state" or generator.state == before


def test_a_trace_that_ends_early_draws_nothing():
    generator = pb.Generator(3)

    @pb.function(strict=False)
    def f(x):
        drawn = generator.uniform((3,))
        return drawn if x.sum() > 0 else drawn * 2

    with pytest.warns(RuntimeWarning, match="looks at the values"):
        found = [result.tolist() for result in run(f, pb.asarray(X), times=4)]
    generator.state = (3, 0)
    assert found == [generator.uniform((3,)).tolist() for _ in range(4)]


# Metrics ------------------------------------------------------------------------------------------


class Largest(pb.metrics.Metric):
    """A metric whose state is a tensor and a number."""

    initial = types.MappingProxyType({"largest": None, "count": 0})

    def update(self, values):
        top = pb.max(values)
        self.largest = top if self.largest is None else pb.maximum(self.largest, top)
        self.count = self.count + 1

    def result(self):
        return float(self.largest), self.count


@pytest.mark.parametrize("make", [pb.metrics.Mean, pb.metrics.Sum, Largest])
def test_metrics_are_updated(make):
    metric = make()

    @pb.function
    def f(x):
        metric(x)
        metric(x * 2)

    eager = make()
    for step in range(70):
        x = pb.asarray(X) * ((step * 7) % 11)
        f(x)
        eager(x)
        eager(x * 2)
        assert metric.result() == eager.result()
        if step == 40:
            metric.reset()
            eager.reset()
    assert "program" in programs(f)


def test_accuracy_with_weights_and_a_metric_that_is_read_inside():
    metric, eager = pb.metrics.SparseCategoricalAccuracy(), pb.metrics.SparseCategoricalAccuracy()
    f = pb.function(metric)
    rng = np.random.default_rng(3)
    for _ in range(5):
        scores = pb.asarray(rng.standard_normal((6, 3), np.float32))
        targets, weights = pb.asarray(rng.integers(0, 3, 6)), pb.asarray(rng.random(6))
        f(targets, scores, weights)
        eager(targets, scores, weights)
        assert metric.result() == eager.result()
    reads = pb.function(lambda x: metric.result())
    reads(pb.asarray(X))
    with pytest.raises(CaptureError, match="reads the metric"):
        reads(pb.asarray(X))


@pytest.mark.filterwarnings("ignore:.*looks at the values")
@pytest.mark.parametrize(
    "name", ["AUC", "MeanSquaredError", "BinaryAccuracy", "F1Score", "R2Score", "Recall"]
)
def test_metrics_of_pairs(name):
    metric, eager = getattr(pb.metrics, name)(), getattr(pb.metrics, name)()
    f = pb.function(metric, strict=False)
    rng = np.random.default_rng(3)
    for _ in range(5):
        scores, targets = pb.asarray(rng.random(6)), pb.asarray(rng.integers(0, 2, 6))
        f(targets, scores)
        eager(targets, scores)
        assert metric.result() == eager.result()


def test_loss_scaling_takes_one_step_in_a_call():
    optimizer = pb.optimizers.LossScale(pb.optimizers.SGD(0.1))
    v = pb.Variable(1.0)

    @pb.function
    def f():
        optimizer.minimize(lambda: v * v)
        return optimizer.minimize(lambda: v * v)

    f()
    value = float(v)
    with pytest.raises(CaptureError, match="the scale of a LossScale after a step that may be"):
        f()
    assert (float(v), optimizer.step, optimizer.scale) == (value, 2, 2.0**15)


# Tapes outside ------------------------------------------------------------------------------------


def test_a_tape_outside_differentiates_through_the_function():
    v = pb.Variable(2.0)
    captured = pb.function(lambda x: pb.sin(x) * v * x)
    x = pb.asarray(X)
    for _ in range(4):
        captured(x)
        with pb.GradientTape() as outer:
            outer.watch(x)
            with pb.GradientTape() as tape:
                tape.watch(x)
                y = captured(x)
            (first,) = tape.gradient(y, [x])
        second = outer.gradient(first, [x, v])
        expected = pb.grad(pb.grad(lambda x: (pb.sin(x) * 2.0 * x).sum()))
        assert second[0].tolist() == pytest.approx(expected(x).tolist(), rel=1e-5)
        assert second[0].shape == (3,)
        assert second[1] is not None


def test_four_threads_trace_and_run():
    captured = [pb.function(lambda x, n=n: x * n + pb.sum(x)) for n in range(3)]

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            n = int(rng.integers(3))
            x = pb.asarray(rng.standard_normal(int(rng.integers(1, 5)), np.float32))
            assert captured[n](x).tolist() == (x * n + pb.sum(x)).tolist()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))


def test_numbers_beside_tensors_from_outside_are_not_kept_for_calls_outside():
    table = pb.asarray([1.0, 2.0])
    program = pb.function(lambda x: table * 3.25 + x + (-1.75 - table)).lower(pb.ones(2))
    assert program.graph.calls[0].op.name == "multiply"
    assert (table * 3.25).tolist() == [3.25, 6.5]
    assert (-1.75 - table).tolist() == [-2.75, -3.75]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_traces():
    inside, leave = threading.Event(), threading.Event()
    leave.set()

    @pb.function
    def slow(x):
        inside.set()
        leave.wait()
        return x * 2

    slow(1.0)
    inside.clear()
    leave.clear()
    thread = threading.Thread(target=slow, args=(1.0,))
    thread.start()
    inside.wait()
    child = os.fork()
    if not child:
        try:
            captured = pb.function(lambda x: x * 3)
            os._exit(int([float(y) for y in run(captured, pb.asarray(1.0))] != [3.0] * 3))
        finally:
            os._exit(1)
    leave.set()
    thread.join()
    done, deadline = 0, time.monotonic() + 30
    while not done and time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    if not done:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == child
    assert status == 0


def test_floats_that_vary_are_not_kept():
    captured = pb.function(lambda x, k: x * k if k < 0 else x)
    for k in range(40):
        with warnings.catch_warnings(record=True):
            captured(1.0, float(k))
    assert len(captured._values["k", float]) == 3


def test_lower_of_a_model_that_is_not_built_says_to_call_it_first():
    model = pb.Sequential([pb.layers.Flatten(), pb.layers.Dropout(0.5), pb.layers.Dense(2)])
    with pytest.raises(CaptureError, match=r"makes a variable \('kernel'\).* first called$"):
        pb.function(model).lower(pb.ones((2, 3)))
    model(pb.ones((2, 3)))
    program = pb.function(model).lower(pb.ones((2, 3)))
    assert repr(program) == "<program Sequential(args[0]: float32[2, 3]) on cpu:0>"


@pytest.mark.parametrize("tracer", [None, lambda frame, event, arg: None])
def test_a_function_that_stops_what_follows_it_has_no_program(tracer):
    before = sys.gettrace()

    def f(x):
        sys.settrace(tracer)
        return x * SCALE

    captured = pb.function(f)
    try:
        captured(pb.asarray(X))
        with pytest.raises(CaptureError, match="does not say what it runs"):
            captured(pb.asarray(X))
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_sums_of_integers_have_the_default_dtype(name):
    """Their kernels get it from dispatch, which a trace is below."""
    x = pb.asarray(np.arange(4, dtype=np.int16))
    functions = [pb.sum, pb.prod, lambda x: pb.cumulative_sum(x, axis=0)]
    try:
        pb.set_default_dtype(name)
        for function in functions:
            expected = function(x)
            for result in run(pb.function(function), x):
                assert result.dtype == expected.dtype
                assert result.tolist() == expected.tolist()
    finally:
        pb.set_default_dtype("float32")
