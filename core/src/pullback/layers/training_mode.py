"""The mode of a call, training or inference, and a warning where it was left open."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from pullback._dispatch.arguments import as_bool
from pullback._dispatch.recording import records_variables
from pullback._once import once_for_each

__all__ = ["is_training", "takes_training"]

_LEFT_OPEN = (
    "a gradient tape records a call that does not say `training=`, so Dropout and noise layers do "
    "nothing in it, and BatchNormalization uses its moving averages and does not update them; "
    "write model(x, training=True) where the model is trained, or model(x, training=False) if "
    "this is meant"
)


@once_for_each
def takes_training(call: Callable[..., Any]) -> bool:
    """Returns whether a class's `call` has a `training` parameter."""
    if call.__module__ == "pullback.layers.layer":
        return False  # the class has none: an object of it may have, and takes what that takes
    parameters = inspect.signature(call).parameters
    return "training" in parameters or any(
        parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
    )


def is_training(training: bool | None) -> bool:
    """Returns whether a layer is called for training; None, which nobody chose, is for False.

    Where a tape that watches variables records the call, None warns: authors who are used to
    `model.train()` leave it out. A tape of an argument alone, as that of `pb.grad`, is used with
    trained models too.

    Args:
        training: what `call` got.
    """
    if training is None and records_variables():
        warn_at_the_caller(_LEFT_OPEN)
    return training is not None and as_bool(training, "training")


def warn_at_the_caller(message: str) -> None:
    """Warns at the line that calls the outermost layer: the layers of one model warn as one."""
    frame: FrameType | None = sys._getframe(1)
    level = found = 2
    while frame is not None:
        if frame.f_code.co_name == "__call__" and _is_ours(frame):
            found = level + 1
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=found)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.startswith("pullback.layers.")
