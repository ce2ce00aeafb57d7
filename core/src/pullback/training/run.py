"""`Run`: the progress and the metrics of one call of `fit`, `evaluate` or `predict`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pullback.metrics import Mean, Metric
from pullback.state import Stateful
from pullback.training.batches import Batches
from pullback.training.callback import Callback, History
from pullback.training.types import Values

__all__ = ["LazyLogs", "Run", "RunningMetrics", "plain"]


def plain(value: object) -> Any:
    """Converts tensors, variables and NumPy's numbers to Python's; returns other values."""
    convert = getattr(value, "tolist", None)
    return value if convert is None else convert()


class LazyLogs(Mapping[str, Any]):
    """Metrics by name, each computed when it is read.

    Args:
        sources: the metrics, which may become more.
        prefix: what names begin with.
    """

    opaque_state = True
    __slots__ = ("_prefix", "_sources")

    def __init__(self, *sources: Mapping[str, Metric], prefix: str = "") -> None:
        self._sources = sources
        self._prefix = prefix

    def __getitem__(self, name: str) -> Any:
        if name.startswith(self._prefix):
            inner = name.removeprefix(self._prefix)
            for source in reversed(self._sources):
                if inner in source:
                    return plain(source[inner].result())
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys(name for source in self._sources for name in source)
        return (self._prefix + name for name in names)

    def __len__(self) -> int:
        return len({name for source in self._sources for name in source})

    def __repr__(self) -> str:
        return repr(dict(self))


class RunningMetrics:
    """The metrics of one pass: means of the values of the steps, then the metrics themselves."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = dict(metrics)
        self.means: dict[str, Mean] = {}
        #: The logs of these means, by their prefix: a step takes them from here.
        self._logs: dict[str, LazyLogs] = {}

    def reset(self) -> None:
        """Starts over."""
        self.means, self._logs = {}, {}
        for metric in self.metrics.values():
            metric.reset()

    def add(self, values: Values | None, size: int) -> None:
        """Adds the values of a step for a batch of `size` items."""
        for name, value in (values or {}).items():
            mean = self.means.get(name)
            if mean is None:
                mean = self.means[name] = Mean(name)
            mean(value, size)

    def logs(self, prefix: str = "") -> LazyLogs:
        """Returns the metrics by name, as they are when they are read."""
        logs = self._logs.get(prefix)
        if logs is None:
            logs = self._logs[prefix] = LazyLogs(self.means, self.metrics, prefix=prefix)
        return logs

    def checkpoint_state(self) -> dict[str, Any]:
        """Returns the sums so far."""
        return {
            "means": {name: dict(mean.checkpoint_state()) for name, mean in self.means.items()},
            "metrics": {
                name: dict(metric.checkpoint_state()) for name, metric in self.metrics.items()
            },
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        self.means, self._logs = {name: Mean(name) for name in state["means"]}, {}
        for name, saved in state["means"].items():
            self.means[name].restore_state(saved)
        for name, saved in state["metrics"].items():
            if name in self.metrics:
                self.metrics[name].restore_state(saved)


class Run:
    """The progress of a run. Its state is everything in a checkpoint besides model and optimizer.

    Callbacks have it as `self.run`.
    """

    opaque_state = True

    def __init__(self, epochs: int, metrics: RunningMetrics) -> None:
        #: The number of epochs, and of those that are done.
        self.epochs = epochs
        self.epoch = 0
        #: The number of steps done in this epoch, and of all its steps if it is known.
        self.step = 0
        self.steps: int | None = None
        #: The number of steps done in all epochs.
        self.total = 0
        #: True if training ended before the last epoch.
        self.stopped = False
        self.history = History()
        self.metrics = metrics
        self.data: Batches | None = None
        self.validation: Batches | None = None
        self.callbacks: list[Callback] = []

    def _parts(self) -> Iterator[tuple[str, Stateful]]:
        parts: dict[str, Stateful | None] = {
            "scores": self.metrics,
            "history": self.history,
            "data": self.data,
            "validation": self.validation,
        }
        for name, part in parts.items():
            if part is not None:
                yield name, part
        numbers: dict[str, int] = {}
        for callback in self.callbacks:
            if callback is not self.history and isinstance(callback, Stateful):
                kind = type(callback).__name__
                numbers[kind] = number = numbers.get(kind, 0) + 1
                yield f"callbacks/{kind}/{number}", callback

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Returns the progress, and the state of every part."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "total": self.total,
            "stopped": self.stopped,
            "parts": {name: dict(part.checkpoint_state()) for name, part in self._parts()},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`; parts that were not saved stay as they are."""
        self.epoch, self.step = int(state["epoch"]), int(state["step"])
        self.total, self.stopped = int(state["total"]), bool(state["stopped"])
        for name, part in self._parts():
            if name in state["parts"]:
                part.restore_state(state["parts"][name])
