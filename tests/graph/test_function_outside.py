"""Values that captured functions read outside: changed after the trace, each is seen.

Each row is one way to hold and read a value: it makes a function, and what changes the value.
"""

import collections
import contextvars
import copy
import dataclasses
import decimal
import enum
import functools
import gc
import importlib
import operator
import os
import sys
import types
import weakref

import numpy as np
import pytest

import pullback as pb

WAYS = {}
#: One value after another: some are equal, and not the same.
SCALE = 2


def way(f):
    WAYS[f.__name__] = f
    return f


def x():
    return pb.asarray([1, 2])


def outcome(f):
    """Returns what a call gives: numbers and dtype, or the kind of its error."""
    try:
        result = f(x())
    except pb.errors.CaptureError:
        raise
    except Exception as error:
        return type(error).__name__
    return result.tolist(), str(result.dtype)


class Cfg:
    def __init__(self, rate=2):
        self.rate = rate


# Containers and arrays of any size ----------------------------------------------------------------


@way
def an_item_of_a_long_list():
    h = [2] * 5000
    return lambda x: x * h[4321], lambda v: h.__setitem__(4321, v)


@way
def the_sum_of_a_long_list():
    h = [0] * 5000
    return lambda x: x * sum(h), lambda v: h.__setitem__(77, v)


@way
def an_item_of_a_long_dict():
    h = {f"k{i}": 2 for i in range(500)}
    return lambda x: x * h["k432"], lambda v: h.__setitem__("k432", v)


@way
def an_item_from_the_end():
    h = [{"lr": 2} for _ in range(70)]
    return lambda x: x * h[-1]["lr"], lambda v: h[69].__setitem__("lr", v)


@way
def a_large_array():
    h = np.ones(100_000)
    return lambda x: x * h[-1].item(), lambda v: h.__setitem__(-1, v)


@way
def a_view_of_an_array():
    h = np.ones((40, 50))
    return lambda x: x * h.T[7][3].item(), lambda v: h.__setitem__((3, 7), v)


@way
def attributes_of_many_objects():
    objects = [types.SimpleNamespace(**{f"a{i}": i for i in range(12)}) for _ in range(60)]

    def f(x):
        return x * sum(o.a0 + o.a5 + o.a11 for o in objects)

    return f, lambda v: setattr(objects[59], "a11", v)


@way
def the_best_of_many():
    objects = [Cfg(i) for i in range(300)]

    def f(x):
        return x * max(objects, key=lambda o: o.rate).rate

    return f, lambda v: setattr(objects[299], "rate", v + 1000)


@way
def a_set():
    h = {1}
    return lambda x: x * sum(h), lambda v: (h.clear(), h.add(v))


@way
def whether_a_set_has_it():
    h = set()
    return lambda x: x * (2 if 7 in h else 3), lambda v: h.add(7) if v == 3 else h.clear()


@way
def a_deque():
    h = collections.deque([2] * 100)
    return lambda x: x * h[50], lambda v: h.__setitem__(50, v)


@way
def a_user_dict():
    h = collections.UserDict(a=2)
    return lambda x: x * h["a"], lambda v: h.__setitem__("a", v)


@way
def a_chain_map():
    h = collections.ChainMap({}, {"a": 2})
    return lambda x: x * h["a"], lambda v: h.maps[0].__setitem__("a", v)


@way
def a_default_dict():
    h = collections.defaultdict(lambda: 2)
    return lambda x: x * h.get("a", 5), lambda v: h.__setitem__("a", v)


@way
def a_proxy():
    h = {"a": 2}
    proxy = types.MappingProxyType(h)
    return lambda x: x * proxy["a"], lambda v: h.__setitem__("a", v)


@way
def values_of_a_dict():
    h = {"a": Cfg(), "b": Cfg()}
    return lambda x: x * sum(c.rate for c in h.values()), lambda v: setattr(h["b"], "rate", v)


@way
def unpacked():
    h = [2, 3]

    def f(x):
        a, b = h
        return x * a * b

    return f, lambda v: h.__setitem__(1, v)


@way
def star_arguments():
    h, named = [2], {"c": 3}

    def g(x, b, c):
        return x * b * c

    return lambda x: g(x, *h, **named), lambda v: (h.__setitem__(0, v), named.__setitem__("c", v))


# Equal, and not the same --------------------------------------------------------------------------


@way
def a_tuple():
    cfg = Cfg((2,))
    return lambda x: x * cfg.rate[0], lambda v: setattr(cfg, "rate", (v,))


@way
def a_frozenset():
    cfg = Cfg(frozenset([2]))
    return lambda x: x * min(cfg.rate), lambda v: setattr(cfg, "rate", frozenset([v]))


@way
def defaults():
    def f(x, k=2):
        return x * k

    return f, lambda v: setattr(f, "__defaults__", (v,))


@way
def keyword_defaults():
    def f(x, *, k=2):
        return x * k

    return f, lambda v: f.__kwdefaults__.__setitem__("k", v)


@way
def a_pair_of_variables():
    a, b = pb.Variable([1, 2]), pb.Variable([1, 2])
    cfg = Cfg((a,))

    def f(x):
        (v,) = cfg.rate
        v.assign(x * 5)
        return a.value * 10 + b.value

    def change(v):
        a.assign([1, 2])
        b.assign([1, 2])
        cfg.rate = (b,) if v == 3 else (a,)

    return f, change


# Attributes ---------------------------------------------------------------------------------------


@way
def an_attribute_named_by_a_keyword():
    cfg = Cfg()
    setattr(cfg, "lambda", 2)
    return lambda x: x * getattr(cfg, "lambda"), lambda v: setattr(cfg, "lambda", v)


@way
def an_attribute_that_unicode_folds():
    cfg, name = Cfg(), "\u017f"
    setattr(cfg, name, 2)
    return lambda x: x * getattr(cfg, name), lambda v: setattr(cfg, name, v)


@way
def an_attribute_by_a_computed_name():
    cfg, part = Cfg(), "r"
    return lambda x: x * getattr(cfg, part + "ate"), lambda v: setattr(cfg, "rate", v)


@way
def vars_of_an_object():
    cfg = Cfg()
    return lambda x: x * vars(cfg)["rate"], lambda v: setattr(cfg, "rate", v)


@way
def an_attrgetter():
    cfg = Cfg(Cfg())
    get = operator.attrgetter("rate.rate")
    return lambda x: x * get(cfg), lambda v: setattr(cfg.rate, "rate", v)


@way
def a_pattern():
    cfg = Cfg()

    def f(x):
        match cfg:
            case Cfg(rate=r):
                return x * r

    return f, lambda v: setattr(cfg, "rate", v)


@dataclasses.dataclass
class Point:
    a: int
    b: int = 1


@way
def a_positional_pattern():
    point = Point(1, 2)

    def f(x):
        match point:
            case Point(1, b):
                return x * b
            case _:
                return x

    return f, lambda v: setattr(point, "b", v)


@way
def a_pattern_of_a_mapping():
    cfg = {"kind": "a", "rate": 2}

    def f(x):
        match cfg:
            case {"kind": "a", "rate": r}:
                return x * r

    return f, lambda v: cfg.__setitem__("rate", v)


@way
def an_attribute_of_a_function():
    def helper(x):
        return x * helper.k

    helper.k = 2
    return lambda x: helper(x), lambda v: setattr(helper, "k", v)


@way
def an_attribute_of_itself():
    def f(x):
        return x * f.k

    f.k = 2
    return f, lambda v: setattr(f, "k", v)


class Base:
    rate = 2

    def scaled(self, x):
        return x * self.rate


class Derived(Base):
    def __init__(self):
        self.rate = 7

    def above(self, x):
        return x * super().rate

    def scaled(self, x):
        return super().scaled(x) + super().rate


@way
def data_of_super():
    d = Derived()
    return lambda x: d.above(x), lambda v: setattr(Base, "rate", v)


@way
def a_method_of_super():
    d = Derived()
    return d.scaled, lambda v: setattr(Base, "rate", v)


@way
def an_attribute_of_a_class_that_an_object_hides():
    d = Derived()
    return lambda x: x * type(d).rate, lambda v: setattr(Derived, "rate", v)


@way
def the_same_by_its_class():
    d = Derived()
    return lambda x: x * d.__class__.rate, lambda v: setattr(Derived, "rate", v)


@way
def a_slot():
    class Slotted:
        __slots__ = ("rate",)

    cfg = Slotted()
    cfg.rate = 2
    return lambda x: x * cfg.rate, lambda v: setattr(cfg, "rate", v)


@way
def a_proxy_in_a_slot():
    class Slotted:
        __slots__ = ("rate",)

    cfg = Slotted()
    cfg.rate = types.MappingProxyType({"a": 2})
    proxy = types.MappingProxyType
    return lambda x: x * cfg.rate["a"], lambda v: setattr(cfg, "rate", proxy({"a": v}))


@way
def an_item_of_a_comprehension():
    h = collections.ChainMap({}, {"a": Cfg(), "b": Cfg()})
    return lambda x: x * [c for k, c in h.items() if k == "b"][-1].rate, lambda v: setattr(
        h["b"], "rate", v
    )


@way
def a_property():
    class Held(Cfg):
        @property
        def twice(self):
            return self.rate * 2

    cfg = Held()
    return lambda x: x * cfg.twice, lambda v: setattr(cfg, "rate", v)


@way
def another_property():
    class Held(Cfg):
        twice = property(lambda self: 2)

    cfg = Held()
    return lambda x: x * cfg.twice, lambda v: setattr(Held, "twice", property(lambda self: v))


@way
def a_cached_property():
    class Held(Cfg):
        @functools.cached_property
        def twice(self):
            return self.rate * 2

    cfg = Held()

    def change(v):
        cfg.rate = v
        vars(cfg).pop("twice", None)

    return lambda x: x * cfg.twice, change


class Attributes:
    def __init__(self):
        vars(self)["held"] = {"rate": 2}

    def __getattr__(self, name):
        return vars(self)["held"][name]


@way
def getattr_of_a_class():
    cfg = Attributes()
    return lambda x: x * cfg.rate, lambda v: cfg.held.__setitem__("rate", v)


@way
def getattribute_of_a_class():
    class All(Cfg):
        def __getattribute__(self, name):
            found = object.__getattribute__(self, "rate")
            return found if name == "any" else object.__getattribute__(self, name)

    cfg = All()
    return lambda x: x * cfg.any, lambda v: setattr(cfg, "rate", v)


@way
def a_descriptor():
    class Descriptor:
        rate = 2

        def __get__(self, instance, owner):
            return self.rate

    class Held:
        rate = Descriptor()

    cfg = Held()
    return lambda x: x * cfg.rate, lambda v: setattr(vars(Held)["rate"], "rate", v)


@way
def a_property_of_a_metaclass():
    class Meta(type):
        held = 2

        @property
        def rate(cls):
            return cls.held

    class Held(metaclass=Meta):
        pass

    return lambda x: x * Held.rate, lambda v: setattr(Held, "held", v)


@way
def a_named_tuple():
    kind = collections.namedtuple("kind", "rate")
    cfg = Cfg(kind(2))
    return lambda x: x * cfg.rate.rate, lambda v: setattr(cfg, "rate", kind(v))


@way
def a_member_of_an_enum():
    class Rate(enum.Enum):
        A = 2
        B = 3.0
        C = True

    cfg, members = Cfg(Rate.A), [*Rate]
    return lambda x: x * cfg.rate.value, lambda v: setattr(cfg, "rate", members[int(v) % 3])


@way
def an_attribute_that_comes():
    cfg = Cfg()

    def change(v):
        vars(cfg).pop("more", None)
        if v != 2:
            cfg.more = v

    return lambda x: x * getattr(cfg, "more", 1) * (2 if hasattr(cfg, "more") else 3), change


@way
def a_method_that_an_object_hides():
    base = Base()
    return base.scaled.__func__.__get__(base), lambda v: setattr(base, "rate", v)


@way
def another_class():
    base = Base()
    other = type("Other", (Base,), {"scaled": lambda self, x: x + self.rate})

    def change(v):
        Base.rate = v
        base.__class__ = other if v == 3 else Base

    return lambda x: base.scaled(x), change


@way
def a_value_of_a_new_object():
    return lambda x: x * Base().rate, lambda v: setattr(Base, "rate", v)


@way
def what_a_new_object_holds():
    cfg = Cfg()

    class Holder:
        def __init__(self, held):
            self.held = held

    return lambda x: x * Holder(cfg).held.rate, lambda v: setattr(cfg, "rate", v)


@way
def a_copy_of_an_object():
    cfg = Cfg()
    return lambda x: x * copy.copy(cfg).rate, lambda v: setattr(cfg, "rate", v)


@way
def a_deep_copy():
    cfg = Cfg([Cfg()])
    return lambda x: x * copy.deepcopy(cfg).rate[0].rate, lambda v: setattr(cfg.rate[0], "rate", v)


@way
def a_field_of_a_dataclass():
    point = Point(2)
    return lambda x: x * dataclasses.astuple(point)[0], lambda v: setattr(point, "a", v)


@way
def replaced_in_a_dataclass():
    point = Point(2)
    return lambda x: x * dataclasses.replace(point, b=1).a, lambda v: setattr(point, "a", v)


# Special methods ----------------------------------------------------------------------------------

_BINARY = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "divmod",
]
_INFIX = {
    **{
        name: getattr(operator, f"{name}_", None) or getattr(operator, name, None)
        for name in _BINARY
    },
    "divmod": divmod,
}
_UNARY = {
    "neg": operator.neg, "pos": operator.pos, "invert": operator.invert, "abs": abs,
    "round": round, "str": str, "repr": repr, "format": lambda a: f"{a:3}", "hash": hash,
    "len": len, "bool": bool, "int": int, "float": float, "index": lambda a: range(99)[a],
    "complex": complex, "bytes": bytes, "reversed": reversed, "iter": iter, "call": lambda a: a(),
    "getitem": lambda a: a[0], "contains": lambda a: 3 in a, "trunc": __import__("math").trunc,
    "floor": __import__("math").floor, "ceil": __import__("math").ceil,
}  # fmt: skip
_MADE = {"str": str, "repr": str, "format": str, "bytes": lambda v: b"x" * int(v), "float": float,
         "complex": complex, "reversed": lambda v: [v], "iter": lambda v: iter([v]),
         "bool": lambda v: v == 3, "contains": lambda v: v == 3, "len": int, "int": int,
         "index": int, "hash": int}  # fmt: skip


def number(value):
    """A number of what a special method gives."""
    if isinstance(value, (str, bytes)):
        return len(value) + (float(value) if isinstance(value, str) else 0)
    if isinstance(value, complex):
        return value.real
    if hasattr(value, "__next__") or isinstance(value, list):
        return next(iter(value))
    return value


def special_way(name, operate, swapped=False):
    def make():
        full = f"__{'r' * swapped}{name}__"
        kind = type("Special", (), {})
        setattr(kind, full, lambda self, *args: _MADE.get(name, lambda v: v)(self.k))
        thing = kind()
        thing.k = 2
        if operate.__code__.co_argcount == 2 if hasattr(operate, "__code__") else name in _BINARY:
            use = (lambda: operate(3, thing)) if swapped else (lambda: operate(thing, 3))
        else:
            use = lambda: operate(thing)  # noqa: E731
        return lambda x: x * number(use()), lambda v: setattr(thing, "k", v)

    WAYS[f"special_{'r' * swapped}{name}"] = make


for _name, _operate in _UNARY.items():
    special_way(_name, _operate)
for _name, _operate in _INFIX.items():
    special_way(_name, _operate)
    special_way(_name, _operate, swapped=True)


@way
def an_operator_in_place():
    class Special:
        k = 2

        def __ior__(self, other):
            return other * self.k

    thing = Special()

    def f(x):
        held = thing
        held |= x
        return held

    return f, lambda v: setattr(thing, "k", v)


@way
def a_tensor_like():
    class Like:
        k = 2

        def __pullback_tensor__(self):
            return pb.asarray([self.k, self.k])

    thing = Like()
    return lambda x: x * thing, lambda v: setattr(thing, "k", v)


@way
def a_tensor_or_an_object():
    class Scale:
        k = 2

        def __ror__(self, other):
            return other * self.k

    scale = Scale()
    return lambda x: x | scale, lambda v: setattr(scale, "k", v)


@way
def a_with_statement():
    class Managed:
        k = 2

        def __enter__(self):
            return self.k

        def __exit__(self, *_):
            return None

    managed = Managed()

    def f(x):
        with managed as k:
            return x * k

    return f, lambda v: setattr(managed, "k", v)


@way
def an_item_that_is_set():
    class Taking:
        k = 2
        held = None

        def __setitem__(self, key, value):
            key.append(value * self.k)

    thing = Taking()

    def f(x):
        out = []
        thing[out] = x
        return out[0]

    return f, lambda v: setattr(thing, "k", v)


@way
def a_special_method_that_comes():
    class Special:
        pass

    thing = Special()

    def change(v):
        if v == 3:
            Special.__bool__ = lambda self: False
        elif hasattr(Special, "__bool__"):
            del Special.__bool__

    return lambda x: x * (2 if thing else 3), change


# Names --------------------------------------------------------------------------------------------


@way
def a_global():
    return lambda x: x * SCALE, lambda v: globals().__setitem__("SCALE", v)


@way
def a_global_by_name():
    return lambda x: x * globals()["SCALE"], lambda v: globals().__setitem__("SCALE", v)


@way
def a_builtin_that_a_global_hides():
    def change(v):
        globals().pop("abs", None)
        if v != 2:
            globals()["abs"] = lambda x: v

    return lambda x: x * abs(-2), change


@way
def code_of_a_function():
    def helper(x):
        return x * 2

    def change(v):
        helper.__code__ = (lambda x: x + 1).__code__ if v == 3 else (lambda x: x * 5).__code__

    return lambda x: helper(x), change


@way
def the_cell_of_a_generator():
    k = 2

    def values():
        for i in range(3):
            yield i * k

    def change(v):
        nonlocal k
        k = v

    return lambda x: x * sum(values()), change


@way
def the_cell_of_a_function_in_a_function():
    k = 2

    def f(x):
        def inner():
            return [k for _ in range(1)]

        return x * inner()[0]

    def change(v):
        nonlocal k
        k = v

    return f, change


@way
def a_partial():
    def g(k, x):
        return x * k["a"]

    h = {"a": 2}
    return functools.partial(g, h), lambda v: h.__setitem__("a", v)


@way
def a_partial_inside():
    def g(x, k):
        return x * k

    partial = functools.partial(g, k=2)
    return lambda x: partial(x), lambda v: partial.keywords.__setitem__("k", v)


@way
def a_sorting_function():
    cfg = Cfg()

    def f(x):
        return x * sorted([1, 2, 3], key=lambda i: -i if cfg.rate == 3 else i)[0]

    return f, lambda v: setattr(cfg, "rate", v)


@way
def a_class_that_a_property_gives():
    class Made:
        rate = 2

    class Holder:
        @property
        def kind(self):
            return Made

    holder = Holder()
    return lambda x: x * holder.kind().rate, lambda v: setattr(Made, "rate", v)


@way
def a_value_after_an_exception():
    cfg = Cfg()

    def f(x):
        try:
            {}["a"]
        except KeyError:
            return x * [cfg][0].rate
        finally:
            pass

    return f, lambda v: setattr(cfg, "rate", v)


@way
def an_environment_variable():
    return (
        lambda x: x * len(os.environ.get("PULLBACK_A_TEST", "ab")),
        lambda v: os.environ.__setitem__("PULLBACK_A_TEST", "a" * int(v)),
    )


@way
def a_filter_in_c():
    things = [Cfg(), Cfg()]
    return (
        lambda x: x * len(list(filter(operator.attrgetter("rate"), things))),
        lambda v: setattr(things[0], "rate", v % 2),
    )


@way
def whether_each_has_an_attribute():
    cfg = Cfg()
    return (
        lambda x: x * sum(map(hasattr, [cfg] * 3, [f"rate{i}" for i in range(3, 6)])),
        lambda v: setattr(cfg, f"rate{int(v)}", v),
    )


@way
def a_context_variable():
    var = contextvars.ContextVar("var", default=2)
    return lambda x: x * var.get(), var.set


@way
def a_weak_reference():
    held = [Cfg()]
    held.append(weakref.ref(held[0]))
    cfg = Cfg()
    cfg.ref = held[1]
    return lambda x: x * cfg.ref().rate, lambda v: setattr(held[0], "rate", v)


@way
def a_module():
    module = sys.modules["installed_by_a_test"]
    return lambda x: x * module.SCALE, lambda v: setattr(module, "SCALE", v)


@way
def a_module_that_is_imported():
    def f(x):
        import installed_by_a_test as m

        return x * m.scaled(2)

    return f, lambda v: setattr(sys.modules["installed_by_a_test"], "SCALE", v)


@way
def an_object_of_a_module():
    module = sys.modules["installed_by_a_test"]
    thing = module.Thing()
    return lambda x: thing.apply(x), lambda v: setattr(thing, "rate", v)


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory):
    """A module as an installed package has it."""
    folder = tmp_path_factory.mktemp("env") / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "installed_by_a_test.py").write_text(
        "SCALE = 2\n"
        "def scaled(k):\n    return k * SCALE\n"
        "class Thing:\n    rate = 2\n    def apply(self, x):\n"
        "        return x * self.rate * SCALE\n"
    )
    sys.path.insert(0, str(folder))
    importlib.import_module("installed_by_a_test")
    yield
    sys.path.remove(str(folder))
    del sys.modules["installed_by_a_test"]


@pytest.fixture(autouse=True)
def unchanged(monkeypatch):
    """The globals as they are here, after each test."""
    monkeypatch.setitem(globals(), "SCALE", SCALE)
    monkeypatch.setattr(Base, "rate", 2)
    monkeypatch.delenv("PULLBACK_A_TEST", raising=False)
    yield
    globals().pop("abs", None)


@pytest.mark.parametrize("name", WAYS)
def test_a_value_that_changes_is_seen(name):
    f, change = WAYS[name]()
    captured = pb.function(f)
    for value in (2, 3, 2.0, True, 2, -0.0):
        change(value)
        for _ in range(3):
            expected = outcome(f)
            assert outcome(captured) == expected, f"after the change to {value!r}"


def test_the_settings_of_decimals_are_compared():
    outside = decimal.Decimal(1) / 3

    @pb.function
    def of_outside(x):
        return x * float(+outside)

    @pb.function
    def of_own(x):
        return x * float(decimal.Decimal(1) / 3)

    with decimal.localcontext() as context:
        for change in ({"prec": 3}, {"prec": 5}, {"rounding": "ROUND_UP"}, {"prec": 3}):
            for name, value in change.items():
                setattr(context, name, value)
            for captured in (of_outside, of_own):
                seen = [captured(pb.ones((), dtype="float64")).item() for _ in range(3)]
                assert seen == [float(+outside)] * 3, change


def test_functions_that_gc_freeze_has_set_aside_are_found():
    class Holder:
        number = property(lambda self, number=2.0: number)

    f = pb.function(lambda x: x * Holder().number)
    gc.collect()
    gc.freeze()
    try:
        assert [f(pb.ones(())).item() for _ in range(3)] == [2.0] * 3
        Holder.__dict__["number"].fget.__defaults__ = (5.0,)
        assert [f(pb.ones(())).item() for _ in range(3)] == [5.0] * 3
    finally:
        gc.unfreeze()
