"""Signatures for callers; written by tools/stubs.py."""

from typing import TypeAlias

from pullback.tensor import Tensor, TensorLike

__all__ = ["attention_weights", "scaled_dot_product_attention"]
Window: TypeAlias = "tuple[int | None, int | None] | None"

def check_causal(length: int, others: int, name: str = "is_causal") -> None: ...
def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    window: Window = None,
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
    softcap: float | None = None,
    window: Window = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def attention_weights(
    query: TensorLike,
    key: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float | None = None,
    window: Window = None,
) -> Tensor: ...
