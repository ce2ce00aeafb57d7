"""Sums of gradients over several calls, for `accumulate_steps`."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from pullback._dispatch.recording import capturing
from pullback._symbols import Break
from pullback.ops.creation import full
from pullback.optimizers.checks import Pairs
from pullback.optimizers.slots import Slots
from pullback.variable import Variable

__all__ = ["ACCUMULATED", "accumulate", "accumulated"]

#: The slot with the sum of gradients.
ACCUMULATED = "accumulated"

#: The number of calls for a step up to which a captured step is made for each of them; beyond it
#: there is one for the first, one for the last, and one for all others.
EXACT = 4


class _Accumulating(Protocol):
    accumulate_steps: int
    _accumulated: int

    def slot(self, variable: Variable, name: str) -> Variable: ...


def accumulated(slots: Slots, steps: int) -> frozenset[int]:
    """The variables, by identity, whose gradients are in the sums for the next step."""
    if steps == 1:
        return frozenset()
    return frozenset(id(variable) for variable, _ in slots.named(ACCUMULATED))


def _advance(optimizer: _Accumulating) -> None:
    optimizer._accumulated = (optimizer._accumulated + 1) % optimizer.accumulate_steps


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
    steps, before, capture = optimizer.accumulate_steps, optimizer._accumulated, capturing()
    done = before + 1 == steps
    if capture is None:
        _advance(optimizer)
    else:
        if capture.changes_of(_advance, optimizer) and steps > EXACT:
            raise Break(
                f"accumulates gradients twice in a call, for accumulate_steps={steps}",
                f"call it once for each batch, or set accumulate_steps to {EXACT} or less",
            )
        capture.change(partial(setattr, optimizer, "_accumulated", before), _advance, optimizer)
    if not done:
        return []
    means = [(total.value / steps, variable) for variable, total in slots.named(ACCUMULATED)]
    slots.set_aside(ACCUMULATED)
    return means
