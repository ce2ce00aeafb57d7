"""Signatures for callers; written by tools/stubs.py."""

from pullback.shapes import Axes, Axis
from pullback.tensor import Tensor, TensorLike

__all__ = ["argsort", "median", "quantile", "sort", "top_k"]

def argsort(
    x: TensorLike, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True
) -> Tensor: ...
def sort(
    x: TensorLike, /, axis: Axis = -1, *, descending: bool = False, stable: bool = True
) -> Tensor: ...
def top_k(
    x: TensorLike, /, k: int, axis: Axis = -1, *, largest: bool = True
) -> tuple[Tensor, Tensor]: ...

_SPACED = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
METHODS = (
    *_SPACED,
    *("inverted_cdf", "averaged_inverted_cdf", "closest_observation"),
    *("lower", "higher", "midpoint", "nearest"),
)

def place(level: float, count: int, method: str) -> tuple[int, float]: ...
def quantile(
    x: TensorLike,
    /,
    q: float | tuple[float, ...],
    axis: Axes = None,
    *,
    keepdims: bool = False,
    method: str = "linear",
) -> Tensor: ...
def median(x: TensorLike, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor: ...
