"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["scaled_dot_product_attention"]

def check_causal(length: int, others: int) -> None: ...
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor: ...
def scaled_dot_product_attention_gradient(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None,
    out: TensorLike,
    normalizer: TensorLike,
    g: TensorLike,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
