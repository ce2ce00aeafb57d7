"""Checks of shapes, weights and reductions that losses share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from pullback import errors
from pullback._dispatch.convert import from_any, from_any_beside
from pullback.ops.reductions import mean
from pullback.ops.reductions import sum as reduce_sum
from pullback.shapes import broadcast_shapes, check_choice
from pullback.tensor import Tensor, TensorLike

__all__ = ["Reduction", "elementwise", "of_one_shape", "reduced"]

#: "mean" divides the sum by the number of items; "none" returns the losses of the items.
Reduction: TypeAlias = Literal["mean", "sum", "none"]

REDUCTIONS = ("mean", "sum", "none")


def reduced(name: str, losses: Tensor, weights: TensorLike | None, reduction: Reduction) -> Tensor:
    """Returns the losses of items with their weights, and reduced.

    Raises:
        ShapeError: for weights that do not broadcast to the losses.
        InputValueError: for an unknown reduction.
    """
    check_choice(reduction, f"{name}: reduction", REDUCTIONS)
    if weights is not None:
        weights = from_any_beside(weights, losses)
        if broadcast_shapes(weights.shape, losses.shape) != losses.shape:
            raise errors.ShapeError(
                f"{name}: weights of shape {weights.shape} do not broadcast to losses of shape "
                f"{losses.shape}"
            )
        losses = losses * weights.astype(losses.dtype)
    if reduction == "none":
        return losses
    return mean(losses) if reduction == "mean" else reduce_sum(losses)


def of_one_shape(
    name: str, targets: TensorLike, predictions: TensorLike, called: str = "targets and predictions"
) -> tuple[Tensor, Tensor]:
    """Returns targets and predictions as tensors.

    Raises:
        ShapeError: for shapes that differ.
    """
    predictions = from_any(predictions)
    targets = from_any_beside(targets, predictions)
    if targets.shape != predictions.shape:
        # Broadcasting (n,) with (n, 1) to (n, n) would give a wrong loss without an error.
        raise errors.ShapeError(
            f"{name}: {called} must have one shape, got {targets.shape} and {predictions.shape}; "
            f"reshape one of them"
        )
    return targets, predictions


def elementwise(
    name: str,
    op: Callable[[Tensor, Tensor], Tensor],
    targets: TensorLike,
    predictions: TensorLike,
    weights: TensorLike | None,
    reduction: Reduction,
) -> Tensor:
    """Returns a loss that is an op of predictions and targets in one shape.

    Raises:
        ShapeError: for shapes that differ, or weights that do not fit.
        InputValueError: for an unknown reduction.
    """
    targets, predictions = of_one_shape(name, targets, predictions)
    return reduced(name, op(predictions, targets), weights, reduction)
