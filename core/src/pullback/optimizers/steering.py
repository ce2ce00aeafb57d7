"""The state of an optimizer that decides what a step does, apart from its numbers."""

from __future__ import annotations

from typing import Any

from pullback._dispatch.host_state import HostState
from pullback.variable import Variable

__all__ = ["steering"]


def steering(optimizer: Any) -> tuple[Any, ...]:
    """Returns what decides which ops a step calls: a captured step is made for one value of it.

    The learning rate and the number of the step are not among it: they are inputs.
    """
    rate = optimizer._learning_rate
    return (
        optimizer._slots.version,
        optimizer.accumulate_steps,
        optimizer.clip_value,
        optimizer.clip_norm,
        optimizer.clip_global_norm,
        optimizer.decoupled_weight_decay,
        optimizer.ema_decay,
        tuple(optimizer.settings.items()),
        id(rate) if isinstance(rate, (HostState, Variable)) else 0,
        id(optimizer._no_decay),
        id(optimizer._rate_scale),
        id(optimizer._decay_scale),
    )
