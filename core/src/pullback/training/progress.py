"""The progress bar of `fit`, `evaluate` and `predict`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NoReturn

from pullback.training.callback import Callback
from pullback.training.types import Logs

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["ProgressBar"]

_SHOWN_EVERY = 0.1
#: Without a terminal, one line an epoch is enough.
_NEVER = 1e9


class ProgressBar(Callback):
    """A bar for each epoch with the metrics so far; without a terminal one line an epoch.

    `fit` shows one unless `verbose=False`.
    """

    #: Before the others, so that their output comes after the bar of the epoch.
    order = -100

    def __init__(self) -> None:
        self._bar: tqdm[NoReturn] | None = None
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

    def _advance(self, logs: Logs) -> None:
        bar = self._bar
        if bar is None:
            return
        # Reading metrics waits for the device: they are read only when they are shown.
        now = time.monotonic()
        if self._watched and now - self._shown >= _SHOWN_EVERY:
            self._shown = now
            self._show(logs)
        bar.update()

    def _show(self, logs: Logs) -> None:
        assert self._bar is not None
        shown = {name: f"{value:.4g}" for name, value in logs.items() if _is_number(value)}
        self._bar.set_postfix(shown, refresh=False)

    def _finish(self, logs: Logs) -> None:
        if self._bar is not None:
            self._show(logs)
            self._bar.total = self._bar.n
            self.close()

    def on_epoch_begin(self, epoch: int, logs: Logs) -> None:
        """Opens the bar of the epoch."""
        run = self.run
        self._open(f"epoch {epoch + 1}/{run.epochs}", run.steps, run.step)

    def on_train_batch_end(self, batch: int, logs: Logs) -> None:
        """Advances by one step."""
        self._advance(logs)

    def on_epoch_end(self, epoch: int, logs: Logs) -> None:
        """Shows the metrics of the epoch and its validation."""
        self._finish(logs)

    def on_test_begin(self, logs: Logs) -> None:
        """Opens a bar, except for a validation, which belongs to the bar of the epoch."""
        if self._bar is None:
            self._open("evaluate", self.run.steps)

    def on_test_batch_end(self, batch: int, logs: Logs) -> None:
        """Advances by one batch."""
        if not self.run.epochs:
            self._advance(logs)

    def on_test_end(self, logs: Logs) -> None:
        """Shows the metrics."""
        if not self.run.epochs:
            self._finish(logs)

    def on_predict_begin(self, logs: Logs) -> None:
        """Opens a bar."""
        self._open("predict", self.run.steps)

    def on_predict_batch_end(self, batch: int, logs: Logs) -> None:
        """Advances by one batch."""
        self._advance({})

    def on_predict_end(self, logs: Logs) -> None:
        """Ends the bar."""
        self._finish({})

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
