"""Functions and objects of the user's that the framework calls in a captured function."""

import contextlib
import gc
import itertools
import sys
import types

import numpy as np
import pytest

import pullback as pb
from pullback._dispatch.recording import LOCAL, RECORDING
from pullback._symbols import TRACES
from pullback.devices import as_device

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((6, 4), np.float32), RNG.standard_normal((6, 3), np.float32)
FACTOR = 1.0


def with_factor(y, p):
    return pb.mean((y - p) ** 2) * FACTOR


class Loss:
    factor = 1.0

    def __call__(self, y, p):
        return pb.mean((y - p) ** 2) * self.factor


class Largest(pb.metrics.Metric):
    initial = types.MappingProxyType({"largest": None})
    factor = 1.0

    def update(self, y, p):
        now = pb.max(pb.abs(y - p)) * self.factor
        self.largest = now if self.largest is None else pb.maximum(self.largest, now)

    def result(self):
        return float(self.largest)


class Momentum(pb.optimizers.Optimizer):
    slot_names = ("sum",)
    factor = 1.0

    def update(self, variable, gradient, rate, step):
        total = self.slot(variable, "sum")
        total.assign(total * 0.5 + gradient)
        variable.assign_sub(total * rate * self.factor)


class Base(pb.layers.Layer):
    factor = 1.0

    def __init__(self):
        super().__init__()
        self.offset = 0.0

    def call(self, x):
        return x * self.factor + self.offset


class Derived(Base):
    def call(self, x):
        return super().call(x) * 2


def agree(make, changes, calls=3):
    """Holds captured calls against eager ones, before and after each change of something outside.

    Args:
        make: makes all there is, captured if its argument is True; returns a function to call, and
            what the changes get.
        changes: functions that change it.
        calls: the number of calls after each change.
    """

    def results(captured):
        call, thing = make(captured)
        for change in (lambda thing: None, *changes):
            change(thing)
            yield [call() for _ in range(calls)]

    eager, captured = list(results(False)), list(results(True))
    assert captured == eager
    assert all(before != after for before, after in itertools.pairwise(eager))


def set_factor(value):
    def change(thing):
        if thing is None:
            globals()["FACTOR"] = value
        else:
            thing.factor = value

    return change


@pytest.fixture(autouse=True)
def unchanged(monkeypatch):
    """The values as they are here, after each test."""
    monkeypatch.setitem(globals(), "FACTOR", FACTOR)
    for kind in (Loss, Largest, Momentum, Base):
        monkeypatch.setattr(kind, "factor", kind.factor)


def compiled(captured, loss="mean_squared_error", metrics=(), layers=None):
    pb.random.seed(0)
    model = pb.Sequential(layers or [pb.layers.Dense(3)])
    model.compile("sgd", loss, metrics, capture=captured)
    return model


def fit(model):
    def call():
        history = model.fit(X, Y, epochs=1, batch_size=3, verbose=False, shuffle=False).history
        return history, dict(model.evaluate(X, Y, verbose=False))

    return call


# Training -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "thing"), [(with_factor, None), (Loss(), "loss")])
def test_losses(loss, thing):
    def make(captured):
        own = type(loss)() if thing else loss
        set_factor(1.0)(own if thing else None)
        return fit(compiled(captured, own)), own if thing else None

    agree(make, [set_factor(5.0), set_factor(0.5)])


def test_functions_as_metrics():
    def make(captured):
        set_factor(1.0)(None)
        return fit(compiled(captured, metrics=[with_factor])), None

    agree(make, [set_factor(5.0), set_factor(0.5)])


def test_metrics():
    def make(captured):
        metric = Largest("largest")
        return fit(compiled(captured, metrics=[metric])), metric

    agree(make, [set_factor(5.0), set_factor(0.5)])


def test_settings_of_metrics():
    def make(captured):
        metric = pb.metrics.BinaryAccuracy()
        update = pb.function(metric) if captured else metric
        y, p = pb.asarray([0.0, 1.0, 1.0]), pb.asarray([0.2, 0.6, 0.9])

        def call():
            metric.reset()
            update(y, p)
            return metric.result()

        return call, metric

    agree(make, [lambda metric: setattr(metric, "threshold", 0.7)])


def test_regularizers():
    def make(captured):
        set_factor(1.0)(None)
        layer = pb.layers.Dense(3, kernel_regularizer=lambda w: pb.sum(w * w) * FACTOR)
        return fit(compiled(captured, layers=[layer])), None

    agree(make, [set_factor(5.0), set_factor(0.5)])


def step_of(optimizer, captured):
    variable, gradient = pb.Variable(X), pb.asarray(Y @ np.ones((3, 4), np.float32))

    def step():
        optimizer.apply_gradients([(gradient, variable)])

    step = pb.function(step) if captured else step

    def call():
        step()
        return variable.numpy().tolist()

    return call, variable


def test_optimizers():
    def make(captured):
        set_factor(1.0)(Momentum)
        optimizer = Momentum(0.1)
        return step_of(optimizer, captured)[0], optimizer

    agree(make, [lambda optimizer: set_factor(7.0)(Momentum), set_factor(3.0), set_factor(2.0)])


def test_factors_of_variables():
    def make(captured):
        factors = {}
        call, variable = step_of(pb.optimizers.SGD(0.1, rate_scale=factors), captured)
        factors[variable] = 1.0
        return call, lambda value: factors.update({variable: value})

    agree(make, [lambda set_: set_(0.5), lambda set_: set_(3.0)])


# Layers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Base, Derived])
def test_layers(kind):
    def make(captured):
        set_factor(1.0)(Base)
        layer = kind()
        model = pb.Sequential([layer])
        f = pb.function(lambda x: model(x) + 1) if captured else lambda x: model(x) + 1
        return lambda: f(X).tolist(), layer

    own = [
        lambda layer: setattr(layer, "offset", 2.0),
        lambda layer: set_factor(3.0)(Base),
        set_factor(4.0),
        lambda layer: setattr(layer, "call", lambda x: x * 5),
        lambda layer: delattr(layer, "call"),
    ]
    agree(make, own)


def test_the_call_of_a_class(monkeypatch):
    def make(captured):
        monkeypatch.setattr(Base, "call", lambda self, x: x * 2)
        model = pb.Sequential([Base()])
        f = pb.function(lambda x: model(x) + 1) if captured else lambda x: model(x) + 1
        return lambda: f(X).tolist(), monkeypatch

    agree(make, [lambda patch: patch.setattr(Base, "call", lambda self, x: x * 7)])


def test_settled_functions_make_no_more_programs():
    model = compiled(True, Loss(), [Largest("largest"), with_factor])
    fit(model)()
    fit(model)()
    steps = model.compiled._captured.values()
    programs = [len(step._all()) for step in steps]
    for _ in range(4):
        fit(model)()
    assert [len(step._all()) for step in steps] == programs
    assert all(0 < count <= 2 for count in programs)


@contextlib.contextmanager
def scope(by):
    yield by * FACTOR


def managed(x):
    with scope(2.0) as factor, scope(0.5):
        return pb.sin(x) * factor


@pb.custom_gradient
def with_rule(x):
    def backward(g):
        with scope(3.0) as factor:
            return g * factor

    return managed(x), backward


#: Ways in which the framework calls a function, from within `with` blocks of its own.
WAYS = {
    "call": managed,
    "remat": pb.remat(managed),
    "custom_gradient": with_rule,
    "cond": lambda x: pb.cond(pb.sum(x) > 0, lambda: managed(x), lambda: managed(x) * 2),
    "fori_loop": lambda x: pb.fori_loop(0, 3, lambda i, c: managed(c), x),
    "scan": lambda x: pb.scan(lambda c, r: (managed(c), c * r), pb.mean(x), x)[1],
    "vmap": lambda x: pb.vmap(managed)(pb.stack([x, x])),
    "grad": lambda x: pb.grad(lambda z: pb.sum(managed(z)))(x),
    "jvp": lambda x: pb.jvp(managed, (x,), (x,))[1],
    "layer": pb.layers.Lambda(managed),
    "Sequential": pb.Sequential([pb.layers.Lambda(managed)], remat=True),
    "function": pb.function(managed),
}


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_context_managers_of_functions_that_the_framework_calls(way, taped):
    def step(x):
        if not taped:
            return WAYS[way](x)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(WAYS[way](x))
        return tape.gradient(y, x)

    captured = pb.function(step)
    for sign in (1.0, 1.0, -1.0, 1.0):
        x = pb.asarray([1.0, -2.0, 0.5]) * sign
        assert captured(x).tolist() == step(x).tolist()


SLOPES = {"of the rule": 2.0}


@pb.custom_gradient
def sloped(x):
    def backward(g):
        return g * SLOPES["of the rule"]

    return x * 1.0, backward


@pb.custom_gradient
def debugged(x):
    def backward(g):
        sys.settrace(lambda *_: None)
        return g * SLOPES["of the rule"]

    return x * 1.0, backward


def gradient_of(f):
    def step(x):
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(f(pb.sin(x)) ** 2)
        return tape.gradient(y, x)

    return step


def test_what_a_rule_reads_amid_a_backward_pass_is_compared(monkeypatch):
    captured = pb.function(gradient_of(sloped))
    x = pb.asarray([0.5, 1.0])
    for slope in (2.0, 2.0, 2.0, 3.0, 3.0, 2.0):
        monkeypatch.setitem(SLOPES, "of the rule", slope)
        assert captured(x).tolist() == gradient_of(sloped)(x).tolist()
    assert len(captured._all()) == 2


def test_a_debugger_that_a_rule_starts_is_seen(monkeypatch):
    before = sys.gettrace()
    captured = pb.function(gradient_of(debugged))
    x = pb.asarray([0.5, 1.0])
    try:
        captured(x)
        sys.settrace(before)
        with pytest.raises(pb.errors.CaptureError, match=r"sys\.settrace"):
            captured(x)
    finally:
        sys.settrace(before)


class Collector:
    """Counts collections, as tools do that measure them."""

    count = 0

    def noted(self, phase, info):
        self.count += len(str(self.count) + phase)

    def called(self, phase, info):
        self.noted(phase, info)


@pytest.mark.parametrize("kind", ["method", "function"])
def test_what_the_collector_of_garbage_calls_is_no_part_of_the_function(kind):
    collector = Collector()
    called = collector.called if kind == "method" else lambda *each: collector.called(*each)
    gc.callbacks.append(called)

    @pb.function
    def step(x):
        gc.collect(0)
        return x * len([gc.collect(0), x])

    try:
        for _ in range(4):
            assert step(pb.ones(2)).tolist() == [2.0, 2.0]
    finally:
        gc.callbacks.remove(called)
    assert collector.count
    assert len(step._all()) == 1


def failing(x):
    if FAULT[0] == "raises":
        raise KeyError("failing")
    if FAULT[0] == "looks":
        return x * float(pb.sum(x))
    if FAULT[0] == "draws":
        return x * pb.random.uniform(x.shape)
    if FAULT[0] == "makes":
        return x * pb.Variable(1.0)
    with scope(2.0):
        raise KeyError("failing in a block")


FAULT = [""]
FAULTS = ("raises", "looks", "draws", "makes", "raises in a block")


def managed_and_failing(x):
    with scope(2.0) as factor:
        x = pb.sin(x) * factor
    return failing(x)


@pytest.mark.parametrize(("outside", "taped"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("way", WAYS)
def test_blocks_are_left_where_the_function_fails(way, outside, taped, monkeypatch):
    """Whatever ends a trace, the thread then has the device, the tapes and the counts of before."""
    monkeypatch.setitem(globals(), "managed", managed_and_failing)
    ways = {
        **WAYS,
        "call": managed_and_failing,
        "remat": pb.remat(managed_and_failing),
        "layer": pb.layers.Lambda(managed_and_failing),
        "Sequential": pb.Sequential([pb.layers.Lambda(managed_and_failing)], remat=True),
        "function": pb.function(managed_and_failing),
    }

    def step(x):
        if not taped:
            return ways[way](x)
        with pb.GradientTape() as tape:
            tape.watch(x)
            y = pb.sum(ways[way](x))
        return tape.gradient(y, x)

    def held():
        state = LOCAL.state
        return (
            *(as_device(None), [*state.tapes], state.recording, state.capture),
            *(RECORDING.count, TRACES.count, pb.executing_eagerly()),
        )

    x = pb.asarray([1.0, -2.0, 0.5])
    for fault in FAULTS:
        FAULT[0] = fault
        captured = pb.function(step)
        before = held()
        for _ in range(2):
            with contextlib.suppress(KeyError, pb.errors.PullbackError):
                if outside:
                    with pb.GradientTape() as tape:
                        tape.watch(x)
                        captured(x)
                else:
                    captured(x)
            assert held() == before
