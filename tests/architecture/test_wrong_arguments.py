"""Random wrong arguments for every public function, class and method: an error of ours, no other.

Allowed are the errors of `pullback.errors`, the `TypeError` of a call that does not fit the
signature, and success. Nothing hangs, nothing is printed at the end of an object.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import itertools
import random
import re
import signal
import sys
import traceback
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pullback as pb


def module(name: str) -> types.ModuleType:
    """A file beside this one as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


objects = module("public_objects")

#: A call that takes longer hangs.
SECONDS = 60
#: Not called: they wait, exit, change the process for other tests, or run what they are given.
LEFT_OUT = (
    "pullback_conformance", "pullback.cli", "pullback.plugins", "pullback.array_api",
    "pullback.spec",
    "pullback.register_backend", "pullback.set_default_device", "pullback.set_default_dtype",
    "pullback.op", "pullback.profile", "pullback.graph",
    "pullback.hookimpl", "pullback.summary.set_step", "pullback.random.seed",
    "pullback.use_kernel_packs",
)  # fmt: skip

PACKAGES = (
    "layers", "optimizers", "losses", "metrics", "callbacks", "data", "random", "checkpoint",
    "linalg", "fft", "summary", "strings", "state", "casting",
)  # fmt: skip


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yields the public functions and classes by name, each once."""
    seen: set[int] = set()
    for owner in ("pullback", *(f"pullback.{name}" for name in PACKAGES)):
        module = sys.modules.get(owner) or __import__(owner, fromlist=["_"])
        for name in getattr(module, "__all__", ()):
            full = f"{owner}.{name}"
            value = getattr(module, name)
            if isinstance(value, types.ModuleType) or not callable(value) or id(value) in seen:
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            # Types of annotations: nobody makes one.
            if getattr(value, "_is_protocol", False) or hasattr(value, "__total__"):
                continue
            if typing.get_origin(value) is not None:
                continue
            if not any(full == left or full.startswith(f"{left}.") for left in LEFT_OUT):
                seen.add(id(value))
                yield full, value


def values(choose: random.Random) -> list[Any]:
    return [
        None, True, 0, 1, -1, 3, 2**70, 0.5, float("nan"), float("inf"), 1j, "", "same", "x", b"x",
        [], [1], [1, "a"], [[1], [2, 3]], (), (2, 3), {}, {"a": 1}, {1, 2}, range(3), object(),
        lambda *args: args, slice(1, 2), ..., np.zeros(3), np.array("text"), np.array(None),
        pb.asarray(1.0), pb.asarray([1, 2]), pb.ones((2, 3)), pb.ones((0, 2)),
        pb.Variable([1.0, 2.0]), pb.layers.Dense(2), pb.data.Dataset.range(3),
        pb.optimizers.SGD(0.1), pb.metrics.Mean(), pb.StringTensor(["a"]), iter([1, 2]),
    ]  # fmt: skip


def arguments(
    choose: random.Random, function: Callable[..., Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns values that fit the signature by their number, and by nothing else."""
    several = values(choose)
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return [choose.choice(several) for _ in range(choose.randint(0, 3))], {}
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    for parameter in parameters:
        given = parameter.default is parameter.empty or choose.random() < 0.3
        if parameter.kind is parameter.VAR_POSITIONAL:
            by_position += [choose.choice(several) for _ in range(choose.randint(0, 2))]
        elif parameter.kind is parameter.VAR_KEYWORD or not given:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                break
        elif parameter.kind is parameter.KEYWORD_ONLY or len(by_name):
            by_name[parameter.name] = choose.choice(several)
        elif parameter.kind is parameter.POSITIONAL_ONLY or choose.random() < 0.5:
            by_position.append(choose.choice(several))
        else:
            by_name[parameter.name] = choose.choice(several)
    return by_position, by_name


def is_of_the_signature(error: BaseException) -> bool:
    """Returns whether an error is of a call that does not fit, and not from inside."""
    frames = traceback.extract_tb(error.__traceback__)
    of_call = any(text in str(error) for text in ("argument", "not callable")) and len(frames) <= 4
    return type(error) is TypeError and (of_call or len(frames) == 1)


def is_of_what_was_given(error: BaseException) -> bool:
    """Returns whether a function or class among the arguments was called, and takes others."""
    return type(error) is TypeError and bool(re.search("missing|positional argument", str(error)))


Target = tuple[str, Callable[[], Callable[..., Any]]]


def functions() -> Iterator[Target]:
    """Yields the public functions and classes."""
    for name, function in public():
        yield name, lambda function=function: function


def methods(seed: int, share: float = 1.0) -> Iterator[Target]:
    """Yields the methods of some of the public objects, for each call of another object."""
    for name, make in objects.samples():
        if random.Random(f"{seed} {name}").random() < share:
            for method in objects.methods(make()):
                yield f"{name}.{method}", lambda make=make, method=method: getattr(make(), method)


def faults(seed: int, targets: Iterable[Target], calls: int) -> list[str]:
    """Calls each target some times; returns what was raised that must not be.

    A name decides with the seed what its calls get: a new name changes nothing for the others.
    """
    found, unraisable = [], []
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: unraisable.append(args.exc_value)
    alarm = getattr(signal, "SIGALRM", None)  # not on Windows
    handler = alarm and signal.signal(alarm, hangs)
    try:
        for name, make in targets:
            choose = random.Random(f"{seed} {name}")
            for _ in range(calls):
                function = make()
                args, kwargs = arguments(choose, function)
                error = None
                if alarm:
                    signal.alarm(SECONDS)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        function(*args, **kwargs)
                except pb.errors.PullbackError:
                    pass
                except BaseException as raised:
                    if not (is_of_the_signature(raised) or is_of_what_was_given(raised)):
                        error = raised
                if error is not None or unraisable:
                    what = error or unraisable.pop()
                    where = traceback.extract_tb(what.__traceback__)[-1]
                    place = f"{where.filename.rpartition('pullback/')[2]}:{where.lineno}"
                    call = f"{name}(*{args!r:.60}, **{kwargs!r:.80})"
                    found.append(f"{call}: {type(what).__name__}: {what!s:.60} ({place})")
                del error
    finally:
        sys.unraisablehook = hook
        if alarm:
            signal.alarm(0)
            signal.signal(alarm, handler)
    return found


def hangs(signum: int, frame: types.FrameType | None) -> None:
    """Ends a call that takes too long."""
    raise TimeoutError(f"it takes longer than {SECONDS} seconds")


@pytest.mark.usefixtures("elsewhere")
def test_some() -> None:
    assert not faults(0, functions(), calls=2)


@pytest.mark.usefixtures("elsewhere")
def test_some_methods() -> None:
    assert not faults(1, methods(1, share=0.3), calls=1)


#: Each is wrong for nearly every argument.
WRONG = (
    np.zeros(3), np.array(None), np.array([True, False]), "text", pb.StringTensor(["a"]), 2**70,
    float("nan"), float("inf"), object(), [1, "a"], {1, 2}, {}, None, pb.ones((2, 3)),
)  # fmt: skip


def names_of(kind: Callable[..., Any]) -> list[str]:
    """The names of the arguments of a class, with those of its options."""
    found = []
    for parameter in inspect.signature(kind).parameters.values():
        options = re.match(r"Unpack\[(\w+)]", str(parameter.annotation))
        if options is not None:
            found += inspect.unwrap(kind.__init__).__globals__[options[1]].__annotations__
        elif parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            found.append(parameter.name)
    return found


def faults_of_one(wrong: Callable[[str], Iterable[Any]]) -> list[str]:
    """Makes objects, and calls layers, with one wrong argument, and all others right."""
    found = []
    for one in objects.kinds():
        right = inspect.signature(one.kind).bind(*one.args).arguments
        for name in names_of(one.kind):
            for value in wrong(f"{one.name} {name}"):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        made = one.kind(**{**right, name: value})
                        if one.shapes and not hasattr(made, "adapt"):
                            made(one.inputs())
                except pb.errors.PullbackError:
                    pass
                except Exception as error:
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    place = f"{where.filename.rpartition('pullback/')[2]}:{where.lineno}"
                    found.append(f"{one.name}({name}={value!r:.40}): {error!r} ({place})")
    return found


def test_one_wrong_argument() -> None:
    assert not faults_of_one(lambda place: random.Random(place).sample(WRONG, 2))


@pytest.mark.campaign
def test_every_wrong_argument() -> None:
    assert not faults_of_one(lambda place: WRONG)


def test_losses_and_weights_of_all_structures() -> None:
    metric = pb.metrics.Mean()
    structures = [
        "mse",
        (),
        [],
        {},
        ["mse"],
        {"a": "mse"},
        ("mse", {"b": "mse"}),
        {"a": ["mse"]},
        3,
    ]
    weights = [
        None,
        2.0,
        "x",
        (),
        [],
        {},
        [1.0],
        {"a": 1.0},
        {"b": [1.0]},
        (1.0, 2),
        metric,
        {"a": "x"},
    ]
    for loss, given, metrics in itertools.product(
        structures, weights, [(), ["mse"], {"a": metric}]
    ):
        with contextlib.suppress(pb.errors.PullbackError):
            pb.Sequential().compile("sgd", loss, loss_weights=given, metrics=metrics)


@pytest.mark.parametrize("text", ["text", ["a", "b"], [["a"]]], ids=repr)
def test_text_for_a_layer_of_numbers_is_named(text: Any) -> None:
    silent = []
    for one in objects.layer_kinds():
        try:
            one.made()(text)
        except pb.errors.PullbackError as error:
            if not re.search(r"text|string|StringTensor|integers, got <U", str(error)):
                silent.append(f"{one.name}: {error}")
    assert not silent


def test_there_is_an_object_of_every_layer() -> None:
    kinds = [getattr(pb.layers, name) for name in pb.layers.__all__]
    layers = {
        kind for kind in kinds if isinstance(kind, type) and issubclass(kind, pb.layers.Layer)
    }
    bases = {base for kind in layers for base in kind.__mro__[1:]}
    made = {"Sequential", *(name for name, _ in objects.layers())}
    assert not [kind for kind in layers - bases if kind.__name__ not in made]


@pytest.mark.campaign
@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("seed", range(1, 11))
def test_many(seed: int) -> None:
    assert not [*faults(seed, functions(), 10), *faults(seed, methods(seed), 10)]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, for what calls write to the names that they are given."""
    monkeypatch.chdir(tmp_path)
