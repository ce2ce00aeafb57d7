"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["adafactor_update", "adafactor_vector_update", "lamb_update"]

def lamb_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-06,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]: ...
def adafactor_update(
    parameter: TensorLike,
    gradient: TensorLike,
    rows: TensorLike,
    columns: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    decay: float = 0.8,
    epsilon: float = 1e-30,
    least: float = 0.001,
    threshold: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]: ...
def adafactor_vector_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    decay: float = 0.8,
    epsilon: float = 1e-30,
    least: float = 0.001,
    threshold: float = 1.0,
) -> tuple[Tensor, Tensor]: ...
