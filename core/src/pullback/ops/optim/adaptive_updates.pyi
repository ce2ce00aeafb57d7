"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__: list[str] = []

def rmsprop_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    learning_rate: TensorLike,
    *,
    rho: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
def rmsprop_momentum_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    mean: TensorLike,
    velocity: TensorLike,
    learning_rate: TensorLike,
    *,
    rho: float,
    epsilon: float,
    momentum: float,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def adagrad_update(
    parameter: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    learning_rate: TensorLike,
    *,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
def adadelta_update(
    parameter: TensorLike,
    gradient: TensorLike,
    mean_square: TensorLike,
    mean_change: TensorLike,
    learning_rate: TensorLike,
    *,
    rho: float,
    epsilon: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]: ...
def ftrl_update(
    parameter: TensorLike,
    gradient: TensorLike,
    accumulator: TensorLike,
    linear: TensorLike,
    learning_rate: TensorLike,
    *,
    power: float,
    l1: float = 0.0,
    l2: float = 0.0,
    beta: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]: ...
