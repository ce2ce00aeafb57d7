"""Signatures for callers; written by tools/stubs.py."""

from pullback.tensor import Tensor, TensorLike

__all__ = ["ctc_beam_search"]

def ctc_beam_search(
    logits: TensorLike,
    logit_lengths: TensorLike,
    *,
    beam_width: int = 100,
    top_paths: int = 1,
    blank: int = 0,
) -> tuple[Tensor, Tensor, Tensor]: ...
