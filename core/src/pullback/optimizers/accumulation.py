"""Sums of gradients over several calls, for `accumulate_steps`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pullback._dispatch.host_state import HostState
from pullback._dispatch.recording import decided
from pullback.ops.creation import full
from pullback.optimizers.checks import Pairs
from pullback.optimizers.slots import ACCUMULATED, Slots
from pullback.variable import Variable

__all__ = ["accumulate"]


class _Accumulating(Protocol):
    accumulate_steps: int
    _accumulated: HostState

    def make_slots(self, variables: Iterable[Variable]) -> None: ...
    def slot(self, variable: Variable, name: str) -> Variable: ...


def accumulate(optimizer: _Accumulating, slots: Slots, pairs: Pairs) -> Pairs:
    """Sums gradients; returns their means every `accumulate_steps` calls, else nothing."""
    for gradient, variable in pairs:
        if ACCUMULATED not in slots.of(variable):
            optimizer.make_slots((variable,))
        total = optimizer.slot(variable, ACCUMULATED)
        if not slots.is_summed(variable):
            total.assign(full(total.shape, 0, dtype=total.dtype, device=total.device))
            slots.begin_sum(variable)
        total.assign_add(gradient.astype(total.dtype))
    steps = optimizer.accumulate_steps
    count = optimizer._accumulated.get() + 1
    optimizer._accumulated.set(count % steps)
    if decided(steps.__ne__, count):
        return []
    means = [(total.value / steps, variable) for variable, total in slots.named(ACCUMULATED)]
    slots.end_sums()
    return means
