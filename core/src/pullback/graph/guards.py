"""Sorts the guards of a trace: what each run of its program compares.

`pullback.graph.watch` has seen what the function reads. A tensor of the trace that the function
has put where it read one is an error: its next call would read that.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

from pullback._dispatch.recording import AMBIENT, SETTINGS
from pullback._symbols import Break
from pullback.devices import Device
from pullback.graph.foreign import has_drawn, is_framework, set_state
from pullback.graph.host import Guard, contents, replace
from pullback.tensor import Tensor


def ambient() -> list[Guard]:
    """The guards for what the thread has: settings that every function may depend on."""
    return [Guard(read, (), read(), what) for read, what in AMBIENT]


def settled(
    guards: Iterable[Guard],
    layers: dict[int, object],
    device: Device,
) -> tuple[list[Guard], list[Guard]]:
    """Sorts the guards of a trace that has ended.

    Args:
        guards: those of the function, with the values that it read.
        layers: the layers that are called, by identity.
        device: the device of the trace.

    Returns:
        What each run compares, and what it compares when an attribute of a layer has been set.

    Raises:
        Break: if the function has put a tensor of the trace where it read one, or has drawn from a
            generator that is not the framework's.
    """
    always: list[Guard] = []
    of_layers: list[Guard] = []
    spaces = {id(vars(layer)) for layer in layers.values()}
    kept = None
    for guard in guards:
        if guard.function is has_drawn:
            if not guard.holds():
                set_state(*guard.arguments)
                raise Break(
                    f"draws random numbers from {guard.what}",
                    "draw with pb.random or a pb.Generator, or pass the numbers as arguments",
                )
            continue
        if not guard.holds():
            try:
                now = guard.function(*guard.arguments)
            except Exception:  # such as an attribute that the function has deleted
                now = None
            parts = now if guard.function is contents else (now,)
            if any(type(part) is Tensor and part._device is device for part in parts):
                _put_back(guard)
                kept = guard.what
        (of_layers if _counts(guard, layers, spaces) else always).append(guard)
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return always, of_layers


def _counts(guard: Guard, layers: dict[int, object], spaces: set[int]) -> bool:
    """Returns whether a guard is one of an attribute of a layer, which counts when it is set."""
    owner = guard.arguments[0] if guard.arguments else None
    if id(owner) not in layers:
        return id(owner) in spaces
    # What a class has does not count; nobody sets attributes of the framework's.
    name = guard.arguments[1] if guard.function is getattr else "__class__"
    of_users = (base for base in type(owner).__mro__ if not is_framework(base))
    return name in vars(owner) or not any(name in vars(base) for base in of_users)


def _put_back(guard: Guard) -> None:
    """Has a place hold what it held before the trace."""
    place, *name = guard.arguments
    before = cast("Any", guard.value)
    if guard.function is getattr:
        setattr(place, name[0], before)
    elif guard.function is operator.getitem:
        place[name[0]] = before
    elif guard.function is not contents:
        cast("Any", guard.function).__self__[place] = before
    else:
        is_dict = isinstance(place, dict)
        replace(place, zip(before[::2], before[1::2], strict=True) if is_dict else before)


class Unset:
    """Guards of attributes of layers, which are asked when one has been set since they held."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = tuple(guards)
        self.count = SETTINGS.count if not self.unmet() else -1

    def unmet(self) -> list[Guard]:
        """The guards that do not hold now."""
        return [guard for guard in self.guards if not guard.holds()]

    def hold(self) -> bool:
        """Returns whether all hold."""
        count = SETTINGS.count
        if self.unmet():
            return False
        self.count = count
        return True
