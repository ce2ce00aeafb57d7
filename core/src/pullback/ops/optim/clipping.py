"""Clipping of gradients by their norms."""

from __future__ import annotations

from collections.abc import Sequence

from pullback import errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_list
from pullback._dispatch.convert import from_any
from pullback.dtypes import real_floating
from pullback.ops.exponential import sqrt
from pullback.ops.precision import narrowed, widened
from pullback.ops.reductions import sum
from pullback.ops.selection import where
from pullback.shapes import Axes, first
from pullback.spec import ACCUMULATED
from pullback.tensor import Tensor, TensorLike

__all__ = ["clip_by_global_norm", "clip_by_norm", "global_norm"]


@op(shape=first, dtype=real_floating, accuracy=ACCUMULATED)
def clip_by_norm(x: Tensor, /, max_norm: float, *, axis: Axes = None) -> Tensor:
    """x scaled down if its Euclidean norm over `axis` exceeds max_norm (Pascanu et al., 2013).

    Args:
        x: real floating values.
        max_norm: the largest allowed norm.
        axis: the axes of the vectors; all if None.

    >>> pb.clip_by_norm([3.0, 4.0], max_norm=1.0).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    wide = widened(x)
    square = sum(wide * wide, axis=axis, keepdims=True)
    large = square > max_norm * max_norm
    # The root is taken of large numbers only: it has no derivative at 0.
    norm = sqrt(where(large, square, 1))
    return narrowed(wide * where(large, max_norm / norm, 1), x)


def global_norm(tensors: Sequence[TensorLike | None]) -> Tensor:
    """The Euclidean norm of all elements of all tensors; None is skipped.

    >>> pb.global_norm([[3.0], None, [4.0]]).item()
    5.0
    """
    total: Tensor | None = None
    for value in as_list(tensors, "tensors", "tensors"):
        if value is not None:
            wide = widened(from_any(value))
            square = sum(wide * wide)
            total = square if total is None else total + square.to(total.device)
    return from_any(0.0) if total is None else sqrt(total)


def clip_by_global_norm(
    tensors: Sequence[TensorLike | None], max_norm: float, *, norm: TensorLike | None = None
) -> tuple[list[Tensor | None], Tensor]:
    """Tensors scaled down together if their global norm exceeds max_norm (Pascanu et al.).

    Args:
        tensors: gradients; None stays None.
        max_norm: the largest allowed norm.
        norm: `global_norm(tensors)`, if it is known.

    Returns:
        The tensors and their norm. If the norm is infinite or NaN, the tensors become NaN.

    >>> clipped, norm = pb.clip_by_global_norm([[3.0], None, [4.0]], 1.0)
    >>> clipped[1], norm.item()
    (None, 5.0)

    Raises:
        InputValueError: for a max_norm that is negative or NaN.
    """
    if isinstance(max_norm, (int, float)) and not max_norm >= 0:
        raise errors.InputValueError(f"max_norm must be 0 or more, got {max_norm}")
    several = as_list(tensors, "tensors", "tensors")
    length = global_norm(several) if norm is None else from_any(norm)
    limit = max_norm if isinstance(max_norm, (int, float)) else from_any(max_norm)
    large = length > limit
    factor = where(large, limit / where(large, length, 1), 1)
    # NaN is not > max_norm, but must not pass as small; inf - inf is NaN too.
    factor = factor + (length - length)
    clipped: list[Tensor | None] = []
    for value in several:
        if value is None:
            clipped.append(None)
            continue
        tensor = from_any(value)
        clipped.append(narrowed(tensor * factor.to(tensor.device), tensor))
    return clipped, length
