"""`Run`: one call of `fit`, `evaluate` or `predict`: where it is, and its figures so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pullback.metrics import Mean, Metric
from pullback.tensor import Tensor
from pullback.training.batches import Batches
from pullback.training.callback import Callback, History

__all__ = ["Figures", "Run", "plain"]


def plain(value: Any) -> Any:
    """A figure as Python numbers, where it is a tensor."""
    return value.tolist() if isinstance(value, Tensor) else value


class Figures(Mapping[str, Any]):
    """Figures by name, each computed when it is read."""

    __slots__ = ("_sources",)

    def __init__(self, sources: Mapping[str, Callable[[], Any]]) -> None:
        self._sources = sources

    def __getitem__(self, name: str) -> Any:
        return plain(self._sources[name]())

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def __len__(self) -> int:
        return len(self._sources)

    def __repr__(self) -> str:
        return repr(dict(self))


class Scores:
    """The figures of one pass: means of what the steps gave, then the metrics."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self.metrics = dict(metrics)
        self.means: dict[str, Mean] = {}

    def reset(self) -> None:
        """Begins anew."""
        self.means = {}
        for metric in self.metrics.values():
            metric.reset()

    def add(self, values: Mapping[str, Any] | None, size: int) -> None:
        """Takes what a step gave for a batch of so many items into account."""
        for name, value in (values or {}).items():
            mean = self.means.get(name)
            if mean is None:
                mean = self.means[name] = Mean(name)
            mean(value, size)

    def figures(self, prefix: str = "") -> Figures:
        """What they are now."""
        found: dict[str, Callable[[], Any]] = {}
        for name, source in (*self.means.items(), *self.metrics.items()):
            found[prefix + name] = source.result
        return Figures(found)

    def checkpoint_state(self) -> dict[str, Any]:
        """What has been gathered."""
        return {
            "means": {name: dict(mean.checkpoint_state()) for name, mean in self.means.items()},
            "metrics": {
                name: dict(metric.checkpoint_state()) for name, metric in self.metrics.items()
            },
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave."""
        self.means = {name: Mean(name) for name in state["means"]}
        for name, saved in state["means"].items():
            self.means[name].restore_state(saved)
        for name, saved in state["metrics"].items():
            if name in self.metrics:
                self.metrics[name].restore_state(saved)


class Run:
    """Where a run of training is. Its state is all of a checkpoint that is not the model's.

    Callbacks find it as `self.run`.
    """

    opaque_state = True

    def __init__(self, epochs: int, scores: Scores) -> None:
        #: How many epochs there are to be, and how many are done.
        self.epochs = epochs
        self.epoch = 0
        #: How many steps of this epoch are done, and how many it has, where that is known.
        self.step = 0
        self.steps: int | None = None
        #: How many steps have been taken in all epochs.
        self.total = 0
        #: Whether training was ended before the last epoch.
        self.stopped = False
        self.history = History()
        self.scores = scores
        self.data: Batches | None = None
        self.validation: Batches | None = None
        self.callbacks: list[Callback] = []

    def _parts(self) -> Iterator[tuple[str, Any]]:
        parts = {
            "scores": self.scores,
            "history": self.history,
            "data": self.data,
            "validation": self.validation,
        }
        for name, part in parts.items():
            if part is not None:
                yield name, part
        numbers: dict[str, int] = {}
        for callback in self.callbacks:
            if hasattr(callback, "checkpoint_state") and callback is not self.history:
                kind = type(callback).__name__
                numbers[kind] = number = numbers.get(kind, 0) + 1
                yield f"callbacks/{kind}/{number}", callback

    def checkpoint_state(self) -> Mapping[str, Any]:
        """Where it is, and the state of everything in it."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "total": self.total,
            "stopped": self.stopped,
            "parts": {name: dict(part.checkpoint_state()) for name, part in self._parts()},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `checkpoint_state` gave; what was not saved stays as it is."""
        self.epoch, self.step = int(state["epoch"]), int(state["step"])
        self.total, self.stopped = int(state["total"]), bool(state["stopped"])
        for name, part in self._parts():
            if name in state["parts"]:
                part.restore_state(state["parts"][name])
