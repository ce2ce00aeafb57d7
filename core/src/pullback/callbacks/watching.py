"""A figure that is watched: whether it has become better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback.training.run import Run

__all__ = ["Watch"]

#: Names of figures of which more is better; of all others less is.
_MORE_IS_BETTER = ("accuracy", "precision", "recall", "auc", "score", "f1", "r2", "iou")


class Watch:
    """The best value of a figure so far, and how long ago that was.

    Args:
        monitor: the name of the figure, such as "val_loss".
        mode: "min" or "max" for what is better; "auto" takes it from the name.
        min_delta: a value is better only by more than this.

    Raises:
        InputValueError: for another mode.
    """

    def __init__(self, monitor: str, mode: str = "auto", min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            raise errors.InputValueError(f"mode is 'min', 'max' or 'auto', got {mode!r}")
        self.monitor = monitor
        self.more = mode == "max" or (
            mode == "auto" and any(word in monitor.lower() for word in _MORE_IS_BETTER)
        )
        self.min_delta = abs(min_delta)
        self.best: float | None = None
        self.waited = 0

    def value(self, logs: Mapping[str, Any], run: Run) -> float | None:
        """The figure; None after an epoch without the validation that it is of.

        Raises:
            InputValueError: when there is no figure of that name.
        """
        if self.monitor not in logs:
            if run.validation is not None and not any(name.startswith("val_") for name in logs):
                return None
            hint = "; give fit validation_data" if self.monitor.startswith("val_") else ""
            raise errors.InputValueError(
                f"there is no figure {self.monitor!r} to watch; there are "
                f"{', '.join(logs) or 'none'}{hint}"
            )
        return float(logs[self.monitor])

    def improves(self, value: float) -> bool:
        """Whether a value is better than the best so far; counts how often it was not."""
        # Nothing is worse than what is no number.
        better = not math.isnan(value)
        if better and self.best is not None:
            gain = value - self.best if self.more else self.best - value
            better = gain > self.min_delta
        if better:
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return better

    def checkpoint_state(self) -> dict[str, Any]:
        """The best value, and how long ago that was."""
        return {"best": self.best, "waited": self.waited}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.best, self.waited = state["best"], int(state["waited"])
