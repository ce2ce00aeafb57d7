"""Reads of objects by way of their classes: bases, descriptors, attributes by name."""

import functools

import pullback as pb


def check(f, change):
    """Checks a captured function beside the plain one, before and after changes of a value."""
    captured, x = pb.function(f), pb.ones(3)
    for value in (3.0, 5.0, 3.0, 4.0):
        change(value)
        expected = f(x).tolist()
        assert [captured(x).tolist() for _ in range(3)] == [expected] * 3
    programs = len(captured._all())
    for _ in range(3):
        captured(x)
    assert programs == len(captured._all()) <= 4


def test_methods_of_base_classes():
    class Base:
        def __init__(self):
            self.k = 2.0

        def scale(self, x):
            return x * self.k

        @property
        def twice(self):
            return 2 * self.k

    class Between(Base):
        def scale(self, x):
            return super().scale(x) + 1

    class Derived(Between):
        def scale(self, x):
            return super().scale(x) + self.twice

        @property
        def twice(self):
            return super().twice + 1

    scale = Derived()
    for f in (scale.scale, lambda x: scale.scale(x), lambda x: x * scale.twice):
        check(f, lambda value: setattr(scale, "k", value))
    check(
        lambda x: scale.scale(x),
        lambda value: setattr(Base, "scale", eval(f"lambda self, x: x * {value}")),
    )


class Doubled:
    """A descriptor that keeps its value in the object, or by itself."""

    def __init__(self, values=None):
        self.values = values

    def __get__(self, instance, owner):
        return 2 * (vars(instance)["own"] if self.values is None else self.values[id(instance)])

    def __set__(self, instance, value):
        if self.values is None:
            instance.__dict__["own"] = value
        else:
            self.values[id(instance)] = value


class Described:
    in_object, in_itself = Doubled(), Doubled({})
    k = 2.0

    @functools.cached_property
    def cached(self):
        return self.k * 2

    def __getattr__(self, name):
        try:
            return self.__dict__["more"][name]
        except KeyError:
            raise AttributeError(name) from None


def test_descriptors():
    def set_cached(value):
        described.k = value
        vars(described).pop("cached", None)

    described = Described()
    described.more = {}
    check(lambda x: x * described.in_object, lambda v: setattr(described, "in_object", v))
    check(lambda x: x * described.in_itself, lambda v: setattr(described, "in_itself", v))
    check(lambda x: x * described.cached, set_cached)
    check(lambda x: x * described.other, lambda v: described.more.update(other=v))


def test_attributes_by_name_and_all_attributes():
    class Plain:
        pass

    def set_k(value):
        vars(plain).pop("k", None)
        if value != 3.0:
            plain.k = value

    plain = Plain()
    check(lambda x: x * getattr(plain, "k", 1.0), set_k)
    check(lambda x: x * (plain.k if hasattr(plain, "k") else 1.0), set_k)
    check(lambda x: x * vars(plain).get("k", 1.0), set_k)
    check(lambda x: x * plain.__dict__.get("k", 1.0), set_k)


def test_the_class_of_an_object():
    class One:
        def scale(self, x):
            return x * 3.0

    class Two:
        def scale(self, x):
            return x * 5.0

    thing = One()
    check(
        lambda x: thing.scale(x),
        lambda value: setattr(thing, "__class__", One if value == 3.0 else Two),
    )


def test_keywords_of_a_partial():
    scale = functools.partial(lambda x, k: x * k, k=2.0)
    check(scale, lambda value: scale.keywords.update(k=value))
    check(lambda x: scale(x), lambda value: scale.keywords.update(k=value))
