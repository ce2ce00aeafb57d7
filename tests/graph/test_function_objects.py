"""Objects of Python's library that captured functions read: each change is seen, or an error.

Each kind is read as a global, an attribute, an argument and in a list or dict among the arguments.
"""

import array
import bisect
import collections
import contextvars
import decimal
import functools
import hashlib
import heapq
import io
import itertools
import operator
import queue
import random
import re
import struct
import threading
import types
import weakref

import numpy as np
import pytest

import pullback as pb


class Items(list):
    pass


class Pair(tuple):
    pass


class Table(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Unique(set):
    pass


class Deque(collections.deque):
    pass


class Array(array.array):
    pass


class Real(float):
    pass


class Plain:
    pass


class Backed:
    """An array of a class in Python."""

    def __init__(self):
        self.data = np.full(2, 2.0, np.float32)

    def __array__(self, dtype=None, copy=None):
        return self.data


PARTS, BASE, LOCAL = {"a": 2.0}, np.arange(4.0), contextvars.ContextVar("local", default=2.0)
HELD = Plain()


def numbers():
    return iter([2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])


def with_attribute(value):
    value.k = 2.0
    return value


def attribute(make, read=lambda o: o.k):
    return lambda: with_attribute(make()), read, lambda o: setattr(o, "k", o.k + 1)


def first(o):
    return o[0]


def more(o):
    PARTS.update(a=PARTS["a"] + 1, **{f"b{len(PARTS)}": 1.0})


#: What makes an object, reads a number of it, and changes what is read.
KINDS = {
    "deque": (lambda: collections.deque([2.0, 3.0]), first, lambda o: o.appendleft(5.0)),
    "copy": (lambda: collections.deque([2.0]), lambda o: o.copy()[0], lambda o: o.appendleft(5.0)),
    "array": (lambda: array.array("d", [2.0]), first, lambda o: o.__setitem__(0, 5.0)),
    "bytearray": (lambda: bytearray(b"ab"), first, lambda o: o.__setitem__(0, 5)),
    "memoryview": (lambda: memoryview(bytearray(b"ab")), first, lambda o: o.__setitem__(0, 5)),
    "counter": (lambda: collections.Counter("aab"), lambda o: o["a"], lambda o: o.update("a")),
    "total": (lambda: collections.Counter("aab"), lambda o: o.total(), lambda o: o.update("a")),
    "missing": (lambda: collections.Counter("aab"), lambda o: o["z"], lambda o: o.update("z")),
    "order": (
        lambda: collections.OrderedDict(a=1.0, b=2.0),
        lambda o: next(iter(o.values())),
        lambda o: o.move_to_end(next(iter(o))),
    ),
    "factory": (
        lambda: collections.defaultdict(float),
        lambda o: o.default_factory(1.5),
        lambda o: setattr(o, "default_factory", int),
    ),
    "default": (
        lambda: collections.defaultdict(lambda: 2.0),
        lambda o: o.copy()["z"],
        lambda o: setattr(o, "default_factory", lambda: 3.0),
    ),
    "list with attributes": attribute(lambda: Items([1.0])),
    "tuple with attributes": attribute(lambda: Pair([1.0])),
    "dict with attributes": attribute(lambda: Table(a=1.0)),
    "ordered with attributes": attribute(lambda: Ordered(a=1.0)),
    "set with attributes": attribute(lambda: Unique([1.0])),
    "deque with attributes": attribute(lambda: Deque([1.0])),
    "array with attributes": attribute(lambda: Array("d", [1.0])),
    "float with attributes": attribute(lambda: Real(1.0)),
    "vars of a list": attribute(lambda: Items([1.0]), lambda o: vars(o)["k"]),
    "__dict__ of a list": attribute(lambda: Items([1.0]), lambda o: o.__dict__["k"]),
    "getter of a list": attribute(lambda: Items([1.0]), operator.attrgetter("k")),
    "threading.local": attribute(threading.local),
    "namespace": attribute(types.SimpleNamespace),
    "function": attribute(lambda: lambda: 1),
    "count": (lambda: itertools.count(2.0), next, next),
    "cycle": (lambda: itertools.cycle([2.0, 3.0]), next, next),
    "list iterator": (numbers, next, next),
    "generator": (lambda: (x for x in numbers()), next, next),
    "enumerate": (lambda: enumerate(range(99)), lambda o: next(o)[1], next),
    "map": (lambda: map(float, numbers()), next, next),
    "tee": (lambda: itertools.tee(numbers())[0], next, next),
    "groups": (lambda: itertools.groupby(numbers()), lambda o: next(o)[0], next),
    "matches": (lambda: re.finditer("a", "a" * 20), lambda o: next(o).start(), next),
    "scanner": (
        lambda: re.compile("a").scanner("a" * 20),
        lambda o: o.match().start(),
        lambda o: o.match(),
    ),
    "struct": (lambda: struct.iter_unpack("B", b"1" * 20), lambda o: next(o)[0], next),
    "nditer": (
        lambda: np.nditer(np.arange(9.0)),
        lambda o: float(o[0]),
        lambda o: o.iternext(),
    ),
    "flat": (lambda: np.arange(5.0).flat, lambda o: o[1], lambda o: o.__setitem__(1, 7.0)),
    "text": (
        lambda: io.StringIO("12"),
        lambda o: float(o.getvalue()),
        lambda o: (o.seek(0), o.write("5")),
    ),
    "bytes": (lambda: io.BytesIO(b"12"), lambda o: o.tell(), lambda o: o.seek(1)),
    "random": (lambda: random.Random(1), lambda o: o.random(), lambda o: o.random()),
    "random method": (lambda: random.Random(1).random, lambda o: o(), lambda o: o()),
    "numpy generator": (
        lambda: np.random.default_rng(1),
        lambda o: o.random(),
        lambda o: o.random(),
    ),
    "decimal context": (
        lambda: decimal.Context(prec=5),
        lambda o: float(o.divide(decimal.Decimal(1), decimal.Decimal(3))),
        lambda o: setattr(o, "prec", 2),
    ),
    "precision": (
        lambda: decimal.Context(prec=5),
        lambda o: o.prec,
        lambda o: setattr(o, "prec", 2),
    ),
    "chain map": (
        lambda: collections.ChainMap({"a": 2.0}, {"a": 3.0}),
        lambda o: o["a"],
        lambda o: o.maps.reverse(),
    ),
    "user dict": (
        lambda: collections.UserDict(a=2.0),
        lambda o: o["a"],
        lambda o: o.__setitem__("a", 3.0),
    ),
    "proxy of a dict": (lambda: types.MappingProxyType(PARTS), lambda o: o["a"], more),
    "values": (PARTS.values, lambda o: sum(o), more),
    "keys": (PARTS.keys, lambda o: len(o), more),
    "items": (PARTS.items, lambda o: len([*o]), more),
    "weak reference": (lambda: weakref.ref(HELD), lambda o: o().k, lambda o: more_of(HELD)),
    "weak proxy": (lambda: weakref.proxy(HELD), lambda o: o.k, lambda o: more_of(HELD)),
    "context variable": (lambda: LOCAL, lambda o: o.get(), lambda o: o.set(o.get() + 1)),
    "partial": (
        lambda: functools.partial(float, 2),
        lambda o: o(),
        lambda o: o.__setstate__((float, (3,), {}, {})),
    ),
    "keywords": (
        lambda: functools.partial(dict, a=2.0),
        lambda o: o()["a"],
        lambda o: o.keywords.update(a=3.0),
    ),
    "queue": (queue.Queue, lambda o: o.qsize(), lambda o: o.put(1)),
    "simple queue": (queue.SimpleQueue, lambda o: o.qsize(), lambda o: o.put(1)),
    "lock": (
        threading.Lock,
        lambda o: float(o.locked()),
        lambda o: o.release() if o.locked() else o.acquire(),
    ),
    "event": (threading.Event, lambda o: float(o.is_set()), lambda o: o.set()),
    "hash": (hashlib.sha256, lambda o: o.digest()[0], lambda o: o.update(b"a")),
    "view of memory": (
        lambda: np.lib.stride_tricks.as_strided(BASE, (2,), (8,)),
        first,
        lambda o: BASE.__setitem__(0, BASE[0] + 1),
    ),
    "array in Python": (Backed, lambda o: pb.sum(pb.asarray(o)), lambda o: o.data.fill(5)),
    "cell": (
        lambda: types.CellType(2.0),
        lambda o: o.cell_contents,
        lambda o: setattr(o, "cell_contents", 3.0),
    ),
    "module": (
        lambda: types.ModuleType("other"),
        lambda o: getattr(o, "k", 1.0),
        lambda o: setattr(o, "k", 3.0),
    ),
    "error": (lambda: ValueError(2.0), lambda o: o.args[0], lambda o: setattr(o, "args", (3.0,))),
    "heap": (lambda: [3.0, 2.0], lambda o: heapq.nsmallest(1, o)[0], lambda o: o.append(1.0)),
    "bisect": (lambda: [1.0, 3.0], lambda o: bisect.bisect(o, 2), lambda o: o.insert(0, 0.0)),
    "getter": (lambda: {"a": 2.0}, operator.itemgetter("a"), lambda o: o.update(a=3.0)),
    "caller": (lambda: {"a": 2.0}, operator.methodcaller("get", "a"), lambda o: o.update(a=3.0)),
    "method of a list": (
        lambda: [2.0].__getitem__,
        lambda o: o(0),
        lambda o: o.__self__.__setitem__(0, 3.0),
    ),
    "method of a dict": (
        lambda: {"a": 2.0}.get,
        lambda o: o("a"),
        lambda o: o.__self__.update(a=3.0),
    ),
}
#: How a function comes to an object: its code, and what it gets beside a tensor.
PLACES = {
    "global": ("read(OBJECT)", lambda o: None),
    "attribute": ("read(HOLDER.k)", lambda o: None),
    "argument": ("read(o)", lambda o: o),
    "in a list": ("read(o[0])", lambda o: [o]),
    "in a dict": ("read(o['k'])", lambda o: {"k": o}),
}


def more_of(value):
    value.k += 1


def results(kind, place, capture):
    make, read, change = kind
    code, given = PLACES[place]
    HELD.k, BASE[:] = 2.0, range(4)
    PARTS.clear()
    PARTS["a"] = 2.0
    LOCAL.set(2.0)
    value = make()
    names = {"read": read, "OBJECT": value, "HOLDER": types.SimpleNamespace(k=value)}
    exec(f"def f(x, o):\n    return x * {code}", names)
    f = capture(names["f"])
    found = []
    for step in range(5):
        if step == 3:
            change(value)
        try:
            found.append(float(f(pb.ones(()), given(value))))
        except pb.errors.CaptureError:
            return [*found, "error"]
    return found


@pytest.mark.each("name", [*KINDS])
def test_changes_are_seen_or_errors(name):
    for place in PLACES:
        eager, captured = (results(KINDS[name], place, c) for c in (lambda f: f, pb.function))
        assert captured == eager or captured[-1] == "error", (place, eager, captured)
        assert captured[0] == eager[0]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("simple queue", "calls OBJECT.qsize, whose results may change.*pass the result as an arg"),
        ("weak proxy", "the weak proxy OBJECT.*use weakref.ref"),
        ("count", "takes values from the iterator OBJECT.*pass what next"),
    ],
)
def test_errors_say_what_to_write(name, message):
    make, read, _ = KINDS[name]
    HELD.k = 2.0
    names = {"read": read, "OBJECT": make()}
    exec("def f(x):\n    return x * read(OBJECT)", names)
    captured = pb.function(names["f"])
    captured(pb.ones(()))
    with pytest.raises(pb.errors.CaptureError, match=message):
        captured(pb.ones(()))
