"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["ctc_loss"]

def ctc_loss(
    logits: TensorLike,
    labels: TensorLike,
    logit_lengths: TensorLike,
    label_lengths: TensorLike,
    *,
    blank: int = 0,
) -> Tensor: ...
def ctc_loss_gradient(
    logits: TensorLike,
    labels: TensorLike,
    logit_lengths: TensorLike,
    label_lengths: TensorLike,
    g: TensorLike,
    *,
    blank: int = 0,
) -> Tensor: ...
