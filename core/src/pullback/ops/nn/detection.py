"""Boxes in images: which of several to keep, and what is in each."""

from __future__ import annotations

import math
from typing import Any, Literal

from pullback import dtypes, errors
from pullback._dispatch import op
from pullback._dispatch.arguments import as_float
from pullback.dtypes import Operands, Resolution, int64
from pullback.ops.arithmetic import clip, maximum, minimum
from pullback.ops.creation import arange, full
from pullback.ops.indexing import index_dtype, take
from pullback.ops.logical import logical_not
from pullback.ops.manipulation import expand_dims, reshape
from pullback.ops.nn.sampling import sampled
from pullback.ops.nn.windows import (
    DataFormat,
    Sizes,
    channels_back,
    channels_last,
    check_format,
    sizes,
)
from pullback.ops.precision import narrowed, places_on, widened
from pullback.ops.reductions import all, any, max, sum
from pullback.ops.rounding import ceil
from pullback.ops.searching import argwhere
from pullback.ops.selection import where
from pullback.ops.sorting import argsort
from pullback.shapes import Shape, as_int, channels_of, check_choice, image_shape, spatial_of
from pullback.spec import ACCUMULATED, EXACT
from pullback.tensor import Tensor

__all__ = ["non_max_suppression", "roi_align"]


def _kept(boxes: Shape, scores: Shape, groups: Shape | None, **_: object) -> None:
    """A vector whose length depends on the values."""
    if len(boxes) != 2 or boxes[1] != 4 or scores != boxes[:1] or groups not in (None, scores):
        raise errors.ShapeError(
            f"boxes must be (n, 4), scores and groups (n,); got {boxes}, {scores} and {groups}"
        )


def _boxes_and_groups(operands: Operands, **_: object) -> Resolution:
    """Boxes and scores in one real floating dtype, groups in an integer dtype; indices in int64."""
    inputs, _outputs = dtypes.real_floating(operands[:2])
    groups = operands[2]
    return Resolution((*inputs, None if groups is None else index_dtype(groups)), (int64,))


def _limits(
    shapes: tuple[Any, ...], *, iou_threshold: Any, score_threshold: Any, max_boxes: Any
) -> dict[str, Any]:
    _kept(*shapes)
    threshold = as_float(iou_threshold, "iou_threshold")
    if not 0 <= threshold <= 1:
        raise errors.InputValueError(f"iou_threshold must be in [0, 1], got {threshold}")
    least = None if score_threshold is None else as_float(score_threshold, "score_threshold")
    most = None if max_boxes is None else as_int(max_boxes, "an integer max_boxes")
    if most is not None and most < 0:
        raise errors.InputValueError(f"max_boxes must not be negative, got {most}")
    return {"iou_threshold": threshold, "score_threshold": least, "max_boxes": most}


@op(
    shape=_kept,
    dtype=_boxes_and_groups,
    accuracy=EXACT,
    normalize=_limits,
    differentiable=False,
)
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    groups: Tensor | None = None,
    *,
    iou_threshold: float = 0.5,
    score_threshold: float | None = None,
    max_boxes: int | None = None,
) -> Tensor:
    """The boxes that overlap with no kept box of a higher score (Dalal and Triggs, 2005).

    Boxes are taken in the order of their scores; of equal scores the first comes first. A box is
    kept if its intersection with each one kept before is at most `iou_threshold` of their union.

    Args:
        boxes: (n, 4): two opposite corners each, (x1, y1, x2, y2) or (y1, x1, y2, x2).
        scores: (n,).
        groups: integers (n,), such as classes or images: boxes of different ones do not suppress
            each other. One group if not given.
        iou_threshold: from 0 to 1.
        score_threshold: only boxes with a higher score are taken; all if not given.
        max_boxes: the largest number of boxes; all if not given.

    Returns:
        The int64 indices of the boxes that are kept, in the order of their scores. How many there
        are depends on the values.

    Raises:
        ShapeError: for other shapes.
        InputValueError: for numbers out of range.

    >>> boxes = [[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 1.8], [5.0, 5.0, 6.0, 6.0]]
    >>> pb.non_max_suppression(boxes, [0.6, 0.9, 0.3]).tolist()
    [1, 2]
    """
    order = argsort(scores, descending=True)
    if score_threshold is not None:
        order = take(order, _where(take(scores, order) > score_threshold))
    corners = take(widened(boxes), order)
    low, high = minimum(corners[:, :2], corners[:, 2:]), maximum(corners[:, :2], corners[:, 2:])
    over = _overlaps(low, high, iou_threshold)
    rank = arange(order.shape[0], device=order.device)
    over = over & (expand_dims(rank, 1) < rank)
    if groups is not None:
        group = take(groups, order)
        over = over & (expand_dims(group, 1) == group)
    # A box is decided one step after all that come before it and overlap with it.
    keep = full(rank.shape, True, device=order.device)
    while True:
        after = logical_not(any(over & expand_dims(keep, 1), axis=0))
        if bool(all(after == keep)):
            break
        keep = after
    kept = take(order, _where(keep))
    return kept if max_boxes is None else kept[:max_boxes]


def _where(condition: Tensor) -> Tensor:
    return argwhere(condition)[:, 0]


def _overlaps(low: Tensor, high: Tensor, threshold: float) -> Tensor:
    """For each pair of boxes, whether their intersection is more than a part of their union."""
    sides = []
    for axis in range(2):
        a, b = low[:, axis], high[:, axis]
        side = minimum(expand_dims(b, 1), b) - maximum(expand_dims(a, 1), a)
        sides.append(maximum(side, 0))
    shared = sides[0] * sides[1]
    extent = high - low
    area = extent[:, 0] * extent[:, 1]
    return shared > (expand_dims(area, 1) + area - shared) * threshold


def _aligned_shape(
    x: Shape, boxes: Shape, indices: Shape, *, output_size: Shape, data_format: str, **_: object
) -> Shape:
    """For each box an image of the requested sizes."""
    if len(x) != 4 or len(boxes) != 2 or boxes[1] != 4 or indices != boxes[:1]:
        raise errors.ShapeError(
            f"x must be images (batch, height, width, channels), boxes (n, 4) and batch_indices "
            f"(n,); got {x}, {boxes} and {indices}"
        )
    if 0 in spatial_of(x, data_format):
        raise errors.ShapeError(f"images of shape {x} have no pixels")
    return image_shape(boxes[0], output_size, channels_of(x, data_format), data_format)


def _image_boxes(operands: Operands, **_: object) -> Resolution:
    """x and boxes in real floating dtypes of their own, indices; the result has the dtype of x."""
    x, boxes, index = operands
    assert index is not None
    found = [dtypes.real_floating((one,)).inputs[0] for one in (x, boxes)]
    assert found[0] is not None
    return Resolution((*found, index_dtype(index)), (found[0],))


def _aligning(
    shapes: tuple[Any, ...], *, output_size: Any, spatial_scale: Any, sampling_ratio: Any,
    aligned: Any, reduction: str, data_format: str,
) -> dict[str, Any]:  # fmt: skip
    check_format(data_format)
    check_choice(reduction, "reduction", ("mean", "max"))
    size = sizes(output_size, 2, "output_size")
    _aligned_shape(*shapes, output_size=size, data_format=data_format)
    ratio = as_int(sampling_ratio, "an integer sampling_ratio")
    if ratio < 0:
        raise errors.InputValueError(f"sampling_ratio must not be negative, got {ratio}")
    how = {"aligned": bool(aligned), "reduction": reduction, "data_format": data_format}
    scale = as_float(spatial_scale, "spatial_scale")
    return {"output_size": size, "spatial_scale": scale, "sampling_ratio": ratio, **how}


# ACCUMULATED: means of weighted sums that may cancel.
@op(shape=_aligned_shape, dtype=_image_boxes, accuracy=ACCUMULATED, normalize=_aligning)
def roi_align(
    x: Tensor,
    boxes: Tensor,
    batch_indices: Tensor,
    output_size: Sizes,
    *,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = True,
    reduction: Literal["mean", "max"] = "mean",
    data_format: DataFormat = "channels_last",
) -> Tensor:
    """The contents of boxes in images, resized to one size (He et al., 2017, Mask R-CNN).

    A box is divided into `output_size` cells. A cell is the mean of points in it, or the largest
    of them, and a point is interpolated between four pixels. More than a pixel outside of the image
    there are zeros. The gradient goes to the boxes too, except through their number of points.

    Args:
        x: images (batch, height, width, channels).
        boxes: (n, 4), each (x1, y1, x2, y2) in the coordinates of the original images.
        batch_indices: integers (n,), the image of each box.
        output_size: height and width of the result, one number or a pair.
        spatial_scale: the size of x over that of the original images.
        sampling_ratio: the number of points along each axis of a cell; 0 for as many as the cell
            has pixels, rounded up, which depends on the values.
        aligned: True if coordinates count from the edge of the first pixel; False if from its
            center, with boxes of one pixel at least, as older detectors have it.
        reduction: "mean" or "max" of the points of a cell, 0 for one without points. ONNX's
            reference takes the largest of pixels times their weights instead.
        data_format: "channels_last" or "channels_first".

    Returns:
        A tensor (n, *output_size, channels).

    Raises:
        ShapeError: for other shapes.
        IndexingError: for an index outside the batch.

    >>> x = pb.reshape(pb.arange(16.0), (1, 4, 4, 1))
    >>> pb.roi_align(x, [[0.0, 0.0, 4.0, 4.0]], [0], 2).tolist()
    [[[[2.5], [4.5]], [[10.5], [12.5]]]]
    """
    images, corners = widened(channels_last(x, data_format)), widened(boxes) * spatial_scale
    if aligned:
        corners = corners - 0.5
    batch, count = images.shape[0], corners.shape[0]
    items = take(arange(batch, dtype=places_on(x.device), device=x.device), batch_indices)
    places, weights, valid, counted = [], [], [], []
    for axis, (cells, pixels) in enumerate(zip(output_size, images.shape[1:3], strict=True)):
        begin, extent = corners[:, 1 - axis], corners[:, 3 - axis] - corners[:, 1 - axis]
        cell = (extent if aligned else maximum(extent, 1)) / cells
        points: Any = sampling_ratio
        most = sampling_ratio
        if not sampling_ratio:
            points = maximum(ceil(cell), 0)
            most = (int(max(points)) if count else 0) or 1
        at, within = _steps(cells, begin), (_steps(most, begin) + 0.5)
        share = reshape(maximum(points, 1), (-1, 1)) if not sampling_ratio else points
        found = _column(begin, 2) + _column(cell, 2) * (
            reshape(at, (1, -1, 1)) + expand_dims(expand_dims(within, 0) / share, 1)
        )
        there = (found >= -1) & (found <= pixels)
        # (n, cells, points), with axes of size 1 for those of the other dimension.
        shape = (count, cells, 1, most, 1) if axis == 0 else (count, 1, cells, 1, most)
        if not sampling_ratio:
            is_point = (expand_dims(within, 0) < _column(points, 1))[:, None, :]
            there = there & is_point
            counted.append(reshape(is_point, (count, 1, 1, *shape[3:])))
        places.append(reshape(clip(found, 0, pixels - 1), shape))
        valid.append(reshape(there, shape))
        weights.append(share if sampling_ratio else reshape(share, (count, 1, 1)))
    values = sampled(images, places, 1, "nearest", items=_column(items, 4))
    inside = expand_dims(valid[0] & valid[1], -1)
    values = where(inside, values, 0)
    if reduction == "max":
        return narrowed(channels_back(_largest(values, counted), data_format), x)
    total = sum(values, axis=(3, 4))
    number = weights[0] * weights[1]
    y = total / (number if sampling_ratio else expand_dims(number, -1))
    return narrowed(channels_back(y, data_format), x)


def _largest(values: Tensor, counted: list[Tensor]) -> Tensor:
    """The largest of the points of each cell: of those that count, where not all do."""
    if not counted:
        return max(values, axis=(3, 4))
    is_point = expand_dims(counted[0] & counted[1], -1)
    found = max(where(is_point, values, -math.inf), axis=(3, 4))
    return where(any(is_point, axis=(3, 4)), found, 0)


def _steps(count: int, like: Tensor) -> Tensor:
    return arange(count, dtype=like.dtype, device=like.device)


def _column(x: Tensor, axes: int) -> Tensor:
    """A vector with axes of size 1 behind it."""
    return reshape(x, (-1, *[1] * axes))
