"""Optimizers, losses and metrics by name, for `model.compile("adam", ...)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

from pullback import _hints, errors, losses, metrics, optimizers
from pullback._dispatch.host_state import HostState
from pullback.metrics import Metric
from pullback.optimizers import Optimizer
from pullback.tensor import Tensor, TensorLike

__all__ = ["as_loss", "as_metric", "as_optimizer"]

T = TypeVar("T")


def _plain(name: str) -> str:
    """Returns a name for comparison: "sparse_categorical_accuracy" is SparseCategoricalAccuracy."""
    return name.lower().replace("_", "")


#: Usual names that are short for others.
USUAL = {
    "mse": "mean_squared_error",
    "mae": "mean_absolute_error",
    "rmse": "root_mean_squared_error",
    "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error",
    "kld": "kl_divergence",
    "nll": "negative_log_likelihood",
    "acc": "accuracy",
    "f1": "f1_score",
}


def _look_up(module: ModuleType, kind: str, name: str, named: Mapping[str, T]) -> T:
    by_plain = {_plain(known): value for known, value in named.items()}
    plain = _plain(USUAL.get(name.lower(), name))
    if plain not in by_plain:
        advice = _hints.advice(module.__name__, name, named)
        raise errors.InputValueError(
            f"unknown {kind} {name!r}; " + (advice or f"there are {', '.join(sorted(named))}")
        )
    return by_plain[plain]


def _public(module: ModuleType) -> dict[str, Any]:
    return {name: getattr(module, name) for name in module.__all__}


def _classes(module: ModuleType, base: type[T]) -> dict[str, type[T]]:
    return {
        name: value
        for name, value in _public(module).items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    }


def as_optimizer(optimizer: Optimizer | str) -> Optimizer:
    """Returns an optimizer; for a name one with its default settings.

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for anything else.
    """
    if isinstance(optimizer, str):
        makers: dict[str, Callable[[], Optimizer]] = {**_classes(optimizers, Optimizer)}
        return _look_up(optimizers, "optimizer", optimizer, makers)()
    if inspect.isclass(optimizer) or not hasattr(optimizer, "minimize"):
        raise errors.InputTypeError(
            f"optimizer must be one of pb.optimizers, or its name, got {optimizer!r}"
            + ("; call it: pb.optimizers.Adam(0.001)" if inspect.isclass(optimizer) else "")
        )
    return optimizer


def as_loss(loss: Callable[..., Tensor] | str) -> Callable[..., Tensor]:
    """Returns a loss function; for a name one of `pb.losses`.

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for an object that cannot be called.
    """
    if isinstance(loss, str):
        functions: dict[str, Callable[..., Tensor]] = _public(losses)
        return _look_up(losses, "loss", loss, functions)
    if not callable(loss):
        raise errors.InputTypeError(
            f"a loss must be a function of targets and predictions, or its name, got "
            f"{type(loss).__name__}"
        )
    return loss


def as_metric(metric: Metric | Callable[..., Any] | str) -> Metric:
    """Returns a metric: itself, by its name, or the mean of a function of targets and predictions.

    "accuracy" is the accuracy that fits the first batch.

    Raises:
        InputValueError: for an unknown name.
        InputTypeError: for anything else.
    """
    if isinstance(metric, str):
        if metric.lower() in ("accuracy", "acc"):
            return FittingAccuracy()
        return _look_up(metrics, "metric", metric, _classes(metrics, Metric))()
    if isinstance(metric, Metric):
        return metric
    if inspect.isclass(metric) or not callable(metric):
        raise errors.InputTypeError(
            f"metrics must be of pb.metrics, names, or functions of targets and predictions, "
            f"got {metric!r}" + ("; call it" if inspect.isclass(metric) else "")
        )
    return metrics.MeanOf(metric)


class FittingAccuracy(Metric):
    """The fraction of correct predictions; the shapes of the first batch decide how they compare.

    Class numbers and one-hot rows are compared with the largest score, the numbers 0 and 1 with
    scores by a threshold of 0.5.
    """

    def __init__(self, name: str | None = None) -> None:
        self._kind = HostState(None, "the kind of an accuracy")
        super().__init__("accuracy" if name is None else name)

    @property
    def _chosen(self) -> Metric | None:
        chosen: Metric | None = self._kind.get()
        return chosen

    def reset(self) -> None:
        """Starts over."""
        if self._chosen is not None:
            self._chosen.reset()

    def update(
        self, targets: TensorLike, predictions: Tensor, weights: TensorLike | None = None
    ) -> None:
        """Updates the metric with a batch."""
        chosen = self._chosen
        if chosen is None:
            chosen = self._choose(getattr(targets, "shape", ()), predictions.shape)
            self._kind.set(chosen)
        chosen.update(targets, predictions, weights)

    def _choose(self, targets: tuple[int, ...], predictions: tuple[int, ...]) -> Metric:
        if targets != predictions:
            return metrics.SparseCategoricalAccuracy(self.name)
        if len(predictions) > 1 and predictions[-1] > 1:
            return metrics.CategoricalAccuracy(self.name)
        return metrics.BinaryAccuracy(name=self.name)

    def result(self) -> Tensor | float:
        """Returns the fraction of correct predictions; 0 without data."""
        if self._chosen is None:
            return 0.0
        fraction: Tensor | float = self._chosen.result()
        return fraction

    def checkpoint_state(self) -> dict[str, Any]:
        """Returns the sums so far, and the kind of the accuracy."""
        if self._chosen is None:
            return {"kind": None, "state": {}}
        return {"kind": type(self._chosen).__name__, "state": dict(self._chosen.checkpoint_state())}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restores a state from `checkpoint_state`."""
        kind = state["kind"]
        if kind is None:
            self._kind.set(None)
        elif type(self._chosen).__name__ != kind:
            self._kind.set(getattr(metrics, kind)(name=self.name))
        if self._chosen is not None:
            self._chosen.restore_state(state["state"])


def unique(names: Iterable[str]) -> None:
    """Checks that no two metrics have the same name.

    Raises:
        InputValueError: if they have; gives the name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise errors.InputValueError(
                f"two metrics are called {name!r}; give one of them another name"
            )
        seen.add(name)
