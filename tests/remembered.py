"""Calls whose results must not depend on what was called before: see `check`."""

from __future__ import annotations

import random
import sys

import pullback as pb
from pullback._tree import leaves
from pullback.spec import OPS
from pullback.tensor import Tensor


def remembering():
    """Every function of this library that remembers what it gave."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("pullback", "pullback_numpy", "pullback_native"):
            for one in list(vars(module).values()):
                if callable(getattr(one, "cache_clear", None)) and not isinstance(one, type):
                    yield one


def forget(those=None):
    """Leaves nothing remembered but code; `those` are the functions that remember."""
    for op in OPS.values():
        op.scalars.clear()
        op.resolutions.clear()
    for device in pb.devices():
        device.backend._forget()
        device.constants.clear()
    for one in remembering() if those is None else those:
        one.cache_clear()


def bits(value):
    """A result in a form that tells -0.0 from 0.0, one NaN from another, and dtypes."""
    if isinstance(value, Tensor):
        array = value.numpy()
        return str(value.device), str(array.dtype), array.shape, array.tobytes()
    return [bits(one) for one in leaves(value)] if isinstance(value, tuple) else repr(value)


def outcome(call):
    """What a call gives, or how it fails."""
    try:
        return bits(call())
    except Exception as error:
        return type(error), str(error)


def check(calls, seed, rounds=3, most=None):
    """Calls by name: in random order, each gives what it gives with nothing remembered."""
    order = random.Random(seed)
    if most is not None and len(calls) > most:
        calls = dict(order.sample(sorted(calls.items(), key=lambda one: repr(one[0])), most))
    fresh, those = {}, list({id(one): one for one in remembering()}.values())
    for name, call in calls.items():
        forget(those)
        fresh[name] = outcome(call)
    names = list(calls) * rounds
    order.shuffle(names)
    for name in names:
        found = outcome(calls[name])
        assert found == fresh[name], (name, found, fresh[name])
    return fresh


def label(value):
    return f"{type(value).__name__} {value!r}"
