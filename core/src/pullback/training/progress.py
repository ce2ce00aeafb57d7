"""The progress of `fit`, `evaluate` and `predict`: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NoReturn, TextIO

from pullback.training.callback import Callback
from pullback.training.types import Logs

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["ProgressBar"]

_SHOWN_EVERY = 0.1


class ProgressBar(Callback):
    """A bar for each epoch with the metrics so far; without a terminal one line an epoch.

    `fit` shows one unless `verbose=False`. The bar is drawn where the standard error stream is a
    terminal. In a notebook and in a log file there is one line at the end of each epoch, with the
    number of steps, the time and the metrics: notebooks show it as output, log files get it from
    the standard error stream.
    """

    writes = True

    #: Before the others, so that their output comes after the bar of the epoch.
    order = -100

    def __init__(self) -> None:
        self._bar: tqdm[NoReturn] | None = None
        #: What is under way, such as "epoch 1/3"; None between two passes.
        self._text: str | None = None
        self._steps = 0
        self._started = 0.0
        self._shown = 0.0

    def _open(self, text: str, total: int | None, done: int = 0) -> None:
        self.close()
        self._text, self._steps, self._started = text, done, time.monotonic()
        if _is_terminal(sys.stderr):
            from tqdm import tqdm

            self._bar = tqdm(
                total=total,
                desc=text,
                initial=done,
                mininterval=_SHOWN_EVERY,
                dynamic_ncols=True,
                leave=True,
            )

    def _advance(self, logs: Logs) -> None:
        self._steps += 1
        if self._bar is None:
            return
        # Reading metrics waits for the device: they are read only when they are shown.
        now = time.monotonic()
        if now - self._shown >= _SHOWN_EVERY:
            self._shown = now
            self._show(self._bar, logs)

    def _show(self, bar: tqdm[NoReturn], logs: Logs) -> None:
        """Brings the bar up to date, with the metrics."""
        bar.set_postfix(_numbers(logs), refresh=False)
        bar.update(self._steps - bar.n)

    def _finish(self, logs: Logs) -> None:
        if self._text is None:
            return
        bar, stream = self._bar, _stream()
        if bar is not None:
            self._show(bar, logs)
            bar.total = bar.n
        elif stream is not None:
            steps = f"{self._steps} step" + "s" * (self._steps != 1)
            seconds = f"{time.monotonic() - self._started:.3g} s"
            values = [f"{name} {value}" for name, value in _numbers(logs).items()]
            print(f"{self._text}: {', '.join([steps, seconds, *values])}", file=stream, flush=True)
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
        if self._text is None:
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
        self._text = None
        if self._bar is not None:
            # After an error or Ctrl-C it has the steps until then.
            self._bar.update(self._steps - self._bar.n)
            self._bar.close()
            self._bar = None


def _is_terminal(stream: TextIO | None) -> bool:
    return bool(getattr(stream, "isatty", bool)())


def _stream() -> TextIO | None:
    """The stream for lines: a notebook shows the standard error stream in red, like errors."""
    return sys.stdout if "ipykernel" in sys.modules else sys.stderr


def _numbers(logs: Logs) -> dict[str, str]:
    return {
        name: f"{value:.4g}"
        for name, value in logs.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
