"""Sums of gradients over several calls, for `accumulate_steps`."""

from __future__ import annotations

from typing import Any, Protocol

from pullback._dispatch.recording import capturing
from pullback.ops.creation import full
from pullback.optimizers.checks import Pairs
from pullback.optimizers.slots import Slots
from pullback.variable import Variable

__all__ = ["ACCUMULATED", "accumulate", "accumulated"]

#: The slot with the sum of gradients.
ACCUMULATED = "accumulated"


class _Accumulating(Protocol):
    accumulate_steps: int
    _accumulated: int

    def slot(self, variable: Variable, name: str) -> Variable: ...


def accumulated(slots: Slots, steps: int) -> frozenset[int]:
    """The variables, by identity, whose gradients are in the sums for the next step."""
    if steps == 1:
        return frozenset()
    return frozenset(id(variable) for variable, _ in slots.named(ACCUMULATED))


def accumulate(optimizer: _Accumulating, slots: Slots, pairs: Pairs) -> Pairs:
    """Sums gradients; returns their means every `accumulate_steps` calls, else nothing.

    The slots of sums that have been used are set aside until the next ones: a captured step has
    them too.
    """
    for gradient, variable in pairs:
        total = slots.of(variable).get(ACCUMULATED)
        if total is None:
            total = slots.aside(variable, ACCUMULATED)
            if total is None:
                total = optimizer.slot(variable, ACCUMULATED)
            else:
                total.assign(full(total.shape, 0, dtype=total.dtype, device=total.device))
                slots.put(variable, ACCUMULATED, total)
        total.assign_add(gradient.astype(total.dtype))
    steps, capture = optimizer.accumulate_steps, capturing()
    done = optimizer._accumulated + 1 == steps
    if capture is None:
        optimizer._accumulated = (optimizer._accumulated + 1) % steps
    else:
        number: Any = capture.number_of(optimizer, "_accumulated")
        capture.set_attribute(optimizer, "_accumulated", (number + 1) % steps)
    if not done:
        return []
    means = [(total.value / steps, variable) for variable, total in slots.named(ACCUMULATED)]
    slots.set_aside(ACCUMULATED)
    return means
