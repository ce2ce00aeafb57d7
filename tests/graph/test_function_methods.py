"""Captured methods of every kind."""

import copy
import dataclasses
import gc
import weakref

import numpy as np
import pytest

import pullback as pb
from pullback.graph.function import KEPT

ONE = np.ones((), np.float32)


def run(f, *arguments, times=4):
    return [float(f(*arguments)) for _ in range(times)]


class Scale:
    k = 2.0

    def __init__(self):
        self.w = pb.asarray(3.0)

    @classmethod
    @pb.function
    def of_class(cls, x):
        return x * cls.k

    @pb.function
    @classmethod
    def of_class_too(cls, x):
        return x * cls.k

    @staticmethod
    @pb.function
    def static(x):
        return x * 2.0

    @pb.function
    @staticmethod
    def static_too(x):
        return x * 2.0

    @property
    @pb.function
    def twice(self):
        return self.w * 2.0

    def plain(self, x):
        return x * self.w


class Derived(Scale):
    k = 5.0


@pytest.mark.parametrize("name", ["of_class", "of_class_too"])
def test_class_methods(name, monkeypatch):
    for owner, k in ((Scale, 2.0), (Derived, 5.0), (Scale(), 2.0), (Derived(), 5.0)):
        assert run(getattr(owner, name), ONE) == [k] * 4
    monkeypatch.setattr(Scale, "k", 7.0)
    assert run(getattr(Scale, name), ONE) == [7.0] * 4
    assert run(getattr(Derived, name), ONE) == [5.0] * 4


@pytest.mark.parametrize("name", ["static", "static_too"])
@pytest.mark.parametrize("owner", [Scale, Derived, Scale(), Derived()])
def test_static_methods(owner, name):
    assert run(getattr(owner, name), ONE) == [2.0] * 4


def test_properties_and_methods_of_a_class():
    scale = Scale()
    assert [float(scale.twice) for _ in range(4)] == [6.0] * 4
    captured = pb.function(Scale.plain)
    assert run(captured, scale, ONE) == [3.0] * 4
    scale.w = pb.asarray(4.0)
    assert [float(scale.twice) for _ in range(4)] == [8.0] * 4
    assert run(captured, scale, ONE) == [4.0] * 4


def test_a_method_that_calls_the_one_of_its_base_class():
    calls = []

    class Base:
        @pb.function
        def f(self, x):
            calls.append("base")
            return x * 2

    class Further(Base):
        @pb.function
        def f(self, x):
            calls.append("further")
            return super().f(x) + 1

    assert run(Further().f, ONE) == [3.0] * 4
    assert calls == ["further", "base"] * 2


def test_instances_without_a_hash_and_without_attributes_of_their_own():
    @dataclasses.dataclass
    class Plain:
        k: float

        @pb.function
        def f(self, x):
            return x * self.k

    @dataclasses.dataclass(frozen=True)
    class Slotted:
        __slots__ = ("k",)
        k: float

        @pb.function
        def f(self, x):
            return x * self.k

    for kind in (Plain, Slotted):
        # Equal ones are not the same.
        first, second, other = kind(2.0), kind(2.0), kind(3.0)
        assert first.f is first.f is not second.f
        assert run(first.f, ONE) == run(second.f, ONE) == [2.0] * 4
        assert run(other.f, ONE) == [3.0] * 4
    plain = Plain(2.0)
    run(plain.f, ONE)
    copied = copy.deepcopy(plain)
    plain.k, copied.k = 4.0, 5.0
    assert (run(plain.f, ONE), run(copied.f, ONE)) == ([4.0] * 4, [5.0] * 4)


# What is released ---------------------------------------------------------------------------------


def kinds():
    """Classes whose instances keep their captured methods in different ways."""

    class Plain:
        pass

    class Slotted:
        __slots__ = ("__weakref__", "k")

    class Derived(Slotted):
        __slots__ = ()

    class WithDict(Slotted):
        pass

    class NoHash:
        __hash__ = None

        def __eq__(self, other):
            return True

    class Frozen:
        def __setattr__(self, name, value):
            if name != "k":
                raise AttributeError(name)
            object.__setattr__(self, name, value)

    class Net(pb.layers.Layer):
        pass

    for kind in (Plain, Slotted, Derived, WithDict, NoHash, Frozen, Net):

        def apply(self, x):
            return x * self.k

        kind.apply = pb.function(apply)
    return [Plain, Slotted, Derived, WithDict, NoHash, Frozen, Net]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_instances_are_released_with_their_programs(kind):
    alive = []
    for _ in range(12):
        instance = kind()
        instance.k = 2.0
        assert run(instance.apply, ONE) == [2.0] * 4
        assert len(instance.apply._all()) == 1
        alive.append(weakref.ref(instance))
        del instance
    gc.collect()
    # Where an instance has no place for them, the method remembers a few.
    few = KEPT if "__dict__" not in dir(kind()) else 0
    assert sum(reference() is not None for reference in alive) == few


def test_functions_that_are_made_and_dropped_leave_nothing():
    alive = []
    for _ in range(12):
        captured = pb.function(lambda x: x + 1)
        for size in (1, 1, 2, 2, 3, 3):
            captured(pb.ones(size))
        alive += [weakref.ref(captured), *(weakref.ref(program.run) for program in captured._all())]
    del captured
    gc.collect()
    assert [reference() for reference in alive] == [None] * len(alive)
