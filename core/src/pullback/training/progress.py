"""The progress bar of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from pullback.training.callback import Callback

__all__ = ["ProgressBar"]

_SHOWN_EVERY = 0.1
#: Where nobody watches, one line an epoch is enough.
_NEVER = 1e9


class ProgressBar(Callback):
    """A bar for each epoch, with the figures so far; one line an epoch where no one watches.

    `fit` shows one unless it is told `verbose=False`.
    """

    #: Before the others, so that what they print comes after the bar of the epoch.
    order = -100

    def __init__(self) -> None:
        self._bar: Any = None
        self._watched = False
        self._shown = 0.0

    def _open(self, text: str, total: int | None, done: int = 0) -> None:
        from tqdm import tqdm

        self.close()
        self._watched = watched = sys.stderr is not None and sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            desc=text,
            initial=done,
            mininterval=_SHOWN_EVERY if watched else _NEVER,
            delay=0 if watched else 1e-9,
            dynamic_ncols=True,
            leave=True,
        )

    def _advance(self, logs: Mapping[str, Any]) -> None:
        bar = self._bar
        if bar is None:
            return
        # Reading figures waits for the device; they are read as often as they are shown.
        now = time.monotonic()
        if self._watched and now - self._shown >= _SHOWN_EVERY:
            self._shown = now
            self._figures(logs)
        bar.update()

    def _figures(self, logs: Mapping[str, Any]) -> None:
        shown = {name: f"{value:.4g}" for name, value in logs.items() if _is_number(value)}
        self._bar.set_postfix(shown, refresh=False)

    def _finish(self, logs: Mapping[str, Any]) -> None:
        if self._bar is not None:
            self._figures(logs)
            self._bar.total = self._bar.n
            self.close()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Opens the bar of the epoch."""
        run = self.run
        self._open(f"epoch {epoch + 1}/{run.epochs}", run.steps, run.step)

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Moves on by one step."""
        self._advance(logs)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        """Shows the figures of the epoch, with those of its validation."""
        self._finish(logs)

    def on_test_begin(self, logs: Mapping[str, Any]) -> None:
        """Opens a bar, unless this is a validation: that of the epoch goes on."""
        if self._bar is None:
            self._open("evaluate", self.run.steps)

    def on_test_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Moves on by one batch."""
        if not self.run.epochs:
            self._advance(logs)

    def on_test_end(self, logs: Mapping[str, Any]) -> None:
        """Shows the figures."""
        if not self.run.epochs:
            self._finish(logs)

    def on_predict_begin(self, logs: Mapping[str, Any]) -> None:
        """Opens a bar."""
        self._open("predict", self.run.steps)

    def on_predict_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:
        """Moves on by one batch."""
        self._advance({})

    def on_predict_end(self, logs: Mapping[str, Any]) -> None:
        """Ends the bar."""
        self._finish({})

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
