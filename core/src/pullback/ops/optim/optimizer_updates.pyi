"""Signatures for callers; written by tools/stubs.py."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pullback._dispatch.definition import OpFunction
from pullback.dtypes import DTypeRule
from pullback.tensor import Tensor, TensorLike

__all__: list[str] = []

def stored(slots: int) -> DTypeRule: ...

P = ParamSpec("P")
R = TypeVar("R")
Tensors = TypeVar("Tensors", bound="tuple[Tensor, ...]")

def update(*slots: str, numbers: int = 0) -> Callable[[Callable[P, R]], OpFunction[P, R]]: ...
def rounded(values: Tensors, olds: Tensors) -> Tensors: ...
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
    momentum: float,
    nesterov: bool = False,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
def moments(
    g: Tensor, m: Tensor, v: Tensor, beta1: float, beta2: float
) -> tuple[Tensor, Tensor]: ...
def bias_correction(beta: float, step: Tensor) -> Tensor | float: ...
def adam_update(
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
def amsgrad_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    v: TensorLike,
    v_max: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
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
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
def adamax_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    u: TensorLike,
    learning_rate: TensorLike,
    step: TensorLike,
    *,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lion_update(
    parameter: TensorLike,
    gradient: TensorLike,
    m: TensorLike,
    learning_rate: TensorLike,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor]: ...
