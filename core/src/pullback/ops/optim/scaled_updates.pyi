"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__: list[str] = []

def lamb_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
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
    decay: float,
    epsilon: float,
    least: float,
    threshold: float,
) -> tuple[Tensor, Tensor, Tensor]: ...
def adafactor_vector_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    decay: float,
    epsilon: float,
    least: float,
    threshold: float,
) -> tuple[Tensor, Tensor]: ...
