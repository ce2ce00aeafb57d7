"""Signatures for callers; written by tools/stubs.py."""

from typing import Any, Literal, TypeAlias

from pullback.ops.nn.windows import DataFormat, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["affine_grid", "grid_sample", "map_coordinates", "resample"]
Method: TypeAlias = Literal["nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"]
Coordinates: TypeAlias = Literal[
    "half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "half_pixel_or_first",
    "crop",
]
Aspect: TypeAlias = Literal["stretch", "not_larger", "not_smaller"]
Rounding: TypeAlias = Literal["half_up", "half_down", "down", "up"]
Outside: TypeAlias = Literal["constant", "nearest", "wrap", "mirror", "reflect"]

def resample(
    x: TensorLike,
    size: Sizes | None = None,
    *,
    method: Method = "bicubic",
    antialias: bool = False,
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "half_up",
    cubic: float = -0.5,
    exclude_outside: bool = True,
    scale: Sizes | None = None,
    aspect: Aspect = "stretch",
    box: Any = None,
    fill_value: float = 0.0,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def sampled(
    x: Tensor,
    places: list[Tensor],
    batch_dims: int,
    mode: str,
    fill: float = 0.0,
    near: Any = None,
    items: Tensor | None = None,
) -> Tensor: ...
def map_coordinates(
    x: TensorLike,
    coordinates: TensorLike,
    *,
    order: Literal[0, 1] = 1,
    mode: Outside = "constant",
    fill_value: float = 0.0,
    batch_dims: int = 0,
) -> Tensor: ...
def grid_sample(
    x: TensorLike,
    grid: TensorLike,
    *,
    method: Literal["bilinear", "nearest"] = "bilinear",
    padding: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
def affine_grid(theta: TensorLike, size: Sizes, *, align_corners: bool = False) -> Tensor: ...
