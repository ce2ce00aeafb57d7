"""Optimizers, losses and metrics by their names, for `model.compile("adam", ...)`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from pullback import errors, losses, metrics, optimizers
from pullback.metrics import Metric
from pullback.optimizers import Optimizer
from pullback.tensor import TensorLike

__all__ = ["as_loss", "as_metric", "as_optimizer"]


def _plain(name: str) -> str:
    """A name as it is compared: "sparse_categorical_accuracy" is SparseCategoricalAccuracy."""
    return name.lower().replace("_", "")


def _found(what: str, name: str, named: dict[str, Any]) -> Any:
    by_plain = {_plain(one): value for one, value in named.items()}
    if _plain(name) not in by_plain:
        lower = {one.lower(): one for one in named}
        close = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, 3)]
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise errors.InputValueError(
            f"there is no {what} {name!r}; " + (hint or f"there are {', '.join(sorted(named))}")
        )
    return by_plain[_plain(name)]


def _classes(module: Any, base: type) -> dict[str, Any]:
    found = {name: getattr(module, name) for name in module.__all__}
    return {
        name: value
        for name, value in found.items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    }


def as_optimizer(given: Any) -> Optimizer:
    """An optimizer, or one by its name with its own settings.

    Raises:
        InputValueError: for a name that is none.
        InputTypeError: for anything else.
    """
    if isinstance(given, str):
        made: Optimizer = _found("optimizer", given, _classes(optimizers, Optimizer))()
        return made
    if inspect.isclass(given) or not hasattr(given, "minimize"):
        raise errors.InputTypeError(
            f"optimizer is one of pb.optimizers, or the name of one, got {given!r}"
            + ("; call it: pb.optimizers.Adam(0.001)" if inspect.isclass(given) else "")
        )
    optimizer: Optimizer = given
    return optimizer


def as_loss(given: Any) -> Callable[..., Any]:
    """A function of targets and predictions, or one of `pb.losses` by its name.

    Raises:
        InputValueError: for a name that is none.
        InputTypeError: for what is no function.
    """
    if isinstance(given, str):
        named = {name: getattr(losses, name) for name in losses.__all__}
        function: Callable[..., Any] = _found("loss", given, named)
        return function
    if not callable(given):
        raise errors.InputTypeError(
            f"a loss is a function of targets and predictions, got {type(given).__name__}"
        )
    called: Callable[..., Any] = given
    return called


def as_metric(given: Any) -> Metric:
    """A metric, one by its name, or the mean of a function of targets and predictions.

    "accuracy" is the one that fits the first batch.

    Raises:
        InputValueError: for a name that is none.
        InputTypeError: for anything else.
    """
    if isinstance(given, str):
        if given.lower() == "accuracy":
            return FittingAccuracy()
        made: Metric = _found("metric", given, _classes(metrics, Metric))()
        return made
    if isinstance(given, Metric):
        return given
    if inspect.isclass(given) or not callable(given):
        raise errors.InputTypeError(
            f"metrics are of pb.metrics, their names, or functions of targets and predictions, "
            f"got {given!r}" + ("; call it" if inspect.isclass(given) else "")
        )
    return metrics.MeanOf(given)


class FittingAccuracy(Metric):
    """How often predictions are right; the shapes of the first batch decide what that means.

    Classes by number are held against the largest score, one-hot rows against the place of theirs,
    and numbers 0 and 1 against scores by a threshold of 0.5.
    """

    def __init__(self, name: str | None = None) -> None:
        self._chosen: Metric | None = None
        super().__init__("accuracy" if name is None else name)

    def reset(self) -> None:
        """Begins anew."""
        if self._chosen is not None:
            self._chosen.reset()

    def update(
        self, targets: TensorLike, predictions: Any, weights: TensorLike | None = None
    ) -> None:
        """Takes a batch into account."""
        if self._chosen is None:
            self._chosen = self._choose(getattr(targets, "shape", ()), predictions.shape)
        self._chosen.update(targets, predictions, weights)

    def _choose(self, targets: tuple[int, ...], predictions: tuple[int, ...]) -> Metric:
        if targets != predictions:
            return metrics.SparseCategoricalAccuracy(self.name)
        if len(predictions) > 1 and predictions[-1] > 1:
            return metrics.CategoricalAccuracy(self.name)
        return metrics.BinaryAccuracy(name=self.name)

    def result(self) -> Any:
        """The share that is right; 0 before there is any."""
        return 0.0 if self._chosen is None else self._chosen.result()

    def checkpoint_state(self) -> dict[str, Any]:
        """What has been gathered, and of which kind."""
        if self._chosen is None:
            return {"kind": None, "state": {}}
        return {
            "kind": type(self._chosen).__name__,
            "state": dict(self._chosen.checkpoint_state()),
        }

    def restore_state(self, state: Any) -> None:
        """Takes over what `checkpoint_state` gave."""
        kind = state["kind"]
        self._chosen = None if kind is None else getattr(metrics, kind)(name=self.name)
        if self._chosen is not None:
            self._chosen.restore_state(state["state"])


def unique(names: Iterable[str]) -> None:
    """Refuses two figures of one name.

    Raises:
        InputValueError: names the one that is there twice.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise errors.InputValueError(
                f"two figures are called {name!r}; give one of the metrics another name"
            )
        seen.add(name)
