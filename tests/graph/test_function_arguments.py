"""Arguments of captured functions that are more than tensors: objects, containers, functions."""

import collections
import dataclasses
import functools
import sys
import types

import numpy as np
import pytest

import pullback as pb
from pullback.errors import CaptureError

X = np.arange(1.0, 4.0, dtype=np.float32)
ONE = np.ones((), np.float32)
Pair = collections.namedtuple("Pair", "x y")


class Items(list):
    """A list with an attribute of its own."""


class Numbers(tuple):
    pass


class Slotted(tuple):
    __slots__ = ()


def check(f, change, arguments=()):
    """Checks a captured function beside the plain one, before and after changes of a value."""
    captured, plain = pb.function(f), getattr(f, "__wrapped__", f)
    x = pb.asarray(ONE)
    for value in (3.0, 5.0, 3.0):
        change(value)
        for _ in range(3):
            assert float(captured(x, *arguments)) == float(plain(x, *arguments)) != 0
    assert len(captured._all()) <= 3


# Objects ------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Settings:
    factor: float = 2.0
    tensor: object = None


def scaled(settings, x):
    return x * settings.factor


class Scale:
    options = types.MappingProxyType({})
    table = {"factor": 2.0}  # noqa: RUF012
    absent = None
    k = 2.0

    @classmethod
    def of_class(cls, x):
        return x * cls.k

    @staticmethod
    def static(x):
        return x * Scale.k

    def calls_both(self, x):
        return self.of_class(x) + self.static(x)

    def __mul__(self, x):
        return x * self.k

    @pb.function
    def inner(self, x):
        return x * self.k

    def __getitem__(self, name):
        return self.table[name]


class Derived(Scale):
    pass


DERIVED = Derived()


def test_what_an_object_holds_may_change():
    settings = Settings()
    set_factor = functools.partial(setattr, settings, "factor")
    check(lambda x, s: x * s.factor, set_factor, (settings,))
    check(lambda x, s: scaled(s, x), set_factor, (settings,))
    check(lambda x, *, s=settings: scaled(s, x), set_factor)
    check(functools.partial(scaled, settings), set_factor)
    check(
        lambda x, s: x * s.tensor,
        lambda value: setattr(settings, "tensor", pb.asarray(value)),
        (settings,),
    )


def test_an_object_that_is_handed_to_another_function():
    settings = Settings()
    check(lambda x: scaled(settings, x), functools.partial(setattr, settings, "factor"))

    class Scaled(pb.layers.Layer):
        factor = 2.0

        def call(self, x):
            return scaled(self, x)

    layer = Scaled()
    check(lambda x: layer(x), functools.partial(setattr, layer, "factor"))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * Derived.k,
        Derived.of_class,
        lambda x: Derived.of_class(x),
        Derived.static,
        Derived().calls_both,
        lambda x: Derived() * x,
        Derived().inner,
        lambda x: DERIVED.inner(x) + DERIVED * x,
    ],
)
def test_methods_and_attributes_of_classes(f, monkeypatch):
    check(f, lambda value: monkeypatch.setattr(Scale, "k", value))


def test_items_and_absent_values_of_classes(monkeypatch):
    derived = Derived()
    check(
        lambda x: x * derived["factor"],
        lambda value: monkeypatch.setitem(Scale.table, "factor", value),
    )
    captured = pb.function(lambda x: x if derived.absent is None else x * derived.absent)
    assert [float(captured(1.0)) for _ in range(3)] == [1.0] * 3
    monkeypatch.setattr(Scale, "absent", 5.0)
    assert float(captured(1.0)) == 5.0


def test_new_code_of_functions_and_methods(monkeypatch):
    """As by IPython's autoreload."""

    class Two:
        def factor(self):
            return 2.0

    def one():
        return 1.0

    def four():
        return 4.0

    two = Two()
    captured = pb.function(lambda x: x * two.factor() + one())
    assert [float(captured(1.0)) for _ in range(3)] == [3.0] * 3
    monkeypatch.setattr(Two, "factor", lambda self: 3.0)
    assert [float(captured(1.0)) for _ in range(3)] == [4.0] * 3
    monkeypatch.setattr(one, "__code__", four.__code__)
    assert [float(captured(1.0)) for _ in range(3)] == [7.0] * 3
    two.factor = lambda: 5.0
    assert [float(captured(1.0)) for _ in range(3)] == [9.0] * 3


def test_functions_as_arguments():
    factor = 2.0

    def set_factor(value):
        nonlocal factor
        factor = value

    check(lambda x, f: f(x), set_factor, (lambda x: x * factor,))


def test_modules_that_a_function_imports(monkeypatch):
    module = types.ModuleType("module_of_a_user")
    monkeypatch.setitem(sys.modules, "module_of_a_user", module)

    def imports(x):
        import module_of_a_user

        return x * module_of_a_user.factor

    def imports_from(x):
        from module_of_a_user import factor

        return x * factor

    for f in (imports, imports_from):
        check(f, lambda value: setattr(module, "factor", value))


def test_defaults_of_parameters():
    def f(x, k=2.0, *, m=1.0):
        return x * k * m

    check(f, lambda value: setattr(f, "__defaults__", (value,)))
    check(f, lambda value: f.__kwdefaults__.update(m=value))


# Containers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("container", "change"),
    [
        (collections.OrderedDict(a=1.0), lambda c, value: c.update(a=value)),
        (collections.defaultdict(float, a=1.0), lambda c, value: c.update(a=value)),
        (collections.UserDict(a=1.0), lambda c, value: c.update(a=value)),
        (collections.ChainMap({"a": 1.0}), lambda c, value: c.update(a=value)),
        (collections.Counter(a=1), lambda c, value: c.update(a=value)),
        (collections.deque([1.0], maxlen=1), lambda c, value: c.append(value)),
        ({1.0}, lambda c, value: (c.clear(), c.add(value))),
    ],
)
def test_containers_whose_items_change(container, change):
    def first(x, container):
        values = container.values() if hasattr(container, "values") else container
        return x * next(iter(values))

    check(first, functools.partial(change, container), (container,))
    check(lambda x: first(x, container), functools.partial(change, container))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: collections.OrderedDict(x=x),
        lambda x: collections.defaultdict(list, x=x),
        lambda x: Pair(x, [x, None]),
        lambda x: Items([x]),
        lambda x: Numbers((x,)),
        lambda x: Slotted((x,)),
        lambda x: {"nested": (Items([x]),)},
    ],
)
def test_containers_keep_their_types(make):
    """Those of arguments, from the first call on with tensors for arrays, and those of results."""
    seen = []

    def first(container):
        while isinstance(container, (dict, list, tuple)):
            container = next(iter(container.values() if isinstance(container, dict) else container))
        return container

    def f(container):
        seen.append(container)
        assert type(first(container)) is pb.Tensor
        return make(first(container) * 2)

    captured = pb.function(f)
    for step in range(4):
        result = captured(make(X + step))
        assert type(result) is type(make(X))
        assert first(result).tolist() == ((X + step) * 2).tolist()
    assert [type(container) for container in seen] == [type(make(X))] * 2


def test_results_in_other_dicts():
    captured = pb.function(lambda x: collections.Counter(x=x, n=2))
    for _ in range(4):
        result = captured(pb.asarray(X))
        assert type(result) is collections.Counter
        assert (result["x"].tolist(), result["n"]) == (X.tolist(), 2)


def test_attributes_of_lists_are_errors():
    captured = pb.function(lambda items: items[0] * items.factor)
    items = Items([pb.asarray(X)])
    items.factor = 2.0
    captured(items)
    message = "reads factor of its argument items, where only items .* pass items.factor"
    with pytest.raises(pb.errors.CaptureError, match=message):
        captured(items)


def test_arrays_in_files(tmp_path):
    rows = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(12, 3))
    rows[:] = np.arange(36).reshape(12, 3)
    captured = pb.function(lambda x: pb.sum(x, axis=0))
    for _ in range(2):
        for i in range(0, 12, 4):
            assert captured(rows[i : i + 4]).tolist() == rows[i : i + 4].sum(0).tolist()
        rows += 1
    assert len(captured._all()) == 1


@pytest.mark.parametrize("array", [np.asarray, pb.asarray])
def test_lists_and_dicts_that_the_function_changes(array):
    @pb.function
    def step(cache, history, x):
        cache["sum"] = cache["sum"] + x
        cache["old"] = cache.pop("new")
        cache["new"] = x
        cache["inner"].append(x * 2)
        history.clear()
        history.extend([x, "text", 3])
        return x

    for step_number in range(5):
        x = array(X + step_number)
        cache = {"sum": x, "new": x, "inner": [x]}
        inner, history = cache["inner"], [x]
        step(cache, history, x)
        assert list(cache) == ["sum", "inner", "old", "new"]
        assert np.asarray(cache["sum"]).tolist() == (2 * (X + step_number)).tolist()
        assert len(inner) == 2
        assert np.asarray(inner[1]).tolist() == (2 * (X + step_number)).tolist()
        assert np.asarray(history[0]).tolist() == (X + step_number).tolist()
        assert history[1:] == ["text", 3]
    assert len(step._all()) == 1


def test_such_changes_have_gradients_and_are_not_saved(tmp_path):
    @pb.function
    def cubed(cache, x):
        cache["y"] = x * x * x
        return x

    x = pb.asarray(X)
    for _ in range(4):
        cache = {}
        with pb.GradientTape() as tape:
            tape.watch(x)
            cubed(cache, x)
            y = cache["y"] * 2
        assert tape.gradient(y, x).tolist() == (6 * X * X).tolist()
    with pytest.raises(CaptureError, match="changes its argument cache; return the new values"):
        cubed.lower({}, x).save(tmp_path / "program")


def test_a_list_in_two_places():
    def first_doubled(a, b):
        return a[0] * 2 + b[0]

    def appended(a, b):
        a.append(a[0] * 2)
        return b[-1]

    captured = pb.function(first_doubled)
    for step in range(4):
        items = [pb.asarray(X + step)]
        assert captured(items, items).tolist() == first_doubled(items, items).tolist()
    for before in (0, 4):
        captured = pb.function(appended)
        for step in range(before):  # a program for two lists
            two = [pb.asarray(X)], [pb.asarray(X * step)]
            assert captured(*two).tolist() == (X * step).tolist()
        items = [pb.asarray(X)]
        assert captured(items, items).tolist() == (X * 2).tolist()  # op by op
        items = [pb.asarray(X)]
        with pytest.raises(CaptureError, match="changes its argument a, which it also has from el"):
            captured(items, items)
        assert len(items) == 1


def test_a_list_that_is_read_from_outside_too():
    items = [pb.asarray(X)]

    def doubled(given):
        given[0] = given[0] * 2
        return items[0]

    captured = pb.function(doubled)
    captured(items)
    with pytest.raises(CaptureError, match="changes its argument given, which it also has"):
        captured(items)
    assert items[0].tolist() == (X * 2).tolist()
    for _ in range(3):
        other = [pb.asarray(X)]
        assert captured(other).tolist() == (X * 2).tolist()
        assert other[0].tolist() == (X * 2).tolist()


# What is an error ---------------------------------------------------------------------------------


class Foreign:
    def __dlpack__(self, **more):
        return X.__dlpack__(**more)

    def __dlpack_device__(self):
        return X.__dlpack_device__()


ITERATOR = iter([pb.asarray(float(i)) for i in range(9)])


def drawn():
    return sum(x for x in pb.data.Dataset.range(3))


@pytest.mark.parametrize(
    ("f", "arguments", "message"),
    [
        (next, (iter([pb.asarray(1.0)] * 9),), "takes values from the iterator"),
        (lambda: next(ITERATOR), (), "takes values from the iterator ITERATOR.*pass what next"),
        (lambda it: next(it), (iter(pb.data.Dataset.range(9)),), "the iterator it"),
        (drawn, (), "draws from a dataset at test_function_arguments.py"),
        (lambda a: pb.asarray(a), (Foreign(),), r"array a of another library.*pb.asarray\(a\)"),
        (lambda x: {x} if x is None else collections.deque([x]), (X,), "a deque with a tensor in"),
        (lambda x: Settings(tensor=[x * 2]), (X,), "Settings with a tensor in its attribute 'ten"),
    ],
)
def test_what_a_program_would_repeat_wrongly(f, arguments, message):
    captured = pb.function(f)
    captured(*arguments)
    for _ in range(2):
        with pytest.raises(CaptureError, match=message):
            captured(*arguments)
    lenient = pb.function(f, strict=False)
    lenient(*arguments)
    with pytest.warns(RuntimeWarning, match=message):
        lenient(*arguments)


def test_an_iterator_of_a_python_function_is_read_at_each_call():
    numbers = iter(range(9))
    captured = pb.function(
        lambda x: x + pb.py_function(lambda x: x * 0 + next(numbers), x, result=x)
    )
    assert [float(captured(pb.asarray(1.0))) for _ in range(5)] == [1.0, 2.0, 3.0, 4.0, 5.0]
