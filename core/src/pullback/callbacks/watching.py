"""`Watch`: the best value of a metric so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pullback import errors
from pullback.shapes import check_choice, check_number
from pullback.training.run import Run

__all__ = ["MetricWatch"]

#: Words in the names of metrics whose larger values are better.
_MORE_IS_BETTER = ("accuracy", "precision", "recall", "auc", "score", "f1", "r2", "iou")


class MetricWatch:
    """The best value of a metric so far, and the number of epochs since.

    Args:
        monitor: the name of the metric, such as "val_loss".
        mode: "min" or "max", the better values; "auto" decides by the name.
        min_delta: the least change that counts as an improvement.

    Raises:
        InputValueError: for another mode.
    """

    def __init__(self, monitor: str, mode: str = "auto", min_delta: float = 0.0) -> None:
        check_choice(mode, "mode", ("min", "max", "auto"))
        if not isinstance(monitor, str):
            raise errors.InputTypeError(
                f"monitor must be the name of a metric, such as 'val_loss', got {monitor!r}"
            )
        check_number(min_delta, "min_delta")
        self.monitor = monitor
        self.more = mode == "max" or (
            mode == "auto" and any(word in monitor.lower() for word in _MORE_IS_BETTER)
        )
        self.min_delta = abs(min_delta)
        self.best: float | None = None
        self.waited = 0

    def value(self, logs: Mapping[str, Any], run: Run) -> float | None:
        """Returns the metric; None after an epoch without the validation that it belongs to.

        Raises:
            InputValueError: for an unknown metric.
        """
        if self.monitor not in logs:
            if run.validation is not None and not any(name.startswith("val_") for name in logs):
                return None
            hint = "; pass validation_data to fit" if self.monitor.startswith("val_") else ""
            raise errors.InputValueError(
                f"unknown metric {self.monitor!r}; there are {', '.join(logs) or 'none'}{hint}"
            )
        return float(logs[self.monitor])

    def improves(self, value: float) -> bool:
        """Returns True if a value is better than the best so far; else counts one more epoch."""
        # NaN is never better.
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
        """Returns the best value, and the number of epochs since."""
        return {"best": self.best, "waited": self.waited}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.best, self.waited = state["best"], int(state["waited"])
