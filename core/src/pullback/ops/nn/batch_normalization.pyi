"""Signatures for callers; written by tools/stubs.py."""

from pullback.shapes import Axis
from pullback.tensor import Tensor, TensorLike

__all__ = ["batch_norm", "batch_norm_inference"]

def batch_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 0.001,
) -> tuple[Tensor, Tensor, Tensor]: ...
def batch_norm_gradient(
    x: TensorLike,
    scale: TensorLike | None,
    mean: TensorLike,
    variance: TensorLike,
    g: TensorLike,
    mean_g: TensorLike,
    variance_g: TensorLike,
    *,
    axis: Axis = -1,
    epsilon: float = 0.001,
) -> tuple[Tensor, Tensor, Tensor]: ...
def batch_norm_inference(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 0.001,
) -> Tensor: ...
