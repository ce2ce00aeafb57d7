"""Signatures for callers; written by tools/stubs.py."""

from typing import Literal

from pullback.ops.nn.windows import DataFormat, Sizes
from pullback.tensor import Tensor, TensorLike

__all__ = ["non_max_suppression", "roi_align"]

def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    groups: TensorLike | None = None,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
    max_boxes: int | None = None,
) -> Tensor: ...
def roi_align(
    x: TensorLike,
    boxes: TensorLike,
    batch_indices: TensorLike,
    output_size: Sizes,
    *,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = True,
    reduction: Literal["mean", "max"] = "mean",
    data_format: DataFormat = "channels_last",
) -> Tensor: ...
