"""Random programs, as text, the objects that they read and write, and what changes between calls.

Each program is run twice, from two worlds made alike: as it is, and captured. Both see the same
arguments and the same changes between calls. After each call the results, all that the worlds hold,
and the exceptions have to be the same, bit for bit.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import linecache
import random
import re
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pullback as pb


def module(name: str) -> types.ModuleType:
    """A file beside this one as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


features = module("random_features")

DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16", "int32")
SHAPES = ((2, 3), (2, 3), (3,), (), (1, 3), (2, 1), (0, 3), (5, 3))
#: Expressions of one tensor, most of which keep its shape.
UNARY = tuple(
    """
    -{a}
    abs({a})
    {a} * 2
    2.5 * {a}
    {a} + 1
    1 - {a}
    {a} / 3
    {a} ** 2
    +{a}
    pb.tanh({a})
    pb.exp(-pb.abs({a}))
    pb.relu({a})
    pb.square({a})
    {a}[...]
    pb.where({a} > 0, {a}, 0.5)
    pb.clip({a}, -1, 1)
    pb.flip({a})
    pb.sigmoid({a})
    {a} * cfg.rate
    {a} + cfg.shift
    {a} * d['k']
    {a} - lst[0]
    scale({a})
    {a} * SCALE
    helper({a}, k=n)
    {a} * num
    custom({a})
    pb.stop_gradient({a})
    box({a})
    pb.silu({a})
    pb.sum({a}, keepdims=True) + {a}
    {a} - pb.mean({a}, axis=-1, keepdims=True) if {a}.ndim else {a}
    pb.softmax({a}) if {a}.ndim else {a}
    {a}.astype('float32')
    pb.maximum({a}, table)
    {a} * arr
    {a} + v0
    {a} * v1 if cfg.flag else {a}
    inner({a})
    sum([{a} * w for w in lst])
    ({a} | box)
    pb.cond(pb.sum({a}) > 0, lambda: {a} * 2, lambda: pb.flip({a}) * 1)
    pb.exp(pb.cond(pb.sum({a}) > 0, lambda: {a} * 2.0, lambda: pb.flip({a}) * 1.0) * 0.1)
    pb.fori_loop(0, 3, lambda i, s: s * 0.5 + {a}, {a})
    pb.fori_loop(0, 2, lambda i, s: {a} * 0.5 + s, {a})
    {a} + pb.scan(lambda c, r: (pb.sin(c) * r + v1, c * r), pb.mean({a}), pb.ravel({a}))[0]
    pb.sum(pb.scan(lambda c, r: (c * 0.5 + r, c * r), pb.mean({a}), pb.ravel({a}))[1]) * {a}
    other_custom({a})
    pb.clip({a}, -cfg.rate, cfg.rate)
    pb.py_function(judged, {a}, result={a})
    {a} * pb.while_loop(lambda s: s < 4, lambda s: s + 1, pb.mean({a}) * 0)
    pb.concat([{a}, {a}]).sum() + {a}
    pb.cumulative_sum({a}) if {a}.ndim == 1 else {a}
    cfg.sub.f({a})
    cfg.prop * {a}
    {a} * getattr(cfg, 'lambda', 3)
    noise({a})
    {a} * gen.uniform({a}.shape)
    {a} + pb.random.normal({a}.shape)
    layer({a})
    norm({a})
    managed({a})
    again({a})
    pb.cond(pb.sum({a}) > 0, lambda: managed({a}), lambda: again({a}))
    pb.fori_loop(0, 2, lambda i, s: managed(s) + {a}, {a} * 1.0)
    """.replace("    ", "")
    .strip()
    .splitlines()
)
UNARY += features.UNARY
BINARY = tuple(
    """
    {a} + {b}
    {a} * {b}
    {a} - {b}
    pb.maximum({a}, {b})
    pb.where({a} > {b}, {a}, {b})
    pb.atan2({a}, {b})
    {a} @ {b}.T if {a}.ndim == 2 == {b}.ndim and {a}.shape == {b}.shape else {a}
    pb.stack([{a} + {b}, {b} + {a}])[0]
    ({a} - {b}) ** 2
    {a} / (1 + pb.abs({b}))
    pb.hypot({a}, {b})
    pb.logaddexp({a}, {b})
    helper({a}, {b})
    """.replace("    ", "")
    .strip()
    .splitlines()
)
STATEMENTS = (
    "v0.assign(v0 * 0.5 + {s})",
    "v0.assign_add({s})",
    "v1.assign_sub({s} * 0.1)",
    "mean({s})",
    "if cfg.flag:\n    {t} = {t} * 2\nelse:\n    {t} = {t} - 1",
    "for w in lst:\n    {t} = {t} * w",
    "cache['k'] = {t}",
    "cache['n'] = {t} * 2",
    "if cfg.bad:\n    raise ValueError('bad')",
    "stats.append(n)\nstats.pop()",
    "try:\n    {t} = {t} * d['missing']\nexcept KeyError:\n    {t} = {t} + 1",
    "with pb.GradientTape() as tape:\n    tape.watch(x)\n    loss = pb.sum(({u}) * 1.0)\n"
    "grad = tape.gradient(loss, [x, v0], unconnected_gradients='zero')\n"
    "{t} = {t} * 1 + pb.sum(grad[0])",
    "with pb.GradientTape() as tape:\n    loss = pb.sum(v0 * v0 + ({s}))\n"
    "optimizer.apply_gradients([(tape.gradient(loss, v0), v0)])",
    "extra = [{t}, {t} * 3]\n{t} = extra[n % 2]",
    "{t}, other = {t} + 1, {t}",
    "match cfg.mode:\n    case 'a':\n        {t} = {t} * 3\n    case _:\n        {t} = {t} / 3",
    "assert cfg.rate == cfg.rate",
    "check({t})",
    "acc({s}, {s})",
    "labeled(pb.abs(pb.stack([x0({t})])).astype('int32'), pb.asarray([1]))",
    "{t} = pb.grad(lambda z: pb.sum(pb.tanh(z) * z))({t} * 1.0)",
    *features.STATEMENTS,
)
RESULTS = tuple(
    """
    {t}
    ({t}, y)
    {{'a': {t}, 'b': [{t}, None, n]}}
    [{t}, v0 * 1]
    {t}, cfg.rate, 'text'
    pb.sum({t})
    {t}.T if {t}.ndim == 2 else {t}
    None if cfg.flag else {t}
    """.replace("    ", "")
    .strip()
    .splitlines()
)
RESULTS += features.RESULTS

_HELP = """
import contextlib
import numpy as np
import pullback as pb

class Config:
    def __init__(self):
        self.rate, self.shift, self.mode = 0.5, 2, 'a'
        self.flag, self.bad, self.count, self.turn = True, False, 0, False
        self.sub = Sub()
        setattr(self, 'lambda', 1.5)
    @property
    def prop(self):
        return self.rate * self.sub.k

class Sub:
    k = 3
    def f(self, t):
        return t * self.k

class Box:
    def __init__(self):
        self.k = 2.0
    def __call__(self, t):
        return t * self.k
    def __ror__(self, t):
        return t + self.k

class Inner:
    def __init__(self):
        self.w = pb.Variable(1.5, name='w')
    def __call__(self, t):
        return t * self.w

def x0(t):
    return pb.sum(pb.where(pb.abs(t) < 3, t, 0)).astype('float32')

def scale(t, by=0.5):
    return t * by

def helper(t, other=1, *, k=1):
    return t * other + SCALE * k

def make_noise(amount):
    def noise(t):
        return t + amount
    return noise

def check(t):
    if cfg.bad and t.ndim > 7:
        raise TypeError('never')

@pb.custom_gradient
def custom(t):
    def backward(g):
        return g * SCALE
    return t * 2, backward

@contextlib.contextmanager
def scope(by):
    yield by * cfg.rate

def managed(t):
    with scope(0.5) as factor:
        return t * factor + 0.25

again = pb.remat(managed)

def judged(t):
    if pb.sum(t.astype('float32')).item() > 6:
        raise ValueError('too large')
    return t

@pb.custom_gradient
def other_custom(t):
    y = t * box.k
    def backward(g):
        return g * cfg.rate + y * d['k']
    return y, backward
"""


class World:
    """The objects of one run of a program."""

    def __init__(
        self,
        source: str,
        seed: int,
        capture: Callable[..., Any] | None,
        around: Callable[..., Any] = lambda f: f,
    ) -> None:
        rng = np.random.default_rng(seed)
        name = f"<program {seed}{'c' if capture else ''}>"
        names: dict[str, Any] = {"__name__": "user", "SCALE": 1.25}
        exec(compile(_HELP + features.HELP, name + "h", "exec"), names)
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        self.names = names
        names["cfg"], names["box"], names["inner"] = (
            names["Config"](), names["Box"](), names["Inner"]())  # fmt: skip
        names["noise"] = names["make_noise"](0.25)
        names["d"], names["lst"] = {"k": 2.0, "z": [1]}, [0.5, 2.0]
        names["stats"], names["num"], names["replaced"] = [], 3, []
        names["arr"] = rng.standard_normal(3).astype(np.float32)
        names["table"] = pb.asarray(rng.standard_normal(3).astype(np.float32))
        names["v0"] = pb.Variable(rng.standard_normal(3).astype(np.float32), name="v0")
        names["v1"] = pb.Variable(np.float32(0.75), name="v1")
        names["mean"] = pb.metrics.Mean("mean")
        names["acc"] = pb.metrics.MeanSquaredError()
        names["labeled"] = pb.metrics.MeanIoU(3)
        kinds = (pb.optimizers.SGD, pb.optimizers.Adam, pb.optimizers.RMSprop)
        names["optimizer"] = kinds[seed % 3](0.05)
        names["lbfgs"] = pb.optimizers.LBFGS(iterations=2)
        names["gen"] = pb.Generator(seed)
        names["layer"] = pb.layers.Dropout(0.25)
        names["norm"] = pb.layers.LayerNormalization() if seed % 2 else pb.layers.Activation("tanh")
        names["notes"], names["segments"] = [], [0, 2, 1, 0, 1]
        plain = names["nested_plain"]
        names["nested"] = plain if capture is None else pb.function(plain)
        self.features = [name for name in features.MADE if re.search(rf"\b{name}\b", source)]
        pb.random.default_generator.state = (seed, 1)
        for feature in self.features:
            names[feature] = features.MADE[feature](seed)
        if "counter" in source:
            names["counter"] = names["Counter"]()
            if capture is not None:
                names["Counter"].step = pb.function(names["Counter"].step)
        exec(compile(source, name, "exec"), names)
        self.eager = names["program"]
        self.captured = self.eager if capture is None else capture(self.eager)
        self.call = around(self.captured)
        self.random = pb.random.default_generator
        self.random_state = (seed, 0)

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any], outside: int) -> Outcome:
        """Returns what a call returns or raises, and all that the world holds then."""
        default = self.random
        default.state = self.random_state
        error, result = "", None
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                if outside == MINIMIZED:
                    result = self.minimized(args, kwargs)
                elif outside:
                    result = self.differentiated(args, kwargs, outside)
                else:
                    result = frozen(self.call(*args, **kwargs))
        except pb.errors.CaptureError as caught:
            error = f"CaptureError: {caught}"
        except Exception as caught:
            error = type(caught).__name__
            self.message = str(caught)
        self.random_state = default.state
        state = self.state(args, kwargs)
        state["printed"] = printed.getvalue()
        return Outcome(result, error, state)

    def minimized(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The loss after steps of a quasi-Newton method, whose loss is of the results."""

        def loss() -> pb.Tensor:
            found = tensors(self.call(*args, **kwargs))
            parts = [pb.sum(pb.tanh(t) ** 2) for t in found if "float" in str(t.dtype)]
            return sum((part.astype("float64") for part in parts), pb.sum(self.names["v0"] ** 2))

        return frozen(self.names["lbfgs"].minimize(loss, [self.names["v0"], self.names["v1"]]))

    def differentiated(self, args: tuple[Any, ...], kwargs: dict[str, Any], which: int) -> Any:
        """The result, and gradients of some of its parts, where a tape outside records."""
        sources = [
            *(a for a in args if "float" in str(a.dtype)),
            self.names["v0"],
            self.names["v1"],
        ]
        with pb.GradientTape() as tape:
            for source in sources[:-2]:
                tape.watch(source)
            result = self.call(*args, **kwargs)
            parts = [t for t in tensors(result) if "float" in str(t.dtype)]
            chosen = [t for i, t in enumerate(parts) if which >> i & 1] or parts
            loss = [pb.sum(pb.tanh(t) * 3) for t in chosen]
        if not loss:
            return frozen(result)
        return frozen(result), frozen(tape.gradient(loss, sources))

    def state(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """All that the world holds."""
        state = {
            name: frozen(self.names[name])
            for name in ("v0", "v1", "lst", "d", "num", "SCALE", "table", "stats")
        }
        for name in ("mean", "acc", "labeled", "optimizer", "norm"):
            state[name] = held(self.names[name])
        for name in self.features:
            state[name] = held(self.names[name])
        state["count"] = self.names["cfg"].count
        state["notes"] = frozen(self.names["notes"])
        state["lbfgs"] = held(self.names["lbfgs"])
        state["gen"] = self.names["gen"].state
        state["random"] = self.random_state
        state["args"] = [frozen(pb.asarray(a)) for a in args], frozen(kwargs)
        return state


#: A call by an optimizer that evaluates the program as often as it likes.
MINIMIZED = 8


class Outcome(NamedTuple):
    """The outcome of a call."""

    result: Any
    error: str
    state: dict[str, Any]


def tensors(value: Any) -> list[pb.Tensor]:
    """The tensors in a structure."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return [value] if isinstance(value, pb.Tensor) else []


def frozen(value: Any) -> Any:
    """The bits, dtype and structure of a value."""
    if isinstance(value, (pb.Tensor, pb.Variable)):
        array = np.asarray(value)
        return "tensor", str(value.dtype), array.shape, array.tobytes()
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return "dict", *((key, frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value).__name__, *map(frozen, value)
    if isinstance(value, float):
        return "float", value.hex()
    return type(value).__name__, repr(value)


def held(value: Any) -> Any:
    """The state of a metric, an optimizer or a layer."""
    found = [frozen(variable) for variable in getattr(value, "variables", [])]
    for name in ("step", "learning_rate"):
        if hasattr(value, name):
            found.append(frozen(getattr(value, name)))
    if isinstance(value, pb.metrics.Metric):
        found.append(repr(value.result()))
    return found


def replace(names: dict[str, Any], name: str, value: object) -> None:
    """Gives a name another value; the one before lives on, as a program may hold it."""
    names["replaced"].append(names[name])
    names[name] = value


def adding(amount: float) -> Callable[[Any, Any], Any]:
    """Another method in place of that of a box."""
    return lambda self, t: t * self.k + amount


#: What may change between two calls. Each gets the names of a world and a generator of its own.
CHANGES: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    lambda w, r: setattr(w["cfg"], "rate", r.choice([0.5, 1, 1.0, True, -0.0, 0.0, 2])),
    lambda w, r: setattr(w["cfg"], "shift", r.choice([2, 2.0, 3, False])),
    lambda w, r: setattr(w["cfg"], "flag", r.random() < 0.5),
    lambda w, r: setattr(w["cfg"], "bad", r.random() < 0.3),
    lambda w, r: setattr(w["cfg"], "mode", r.choice("ab")),
    lambda w, r: setattr(w["cfg"], "lambda", r.choice([1.5, 2, 2.0])),
    lambda w, r: setattr(w["cfg"], "sub", w["Sub"]()),
    lambda w, r: setattr(w["cfg"].sub, "k", r.choice([3, 4, 3.0])),
    lambda w, r: setattr(w["Sub"], "k", r.choice([3, 5])),
    lambda w, r: setattr(w["box"], "k", r.choice([2.0, 2, 3.5])),
    lambda w, r: w.__setitem__("SCALE", r.choice([1.25, 1, 1.0, 2])),
    lambda w, r: w.__setitem__("num", r.choice([3, 3.0, 4, True])),
    lambda w, r: w["d"].__setitem__("k", r.choice([2.0, 2, 5.0])),
    lambda w, r: w["d"].__setitem__("other", r.random()),
    lambda w, r: w["d"].pop("missing", None) if r.random() < 0.5 else w["d"].update(missing=2.0),
    lambda w, r: (
        w["lst"].append(r.choice([1.0, 2, 0.5])) if len(w["lst"]) < 5 else w["lst"].clear()
    ),
    lambda w, r: w["lst"].insert(0, r.choice([1, 1.0, 3])),
    lambda w, r: w["arr"].__setitem__(r.randrange(3), np.float32(r.random())),
    lambda w, r: w.__setitem__("arr", w["arr"] * np.float32(2)),
    lambda w, r: w["table"].__setitem__(r.randrange(3), 0.5),
    lambda w, r: w.__setitem__("table", w["table"] + 1),
    lambda w, r: w["v0"].assign(w["v0"] * 0 + r.random()),
    lambda w, r: w["v1"].assign(r.random()),
    lambda w, r: replace(w, "v0", pb.Variable(np.full(3, r.random(), np.float32), name="v0")),
    lambda w, r: w["inner"].w.assign(r.random()),
    lambda w, r: setattr(w["inner"], "w", pb.Variable(r.random(), name="w")),
    lambda w, r: w["mean"].reset(),
    lambda w, r: setattr(w["optimizer"], "learning_rate", r.choice([0.05, 0.1, 0.2])),
    lambda w, r: setattr(w["gen"], "state", (r.randrange(9), r.randrange(9) * 4)),
    lambda w, r: setattr(w["layer"], "rate", r.choice([0.25, 0.5, 0.0])),
    lambda w, r: setattr(w["scale"], "__defaults__", (r.choice([0.5, 1, 2.0]),)),
    lambda w, r: w.__setitem__("noise", w["make_noise"](r.choice([0.25, 1, 1.0]))),
    lambda w, r: setattr(w["helper"], "__kwdefaults__", {"k": r.choice([1, 2, 1.0])}),
    lambda w, r: setattr(w["Box"], "__call__", adding(r.choice([0, 1]))),
    lambda w, r: w.__setitem__("scale", lambda t: t * 4),
    lambda w, r: setattr(w["Config"], "prop", property(lambda self: self.rate + 1)),
    *features.CHANGES,
)


def source_of(r: random.Random) -> str:
    """A random program."""
    names = ["x", "y", "t"]
    lines = ["t = x * 1"]

    def expression(depth: int) -> str:
        if depth == 0 or r.random() < 0.2:
            return r.choice(names)
        if r.random() < 0.7:
            return "(" + r.choice(UNARY).format(a=expression(depth - 1)) + ")"
        pattern = r.choice(BINARY)
        return "(" + pattern.format(a=expression(depth - 1), b=r.choice(names)) + ")"

    for i in range(r.randrange(1, 6)):
        kind = r.random()
        if kind < 0.55:
            name = f"t{i}"
            lines.append(f"{name} = {expression(2)}")
            names.append(name)
        else:
            target = r.choice([name for name in names if name not in "xy"] or ["t"])
            text = r.choice(STATEMENTS).format(
                t=target if target != "x" else "t", s=f"pb.mean({r.choice(names)} * 0.5)",
                u=expression(1))  # fmt: skip
            lines += text.splitlines()
            if target not in names:
                names.append(target)
    if "t" not in names and any("t = " in line for line in lines):
        names.append("t")
    lines.append("return " + r.choice(RESULTS).format(t=names[-1]))
    body = "\n".join("    " + line for line in lines)
    first = "    cache = {} if cache is None else cache"
    return f"def program(x, y, n=1, cache=None):\n{first}\n{body}\n"


def arguments(r: random.Random) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Random arguments."""
    rng = np.random.default_rng(r.randrange(1 << 30))

    def array(shape: tuple[int, ...], dtype: str) -> Any:
        values = np.asarray(rng.standard_normal(shape) * 2)
        if r.random() < 0.1 and values.size:
            values.flat[r.randrange(values.size)] = r.choice([np.nan, np.inf, -0.0, 0.0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = (
                values.astype(pb.dtypes.as_dtype(dtype))
                if dtype != "int32"
                else rng.integers(-3, 4, shape).astype(np.int32)
            )
        made = np.asarray(made)
        if r.random() < 0.2 and made.ndim > 1:
            made = np.asfortranarray(made)
        if r.random() < 0.3 and dtype not in ("bfloat16",):
            return made
        return pb.asarray(made)

    dtype = r.choice(DTYPES)
    x = array(r.choice(SHAPES), dtype)
    y = (
        x
        if r.random() < 0.1
        else array(r.choice(SHAPES[:5]), dtype if r.random() < 0.8 else "float32")
    )
    kwargs: dict[str, Any] = {}
    if r.random() < 0.4:
        kwargs["n"] = r.choice([0, 1, 2, 1.0, True])
    return (x, y), kwargs


class Found(NamedTuple):
    """A difference between a program and its captured form."""

    seed: int
    source: str
    call: int
    what: str


class Count(NamedTuple):
    """The measurements of a campaign."""

    programs: int
    calls: int
    captured: int
    refused: dict[str, int]
    differences: list[Found]


def programs_of(captured: Any) -> int:
    """The number of programs of a captured function, with those for calls under tapes outside."""
    taped = captured._taped
    return len(captured._all()) + (0 if taped is None else len(taped._all()))


def compare(seed: int, calls: int = 12) -> tuple[int, int, str, Found | None]:
    """Runs a program with and without capture.

    Returns:
        The number of calls, of programs that were captured, the first refusal, and a difference.
    """
    r = random.Random(seed)
    source = source_of(r)
    is_padded = r.random() < 0.1
    limit = r.choice([1, 2, 8, 8, 8, 8, 8, 8])

    def around(f: Callable[..., Any]) -> Callable[..., Any]:
        return pb.padded({"x": 0})(f) if is_padded else f

    worlds = (
        World(source, seed, None, around),
        World(source, seed, lambda f: pb.function(f, limit=limit), around),
    )
    captured = worlds[1].captured
    kept: list[Any] = [arguments(r) for _ in range(2)]
    refusal, done = "", 0
    is_taped = r.random() < 0.25
    is_minimized = not is_taped and r.random() < 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(calls):
            args, kwargs = r.choice(kept) if r.random() < 0.9 else arguments(r)
            if r.random() < 0.35 and i > 2:
                change, state = r.choice(CHANGES), r.random()
                for world in worlds:
                    change(world.names, random.Random(state))
            cache = {} if r.random() < 0.5 else None
            outcomes = []
            outside = r.randrange(1, 8) if is_taped and r.random() < 0.7 else 0
            outside = MINIMIZED if is_minimized and r.random() < 0.7 else outside
            before = worlds[1].state(args, {})
            for world in worlds:
                own = {**kwargs, **({} if cache is None else {"cache": {}})}
                given = args
                if world is worlds[0] or outside:
                    # A captured function has tensors for the arrays that it is given.
                    made = {id(a): pb.asarray(a) for a in args}
                    given = tuple(made[id(a)] for a in args)
                outcomes.append(world.run(given, own, outside))
            done += 1
            if (
                outcomes[1].error.startswith("CaptureError")
                and outcomes[0].error != outcomes[1].error
            ):
                refusal = outcomes[1].error
                break
            if outcomes[0].error and outcomes[0].error == outcomes[1].error:
                # A program that fails has changed nothing but drawn its random numbers; what runs
                # op by op may have begun.
                updated = ("v0", "v1", "optimizer") if "labeled(" in source else ()
                # The error of a wrong label comes when variables are updated.
                # It may have printed.
                for name in ("args", "gen", "random", "printed", "notes", *updated):
                    before[name] = outcomes[0].state[name] = outcomes[1].state[name]
                if outcomes[1].state in (before, outcomes[0].state):
                    break
            if outcomes[0] != outcomes[1]:
                if (outcomes[0].error, outcomes[1].error) == ("ValueError", "") and (
                    "judged" in source
                ):
                    break  # a call of `pb.py_function` whose results are not used is left out
                parts = [
                    f"{name}: {a!r} is {b!r} captured"
                    for name, a, b in (
                        ("result", outcomes[0].result, outcomes[1].result),
                        ("error", outcomes[0].error, outcomes[1].error),
                        *(
                            (n, outcomes[0].state[n], outcomes[1].state[n])
                            for n in outcomes[0].state
                        ),
                    )
                    if a != b
                ]
                parts += [worlds[1].message] if outcomes[1].error else []
                return (
                    done,
                    programs_of(captured),
                    refusal,
                    Found(seed, source, i, "; ".join(parts)),
                )
    return done, programs_of(captured), refusal, None


if __name__ == "__main__":
    import sys
    import time

    first, count = int(sys.argv[1]), int(sys.argv[2])
    verbose = len(sys.argv) > 3
    begin = time.perf_counter()
    total = programs = 0
    refused: dict[str, int] = {}
    bad = []
    for seed in range(first, first + count):
        done, made, refusal, found = compare(seed)
        total += done
        programs += made
        if refusal:
            key = refusal.split(" at <")[0][:110]
            refused[key] = refused.get(key, 0) + 1
        if found is not None:
            bad.append(found)
            if len(bad) <= 12 or verbose:
                print(
                    f"--- seed {found.seed}, call {found.call}\n{found.source}{found.what[:700]}",
                    flush=True,
                )
        linecache.clearcache()
    print(
        f"{count} programs, {total} calls, {programs} captured, {sum(refused.values())} refused, "
        f"{len(bad)} differences, {time.perf_counter() - begin:.0f} s"
    )
    for text, number in sorted(refused.items(), key=lambda item: -item[1])[:25]:
        print(f"{number:6} {text}")
