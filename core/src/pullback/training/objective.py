"""What a model is compiled with: an optimizer, losses of its outputs, and metrics of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pullback import errors
from pullback._dispatch.convert import from_any
from pullback.metrics import Metric
from pullback.metrics.base import gives_items, item_weights, name_of
from pullback.ops import reductions
from pullback.ops.creation import full
from pullback.ops.reductions import mean
from pullback.ops.searching import argmax
from pullback.ops.selection import where
from pullback.training.naming import as_loss, as_metric, as_optimizer, unique

__all__ = ["Compiled"]

#: The keys on the way to one output among several.
Path = tuple[Any, ...]


class Compiled:
    """The optimizer, the losses and the metrics of a model. Made by `model.compile`."""

    # Without a __dict__ a walk over the model passes it over: variables of the optimizer are none
    # of the model's.
    __slots__ = ("losses", "metrics", "optimizer", "output_losses")

    def __init__(
        self, optimizer: Any, loss: Any, loss_weights: Any, metrics: Any, weighted_metrics: Any
    ) -> None:
        self.optimizer = as_optimizer(optimizer)
        #: For each output that has one: the way to it, the loss, and what it counts.
        self.losses = [
            (path, Loss(as_loss(part)), _share_of(loss_weights, path))
            for path, part in _parts(loss)
        ]
        #: For each metric the way to its output, its name, and whether it is given weights.
        self.metrics: list[tuple[Path, str, Metric, bool]] = []
        for given, takes_weights in ((metrics, False), (weighted_metrics, True)):
            for path, part in _parts(given, many=True):
                metric = as_metric(part)
                self.metrics.append((path, _name(path, metric.name), metric, takes_weights))
        #: Whether the losses of outputs are figures of their own.
        self.output_losses = len(self.losses) > 1
        names = [_name(path, "loss") for path, _, _ in self.losses] if self.output_losses else []
        unique(["loss", *names, *(name for _, name, _, _ in self.metrics)])

    @property
    def named_metrics(self) -> dict[str, Metric]:
        """The metrics by the names of their figures."""
        return {name: metric for _, name, metric, _ in self.metrics}

    def loss_of(
        self, targets: Any, predictions: Any, weights: Any, more: list[Any]
    ) -> tuple[Any, dict[str, Any]]:
        """The loss of a batch, and those of its outputs by name.

        Args:
            targets: what should come out, in the structure of the losses.
            predictions: what came out.
            weights: of the items; one array, or one for each output that has a loss.
            more: losses that layers added.

        Raises:
            TrainingError: when there is nothing to minimize.
            InputValueError: when targets or predictions lack an output that has a loss.
        """
        figures: dict[str, Any] = {}
        total: Any = None
        for path, loss, share in self.losses:
            value = loss(
                _at(targets, path, "targets"),
                _at(predictions, path, "predictions"),
                _weights_at(weights, path),
            )
            if self.output_losses:
                figures[_name(path, "loss")] = value
            value = value if share == 1 else value * share
            total = value if total is None else total + value
        for value in more:
            value = reductions.sum(value)
            total = value if total is None else total + value.astype(total.dtype)
        if total is None:
            raise errors.TrainingError(
                "there is nothing to minimize: give compile a loss, or have a layer call add_loss"
            )
        return total, figures

    def update_metrics(self, targets: Any, predictions: Any, weights: Any) -> None:
        """Takes a batch into account."""
        for path, _, metric, takes_weights in self.metrics:
            arguments = [_at(targets, path, "targets"), _at(predictions, path, "predictions")]
            part = _weights_at(weights, path) if takes_weights else None
            if part is not None:
                arguments.append(part)
            metric(*arguments)


class Loss:
    """A function of targets and predictions, and what weights do to it."""

    __slots__ = ("function", "itemwise", "title")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        #: Whether it can be asked for the losses of the items.
        self.itemwise = gives_items(function)
        self.title = name_of(function)

    def __call__(self, targets: Any, predictions: Any, weights: Any) -> Any:
        """The mean loss of the items of a batch, each times its weight.

        Raises:
            InputValueError: for a batch without targets.
            InputTypeError: for weights where the loss has no value for each item.
            ShapeError: for weights that do not fit the items.
        """
        if targets is None:
            raise errors.InputValueError(
                f"{self.title} compares predictions with targets, and the batch has none; give "
                f"y, or batches of (inputs, targets)"
            )
        if weights is None or not self.itemwise:
            value = self.function(targets, predictions)
        else:
            value = self.function(targets, predictions, reduction="none")
        if not getattr(value, "ndim", 0):
            if weights is None:
                return value
            raise errors.InputTypeError(
                f"{self.title} gives one number for a batch, which weights cannot be applied to; "
                f"have it give a loss for each item"
            )
        if weights is not None:
            factor = item_weights(weights, value.shape, self.title, value.device)
            value = value * factor.astype(value.dtype)
        return mean(value)


def by_class(targets: Any, class_weight: Mapping[int, float], weights: Any) -> Any:
    """Weights of items by their classes, times those they have.

    Args:
        targets: classes by number, or one-hot rows of floating numbers (items, classes).
        class_weight: for each class what it counts; those left out count 1.
        weights: of the items, or None.

    Raises:
        InputValueError: for targets in which there are no classes.
    """
    if isinstance(targets, (dict, tuple)) or targets is None:
        raise errors.InputValueError(
            "class_weight is for one array of targets; for several outputs give sample_weight"
        )
    tensor = from_any(targets)
    if tensor.dtype.kind not in "iub":
        if tensor.ndim == 2 and tensor.shape[1] > 1:
            tensor = argmax(tensor, axis=-1)
        tensor = tensor.astype("int32")
    factor = full(tensor.shape, 1.0, dtype="float32", device=tensor.device)
    for number, share in class_weight.items():
        factor = where(tensor == number, float(share), factor)
    if weights is None:
        return factor
    return factor * item_weights(weights, factor.shape, "class_weight", factor.device)


# ---------------------------------------------------------------------------------------------
# Several outputs.


def _parts(structure: Any, path: Path = (), *, many: bool = False) -> Iterator[tuple[Path, Any]]:
    """What stands at the ends of a structure, with the keys on the way."""
    if structure is None:
        return
    if isinstance(structure, Mapping):
        for key, value in structure.items():
            yield from _parts(value, (*path, key), many=many)
    elif isinstance(structure, (list, tuple)):
        for number, value in enumerate(structure):
            # Several metrics are of one output, several losses of several.
            yield from _parts(value, path if many else (*path, number), many=many)
    else:
        yield path, structure


def _at(structure: Any, path: Path, what: str) -> Any:
    for key in path:
        try:
            structure = structure[key]
        except (KeyError, IndexError, TypeError):
            there = (
                ", ".join(map(repr, structure))
                if isinstance(structure, Mapping)
                else f"{len(structure)} parts"
                if isinstance(structure, (list, tuple))
                else "one array"
            )
            raise errors.InputValueError(
                f"compile was given a loss or metric for the output {key!r}, and the {what} of "
                f"this batch have {there}"
            ) from None
    return structure


def _weights_at(weights: Any, path: Path) -> Any:
    if isinstance(weights, (Mapping, tuple)) and path:
        return _at(weights, path, "weights") if path[0] in _keys(weights) else None
    return weights


def _keys(structure: Any) -> Any:
    return structure if isinstance(structure, Mapping) else range(len(structure))


def _share_of(loss_weights: Any, path: Path) -> float:
    for key in path:
        if loss_weights is None:
            break
        try:
            loss_weights = loss_weights[key]
        except (KeyError, IndexError):
            loss_weights = None
    return 1.0 if loss_weights is None else float(loss_weights)


def _name(path: Path, name: str) -> str:
    return "_".join([*map(str, path), name])
