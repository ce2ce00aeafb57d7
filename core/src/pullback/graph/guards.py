"""Sorts the guards of a trace: what each run of its program compares.

`pullback.graph.watch` has seen what the function reads. A tensor of the trace that the function
has put where it read one is an error: its next call would read that.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, cast

from pullback._symbols import Break
from pullback.devices import Device
from pullback.graph.foreign import has_drawn, set_state
from pullback.graph.host import Guard, contents, replace
from pullback.tensor import Tensor


def settled(
    guards: Iterable[Guard],
    device: Device,
) -> list[Guard]:
    """Sorts the guards of a trace that has ended.

    Args:
        guards: those of the function, with the values that it read.
        device: the device of the trace.

    Returns:
        What each run compares.

    Raises:
        Break: if the function has put a tensor of the trace where it read one, or has drawn from a
            generator that is not the framework's.
    """
    found: list[Guard] = []
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
        found.append(guard)
    if kept is not None:
        raise Break(
            f"keeps a tensor in {kept}, and reads it at the next call",
            "make a pb.Variable before the call, and assign the tensor to it",
        )
    return found


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
