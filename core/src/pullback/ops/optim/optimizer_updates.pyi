"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pullback._dispatch.definition import OpFunction
from pullback.dtypes import DTypeRule
from pullback.tensor import Tensor, TensorLike

__all__ = [
    "adam_update",
    "adamax_update",
    "amsgrad_update",
    "lion_update",
    "momentum_update",
    "nadam_update",
    "sgd_update",
]

def stored(slots: int) -> DTypeRule: ...

P = ParamSpec("P")
R = TypeVar("R")

def update(*slots: str, numbers: int = 0) -> Callable[[Callable[P, R]], OpFunction[P, R]]: ...
def sgd_update(
    parameter: TensorLike,
    gradient: TensorLike,
    learning_rate: TensorLike,
    *,
    weight_decay: float = 0.0,
) -> Tensor: ...
def decayed(parameter: Tensor, gradient: Tensor, weight_decay: float) -> Tensor: ...
def momentum_update(
    parameter: TensorLike,
    gradient: TensorLike,
    velocity: TensorLike,
    learning_rate: TensorLike,
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
def moments(
    g: Tensor, m: Tensor, v: Tensor, beta1: float, beta2: float
) -> tuple[Tensor, Tensor]: ...
def share(beta: float, step: Tensor) -> TensorLike: ...
def adam_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]: ...
def amsgrad_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    v_max: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def nadam_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    total: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
    momentum_decay: float = 0.004,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def adamax_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    u: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-07,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lion_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    learning_rate: TensorLike,
    *,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
