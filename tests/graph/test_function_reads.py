"""Reads of a captured function beside its arguments: other values make another program."""

import functools
import gc
import sys
import types
import warnings

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CaptureError

X = np.arange(1.0, 4.0, dtype=np.float32)
FACTOR = 2.0


def factor_of_helper(x):
    return x * FACTOR


def through_another(x):
    return factor_of_helper(x)


def run(f, times=3):
    """The first number of the result of each of some calls with ones."""
    return [float(f(pb.ones(3))[0]) for _ in range(times)]


def check(f, change):
    """Checks a captured function beside the plain one, before and after a change, and again."""
    captured = pb.function(f)
    for value in (3.0, 5.0, 3.0, 4.0):
        change(value)
        assert run(captured) == run(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        programs = len(captured._all())
        run(captured, 5)
    assert programs == len(captured._all()) <= 4


class Settings:
    limit = 1.0

    def __init__(self):
        self.factor = 2.0
        self.inner = types.SimpleNamespace(factor=2.0)
        self.factors = [2.0]


class Slotted:
    __slots__ = ("factor",)


# Where values are ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f", [factor_of_helper, through_another, functools.partial(through_another)]
)
def test_globals_of_functions_that_are_called(f, monkeypatch):
    check(lambda x: f(x), lambda value: monkeypatch.setitem(globals(), "FACTOR", value))


def test_cells_of_functions_that_are_called():
    factor = 2.0

    def helper(x):
        return x * factor

    def set_factor(value):
        nonlocal factor
        factor = value

    check(lambda x: helper(x), set_factor)


def test_decorated_and_captured_functions_that_are_called(monkeypatch):
    @functools.wraps(factor_of_helper)
    def wrapped(x):
        return factor_of_helper(x)

    captured = pb.function(through_another)
    check(lambda x: wrapped(x), lambda value: monkeypatch.setitem(globals(), "FACTOR", value))
    check(lambda x: captured(x), lambda value: monkeypatch.setitem(globals(), "FACTOR", value))


def test_attributes_of_objects():
    settings, slotted = Settings(), Slotted()
    slotted.factor = 2.0
    check(lambda x: x * settings.factor, lambda value: setattr(settings, "factor", value))
    check(lambda x: x * slotted.factor, lambda value: setattr(slotted, "factor", value))
    inner = settings.inner
    check(lambda x: x * settings.inner.factor, lambda value: setattr(inner, "factor", value))
    check(
        lambda x: x * settings.inner.factor,
        lambda value: setattr(settings, "inner", types.SimpleNamespace(factor=value)),
    )


def test_attributes_of_classes_and_modules(monkeypatch):
    settings = Settings()
    module = types.ModuleType("a_module_of_the_user")
    module.factor = 2.0
    monkeypatch.setitem(sys.modules, module.__name__, module)
    check(lambda x: x * Settings.limit, lambda value: setattr(Settings, "limit", value))
    check(lambda x: x * settings.limit, lambda value: setattr(Settings, "limit", value))
    check(lambda x: x * module.factor, lambda value: setattr(module, "factor", value))


def test_methods_and_properties_of_objects():
    class Scale:
        def __init__(self):
            self.k = 2.0

        @property
        def twice(self):
            return 2 * self.k

        def scale(self, x):
            return self.apply(x) + self.twice

        def apply(self, x):
            return x * self.k

        def __call__(self, x):
            return self.scale(x)

    scale = Scale()
    for f in (scale.scale, scale, lambda x: scale(x), lambda x: scale.scale(x)):
        check(f, lambda value: setattr(scale, "k", value))


def test_items_of_lists_and_dicts():
    factors, table = [1.0, 2.0], {"scale": {"factor": 2.0}}
    settings = Settings()
    check(lambda x: x * factors[1], lambda value: factors.__setitem__(1, value))
    check(
        lambda x: x * table["scale"]["factor"],
        lambda value: table["scale"].__setitem__("factor", value),
    )
    check(lambda x: x * settings.factors[0], lambda value: settings.factors.__setitem__(0, value))
    check(
        lambda x: x * len(factors),
        lambda value: factors.__setitem__(slice(None), [1.0] * int(value)),
    )


def test_globals_that_are_not_there_yet(monkeypatch):
    def with_default(x):
        try:
            return x * LATER
        except NameError:
            return x

    def set_later(value):
        monkeypatch.setitem(globals(), "LATER", value)
        if value == 3.0:
            monkeypatch.delitem(globals(), "LATER")

    check(with_default, set_later)


def test_short_arrays_of_numpy():
    table, rows = np.ones(3, np.float32), {"a": np.arange(64.0)}
    check(lambda x: x * table, lambda value: table.__setitem__(slice(None), value))
    check(lambda x: x * float(table[0]), lambda value: table.__setitem__(slice(None), value))
    check(lambda x: x * rows["a"][5].item(), lambda value: rows["a"].__setitem__(5, value))


def test_variables_tensors_and_layers_that_others_replace():
    held = {"v": pb.Variable(2.0), "t": pb.asarray(2.0)}
    layers = [pb.layers.Rescaling(2.0)]
    check(lambda x: x * held["v"], lambda value: held.__setitem__("v", pb.Variable(value)))
    check(lambda x: x * held["t"], lambda value: held.__setitem__("t", pb.asarray(value)))
    check(lambda x: layers[0](x), lambda value: layers.__setitem__(0, pb.layers.Rescaling(value)))


# Layers -------------------------------------------------------------------------------------------


class Scaled(pb.layers.Layer):
    def __init__(self):
        super().__init__()
        self.k = 2.0
        self.options = {"add": 0.0}

    def call(self, x):
        return self.scaled(x) + self.options["add"]

    def scaled(self, x):
        return x * self.k


def test_attributes_of_layers():
    layer = Scaled()
    model = pb.Sequential([layer, pb.layers.Dense(3, kernel_initializer="ones")])

    def call(x):
        return model(pb.reshape(x, (1, 3)))[0]

    check(layer, lambda value: setattr(layer, "k", value))
    check(call, lambda value: setattr(layer, "k", value))
    check(call, lambda value: layer.options.__setitem__("add", value))
    dropout = pb.layers.Dropout(0.5)
    check(
        lambda x: pb.max(dropout(pb.ones(100), training=True)) * x,
        lambda value: setattr(dropout, "rate", 1 - 1 / value),
    )
    dense = model.layers[1]
    activations = {3.0: pb.relu, 5.0: pb.tanh, 4.0: None}
    check(lambda x: call(-x), lambda value: setattr(dense, "activation", activations[value]))


def test_attributes_of_layers_that_are_set_past_the_layer():
    layer = Scaled()
    check(layer, lambda value: vars(layer).update(k=value))
    check(layer, lambda value: object.__setattr__(layer, "k", value))


def test_attributes_that_a_layer_only_writes_may_hold_tensors():
    class Watched(pb.layers.Layer):
        def call(self, x):
            self.last = x * 2
            return x * 3

    layer = Watched()
    captured = pb.function(layer)
    assert run(captured, 5) == [3.0] * 5
    assert len(captured._all()) == 1


# State that is not a variable ---------------------------------------------------------------------


def accumulating(kind):
    """A function that adds its argument to a tensor outside, and what that tensor is now."""
    if kind == "attribute":
        holder = types.SimpleNamespace(total=pb.zeros(3))

        def f(x):
            holder.total = holder.total + x
            return holder.total

        return f, lambda: holder.total
    if "class" in kind:
        own = {"__getattribute__": lambda self, name: object.__getattribute__(self, name)}
        base = type("Base", (), {"total": pb.zeros(3), **(own if "own" in kind else {})})
        holder = base if kind == "class" else type("Derived", (base,), {})
        holder = holder() if "instance" in kind else holder

        def of_class(x):
            holder.total = holder.total + x
            return holder.total

        return of_class, lambda: holder.total
    if kind == "cell":
        total = pb.zeros(3)

        def g(x):
            nonlocal total
            total = total + x
            return total

        return g, lambda: total
    table = [pb.ones(1), pb.zeros(3)] if kind == "list" else {"a": 1, 1: pb.zeros(3)}

    def h(x):
        table[1] = table[1] + x
        return table[1]

    return h, lambda: table[1]


KINDS = (
    "attribute", "cell", "list", "dict", "class", "class that inherits it", "instance of a class",
    "instance of a class with its own look-up",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_is_kept_for_the_next_call_is_an_error_that_changes_nothing(kind):
    f, total = accumulating(kind)
    captured = pb.function(f)
    assert captured(pb.asarray(X)).tolist() == X.tolist()
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"keeps a tensor in .* make a pb.Variable"):
            captured(pb.asarray(X))
        assert total().tolist() == X.tolist()


def test_a_list_of_tensors_that_grows_and_is_read():
    kept = []

    def summed(x, kept=kept):
        kept.append(x)
        return sum(kept)

    captured = pb.function(summed)
    assert captured(pb.ones(3)).tolist() == [1.0] * 3
    for _ in range(2):
        with pytest.raises(CaptureError, match=r"keeps a tensor in what is in .*reads it at the n"):
            captured(pb.ones(3))
        assert len(kept) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_such_a_function_runs_op_by_op_on_request(kind):
    f, total = accumulating(kind)
    captured = pb.function(f, strict=False)
    with pytest.warns(RuntimeWarning, match="keeps a tensor in"):
        found = [captured(pb.asarray(X)).tolist() for _ in range(4)]
    assert found == [(X * n).tolist() for n in range(1, 5)]
    assert total().tolist() == (X * 4).tolist()


def test_lists_that_grow_make_no_further_programs():
    calls = []

    @pb.function
    def f(x):
        calls.append(1)
        return x * 2

    assert run(f, 5) == [2.0] * 5
    assert calls == [1, 1]
    assert len(f._all()) == 1


def test_lists_that_grow_and_are_read_are_as_op_by_op():
    calls = []

    @pb.function
    def f(x):
        calls.append(len(calls))
        return x * len(calls)

    with pytest.warns(RuntimeWarning, match="changes the length of calls"):
        assert run(f, 5) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert calls == [0, 1, 2, 3, 4]


# Results ------------------------------------------------------------------------------------------


def generated(x):
    yield x * 2


async def waited(x):
    return x * 2


def attached(x):
    return types.SimpleNamespace(y=x * 2)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (generated, "returns a generator, which gives its values once.*return a list"),
        (lambda x: zip([x], [x], strict=True), "returns a zip, which gives its values once"),
        (waited, "returns a coroutine"),
        (attached, "returns a SimpleNamespace with a tensor in its attribute 'y'.*tuple, list or"),
    ],
)
@pytest.mark.filterwarnings("ignore:coroutine")
def test_results_that_a_program_cannot_make_again(f, message):
    captured = pb.function(f)
    captured(pb.asarray(X))
    for _ in range(2):
        with pytest.raises(CaptureError, match=message):
            captured(pb.asarray(X))
    if f is waited:
        gc.collect()  # the warning of a coroutine that nobody awaits comes in this test
    if f is generated:
        lenient = pb.function(f, strict=False)
        with pytest.warns(RuntimeWarning, match="returns a generator"):
            found = [list(lenient(pb.asarray(X))) for _ in range(3)]
        assert [[y.tolist() for y in ys] for ys in found] == [[[2, 4, 6]]] * 3
