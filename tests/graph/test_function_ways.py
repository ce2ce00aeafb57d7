"""Random programs that read values outside, in random ways: captured as eager after each change.

A program reads one to three chains such as `o0.x["k"][-3]()`. Each link is a way to hold the next
one, and has ways to read it. Then one link of a chain changes: its value, also to one that is equal
and not the same, or the whole rest of the chain.
"""

import collections
import contextlib
import copy
import dataclasses
import functools
import importlib
import itertools
import operator
import random
import sys
import textwrap
import types
import warnings

import numpy as np
import pytest

import pullback as pb

#: What the texts of programs name.
NAMES = {
    "np": np,
    "itertools": itertools,
    "operator": operator,
    "copy": copy,
    "functools": functools,
}
#: Leaves: some are equal, and not the same.
VALUES = (2, 3, 2.0, True, 3.0, -0.0, 0.0, 5, 7.5)

# What programs may call ---------------------------------------------------------------------------


class Held:
    """An object with a value, and every way to have it."""

    def __init__(self, x):
        self.x = x

    def get(self):
        return self.x

    @property
    def by_property(self):
        return self.x

    @functools.cached_property
    def cached(self):
        return [self]

    def __getattr__(self, name):
        if name == "made_up":
            return self.x
        raise AttributeError(name)

    def __getitem__(self, key):
        return self.x

    def __call__(self):
        return self.x

    def __or__(self, other):
        return self.x

    __ror__ = __ior__ = __rshift__ = __matmul__ = __lt__ = __eq__ = __divmod__ = __or__
    __hash__ = None

    def __neg__(self):
        return self.x

    __invert__ = __pos__ = __abs__ = __round__ = __enter__ = __neg__

    def __exit__(self, *_):
        return None

    def __iter__(self):
        yield self.x


class Below(Held):
    kind = "below"

    def get(self):
        return super().get()

    def twice_above(self):
        return super().by_property


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


@dataclasses.dataclass
class Fields:
    x: object
    y: int = 1


class Pair(collections.namedtuple("Pair", "x y")):
    pass


class Reading:
    """A descriptor."""

    def __get__(self, instance, owner):
        return owner.held


def entered(manager):
    with manager as value:
        return value


def matched(value):
    match value:
        case Held(x=found) | Slotted(x=found) | types.SimpleNamespace(x=found):
            return found
        case Fields(found, _):
            return found
        case {"k": found}:
            return found
        case [found, *_]:
            return found


def updated(value):
    value |= 1
    return value


def first(x, *_, **__):
    return x


def of_keyword(*, k, **_):
    return k


def after_failure(read):
    try:
        raise KeyError
    except KeyError:
        return read()
    finally:
        read = None


def generated(read):
    yield read()


def delegated(read):
    yield from generated(read)


@contextlib.contextmanager
def managed(read):
    yield read()


# Links --------------------------------------------------------------------------------------------
# Each makes an object that holds another one, and returns it with what sets it and ways to read it.


def an_attribute(rng, inner):
    kind = rng.choice([Held, Below, Slotted, Fields, lambda x: types.SimpleNamespace(x=x)])
    thing = kind(inner)
    ways = ["{}.x", "getattr({}, 'x')", "operator.attrgetter('x')({})", "matched({})"]
    ways += ["getattr({}, 'x', 0)", "copy.copy({}).x"]
    # Functions in C that functions in C call.
    ways += ["next(map(operator.attrgetter('x'), [{}]))", "next(map(getattr, [{}], ['x']))"]
    ways += ["functools.reduce(getattr, ['x'], {})", "functools.partial(getattr, {}, 'x')()"]
    ways += ["list(itertools.starmap(getattr, [({}, 'x')]))[0]"]
    if not isinstance(thing, Slotted):
        ways += ["vars({})['x']", "{}.__dict__['x']", "copy.copy({}.__dict__)['x']"]
    if isinstance(thing, Held):
        ways += [
            "{}.get()", "{}.by_property", "{}.cached[0].x", "{}.made_up", "{}[0]", "{}()",
            "({} | 1)", "(1 | {})", "({} >> 1)", "({} @ 1)", "divmod({}, 1)", "(-{})", "(~{})",
            "(+{})", "abs({})", "round({})", "entered({})", "[*{}][0]", "next(iter({}))",
            "({} < 1)", "functools.reduce(operator.or_, [{}, 1])", "type({}).get({})",
            "updated({})",
        ]  # fmt: skip
    if isinstance(thing, Below):
        ways += ["{}.twice_above()", "super(Below, {}).get()"]
    if isinstance(thing, Fields):
        ways += ["dataclasses.replace({}, y=3).x"]
    return thing, lambda v: setattr(thing, "x", v), ways


def of_a_class(rng, inner):
    class Meta(type):
        @property
        def of_meta(cls):
            return cls.held

    class Above(metaclass=Meta):
        held = inner
        read = Reading()
        rate = inner

        @classmethod
        def of_class(cls):
            return cls.held

        @staticmethod
        def of_static():
            return Above.held

    class Under(Above):
        rate = 1

        def above(self):
            return super().rate

    thing = rng.choice([Above, Under])
    ways = ["{}.held", "{}.read", "{}.of_meta", "{}.of_class()", "{}.of_static()", "{}().held"]
    ways += ["vars({}.__mro__[-2])['held']", "{}().read", "{}().of_class()"]
    if thing is Under:
        ways += ["{}().above()", "super({0}, {0}).rate"]

    def change(v):
        Above.held = Above.rate = v

    return thing, change, ways


def an_item(rng, inner):
    kind = rng.choice([list, list, collections.deque, collections.UserList, Named])
    # Every element of one that is written in Python is several lines to watch.
    size = rng.choice([1, 3, 70, 700, 70 if kind is collections.UserList else 5000])
    at = rng.randrange(size)
    thing = kind([0] * size)
    thing[at] = inner
    ways = [f"{{}}[{at}]", f"{{}}[{at - size}]", f"[q for q in {{}}][{at}]", f"list({{}})[{at}]"]
    ways += [
        f"operator.itemgetter({at})({{}})",
        f"next(itertools.islice({{}}, {at}, None))",
        f"max(enumerate({{}}), key=lambda p: p[0] == {at})[1]",
        f"[q for i, q in enumerate({{}}) if i == {at}][0]",
        f"[q for q, _ in zip({{}}, range({at + 1}))][-1]",
        f"list(map(first, {{}}))[{at}]",
        f"list(reversed({{}}))[{size - at - 1}]",
        f"(lambda *a: a[{at}])(*{{}})",
    ]
    if kind is list:
        ways += [f"{{}}[{at}:{at + 1}][0]", f"({{}} + [1])[{at}]", f"matched({{}}[{at}:])"]
    return thing, lambda v: thing.__setitem__(at, v), ways


class Named(list):
    pass


class WithMissing(dict):
    def __missing__(self, key):
        return self["k"]


def a_key(rng, inner):
    kind = rng.choice(
        [dict, dict, collections.OrderedDict, collections.UserDict, WithMissing,
         lambda d: collections.ChainMap({}, d), types.MappingProxyType]
    )  # fmt: skip
    under = {f"a{i}": 0 for i in range(rng.choice([0, 3, 100]))}
    under["k"] = inner
    thing = kind(under)
    ways = ["{}['k']", "{}.get('k')", "dict({})['k']", "{{**{}}}['k']", "of_keyword(**{})"]
    ways += ["[w for q, w in {}.items() if q == 'k'][0]", "operator.getitem({}, 'k')"]
    ways += ["next(map({}.__getitem__, ['k']))", "next(map(operator.itemgetter('k'), [{}]))"]
    ways += ["list({}.values())[-1]", "({}['k'] if 'k' in {} else 0)", "{}.get('z', {}['k'])"]
    if isinstance(thing, dict):
        ways += ["{}.setdefault('k', 0)", "matched({})", "collections.ChainMap({{}}, {})['k']"]
    if isinstance(thing, WithMissing):
        ways += ["{}['missing']"]
    holder = (
        under
        if kind is types.MappingProxyType or isinstance(thing, collections.ChainMap)
        else thing
    )
    return thing, lambda v: holder.__setitem__("k", v), ways


def of_a_function(rng, inner):
    def attribute():
        return attribute.k

    def default(x=inner):
        return x

    def keyword(*, x=inner):
        return x

    def cell():
        return inner

    def deeper():
        def inside():
            return max([inner for _ in range(1)], key=lambda _: 0)

        return inside()

    def generator():
        yield inner

    @functools.wraps(cell)
    def decorated(*args):
        return cell(*args)

    attribute.k = inner
    partial = functools.partial(of_keyword, k=inner)
    thing = rng.choice([attribute, default, keyword, cell, deeper, partial, decorated, generator])

    def change(v):
        nonlocal inner
        inner = attribute.k = v
        default.__defaults__ = (v,)
        keyword.__kwdefaults__ = {"x": v}
        partial.keywords["k"] = v

    if thing is generator:
        return (
            thing,
            change,
            ["next({}())", "[*{}()][0]"],
        )
    return thing, change, ["{}()", "[*map(lambda f: f(), [{}])][0]", "first(*[{}()])"]


def in_something(rng, inner):
    """A tuple: only what holds it changes."""
    thing = rng.choice([lambda x: (x, 1), lambda x: Pair(x, 1), lambda x: (x,)])(inner)
    ways = ["{}[0]", "first(*{})", "[*{}][0]", "next(iter({}))"]
    ways += ["{}.x"] * 3 if isinstance(thing, Pair) else ["matched({})"]
    return thing, None, ways


LINKS = (an_attribute, an_attribute, of_a_class, an_item, a_key, of_a_function, in_something)

# Programs -----------------------------------------------------------------------------------------

CONTEXTS = (
    "return x * {}",
    "k = {}\nreturn x * k",
    "return x * sum([{} for _ in range(1)])",
    "for k in [lambda: {}]:\n    x = x * k()\nreturn x",
    "try:\n    return x * {}\nfinally:\n    pass",
    "return x * after_failure(lambda: {})",
    "return x * sum(generated(lambda: {}))",
    "return x * sum(delegated(lambda: {}))",
    "with managed(lambda: {}) as k:\n    return x * k",
    "def inner(x):\n    return x * {}\nreturn inner(x)",
    "if (k := {}) is not None:\n    x = x * k\nreturn x",
    "return x * first(*[{}], **dict(a=1))",
    "i = 0\nwhile i < 1:\n    x, i = x * {}, i + 1\nreturn x",
    "return x * float(str(float({})))",
    "return x * max([{}], key=lambda k: -k)",
    "return x * [{}, 1][0] if x is not None else x",
    "class Local:\n    k = {}\nreturn x * Local.k",
    "return x * np.asarray({}).item()",
)


def chain(rng, depth):
    """A chain that ends in a number: the object, what changes it, and the text that reads it."""
    links = [rng.choice(LINKS) for _ in range(depth)]
    seeds = [rng.random() for _ in links]

    def build(leaf, links, seeds):
        changes, ways = [], []
        inner = leaf
        for link, seed in zip(reversed(links), reversed(seeds), strict=True):
            inner, change, reads = link(random.Random(seed), inner)
            changes.insert(0, change)
            ways.insert(0, reads)
        return inner, changes, ways

    thing, changes, ways = build(2, links, seeds)

    def change(rng, value):
        """Sets the number, or gives one link a new rest of the chain."""
        nonlocal changes
        places = [i for i, each in enumerate(changes) if each is not None]
        if not places:
            return None
        at = rng.choice([places[-1], rng.choice(places)])
        rest, inside, _ = build(value, links[at + 1 :], seeds[at + 1 :])
        changes[at](rest)
        changes = changes[: at + 1] + inside
        return at

    def text(root):
        for reads in ways:
            root = rng.choice(reads).replace("{0}", "{}").replace("{}", root)
            root = root.replace("{{", "{").replace("}}", "}")
        return root

    return thing, change, text


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A module as an installed package has it."""
    folder = tmp_path_factory.mktemp("env") / "lib" / "site-packages"
    folder.mkdir(parents=True)
    (folder / "package_of_the_ways.py").write_text("def read():\n    return thing\n")
    sys.path.insert(0, str(folder))
    yield importlib.import_module("package_of_the_ways")
    sys.path.remove(str(folder))
    del sys.modules["package_of_the_ways"]


def program(rng, installed):
    """A function as text, what it is called with, and what changes its chains."""
    space = {**globals(), **NAMES, "installed": installed}
    changes, lines, cells = [], [], {}
    for i in range(rng.choice([1, 1, 2, 3])):
        thing, change, text = chain(rng, rng.choice([1, 1, 2, 2, 3, 4]))
        name = f"o{i}"
        root = rng.choice(["global", "cell", "module", "argument"])
        if root == "global":
            space[name] = thing
        elif root == "module" and not hasattr(installed, "thing"):
            installed.thing = thing
            name = rng.choice(["installed.thing", "installed.read()"])
        else:
            cells[name] = thing
        changes.append(change)
        lines.append(rng.choice(CONTEXTS).replace("{}", text(name)))
    *before, last = lines
    body = ""
    for i, line in enumerate(before):
        body += f"def step{i}(x):\n{textwrap.indent(line, '    ')}\nx = step{i}(x)\n"
    source = (
        f"def outer({', '.join(cells)}):\n    def f(x):\n"
        f"{textwrap.indent(body + last, '        ')}\n    return f\n"
    )
    exec(source, space)
    return source, space["outer"](*cells.values()), changes


def outcome(f):
    try:
        result = f(pb.asarray([1, 2]))
    except pb.errors.CaptureError:
        raise
    except Exception as error:
        return type(error).__name__
    result = pb.asarray(result)
    return result.numpy().tobytes(), str(result.dtype)


def check(seed, installed):
    """Runs one program beside itself; True if it was captured."""
    rng = random.Random(seed)
    vars(installed).pop("thing", None)
    source, f, changes = program(rng, installed)
    captured = pb.function(f)
    for _ in range(4):
        for call in range(3):
            try:
                found = outcome(captured)
            except pb.errors.CaptureError:
                return False
            expected = outcome(f)
            assert found == expected, f"seed {seed}, call {call}\n{source}"
        changed = rng.choice(changes)(rng, rng.choice(VALUES))
        source += f"# changed at {changed}\n"
    return True


def check_all(seeds, installed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captured = [check(seed, installed) for seed in seeds]
    # What cannot be compared is an error, and rare.
    assert captured.count(False) <= len(seeds) // 50


def test_random_ways_to_read(installed):
    check_all(range(100), installed)


@pytest.mark.slow
def test_more_random_ways_to_read(installed):
    check_all(range(100, 1000), installed)


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(20))
def test_many_random_ways_to_read(installed, part):
    check_all(range(1000 + part * 1000, 2000 + part * 1000), installed)
