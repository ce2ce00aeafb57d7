"""A captured function writes outside of itself once a call, or not at all.

A trace runs the function. Where its call fails, or the function has to run once more, all that it
wrote is taken back before.
"""

from __future__ import annotations

import array
import collections
import contextlib
import warnings

import numpy as np
import pytest

import pullback as pb

WAYS = {}


def way(make):
    """Adds a way to count the calls: a function that counts, and one that reads all it changes."""
    WAYS[make.__name__] = make
    return make


def of_object(owner, count):
    return count, lambda: dict(vars(owner))


class Plain:
    calls = 0


@way
def attribute():
    thing = Plain()

    def count():
        thing.calls += 1

    return of_object(thing, count)


@way
def attribute_that_is_not_read():
    thing = Plain()
    before = [0]

    def count():
        thing.last = before[0] + 1
        before[0] += 1

    return count, lambda: (dict(vars(thing)), [*before])


@way
def by_setattr():
    thing = Plain()

    def count():
        setattr(thing, "calls", getattr(thing, "calls") + 1)  # noqa: B009, B010

    return of_object(thing, count)


@way
def attribute_deleted_and_set():
    thing = Plain()
    thing.n = 0

    def count():
        n = thing.n
        del thing.n
        thing.n = n + 1

    return of_object(thing, count)


@way
def attribute_of_a_class():
    class Counter:
        calls = 0

    def count():
        Counter.calls += 1

    return count, lambda: Counter.calls


@way
def new_attribute_of_a_class():
    class Counter:
        pass

    def count():
        Counter.calls = getattr(Counter, "calls", 0) + 1

    return count, lambda: vars(Counter).get("calls")


@way
def attribute_of_a_function():
    def helper():
        pass

    def count():
        helper.calls = getattr(helper, "calls", 0) + 1

    return of_object(helper, count)


@way
def defaults_of_a_function():
    def helper(n=0):
        return n

    def count():
        helper.__defaults__ = (helper() + 1,)

    return count, lambda: helper()


@way
def slot():
    class Slotted:
        __slots__ = ("calls", "none")

    thing = Slotted()
    thing.calls = 0

    def count():
        thing.calls += 1
        thing.none = thing.calls

    return count, lambda: (thing.calls, getattr(thing, "none", None))


@way
def a_property():
    class Counted:
        n = 0

        @property
        def calls(self):
            return self.n

        @calls.setter
        def calls(self, value):
            self.n = value

    thing = Counted()

    def count():
        thing.calls += 1

    return of_object(thing, count)


@way
def setattr_of_the_class():
    class Counted:
        n = 0

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    thing = Counted()

    def count():
        thing.n += 1

    return of_object(thing, count)


@way
def a_global():
    space = {"n": 0}
    exec("def count():\n    global n\n    n += 1", space)
    return space["count"], lambda: space["n"]


@way
def nonlocal_name():
    n = 0

    def count():
        nonlocal n
        n += 1

    return count, lambda: n


@way
def item_of_a_dict():
    counts = {"a": 0}

    def count():
        counts["a"] += 1
        counts["b"] = counts["a"]

    return count, lambda: dict(counts)


@way
def item_of_a_defaultdict():
    counts = collections.defaultdict(int)

    def count():
        counts["a"] += 1

    return count, lambda: dict(counts)


@way
def counter():
    counts = collections.Counter()

    def count():
        counts.update(["a"])

    return count, lambda: dict(counts)


@way
def item_of_a_list():
    counts = [0, 5]

    def count():
        counts[0] += 1
        counts[1:] = [5, 6]

    return count, lambda: [*counts]


@way
def appended():
    found = [0]

    def count():
        found.append(len(found))

    return count, lambda: [*found]


@way
def set_of_numbers():
    found = set()

    def count():
        found.add(len(found))

    return count, lambda: set(found)


@way
def deque():
    found = collections.deque([0], maxlen=3)

    def count():
        found.append(found[-1] + 1)

    return count, lambda: [*found]


@way
def inner_list():
    thing = {"a": [Plain()]}

    def count():
        thing["a"][0].calls += 1

    return count, lambda: dict(vars(thing["a"][0]))


@way
def numpy_item():
    counts = np.zeros(3, int)

    def count():
        counts[0] += 1

    return count, counts.tolist


@way
def array_item():
    counts = array.array("i", [0, 1])

    def count():
        counts[0] += 1

    return count, counts.tolist


@way
def bytes_item():
    counts = bytearray(3)

    def count():
        counts[1] += 1

    return count, lambda: bytes(counts)


@way
def a_switch():
    thing = Plain()
    thing.on = False

    def count():
        thing.on = not thing.on

    return of_object(thing, count)


@way
def in_a_circle():
    counts = [0]

    def count():
        counts[0] = (counts[0] + 1) % 3

    return count, lambda: [*counts]


@way
def turned_round():
    found = [1, 2, 3]

    def count():
        found.append(found.pop(0))

    return count, lambda: [*found]


@way
def taken_out_and_put_back():
    found = {1: "a"}

    def count():
        if 1 in found:
            found[2] = found.pop(1)
        else:
            found[1] = found.pop(2)

    return count, lambda: dict(found)


@way
def method_that_counts():
    class Counted:
        def __init__(self):
            self.calls = 0

        def count(self):
            self.calls += 1

    thing = Counted()
    return of_object(thing, lambda: thing.count())


def both(make, around):
    """The state after calls of functions that count, plain and captured."""
    found = []
    for capture in (lambda f: f, pb.function):
        count, read = make()

        def f(x, count=count):
            count()
            return x * 2.0

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(around(f, capture, read))
    return found


@pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)
class TestCounts:
    def test_of_a_lowered_function_stays(self, make):
        count, read = make()

        def f(x):
            count()
            return x * 2.0

        before = read()
        pb.function(f).lower(pb.ones(3))
        assert read() == before

    def test_of_a_call_that_is_refused_stays(self, make):
        count, read = make()

        def f(x):
            count()
            return float(pb.sum(x))

        captured = pb.function(f)
        captured(pb.ones(3))
        before = read()
        with pytest.raises(pb.errors.CaptureError):
            captured(pb.ones(3))
        assert read() == before

    def test_of_calls_that_a_tape_records(self, make):
        def around(f, capture, read):
            f, x = capture(f), pb.ones(3)
            for _ in range(5):
                with pb.GradientTape() as tape:
                    tape.watch(x)
                    y = pb.sum(f(x))
                assert tape.gradient(y, x).tolist() == [2.0, 2.0, 2.0]
            return read()

        eager, captured = both(make, around)
        if make is not counter:  # not read: in a trace alone
            assert captured == eager

    def test_of_a_function_that_looks_at_a_number(self, make):
        count, read = make()

        def f(x, n):
            count()
            for _ in range(n):
                x = x * 2.0
            return x

        captured = pb.function(f, limit=30)
        reference, expected = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for n in range(5):
                captured(pb.ones(3), n)
                reference()
        assert read() == expected()

    def test_of_calls(self, make):
        def around(f, capture, read):
            f, found = capture(f), []
            for _ in range(12):
                f(pb.ones(3))
                found.append(read())
            return found

        eager, captured = both(make, around)
        if make is not counter:  # not read: in a trace alone
            assert captured == eager

    def test_of_a_function_that_runs_op_by_op(self, make):
        count, read = make()

        def f(x):
            count()
            return float(pb.sum(x))

        captured = pb.function(f, strict=False)
        reference, expected = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(4):
                captured(pb.ones(3))
                reference()
        assert read() == expected()


NUMBERS = ("attribute", "slot", "a_global", "nonlocal_name", "item_of_a_dict", "item_of_a_list")


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("make", [WAYS[name] for name in NUMBERS], ids=NUMBERS)
def test_one_warning_says_that_a_number_is_counted(make, taped):
    count, read = make()

    def f(x):
        count()
        return x * 2.0

    captured, x = pb.function(f, limit=4), pb.ones(3)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(12):
            with pb.GradientTape() if taped else contextlib.nullcontext():
                captured(x)
    assert [str(each.message).partition(" changes ")[0] for each in found] == ["f"]
    assert "pb.Variable" in str(found[0].message)
    reference, expected = make()
    for _ in range(12):
        reference()
    assert read() == expected()


def test_numbers_that_come_again_are_counted():
    """As where gradients are added up over four steps: a run would not count."""
    count = [0]

    def f(x):
        count[0] = (count[0] + 1) % 4
        return x * count[0]

    captured = pb.function(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [float(captured(pb.asarray(1.0))) for _ in range(24)]
    assert found == [1.0, 2.0, 3.0, 0.0] * 6
