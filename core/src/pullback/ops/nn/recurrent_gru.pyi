"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["gru"]

def gru(
    x: TensorLike,
    initial_h: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    bias: TensorLike | None = None,
    recurrent_bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    *,
    reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Tensor, Tensor]: ...
def gru_gradient(
    x: TensorLike,
    initial_h: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    mask: TensorLike | None,
    out: TensorLike,
    gates: TensorLike,
    candidates: TensorLike,
    out_g: TensorLike,
    h_g: TensorLike,
    *,
    reverse: bool = False,
    reset_after: bool = True,
) -> tuple[Tensor, ...]: ...
