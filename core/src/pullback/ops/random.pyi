"""Signatures for callers; written by tools/stubs.py."""

from pullback.devices import DeviceLike
from pullback.dtypes import DType, DTypeLike, uint32
from pullback.shapes import ShapeLike
from pullback.tensor import Tensor, TensorLike

__all__ = ["dropout", "random_bits", "random_normal", "random_uniform"]

def words_of(size: int, dtype: DType) -> int: ...
def check_state(key: int, counter: int) -> None: ...
def random_bits(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike = uint32,
    device: DeviceLike | None = None,
) -> Tensor: ...
def random_uniform(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def random_normal(
    shape: ShapeLike,
    *,
    key: int,
    counter: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
) -> Tensor: ...
def dropout(
    x: TensorLike,
    *,
    rate: float,
    key: int,
    counter: int,
    noise_shape: tuple[int | None, ...] | None = None,
) -> Tensor: ...
