"""Signatures for callers; written by tools/stubs.py."""

from typing import Any

from pullback.dtypes import Operands, Resolution
from pullback.shapes import Axes, Axis, Shape
from pullback.tensor import Tensor, TensorLike

__all__ = ["group_norm", "instance_norm", "layer_norm", "rms_norm"]

def check_parameter(name: str, shape: Shape | None, expected: Shape) -> None: ...
def parameter_along(parameter: Tensor, x: Shape, axes: Any) -> Tensor: ...
def other_axes(x: Shape, axes: Any) -> tuple[int, ...]: ...
def layer_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Axes = -1,
    epsilon: float = 1e-05,
) -> Tensor: ...
def affine(y: Tensor, scale: Tensor | None, offset: Tensor | None, axis: Axes) -> Tensor: ...
def gradient_dtypes(operands: Operands, **_: object) -> Resolution: ...
def layer_norm_gradient(
    x: TensorLike,
    scale: TensorLike | None,
    center: TensorLike,
    spread: TensorLike,
    g: TensorLike,
    *,
    axis: Axes = -1,
) -> tuple[Tensor, Tensor, Tensor]: ...
def rms_norm(
    x: TensorLike, scale: TensorLike | None = None, *, axis: Axes = -1, epsilon: float = 1e-05
) -> Tensor: ...
def rms_norm_gradient(
    x: TensorLike, scale: TensorLike | None, spread: TensorLike, g: TensorLike, *, axis: Axes = -1
) -> tuple[Tensor, Tensor]: ...
def group_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    groups: int,
    axis: Axis = -1,
    epsilon: float = 1e-05,
) -> Tensor: ...
def group_norm_gradient(
    x: TensorLike,
    scale: TensorLike | None,
    g: TensorLike,
    *,
    groups: int,
    axis: Axis = -1,
    epsilon: float = 1e-05,
) -> tuple[Tensor, Tensor, Tensor]: ...
def instance_norm(
    x: TensorLike,
    scale: TensorLike | None = None,
    offset: TensorLike | None = None,
    *,
    axis: Axis = -1,
    epsilon: float = 1e-05,
) -> Tensor: ...
