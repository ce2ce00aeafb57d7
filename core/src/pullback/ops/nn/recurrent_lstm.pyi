"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["lstm"]

def lstm(
    x: TensorLike,
    initial_h: TensorLike,
    initial_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_gradient(
    x: TensorLike,
    initial_h: TensorLike,
    initial_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    mask: TensorLike | None,
    out: TensorLike,
    gates: TensorLike,
    cells: TensorLike,
    out_g: TensorLike,
    h_g: TensorLike,
    c_g: TensorLike,
    *,
    reverse: bool = False,
) -> tuple[Tensor, ...]: ...
