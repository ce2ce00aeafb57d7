"""Checks that caches do not change results: see `check`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import pullback as pb
from pullback._tree import leaves
from pullback.spec import OPS
from pullback.tensor import Tensor


class Cached(Protocol):
    """A function with a cache, as `functools.lru_cache` makes it."""

    def cache_clear(self) -> None: ...


def remembering() -> Iterator[Cached]:
    """The functions of this library that have a cache."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("pullback", "pullback_numpy", "pullback_native"):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)) and not isinstance(value, type):
                    yield value


def forget(functions: Iterable[Cached] | None = None) -> None:
    """Clears all caches but that of code; `functions` are those with a cache of their own."""
    for op in OPS.values():
        op.scalars.clear()
        op.resolutions.clear()
    for device in pb.devices():
        device.backend.forget_kernels()
        device.constants.clear()
    for function in remembering() if functions is None else functions:
        function.cache_clear()


def bits(value: Any) -> Any:
    """A result in a form that distinguishes -0.0 from 0.0, one NaN from another, and dtypes."""
    if isinstance(value, Tensor):
        array = value.numpy()
        return str(value.device), str(array.dtype), array.shape, array.tobytes()
    return [bits(leaf) for leaf in leaves(value)] if isinstance(value, tuple) else repr(value)


def outcome(call: Callable[[], Any]) -> Any:
    """The result of a call, or its exception."""
    try:
        return bits(call())
    except Exception as error:
        return type(error), str(error)


def check(
    calls: Mapping[Hashable, Callable[[], Any]], seed: int, rounds: int = 3, most: int | None = None
) -> dict[Hashable, Any]:
    """Asserts that calls, in random order, have the same results as with empty caches."""
    order = random.Random(seed)
    if most is not None and len(calls) > most:
        calls = dict(order.sample(sorted(calls.items(), key=lambda item: repr(item[0])), most))
    fresh: dict[Hashable, Any] = {}
    functions = list({id(function): function for function in remembering()}.values())
    for name, call in calls.items():
        forget(functions)
        fresh[name] = outcome(call)
    names = list(calls) * rounds
    order.shuffle(names)
    for name in names:
        result = outcome(calls[name])
        assert result == fresh[name], (name, result, fresh[name])
    return fresh


def label(value: object) -> str:
    return f"{type(value).__name__} {value!r}"
