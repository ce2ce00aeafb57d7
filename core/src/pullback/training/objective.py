"""`CompileConfig`: the optimizer, losses and metrics that a model is compiled with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from pullback import errors, losses
from pullback._dispatch.arguments import as_float
from pullback._dispatch.convert import from_any
from pullback._dispatch.recording import announce_call
from pullback._masked import Masked
from pullback.graph.function import Function, function
from pullback.metrics import Metric
from pullback.metrics.base import double, gives_items, item_weights, name_of
from pullback.ops import reductions
from pullback.ops.arithmetic import maximum
from pullback.ops.creation import full
from pullback.ops.reductions import mean
from pullback.ops.searching import argmax
from pullback.ops.selection import where
from pullback.ops.sets import unique_values
from pullback.optimizers import Optimizer
from pullback.tensor import Tensor
from pullback.training.naming import as_loss, as_metric, as_optimizer, unique
from pullback.training.types import LossLike, MetricsLike, Structure

if TYPE_CHECKING:
    from pullback.distributed.data_parallel import Sharing

__all__ = ["CompileConfig"]

#: The keys on the way to one output among several.
Path: TypeAlias = tuple[Any, ...]
#: The weights of losses, in their structure; 1 for those that are left out.
LossWeights: TypeAlias = "float | Mapping[Any, LossWeights] | Sequence[LossWeights] | None"


#: Losses of logits, and the op that they apply.
_APPLIED = (
    (losses.softmax_cross_entropy, "softmax"),
    (losses.sparse_softmax_cross_entropy, "softmax"),
    (losses.sigmoid_cross_entropy, "sigmoid"),
)


class CompileConfig:
    """The optimizer, the losses and the metrics of a model, made by `model.compile`."""

    opaque_state = True
    # The variables of the optimizer do not belong to the model.
    __slots__ = (
        "_captured", "capture", "losses", "metrics", "optimizer", "output_losses", "sharing",
    )  # fmt: skip

    def __init__(
        self,
        optimizer: Optimizer | str,
        loss: LossLike,
        loss_weights: LossWeights,
        metrics: MetricsLike,
        weighted_metrics: MetricsLike,
    ) -> None:
        self.optimizer = as_optimizer(optimizer)
        #: True if loops run captured steps.
        self.capture = False
        #: What divides batches among ranks; None for one process.
        self.sharing: Sharing | None = None
        self._captured: dict[str, Function[..., Any]] = {}
        #: For each output with a loss: its path, the loss, and the weight of the loss.
        self.losses = [
            (path, Loss(as_loss(part)), _weight_of(loss_weights, path))
            for path, part in _parts(loss)
        ]
        for path, _ in _parts(loss_weights):
            if all(path != other[: len(path)] for other, _, _ in self.losses):
                of = f"the output {path[-1]!r}, which has no loss" if path else "no loss"
                places = ", ".join(repr(other[-1]) for other, _, _ in self.losses if other)
                raise errors.InputValueError(
                    f"loss_weights has a weight for {of}; the losses are for "
                    f"{places or 'one output' if self.losses else 'no output'}"
                )
        #: For each metric the path of its output, its name, and whether it takes weights.
        self.metrics: list[tuple[Path, str, Metric, bool]] = []
        for structure, takes_weights in ((metrics, False), (weighted_metrics, True)):
            if isinstance(structure, list) and all(isinstance(x, list) for x in structure):
                structure = dict(enumerate(structure))  # by output, as losses in a list
            for path, part in _parts(structure, many=True):
                metric = as_metric(part)
                self.metrics.append((path, _name(path, metric.name), metric, takes_weights))
        #: True to log the loss of each output.
        self.output_losses = len(self.losses) > 1
        names = [_name(path, "loss") for path, _, _ in self.losses] if self.output_losses else []
        unique(["loss", *names, *(name for _, name, _, _ in self.metrics)])

    def __getstate__(self) -> dict[str, Any]:
        # Captured steps are those of one model in one process.
        return {name: getattr(self, name) for name in self.__slots__} | {"_captured": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def step(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a step of the model, captured if the model is compiled so.

        Args:
            method: the method of the model.
        """
        if not self.capture:
            return method
        kept = self._captured.get(method.__name__)
        if kept is None or kept.__wrapped__ != method:  # type: ignore[attr-defined]
            kept = self._captured[method.__name__] = function(method, strict=False)
        return kept

    @property
    def named_metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        return {name: metric for _, name, metric, _ in self.metrics}

    def loss_of(
        self, targets: Structure, predictions: Structure, weights: Structure, more: Iterable[Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the loss of a batch, and the losses of its outputs by name.

        Args:
            targets: the targets, in the structure of the losses.
            predictions: the outputs of the model.
            weights: the weights of the items: one array, or one for each output with a loss.
            more: losses that layers added.

        Raises:
            TrainingError: if there is nothing to minimize.
            InputValueError: if targets or predictions lack an output with a loss.
        """
        values: dict[str, Tensor] = {}
        total: Tensor | None = None
        plain = type(predictions) is not Masked and weights is None
        for path, loss, loss_weight in self.losses:
            if plain and not path:
                value = loss(targets, predictions, None)  # as below, in fewer calls
            else:
                value = loss(
                    *_without_mask(
                        _at(targets, path, "targets"),
                        _at(predictions, path, "predictions"),
                        _weights_at(weights, path),
                        loss.title,
                        for_mean=True,
                    )
                )
            if self.output_losses:
                values[_name(path, "loss")] = value
            value = value if loss_weight == 1 else value * loss_weight
            total = value if total is None else total + value
        for value in more:
            value = reductions.sum(value)
            total = value if total is None else total + value.astype(total.dtype)
        if total is None:
            raise errors.TrainingError(
                "there is nothing to minimize: give compile a loss, have a layer call add_loss, or "
                "write train_step, and test_step for validations"
            )
        return total, values

    def update_metrics(
        self, targets: Structure, predictions: Structure, weights: Structure
    ) -> None:
        """Updates the metrics with a batch."""
        if self.sharing is not None and self.metrics:
            targets, predictions, weights = self.sharing.whole((targets, predictions, weights))
        plain = type(predictions) is not Masked
        for path, _, metric, takes_weights in self.metrics:
            if plain and not path and (weights is None or not takes_weights):
                metric(targets, predictions)  # as below, in fewer calls
                continue
            *arguments, part = _without_mask(
                _at(targets, path, "targets"),
                _at(predictions, path, "predictions"),
                _weights_at(weights, path) if takes_weights else None,
                metric.name,
            )
            if part is not None:
                arguments.append(part)
            metric(*arguments)


class Loss:
    """A loss function, applied to items with weights."""

    opaque_state = True
    __slots__ = ("function", "itemwise", "title", "undoes")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        #: True if it can return a loss for each item.
        self.itemwise = gives_items(function)
        self.title = name_of(function)
        #: The op that the loss applies to predictions itself, until the first ones have been seen.
        self.undoes = next((op for loss, op in _APPLIED if loss is function), None)

    def __call__(self, targets: Structure, predictions: Structure, weights: Structure) -> Tensor:
        """Returns the mean loss of the items of a batch, each times its weight.

        Raises:
            InputValueError: for a batch without targets.
            InputTypeError: for weights with a loss that has no value for each item.
            ShapeError: for weights that do not fit the items.
        """
        if targets is None:
            raise errors.InputValueError(
                f"{self.title} needs targets, and the batch has none; pass y, or batches of "
                f"(inputs, targets)"
            )
        if self.undoes is not None:
            self._check(predictions, self.undoes)
        announce_call(self.function, self.title)
        if weights is None or not self.itemwise:
            value: Tensor = self.function(targets, predictions)
        else:
            value = self.function(targets, predictions, reduction="none")
        if not getattr(value, "ndim", 0):
            if weights is None:
                return value
            raise errors.InputTypeError(
                f"{self.title} returns one number for a batch, so weights cannot be applied; "
                f"return a loss for each item"
            )
        if weights is not None:
            factor = item_weights(weights, value.shape, self.title, value.device)
            value = value * factor.astype(value.dtype)
        return mean(value)

    def _check(self, predictions: Structure, applied: str) -> None:
        """Warns of predictions that are a result of the op that the loss applies."""
        node = getattr(predictions, "_node", None)
        op = getattr(getattr(node, "op", None), "name", None)
        if op is None:
            return  # recorded by no tape
        self.undoes = None
        if op == applied:
            warnings.warn(
                f"the model ends in {op}, and {self.title} takes logits, so that {op} is applied "
                f"twice: leave it out of the model, and write pb.{op}(model(x)) for probabilities",
                stacklevel=2,
            )


def by_class(targets: Structure, class_weight: Mapping[int, float], weights: Structure) -> Tensor:
    """Returns the weights of items by class, times their own weights.

    Args:
        targets: class numbers, or one-hot rows of floating-point numbers (items, classes).
        class_weight: the weight of each class; 1 for classes that are left out.
        weights: the weights of the items, or None.

    Raises:
        InputValueError: for targets that are not classes.
    """
    tensor = classes_of(targets)
    factor = full(tensor.shape, 1.0, dtype="float32", device=tensor.device)
    for number, weight in class_weight.items():
        factor = where(tensor == number, float(weight), factor)
    if weights is None:
        return factor
    own: Tensor = item_weights(weights, factor.shape, "class_weight", factor.device)
    return factor * own


def classes_of(targets: Structure) -> Tensor:
    """Returns targets as class numbers.

    Raises:
        InputValueError: for several outputs.
    """
    if isinstance(targets, (dict, tuple)) or targets is None:
        raise errors.InputValueError(
            "class_weight is for one array of targets; for several outputs use sample_weight"
        )
    tensor: Tensor = from_any(targets)
    if tensor.dtype.kind not in "iub":
        if tensor.ndim == 2 and tensor.shape[1] > 1:
            tensor = argmax(tensor, axis=-1)
        tensor = tensor.astype("int32")
    return tensor


class UnseenClasses:
    """The classes of `class_weight` that no target has had yet."""

    opaque_state = True

    def __init__(self, class_weight: Mapping[int, float]) -> None:
        if not isinstance(class_weight, Mapping):
            raise errors.InputTypeError(
                f"class_weight must be a dict of weights by class, such as {{0: 1.0, 1: 5.0}}, got "
                f"{type(class_weight).__name__}"
            )
        self._unseen = set(class_weight)
        self._seen: set[int] = set()

    def see(self, targets: Structure) -> None:
        """Takes note of the classes of a batch."""
        if self._unseen:
            self._seen |= set(unique_values(classes_of(targets)).tolist())
            self._unseen -= self._seen

    def check(self) -> None:
        """Raises if a class has not been seen.

        Raises:
            InputValueError: it names the class, and the classes of the targets.
        """
        if self._unseen:
            classes = sorted(self._seen)
            shown = ", ".join(map(str, classes[:10])) + (", ..." if len(classes) > 10 else "")
            raise errors.InputValueError(
                f"class_weight has a weight for {', '.join(map(repr, self._unseen))}, and the "
                f"targets have the classes {shown}; leave out those that are not there"
            )


# ---------------------------------------------------------------------------------------------
# Several outputs.


def _parts(
    structure: Structure, path: Path = (), *, many: bool = False
) -> Iterator[tuple[Path, Any]]:
    """Yields the leaves of a structure, with the keys on the way."""
    if structure is None:
        return
    if isinstance(structure, Mapping):
        for key, value in structure.items():
            yield from _parts(value, (*path, key), many=many)
    elif isinstance(structure, (list, tuple)):
        for number, value in enumerate(structure):
            # A list of metrics belongs to one output, a list of losses to several.
            yield from _parts(value, path if many else (*path, number), many=many)
    else:
        yield path, structure


def _at(structure: Structure, path: Path, kind: str) -> Structure:
    for key in path:
        try:
            structure = structure[key]
        except (KeyError, IndexError, TypeError):
            parts = (
                ", ".join(map(repr, structure))
                if isinstance(structure, Mapping)
                else f"{len(structure)} parts"
                if isinstance(structure, (list, tuple))
                else "one array"
            )
            raise errors.InputValueError(
                f"compile got a loss or metric for the output {key!r}, and the {kind} of this "
                f"batch have {parts}; use the names or numbers of the outputs"
            ) from None
    return structure


def _without_mask(
    targets: Structure,
    predictions: Structure,
    weights: Structure,
    name: str,
    *,
    for_mean: bool = False,
) -> tuple[Structure, Structure, Structure]:
    """The values of `Masked` predictions, and weights that leave out the steps of padding.

    With `for_mean` they make the mean over all steps that over those which exist. Labels of padding
    may be any number, such as -1: they become 0.
    """
    if type(predictions) is not Masked:
        return targets, predictions, weights
    values, mask = predictions
    labels = None if targets is None else from_any(targets)
    if labels is not None and labels.shape == mask.shape and labels.dtype.kind in "iu":
        targets = where(mask, labels, 0)
    factor = double(mask)
    if for_mean:
        factor = factor * (mask.size / maximum(reductions.sum(factor), 1))
    if weights is not None:
        factor = item_weights(weights, mask.shape, name, mask.device) * factor
    return targets, values, factor


def _weights_at(weights: Structure, path: Path) -> Structure:
    if isinstance(weights, (Mapping, tuple)) and path:
        return _at(weights, path, "weights") if path[0] in _keys(weights) else None
    return weights


def _keys(structure: Structure) -> Container[object]:
    return structure if isinstance(structure, Mapping) else range(len(structure))


def _weight_of(loss_weights: LossWeights, path: Path) -> float:
    weight: Structure = loss_weights
    for key in path:
        if weight is None:
            break
        try:
            weight = weight[key]
        except (KeyError, IndexError):
            weight = None
        except TypeError:
            raise errors.InputTypeError(
                f"loss_weights has a {type(weight).__name__} for several losses; give each a weight"
            ) from None
    return 1.0 if weight is None else as_float(weight, "a weight in loss_weights")


def _name(path: Path, name: str) -> str:
    return "_".join([*map(str, path), name])
